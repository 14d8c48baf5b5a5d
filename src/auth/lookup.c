/*
 * Looking up users with auth_query.
 *
 * A look-up stands in the queue of the pool of (auth_dbname or the client's database, auth_user) as a
 * client does, as an internal request (pool/pool.h). When it is lent a server it gives the link up again at once: the
 * server is LOOKUP and runs TASK_LOOKUP, as busy as with a client, but no client can get at it, nor it at a
 * client. Afterwards it is a server of the pool like any other. What is sent and what the answers mean is
 * in pg/authquery.c.
 *
 * One look-up at a time runs for a user; those who come while it runs wait together for the next, which
 * begins when it has ended. So a storm of logins costs one query per round trip, and yet each login gets an
 * answer that was asked for after it had begun: a password that has been changed, a role that has been
 * dropped or has expired hold from that moment on. This is why no answer is kept for later logins, however
 * briefly: with SCRAM, whose salt is in the question, one could not even notice that it is old and ask
 * again. (What a user has proven to know is kept for logging in at servers, which judge for themselves:
 * proven_secret.c.)
 *
 * A server that had lain idle may be gone without anybody having noticed. A query that it has not begun to answer is
 * asked again, of the next; as long as it is one from before the look-up, so that there is an end to it.
 *
 * Whoever waits is never called from here: it is put on the list of those to be read again, and finds its
 * answer there.
 *
 * Before a look-up stands in the queue it needs a turn, because clients that are not authenticated decide how many look-ups there
 * are (lookup_turns.c).
 *
 * Invariants: a look-up is in the table by its key, once; HELD and QUEUED have an internal request in the pool and a client that
 * waits; RUNNING has a server that points back; DUE, and HELD with a turn, have a client that waits, the first of which has
 * been called.
 */
#include "auth/lookup.h"

#include "auth/auth.h"
#include "auth/client_address.h"
#include "auth/login_state.h"
#include "auth/lookup_turns.h"
#include "auth/unknown.h"
#include "backend/role.h"
#include "backend/server_info.h"
#include "backend/task.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/printable.h"
#include "pg/authquery.h"

#include <string.h>

#define FRAME_MOST 65536		/* longest message of an answer: two short texts, or an error */
#define PARAMS_MOST 64
#define SLOW USEC			/* a client that has waited for so long shows that look-ups do not get on */
#define LASTS_MOST (15 * USEC)		/* where no setting says how long a query may last */

enum lookup_phase {
	LOOKUP_DUE,			/* a query has ended, and clients wait for the next one */
	LOOKUP_HELD,			/* in the pool, not in its queue yet: waits for a turn, or has it and the first client is called */
	LOOKUP_QUEUED, LOOKUP_RUNNING
};

struct lookup {
	struct world *world;
	struct pool *pool;
	enum lookup_phase phase;
	struct pool_client request;	/* HELD, QUEUED: what stands for it in the pool */
	struct lookup_turn turn;	/* HELD: wanted or got; QUEUED, RUNNING: got */
	struct server *server;		/* RUNNING */
	struct authquery answer;	/* RUNNING */
	usec_t since;			/* those who are asked for, or wait to be, came then at the latest */
	bool again;			/* they have been asked for already, of a server that was gone */
	struct list waiting;		/* for the next query (struct lookup_wait) */
	struct list asked;		/* for the one that runs */
	struct list dead;		/* world->dead_lookups */
	const char *user, *sql;		/* in the key */
	UT_hash_handle hh;
	char key[];			/* address of the pool, user and NUL, sql and NUL */
};

static struct lookup *lookup_of(struct pool_client *request)
{
	return LIST_OBJECT(request, struct lookup, request);
}

/* ---- the life of a look-up ---- */

static struct pool *pool_of(struct client *c, const struct lookup_source *source)
{
	struct world *w = c->peer.world;
	struct database *database = source->is_of_client ? database_get_unauthenticated(w->pools, source->database, w->now) :
							   database_get(w->pools, source->database, w->now);
	struct user *user;
	char who[256], name[PRINTABLE_NAME];

	if (database && database->is_console) {
		log_error("%s cannot use the reserved \"%s\" database as an auth_dbname", client_text(c, who, sizeof(who)),
			  printable_inside(source->database, name, sizeof(name)));
		client_end(c, REASON_CONFIG_ERROR, NULL);
		return NULL;
	}
	if (!database) {
		log_error("%s authentication database \"%s\" is not configured.", client_text(c, who, sizeof(who)),
			  printable_inside(source->database, name, sizeof(name)));
		client_end(c, REASON_CONFIG_ERROR, NULL);
		return NULL;
	}
	/* its own one is told about after the proof */
	if (database->disabled && strcmp(source->database, c->login->database) != 0) {
		client_end(c, REASON_AUTH_DATABASE_DISABLED, source->database);
		return NULL;
	}
	user = user_get(w->pools, source->user);
	return user ? pool_get_own(database, user, w->now) : NULL;
}

static struct lookup *lookup_get(struct world *w, struct pool *pool, const char *user, const char *sql)
{
	size_t user_size = strlen(user) + 1, sql_size = strlen(sql) + 1, size = sizeof(pool) + user_size + sql_size;
	struct lookup *l = mem_try(sizeof(*l) + size), *found;

	if (!l)
		return NULL;
	memcpy(l->key, &pool, sizeof(pool));
	memcpy(l->key + sizeof(pool), user, user_size);
	memcpy(l->key + sizeof(pool) + user_size, sql, sql_size);
	HASH_FIND(hh, w->lookups, l->key, size, found);
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
	list_init(&l->waiting);
	list_init(&l->asked);
	HASH_ADD_KEYPTR(hh, w->lookups, l->key, size, l);
	if (HASH_HAS(hh, l))
		return l;
	mem_free(l);
	return NULL;
}

/* The memory stays for this turn: the pool room may still look at the request. */
static void lookup_end(struct lookup *l)
{
	ASSERT(list_is_empty(&l->waiting) && list_is_empty(&l->asked) && l->turn.state == TURN_NONE);
	HASH_DEL(l->world->lookups, l);
	list_append(&l->world->dead_lookups, &l->dead);
}

void lookups_reap(struct world *w)
{
	struct list *node;

	while ((node = list_first(&w->dead_lookups)) != NULL) {
		list_remove(node);
		mem_free(LIST_OBJECT(node, struct lookup, dead));
	}
}

static void run(struct lookup *l, struct server *s);
static void answer_all(struct list *waits, enum close_reason refused, const struct secret *secret);

/* Has its turn: stands in the queue, or runs at once. */
static void queue(struct lookup *l)
{
	struct world *w = l->world;
	struct pool_server *free_one;

	l->phase = LOOKUP_QUEUED;
	pool_client_become(w->pools, &l->request, CLIENT_IDLE, w->now);
	free_one = pool_want(&l->request, w->now);
	if (free_one)
		run(l, server_of(free_one));
}

static void request_over(struct lookup *l);
static void end_wait(struct lookup_wait *wait, enum close_reason refused, const struct secret *secret);
static struct lookup_wait *first_waiting(const struct lookup *l);

/* Ends without a query; the clients are told so. */
static void give_up(struct lookup *l, enum close_reason why)
{
	answer_all(&l->waiting, why, NULL);
	lookup_turn_over(l->world->lookup_turns, &l->turn);
	lookup_end(l);
}

/* It stands in the queue of its address for the turn of its look-up. Without memory for that its wait is over. */
static void want_turn(struct lookup_wait *wait)
{
	struct lookup *l = wait->lookup;
	struct verify_source source = auth_verify_source(wait->client);

	if (!lookup_turn_ask(l->world->lookup_turns, &l->turn, l->pool, &wait->asker, &source))
		end_wait(wait, REASON_NO_MEMORY, NULL);
}

/* Wants a turn, and begins when it has one. Meanwhile the request keeps the pool. */
static void begin(struct lookup *l)
{
	struct world *w = l->world;

	if (l->pool->database->removed) {
		give_up(l, REASON_AUTH_QUERY);
		return;
	}
	if (!l->again)
		l->since = w->now;
	l->phase = LOOKUP_HELD;
	l->request = (struct pool_client){ .is_internal = true, .startup = params_none(w->params) };
	pool_client_init(w->pools, &l->request, w->now);
	pool_client_join(&l->request, l->pool, NULL);
	LIST_EACH_SAFE(node, &l->waiting)
		if (l->turn.state != TURN_HAS)
			want_turn(LIST_OBJECT(node, struct lookup_wait, node));
	if (l->turn.state == TURN_HAS) {
		queue(l);
	} else if (!first_waiting(l)) {
		request_over(l);
		lookup_end(l);
	}
}

static void request_over(struct lookup *l)
{
	const struct params *startup = l->request.startup;

	pool_client_become(l->world->pools, &l->request, CLIENT_DEAD, l->world->now);
	params_drop(l->world->params, &startup);
	l->request.startup = NULL;
}

static struct lookup_wait *first_waiting(const struct lookup *l)
{
	struct list *node = list_first(&l->waiting);

	return node ? LIST_OBJECT(node, struct lookup_wait, node) : NULL;
}

static void end_wait(struct lookup_wait *wait, enum close_reason refused, const struct secret *secret)
{
	list_remove(&wait->node);
	wait->lookup = NULL;
	wait->refused = refused;
	wait->answer = wait->client->peer.world->lookup_answers;
	if (secret && !(wait->found = secret_new(secret->bytes, secret->length)))
		wait->refused = REASON_NO_MEMORY;
	peer_come_again(&wait->client->peer);
}

static void answer_all(struct list *waits, enum close_reason refused, const struct secret *secret)
{
	struct list *node;

	while ((node = list_first(waits)) != NULL)
		end_wait(LIST_OBJECT(node, struct lookup_wait, node), refused, secret);
}

/* The server is of no concern any more. Whoever waits has the next query begin. */
static void go_on(struct lookup *l)
{
	l->server->lookup = NULL;
	l->server = NULL;
	authquery_clear(&l->answer);
	lookup_turn_over(l->world->lookup_turns, &l->turn);
	l->phase = LOOKUP_DUE;
	if (first_waiting(l))
		peer_come_again(&first_waiting(l)->client->peer);
	else
		lookup_end(l);
}

/* To all that have been asked for, whether their user exists or not. */
static void tell_source(const struct lookup *l)
{
	struct unknown_source *source = unknown_source_of(l->world, l->pool);

	LIST_EACH(node, &l->asked)
		LIST_OBJECT(node, struct lookup_wait, node)->source = source;
}

/* The query has ended, one way or another. Those who came meanwhile want one of their own. */
static void query_over(struct lookup *l, enum close_reason refused, const struct secret *secret)
{
	if (refused == REASON_NONE)
		tell_source(l);
	answer_all(&l->asked, refused, secret);
	l->again = false;
	go_on(l);
}

/* It has not begun. Those it was for wait again, before those who came meanwhile. */
static void ask_again(struct lookup *l)
{
	struct list *node;

	while ((node = list_last(&l->asked)) != NULL) {
		list_remove(node);
		list_prepend(&l->waiting, node);
	}
	l->again = true;
	go_on(l);
}

/* ---- waiting ---- */

/* Look-ups do not get on, and so many logins wait for them that others may find no place. While a PAUSE holds them, they wait. */
static bool is_overrun(const struct world *w, const struct pool *pool)
{
	const struct list *waiting = &w->pools->unauthenticated[CLIENT_LOOKUP];
	bool held = pool->database->paused || w->pools->paused || w->pools->suspended;

	return !held && w->pools->unauthenticated_count[CLIENT_LOOKUP] >= auth_queue_most(&w->conf->settings) &&
	       w->now - LIST_OBJECT(waiting->next, struct pool_client, node)->since >= SLOW;
}

/* One more client waits for a turn that others have not got. */
static void join(struct lookup *l, struct lookup_wait *wait)
{
	want_turn(wait);
	if (l->turn.state == TURN_HAS)
		queue(l);
}

enum lookup_begun lookup_begin(struct client *c)
{
	struct world *w = c->peer.world;
	struct lookup_wait *wait = &c->login->wait;
	struct lookup_source source;
	struct lookup *l;
	struct pool *pool;

	if (!lookup_choose_source(c, &source))
		return LOOKUP_NONE;
	pool = pool_of(c, &source);
	if (pool && is_overrun(w, pool) && !client_address_make_room(c, REASON_AUTH_QUEUE)) {
		client_end(c, REASON_AUTH_QUEUE, NULL);
		return LOOKUP_ENDED;
	}
	l = pool ? lookup_get(w, pool, c->login->user, source.sql) : NULL;
	if (!l) {
		/* nothing, when it has ended for another reason */
		client_end(c, REASON_NO_MEMORY, NULL);
		return LOOKUP_ENDED;
	}
	pool_client_become(w->pools, &c->policy, CLIENT_LOOKUP, w->now);
	login_step_to(c, LOGIN_LOOKUP);
	wait->client = c;
	wait->lookup = l;
	list_append(&l->waiting, &wait->node);
	if (l->phase == LOOKUP_DUE)
		begin(l);
	else if (l->turn.state == TURN_WAITS)
		join(l, wait);
	return LOOKUP_WAITS;
}

/* The first client that waits has been called. */
static bool has_called(const struct lookup *l)
{
	return l->phase == LOOKUP_DUE || (l->phase == LOOKUP_HELD && l->turn.state == TURN_HAS);
}

void lookup_granted(struct lookup_turn *turn)
{
	struct lookup *l = LIST_OBJECT(turn, struct lookup, turn);

	peer_come_again(&first_waiting(l)->client->peer);
}

bool lookup_is_over(struct client *c)
{
	struct lookup *l = c->login->wait.lookup;

	if (l && l->phase == LOOKUP_DUE)
		begin(l);
	else if (l && has_called(l))
		queue(l);
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
	lookup_asker_leave(l->world->lookup_turns, &wait->asker);
	if (l->phase == LOOKUP_RUNNING)
		return;
	if (first_waiting(l)) {
		/* the client that has left may have been the one that was called */
		if (has_called(l))
			peer_come_again(&first_waiting(l)->client->peer);
		return;
	}
	if (l->phase != LOOKUP_DUE)
		request_over(l);
	lookup_turn_over(l->world->lookup_turns, &l->turn);
	lookup_end(l);
}

/* ---- what the pool decides ---- */

void lookup_lent(struct server *s, struct pool_client *request)
{
	run(lookup_of(request), s);
}

/* What unauthenticated clients may hear: not the words of a server, which may name auth_user and more. */
static enum close_reason fit_for_unauthenticated(enum close_reason why)
{
	switch (why) {
	case REASON_QUERY_WAIT_TIMEOUT: case REASON_QUERY_TIMEOUT: case REASON_QUERY_TIMEOUT_WAITING: case REASON_SERVER_CRASHED: case REASON_NO_MEMORY:
	case REASON_SERVER_SHUTTING_DOWN: case REASON_POOLER_SHUTTING_DOWN: case REASON_ADMIN_KILL:
		return why;
	default:
		return REASON_AUTH_QUERY;
	}
}

static void log_about(const struct lookup *l, enum log_level level, const char *what, const char *text)
{
	char pool[POOL_TEXT], user[PRINTABLE_NAME], shown[PRINTABLE_TEXT];

	log_write(level, "%s: auth_query for user \"%s\" %s: %s", pool_text(l->pool, pool, sizeof(pool)),
		  printable_inside(l->user, user, sizeof(user)), what, printable_text(text, shown, sizeof(shown)));
}

static void log_failure(const struct lookup *l, const char *text)
{
	log_about(l, LEVEL_WARNING, "failed", text);
}

/* The server does not have the database that a client has named, or does not let auth_user in there. To say so would tell
   users of the user list, who are asked for a password in any database, from others. So no user is found, and the client takes
   the steps of an unknown one. A database of the configuration is another matter: its look-ups have to work. */
static bool is_database_unknown(struct lookup *l, enum close_reason why)
{
	const struct server_info *info = server_info_get(l->pool, l->world);

	return why == REASON_LOGIN_FAILING && l->pool->database->stray && info && info->refused;
}

void lookup_refused(struct pool_client *request, enum close_reason why, const char *detail)
{
	struct lookup *l = lookup_of(request);
	char text[1024];

	log_failure(l, close_reason_text(why, detail, text, sizeof(text)));
	request_over(l);
	give_up(l, is_database_unknown(l, why) ? REASON_NONE : fit_for_unauthenticated(why));
}

/* ---- the query ---- */

/* Names of the tracked parameters in which the session of this server may differ from a fresh one. */
static size_t changed_params(const struct server *s, const char *names[PARAMS_MOST])
{
	struct world *w = s->peer.world;
	const struct server_info *info = server_info_get(s->policy.pool, w);
	size_t count = 0;

	for (int i = 0; info && i < params_count(w->params) && count < PARAMS_MOST; i++) {
		const char *has = params_get(s->params, i), *fresh = params_get(info->defaults, i);

		if (i != PARAM_SEARCH_PATH && i != PARAM_CLIENT_ENCODING && has && (!fresh || strcmp(has, fresh) != 0))
			names[count++] = params_name(w->params, i);
	}
	return count;
}

static bool send_batch(struct lookup *l, struct server *s)
{
	const char *names[PARAMS_MOST];
	size_t count = changed_params(s, names);
	struct bytes out = BYTES_EMPTY, role = BYTES_EMPTY;
	bool sent = true;

	if (s->role)
		role_sql(s, true, &role);
	bytes_append_u8(&role, 0);
	if (!role.failed)
		authquery_build(&l->answer, &out, l->sql, names, count, s->role ? (const char *)bytes_front(&role) : NULL);
	out.failed |= role.failed;
	bytes_free(&role);
	for (const char *type = AUTHQUERY_BATCH; *type && sent; type++)
		sent = ledger_sent(&s->ledger, (uint8_t)*type, 'P', OWED_TO_POOLER);
	sent = sent && !out.failed && stream_write_bytes(&s->peer.stream, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	return sent;
}

/* The request and this server are linked, and both ACTIVE. */
static void run(struct lookup *l, struct server *s)
{
	struct world *w = l->world;
	char who[256], user[PRINTABLE_NAME];

	pool_unlink(&s->policy, SERVER_LOOKUP, true, w->now);
	request_over(l);
	while (first_waiting(l)) {
		struct list *node = &first_waiting(l)->node;

		list_remove(node);
		list_append(&l->asked, node);
	}
	l->phase = LOOKUP_RUNNING;
	l->server = s;
	s->lookup = l;
	s->task = TASK_LOOKUP;
	s->task_failed = s->said_fatal = false;
	s->task_since = w->now;
	s->peer.request_at = w->now_wall;
	s->unnamed_of = 0;
	authquery_begin(&l->answer, l->user);
	log_debug("%s auth_query for user \"%s\"", server_text(s, who, sizeof(who)),
		  printable_inside(l->user, user, sizeof(user)));
	if (!send_batch(l, s))
		server_end(s, REASON_SERVER_CRASHED, NULL);
}

static void answered(struct server *s)
{
	struct lookup *l = s->lookup;
	enum authquery_verdict verdict = authquery_end(&l->answer);
	char pool[POOL_TEXT], user[PRINTABLE_NAME];

	if (verdict == AUTHQUERY_FAILED)
		log_failure(l, l->answer.why);
	else if (l->answer.is_unusable)
		log_about(l, LEVEL_WARNING, "found a SCRAM secret", "it cannot be used");
	else if (l->answer.other_name)
		log_warning("%s: auth_query found another user than \"%s\"", pool_text(l->pool, pool, sizeof(pool)),
			    printable_inside(l->user, user, sizeof(user)));
	l->world->lookup_answers++;
	query_over(l, verdict == AUTHQUERY_FAILED ? REASON_CONFIG_ERROR : REASON_NONE, l->answer.secret);
	server_task_over(s);
}

/* One message. False: the server has ended. */
static bool take(struct server *s, const struct pg_frame *f)
{
	enum ledger_owner owner;
	enum ledger_verdict verdict = ledger_received(&s->ledger, f->type, &owner);

	if (verdict == LEDGER_BROKEN) {
		server_end(s, REASON_SERVER_BROKEN, NULL);
		return false;
	}
	if (f->type == 'S') {
		struct pg_cursor body = pg_cursor_of(f->body, f->size);
		const char *name = pg_read_string(&body), *value = pg_read_string(&body);

		if (!body.bad)
			server_parameter(s, name, value);
		return true;
	}
	if (verdict == LEDGER_ASYNC && f->type != 'E')
		return true;
	if (!authquery_take(&s->lookup->answer, f->type, f->body, f->size)) {
		server_end(s, REASON_SERVER_BROKEN, NULL);
		return false;
	}
	if (f->type != 'Z')
		return true;
	s->status = 'I';
	answered(s);
	return !s->peer.stopped;
}

/* Whole messages from the front of n bytes. False: the server has ended. */
static bool take_all(struct server *s, const uint8_t *buffer, size_t n, size_t *used)
{
	struct pg_frame f;

	for (*used = 0; *used < n && s->task == TASK_LOOKUP; *used += PG_HEADER + f.size) {
		enum pg_verdict verdict = pg_frame_look(buffer + *used, n - *used, INT32_MAX, &f);

		if (verdict == PG_OK && f.size > FRAME_MOST)
			authquery_fail(&s->lookup->answer, "a message of the answer is too long");
		if (verdict == PG_BAD || (verdict == PG_OK && f.size > FRAME_MOST)) {
			server_end(s, REASON_SERVER_BROKEN, NULL);
			return false;
		}
		if (verdict == PG_MORE || !pg_frame_is_whole(&f))
			return true;
		if (!take(s, &f))
			return false;
	}
	return true;
}

void lookup_read(struct server *s, bool from_socket)
{
	struct world *w = s->peer.world;
	size_t n = bytes_size(&s->peer.held), used = 0;
	ssize_t r = 0;
	bool alive;

	if (n > 0)
		memcpy(w->buffer, bytes_front(&s->peer.held), n);
	bytes_wipe(&s->peer.held);
	if (from_socket)
		r = stream_read(&s->peer.stream, w->buffer + n, READ_BUFFER - n);
	if (r < 0) {
		mem_wipe(w->buffer, n);
		server_end(s, REASON_SERVER_CRASHED, NULL);
		return;
	}
	n += (size_t)r;
	alive = take_all(s, w->buffer, n, &used);
	if (alive)
		bytes_append(&s->peer.held, w->buffer + used, n - used);
	/* a secret may be among them */
	mem_wipe(w->buffer, n);
	if (!alive)
		return;
	if (s->peer.held.failed)
		server_end(s, REASON_NO_MEMORY, NULL);
	else if ((s->task != TASK_LOOKUP && n > used) || stream_has_buffered(&s->peer.stream))
		peer_come_again(&s->peer);
}

/* No client waits for it any more. In a database that none has logged in to its connection is not kept for that. */
static bool is_abandoned(const struct server *s)
{
	const struct lookup *l = s->lookup;

	return l->pool->database->stray && list_is_empty(&l->asked) && list_is_empty(&l->waiting);
}

/* query_timeout, as for any query of auth_user; and once client_login_timeout is over, nobody who asked
   for it waits any more. With both of them off it may last as long as a login of ours at a server, so that no
   server that is stuck makes all logins wait for ever. */
enum close_reason lookup_overdue(const struct server *s)
{
	const struct world *w = s->peer.world;
	const struct settings *set = &w->conf->settings;
	const struct conf_user *user = s->policy.pool->user->conf;
	usec_t limit = user && user->query_timeout != CONF_UNSET ? user->query_timeout : set->query_timeout;
	usec_t logins = set->client_login_timeout;

	if (limit == 0 && logins == 0)
		limit = set->server_connect_timeout > 0 ? set->server_connect_timeout : LASTS_MOST;
	if (is_abandoned(s))
		return REASON_LOOKUP_OVER;
	if ((limit > 0 && w->now - s->task_since >= limit) || (logins > 0 && w->now - s->task_since >= logins))
		return REASON_QUERY_TIMEOUT;
	return REASON_NONE;
}

/* It had gone while it lay idle, as far as anybody can tell. */
static bool was_gone(const struct server *s, enum close_reason why)
{
	return why == REASON_SERVER_CRASHED && !s->lookup->answer.begun && s->policy.opened < s->lookup->since;
}

void lookup_server_gone(struct server *s, enum close_reason why, const char *text)
{
	struct lookup *l = s->lookup;
	bool is_wrong = l->answer.failed && why == REASON_SERVER_BROKEN;

	/* half a secret may be in it */
	bytes_wipe(&s->peer.held);
	if (was_gone(s, why)) {
		log_about(l, LEVEL_LOG, "is asked again", text);
		ask_again(l);
		return;
	}
	if (!is_abandoned(s))
		log_failure(l, l->answer.failed ? l->answer.why : text);
	query_over(l, is_wrong ? REASON_CONFIG_ERROR : fit_for_unauthenticated(why), NULL);
}
