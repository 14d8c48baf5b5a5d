/*
 * --check and --print-config: check and print the configuration without a start.
 */
#include "main/config_report.h"

#include "auth/secrets_check.h"
#include "conf/access.h"
#include "main/precheck.h"
#include "session/tls_setup.h"

#include <stdio.h>

static void print_problems(const struct conf_problems *problems)
{
	for (size_t i = 0; i < problems->count; i++) {
		const struct conf_problem *p = &problems->items[i];

		if (p->file && p->line > 0)
			printf("%s:%d: ", p->file, p->line);
		else if (p->file)
			printf("%s: ", p->file);
		printf("%s%s\n", p->is_warning ? "warning: " : "", p->text);
	}
}

bool config_lacks_for_daemon(const struct options *options, const struct settings *s)
{
	return options->daemon && (!s->pidfile || (!s->logfile && !s->syslog));
}

/* Whether a database keeps the state of sessions in transaction or statement mode. */
static bool has_session_state(const struct conf *conf)
{
	const struct settings *s = &conf->settings;

	if (conf->fallback && s->pool_mode != MODE_SESSION && s->session_state == STATE_FULL)
		return true;
	for (size_t i = 0; i < conf->database_count; i++) {
		const struct conf_database *d = conf->databases[i];

		if ((d->pool_mode == CONF_UNSET ? s->pool_mode : d->pool_mode) != MODE_SESSION &&
		    (d->session_state == CONF_UNSET ? s->session_state : d->session_state) == STATE_FULL)
			return true;
	}
	return false;
}

int config_report_check(const struct options *options)
{
	struct conf_problems problems = { .count = 0 };
	struct conf *conf = conf_load(options->file, &problems);
	struct tls_context *client = NULL, *server = NULL;
	struct userlist *users;
	int status;

	if (conf) {
		precheck_user(options->user ? options->user : conf->settings.user, &problems);
		precheck_start(&conf->settings, &problems);
		if (config_lacks_for_daemon(options, &conf->settings))
			conf_problem_add(&problems, false, NULL, 0, LACKS_FOR_DAEMON, options->file);
		conf_read_rules(conf, NULL, false, &problems);
		access_check(conf, options->user ? options->user : conf->settings.user, &problems);
		tls_setup_both(&client, &server, &conf->settings, false, &problems);
		users = conf->settings.auth_file ? userlist_load(conf->settings.auth_file, &problems) : NULL;
		secrets_check(conf, users, &problems);
		if (users)
			userlist_free(&users);
	}
	print_problems(&problems);
	if (conf && has_session_state(conf))
		printf("%s: session_state is full: clients of transaction and statement mode have a session state of their own (off: as in PgBouncer)\n",
		       options->file);
	status = conf && problems.errors == 0 ? 0 : 1;
	printf("%s: %s\n", options->file, status == 0 ? "the configuration is usable" : "the configuration is not usable");
	if (client)
		tls_context_drop(&client);
	if (server)
		tls_context_drop(&server);
	if (conf)
		conf_drop(&conf);
	conf_problems_free(&problems);
	return status;
}

int config_report_print(const struct options *options)
{
	struct conf_problems problems = { .count = 0 };
	struct conf *conf = conf_load(options->file, &problems);
	char value[1024];

	if (!conf) {
		print_problems(&problems);
		conf_problems_free(&problems);
		return 1;
	}
	printf("[pgweir]\n");
	for (size_t i = 0; i < setting_rows(); i++)
		printf("%s = %s\n", setting_row(i)->name, setting_value_shown(&conf->settings, i, value, sizeof(value)));
	conf_drop(&conf);
	conf_problems_free(&problems);
	return 0;
}
