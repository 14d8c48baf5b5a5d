/*
 * --hash-password: prints the secret of a password, as PostgreSQL computes it, for auth_file.
 *
 * The password is neither an argument nor an environment variable, which other processes could read.
 */
#include "main/hash_password.h"

#include "base/mem.h"
#include "base/text.h"
#include "pg/scram.h"

#include <errno.h>
#include <openssl/rand.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define PASSWORD_ROOM 4096
#define ITERATIONS 4096			/* the default of PostgreSQL's scram_iterations */

static bool fail(const char *why)
{
	fprintf(stderr, "pgweir: %s\n", why);
	return false;
}

/* Reads a line of standard input, without its end, to `to`. */
static bool read_line(char *to, size_t size)
{
	size_t used = 0;
	ssize_t got;

	for (;;) {
		got = read(STDIN_FILENO, to + used, 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fail(strerror(errno));
		if (got == 0 || to[used] == '\n')
			break;
		if (to[used] == '\0')
			return fail("the password contains a NUL byte");
		if (++used == size)
			return fail("the password is too long");
	}
	if (used > 0 && to[used - 1] == '\r')
		used--;
	to[used] = '\0';
	return true;
}

/* The same with a question to the terminal, which does not show the answer. A signal arrives when the terminal shows input again. */
static bool ask(const char *question, const struct termios *usual, char *to, size_t size)
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
	ok = read_line(to, size);
	tcsetattr(STDIN_FILENO, TCSAFLUSH, usual);
	fputs("\n", stderr);
	sigprocmask(SIG_SETMASK, &saved, NULL);
	return ok;
}

static bool read_password(char *password, char *again, size_t size)
{
	struct termios usual;

	if (tcgetattr(STDIN_FILENO, &usual) != 0) {
		if (!read_line(password, size))
			return false;
	} else {
		if (!ask("Password: ", &usual, password, size) || !ask("The same password again: ", &usual, again, size))
			return false;
		if (strcmp(password, again) != 0)
			return fail("the passwords are different");
	}
	return *password || fail("the password is empty");
}

static bool make_secret(const struct options *options, const char *password, char to[SCRAM_SECRET_TEXT])
{
	struct scram_secret secret = { .iterations = ITERATIONS, .salt_size = MOCK_SALT };
	uint8_t salted[SCRAM_KEY], client_key[SCRAM_KEY];
	bool ok;

	if (options->wants_md5)
		return md5_secret(password, options->secret_user, to) || fail("OpenSSL has no MD5");
	ok = RAND_bytes(secret.salt, MOCK_SALT) == 1 &&
	     scram_salted_derive(password, secret.salt, secret.salt_size, secret.iterations, salted) &&
	     scram_keys_of_salted(salted, client_key, secret.stored_key, secret.server_key) &&
	     scram_secret_write(&secret, to, SCRAM_SECRET_TEXT);
	mem_wipe(salted, sizeof(salted));
	mem_wipe(client_key, sizeof(client_key));
	return ok || fail("out of memory");
}

static void print_quoted(const char *text)
{
	putchar('"');
	for (; *text; text++)
		printf(*text == '"' ? "\"\"" : "%c", *text);
	putchar('"');
}

int hash_password(const struct options *options)
{
	char *password = mem_try_hidden(2 * PASSWORD_ROOM), secret[SCRAM_SECRET_TEXT];
	bool ok = password ? read_password(password, password + PASSWORD_ROOM, PASSWORD_ROOM) : fail("out of memory");

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
