/*
 * A client of the console: see main/top_connection.h.
 *
 * Invariant: between two calls the connection is idle, and `in` is empty.
 */
#include "main/top_connection.h"

#include "base/bytes.h"
#include "base/mem.h"
#include "base/text.h"
#include "pg/build.h"
#include "pg/frame.h"
#include "pg/message.h"
#include "pg/password.h"
#include "pg/scram.h"

#include <errno.h>
#include <netdb.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_SECONDS 5		/* for each read and write */
#define MESSAGE_MOST (16 << 20)		/* bytes of one message */
#define ANSWER_MOST (64 << 20)		/* bytes of all rows of an answer */

struct console_connection {
	int fd;
	struct bytes in;		/* received; complete messages are consumed */
	/* bytes of the last message, which the next read consumes */
	size_t taken;
	struct scram_prover prover;
};

/* ---- messages ---- */

static bool top_connection_fail(char *why, size_t size, const char *what)
{
	snprintf(why, size, "%s: %s", what,
		 errno == EAGAIN ? "no answer in time"
		 : errno	 ? strerror(errno)
				 : "the connection was closed");
	return false;
}

/* Sends and frees the messages. */
static bool top_connection_put(struct console_connection *c, struct bytes *out, char *why,
			       size_t size)
{
	ssize_t n = 0;

	for (size_t at = 0; !out->failed && at < bytes_size(out); at += (size_t)n) {
		n = send(c->fd, bytes_front(out) + at, bytes_size(out) - at, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n < 0)
			break;
	}
	if (out->failed)
		errno = ENOMEM;
	if (out->failed || n < 0)
		top_connection_fail(why, size, "cannot send");
	n = out->failed ? -1 : n;
	bytes_wipe(out);
	return n >= 0;
}

/* Receives the next message, which is valid until the next call. */
static bool top_connection_get(struct console_connection *c, uint8_t *type, const uint8_t **body,
			       size_t *here, char *why, size_t size)
{
	size_t need;
	ssize_t n;

	bytes_consume(&c->in, c->taken);
	c->taken = 0;
	for (;;) {
		need = bytes_size(&c->in) < PG_HEADER
			       ? PG_HEADER
			       : 1 + (size_t)pg_u32_at(bytes_front(&c->in) + 1);
		if (need < PG_HEADER || need > MESSAGE_MOST) {
			snprintf(why, size, "the answer is not of the protocol of PostgreSQL");
			return false;
		}
		if (need > PG_HEADER || bytes_size(&c->in) >= PG_HEADER)
			if (bytes_size(&c->in) >= need)
				break;
		if (!bytes_reserve(&c->in, 65536)) {
			errno = ENOMEM;
			return top_connection_fail(why, size, "cannot receive");
		}
		n = recv(c->fd, c->in.data + c->in.end, 65536, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			errno = 0;
		if (n <= 0)
			return top_connection_fail(why, size, "cannot receive");
		c->in.end += (size_t)n;
	}
	*type = *bytes_front(&c->in);
	*body = bytes_front(&c->in) + PG_HEADER;
	*here = need - PG_HEADER;
	c->taken = need;
	return true;
}

/* ---- login ---- */

static bool say_error(const uint8_t *body, size_t here, char *why, size_t size)
{
	struct pg_error e;

	pg_error_read(body, here, &e);
	text_copy(why, size, *e.message ? e.message : "the server refuses");
	return false;
}

/* Continues SCRAM with data of the server; NULL: begins. */
static bool scram(struct console_connection *c, const char *password, const char *data,
		  size_t length, struct bytes *out, char *why, size_t size)
{
	uint8_t salted[SCRAM_KEY], stored[SCRAM_KEY];
	const char *reason = "SCRAM failed";
	enum scram_result result = scram_prover_step(&c->prover, data, length, NULL, NULL, out,
						     &reason);

	if (result == SCRAM_PENDING &&
	    scram_salted_derive(password, c->prover.salt, c->prover.salt_size, c->prover.iterations,
				salted) &&
	    scram_keys_of_salted(salted, c->prover.client_key, stored, c->prover.server_key)) {
		c->prover.have_keys = true;
		result = scram_prover_step(&c->prover, data, length, NULL, NULL, out, &reason);
	}
	mem_wipe(salted, sizeof(salted));
	if (result == SCRAM_DONE || result == SCRAM_CONTINUE)
		return true;
	snprintf(why, size, "%s", reason);
	return false;
}

/* Answers an Authentication message. */
static bool authenticate(struct console_connection *c, const struct console_address *a,
			 const uint8_t *body, size_t here, char *why, size_t size)
{
	uint32_t code = here < 4 ? UINT32_MAX : pg_u32_at(body);
	char secret[MD5_SECRET + 1], answer[MD5_SECRET + 1];
	struct bytes out = BYTES_EMPTY, data = BYTES_EMPTY;
	bool ok = true;

	switch (code) {
	case 0:
		return true;
	case 3:
		pg_build_string(&out, 'p', a->password);
		break;
	case 5:
		if (here < 8 || !md5_secret(a->password, a->user, secret) ||
		    !md5_answer(secret, body + 4, answer)) {
			snprintf(why, size, "MD5 authentication is not possible");
			return false;
		}
		pg_build_string(&out, 'p', answer);
		break;
	case 10:
		ok = scram(c, a->password, NULL, 0, &data, why, size);
		pg_build_sasl_initial(&out, "SCRAM-SHA-256", bytes_front(&data), bytes_size(&data));
		break;
	case 11:
	case 12:
		ok = scram(c, a->password, (const char *)body + 4, here - 4, &data, why, size);
		if (code == 11)
			pg_build(&out, 'p', bytes_front(&data), bytes_size(&data));
		break;
	default:
		snprintf(why, size, "the authentication method %u is not supported",
			 (unsigned)code);
		return false;
	}
	bytes_wipe(&data);
	if (!ok)
		bytes_wipe(&out);
	return ok && top_connection_put(c, &out, why, size);
}

static bool log_in(struct console_connection *c, const struct console_address *a, char *why,
		   size_t size)
{
	const char *pairs[] = { "user",	     a->user, "database", a->database, "application_name",
				"pgweir top" };
	uint8_t nonce[SCRAM_NONCE_RAW], type;
	struct bytes out = BYTES_EMPTY;
	const uint8_t *body;
	size_t here;

	if (RAND_bytes(nonce, sizeof(nonce)) != 1) {
		snprintf(why, size, "no random numbers");
		return false;
	}
	scram_prover_init(&c->prover, nonce);
	c->prover.may_derive = true;
	pg_build_startup(&out, 3 << 16, pairs, sizeof(pairs) / sizeof(pairs[0]));
	if (!top_connection_put(c, &out, why, size))
		return false;
	while (top_connection_get(c, &type, &body, &here, why, size)) {
		if (type == PGS_READY)
			return true;
		if (type == PGS_ERROR)
			return say_error(body, here, why, size);
		if (type == PGS_AUTHENTICATION && !authenticate(c, a, body, here, why, size))
			return false;
	}
	return false;
}

/* Returns a connected socket, -1: errno. */
static int open_socket(const struct sockaddr *to, socklen_t size)
{
	const struct timeval limit = { .tv_sec = ANSWER_SECONDS };
	int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connect(fd, to, size) == 0)
		return fd;
	close(fd);
	return -1;
}

static int reach(const struct console_address *a, char *why, size_t size)
{
	struct addrinfo wanted = { .ai_socktype = SOCK_STREAM }, *found = NULL;
	struct sockaddr_un local = { .sun_family = AF_UNIX };
	char what[600];
	int fd = -1, error;

	snprintf(what, sizeof(what), "cannot connect to %s, port %s", a->host, a->port);
	errno = ENAMETOOLONG;
	if (*a->host == '/' || *a->host == '@') {
		if (snprintf(local.sun_path, sizeof(local.sun_path), "%s/.s.PGSQL.%s", a->host,
			     a->port) < (int)sizeof(local.sun_path)) {
			size_t length = strlen(local.sun_path);

			if (*a->host == '@')
				local.sun_path[0] = '\0';
			fd = open_socket((const struct sockaddr *)&local,
					 (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
						     length + (*a->host != '@')));
		}
	} else if ((error = getaddrinfo(a->host, a->port, &wanted, &found)) != 0) {
		snprintf(why, size, "%s: %s", what, gai_strerror(error));
		return -1;
	}
	for (const struct addrinfo *i = found; i && fd < 0; i = i->ai_next)
		fd = open_socket(i->ai_addr, i->ai_addrlen);
	error = errno;
	if (found)
		freeaddrinfo(found);
	errno = error;
	if (fd < 0)
		top_connection_fail(why, size, what);
	return fd;
}

void console_disconnect(struct console_connection **place)
{
	struct console_connection *c = *place;

	*place = NULL;
	if (!c)
		return;
	close(c->fd);
	scram_prover_clear(&c->prover);
	bytes_free(&c->in);
	mem_free(c);
}

static struct console_connection *top_connection_open_connection(const struct console_address *a,
								 char *why, size_t size)
{
	struct console_connection *c = mem_must(sizeof(*c));

	memset(c, 0, sizeof(*c));
	c->fd = reach(a, why, size);
	if (c->fd < 0)
		mem_free(c);
	else if (!log_in(c, a, why, size))
		console_disconnect(&c);
	else
		return c;
	return NULL;
}

/* ---- commands ---- */

/* Returns a copy of `size` bytes with a NUL. */
static char *top_connection_copy_of(const uint8_t *from, size_t size)
{
	char *copy = mem_must(size + 1);

	memcpy(copy, from, size);
	copy[size] = '\0';
	return copy;
}

/* Reads a RowDescription: names, each followed by 18 bytes. False: malformed. */
static bool take_names(struct console_rows *rows, const uint8_t *at, size_t here)
{
	const uint8_t *end = at + here, *nul;
	size_t count = here < 2 ? 0 : (size_t)at[0] << 8 | at[1];

	if (rows->names || here < 2)
		return false;
	rows->names = mem_must((count + 1) * sizeof(*rows->names));
	for (at += 2; rows->columns < count; at = nul + 19) {
		nul = memchr(at, 0, (size_t)(end - at));
		if (!nul || end - nul < 19)
			return false;
		rows->names[rows->columns++] = top_connection_copy_of(at, (size_t)(nul - at));
	}
	return true;
}

static bool top_connection_take_row(struct console_rows *rows, const uint8_t *at, size_t here)
{
	const uint8_t *end = at + here;
	size_t count = here < 2 ? 0 : (size_t)at[0] << 8 | at[1];

	if (count == 0 || count != rows->columns)
		return false;
	if ((rows->count & (rows->count + 1)) == 0) {
		char **more = mem_resize(rows->cells,
					 2 * (rows->count + 1) * count * sizeof(*more));

		if (!more)
			return false;
		rows->cells = more;
	}
	at += 2;
	for (size_t i = 0; i < count; i++) {
		uint32_t length = end - at < 4 ? 0 : pg_u32_at(at);
		bool is_bad = end - at < 4 ||
			      (length != UINT32_MAX && (size_t)(end - at - 4) < length);

		/* the row counts with all its cells */
		rows->cells[rows->count * count + i] = top_connection_copy_of(
			at + 4, is_bad || length == UINT32_MAX ? 0 : length);
		at = is_bad ? end : at + 4 + (length == UINT32_MAX ? 0 : length);
	}
	rows->count++;
	return true;
}

static bool top_connection_ask(struct console_connection *c, const char *command,
			       struct console_rows *rows, char *why, size_t size)
{
	struct bytes out = BYTES_EMPTY;
	size_t here, sum = 0;
	const uint8_t *body;
	uint8_t type;

	pg_build_string(&out, PGC_QUERY, command);
	if (!top_connection_put(c, &out, why, size))
		return false;
	while (top_connection_get(c, &type, &body, &here, why, size)) {
		bool ok = true;

		sum += here;
		if (type == PGS_READY) {
			bytes_consume(&c->in, c->taken);
			c->taken = 0;
			return true;
		}
		if (type == PGS_ERROR)
			return say_error(body, here, why, size);
		if (type == PGS_ROW_DESCRIPTION)
			ok = take_names(rows, body, here);
		else if (type == PGS_ROW)
			ok = top_connection_take_row(rows, body, here);
		if (!ok || sum > ANSWER_MOST) {
			snprintf(why, size, "the answer to %s is malformed", command);
			return false;
		}
	}
	return false;
}

bool console_ask(struct console_connection **place, const struct console_address *a,
		 const char *command, struct console_rows *rows, char *why, size_t size)
{
	*rows = (struct console_rows){ NULL, NULL, 0, 0 };
	if (!*place)
		*place = top_connection_open_connection(a, why, size);
	if (*place && top_connection_ask(*place, command, rows, why, size))
		return true;
	console_disconnect(place);
	return false;
}
