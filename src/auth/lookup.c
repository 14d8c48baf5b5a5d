/*
 * Looking up users with auth_query.
 *
 * A look-up waits in the queue of the pool of (auth_dbname or the client's database, auth_user) as a client does, as an internal request
 * (pool/pool.h). When it is lent a server it gives the link up again at once: the server is LOOKUP and runs task_lookup, as busy as with a
 * client, but no client can get at it, nor it at a client. Afterwards it is a server of the pool like any other. The query and its answer
 * are defined in pg/authquery.c.
 *
 * For each user, one look-up runs at a time; the logins that arrive during it wait together for the next look-up, which begins when the
 * first has ended. A storm of logins therefore costs one query per round trip, and each login still gets an answer from a query that began
 * after the login did: a changed password, a dropped role or an expired role takes effect at once. This is why no answer is kept for later
 * logins, however briefly: with SCRAM, which has the salt in the question, one could not even notice that it is old and ask again. (A
 * proven password or key is kept for logging in at servers, because each server checks it again: proven_secret.c.)
 *
 * A server that had lain idle may be gone unnoticed. If the server has not begun to answer, the query is sent again on another server. Only
 * a server that was connected before the look-up began counts as stale, so the number of retries is bounded.
 *
 * This file never calls a waiting client: it puts the client on the list of peers to be read again, and the client finds its answer there.
 *
 * Before a look-up joins the queue it needs a turn, because unauthenticated clients determine the number of look-ups (lookup_turns.c).
 *
 * Invariants: each look-up is in the table once, by its key; HELD and QUEUED have an internal request in the pool and a waiting client;
 * RUNNING has a server that points back; DUE, and HELD with a turn, have a waiting client, and the first one is on world->again.
 */
#include "auth/lookup_parts.h"

#include "auth/auth.h"
#include "auth/displace.h"
#include "auth/login_state.h"
#include "auth/lookup_turns.h"
#include "auth/unknown.h"
#include "backend/server_info.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/state.h"

#include <string.h>

#define SLOW USEC			/* a client that has waited for so long shows that look-ups do not get on */

static struct lookup *lookup_of(struct pool_client *request)
{
	return LIST_OBJECT(request, struct lookup, request);
}

struct lookups *lookups_new(struct pools *pools)
{
	struct lookups *all = mem_try(sizeof(*all));

	if (!all)
		return NULL;
	list_init(&all->dead);
	all->turns = lookup_turns_new(pools, lookup_granted);
	if (!all->turns)
		lookups_free(&all);
	return all;
}

void lookups_free(struct lookups **place)
{
	struct lookups *all = *place;

	if (!all)
		return;
	lookups_reap(all);
	ASSERT(!all->by_key);
	mem_free(all->turns);
	mem_free(all);
	*place = NULL;
}

/* ---- the life of a look-up ---- */

#define P(id) (1u << LOOKUP_##id)
static const struct state_row phases[LOOKUP_PHASES] = {
#define LOOKUP_PHASE(id, moves) [LOOKUP_##id] = { moves, NULL },
#include "tbl/lookup_phase.tbl"
#undef LOOKUP_PHASE
};
#undef P

void lookup_phase_to(struct lookup *l, enum lookup_phase phase)
{
	l->phase = (enum lookup_phase)state_move(phases, LOOKUP_PHASES, l->phase, phase);
}

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

static struct lookup *lookup_get(struct world *w, struct pool *pool, const char *user, const struct lookup_source *source)
{
	size_t user_size = strlen(user) + 1, sql_size = strlen(source->sql) + 1, path_size = strlen(source->path) + 1;
	size_t size = sizeof(pool) + user_size + sql_size + path_size;
	struct lookup *l = mem_try(sizeof(*l) + size), *found;

	if (!l)
		return NULL;
	memcpy(l->key, &pool, sizeof(pool));
	memcpy(l->key + sizeof(pool), user, user_size);
	memcpy(l->key + sizeof(pool) + user_size, source->sql, sql_size);
	memcpy(l->key + sizeof(pool) + user_size + sql_size, source->path, path_size);
	HASH_FIND(hh, w->lookups->by_key, l->key, size, found);
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
	HASH_ADD_KEYPTR(hh, w->lookups->by_key, l->key, size, l);
	if (HASH_HAS(hh, l))
		return l;
	mem_free(l);
	return NULL;
}

/* The memory stays for this turn: the pool room may still look at the request. */
static void lookup_end(struct lookup *l)
{
	ASSERT(list_is_empty(&l->waiting) && list_is_empty(&l->asked) && l->turn.state == TURN_NONE);
	HASH_DEL(l->world->lookups->by_key, l);
	list_append(&l->world->lookups->dead, &l->dead);
}

void lookups_reap(struct lookups *all)
{
	struct list *node;

	while ((node = list_first(&all->dead)) != NULL) {
		list_remove(node);
		mem_free(LIST_OBJECT(node, struct lookup, dead));
	}
}

void lookups_tick(struct lookups *all)
{
	lookups_reap(all);
	lookup_turns_tick(all->turns);
}

static void answer_all(struct list *waits, enum close_reason refused, const struct secret *secret);

/* Puts a look-up that has its turn into the pool's queue, or runs it at once. */
static void queue(struct lookup *l)
{
	struct world *w = l->world;
	struct pool_server *free_one;

	lookup_phase_to(l, LOOKUP_QUEUED);
	pool_client_become(w->pools, &l->request, CLIENT_IDLE, w->now);
	free_one = pool_want(&l->request, w->now);
	if (free_one)
		lookup_run(l, server_of(free_one));
}

static void end_wait(struct lookup_wait *wait, enum close_reason refused, const struct secret *secret);

/* Ends without a query; the clients are told so. */
static void give_up(struct lookup *l, enum close_reason why)
{
	answer_all(&l->waiting, why, NULL);
	lookup_turn_over(l->world->lookups->turns, &l->turn);
	lookup_end(l);
}

/* Queues this login's request for a turn under its client's address. Without memory for that its wait is over. */
static void want_turn(struct lookup_wait *wait)
{
	struct lookup *l = wait->lookup;
	struct verify_source source = auth_verify_source(wait->client);

	if (!lookup_turn_ask(l->world->lookups->turns, &l->turn, l->pool, &wait->asker, &source))
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
	lookup_phase_to(l, LOOKUP_HELD);
	l->request = (struct pool_client){ .is_internal = true, .startup = params_none(w->params) };
	pool_client_init(w->pools, &l->request, w->now);
	pool_client_join(&l->request, l->pool, NULL);
	LIST_EACH_SAFE(node, &l->waiting)
		if (l->turn.state != TURN_HAS)
			want_turn(LIST_OBJECT(node, struct lookup_wait, node));
	if (l->turn.state == TURN_HAS) {
		queue(l);
	} else if (!lookup_first_waiting(l)) {
		lookup_request_over(l);
		lookup_end(l);
	}
}

void lookup_request_over(struct lookup *l)
{
	const struct params *startup = l->request.startup;

	pool_client_become(l->world->pools, &l->request, CLIENT_DEAD, l->world->now);
	params_drop(l->world->params, &startup);
	l->request.startup = NULL;
}

struct lookup_wait *lookup_first_waiting(const struct lookup *l)
{
	struct list *node = list_first(&l->waiting);

	return node ? LIST_OBJECT(node, struct lookup_wait, node) : NULL;
}

static void end_wait(struct lookup_wait *wait, enum close_reason refused, const struct secret *secret)
{
	list_remove(&wait->node);
	wait->lookup = NULL;
	wait->refused = refused;
	wait->answer = wait->client->peer.world->lookups->answers;
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

/* The server is of no concern any more. A waiting client has the next query begin. */
static void go_on(struct lookup *l)
{
	if (l->server)
		l->server->lookup = NULL;
	l->server = NULL;
	authquery_clear(&l->answer);
	lookup_turn_over(l->world->lookups->turns, &l->turn);
	lookup_phase_to(l, LOOKUP_DUE);
	if (lookup_first_waiting(l))
		peer_come_again(&lookup_first_waiting(l)->client->peer);
	else
		lookup_end(l);
}

/* To all that have been asked for, whether their user exists or not. */
static void tell_source(const struct lookup *l)
{
	struct unknown_source *source = unknown_source_of(l->world->unknown, l->pool);

	LIST_EACH(node, &l->asked)
		LIST_OBJECT(node, struct lookup_wait, node)->source = source;
}

void lookup_query_over(struct lookup *l, enum close_reason refused, const struct secret *secret)
{
	if (refused == REASON_NONE)
		tell_source(l);
	answer_all(&l->asked, refused, secret);
	l->again = false;
	go_on(l);
}

void lookup_ask_again(struct lookup *l)
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

/* Look-ups are stuck, and the logins that wait for them fill the queue (max_auth_queue). While a PAUSE holds them, they wait. */
static bool is_overrun(const struct world *w, const struct pool *pool)
{
	const struct list *waiting = &w->pools->unauthenticated[CLIENT_LOOKUP];
	bool held = pool->database->paused || w->pools->paused || w->pools->suspended;

	return !held && w->pools->unauthenticated_count[CLIENT_LOOKUP] >= auth_queue_most(&w->conf->settings) &&
	       w->now - LIST_OBJECT(waiting->next, struct pool_client, node)->since >= SLOW;
}

/* Another client waits for a look-up that does not have its turn yet. */
static void join(struct lookup *l, struct lookup_wait *wait)
{
	want_turn(wait);
	if (l->turn.state == TURN_HAS)
		queue(l);
}

/* Logs why a user of the console is not looked up. The client gets the answer of an unknown user. */
static void log_console(const struct client *c)
{
	const struct world *w = c->peer.world;
	const struct database *known = database_find(w->pools, c->login->database);
	char who[256];

	if (known && known->is_console && w->conf->settings.auth_user)
		log_error("%s cannot use the reserved \"%s\" database as an auth_dbname: users of the console are looked up only if auth_dbname is set",
			  client_text(c, who, sizeof(who)), known->name);
}

enum lookup_begun lookup_begin(struct client *c)
{
	struct world *w = c->peer.world;
	struct lookup_wait *wait = &c->login->wait;
	struct lookup_source source;
	struct lookup *l;
	struct pool *pool;

	if (!lookup_choose_source(c, &source)) {
		log_console(c);
		return LOOKUP_BEGUN_NONE;
	}
	pool = pool_of(c, &source);
	if (pool && is_overrun(w, pool) && !displace_login(c, REASON_AUTH_QUEUE)) {
		client_end(c, REASON_AUTH_QUEUE, NULL);
		return LOOKUP_BEGUN_ENDED;
	}
	l = pool ? lookup_get(w, pool, c->login->user, &source) : NULL;
	if (!l) {
		/* nothing, when it has ended for another reason */
		client_end(c, REASON_NO_MEMORY, NULL);
		return LOOKUP_BEGUN_ENDED;
	}
	pool_client_become(w->pools, &c->pooled, CLIENT_LOOKUP, w->now);
	login_step_to(c, LOGIN_LOOKUP);
	wait->client = c;
	wait->lookup = l;
	list_append(&l->waiting, &wait->node);
	if (l->phase == LOOKUP_DUE)
		begin(l);
	else if (l->turn.state == TURN_WAITS)
		join(l, wait);
	return LOOKUP_BEGUN_WAITS;
}

/* The first client that waits has been called. */
static bool has_called(const struct lookup *l)
{
	return l->phase == LOOKUP_DUE || (l->phase == LOOKUP_HELD && l->turn.state == TURN_HAS);
}

void lookup_granted(struct lookup_turn *turn)
{
	struct lookup *l = LIST_OBJECT(turn, struct lookup, turn);

	peer_come_again(&lookup_first_waiting(l)->client->peer);
}

bool lookup_continue(struct client *c)
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
	lookup_asker_leave(l->world->lookups->turns, &wait->asker);
	if (l->phase == LOOKUP_RUNNING)
		return;
	if (lookup_first_waiting(l)) {
		/* the client that left may have been the first, which was on world->again */
		if (has_called(l))
			peer_come_again(&lookup_first_waiting(l)->client->peer);
		return;
	}
	if (l->phase != LOOKUP_DUE)
		lookup_request_over(l);
	lookup_turn_over(l->world->lookups->turns, &l->turn);
	lookup_end(l);
}

/* ---- decisions of the pool ---- */

void lookup_lent(struct server *s, struct pool_client *request)
{
	lookup_run(lookup_of(request), s);
}

enum close_reason lookup_reason_for_client(enum close_reason why)
{
	switch (why) {
	case REASON_QUERY_WAIT_TIMEOUT: case REASON_QUERY_TIMEOUT: case REASON_QUERY_TIMEOUT_WAITING: case REASON_SERVER_CRASHED: case REASON_NO_MEMORY:
	case REASON_SERVER_SHUTTING_DOWN: case REASON_POOLER_SHUTTING_DOWN: case REASON_ADMIN_KILL:
		return why;
	default:
		return REASON_AUTH_QUERY;
	}
}

void lookup_log(const struct lookup *l, enum log_level level, const char *action, const char *text)
{
	char pool[POOL_TEXT], user[PRINTABLE_NAME], shown[PRINTABLE_TEXT];

	log_write(level, "%s: auth_query for user \"%s\" %s: %s", pool_text(l->pool, pool, sizeof(pool)),
		  printable_inside(l->user, user, sizeof(user)), action, printable_text(text, shown, sizeof(shown)));
}

void lookup_log_failure(const struct lookup *l, const char *text)
{
	lookup_log(l, LEVEL_WARNING, "failed", text);
}

/* The server does not have the database that a client has named, or does not let auth_user in there. To say so would tell users of the user
   list, which are asked for a password in any database, from others. Therefore the look-up reports that no user was found, and the client is
   treated as an unknown user. A database of the configuration is another matter: its look-ups have to work. */
static bool is_database_unknown(const struct lookup *l, enum close_reason why)
{
	const struct server_info *info = server_info_get(l->pool, l->world->params);

	return why == REASON_LOGIN_FAILING && l->pool->database->stray && info && info->failure.refused;
}

void lookup_refused(struct pool_client *request, enum close_reason why, const char *detail)
{
	struct lookup *l = lookup_of(request);
	char text[1024];

	lookup_log_failure(l, close_reason_text(why, detail, text, sizeof(text)));
	lookup_request_over(l);
	give_up(l, is_database_unknown(l, why) ? REASON_NONE : lookup_reason_for_client(why));
}
