/*
 * User look-ups with auth_query.
 *
 * A look-up waits in the queue of the pool of auth_user, in auth_dbname or in the client's
 * database, like a client: as an internal request (pool/pool.h). When a server is lent to it,
 * request and server are separated at once: the server is in state LOOKUP and runs task_lookup, so
 * that no client can use it meanwhile. The statements are in pg/authquery.c.
 *
 * One look-up per user runs at a time. The logins that arrive during it wait together for the next
 * one, so that many logins cost one query per round trip. Each login gets an answer from a query
 * that began after the login: a changed password, a dropped or expired role takes effect at once.
 * Therefore no answer is kept for later logins; with SCRAM an old answer could not even be noticed,
 * because the request contains its salt. (Proven passwords and keys are kept for logins at servers,
 * which check them again: server_info.c.)
 *
 * The connection to an idle server may be lost unnoticed. If the server has not begun to answer,
 * and was connected before the look-up began, the query is sent again on another server.
 *
 * Before a look-up joins the queue it needs a turn, because unauthenticated clients determine the
 * number of look-ups (lookup_turns.c).
 *
 * Waiting clients are not called from this file: they are put on world->peers.again, and take the
 * answer from login->wait.
 *
 * Invariant: each look-up is in the table once; HELD and QUEUED have an internal request in the
 * pool and a waiting client; RUNNING has a server, which points back; in DUE, and in HELD with a
 * turn, a client waits and the first one is on world->peers.again.
 */
#include "auth/lookup.h"
#include "state/server_session.h"

#include "auth/client_address.h"
#include "auth/login_state.h"
#include "auth/unknown.h"
#include "backend/server_info.h"
#include "base/assert.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/state.h"

#include <string.h>

/* if a client has waited for this time, the look-ups make no progress */
#define SLOW USEC
/* longest message of an answer: a name and a secret, or an error */
#define FRAME_MOST (AUTHQUERY_SECRET_MOST + 1024)
/* a process before an online restart may have tracked some of the others */
#define PARAMS_MOST (64 + 2 * PARAMS_OTHERS_MOST)
#define LASTS_MOST (15 * USEC)		/* if no setting limits the duration of a query */

static void on_turn(struct lookup_turn *turn);

struct lookups *lookups_new(struct pools *pools)
{
	struct lookups *all = mem_try(sizeof(*all));

	if (!all)
		return NULL;
	list_init(&all->dead);
	all->turns.pools = pools;
	all->turns.granted = on_turn;
	verify_queue_init(&all->turns.waiting);
	list_init(&all->turns.taken);
	return all;
}

static void reap(struct lookups *all)
{
	struct list *node;

	while ((node = list_first(&all->dead)) != NULL) {
		list_remove(node);
		mem_free(LIST_OBJECT(node, struct lookup, dead));
	}
}

void lookups_free(struct lookups **place)
{
	struct lookups *all = *place;

	if (!all)
		return;
	reap(all);
	ASSERT(!all->by_key);
	mem_free(all);
	*place = NULL;
}

void lookups_tick(struct lookups *all)
{
	reap(all);
	lookup_turns_grant(&all->turns);
}

/* ---- where users are looked up ---- */

/* Where a client's user is looked up; texts of the configuration or of the login. */
struct lookup_source {
	const char *database, *user, *sql;
	/* schemas for the names in `sql`, searched after pg_catalog; may be "" */
	const char *path;
	bool is_of_client;		/* the database is the client's */
};

static const char *lookup_first_of(const char *a, const char *b)
{
	return a && *a ? a : b && *b ? b : NULL;
}

/* The entry of the client's database has precedence over the general settings; auth_user may also
   be in the entry of auth_dbname. Without auth_dbname the client's own database is asked, but
   neither the console nor a database without an entry. auth_search_path is public by default with
   auth_dbname, because the operator trusts that database. False: no look-up is configured. */
static bool choose_source(const struct client *c, struct lookup_source *source)
{
	const struct world *w = c->peer.world;
	const struct settings *set = &w->conf->settings;
	const struct conf_database *own = database_conf_find(w->pools, c->login->database), *asked;
	const struct database *known = database_find(w->pools, c->login->database);
	bool is_console = known && known->is_console;

	source->database = lookup_first_of(own && !is_console ? own->auth_dbname : NULL,
					   set->auth_dbname);
	source->is_of_client = !source->database;
	if (!source->database && !is_console && own)
		source->database = c->login->database;
	if (!source->database)
		return false;
	asked = database_conf_find(w->pools, source->database);
	source->user = lookup_first_of(
		lookup_first_of(own ? own->auth_user : NULL, asked ? asked->auth_user : NULL),
		set->auth_user);
	source->sql = lookup_first_of(own ? own->auth_query : NULL, set->auth_query);
	source->path = lookup_first_of(own ? own->auth_search_path : NULL, set->auth_search_path);
	if (!source->path)
		source->path = source->is_of_client ? "" : "public";
	return source->user && source->sql;
}

/* Returns the pool of the source. NULL: the client has ended, or no memory. */
static struct pool *pool_of(struct client *c, const struct lookup_source *source)
{
	struct world *w = c->peer.world;
	struct database *database = database_get(w->pools, source->database, !source->is_of_client,
						 w->now);
	struct user *user;
	char who[256], name[PRINTABLE_NAME];

	if (database && database->is_console) {
		log_error("%s cannot use the reserved \"%s\" database as an auth_dbname",
			  client_text(c, who, sizeof(who)),
			  printable_inside(source->database, name, sizeof(name)));
		client_end(c, REASON_CONFIG_ERROR, NULL);
		return NULL;
	}
	if (!database) {
		log_error("%s authentication database \"%s\" is not configured.",
			  client_text(c, who, sizeof(who)),
			  printable_inside(source->database, name, sizeof(name)));
		client_end(c, REASON_CONFIG_ERROR, NULL);
		return NULL;
	}
	/* that its own database is disabled, the client learns after the proof */
	if (database->disabled && strcmp(source->database, c->login->database) != 0) {
		client_end(c, REASON_AUTH_DATABASE_DISABLED, source->database);
		return NULL;
	}
	user = user_get(w->pools, source->user);
	return user ? pool_get(database, user, true, w->now) : NULL;
}

/* ---- the life of a look-up ---- */

#define P(id) (1u << LOOKUP_##id)
static const struct state_row phases[LOOKUP_PHASES] = {
#define LOOKUP_PHASE(id, moves) [LOOKUP_##id] = { moves, NULL },
#include "tbl/lookup_phase.tbl"
#undef LOOKUP_PHASE
};
#undef P

/* The only writer of lookup->phase. */
static void phase_to(struct lookup *l, enum lookup_phase phase)
{
	l->phase = (enum lookup_phase)state_move(phases, LOOKUP_PHASES, l->phase, phase);
}

/* Returns the look-up of this user; creates it if necessary. NULL: no memory. */
static struct lookup *lookup_get(struct world *w, struct pool *pool, const char *user,
				 const struct lookup_source *source)
{
	size_t user_size = strlen(user) + 1, sql_size = strlen(source->sql) + 1,
	       path_size = strlen(source->path) + 1;
	size_t size = sizeof(pool) + user_size + sql_size + path_size;
	struct lookup *l = mem_try(sizeof(*l) + size), *found;

	if (!l)
		return NULL;
	memcpy(l->key, &pool, sizeof(pool));
	memcpy(l->key + sizeof(pool), user, user_size);
	memcpy(l->key + sizeof(pool) + user_size, source->sql, sql_size);
	memcpy(l->key + sizeof(pool) + user_size + sql_size, source->path, path_size);
	HASH_FIND(hh, w->logins.lookups->by_key, l->key, size, found);
	if (found) {
		mem_free(l);
		return found;
	}
	l->world = w;
	l->pool = pool;
	l->phase = LOOKUP_DUE;
	lookup_turn_init(&l->turn);
	l->user = l->key + sizeof(pool);
	l->sql = l->user + user_size;
	l->path = l->sql + sql_size;
	list_init(&l->waiting);
	list_init(&l->asked);
	HASH_ADD_KEYPTR(hh, w->logins.lookups->by_key, l->key, size, l);
	if (HASH_HAS(hh, l))
		return l;
	mem_free(l);
	return NULL;
}

/* The memory is freed by the next tick, because the room pool may still read the request. */
static void lookup_end(struct lookup *l)
{
	ASSERT(list_is_empty(&l->waiting) && list_is_empty(&l->asked) &&
	       l->turn.state == TURN_NONE);
	HASH_DEL(l->world->logins.lookups->by_key, l);
	list_append(&l->world->logins.lookups->dead, &l->dead);
}

/* Removes the request from the pool. */
static void request_over(struct lookup *l)
{
	const struct params *startup = l->request.startup;

	pool_client_become(l->world->pools, &l->request, CLIENT_DEAD, l->world->now);
	params_drop(l->world->params, &startup);
	l->request.startup = NULL;
}

/* Returns the client that has waited for the next query for longest. NULL: none waits. */
static struct lookup_wait *first_waiting(const struct lookup *l)
{
	struct list *node = list_first(&l->waiting);

	return node ? LIST_OBJECT(node, struct lookup_wait, node) : NULL;
}

/* Ends the waiting of a client: with a secret, with NULL for an unknown user, or with the reason of
   a refusal. */
static void end_wait(struct lookup_wait *wait, enum close_reason refused,
		     const struct secret *secret)
{
	list_remove(&wait->node);
	wait->lookup = NULL;
	wait->refused = refused;
	wait->answer = wait->client->peer.world->logins.lookups->answers;
	if (secret && !(wait->found = secret_new(secret->bytes, secret->length)))
		wait->refused = REASON_NO_MEMORY;
	peer_come_again(&wait->client->peer);
}

static void answer_clients(struct list *waits, enum close_reason refused,
			   const struct secret *secret)
{
	struct list *node;

	while ((node = list_first(waits)) != NULL)
		end_wait(LIST_OBJECT(node, struct lookup_wait, node), refused, secret);
}

/* Ends a look-up without a query. */
static void lookup_give_up(struct lookup *l, enum close_reason why)
{
	answer_clients(&l->waiting, why, NULL);
	lookup_turn_over(&l->world->logins.lookups->turns, &l->turn);
	lookup_end(l);
}

/* ---- the query ---- */

/* Sends the query. Parameters in which this session differs from a new one are reset for its
   transaction. False: no memory, or the socket is lost. */
static bool send_query(struct lookup *l, struct server *s)
{
	struct world *w = s->peer.world;
	const struct server_info *info = server_info_get(s->pooled.pool, w->params);
	const char *names[PARAMS_MOST];
	struct bytes out = BYTES_EMPTY, role = BYTES_EMPTY;
	size_t count = 0;
	bool sent;

	for (int i = 0; info && i < params_count(w->params) && count < PARAMS_MOST; i++) {
		const char *has = params_get(s->params, i),
			   *fresh = params_get(info->reported.defaults, i);

		if (i != PARAM_SEARCH_PATH && i != PARAM_CLIENT_ENCODING && has &&
		    (!fresh || strcmp(has, fresh) != 0))
			names[count++] = params_name(w->params, i);
	}
	for (size_t i = 0; i < params_others(s->params) && count < PARAMS_MOST; i++)
		if (strcmp(params_other(s->params, i).name, PARAMS_ROLE) != 0)
			names[count++] = params_other(s->params, i).name;
	if (s->session.role)
		role_sql(s->session.role, true, &role);
	bytes_append_u8(&role, 0);
	if (!role.failed)
		authquery_build(&l->answer, &out, l->sql, names, count,
				s->session.role ? (const char *)bytes_front(&role) : NULL);
	out.failed |= role.failed;
	bytes_free(&role);
	sent = server_send(s, MARK_TASK, &out);
	bytes_free(&out);
	return sent;
}

static enum task_end on_lookup_query_done(struct server *s, bool failed)
{
	(void)failed;
	if (pool_is_unwanted(s->pooled.pool)) {
		server_end(s, REASON_LOOKUP_OVER, NULL);
		return TASK_END_NOTHING;
	}
	/* the next client must not see changes of the session by a function of auth_query */
	server_reset_to(s, server_wants_reset(s, s->pooled.pool->allowed.mode == MODE_SESSION));
	return TASK_END_RELEASE;
}

static const struct server_task task_lookup = {
	.name = "auth_query",
	.description = "auth_query",
	.states = TASK_IN(LOOKUP),
	.on_done = on_lookup_query_done,
};

/* Takes the server from the request, to which it is linked, and sends the query. */
void lookup_lent(struct server *s, struct pool_client *request)
{
	struct lookup *l = LIST_OBJECT(request, struct lookup, request);
	struct world *w = l->world;
	char who[256], user[PRINTABLE_NAME];

	pool_unlink(&s->pooled, SERVER_LOOKUP, true, w->now);
	request_over(l);
	while (first_waiting(l)) {
		struct list *node = &first_waiting(l)->node;

		list_remove(node);
		list_append(&l->asked, node);
	}
	phase_to(l, LOOKUP_RUNNING);
	l->server = s;
	s->lookup = l;
	server_task_to(s, &task_lookup);
	/* parameters that a client has set and that cannot be reset would make every look-up
	   fail */
	if (params_others(s->params) > 0 && s->pooled.close_reason == REASON_NONE)
		pool_server_close_later(&s->pooled, REASON_PARAMS_UNKNOWN);
	server_work_begins(s, w->now_wall);
	l->answer = (struct authquery){ .user = l->user, .path = l->path };
	log_debug("%s auth_query for user \"%s\"", server_text(s, who, sizeof(who)),
		  printable_inside(l->user, user, sizeof(user)));
	if (!send_query(l, s))
		server_end(s, REASON_SERVER_CRASHED, NULL);
}

/* The look-up has its turn: puts it into the queue of the pool, or runs it at once. */
static void lookup_queue(struct lookup *l)
{
	struct world *w = l->world;
	struct pool_server *idle;

	phase_to(l, LOOKUP_QUEUED);
	pool_client_become(w->pools, &l->request, CLIENT_IDLE, w->now);
	idle = pool_want(&l->request, w->now);
	if (idle)
		lookup_lent(server_of(idle), &l->request);
}

/* Requests a turn for this client's address. Without memory the client's waiting is over. */
static void want_turn(struct lookup_wait *wait)
{
	struct lookup *l = wait->lookup;
	struct verify_source source = client_address_source(wait->client);

	if (!lookup_turn_ask(&l->world->logins.lookups->turns, &l->turn, l->pool, &wait->asker,
			     &source))
		end_wait(wait, REASON_NO_MEMORY, NULL);
}

/* Requests a turn, and begins if the look-up gets one at once. The internal request keeps the pool
   meanwhile. */
static void begin(struct lookup *l)
{
	struct world *w = l->world;

	if (l->pool->database->removed) {
		lookup_give_up(l, REASON_AUTH_QUERY);
		return;
	}
	if (!l->again)
		l->since = w->now;
	phase_to(l, LOOKUP_HELD);
	l->request = (struct pool_client){ .is_internal = true, .startup = params_none(w->params) };
	pool_client_init(w->pools, &l->request, w->now);
	pool_client_join(&l->request, l->pool, NULL);
	LIST_EACH_SAFE(node, &l->waiting)
		if (l->turn.state != TURN_HAS)
			want_turn(LIST_OBJECT(node, struct lookup_wait, node));
	if (l->turn.state == TURN_HAS) {
		lookup_queue(l);
	} else if (!first_waiting(l)) {
		request_over(l);
		lookup_end(l);
	}
}

/* The query is over, and its server is released. If clients wait, the first of them begins the next
   query. */
static void query_over(struct lookup *l)
{
	if (l->server)
		l->server->lookup = NULL;
	l->server = NULL;
	secret_free(&l->answer.secret);
	mem_wipe(&l->answer, sizeof(l->answer));
	lookup_turn_over(&l->world->logins.lookups->turns, &l->turn);
	phase_to(l, LOOKUP_DUE);
	if (first_waiting(l))
		peer_come_again(&first_waiting(l)->client->peer);
	else
		lookup_end(l);
}

/* Gives the answer to the clients of the query: a secret, NULL for an unknown user, or the reason
   of a refusal. */
static void lookup_answer(struct lookup *l, enum close_reason refused, const struct secret *secret)
{
	struct unknown_source *source = refused == REASON_NONE
						? unknown_source_of(l->world->logins.unknown,
								    l->pool)
						: NULL;

	if (refused == REASON_NONE)
		LIST_EACH(node, &l->asked)
			LIST_OBJECT(node, struct lookup_wait, node)->source = source;
	answer_clients(&l->asked, refused, secret);
	l->again = false;
	query_over(l);
}

static void log_lookup(const struct lookup *l, enum log_level level, const char *action,
		       const char *text)
{
	char pool[POOL_TEXT], user[PRINTABLE_NAME], shown[PRINTABLE_TEXT];

	log_repeatable(level, hash_of(action, strlen(action)),
		       "%s: auth_query for user \"%s\" %s: %s",
		       pool_text(l->pool, pool, sizeof(pool)),
		       printable_inside(l->user, user, sizeof(user)), action,
		       printable_text(text, shown, sizeof(shown)));
}

/* Handles a message; ReadyForQuery ends the query. False: the server has ended. */
static bool lookup_take(struct server *s, const struct pg_frame *f)
{
	struct lookup *l = s->lookup;
	char pool[POOL_TEXT], user[PRINTABLE_NAME];
	enum authquery_verdict result;
	enum ledger_owner owner;
	enum ledger_verdict verdict = ledger_received(&s->ledger, f->type, &owner);

	if (f->type == PGS_PARAMETER && verdict != LEDGER_BROKEN) {
		struct pg_cursor body = pg_cursor_of(f->body, f->size);
		const char *name = pg_read_string(&body), *value = pg_read_string(&body);

		if (!body.bad)
			server_parameter(s, name, value);
		return true;
	}
	if (verdict == LEDGER_ASYNC && f->type != PGS_ERROR)
		return true;
	result = verdict == LEDGER_BROKEN ? AUTHQUERY_BROKEN
					  : authquery_take(&l->answer, f->type, f->body, f->size);
	if (result == AUTHQUERY_BROKEN) {
		server_end(s, REASON_SERVER_BROKEN, NULL);
		return false;
	}
	if (result == AUTHQUERY_MORE)
		return true;
	server_status_received(s, 'I');
	if (result == AUTHQUERY_FAILED)
		log_lookup(l, LEVEL_WARNING, "failed", l->answer.why);
	else if (l->answer.is_unusable)
		log_lookup(l, LEVEL_WARNING, "found a SCRAM secret", "it cannot be used");
	else if (l->answer.other_name)
		log_warning("%s: auth_query found another user than \"%s\"",
			    pool_text(l->pool, pool, sizeof(pool)),
			    printable_inside(l->user, user, sizeof(user)));
	l->world->logins.lookups->answers++;
	/* the server is free before the turn is, so that the next look-up of the pool can have
	   it */
	s->lookup = NULL;
	l->server = NULL;
	if (server_task_end(s) == TASK_END_RELEASE)
		server_release(s);
	lookup_answer(l, result == AUTHQUERY_FAILED ? REASON_CONFIG_ERROR : REASON_NONE,
		      l->answer.secret);
	return true;
}

void lookup_read(struct server *s, bool from_socket)
{
	struct world *w = s->peer.world;
	size_t n = peer_unhold_wiped(&s->peer);
	enum pg_verdict verdict = PG_MORE;
	bool is_alive = true, is_kept = true;
	struct pg_frames in;
	struct pg_frame f;
	ssize_t r = 0;

	if (from_socket)
		r = stream_read(&s->peer.stream, w->buffer + n, READ_BUFFER - n);
	if (r < 0) {
		mem_wipe(w->buffer, n);
		server_end(s, REASON_SERVER_CRASHED, NULL);
		return;
	}
	n += (size_t)r;
	in = (struct pg_frames){ w->buffer, n };
	while (is_alive && s->task == &task_lookup &&
	       (verdict = pg_frames_next(&in, FRAME_MOST + PG_LENGTH_WORD, &f)) == PG_OK)
		is_alive = lookup_take(s, &f);
	if (is_alive && verdict == PG_BAD) {
		if (pg_frame_look(in.at, in.left, PG_LENGTH_LIMIT, &f) == PG_OK)
			authquery_take(&s->lookup->answer, f.type, NULL, f.size);
		server_end(s, REASON_SERVER_BROKEN, NULL);
		is_alive = false;
	}
	if (is_alive)
		is_kept = peer_hold_more(&s->peer, w->buffer + n - in.left, in.left);
	/* the input may contain a secret */
	mem_wipe(w->buffer, n);
	if (!is_alive)
		return;
	if (!is_kept)
		server_end(s, REASON_NO_MEMORY, NULL);
	else if ((s->task != &task_lookup && in.left > 0) || stream_has_buffered(&s->peer.stream))
		peer_come_again(&s->peer);
}

/* ---- waiting clients ---- */

enum lookup_begun lookup_begin(struct client *c)
{
	struct world *w = c->peer.world;
	struct lookup_wait *wait = &c->login->wait;
	const struct database *known;
	struct lookup_source source;
	struct lookup *l;
	struct pool *pool;
	char who[256];

	if (!choose_source(c, &source)) {
		known = database_find(w->pools, c->login->database);
		if (known && known->is_console && w->conf->settings.auth_user)
			log_error("%s cannot use the reserved \"%s\" database as an auth_dbname: "
				  "users of the console are looked up only if "
				  "auth_dbname is set",
				  client_text(c, who, sizeof(who)), known->name);
		return LOOKUP_BEGUN_NONE;
	}
	pool = pool_of(c, &source);
	/* the logins that wait for look-ups fill the queue (max_auth_queue) and make no progress,
	   unless a PAUSE holds them */
	if (pool && !pool->database->paused && !w->pools->paused && !w->pools->suspended &&
	    w->pools->unauthenticated_count[CLIENT_LOOKUP] >=
		    lookup_queue_most(&w->conf->settings) &&
	    w->now - LIST_OBJECT(w->pools->unauthenticated[CLIENT_LOOKUP].next, struct pool_client,
				 node)
				    ->since >=
		    SLOW &&
	    !displace_login(c, REASON_AUTH_QUEUE)) {
		client_end(c, REASON_AUTH_QUEUE, NULL);
		return LOOKUP_BEGUN_ENDED;
	}
	l = pool ? lookup_get(w, pool, c->login->user, &source) : NULL;
	if (!l) {
		/* no effect if pool_of has ended the client */
		client_end(c, REASON_NO_MEMORY, NULL);
		return LOOKUP_BEGUN_ENDED;
	}
	pool_client_become(w->pools, &c->pooled, CLIENT_LOOKUP, w->now);
	login_step_to(c, LOGIN_LOOKUP);
	wait->client = c;
	wait->lookup = l;
	list_append(&l->waiting, &wait->node);
	if (l->phase == LOOKUP_DUE) {
		begin(l);
	} else if (l->turn.state == TURN_WAITS) {
		/* the turn may come earlier for the address of this client */
		want_turn(wait);
		if (l->turn.state == TURN_HAS)
			lookup_queue(l);
	}
	return LOOKUP_BEGUN_WAITS;
}

/* Whether the first waiting client is on world->peers.again, to begin the query. */
static bool has_called_client(const struct lookup *l)
{
	return l->phase == LOOKUP_DUE || (l->phase == LOOKUP_HELD && l->turn.state == TURN_HAS);
}

static void on_turn(struct lookup_turn *turn)
{
	peer_come_again(&first_waiting(LIST_OBJECT(turn, struct lookup, turn))->client->peer);
}

bool lookup_continue(struct client *c)
{
	struct lookup *l = c->login->wait.lookup;

	if (l && l->phase == LOOKUP_DUE)
		begin(l);
	else if (l && has_called_client(l))
		lookup_queue(l);
	return !c->login->wait.lookup;
}

void lookup_leave(struct lookup_wait *wait)
{
	struct lookup *l = wait->lookup;

	secret_free(&wait->found);
	if (!l)
		return;
	wait->lookup = NULL;
	list_remove(&wait->node);
	lookup_asker_leave(&l->world->logins.lookups->turns, &wait->asker);
	if (l->phase == LOOKUP_RUNNING)
		return;
	if (first_waiting(l)) {
		/* the client that leaves may have been the one on world->peers.again */
		if (has_called_client(l))
			peer_come_again(&first_waiting(l)->client->peer);
		return;
	}
	if (l->phase != LOOKUP_DUE)
		request_over(l);
	lookup_turn_over(&l->world->logins.lookups->turns, &l->turn);
	lookup_end(l);
}

/* ---- decisions of the pool, and the end of the server ---- */

/* Returns the reason to give to unauthenticated clients. The server's own text is not passed on,
   because it may name auth_user and more. */
static enum close_reason reason_for_client(enum close_reason why)
{
	switch (why) {
	case REASON_QUERY_WAIT_TIMEOUT:
	case REASON_QUERY_TIMEOUT:
	case REASON_QUERY_TIMEOUT_WAITING:
	case REASON_SERVER_CRASHED:
	case REASON_NO_MEMORY:
	case REASON_SERVER_SHUTTING_DOWN: case REASON_POOLER_SHUTTING_DOWN: case REASON_ADMIN_KILL:
		return why;
	default:
		return REASON_AUTH_QUERY;
	}
}

void lookup_refused(struct pool_client *request, enum close_reason why, const char *detail)
{
	struct lookup *l = LIST_OBJECT(request, struct lookup, request);
	const struct server_info *info = server_info_get(l->pool, l->world->params);
	/* The server does not have the database that the client has named, or auth_user may not
	   connect to it. An error would distinguish users of the user list, which are asked for a
	   password in any database, from others. Therefore the user counts as unknown. Look-ups in
	   a database of the configuration have to work, and their failure is an error. */
	bool is_database_unknown = why == REASON_LOGIN_FAILING && l->pool->database->stray &&
				   info && info->failure.refused;
	char text[1024];

	log_lookup(l, LEVEL_WARNING, "failed", close_reason_text(why, detail, text, sizeof(text)));
	request_over(l);
	lookup_give_up(l, is_database_unknown ? REASON_NONE : reason_for_client(why));
}

/* Whether no client waits, in a database where no client has logged in. Its connection is not kept
   for the answer. */
static bool is_abandoned(const struct server *s)
{
	const struct lookup *l = s->lookup;

	return l->pool->database->stray && list_is_empty(&l->asked) && list_is_empty(&l->waiting);
}

enum close_reason lookup_overdue(const struct server *s)
{
	const struct world *w = s->peer.world;
	const struct settings *set = &w->conf->settings;
	const struct conf_user *user = s->pooled.pool->user->conf;
	usec_t limit = user && user->query_timeout != CONF_UNSET ? user->query_timeout
								 : set->query_timeout;
	usec_t logins = set->client_login_timeout;

	/* without both limits a stuck server could block all logins forever */
	if (limit == 0 && logins == 0)
		limit = set->server_connect_timeout > 0 ? set->server_connect_timeout : LASTS_MOST;
	if (is_abandoned(s))
		return REASON_LOOKUP_OVER;
	/* after client_login_timeout none of the clients that asked waits any longer */
	if ((limit > 0 && w->now - s->task_since >= limit) ||
	    (logins > 0 && w->now - s->task_since >= logins))
		return REASON_QUERY_TIMEOUT;
	return REASON_NONE;
}

void lookup_server_gone(struct server *s, enum close_reason why, const char *text)
{
	struct lookup *l = s->lookup;
	bool is_wrong = l->answer.failed && why == REASON_SERVER_BROKEN;
	struct list *node;

	/* the input may contain a part of a secret */
	peer_wipe_held(&s->peer);
	/* the connection was probably lost while the server was idle: asked again, ahead of the
	   clients that arrived later */
	if (why == REASON_SERVER_CRASHED && !l->answer.begun && s->pooled.opened < l->since) {
		log_lookup(l, LEVEL_LOG, "is asked again", text);
		while ((node = list_last(&l->asked)) != NULL) {
			list_remove(node);
			list_prepend(&l->waiting, node);
		}
		l->again = true;
		query_over(l);
		return;
	}
	if (!is_abandoned(s))
		log_lookup(l, LEVEL_WARNING, "failed", l->answer.failed ? l->answer.why : text);
	lookup_answer(l, is_wrong ? REASON_CONFIG_ERROR : reason_for_client(why), NULL);
}
