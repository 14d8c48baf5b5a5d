/*
 * PAUSE, RESUME, RECONNECT, KILL and SHUTDOWN of the console. A command does at once everything
 * that is possible and marks the rest: a paused pool closes servers when they are returned, and a
 * server with a close_reason is closed when it is released. A command never waits; its caller polls
 * until nothing is left.
 *
 * Invariant: ops->drop and ops->refuse remove the object from its list, or leave it there until the
 * reap, and touch no other object of the list.
 */
#include "pool/inside.h"

/* Closes all servers in this state. In LOGIN, connections that carry cancel requests stay. */
static void pool_drop_all(struct pool *pool, enum server_state state, enum close_reason why)
{
	LIST_EACH_SAFE(node, &pool->servers[state]) {
		if (state != SERVER_LOGIN || !server_is_apart(server_at(node)))
			pool->pools->ops->drop(server_at(node), why);
	}
}

void pool_kill(struct pool *pool, enum close_reason why)
{
	for (int state = 0; state < SERVER_STATES; state++)
		pool_drop_all(pool, (enum server_state)state, why);
	/* the remaining connections carry cancel requests */
	LIST_EACH_SAFE(node, &pool->servers[SERVER_LOGIN])
		pool->pools->ops->drop(server_at(node), why);
	for (int state = 0; state < CLIENT_STATES; state++) {
		LIST_EACH_SAFE(node, &pool->clients[state])
			pool->pools->ops->refuse(client_at(node), why);
	}
}

void pool_retire(struct pool *pool, enum close_reason idle_why, enum close_reason busy_why,
		 bool logins_too)
{
	static const enum server_state busy[] = { SERVER_LOGIN,	    SERVER_TESTED,
						  SERVER_ACTIVE,    SERVER_LOOKUP,
						  SERVER_LISTENING, SERVER_BEING_CANCELED,
						  SERVER_FINISHING, SERVER_WATCHING };

	pool_drop_all(pool, SERVER_USED, idle_why);
	pool_drop_all(pool, SERVER_IDLE, idle_why);
	/* room core ends logins that take longer than a second; if all logins ended at once, no
	   client would be admitted under repeated RECONNECT */
	for (size_t i = 0; i < sizeof(busy) / sizeof(busy[0]); i++) {
		LIST_EACH(node, &pool->servers[busy[i]]) {
			if (!server_at(node)->is_cancel)
				pool_server_close_later(server_at(node), busy_why);
		}
	}
	if (logins_too)
		pool_drop_all(pool, SERVER_LOGIN, busy_why);
}

void pool_close_idle(struct pool *pool)
{
	pool_drop_all(pool, SERVER_USED, REASON_PAUSE_MODE);
	pool_drop_all(pool, SERVER_IDLE, REASON_PAUSE_MODE);
	pool_drop_all(pool, SERVER_LOGIN, REASON_PAUSE_MODE);
	pool_drop_all(pool, SERVER_LISTENING, REASON_PAUSE_MODE);
}

static bool is_meant(const struct pool *pool, const struct database *database)
{
	return database ? pool->database == database : !pool->database->is_console;
}

void pools_pause(struct pools *pools, struct database *database, bool on)
{
	if (database) {
		database->paused = on;
	} else {
		pools->paused = on;
		if (!on)
			pools->suspended = false;
	}
	LIST_EACH(node, &pools->all) {
		struct pool *pool = pool_at(node);

		if (!is_meant(pool, database))
			continue;
		if (on)
			pool_close_idle(pool);
		pool_mark(pool);
	}
}

void pools_reconnect(struct pools *pools, struct database *database)
{
	LIST_EACH(node, &pools->all) {
		if (is_meant(pool_at(node), database))
			pool_retire(pool_at(node), REASON_DATABASE_CHANGED, REASON_CLOSE_NEEDED,
				    false);
	}
}

void pools_kill(struct pools *pools, struct database *database)
{
	/* Pauses first, so that no marked pool opens a new server, and idle servers close with this
	   reason too. */
	if (database)
		database->paused = true;
	else
		pools->paused = true;
	LIST_EACH(node, &pools->all) {
		if (!is_meant(pool_at(node), database))
			continue;
		pool_kill(pool_at(node), REASON_ADMIN_KILL);
		pool_mark(pool_at(node));
	}
}

bool pools_is_without_servers(const struct pools *pools, const struct database *database,
			      bool marked)
{
	LIST_EACH(node, &pools->all) {
		if (!is_meant(pool_at(node), database))
			continue;
		if (!marked && pool_at(node)->live > 0)
			return false;
		for (int state = 0; marked && state < SERVER_STATES; state++) {
			LIST_EACH(server, &pool_at(node)->servers[state]) {
				if (server_at(server)->close_reason != REASON_NONE)
					return false;
			}
		}
	}
	return true;
}
