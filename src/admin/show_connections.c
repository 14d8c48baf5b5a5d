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
#include "login/login.h"
#include "login/replication.h"
#include "prepared/prepared.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ADDRESS_TEXT 64
#define ROWS_MOST 500			/* in one turn */

/* A connection of either kind, as the columns have it. */
struct connection {
	const struct peer *peer;
	const char *type, *user, *database, *state, *replication, *application, *close_reason, *task;
	unsigned minor;				/* of the protocol: 3.minor */
	uint64_t link_id;			/* 0: none */
	usec_t since, waits;			/* in this state since; and waits so long */
	int64_t remote_pid;
	unsigned prepared;			/* statements */
	bool is_asking;				/* a client of the console, and this SHOW is for it */
};

static int64_t unix_pid(const struct peer *peer)
{
	return peer->remote.family == AF_UNIX ? peer->remote.u.peer.pid : 0;
}

/* A client of the console is active while it is being answered: it will have no server. */
static const char *client_state(const struct client *c)
{
	if (c->console_state != CONSOLE_READY)
		return "active";
	return client_state_name((enum client_state)c->policy.state);
}

static bool is_waiting(const struct client *c)
{
	return c->policy.state == CLIENT_WAITING || c->policy.state == CLIENT_WAITING_LOGIN ||
	       c->policy.state == CLIENT_LOOKUP || c->policy.state == CLIENT_WAITING_CANCEL;
}

static const char *client_user(const struct client *c)
{
	if (c->policy.login_user)
		return c->policy.login_user->name;
	if (c->policy.state == CLIENT_LOOKUP)
		return c->login->user;
	return c->policy.pool ? c->policy.pool->user->name : "(nouser)";
}

static const char *client_database(const struct client *c)
{
	if (c->policy.state == CLIENT_LOOKUP)
		return c->login->database;
	return c->policy.pool ? c->policy.pool->database->name : "(nodb)";
}

static struct connection of_client(const struct show *s, const struct client *c)
{
	return (struct connection){
		.peer = &c->peer, .type = "C",
		.user = client_user(c),
		.database = client_database(c),
		.state = client_state(c),
		.replication = pg_replication_name(c->replication),
		.minor = c->minor,
		.prepared = prepared_client_count(c),
		.application = c->params ? params_get(c->params, PARAM_APPLICATION_NAME) : NULL,
		.link_id = c->policy.link ? server_of(c->policy.link)->peer.id : 0,
		.since = c->policy.since,
		.waits = is_waiting(c) ? s->world->now - c->policy.since : 0,
		.remote_pid = unix_pid(&c->peer),
		.is_asking = c->console_state == CONSOLE_RUNNING,
	};
}

static struct connection of_server(const struct server *v)
{
	const struct client *c = v->policy.link ? client_of(v->policy.link) : NULL;

	return (struct connection){
		.peer = &v->peer, .type = "S",
		.user = v->policy.pool->user->name,
		.database = v->policy.pool->database->name,
		.state = server_state_name((enum server_state)v->policy.state),
		.replication = pg_replication_name(v->replication),
		.minor = v->minor,
		.prepared = prepared_server_count(v),
		.application = v->params ? params_get(v->params, PARAM_APPLICATION_NAME) : NULL,
		.close_reason = v->policy.close_reason != REASON_NONE ?
			close_reason_row((enum close_reason)v->policy.close_reason)->text : NULL,
		.task = server_task_name(v->task),
		.link_id = c ? c->peer.id : 0,
		.since = v->policy.since,
		.remote_pid = v->backend_pid ? v->backend_pid : unix_pid(&v->peer),
	};
}

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

static void standard_cells(struct result *r, const struct connection *c)
{
	const struct peer *peer = c->peer;
	struct brief_address local = { .family = 0 };
	char text[128];

	address_of_socket(peer->stream.fd, &local, peer->remote.port);
	result_text(r, c->type);
	result_text(r, c->user);
	result_text(r, c->database);
	result_text(r, c->replication);
	result_text(r, c->state);
	address_cells(r, &peer->remote);
	address_cells(r, &local);
	time_cell(r, peer->connected_at);
	time_cell(r, peer->request_at > 0 ? peer->request_at : peer->connected_at);
	result_number(r, c->waits / USEC);
	result_number(r, c->waits % USEC);
	result_number(r, c->close_reason != NULL);
	result_text(r, show_pointer(peer->id, text, sizeof(text)));
	result_text(r, c->link_id ? show_pointer(c->link_id, text, sizeof(text)) : "");
	result_number(r, c->remote_pid);
	result_text(r, peer->stream.ssl ? stream_tls_text(&peer->stream, text, sizeof(text)) : "");
	result_text(r, c->application ? c->application : "");
	result_number(r, c->prepared);
	result_number(r, (int64_t)peer->id);
}

/* Positions in buffers, of which we have one for what came and one for what is to go, both empty
   most of the time. */
static void buffer_cells(struct result *r, const struct peer *peer)
{
	result_number(r, (int64_t)bytes_size(&peer->held));	/* recv_pos */
	result_number(r, 0);					/* pkt_pos */
	result_number(r, peer->passing);			/* pkt_remain */
	result_number(r, 0);					/* send_pos */
	result_number(r, (int64_t)stream_unsent(&peer->stream));	/* send_remain */
	result_number(r, (int64_t)bytes_size(&peer->held));	/* pkt_avail */
	result_number(r, (int64_t)stream_unsent(&peer->stream));	/* send_avail */
}

static void own_cells(const struct show *s, const struct connection *c)
{
	char protocol[8];

	snprintf(protocol, sizeof(protocol), "3.%u", c->minor);
	result_number(s->to, s->world->now - c->since);
	result_number(s->to, (int64_t)bytes_size(&c->peer->held));
	result_number(s->to, (int64_t)stream_unsent(&c->peer->stream));
	result_text(s->to, c->close_reason);
	result_text(s->to, c->task);
	result_text(s->to, protocol);
}

static void row(const struct show *s, const struct connection *c, bool with_buffers)
{
	standard_cells(s->to, c);
	if (with_buffers)
		buffer_cells(s->to, c->peer);
	if (s->extra)
		own_cells(s, c);
}

static bool is_unauthenticated(const struct client *c)
{
	return c->policy.state == CLIENT_STARTUP || c->policy.state == CLIENT_AUTH || !c->policy.pool;
}

/* A client is being served, or something is on its way. */
static bool is_active(const struct connection *c)
{
	return c->link_id || c->is_asking || bytes_size(&c->peer->held) > 0 ||
	       stream_unsent(&c->peer->stream) > 0;
}

/* ---- a turn gives ROWS_MOST of them ---- */

typedef void connection_row(const struct show *s, struct peer *peer);

/*
 * The next rows, one for each connection of the lists, which are in the order of ids. Each row is as of now; what has ended
 * meanwhile is left out, and so is what has come since the first row.
 */
static void walk(const struct show *s, const struct list *const *lists, int count, connection_row *give)
{
	struct result_place *p = &s->to->place;
	int left = ROWS_MOST;

	if (!p->goes_on)
		p->last = s->world->last_id;
	for (; p->list < count; p->list++, p->behind = 0) {
		LIST_EACH(node, lists[p->list]) {
			struct peer *peer = LIST_OBJECT(node, struct peer, node);

			if (peer->id <= p->behind || peer->id > p->last)
				continue;
			p->goes_on = left-- == 0;
			if (p->goes_on)
				return;
			give(s, peer);
			p->behind = peer->id;
		}
	}
	p->goes_on = false;
}

static void walk_all(const struct show *s, connection_row *give)
{
	const struct list *const lists[] = { &s->world->clients, &s->world->servers };

	walk(s, lists, 2, give);
}

static struct connection of_peer(const struct show *s, struct peer *peer)
{
	return peer->is_client ? of_client(s, LIST_OBJECT(peer, struct client, peer)) : of_server(LIST_OBJECT(peer, struct server, peer));
}

static void client_row(const struct show *s, struct peer *peer)
{
	const struct client *client = LIST_OBJECT(peer, struct client, peer);
	struct connection c;

	if (is_unauthenticated(client) && client->policy.state != CLIENT_LOOKUP)
		return;
	c = of_client(s, client);
	row(s, &c, false);
}

void show_clients(const struct show *s)
{
	const struct list *const lists[] = { &s->world->clients };

	walk(s, lists, 1, client_row);
}

static void server_row(const struct show *s, struct peer *peer)
{
	struct connection c = of_peer(s, peer);

	row(s, &c, false);
}

void show_servers(const struct show *s)
{
	const struct list *const lists[] = { &s->world->servers };

	walk(s, lists, 1, server_row);
}

static void socket_row(const struct show *s, struct peer *peer)
{
	struct connection c = of_peer(s, peer);

	row(s, &c, true);
}

void show_sockets(const struct show *s)
{
	walk_all(s, socket_row);
}

static void active_socket_row(const struct show *s, struct peer *peer)
{
	struct connection c = of_peer(s, peer);

	if (is_active(&c))
		row(s, &c, true);
}

void show_active_sockets(const struct show *s)
{
	walk_all(s, active_socket_row);
}

/* ---- FDS ---- */

static bool may_see_secrets(const struct show *s)
{
	const struct brief_address *from = s->asker ? &s->asker->peer.remote : NULL;

	return from && from->family == AF_UNIX && from->u.peer.uid == (uint32_t)geteuid();
}

/* Process id and key as the 64-bit number that a cancel request of protocol 3.0 carries; 0: there is no key, or a longer one. */
static int64_t cancel_number(uint32_t pid, const uint8_t *key, size_t size)
{
	uint64_t number = pid;

	if (size != CANCEL_KEY)
		return 0;
	for (int i = 0; i < CANCEL_KEY; i++)
		number = number << 8 | key[i];
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

static void fd_row(const struct show *s, const char *task, const struct connection *c, int64_t cancel,
		   const struct peer *link, const struct params *params)
{
	struct result *r = s->to;
	const struct secret *password = NULL;

	if (may_see_secrets(s) && s->world->secrets->list)
		password = userlist_find(s->world->secrets->list, c->user);
	result_number(r, c->peer->stream.fd);
	result_text(r, task);
	result_text(r, c->user);
	result_text(r, c->database);
	address_cells(r, &c->peer->remote);
	result_number(r, may_see_secrets(s) ? cancel : 0);
	result_number(r, link ? link->stream.fd : 0);
	parameter_cells(r, params);
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

static void fd_of_client(const struct show *s, const struct client *client)
{
	struct connection c = of_client(s, client);

	if (!is_unauthenticated(client) && !client->is_console)
		fd_row(s, "client", &c, cancel_number(client->cancel_pid, client->cancel_key, client->cancel_key_size),
		       client->policy.link ? &server_of(client->policy.link)->peer : NULL, client->params);
}

static void fd_of_server(const struct show *s, const struct server *server)
{
	struct connection c = of_server(server);

	fd_row(s, "server", &c, cancel_number(server->backend_pid, server->cancel_key, server->cancel_key_size),
	       server->policy.link ? &client_of(server->policy.link)->peer : NULL, server->params);
}

static void fd_of_peer(const struct show *s, struct peer *peer)
{
	if (peer->is_client)
		fd_of_client(s, LIST_OBJECT(peer, struct client, peer));
	else
		fd_of_server(s, LIST_OBJECT(peer, struct server, peer));
}

void show_fds(const struct show *s)
{
	s->to->is_secret = true;
	for (int i = 0; i < s->world->listening.count && !s->to->place.goes_on; i++)
		listener_row(s->to, s->world->listening.all[i]);
	walk_all(s, fd_of_peer);
}
