/*
 * Online restart without dropping clients: the state of the running process moves to a new process.
 *
 * In the order of time (handover_conversation.c has the messages):
 *
 * 1. The new process has read its own configuration, and asks the old one. The old process lets
 *    logins and cancel requests in progress end, because they cannot move, for a second at most.
 * 2. handover_send() sends everything in one turn, including descriptors. From now on both
 *    processes hold the sockets, and neither reads or writes: the old process waits, and the new
 *    process has not started its event loop.
 * 3. handover_take() builds the same world. If a record does not fit, the new process ends
 *    (handover_undo()), and the old one continues as if nothing had happened.
 * 4. The new process sends READY, and the old one GO: it gives up its connections.
 *    handover_finish() begins to serve.
 *
 * Therefore no byte can be read by one process and handled by the other, and if one process fails,
 * the other has everything.
 *
 * Connections need not be idle. The state in the middle of a message, owed answers and unsent bytes
 * are in the structs and are handed over. Sessions under TLS, logins and cancel requests cannot be
 * handed over. Clients that cannot be handed over are served by the old process until they leave
 * (it is a predecessor then: see predecessors.c).
 *
 * The configuration is not handed over: the new process reads its own. Therefore a database record
 * says how its servers were reached, to find out whether they still fit, and a pool is named by
 * database and user. Records are sent in the order in which the lists of room pool are rebuilt:
 * waiting clients from the first in the queue, idle servers, with lists that grow at the front,
 * from the last. A linked client follows its server.
 *
 * Invariant: until handover_finish the new process sends no byte to any peer.
 */
#include "handover/handover_parts.h"

#include "auth/unknown.h"
#include "backend/dial.h"
#include "backend/keys.h"
#include "backend/retire.h"
#include "backend/server_info.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/text.h"
#include "conf/value.h"
#include "conn/listen_sockets.h"
#include "pg/build.h"
#include "pool/admit.h"
#include "pool/pool_record.h"
#include "relay/relay.h"

#include <string.h>
#include <unistd.h>

/* ---- the process ---- */

/* Settings that replace TCP server connections when they change. A change between two processes
   replaces them too. Without TLS these settings have no effect. */
static struct bytes tls_of(const struct world *w)
{
	struct bytes out = BYTES_EMPTY;

	pack_bool(&out, w->tls.servers != NULL);
	if (w->tls.servers || w->tls.own_count > 0)
		value_rows_pack(&out, &setting_table, APPLIES_TCP_SERVERS, &w->conf->settings);
	return out;
}

/* Includes the names of the tracked parameters: untracked parameters stay in a session for the next
   client. */
static struct bytes logins_of(const struct world *w)
{
	struct bytes out = BYTES_EMPTY;

	value_rows_pack(&out, &setting_table, APPLIES_SERVERS, &w->conf->settings);
	for (int i = 0; i < params_count(w->params); i++)
		pack_text(&out, params_name(w->params, i));
	return out;
}

static void world_pack(struct bytes *out, const struct world *w)
{
	struct bytes tls = tls_of(w), logins = logins_of(w);

	pack_u64(out, w->peers.last_id);
	pack_u64(out, statements_last(w->statements));
	pack_bool(out, w->listen_sockets.inherited);
	unknown_pack(out, w->logins.unknown);
	pack_wiped(out, &tls);
	pack_wiped(out, &logins);
	pack_blob(out, w->seed, sizeof(w->seed));
	keys_pack(out, w->logins.secrets->keys);
	keys_pack(out, w->logins.secrets->old_keys);
	keys_pack(out, w->logins.secrets->found_keys);
	pools_pack(out, w->pools);
}

static void world_unpack(struct unpack *in, struct handover *h)
{
	struct world *w = h->world;
	struct bytes tls = tls_of(w), logins = logins_of(w);

	in->bad |= h->has_world;
	h->has_world = true;
	w->peers.last_id = unpack_u64(in);
	statements_begin_behind(w->statements, unpack_u64(in));
	w->listen_sockets.inherited = unpack_bool(in);
	unknown_unpack(in, w->logins.unknown);
	h->tls_differs = !unpack_compare(in, &tls);
	h->logins_differ = !unpack_compare(in, &logins);
	unpack_exactly(in, w->seed, sizeof(w->seed));
	keys_unpack(in, w->logins.secrets->keys);
	keys_unpack(in, w->logins.secrets->old_keys);
	keys_unpack(in, w->logins.secrets->found_keys);
	pools_unpack(in, w->pools, w->now);
}

/* ---- databases ---- */

/* Serialises where and how the database connects, including the password: the bytes are equal
   exactly if the databases of two processes connect to the same place in the same way. */
static void pack_connection(struct bytes *out, const struct conf_database *database)
{
	value_rows_pack(out, &database_table, APPLIES_SERVERS, database);
	pack_text(out, database->password ? database->password->bytes : NULL);
}

static bool database_send(struct sender *s, const struct database *d)
{
	struct bytes out = BYTES_EMPTY, connection = BYTES_EMPTY;
	bool sent;

	pack_connection(&connection, d->conf);
	pack_text(&out, d->name);
	pack_wiped(&out, &connection);
	database_pack(&out, d);
	sent = records_send(s->to, HANDOVER_DATABASE, &out, -1, s->patience);
	bytes_wipe(&out);
	return sent;
}

static void database_record_unpack(struct unpack *in, struct handover *h)
{
	struct world *w = h->world;
	const char *name = unpack_text(in);
	struct database *d = name ? database_get(w->pools, name, true, w->now) : NULL, **more;
	struct bytes ours = BYTES_EMPTY;
	bool is_same;

	if (d)
		pack_connection(&ours, d->conf);
	is_same = unpack_compare(in, &ours);
	in->bad |= !name;
	if (in->bad)
		return;
	database_unpack(in, d, w->now);
	/* without `d` the database is not in this configuration, so its connections do not fit
	   either */
	if (!d || in->bad || is_same || d->is_console)
		return;
	/* its servers connect to another place than this configuration says */
	more = mem_resize(h->moved, (h->moved_count + 1) * sizeof(struct database *));
	in->bad |= !more;
	if (!more)
		return;
	h->moved = more;
	h->moved[h->moved_count++] = d;
}

/* ---- pools ---- */

static void pool_record_unpack(struct unpack *in, struct handover *h)
{
	struct world *w = h->world;
	const char *database = unpack_text(in), *name = unpack_text(in), *host = unpack_text(in);
	bool for_internal = unpack_bool(in), had_sessions = unpack_bool(in);
	struct database *d = database ? database_get(w->pools, database, true, w->now) : NULL;
	struct user *user = d && name ? user_get(w->pools, name) : NULL;

	h->pool = user ? pool_get(d, user, for_internal, w->now) : NULL;
	if (h->pool && host)
		h->pool = pool_at_key(h->pool, host, w->now);
	h->server = NULL;
	h->no_place = REASON_NONE;
	in->bad |= !database || !name;
	if (in->bad)
		return;
	if (!d)
		h->no_place = REASON_DATABASE_REMOVED;
	else if (h->pool && h->pool->user != user)	/* the database forces another user now */
		h->no_place = REASON_DATABASE_CHANGED;
	if (h->no_place != REASON_NONE) {
		h->pool = NULL;
		in->at = in->end;
		return;
	}
	in->bad |= !h->pool;
	if (in->bad)
		return;
	h->mode_differs = had_sessions != (h->pool->allowed.mode == MODE_SESSION);
	pool_unpack(in, h->pool);
	server_info_unpack(in, h->pool, w->params);
}

/* ---- the walk ---- */

static bool client_send_away(struct sender *s, struct list *node)
{
	struct pool_client *policy = LIST_OBJECT(node, struct pool_client, node);
	struct client *c = policy->is_internal ? NULL : client_of(policy);
	struct bytes out = BYTES_EMPTY;
	bool sent;

	if (!c || !handover_includes(&c->peer))
		return true;
	client_record_pack(s, &out, c);
	sent = !s->is_broken &&
	       records_send(s->to, HANDOVER_CLIENT, &out, c->peer.stream.fd, s->patience);
	bytes_wipe(&out);
	s->counts->clients++;
	return sent;
}

static bool server_send_away(struct sender *s, struct list *node)
{
	struct server *server = server_of(LIST_OBJECT(node, struct pool_server, node));
	struct bytes out = BYTES_EMPTY;
	bool sent;

	if (!handover_includes(&server->peer))
		return true;
	server_record_pack(s, &out, server);
	sent = !s->is_broken &&
	       records_send(s->to, HANDOVER_SERVER, &out, server->peer.stream.fd, s->patience);
	bytes_wipe(&out);
	s->counts->servers++;
	return sent && (!server->pooled.link || client_send_away(s, &server->pooled.link->node));
}

static bool list_send(struct sender *s, const struct list *list, bool backwards,
		      bool (*send)(struct sender *, struct list *))
{
	for (struct list *node = backwards ? list->prev : list->next; node != list;
	     node = backwards ? node->prev : node->next)
		if (!send(s, node))
			return false;
	return true;
}

/* Sends the pool and its connections. */
static bool pool_send(struct sender *s, const struct pool *pool)
{
	const char *forced = pool->database->conf->user;
	struct bytes out = BYTES_EMPTY;
	bool sent;

	pack_text(&out, pool->database->name);
	pack_text(&out, pool->user->name);
	pack_text(&out, pool->host ? pool->host->key : NULL);
	/* a pool for auth_query: its user is not the user that the database forces on its
	   clients */
	pack_bool(&out, forced && strcmp(forced, pool->user->name) != 0);
	pack_bool(&out, pool->allowed.mode == MODE_SESSION);
	pool_pack(&out, pool);
	server_info_pack(&out, pool, s->statements.world->params);
	sent = records_send(s->to, HANDOVER_POOL, &out, -1, s->patience);
	bytes_wipe(&out);
	return sent &&
	       list_send(s, &pool->servers[SERVER_USED], true, server_send_away) &&
	       list_send(s, &pool->servers[SERVER_IDLE], true, server_send_away) &&
	       list_send(s, &pool->servers[SERVER_TESTED], false, server_send_away) &&
	       list_send(s, &pool->servers[SERVER_LISTENING], false, server_send_away) &&
	       list_send(s, &pool->servers[SERVER_ACTIVE], false, server_send_away) &&
	       list_send(s, &pool->clients[CLIENT_IDLE], false, client_send_away) &&
	       list_send(s, &pool->clients[CLIENT_WAITING], false, client_send_away);
}

/* ---- the old process ---- */

const char *handover_refusal(const struct world *w)
{
	if (w->successor)
		return "it has been replaced already";
	if (w->drain.step != DRAIN_OFF)
		return "it is shutting down";
	if (w->pools->paused || w->pools->suspended)
		return "it is paused or suspended: RESUME it first";
	for (const struct database *d = w->pools->databases; d; d = d->hh.next)
		if (d->paused)
			return "a database of it is paused: RESUME it first";
	return NULL;
}

static bool statement_send(struct record_statements *statements, struct bytes *record)
{
	struct sender *s = LIST_OBJECT(statements, struct sender, statements);

	s->is_broken = !records_send(s->to, HANDOVER_STATEMENT, record, -1, s->patience);
	return !s->is_broken;
}

bool handover_send(struct world *w, struct records *to, int patience,
		   struct handover_counts *counts)
{
	struct sender s = { .to = to, .patience = patience, .counts = counts };
	struct bytes out = BYTES_EMPTY;
	bool sent;

	s.statements = (struct record_statements){ .world = w, .send = statement_send };
	listeners_decide(w);
	*counts = (struct handover_counts){ .listeners = 0 };
	world_pack(&out, w);
	sent = records_send(to, HANDOVER_WORLD, &out, -1, patience);
	bytes_wipe(&out);
	for (int i = 0; sent && i < w->listen_sockets.count; i++) {
		pack_bool(&out, w->listen_sockets.all[i]->file.ours);
		sent = records_send(to, HANDOVER_LISTEN_SOCKET, &out,
				    w->listen_sockets.all[i]->fd, patience);
		bytes_free(&out);
		counts->listeners++;
	}
	sent = sent && predecessors_send(w->cancels, to, HANDOVER_PREDECESSOR, patience);
	/* stray databases have only connections of look-ups */
	for (const struct database *d = w->pools->databases; sent && d; d = d->hh.next)
		sent = d->removed || d->stray || database_send(&s, d);
	for (struct list *node = w->pools->all.next; sent && node != &w->pools->all;
	     node = node->next) {
		const struct pool *pool = LIST_OBJECT(node, struct pool, node);

		sent = pool->database->stray || pool_send(&s, pool);
	}
	sent = sent && records_send(to, HANDOVER_UNAUTHENTICATED, NULL, -1, patience) &&
	       list_send(&s, &w->pools->unauthenticated[CLIENT_STARTUP], false, client_send_away);
	record_statements_free(&s.statements);
	if (!sent)
		return false;
	/* pools->clients does not include cancel requests */
	counts->staying = (uint32_t)w->pools->clients - counts->clients;
	bytes_append_u32(&out, counts->listeners);
	bytes_append_u32(&out, counts->servers);
	bytes_append_u32(&out, counts->clients);
	bytes_append_u32(&out, counts->staying);
	sent = records_send(to, HANDOVER_END, &out, -1, patience);
	bytes_free(&out);
	return sent;
}

/* Gives up the connections that may be handed over, or all. */
static void let_connections_go(struct world *w, bool all)
{
	LIST_EACH_SAFE(node, &w->peers.servers) {
		struct server *s = LIST_OBJECT(node, struct server, peer.node);

		if (all || handover_includes(&s->peer))
			server_hand_over(s);
	}
	LIST_EACH_SAFE(node, &w->peers.clients) {
		struct client *c = LIST_OBJECT(node, struct client, peer.node);

		if (all || handover_includes(&c->peer))
			client_hand_over(c);
	}
}

void handover_done(struct world *w, struct records **successor)
{
	listen_sockets_let_go(&w->listen_sockets, false);
	let_connections_go(w, false);
	predecessors_free(w);
	/* remaining clients are served, but idle servers are closed */
	w->pools->draining = POOL_DRAIN_REPLACED;
	pools_mark_all(w->pools);
	if (!predecessors_follow(w, successor))
		log_warning("out of memory: cancel requests for clients that stay will not arrive");
}

/* ---- the new process ---- */

struct handover *handover_begin(struct world *w)
{
	struct handover *h = mem_try(sizeof(*h));

	if (h)
		h->world = h->statements.world = w;
	return h;
}

static void take(struct handover *h, const struct record *r, struct unpack *in)
{
	const struct handover_counts *c = &h->counts, *announced = &h->announced;
	struct records *channel;
	bool owns_file;

	switch ((enum handover_record)r->type) {
	case HANDOVER_WORLD:
		world_unpack(in, h);
		return;
	case HANDOVER_LISTEN_SOCKET:
		owns_file = unpack_bool(in);
		if (in->bad ||
		    !world_offer_listen_socket(h->world, r->fd, owns_file, h->problems)) {
			in->bad = true;
			close(r->fd);
			return;
		}
		h->counts.listeners++;
		return;
	case HANDOVER_PREDECESSOR:
		channel = records_new(r->fd);
		if (!channel)
			close(r->fd);
		in->bad |= !channel || !predecessors_add(h->world, &channel);
		return;
	case HANDOVER_STATEMENT:
		record_statement_unpack(in, &h->statements);
		return;
	case HANDOVER_DATABASE:
		database_record_unpack(in, h);
		return;
	case HANDOVER_POOL:
		pool_record_unpack(in, h);
		return;
	case HANDOVER_UNAUTHENTICATED:
		h->pool = NULL;
		h->no_place = REASON_NONE;
		return;
	case HANDOVER_SERVER:
		server_record_unpack(in, h, r->fd);
		h->counts.servers++;
		return;
	case HANDOVER_CLIENT:
		client_record_unpack(in, h, r->fd);
		h->counts.clients++;
		return;
	case HANDOVER_END:
		h->announced.listeners = unpack_u32(in);
		h->announced.servers = unpack_u32(in);
		h->announced.clients = unpack_u32(in);
		h->announced.staying = h->counts.staying = unpack_u32(in);
		in->bad |= !h->has_world || c->listeners != announced->listeners ||
			   c->servers != announced->servers || c->clients != announced->clients;
		h->is_whole = !in->bad;
		return;
	default:
		in->bad = true;
	}
}

bool handover_take(struct handover *h, const struct record *r, struct conf_problems *problems)
{
	struct unpack in = unpack_of(r->body, r->size);
	bool has_descriptor = r->type == HANDOVER_LISTEN_SOCKET ||
			      r->type == HANDOVER_PREDECESSOR || r->type == HANDOVER_SERVER ||
			      r->type == HANDOVER_CLIENT;
	bool in_order = !h->is_whole &&
			(!h->server || r->type == HANDOVER_CLIENT || r->type == HANDOVER_STATEMENT);

	h->problems = problems;
	if (has_descriptor != (r->fd >= 0) || !in_order) {
		if (r->fd >= 0)
			close(r->fd);
		in.bad = true;
	} else {
		take(h, r, &in);
	}
	if (unpack_is_done(&in))
		return true;
	conf_problem_add(problems, false, NULL, 0,
			 "the running process has sent something that cannot be used (record '%c')",
			 r->type);
	return false;
}

/* ---- completing ---- */

static void handover_free(struct handover **place)
{
	struct handover *h = *place;

	*place = NULL;
	for (size_t i = 0; i < h->unsent_count; i++)
		bytes_wipe(&h->unsent[i].bytes);
	for (size_t i = 0; i < h->rejected_count; i++)
		close(h->rejected[i].fd);
	record_statements_free(&h->statements);
	mem_free(h->unsent);
	mem_free(h->rejected);
	mem_free(h->moved);
	mem_free(h);
}

void handover_undo(struct handover **place)
{
	struct world *w;

	if (!*place)
		return;
	w = (*place)->world;
	let_connections_go(w, true);
	listen_sockets_let_go(&w->listen_sockets, true);
	predecessors_free(w);
	handover_free(place);
}

static void tell_rejected(struct world *w, const struct rejected *f)
{
	struct bytes out = BYTES_EMPTY;
	char text[128];

	w->pools->ended[f->why]++;
	if (f->way == REJECT_TELL)
		pg_build_report(&out, 'E', "FATAL", "08P01",
				close_reason_text(f->why, NULL, text, sizeof(text)), NULL, NULL);
	else if (f->way == REJECT_TERMINATE)
		pg_build(&out, 'X', NULL, 0);
	/* best effort: the buffer of the socket may be full */
	if (!out.failed && bytes_size(&out) > 0 &&
	    send(f->fd, bytes_front(&out), bytes_size(&out), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("a connection that has no place here could not be told");
	bytes_free(&out);
}

void handover_finish(struct handover **place, struct records **predecessor)
{
	struct handover *h = *place;
	struct world *w = h->world;

	ASSERT(h->is_whole);
	if (!predecessors_add(w, predecessor))
		log_warning("out of memory: cancel requests for clients that stay behind will not "
			    "arrive");
	world_close_unwanted_sockets(w);
	peers_sort(&w->peers.clients);
	peers_sort(&w->peers.servers);
	for (size_t i = 0; i < h->rejected_count; i++)
		tell_rejected(w, &h->rejected[i]);
	if (h->rejected_count > 0)
		log_warning("%zu connections were closed: this configuration has no place for them",
			    h->rejected_count);
	for (size_t i = 0; i < h->unsent_count; i++)
		relay_send_rest(h->unsent[i].peer, &h->unsent[i].bytes);
	for (size_t i = 0; i < h->moved_count; i++)
		database_moves(h->moved[i]);
	retire_servers(w, h->tls_differs || h->logins_differ, h->logins_differ);
	relay_resume(&w->peers.clients);
	relay_resume(&w->peers.servers);
	pools_mark_all(w->pools);
	handover_free(place);
}
