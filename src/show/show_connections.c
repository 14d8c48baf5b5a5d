/*
 * SHOW CLIENTS, SERVERS, SOCKETS, ACTIVE_SOCKETS, PINS and FDS: connections, in the order in which they came.
 *
 * SHOW FDS has the data that a process needs to take the sockets over, including secrets; these only for the daemon's own user at the other
 * end of a Unix socket.
 */
#include "show/rows.h"

#include "backend/secrets.h"
#include "conn/world.h"

#include <stdio.h>
#include <string.h>

#define ADDRESS_TEXT 64
#define ROWS_MOST 500			/* rows per turn */

static void walk(const struct show *s, enum connection_kinds kinds, void (*give)(void *show, const struct connection_row *c))
{
	struct show copy = *s;

	connections_walk(s->world, &s->to->walk, kinds, ROWS_MOST, give, &copy);
}

static void give_socket(void *show, const struct connection_row *c)
{
	show_row(show, c);
}

static void give_shown(void *show, const struct connection_row *c)
{
	if (c->is_shown)
		show_row(show, c);
}

/* A client is being served, or bytes are to be processed or sent. */
static void give_active_socket(void *show, const struct connection_row *c)
{
	if (c->link_id || c->is_asking || c->held > 0 || c->unsent > 0)
		show_row(show, c);
}

static void give_pinned(void *show, const struct connection_row *c)
{
	if (c->pins)
		show_row(show, c);
}

void show_clients(const struct show *s) { walk(s, CONNECTION_CLIENTS, give_shown); }
void show_servers(const struct show *s) { walk(s, CONNECTION_SERVERS, give_shown); }
void show_sockets(const struct show *s) { walk(s, CONNECTION_ALL, give_socket); }
void show_active_sockets(const struct show *s) { walk(s, CONNECTION_ALL, give_active_socket); }
void show_pins(const struct show *s) { walk(s, CONNECTION_CLIENTS, give_pinned); }

/* ---- FDS ---- */

/* Returns process id and key as the 64-bit number that a cancel request of protocol 3.0 contains; 0: no key, or a longer key. */
static int64_t cancel_number(const struct connection_row *c)
{
	uint64_t number = c->cancel_pid;

	if (c->cancel_key_size != CANCEL_KEY)
		return 0;
	for (int i = 0; i < CANCEL_KEY; i++)
		number = number << 8 | c->cancel_key[i];
	return (int64_t)number;
}

static void give_fd(void *context, const struct connection_row *c)
{
	const struct show *s = context;
	const struct secret *password = NULL;
	char address[ADDRESS_TEXT];
	struct fd_row row;

	if (!c->is_authenticated || c->is_console)
		return;
	if (s->with_secrets && s->world->secrets->list)
		password = userlist_find(s->world->secrets->list, c->user);
	row = (struct fd_row){
		.fd = c->fd, .task = c->is_client ? "client" : "server", .user = c->user, .database = c->database,
		.address = brief_address_text(&c->remote, address, sizeof(address)), .port = c->remote.port,
		.cancel = s->with_secrets ? cancel_number(c) : 0, .link = c->link_fd, .params = c->params,
		.password = password ? password->bytes : NULL,
	};
	show_row(s, &row);
}

/* Adds the address of "127.0.0.1:6432" or "[::]:6432" without the port. */
static const char *listener_address(const struct listen_socket *l, char text[ADDRESS_TEXT])
{
	const char *from = listen_socket_text(l), *to = strrchr(from, ':');

	if (listen_socket_is_unix(l) || !to)
		return "unix";
	if (*from == '[') {
		from++;
		to--;
	}
	snprintf(text, ADDRESS_TEXT, "%.*s", (int)(to - from), from);
	return text;
}

static void give_listener(const struct show *s, const struct listen_socket *l)
{
	char address[ADDRESS_TEXT];

	show_row(s, &(struct fd_row){ .fd = listen_socket_fd(l), .task = "pooler", .address = listener_address(l, address), .port = listen_socket_port(l) });
}

void show_fds(const struct show *s)
{
	s->to->is_secret = true;
	for (int i = 0; i < s->world->listening.count && !s->to->walk.goes_on; i++)
		give_listener(s, s->world->listening.all[i]);
	walk(s, CONNECTION_ALL, give_fd);
}
