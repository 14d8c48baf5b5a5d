/*
 * Fills the rows of connections. Only this file knows where each value is kept.
 *
 * Invariant: world->peers.clients and world->peers.servers are in the order of ids, so that a walk
 * can continue after the last row.
 */
#include "core/connection_row.h"

#include "conf/value.h"
#include "pool/host.h"
#include "state/session_state.h"
#include "login/login.h"
#include "prepared/prepared.h"
#include "core/lifecycle.h"

static int64_t unix_pid(const struct peer *peer)
{
	return peer->remote.family == AF_UNIX ? peer->remote.u.peer.pid : 0;
}

static const char *user_of(const struct client *c)
{
	if (c->pooled.login_user)
		return c->pooled.login_user->name;
	if (c->login && c->login->user)
		return c->login->user;
	return c->pooled.pool ? c->pooled.pool->user->name : "(nouser)";
}

static bool is_unauthenticated(const struct client *c)
{
	return c->pooled.state == CLIENT_STARTUP || c->pooled.state == CLIENT_AUTH ||
	       !c->pooled.pool;
}

/* Fills the members that clients and servers share. */
static void fill_peer(struct connection_row *row, const struct peer *peer,
		      const struct params *params)
{
	row->is_client = peer->is_client;
	row->id = peer->id;
	row->connected_at = peer->connected_at;
	row->request_at = peer->request_at > 0 ? peer->request_at : peer->connected_at;
	row->remote = peer->remote;
	address_of_socket(peer->stream.fd, &row->local, peer->remote.port);
	row->held = bytes_size(&peer->held);
	row->unsent = stream_unsent(&peer->stream);
	row->passing = peer->passing;
	if (peer->stream.ssl)
		stream_tls_text(&peer->stream, row->tls, sizeof(row->tls));
	row->fd = peer->stream.fd;
	row->params = params;
	row->application = params ? params_get(params, PARAM_APPLICATION_NAME) : NULL;
}

/* Fills the members about the pins of a client, in the row of the client or its server. */
static void fill_pins(struct connection_row *row, const struct client *c)
{
	usec_t now = c->peer.world->now;

	row->pins = c->pooled.pins;
	if (!row->pins)
		return;
	row->pinned = c->session ? now - c->session->pinned_since : 0;
	if (c->activity.query_started == 0 && !c->activity.in_transaction)
		row->idle = now - c->activity.last;
}

static const char *host_of_client(const struct pool_client *c)
{
	if (c->link && c->link->host)
		return c->link->host->key;
	return c->pool && c->pool->host && c->pool->host != c->pool->pools->no_host
		       ? c->pool->host->key
		       : NULL;
}

static void fill_client(struct connection_row *row, const struct client *c)
{
	const struct peer *link = c->pooled.link ? &server_of(c->pooled.link)->peer : NULL;
	usec_t in_state = c->peer.world->now - c->pooled.since;
	bool is_waiting = c->pooled.state == CLIENT_WAITING ||
			  c->pooled.state == CLIENT_WAITING_LOGIN ||
			  c->pooled.state == CLIENT_LOOKUP ||
			  c->pooled.state == CLIENT_WAITING_CANCEL;
	const char *database = c->pooled.pool		       ? c->pooled.pool->database->name
			       : c->login && c->login->database ? c->login->database
								: "(nodb)";

	*row = (struct connection_row){
		.is_authenticated = !is_unauthenticated(c),
		.is_shown = !is_unauthenticated(c) || c->pooled.state == CLIENT_LOOKUP,
		.is_console = c->console.is_connected,
		.is_asking = c->console.state == CONSOLE_RUNNING,
		.user = user_of(c),
		.pool_user = c->pooled.pool ? c->pooled.pool->user->name : user_of(c),
		.database = c->pooled.state == CLIENT_LOOKUP ? c->login->database : database,
		/* a console client is shown as active while a command of it is being answered; it
		   never has a server */
		.state = c->console.state != CONSOLE_READY
				 ? "active"
				 : client_state_rows[c->pooled.state].name,
		.replication = pg_replication_name(c->login_facts.replication),
		.minor = c->login_facts.minor,
		.prepared = prepared_client_count(c),
		.link_id = link ? link->id : 0,
		.link_fd = link ? link->stream.fd : 0,
		.in_state = in_state,
		.waits = is_waiting ? in_state : 0,
		.remote_pid = unix_pid(&c->peer),
		.cancel_pid = c->cancel_key.pid,
		.cancel_key = c->cancel_key.secret,
		.cancel_key_size = c->cancel_key.size,
		.client = c,
	};
	row->link_pid = link ? server_of(c->pooled.link)->backend_pid : 0;
	row->host = host_of_client(&c->pooled);
	row->target = c->pooled.target != TARGET_ANY ? setting_word(WORDS_TARGET, c->pooled.target)
						     : NULL;
	fill_peer(row, &c->peer, c->params);
	fill_pins(row, c);
}

static void fill_server(struct connection_row *row, const struct server *s)
{
	const struct peer *link = s->pooled.link ? &client_of(s->pooled.link)->peer : NULL;
	enum close_reason why = (enum close_reason)s->pooled.close_reason;

	*row = (struct connection_row){
		.is_authenticated = true,
		.is_shown = true,
		.user = s->pooled.pool->user->name,
		.pool_user = s->pooled.pool->user->name,
		.database = s->pooled.pool->database->name,
		.state = server_state_rows[s->pooled.state].name,
		.replication = pg_replication_name(s->replication),
		.minor = s->minor,
		.prepared = prepared_server_count(s),
		.close_reason = why != REASON_NONE ? close_reason_rows[why].text : NULL,
		.task = s->task ? s->task->name : NULL,
		.host = s->pooled.host ? s->pooled.host->key : NULL,
		.link_id = link ? link->id : 0,
		.link_fd = link ? link->stream.fd : 0,
		.in_state = s->peer.world->now - s->pooled.since,
		.remote_pid = s->backend_pid ? s->backend_pid : unix_pid(&s->peer),
		.cancel_pid = s->backend_pid,
		.cancel_key = s->cancel_key,
		.cancel_key_size = s->cancel_key_size,
	};
	fill_peer(row, &s->peer, s->params);
	if (link)
		fill_pins(row, client_of(s->pooled.link));
}

void connections_of_pool(const struct pool *pool, enum connection_kinds kinds, size_t most,
			 void (*give)(void *context, const struct connection_row *row),
			 void *context)
{
	static const enum client_state of_clients[] = {
		CLIENT_WAITING_LOGIN, CLIENT_WAITING,	     CLIENT_ACTIVE,
		CLIENT_IDLE,	      CLIENT_WAITING_CANCEL, CLIENT_ACTIVE_CANCEL
	};
	static const enum server_state of_servers[] = { SERVER_ACTIVE,	  SERVER_FINISHING,
							SERVER_LOOKUP,	  SERVER_BEING_CANCELED,
							SERVER_LISTENING, SERVER_TESTED,
							SERVER_IDLE,	  SERVER_USED,
							SERVER_LOGIN,	  SERVER_ACTIVE_CANCEL };
	struct connection_row row;

	for (size_t i = 0;
	     i < sizeof(of_clients) / sizeof(of_clients[0]) && kinds != CONNECTION_SERVERS; i++)
		LIST_EACH(node, &pool->clients[of_clients[i]]) {
			struct pool_client *client = LIST_OBJECT(node, struct pool_client, node);

			if (client->is_internal)
				continue;
			if (most-- == 0)
				return;
			fill_client(&row, client_of(client));
			give(context, &row);
		}
	for (size_t i = 0;
	     i < sizeof(of_servers) / sizeof(of_servers[0]) && kinds != CONNECTION_CLIENTS; i++)
		LIST_EACH(node, &pool->servers[of_servers[i]]) {
			if (most-- == 0)
				return;
			fill_server(&row, server_of(LIST_OBJECT(node, struct pool_server, node)));
			give(context, &row);
		}
}

void connections_walk(const struct world *w, struct connection_walk *walk,
		      enum connection_kinds kinds, int most,
		      void (*give)(void *context, const struct connection_row *row), void *context)
{
	const struct list *const lists[] = { &w->peers.clients, &w->peers.servers };
	int first = kinds == CONNECTION_SERVERS, end = kinds == CONNECTION_CLIENTS ? 1 : 2;

	if (!walk->goes_on)
		*walk = (struct connection_walk){ .list = first, .last = w->peers.last_id };
	for (; walk->list < end; walk->list++, walk->behind = 0) {
		LIST_EACH(node, lists[walk->list]) {
			struct peer *peer = LIST_OBJECT(node, struct peer, node);
			struct connection_row row;

			if (peer->id <= walk->behind || peer->id > walk->last)
				continue;
			walk->goes_on = most-- == 0;
			if (walk->goes_on)
				return;
			if (peer->is_client)
				fill_client(&row, LIST_OBJECT(peer, struct client, peer));
			else
				fill_server(&row, LIST_OBJECT(peer, struct server, peer));
			give(context, &row);
			walk->behind = peer->id;
		}
	}
	walk->goes_on = false;
}

static int add_up(struct connection_totals *sum, const struct list *peers)
{
	int count = 0;

	LIST_EACH(node, peers) {
		const struct peer *peer = LIST_OBJECT(node, struct peer, node);

		count++;
		sum->buffered += bytes_size(&peer->held) + stream_unsent(&peer->stream);
		sum->buffers += peer->held.capacity + peer->stream.out.capacity;
	}
	return count;
}

struct connection_totals connections_total(const struct world *w)
{
	struct connection_totals sum = { .buffered = 0 };

	sum.clients = add_up(&sum, &w->peers.clients);
	sum.servers = add_up(&sum, &w->peers.servers);
	return sum;
}

bool world_kill_client(struct world *w, uint64_t id)
{
	LIST_EACH(node, &w->peers.clients) {
		struct client *c = LIST_OBJECT(node, struct client, peer.node);

		/* cancel requests do not count as clients */
		if (c->peer.id != id || c->pooled.state == CLIENT_WAITING_CANCEL ||
		    c->pooled.state == CLIENT_ACTIVE_CANCEL)
			continue;
		if (c->pooled.link)
			server_end(server_of(c->pooled.link), REASON_ADMIN_KILL, NULL);
		else
			client_end(c, REASON_ADMIN_KILL, NULL);
		return true;
	}
	return false;
}
