/* The exit status of --check and --print-config. */
#include "main/config_report.h"
#include "tempfile.h"
#include "unit.h"

#define USABLE "[databases]\napp = host=127.0.0.1\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = /tmp\nauth_type = any\n"

static struct options options_for(const char *text)
{
	return (struct options){ .file = temp_write("report.ini", text) };
}

TEST(valid_configuration_is_reported)
{
	struct options options = options_for(USABLE);

	CHECK_INT(config_report_print(&options), 0);
	/* a process of root needs a user to become */
	if (geteuid() != 0)
		CHECK_INT(config_report_check(&options), 0);
}

TEST(invalid_configuration_fails_both)
{
	struct options options = options_for(USABLE "default_pool_size = many\n");

	CHECK_INT(config_report_check(&options), 1);
	CHECK_INT(config_report_print(&options), 1);
}

TEST(missing_file_fails_both)
{
	struct options options = { .file = "/nowhere/pgweir.ini" };

	CHECK_INT(config_report_check(&options), 1);
	CHECK_INT(config_report_print(&options), 1);
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
