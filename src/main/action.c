/*
 * The actions of the command line without a start: --check and --print-config check and print the
 * configuration, --hash-password makes a secret.
 */
#include "main/action.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/rand.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "auth/users.h"
#include "base/mem.h"
#include "base/text.h"
#include "conf/check.h"
#include "conf/value.h"
#include "core/tls_setup.h"
#include "core/lifecycle.h"
#include "main/daemon.h"
#include "net/address.h"
#include "net/listen.h"
#include "pg/scram.h"

/* ---- reasons for which a start could fail ---- */

/*
 * With a correct configuration. The texts are the same as at a start.
 *
 * Addresses in use are not reported, because the running pooler may use them. systemd's sockets,
 * which replace listen_addr and unix_socket_dir, are not known here.
 */

#define FAULT(problems, ...) conf_problem_add(problems, false, NULL, 0, __VA_ARGS__)
#define WARNING(problems, ...) conf_problem_add(problems, true, NULL, 0, __VA_ARGS__)

/* Whether this process may create files in the directory of `path`. False with errno. */
static bool may_make(const char *path)
{
	char directory[4096];
	const char *slash = strrchr(path, '/');
	size_t size = slash ? (size_t)(slash - path) : 0;

	if (size >= sizeof(directory)) {
		errno = ENAMETOOLONG;
		return false;
	}
	if (slash && size == 0)
		snprintf(directory, sizeof(directory), "/");
	else
		snprintf(directory, sizeof(directory), "%.*s", (int)(slash ? size : 1),
			 slash ? path : ".");
	return faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) == 0;
}

/* Whether the file can be opened for writing, or created. False with errno. The file is not opened,
   because that may have an effect. */
static bool action_may_write(const char *path)
{
	struct stat file;

	if (stat(path, &file) != 0)
		return errno == ENOENT && may_make(path);
	if (S_ISDIR(file.st_mode)) {
		errno = EISDIR;
		return false;
	}
	return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
}

struct endpoints {
	struct conf_problems *problems, absent;
	uint16_t port;
	int open;			/* number of addresses that a start could listen on */
};

static void check_ip(void *context, const char *ip)
{
	struct endpoints *d = context;
	struct brief_address brief;
	struct address a;
	char text[80];
	int fd, on = 1, error = 0;

	if (!address_from_ip(&a, ip, d->port)) {
		d->open++;
		return;
	}
	fd = socket(a.u.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		if (a.u.any.sa_family == AF_INET6)
			setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	}
	if (fd < 0 || (bind(fd, &a.u.any, a.size) != 0 && errno != EADDRINUSE))
		error = errno;
	if (fd >= 0)
		close(fd);
	if (error == 0) {
		d->open++;
		return;
	}
	brief_address_of(&brief, &a, 0);
	conf_problem_add(error == EADDRNOTAVAIL || error == EAFNOSUPPORT ? &d->absent : d->problems,
			 false, NULL, 0, "cannot listen on %s: %s",
			 brief_address_and_port(&brief, text, sizeof(text)), strerror(error));
}

static void check_unix(struct endpoints *d, const char *directory, const char *group)
{
	struct address a;
	char why[256];

	if (!address_from_unix(&a, directory, d->port))
		FAULT(d->problems, "cannot listen on %s: the path is too long", directory);
	else if (*a.u.local.sun_path && !may_make(a.u.local.sun_path))
		FAULT(d->problems, "cannot listen on unix:%s: %s", a.u.local.sun_path,
		      strerror(errno));
	else if (*a.u.local.sun_path && !socket_file_check_group(group, why, sizeof(why)))
		FAULT(d->problems, "cannot listen on unix:%s: %s", a.u.local.sun_path, why);
	else
		d->open++;
}

static void check_endpoints(const struct settings *s, struct conf_problems *problems)
{
	struct endpoints d = { .problems = problems,
			       .absent = { .count = 0 },
			       .port = (uint16_t)s->listen_port };
	size_t before = problems->errors;
	const char *why;
	struct address any;
	char host[256];

	for (const char *at = s->listen_addr; at && address_next_host(&at, host, sizeof(host));) {
		if (*host == '/' || *host == '@')
			check_unix(&d, host, s->unix_socket_group);
		else if (strcmp(host, "*") == 0)
			check_ip(&d, "0.0.0.0");
		else if (address_from_ip(&any, host, 0))
			check_ip(&d, host);
		else if ((why = address_each_of_name(host, check_ip, &d)) != NULL)
			FAULT(problems, "cannot listen on %s: %s", host, why);
	}
	if (s->unix_socket_dir && *s->unix_socket_dir)
		check_unix(&d, s->unix_socket_dir, s->unix_socket_group);
	for (size_t i = 0; i < d.absent.count; i++)
		conf_problem_add(problems, d.open > 0, NULL, 0, "%s", d.absent.items[i].text);
	if (d.open == 0 && d.absent.count == 0 && problems->errors == before)
		WARNING(problems, "nowhere to listen but on sockets from systemd: neither "
				  "listen_addr nor unix_socket_dir is set");
	conf_problems_free(&d.absent);
}

/* ---- --check and --print-config ---- */

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

/* Whether a database keeps the state of sessions in transaction or statement mode. */
static bool has_session_state(const struct conf *conf)
{
	const struct settings *s = &conf->settings;

	if (conf->fallback && s->pool_mode != MODE_SESSION && s->session_state == STATE_FULL)
		return true;
	for (size_t i = 0; i < conf->database_count; i++) {
		const struct conf_database *d = conf->databases[i];

		if ((d->pool_mode == CONF_UNSET ? s->pool_mode : d->pool_mode) != MODE_SESSION &&
		    (d->session_state == CONF_UNSET ? s->session_state : d->session_state) ==
			    STATE_FULL)
			return true;
	}
	return false;
}

static int check(const struct options *options)
{
	struct conf_problems problems = { .count = 0 };
	struct conf *conf = conf_load(options->file, &problems);
	struct tls_contexts tls = { .clients = NULL };
	const struct settings *s;
	const char *user;
	struct userlist *users;
	char why[512];
	int status;

	if (conf) {
		s = &conf->settings;
		user = options->user ? options->user : s->user;
		/* Becomes the user as a start does, before further files are read or written. It is
		   an error if no start could use the account, for example because it does not
		   exist; it is a warning if only this process cannot change to it. */
		switch (daemon_become_user(user, why, sizeof(why))) {
		case DAEMON_USER_UNUSABLE:
			FAULT(&problems, "%s", why);
			break;
		case DAEMON_USER_REFUSED:
			WARNING(&problems, "a start by this account would fail: %s", why);
			break;
		case DAEMON_USER_TAKEN:
			break;
		}
		if (s->logfile && *s->logfile && !action_may_write(s->logfile))
			FAULT(&problems, "log file \"%s\": %s", s->logfile, strerror(errno));
		/* and its lock file */
		if (s->pidfile && *s->pidfile &&
		    (!action_may_write(s->pidfile) || !may_make(s->pidfile)))
			FAULT(&problems, "cannot open \"%s\": %s", s->pidfile, strerror(errno));
		check_endpoints(s, &problems);
		if (config_lacks_for_daemon(options, s))
			FAULT(&problems, LACKS_FOR_DAEMON, options->file);
		conf_read_rules(conf, NULL, false, &problems);
		access_check(conf, user, &problems);
		tls_contexts_make(&tls, &(struct tls_contexts){ .clients = NULL }, conf, false,
				  &problems);
		users = userlist_of_conf(conf, &problems);
		users_check(conf, users, &problems);
		if (users)
			userlist_free(&users);
	}
	print_problems(&problems);
	if (conf && has_session_state(conf))
		printf("%s: session_state is full: clients of transaction and statement mode have "
		       "a session state of their own (off: as in PgBouncer)\n",
		       options->file);
	status = conf && problems.errors == 0 ? 0 : 1;
	printf("%s: %s\n", options->file,
	       status == 0 ? "the configuration is usable" : "the configuration is not usable");
	tls_contexts_drop(&tls);
	if (conf)
		conf_drop(&conf);
	conf_problems_free(&problems);
	return status;
}

static int print(const struct options *options)
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
	for (size_t i = 0; i < setting_table.count; i++) {
		const char *text = setting_value_shown(&conf->settings, i, value, sizeof(value));

		printf("%s = ", setting_table.rows[i].row.name);
		/* a literal ${ is doubled: see conf.c */
		for (; *text; text++)
			printf(text[0] == '$' && text[1] == '{' ? "$%c" : "%c", *text);
		printf("\n");
	}
	conf_drop(&conf);
	conf_problems_free(&problems);
	return 0;
}

/* ---- --hash-password ---- */

/*
 * Prints the secret of a password, as PostgreSQL computes it, for auth_file. The password is
 * neither an argument nor an environment variable, which other processes could read.
 */

#define PASSWORD_ROOM 4096
#define ITERATIONS 4096			/* the default of PostgreSQL's scram_iterations */

static bool action_fail(const char *why)
{
	fprintf(stderr, "pgweir: %s\n", why);
	return false;
}

/* Reads a line of standard input, without its end, to `to`. */
static bool action_read_line(char *to, size_t size)
{
	size_t used = 0;
	ssize_t got;

	for (;;) {
		got = read(STDIN_FILENO, to + used, 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return action_fail(strerror(errno));
		if (got == 0 || to[used] == '\n')
			break;
		if (to[used] == '\0')
			return action_fail("the password contains a NUL byte");
		if (++used == size)
			return action_fail("the password is too long");
	}
	if (used > 0 && to[used - 1] == '\r')
		used--;
	to[used] = '\0';
	return true;
}

/* Writes the question to the terminal and reads one line to `to`, without its end. The terminal
   does not show the answer. A signal arrives when the terminal shows input again. False: no answer,
   or it is too long. */
static bool action_ask(const char *question, const struct termios *usual, char *to, size_t size)
{
	struct termios silent = *usual;
	sigset_t signals, saved;
	bool ok;

	sigemptyset(&signals);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGQUIT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGTSTP);
	sigprocmask(SIG_BLOCK, &signals, &saved);
	silent.c_lflag &= ~(tcflag_t)ECHO;
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
	fputs(question, stderr);
	ok = action_read_line(to, size);
	tcsetattr(STDIN_FILENO, TCSAFLUSH, usual);
	fputs("\n", stderr);
	sigprocmask(SIG_SETMASK, &saved, NULL);
	return ok;
}

static bool read_password(char *password, char *again, size_t size)
{
	struct termios usual;

	if (tcgetattr(STDIN_FILENO, &usual) != 0) {
		if (!action_read_line(password, size))
			return false;
	} else {
		if (!action_ask("Password: ", &usual, password, size) ||
		    !action_ask("The same password again: ", &usual, again, size))
			return false;
		if (strcmp(password, again) != 0)
			return action_fail("the passwords are different");
	}
	return *password || action_fail("the password is empty");
}

/* Reads the SCRAM secret in the first line of the file. */
static bool read_secret(const char *path, struct scram_secret *secret)
{
	size_t size = 0;
	char *text = text_read_file(path, PASSWORD_ROOM, &size);
	bool ok = text != NULL;

	if (!ok)
		return action_fail(strerror(errno));
	text[strcspn(text, "\r\n")] = '\0';
	ok = scram_secret_read(text, secret) && secret->iterations <= SCRAM_ITERATIONS_MAX;
	mem_wipe(text, size);
	mem_free(text);
	return ok || action_fail("the first line of the file of --like is no SCRAM secret, or it "
				 "has more than 1000000 iterations");
}

static bool make_secret(const struct options *options, const char *password,
			char to[SCRAM_SECRET_TEXT])
{
	struct scram_secret secret = { .iterations = ITERATIONS, .salt_size = MOCK_SALT };
	uint8_t salted[SCRAM_KEY], client_key[SCRAM_KEY];
	bool ok;

	if (options->wants_md5)
		return md5_secret(password, options->secret_user, to) ||
		       action_fail("OpenSSL has no MD5");
	ok = options->like
		     ? read_secret(options->like, &secret)
		     : RAND_bytes(secret.salt, MOCK_SALT) == 1 || action_fail("no randomness");
	if (!ok)
		return false;
	ok = scram_salted_derive(password, secret.salt, secret.salt_size, secret.iterations,
				 salted) &&
	     scram_keys_of_salted(salted, client_key, secret.stored_key, secret.server_key) &&
	     scram_secret_write(&secret, to, SCRAM_SECRET_TEXT);
	mem_wipe(salted, sizeof(salted));
	mem_wipe(client_key, sizeof(client_key));
	return ok || action_fail("out of memory");
}

static void print_quoted(const char *text)
{
	putchar('"');
	for (; *text; text++)
		printf(*text == '"' ? "\"\"" : "%c", *text);
	putchar('"');
}

static int hash_password(const struct options *options)
{
	char *password = mem_try_hidden(2 * PASSWORD_ROOM), secret[SCRAM_SECRET_TEXT];
	bool ok = password ? read_password(password, password + PASSWORD_ROOM, PASSWORD_ROOM)
			   : action_fail("out of memory");

	ok = ok && make_secret(options, password, secret);
	mem_free_hidden(password, 2 * PASSWORD_ROOM);
	if (!ok)
		return 1;
	if (options->secret_user) {
		print_quoted(options->secret_user);
		putchar(' ');
		print_quoted(secret);
	} else {
		fputs(secret, stdout);
	}
	putchar('\n');
	return fflush(stdout) == 0 ? 0 : 1;
}

int action_run(const struct options *options)
{
	switch (options->action) {
	case OPTIONS_CHECK:
		return check(options);
	case OPTIONS_PRINT_CONFIG:
		return print(options);
	case OPTIONS_HASH_PASSWORD:
		return hash_password(options);
	case OPTIONS_RUN:
	case OPTIONS_HELP:
	case OPTIONS_VERSION:
		break;
	}
	return 1;
}
