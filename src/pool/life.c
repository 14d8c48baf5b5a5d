/*
 * The states of clients and servers: every move, and the counts that depend on it.
 *
 * An object is on exactly one list: the list of its state in its pool, or for a client without a
 * pool, the list of unauthenticated clients. Every count is the length of a list or a sum of such
 * lengths, and is changed only here, so it cannot drift. The tables in include/tbl define the
 * allowed moves; any other move is a bug of pgweir.
 */
#include "pool/host.h"
#include "pool/inside.h"
#include "pool/role.h"

#include "base/assert.h"
#include "base/inline.h"

#include <stdarg.h>
#include <stdio.h>

#define C(id) (1u << CLIENT_##id)
const struct state_row client_state_rows[CLIENT_STATES] = {
#define CLIENT_STATE(id, name, moves) [CLIENT_##id] = { moves, name },
#include "tbl/client_state.tbl"
#undef CLIENT_STATE
};
#undef C

#define S(id) (1u << SERVER_##id)
const struct state_row server_state_rows[SERVER_STATES] = {
#define SERVER_STATE(id, name, moves) [SERVER_##id] = { moves, name },
#include "tbl/server_state.tbl"
#undef SERVER_STATE
};
#undef S

/* Updates idle_since after a change: 0 if the pool is in use, otherwise the time since when it is
   not. The sweep does the same for databases. */
static void note_use(struct pool *pool, usec_t now)
{
	if (!pool_is_empty(pool))
		pool->idle_since = pool->database->idle_since = 0;
	else if (pool->idle_since == 0)
		pool->idle_since = now;
}

static ALWAYS_INLINE void client_enlist(struct pools *pools, struct pool_client *client)
{
	struct pool *pool = client->pool;

	list_append(pool ? &pool->clients[client->state] : &pools->unauthenticated[client->state],
		    &client->node);
	(pool ? pool->client_count : pools->unauthenticated_count)[client->state]++;
}

static ALWAYS_INLINE void client_delist(struct pools *pools, struct pool_client *client)
{
	struct pool *pool = client->pool;

	list_remove(&client->node);
	(pool ? pool->client_count : pools->unauthenticated_count)[client->state]--;
}

/* Counts a connection of a client for max_client_conn. */
static void client_count(struct pools *pools, int change)
{
	pools->clients += change;
	if (change > 0)
		budget_add(&pools->shared->clients);
	else
		budget_give(&pools->shared->clients);
}

void pool_client_init(struct pools *pools, struct pool_client *client, usec_t now)
{
	list_init(&client->node);
	client->pool = NULL;
	client->login_user = NULL;
	client->link = NULL;
	client->state = CLIENT_STARTUP;
	client->pins = 0;
	client->wrote_at = client->read_at = 0;
	client->counted = client->notified = client->refused = client->is_login = false;
	client->since = now;
	client_enlist(pools, client);
	if (!client->is_internal)
		client_count(pools, +1);
}

void pool_client_join(struct pool_client *client, struct pool *pool, struct user *login_user)
{
	ASSERT(!client->pool && client->state != CLIENT_DEAD);
	client_delist(pool->pools, client);
	client->pool = pool;
	client->login_user = login_user;
	client_enlist(pool->pools, client);
	pool->dedicated += client->dedicated != 0;
	pool->internal_requests += client->is_internal;
	if (login_user) {
		client->counted = true;
		if (pool->database->stray)
			database_register(pool->database);
		budget_add(pool->database->clients);
		budget_add(login_user->clients);
		login_user->idle_since = 0;
	}
	note_use(pool, 0);
	pool_mark(pool);
}

/* Clears pool_server.last where it is this client. */
static NEVER_INLINE void forget_last(struct pool *pool, const struct pool_client *client)
{
	for (int state = 0; state < SERVER_STATES; state++) {
		LIST_EACH(node, &pool->servers[state])
			if (server_at(node)->last == client)
				server_at(node)->last = NULL;
	}
}

void pool_client_move(struct pool_client *client, struct pool *pool, usec_t now)
{
	struct pool *from = client->pool;
	struct list *node;

	ASSERT(!client->link && pool->database == from->database && pool->user == from->user &&
	       !client->listens);
	if (pool_keeps_state(from))
		forget_last(from, client);
	client_delist(from->pools, client);
	from->dedicated -= client->dedicated != 0;
	from->internal_requests -= client->is_internal;
	pool->dedicated += client->dedicated != 0;
	pool->internal_requests += client->is_internal;
	client->pool = pool;
	/* the lists are in the order of time */
	node = pool->clients[client->state].prev;
	while (node != &pool->clients[client->state] && client_at(node)->since > client->since)
		node = node->prev;
	list_insert_between(&client->node, node, node->next);
	pool->client_count[client->state]++;
	note_use(from, now);
	note_use(pool, now);
	pool_mark(from);
	pool_mark(pool);
	if (client->state == CLIENT_WAITING_LOGIN)
		pool->pools->ops->moved(client);
}

static void client_uncount(struct pools *pools, struct pool_client *client, unsigned was,
			   usec_t now)
{
	if (!client_is_canceller(was) && !client->is_internal)
		client_count(pools, -1);
	if (client->counted) {
		client->counted = false;
		client->pool->closes++;
		pools->closes += !client->pool->database->is_console;
		budget_give(client->pool->database->clients);
		budget_give(client->login_user->clients);
	}
	if (client->pool) {
		client->pool->dedicated -= client->dedicated != 0;
		client->pool->internal_requests -= client->is_internal;
		/* without clients the pool waits for no limit */
		if (client->pool->held_by != LIMIT_NONE)
			pool_mark(client->pool);
		note_use(client->pool, now);
	}
}

/* Inlined, because at the begin and end of a query the new state is a constant, and the compiler
   removes the branches for the other states. */
static ALWAYS_INLINE void client_become(struct pools *pools, struct pool_client *client,
					enum client_state state, usec_t now)
{
	unsigned was = client->state;
	uint8_t next = state_move(client_state_rows, CLIENT_STATES, was, state);

	ASSERT(state != CLIENT_ACTIVE || client->link);
	ASSERT(was != CLIENT_ACTIVE || !client->link);
	ASSERT(state != CLIENT_DEAD || !client->link);
	if (state == CLIENT_DEAD && client->pool && pool_keeps_state(client->pool))
		forget_last(client->pool, client);
	client_delist(pools, client);
	client->state = next;
	client->since = now;
	client->notified = false;
	if (state == CLIENT_DEAD) {
		client_uncount(pools, client, was, now);
		return;
	}
	client_enlist(pools, client);
	if (client_is_canceller(state) && !client_is_canceller(was))
		client_count(pools, -1);
	/* A client that begins to wait needs a verdict. */
	if (client->pool && (state == CLIENT_WAITING || state == CLIENT_WAITING_LOGIN ||
			     state == CLIENT_WAITING_CANCEL))
		pool_mark(client->pool);
}

void pool_client_become(struct pools *pools, struct pool_client *client, enum client_state state,
			usec_t now)
{
	client_become(pools, client, state, now);
}

static ALWAYS_INLINE void server_enlist(struct pool_server *server)
{
	struct pool *pool = server->pool;
	struct list *list = &pool->servers[server->state];

	if (server->state == SERVER_IDLE || server->state == SERVER_USED)
		list_prepend(list, &server->node);
	else
		list_append(list, &server->node);
	pool->server_count[server->state]++;
	if (server->state == SERVER_LOGIN && server_is_apart(server))
		pool->apart_logins++;
}

void pool_server_init(struct pool_server *server, struct pool *pool, bool is_cancel, usec_t now)
{
	list_init(&server->node);
	server->pool = pool;
	server->host = NULL;
	server->link = NULL;
	server->last = NULL;
	server->state = SERVER_LOGIN;
	server->is_cancel = is_cancel;
	server->is_watcher = false;
	server->server_id = 0;
	server->lent = false;
	pool_server_close_later(server, REASON_NONE);
	server->cancels = 0;
	server->since = now;
	server->opened = 0;
	server_enlist(server);
	seat_use(server);
	pool->dedicated += server->dedicated != 0;
	note_use(pool, now);
}

void pool_server_watch(struct pool_server *server)
{
	struct pool *pool = server->pool;

	ASSERT(server->state == SERVER_LOGIN && !server->host && !server->dedicated);
	seat_give(server);
	server->is_watcher = true;
	pool->apart_logins++;
}

/* Marks the pools that wait for a limit that this server counts for. */
static NEVER_INLINE void wake_others(const struct pool_server *server)
{
	seats_wake(server);
	if (server->host)
		host_wake(server->host, server);
}

/* A server is free or closed: marks its pool if the scheduler has something to do for it, and the
   pools that the limits held back. In the common case no client waits when a server is returned. */
static ALWAYS_INLINE void wake(const struct pool_server *server, bool is_gone)
{
	struct pool *pool = server->pool;
	const int *clients = pool->client_count;

	if (is_gone ||
	    clients[CLIENT_WAITING] + clients[CLIENT_WAITING_LOGIN] +
			    clients[CLIENT_WAITING_CANCEL] >
		    0 ||
	    pool->held_by != LIMIT_NONE || pool->idle_marked || pool->dedicated > 0 ||
	    pool_is_paused(pool))
		pool_mark(pool);
	if (pool->pools->bell.shortages > 0)
		wake_others(server);
}

static void server_bury(struct pool_server *server, usec_t now)
{
	struct pool *pool = server->pool;
	usec_t lifetime = pool->allowed.server_lifetime;

	/* A server that had reached server_lifetime closes, for this reason or another: the time
	   until the next close for server_lifetime counts from now. */
	if (server->opened > 0 && lifetime > 0 && now - server->opened >= lifetime &&
	    pool->last_lifetime_close < now)
		pool->last_lifetime_close = now;
	seat_give(server);
	pool->dedicated -= server->dedicated != 0;
	note_use(pool, now);
}

static ALWAYS_INLINE void server_become(struct pool_server *server, enum server_state state,
					usec_t now)
{
	struct pool *pool = server->pool;
	unsigned was = server->state;
	uint8_t next = state_move(server_state_rows, SERVER_STATES, was, state);

	if (server->is_cancel) {
		ASSERT(state == SERVER_ACTIVE_CANCEL || state == SERVER_DEAD);
	} else if (server->is_watcher) {
		ASSERT(state == SERVER_WATCHING || state == SERVER_DEAD);
	} else {
		ASSERT(state != SERVER_ACTIVE_CANCEL);
		ASSERT((state == SERVER_ACTIVE) == (server->link != NULL));
	}
	list_remove(&server->node);
	pool->server_count[was]--;
	if (was == SERVER_LOGIN && server_is_apart(server))
		pool->apart_logins--;
	server->state = next;
	if (state != SERVER_USED)
		server->since = now;
	if (was == SERVER_LOGIN && state != SERVER_DEAD)
		server->opened = now;
	if (state == SERVER_DEAD)
		server_bury(server, now);
	else
		server_enlist(server);
	if (state == SERVER_IDLE && server->close_reason != REASON_NONE)
		pool->idle_marked = true;
	if (state == SERVER_IDLE || state == SERVER_DEAD)
		wake(server, state == SERVER_DEAD);
	if (state == SERVER_DEAD)
		pool_server_set_host(server, NULL);
}

void pool_server_become(struct pool_server *server, enum server_state state, usec_t now)
{
	server_become(server, state, now);
}

static NEVER_INLINE void count_wait(struct pool *pool, usec_t waited)
{
	pool->database->stats.total.wait_time += (uint64_t)waited;
	latency_add(pool, LATENCY_WAIT, waited);
}

void pool_link(struct pool_server *server, struct pool_client *client, usec_t now)
{
	struct pool *pool = server->pool;
	usec_t waited = client->state == CLIENT_WAITING ? now - client->since : 0;

	ASSERT(client->pool == pool && !client->link && !server->link);
	pool->database->stats.total.server_assignment_count++;
	server->link = client;
	client->link = server;
	server->lent = true;
	if (server->for_internal && !client->is_internal)
		seat_serves_clients(server);
	server_become(server, SERVER_ACTIVE, now);
	client_become(pool->pools, client, CLIENT_ACTIVE, now);
	if (waited > 0)
		count_wait(pool, waited);
	else
		pool->served_at_once++;
}

void pool_unlink(struct pool_server *server, enum server_state next, bool client_dies, usec_t now)
{
	struct pool_client *client = server->link;

	ASSERT(server->state == SERVER_ACTIVE && client && client->link == server);
	if (client->pins)
		pool_client_pin(client, 0);
	server->last = client;
	server->link = NULL;
	client->link = NULL;
	if (next == SERVER_IDLE)
		server_become(server, SERVER_IDLE, now);
	else
		server_become(server, next, now);
	if (!client_dies)
		client_become(server->pool->pools, client, CLIENT_IDLE, now);
}

bool pool_server_move(struct pool_server *server, struct pool *to, usec_t now)
{
	struct pool *from = server->pool;
	struct host *host = server->host ? host_hold(to->pools, server->host->key) : NULL;
	struct list *oldest;

	ASSERT((server->state == SERVER_IDLE || server->state == SERVER_USED) && !server->link &&
	       !server->dedicated && server->cancels == 0 && from->budget == to->budget &&
	       from->pools != to->pools);
	if (server->host && !host)
		return false;
	list_remove(&server->node);
	from->server_count[server->state]--;
	from->live--;
	server->pool = to;
	server->last = NULL;
	/* the lists are in the order of time; a USED server is idle for longer than any IDLE one */
	oldest = list_last(&to->servers[SERVER_IDLE]);
	server->since = server->state == SERVER_USED && oldest ? server_at(oldest)->since : now;
	to->live++;
	server_enlist(server);
	if (!to->database->served)
		database_admitted(to->database);
	pool_server_set_host(server, host);
	if (host)
		host_drop(host);
	note_use(from, now);
	note_use(to, now);
	pool_mark(to);
	return true;
}

void pool_login_succeeded(struct pool *pool)
{
	pool->login_failed = false;
	if (pool->logins_succeeded < LOGINS_AT_ONCE)
		pool->logins_succeeded++;
	if (!pool->database->served)
		database_admitted(pool->database);
	pool_mark(pool);
}

void pool_login_failed(struct pool *pool, enum login_failure failure, usec_t now)
{
	if (!pool->login_failed)
		pool->login_failing_since = now;
	pool->login_failed = true;
	pool->missed = false;
	pool->login_failed_at = now;
	if (failure == FAILURE_FULL)
		pool->full_at = now;
	if (pool->host && pool->database->roles)
		pool->database->roles->has_refusals = true;
	pool->login_failure = (uint8_t)failure;
	pool->logins_succeeded = 0;
	pool_mark(pool);
}

void pool_server_refused(const struct pool_server *server)
{
	const struct pool *pool = server->pool;

	if (!pool_minds_startup(pool, false))
		return;
	LIST_EACH(node, &pool->clients[CLIENT_WAITING])
		client_at(node)->refused |= client_at(node)->startup == server->startup &&
					    !client_at(node)->dedicated;
}

int pool_count_usable(const struct pool *pool, bool with_logins)
{
	int count = 0;

	for (int state = 0; state < SERVER_STATES; state++) {
		if (state == SERVER_LISTENING || (state == SERVER_LOGIN && !with_logins))
			continue;
		LIST_EACH(node, &pool->servers[state])
			count += !server_is_apart(server_at(node)) &&
				 server_at(node)->close_reason == REASON_NONE;
	}
	return count;
}

bool pool_refuses(const struct pool *pool, const struct pool_client *client, usec_t now)
{
	bool waits = client->state == CLIENT_WAITING || client->state == CLIENT_WAITING_LOGIN;
	usec_t since = now - pool->login_failed_at;

	/* a waiting client tries each host once, even if server_login_retry is 0 */
	return pool->login_failed && pool_count_usable(pool, true) == 0 &&
	       (since < pool->pools->conf->settings.server_login_retry || since <= 0 ||
		(waits && pool->login_failed_at >= client->since));
}

void pool_login_forgiven(struct pool *pool)
{
	LIST_EACH(node, &pool->clients[CLIENT_WAITING])
		client_at(node)->refused = false;
	pool->login_failed = false;
	pool_mark(pool);
}

enum close_reason pool_server_is_spent(const struct pool_server *server, usec_t now)
{
	const struct pool *pool = server->pool;
	usec_t lifetime = pool->allowed.server_lifetime;

	if (server->close_reason != REASON_NONE)
		return (enum close_reason)server->close_reason;
	if (server->dedicated && server->lent)
		return REASON_REPLICATION_OVER;
	if (pool_is_paused(pool))
		return REASON_PAUSE_MODE;
	/* At least lifetime / size passes between two closes, so that a pool does not lose all
	   servers at the same time. */
	if (lifetime == 0 ? server->lent
			  : server->opened != 0 && now - server->opened >= lifetime &&
				    now - pool->last_lifetime_close >=
					    lifetime / (pool->allowed.size > 0 ? pool->allowed.size
									       : pool->live))
		return REASON_SERVER_LIFETIME;
	return pool->live > pool->close_above ? pool_server_is_claimed(server, now) : REASON_NONE;
}

/* ---- pins ---- */

/*
 * Pins: why clients keep their server connection between transactions
 * (include/tbl/session_fact.tbl), and the number of such clients per pool.
 */

static const char *const pin_labels[PINS] = {
#define SESSION_PIN(id, label, texts, set_by, ended_by, ask, where) [PIN_##id##_NUMBER] = label,
#include "tbl/session_fact.tbl"
};

_Static_assert(PINS <= 8, "the bits fit pool_client.pins, and the dirty facts of a session");

void pool_client_pin(struct pool_client *client, unsigned pins)
{
	ASSERT(client->link && pins < 1u << PINS);
	client->pool->pinned += (pins != 0) - (client->pins != 0);
	client->pins = (uint8_t)pins;
}

/* Appends after the first `used` bytes of buf. The text must fit. Returns the new length. */
__attribute__((format(printf, 3, 4))) static size_t append(char *buf, size_t used,
							   const char *format, ...)
{
	va_list arguments;
	int added;

	va_start(arguments, format);
	added = vsnprintf(buf + used, PIN_TEXT - used, format, arguments);
	va_end(arguments);
	ASSERT(added >= 0 && used + (size_t)added < PIN_TEXT);
	return used + (size_t)added;
}

const char *pins_text(unsigned pins, char *buf)
{
	size_t used = 0;

	*buf = '\0';
	for (int i = 0; i < PINS; i++)
		if (pins & 1u << i)
			used = append(buf, used, "%s%s", used > 0 ? ", " : "", pin_labels[i]);
	return buf;
}

const char *pool_pins_text(const struct pool *pool, char *buf)
{
	int counts[PINS] = { 0 };
	size_t used;
	const char *between = ": ";

	if (pool->pinned == 0)
		return NULL;
	LIST_EACH(node, &pool->clients[CLIENT_ACTIVE])
		for (int i = 0; i < PINS; i++)
			counts[i] += client_at(node)->pins >> i & 1;
	used = append(buf, 0, "%d of %d server connections are pinned", pool->pinned, pool->live);
	for (int i = 0; i < PINS; i++) {
		if (counts[i] == 0)
			continue;
		used = append(buf, used, "%s%d %s", between, counts[i], pin_labels[i]);
		between = ", ";
	}
	if (pool->server_count[SERVER_LISTENING] > 0)
		append(buf, used, "; one listens for all");
	return buf;
}
