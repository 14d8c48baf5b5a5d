#ifndef UNIT_LOGINS_H
#define UNIT_LOGINS_H

/* Logins in the world of whole.h, message by message: clients that authenticate, and servers that the test plays. */
#include "auth/login_state.h"
#include "auth/users.h"
#include "core/lifecycle.h"
#include "data_row.h"
#include "unit.h"
#include "whole.h"

#include <sys/socket.h>

/* Opens the world with this user list, "" for none; the ini names no auth_file. */
static inline void login_open(const char *ini, const char *users)
{
	struct conf_problems problems = { .count = 0 };

	whole_open(ini);
	if (*users) {
		sandbox_file("users", users, strlen(users));
		users_replace(whole.world, userlist_load("users", &problems));
	}
	CHECK_INT(problems.count, 0);
	conf_problems_free(&problems);
}

/* Connects a client with this user name. Returns the test's end of the connection. */
static inline struct house_end *login_name(const char *user, const char *database)
{
	const char *const pairs[] = { "user", user, "database", database };
	struct house_end *end = house_connect(&whole);
	struct bytes out = BYTES_EMPTY;

	pg_build_startup(&out, 3u << 16, pairs, 4);
	house_send(&whole, end, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	house_settle(&whole);
	return end;
}

/* Connects a client over a Unix socket, as a process of this user. */
static inline struct house_end *login_connect_unix(void)
{
	struct house_end *end = &whole.ends[whole.end_count];
	struct address from;
	int fds[2];

	FUZZ_CHECK(whole.end_count < HOUSE_ENDS && address_from_unix(&from, "/tmp", 6432));
	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	FUZZ_CHECK(dispatch_ops.accepted(whole.world, fds[1], &from, true, 6432));
	whole.end_count++;
	*end = (struct house_end){ .fd = fds[0], .got = BYTES_EMPTY, .wire = BYTES_EMPTY };
	return end;
}

/* The messages to the client of this end since the previous call. */
#define login_told whole_client_got

/* Sends a PasswordMessage and returns the answer to the client. */
static inline const char *login_password(struct house_end *end, const char *password)
{
	whole_say(end, 'p', password, strlen(password) + 1);
	return login_told(end);
}

static inline bool login_is_welcome(const char *told)
{
	return strstr(told, " Z(I)") != NULL;
}

/* Returns the code of the last AuthenticationRequest to this end; -1: none. */
static inline int login_asked(const struct house_end *end)
{
	struct pg_frames in = pg_frames_of(&end->got);
	struct pg_frame f;
	int code = -1;

	while (pg_frames_next(&in, PG_LENGTH_LIMIT, &f) == PG_OK)
		if (f.type == 'R' && f.size >= 4)
			code = (int)pg_u32_at(f.body);
	return code;
}

/* Sends these messages to this end and frees them. */
static inline void login_send(struct house_end *end, struct bytes *out)
{
	house_send(&whole, end, bytes_front(out), bytes_size(out));
	bytes_free(out);
	house_settle(&whole);
}

/* ---- auth_query ---- */

static inline void login_put_short(struct bytes *out, uint8_t type)
{
	pg_end(out, pg_begin(out, type));
}

/* The server's answers to the statements that precede the query. */
static inline void login_put_prepared(struct bytes *out)
{
	static const char *const cells[] = { "x" };

	for (int i = 0; i < 2; i++) {
		login_put_short(out, '1');
		login_put_short(out, '2');
		pg_build_data_row(out, cells, 1);
		pg_build_string(out, 'C', "SELECT 1");
	}
}

/* A complete answer to auth_query: this user with this secret; `user` NULL: no row. */
static inline void login_put_found(struct bytes *out, const char *user, const char *secret)
{
	static const char *const columns[] = { "name:text", "secret:text" };
	const char *const cells[] = { user, secret };

	login_put_prepared(out);
	login_put_short(out, '1');
	login_put_short(out, '2');
	pg_build_row_description(out, columns, 2);
	if (user)
		pg_build_data_row(out, cells, 2);
	pg_build_string(out, 'C', user ? "SELECT 1" : "SELECT 0");
	pg_build(out, 'Z', "I", 1);
}

/* The server answers its look-up with these values. */
static inline void login_found(struct house_end *server, const char *user, const char *secret)
{
	struct bytes out = BYTES_EMPTY;

	login_put_found(&out, user, secret);
	login_send(server, &out);
}

#endif
