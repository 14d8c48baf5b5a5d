/* The exit status of --check and --print-config. */
#include "main/action.h"
#include "tempfile.h"
#include "unit.h"

#define USABLE "[databases]\napp = host=127.0.0.1\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = /tmp\nauth_type = any\n"

static int run(enum options_action action, const char *file)
{
	const struct options options = { .action = action, .file = file };

	return action_run(&options);
}

TEST(valid_configuration_is_reported)
{
	const char *file = temp_write("report.ini", USABLE);

	CHECK_INT(run(OPTIONS_PRINT_CONFIG, file), 0);
	/* a process of root needs a user to become */
	if (geteuid() != 0)
		CHECK_INT(run(OPTIONS_CHECK, file), 0);
}

TEST(invalid_configuration_fails_both)
{
	const char *file = temp_write("report.ini", USABLE "default_pool_size = many\n");

	CHECK_INT(run(OPTIONS_CHECK, file), 1);
	CHECK_INT(run(OPTIONS_PRINT_CONFIG, file), 1);
}

TEST(missing_file_fails_both)
{
	CHECK_INT(run(OPTIONS_CHECK, "/nowhere/pgweir.ini"), 1);
	CHECK_INT(run(OPTIONS_PRINT_CONFIG, "/nowhere/pgweir.ini"), 1);
}

TEST(daemon_requires_a_pidfile_and_a_log)
{
	struct options options = { .daemon = true };
	struct settings settings = { .pidfile = NULL };

	CHECK(config_lacks_for_daemon(&options, &settings));
	settings.pidfile = "/run/pgweir.pid";
	CHECK(config_lacks_for_daemon(&options, &settings));
	settings.syslog = true;
	CHECK(!config_lacks_for_daemon(&options, &settings));
	options.daemon = false;
	settings.pidfile = NULL;
	CHECK(!config_lacks_for_daemon(&options, &settings));
}

UNIT_MAIN
