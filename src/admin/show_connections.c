/*
 * SHOW CLIENTS, SERVERS, SOCKETS, ACTIVE_SOCKETS and FDS: connections, in the order in which they
 * came.
 *
 * The first four have the same columns. The last asks for more than the others: it says what a
 * process needs that is to take the sockets over, secrets too, and those only to the daemon's own
 * user at the other end of a Unix socket.
 */
#include "admin/show.h"
#include "backend/secrets.h"
#include "session/connection_row.h"

#include <stdio.h>
#include <string.h>

#define ADDRESS_TEXT 64
#define ROWS_MOST 500			/* in one turn */

static void address_cells(struct result *r, const struct brief_address *address)
{
	char text[ADDRESS_TEXT];

	result_text(r, brief_address_text(address, text, sizeof(text)));
	result_number(r, address->port);
}

static void time_cell(struct result *r, usec_t wall)
{
	char text[64];

	result_text(r, clock_format(wall, 0, text, sizeof(text)));
}

static void standard_cells(struct result *r, const struct connection_row *c)
{
	char text[SHOW_POINTER];

	result_text(r, c->is_client ? "C" : "S");
	result_text(r, c->user);
	result_text(r, c->database);
	result_text(r, c->replication);
	result_text(r, c->state);
	address_cells(r, &c->remote);
	address_cells(r, &c->local);
	time_cell(r, c->connected_at);
	time_cell(r, c->request_at);
	result_number(r, c->waits / USEC);
	result_number(r, c->waits % USEC);
	result_number(r, c->close_reason != NULL);
	result_text(r, show_pointer(c->id, text, sizeof(text)));
	result_text(r, c->link_id ? show_pointer(c->link_id, text, sizeof(text)) : "");
	result_number(r, c->remote_pid);
	result_text(r, c->tls);
	result_text(r, c->application ? c->application : "");
	result_number(r, c->prepared);
	result_number(r, (int64_t)c->id);
}

/* Positions in buffers, of which we have one for what came and one for what is to go, both empty
   most of the time. */
static void buffer_cells(struct result *r, const struct connection_row *c)
{
	result_number(r, (int64_t)c->held);	/* recv_pos */
	result_number(r, 0);			/* pkt_pos */
	result_number(r, (int64_t)c->passing);	/* pkt_remain */
	result_number(r, 0);			/* send_pos */
	result_number(r, (int64_t)c->unsent);	/* send_remain */
	result_number(r, (int64_t)c->held);	/* pkt_avail */
	result_number(r, (int64_t)c->unsent);	/* send_avail */
}

static void own_cells(struct result *r, const struct connection_row *c)
{
	char protocol[8], pins[PIN_TEXT];

	snprintf(protocol, sizeof(protocol), "3.%u", c->minor);
	result_number(r, c->in_state);
	result_number(r, (int64_t)c->held);
	result_number(r, (int64_t)c->unsent);
	result_text(r, c->close_reason);
	result_text(r, c->task);
	result_text(r, protocol);
	result_text(r, c->pins ? pins_text(c->pins, pins) : NULL);
	result_number(r, c->pinned);
}

static void connection_cells(const struct show *s, const struct connection_row *c, bool with_buffers)
{
	standard_cells(s->to, c);
	if (with_buffers)
		buffer_cells(s->to, c);
	if (s->extra)
		own_cells(s->to, c);
}

static void walk(const struct show *s, enum connection_kinds kinds, void (*give)(void *show, const struct connection_row *c))
{
	struct show copy = *s;

	connections_walk(s->world, &s->to->walk, kinds, ROWS_MOST, give, &copy);
}

static void give_shown(void *show, const struct connection_row *c)
{
	if (c->is_shown)
		connection_cells(show, c, false);
}

void show_clients(const struct show *s)
{
	walk(s, CONNECTION_CLIENTS, give_shown);
}

void show_servers(const struct show *s)
{
	walk(s, CONNECTION_SERVERS, give_shown);
}

static void give_socket(void *show, const struct connection_row *c)
{
	connection_cells(show, c, true);
}

void show_sockets(const struct show *s)
{
	walk(s, CONNECTION_ALL, give_socket);
}

/* A client is being served, or something is on its way. */
static void give_active_socket(void *show, const struct connection_row *c)
{
	if (c->link_id || c->is_asking || c->held > 0 || c->unsent > 0)
		connection_cells(show, c, true);
}

void show_active_sockets(const struct show *s)
{
	walk(s, CONNECTION_ALL, give_active_socket);
}

static void give_pinned(void *show, const struct connection_row *c)
{
	const struct show *s = show;
	struct result *r = s->to;
	char text[PIN_TEXT], pointer[SHOW_POINTER];

	if (!c->pins)
		return;
	result_text(r, c->database);
	result_text(r, c->user);
	result_text(r, pins_text(c->pins, text));
	result_number(r, c->pinned);
	result_number(r, c->idle);
	address_cells(r, &c->remote);
	result_text(r, c->application ? c->application : "");
	result_text(r, show_pointer(c->id, pointer, sizeof(pointer)));
	result_text(r, show_pointer(c->link_id, pointer, sizeof(pointer)));
	result_number(r, c->link_pid);
}

void show_pins(const struct show *s)
{
	walk(s, CONNECTION_CLIENTS, give_pinned);
}

/* ---- FDS ---- */

/* Process id and key as the 64-bit number that a cancel request of protocol 3.0 carries; 0: there is no key, or a longer one. */
static int64_t cancel_number(const struct connection_row *c)
{
	uint64_t number = c->cancel_pid;

	if (c->cancel_key_size != CANCEL_KEY)
		return 0;
	for (int i = 0; i < CANCEL_KEY; i++)
		number = number << 8 | c->cancel_key[i];
	return (int64_t)number;
}

static void parameter_cells(struct result *r, const struct params *params)
{
	static const int shown[] = {
		PARAM_CLIENT_ENCODING, PARAM_STANDARD_CONFORMING_STRINGS, PARAM_DATESTYLE, PARAM_TIMEZONE,
	};

	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		result_text(r, params ? params_get(params, shown[i]) : NULL);
}

static void give_fd(void *show, const struct connection_row *c)
{
	const struct show *s = show;
	struct result *r = s->to;
	const struct secret *password = NULL;

	if (!c->is_authenticated || c->is_console)
		return;
	if (s->with_secrets && s->world->secrets->list)
		password = userlist_find(s->world->secrets->list, c->user);
	result_number(r, c->fd);
	result_text(r, c->is_client ? "client" : "server");
	result_text(r, c->user);
	result_text(r, c->database);
	address_cells(r, &c->remote);
	result_number(r, s->with_secrets ? cancel_number(c) : 0);
	result_number(r, c->link_fd);
	parameter_cells(r, c->params);
	result_text(r, password ? password->bytes : NULL);
	result_null(r);			/* what logins reveal stays in the process */
	result_null(r);
}

/* The address alone of "127.0.0.1:6432" or "[::]:6432". */
static void listener_address_cell(struct result *r, const struct listener *l)
{
	const char *from = listener_text(l), *to = strrchr(from, ':');
	char text[ADDRESS_TEXT];

	if (listener_is_unix(l) || !to) {
		result_text(r, "unix");
		return;
	}
	if (*from == '[') {
		from++;
		to--;
	}
	snprintf(text, sizeof(text), "%.*s", (int)(to - from), from);
	result_text(r, text);
}

static void listener_row(struct result *r, const struct listener *l)
{
	result_number(r, listener_fd(l));
	result_text(r, "pooler");
	result_null(r);
	result_null(r);
	listener_address_cell(r, l);
	result_number(r, listener_port(l));
	result_number(r, 0);
	result_number(r, 0);
	for (int i = 0; i < 7; i++)
		result_null(r);
}

void show_fds(const struct show *s)
{
	s->to->is_secret = true;
	for (int i = 0; i < s->world->listening.count && !s->to->walk.goes_on; i++)
		listener_row(s->to, s->world->listening.all[i]);
	walk(s, CONNECTION_ALL, give_fd);
}
