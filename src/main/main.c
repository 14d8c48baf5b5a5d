/*
 * pgweir: a PostgreSQL connection pooler.
 *
 * The start: command line, configuration, process (background, user, limits, pidfile), then the
 * world, its sockets and its console; then the event loop until the end. Errors are reported before
 * the process announces that it is up, with every problem listed; after that, a faulty
 * configuration changes nothing.
 */
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/service.h"
#include "base/version.h"
#include "conf/check.h"
#include "conf/value.h"
#include "main/action.h"
#include "main/daemon.h"
#include "main/options.h"
#include "main/top.h"
#include "main/turn.h"
#include "net/loop_memory.h"
#include "verify/child.h"
#include "web/web.h"

#include <ares.h>
#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define INHERITED_MOST 64		/* maximum number of sockets from systemd */
#define OWN_DESCRIPTORS 64		/* log, epoll, DNS, listening sockets and similar */
/* maximum number of descriptors that loop_memory has room for */
#define DESCRIPTORS_MOST (1L << 20)

/* The environment of the start. */
struct start {
	const int *fds;			/* sockets from systemd */
	size_t fd_count;
	struct taker *taker;		/* the process to be replaced; NULL: no process */
	struct pidfile **pidfile;	/* the pidfile; with a taker, set by the handover */
};

static struct options options;
static struct pooler pooler;

/* ---- configuration ---- */

static void log_problems(const struct conf_problems *problems)
{
	for (size_t i = 0; i < problems->count; i++) {
		const struct conf_problem *p = &problems->items[i];
		enum log_level level = p->is_warning && !p->is_about_tls ? LEVEL_WARNING
									 : LEVEL_ERROR;

		/* alerts match the beginning of the line */
		if (p->is_about_tls && p->file && p->line > 0)
			log_write(level, "%s (%s:%d)", p->text, p->file, p->line);
		else if (p->is_about_tls && p->file)
			log_write(level, "%s (%s)", p->text, p->file);
		else if (p->file && p->line > 0)
			log_write(level, "%s:%d: %s", p->file, p->line, p->text);
		else if (p->file)
			log_write(level, "%s: %s", p->file, p->text);
		else
			log_write(level, "%s", p->text);
	}
}

static bool apply_log(const struct settings *s)
{
	char facility[32];
	struct log_config config = {
		.file = s->logfile,
		.syslog = s->syslog,
		.syslog_ident = s->syslog_ident,
		.syslog_facility = value_text(value_find(&setting_table, "syslog_facility"), s,
					      facility, sizeof(facility)),
		.json = s->log_format == LOG_FORMAT_JSON,
		.fold = s->log_fold_time,
		.verbose = (int)s->verbose + options.verbose,
		.quiet = options.quiet,
	};

	return log_configure(&config);
}

/* Whether the kernel may write a core file of this process, and other processes of its user may
   trace it. Must be called again after a change of user, which resets this. Test builds always
   allow tracing, for the sanitizer. */
static void allow_core_dumps(bool allow)
{
#ifdef PGWEIR_TEST_BUILD
	allow = true;
#endif
	prctl(PR_SET_DUMPABLE, allow ? 1UL : 0UL, 0UL, 0UL, 0UL);
}

static bool reload(void *context, struct conf_problems *problems);

/* watch_files: a file has changed. */
static void on_main_changed(const char *path)
{
	struct conf_problems problems = { .count = 0 };
	/* a RELOAD frees the watch with the path */
	char *copy = mem_copy_string(path);

	/* a replaced process keeps its configuration to its end */
	if (copy && !pooler.world->successor && pooler.world->drain.step != DRAIN_NOW)
		reload(copy, &problems);
	conf_problems_free(&problems);
	mem_free(copy);
}

/* Applies a snapshot. Takes the reference. */
static bool main_use(struct conf *conf, struct conf_problems *problems)
{
	bool is_prepared = conf && web_prepare(pooler.web, conf, problems);
	bool ok = is_prepared && world_reconfigure(pooler.world, conf, problems);

	if (is_prepared)
		web_decide(pooler.web, ok);
	if (ok)
		allow_core_dumps(conf->settings.core_dumps);
	if (ok && !apply_log(&conf->settings))
		log_warning("log file \"%s\": %s; going on with the old one",
			    conf->settings.logfile, strerror(errno));
	if (ok)
		file_watch_set(&pooler.watch, pooler.world, pooler.read_at, on_main_changed);
	if (conf)
		conf_drop(&conf);
	return ok;
}

/* Writes the first error with its place: "FILE:LINE: text". Returns buf. */
static const char *first_error(const struct conf_problems *problems, char *buf, size_t size)
{
	const struct conf_problem *first = problems->errors > 0 ? problems->items : NULL;
	char place[PRINTABLE_TEXT] = "", text[PRINTABLE_TEXT];

	while (first && first->is_warning)
		first++;
	if (first && first->file && first->line > 0)
		snprintf(place, sizeof(place), "%s:%d: ", first->file, first->line);
	else if (first && first->file)
		snprintf(place, sizeof(place), "%s: ", first->file);
	snprintf(buf, size, "%s%s", place,
		 first ? printable_text(first->text, text, sizeof(text)) : "out of memory");
	return buf;
}

/* The log has one line of the changed files that cannot be used. */
static void log_unusable(const char *changed, const struct conf_problems *problems)
{
	char text[2 * PRINTABLE_TEXT];

	log_warning("watch_files: \"%s\" has changed; nothing is changed because of %zu errors: %s",
		    changed, problems->errors, first_error(problems, text, sizeof(text)));
}

/* `context`: the path of the changed file (watch_files); NULL: RELOAD. */
static bool reload(void *context, struct conf_problems *problems)
{
	usec_t read_before = pooler.read_at;
	const struct conf *now = pooler.world->conf;
	const char *asked = now->settings.conffile;
	bool ok, is_about_tls = false;
	struct conf *fresh;

	pooler.read_at = clock_wall();
	/* systemd distinguishes two reloads by the time */
	service_notify("RELOADING=1\nMONOTONIC_USEC=%" PRId64, clock_monotonic());
	fresh = conf_load(asked && *asked ? asked : now->path, problems);
	/* settings that need a restart keep their values */
	if (fresh)
		conf_keep_fixed(fresh, now, problems);
	if (fresh && !conf_read_rules(fresh, now, false, problems))
		conf_drop(&fresh);
	if (fresh)
		access_check(fresh, NULL, problems);
	ok = main_use(fresh, problems);
	pooler.world->reload = (struct last_reload){ .at = pooler.read_at, .has_failed = !ok };
	if (!ok)
		first_error(problems, pooler.world->reload.why, sizeof(pooler.world->reload.why));
	if (!ok)
		pooler.read_at = read_before;
	if (context && !ok) {
		log_unusable(context, problems);
		service_notify("READY=1");
		return false;
	}
	if (context)
		log_info("watch_files: \"%s\" has changed", (const char *)context);
	/* a successful RELOAD has reopened it */
	if (!ok && !log_reopen())
		log_warning("log file: %s; going on with the old one", strerror(errno));
	log_problems(problems);
	if (ok) {
		log_info("RELOAD: the configuration of %s is in force", pooler.world->conf->path);
	} else {
		for (size_t i = 0; i < problems->count; i++)
			is_about_tls |= problems->items[i].is_about_tls &&
					!problems->items[i].is_warning;
		if (is_about_tls)
			log_error("TLS configuration could not be reloaded, keeping old "
				  "configuration");
		log_warning("config file loading failed (nothing was changed)");
	}
	service_notify("READY=1");
	return ok;
}

/* After SET of "shop.pool_size": the value is not kept, and entries in [users] may have
   precedence. */
static void warn_of_database_set(const char *name, const char *value,
				 struct conf_problems *problems)
{
	const struct conf *conf = pooler.world->conf;
	const struct value_row *row = value_find(&user_table, strrchr(name, '.') + 1);
	char buf[64];

	for (size_t i = 0; row && i < conf->user_count; i++) {
		if (!*value_text(row, conf->users[i], buf, sizeof(buf)))
			continue;
		conf_problem_add(problems, true, NULL, 0,
				 "\"%s\" in [users] has precedence, as for user \"%.64s\"",
				 row->row.name, conf->users[i]->name);
		break;
	}
	conf_problem_add(problems, true, NULL, 0,
			 "\"%.128s\" is \"%.64s\" until the next RELOAD or restart, which read the "
			 "configuration file",
			 name, value);
}

static bool set(void *context, const char *name, const char *value, struct conf_problems *problems)
{
	bool ok;

	(void)context;
	ok = main_use(conf_with(pooler.world->conf, name, value, problems), problems);
	if (ok && strchr(name, '.'))
		warn_of_database_set(name, value, problems);
	/* the text of a problem may contain the value, except for an unknown name */
	if (ok || !value_find(&setting_table, name) || !setting_may_be_secret(name, value))
		log_problems(problems);
	return ok;
}

static void shut_down(void *context, enum world_drain how)
{
	(void)context;
	service_notify("STOPPING=1");
	world_drain(pooler.world, how);
}

/* ---- signals ---- */

/* The action that a signal requests; named like console commands. */
enum signal_wish {
	WISH_NOTHING,
	WISH_RELOAD,
	WISH_PAUSE,
	WISH_RESUME,
	WISH_SHUTDOWN_WAIT_FOR_CLIENTS,
	WISH_SHUTDOWN_WAIT_FOR_SERVERS,
	WISH_SHUTDOWN
};

/* The state of the process, which determines the meaning of a signal. A shutdown may have been
   requested by a signal or on the console. */
enum signal_moment {
	MOMENT_USUAL,
	MOMENT_PAUSED,
	MOMENT_SUSPENDED,
	MOMENT_SHUTDOWN,
	/* also while the shutdown waits for servers, so that no server is lent */
	MOMENT_SHUTDOWN_PAUSED,
	MOMENTS
};

/*
 * Signals, with one row each. The event loop delivers them, so handlers have no restrictions. A
 * second TERM or INT during a shutdown ends the process at once. The log lines are PgBouncer's.
 */

/* The action in a state of the process, and the text after the signal's name in the log. */
struct answer {
	enum signal_wish wish;
	const char *text;
};

#define ALWAYS(wish, text) \
	{ \
		{ wish, text }, { wish, text }, { wish, text }, { wish, text }, { wish, text } \
	}
#define TWICE(wish, text) { { wish, text }, { wish, text }, { wish, text }, SECOND, SECOND }
#define SECOND { WISH_SHUTDOWN, " while shutting down, fast exit" }
#define PAUSING { WISH_PAUSE, ", pausing all activity" }
#define PAUSED { WISH_NOTHING, ", but already paused/suspended" }
#define IGNORED { WISH_NOTHING, " while shutting down, ignoring" }

static const struct signal_row {
	int signum;
	const char *name;
	struct answer answers[MOMENTS];
} signal_rows[] = {
	{ SIGHUP, "SIGHUP", ALWAYS(WISH_RELOAD, ", re-reading config") },
	{ SIGTERM, "SIGTERM",
	  TWICE(WISH_SHUTDOWN_WAIT_FOR_CLIENTS,
		", shutting down, waiting for all clients disconnect") },
	{ SIGINT, "SIGINT",
	  TWICE(WISH_SHUTDOWN_WAIT_FOR_SERVERS,
		", shutting down, waiting for all servers connections to be released") },
	{ SIGQUIT, "SIGQUIT", ALWAYS(WISH_SHUTDOWN, ", fast exit") },
	{ SIGUSR1, "SIGUSR1", { PAUSING, PAUSED, PAUSED, PAUSING, PAUSED } },
	{ SIGUSR2,
	  "SIGUSR2",
	  { { WISH_NOTHING, ", but not paused/suspended" },
	    { WISH_RESUME, ", continuing from PAUSE" },
	    { WISH_RESUME, ", continuing from SUSPEND" },
	    IGNORED,
	    IGNORED } },
};
#define SIGNAL_ROWS (sizeof signal_rows / sizeof *signal_rows)

/* Returns the action, and writes the line for the log. */
static enum signal_wish signal_decide(int signum, enum signal_moment moment, char *text,
				      size_t size)
{
	const struct signal_row *row = signal_rows;

	while (row->signum != signum)
		row++;
	snprintf(text, size, "got %s%s", row->name, row->answers[moment].text);
	return row->answers[moment].wish;
}

static void on_main_signal(evutil_socket_t signum, short what, void *context)
{
	struct conf_problems problems = { .count = 0 };
	const struct world *w = pooler.world;
	enum signal_moment moment;
	enum signal_wish wish;
	char text[128];

	(void)what;
	(void)context;
	world_wake(pooler.world);
	if (w->drain.step != DRAIN_OFF)
		moment = w->pools->paused || w->pools->suspended ||
					 w->drain.step == DRAIN_WAIT_SERVERS
				 ? MOMENT_SHUTDOWN_PAUSED
				 : MOMENT_SHUTDOWN;
	else
		moment = w->pools->suspended ? MOMENT_SUSPENDED
			 : w->pools->paused  ? MOMENT_PAUSED
					     : MOMENT_USUAL;
	wish = signal_decide((int)signum, moment, text, sizeof(text));
	log_info("%s", text);
	switch (wish) {
	case WISH_RELOAD:
		if (!reload(NULL, &problems))
			log_error("RELOAD Failed, see logs for more details");
		conf_problems_free(&problems);
		return;
	case WISH_PAUSE:
		console_pause_all(pooler.console, true);
		return;
	case WISH_RESUME:
		console_pause_all(pooler.console, false);
		return;
	case WISH_SHUTDOWN_WAIT_FOR_CLIENTS:
		shut_down(NULL, DRAIN_WAIT_CLIENTS);
		return;
	case WISH_SHUTDOWN_WAIT_FOR_SERVERS:
		shut_down(NULL, DRAIN_WAIT_SERVERS);
		return;
	case WISH_SHUTDOWN:
		/* as in PgBouncer, the second signal closes all connections without a message */
		pooler.is_silent = pooler.world->drain.step != DRAIN_OFF;
		shut_down(NULL, DRAIN_NOW);
		return;
	case WISH_NOTHING:
		return;
	}
}

/* Handles signals in the event loop, and ignores SIGPIPE. False: no memory. */
static bool signals_open(struct event_base *base, struct event *events[SIGNAL_ROWS])
{
	for (size_t i = 0; i < SIGNAL_ROWS; i++) {
		events[i] = evsignal_new(base, signal_rows[i].signum, on_main_signal, NULL);
		if (!events[i] || event_add(events[i], NULL) < 0)
			return false;
	}
	/* errno reports both: the reader has gone, or the log has reached the limit of file size */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	return true;
}

/* The process is about to end: ignores signals from now on. */
static void signals_close(struct event *events[SIGNAL_ROWS])
{
	for (size_t i = 0; i < SIGNAL_ROWS; i++)
		if (events[i]) {
			event_free(events[i]);
			/* a second signal must not kill the process while it ends */
			signal(signal_rows[i].signum, SIG_IGN);
		}
}

/* ---- the process ---- */

/* Returns how many descriptors the configuration may need at most. */
static uint64_t descriptors_needed(const struct conf *conf)
{
	const struct settings *s = &conf->settings;
	bool asks = auth_methods[s->auth_type].needs & AUTH_NEEDS_PROCESS;
	uint64_t users = conf->user_count > 0 ? conf->user_count : 1, servers = 0,
		 verifiers = asks ? (uint64_t)s->max_auth_processes : 0;

	for (size_t i = 0; i < conf->database_count; i++) {
		const struct conf_database *d = conf->databases[i];
		int64_t size = d->pool_size != CONF_UNSET ? d->pool_size : s->default_pool_size;
		int64_t reserve = d->reserve_pool_size != CONF_UNSET ? d->reserve_pool_size
								     : s->reserve_pool_size;
		int64_t most = d->max_db_connections != CONF_UNSET ? d->max_db_connections
								   : s->max_db_connections;
		uint64_t all = (uint64_t)(size + reserve) * (d->user ? 1 : users);

		servers += most > 0 && (uint64_t)most < all ? (uint64_t)most : all;
	}
	if (s->http_listen_port > 0 || s->http_unix_socket)
		servers += (uint64_t)s->http_max_connections + WEB_SPARES_MOST;
	return (uint64_t)s->max_client_conn + servers + verifiers + OWN_DESCRIPTORS;
}

static int main_fail(const struct conf_problems *problems)
{
	if (problems)
		log_problems(problems);
	log_fatal("not started");
	return 1;
}

/* Creates the world and runs the event loop until the end. */
static int run(struct conf *conf, const struct start *start, int *ready_fd)
{
	struct conf_problems problems = { .count = 0 };
	struct control control = { .reload = reload,
				   .set = set,
				   .shutdown = shut_down,
				   .version = PGWEIR_COMPATIBLE_VERSION };
	long descriptors = sysconf(_SC_OPEN_MAX);
	struct event_config *config;
	struct event *signals[SIGNAL_ROWS] = { NULL };
	int status = 1;

	/* as the user that will read them again */
	if (!conf_read_rules(conf, NULL, true, &problems)) {
		main_fail(&problems);
		goto out;
	}
	access_check(conf, NULL, &problems);
	loop_memory_begin((size_t)(descriptors > 0 && descriptors < DESCRIPTORS_MOST
					   ? descriptors
					   : DESCRIPTORS_MOST));
	config = event_config_new();
	if (config && event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK) == 0)
		pooler.base = event_base_new_with_config(config);
	if (config)
		event_config_free(config);
	pooler.shared = shared_new();
	pooler.world = pooler.base ? world_new(pooler.base, pooler.shared, conf, &problems) : NULL;
	if (!pooler.world) {
		main_fail(&problems);
		goto out;
	}
	pooler.console = console_new(pooler.world, &control);
	if (!pooler.console || !signals_open(pooler.base, signals) || !turn_begin(&pooler)) {
		log_fatal("out of memory");
		goto out;
	}
	/* the listening sockets of the configuration and of the process to be replaced */
	if (start->taker
		    ? !taker_take(start->taker, pooler.world, start->pidfile, &problems)
		    : !world_listen(pooler.world, start->fds, (int)start->fd_count, &problems)) {
		main_fail(&problems);
		goto out;
	}
	pooler.web = web_open(pooler.world, control.version, set, start->taker, &problems);
	if (!pooler.web) {
		main_fail(&problems);
		goto out;
	}
	pooler.giver = giver_open(pooler.base, pooler.world, start->pidfile, &pooler.tick_due);
	file_watch_set(&pooler.watch, pooler.world, pooler.read_at, on_main_changed);
	log_problems(&problems);
	log_info("process up: pgweir %s, libevent %s (%s), adns: c-ares %s, tls: %s",
		 PGWEIR_VERSION, event_get_version(), event_base_get_method(pooler.base),
		 ares_version(NULL), OpenSSL_version(OPENSSL_VERSION));
	service_notify("READY=1");
	daemon_ready(ready_fd);
	while (turn(&pooler))
		;
	service_notify("STOPPING=1");
	if (pooler.world->drain.step == DRAIN_WAIT_CLIENTS)
		log_info("client connections dropped, exiting");
	else if (pooler.world->drain.step == DRAIN_WAIT_SERVERS)
		log_info("server connections dropped, exiting");
	log_info("process down");
	status = 0;
out:
	conf_problems_free(&problems);
	file_watch_free(&pooler.watch);
	giver_close(&pooler.giver);
	web_free(&pooler.web);
	console_free(&pooler.console);
	if (pooler.world)
		world_end_sessions(pooler.world, REASON_POOLER_SHUTTING_DOWN, pooler.is_silent);
	world_free(&pooler.world);
	shared_free(&pooler.shared);
	signals_close(signals);
	if (pooler.tick)
		event_free(pooler.tick);
	if (pooler.base)
		event_base_free(pooler.base);
	return status;
}

/* Problems of the file are logged to the log file that it names. */
static int main_start(struct conf *conf, const struct conf_problems *problems, const int *fds,
		      size_t fd_count)
{
	const struct settings *s = &conf->settings;
	struct pidfile *pidfile = NULL;
	struct taker *taker = NULL;
	int ready_fd = -1, status;
	char why[512] = "";

	if (config_lacks_for_daemon(&options, s)) {
		log_fatal(LACKS_FOR_DAEMON, options.file);
		return main_fail(problems);
	}
	if (options.daemon && (ready_fd = daemon_start()) < 0) {
		log_fatal("cannot go into the background: %s", strerror(errno));
		return main_fail(problems);
	}
	allow_core_dumps(s->core_dumps);
	limits_need_descriptors(descriptors_needed(conf));
	if (daemon_become_user(options.user ? options.user : s->user, why, sizeof(why)) !=
	    DAEMON_USER_TAKEN) {
		log_fatal("%s", why);
		return main_fail(problems);
	}
	allow_core_dumps(s->core_dumps);
	if (!apply_log(s)) {
		log_fatal("log file \"%s\": %s", s->logfile ? s->logfile : "", strerror(errno));
		return main_fail(problems);
	}
	log_problems(problems);
	limits_log(descriptors_needed(conf), s->max_client_conn);
	/* -R: replaces the running process; its pidfile is part of the handover */
	switch (options.takeover ? taker_find(s, &taker, why, sizeof(why)) : TAKER_FOUND) {
	case TAKER_FOUND:
		break;
	case TAKER_NOBODY:
		log_info("no running process was found (%s): starting normally", why);
		break;
	case TAKER_REFUSED:
		log_fatal("cannot take over: %s", why);
		return main_fail(NULL);
	}
	if (!taker && s->pidfile && !(pidfile = pidfile_take(s->pidfile, why, sizeof(why)))) {
		log_fatal("%s", why);
		return main_fail(NULL);
	}
	status = run(conf, &(struct start){ fds, fd_count, taker, &pidfile }, &ready_fd);
	taker_free(&taker);
	pidfile_release(&pidfile, true);
	return status;
}

/* Prints the output of --version: the version that monitoring tools parse, then the versions of the
   libraries at run time, one per line. */
static void print_versions(FILE *to)
{
	fprintf(to, "%s\n", PGWEIR_COMPATIBLE_VERSION);
	fprintf(to, "libevent %s\n", event_get_version());
	fprintf(to, "adns: c-ares %s\n", ares_version(NULL));
	fprintf(to, "tls: %s\n", OpenSSL_version(OPENSSL_VERSION));
#ifdef HAVE_PAM
	fprintf(to, "pam: yes\n");
#else
	fprintf(to, "pam: no\n");
#endif
#ifdef HAVE_LDAP
	fprintf(to, "ldap: yes\n");
#else
	fprintf(to, "ldap: no\n");
#endif
#ifdef HAVE_LIBSYSTEMD
	fprintf(to, "systemd: yes\n");
#else
	fprintf(to, "systemd: no\n");
#endif
}

int main(int argc, char **argv)
{
	struct conf_problems problems = { .count = 0 };
	int fds[INHERITED_MOST];
	uint8_t key[HASH_KEY];
	struct conf *conf;
	size_t fd_count;
	bool is_top;
	int status;

	/* does not return in a verifier */
	verify_child_run(argc, argv);
	is_top = argc > 1 && strcmp(argv[1], "top") == 0;
	if (!is_top && !options_read(&options, argc, argv))
		return 1;
	if (RAND_bytes(key, sizeof(key)) != 1) {
		log_fatal("no random numbers");
		return main_fail(NULL);
	}
	/* before any table exists */
	hash_set_key(key);
	mem_wipe(key, sizeof(key));
	if (is_top)
		return top_run(argc - 1, argv + 1);
	switch (options.action) {
	case OPTIONS_HELP:		/* options_read() has printed it */
		return 0;
	case OPTIONS_VERSION:
		print_versions(stdout);
		return 0;
	case OPTIONS_HASH_PASSWORD:
	case OPTIONS_CHECK:
	case OPTIONS_PRINT_CONFIG:
		return action_run(&options);
	case OPTIONS_RUN:
		break;
	}
	pooler.read_at = clock_wall();
	conf = conf_load(options.file, &problems);
	if (!conf) {
		status = main_fail(&problems);
	} else {
		fd_count = service_listen_fds(fds, INHERITED_MOST);
		status = main_start(conf, &problems, fds, fd_count);
		conf_drop(&conf);
	}
	conf_problems_free(&problems);
	log_close();
	return status;
}
