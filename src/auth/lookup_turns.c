/*
 * Turns of look-ups.
 *
 * Unauthenticated clients determine the number of look-ups, the users, and, with an entry "*", the
 * number of databases. Each may need a server connection of its own. Therefore
 * max_auth_query_connections limits the look-ups that have a turn, over all databases, and the open
 * connections that only look-ups have used; and also
 *
 *  - look-ups in one pool to a quarter of it, so that one hanging database does not stop logins to
 *    others;
 *  - look-ups for clients of one address, or site (verify/queue.c), to half of it.
 *
 * If max_db_connections limits a database, look-ups have half of that: its other connections are
 * for clients that are logged in.
 *
 * The other look-ups wait. Addresses take turns. For each address, the oldest look-up in a pool
 * with room comes first. While a look-up waits for one limit, it uses no share of another limit: an
 * address at its limit does not block a pool for other addresses, and a pool at its limit does not
 * block an address.
 *
 * Several clients may wait for one look-up. Each of them is in the queue under its own address, and
 * the first turn serves all of them. Otherwise a client at an address without turns could delay a
 * login from another address by asking for the same user first.
 *
 * Invariant: a turn has askers exactly while it waits, and they are in the queue; a granted turn is
 * in the list `taken`.
 */
#include "auth/lookup_turns.h"

#include "base/assert.h"

#include <string.h>

/* Returns a part of max_auth_query_connections; at least one. */
static int64_t turns_part(const struct lookup_turns *turns, int divisor)
{
	int64_t most = turns->pools->conf->settings.max_auth_query_connections / divisor;

	return most > 0 ? most : 1;
}

/* ---- limits ---- */

static bool has_turn_left(const struct lookup_turns *turns)
{
	return turns->taken_count < turns->pools->conf->settings.max_auth_query_connections;
}

static bool try_address(void *context, const struct verify_source *source)
{
	const struct lookup_turns *turns = context;
	int64_t count = 0;

	LIST_EACH(node, &turns->taken)
		count += verify_source_same_group(
			&LIST_OBJECT(node, struct lookup_turn, node)->source, source);
	return count < turns_part(turns, 2);
}

/* Whether the pool and its database have room, and the look-up can use an open connection or may
   open one. If it may not, an idle connection of a look-up in another pool has to close: sets
   internal_servers_missed. */
static bool try_pool(struct lookup_turns *turns, const struct pool *pool)
{
	struct pools *pools = turns->pools;
	int64_t limit = pool->database->servers->limit, in_pool = 0, in_database = 0;
	bool has_connection;

	LIST_EACH(node, &turns->taken) {
		const struct pool *other = LIST_OBJECT(node, struct lookup_turn, node)->pool;

		in_pool += other == pool;
		in_database += other->database == pool->database;
	}
	if (in_pool >= turns_part(turns, 4) ||
	    (limit > 0 && in_database >= (limit > 1 ? limit / 2 : 1)))
		return false;
	has_connection = pool->server_count[SERVER_IDLE] + pool->server_count[SERVER_USED] > 0 ||
			 budget_has_room(&pools->shared->lookup_servers);
	pools->internal_servers_missed |= !has_connection;
	return has_connection;
}

static bool try_place(void *context, struct verify_place *place)
{
	return try_pool(context, LIST_OBJECT(place, struct lookup_asker, place)->turn->pool);
}

/* ---- waiting ---- */

static void forget_askers(struct lookup_turns *turns, struct lookup_turn *turn)
{
	while (!list_is_empty(&turn->askers))
		lookup_asker_leave(turns,
				   LIST_OBJECT(turn->askers.next, struct lookup_asker, node));
}

static void turns_take(struct lookup_turns *turns, struct lookup_turn *turn,
		       const struct verify_source *source)
{
	turn->state = TURN_HAS;
	turn->source = *source;
	forget_askers(turns, turn);
	list_append(&turns->taken, &turn->node);
	turns->taken_count++;
}

void lookup_turns_grant(struct lookup_turns *turns)
{
	const struct verify_fit fit = { .source = try_address,
					.place = try_place,
					.context = turns };
	struct verify_place *place;

	while (has_turn_left(turns) && (place = verify_queue_next(&turns->waiting, &fit)) != NULL) {
		struct lookup_asker *asker = LIST_OBJECT(place, struct lookup_asker, place);
		struct lookup_turn *turn = asker->turn;

		turns_take(turns, turn, &asker->source);
		turns->granted(turn);
	}
}

bool lookup_turn_ask(struct lookup_turns *turns, struct lookup_turn *turn, const struct pool *pool,
		     struct lookup_asker *asker, const struct verify_source *source)
{
	ASSERT(turn->state != TURN_HAS && !asker->turn);
	turn->pool = pool;
	/* all waiting turns that fit have been granted already */
	if (has_turn_left(turns) && try_address(turns, source) && try_pool(turns, pool)) {
		turns_take(turns, turn, source);
		return true;
	}
	if (!verify_queue_add(&turns->waiting, &asker->place, source))
		return false;
	asker->turn = turn;
	asker->source = *source;
	list_append(&turn->askers, &asker->node);
	turn->state = TURN_WAITS;
	return true;
}

void lookup_turn_over(struct lookup_turns *turns, struct lookup_turn *turn)
{
	enum lookup_turn_state was = turn->state;

	turn->state = TURN_NONE;
	forget_askers(turns, turn);
	if (was != TURN_HAS)
		return;
	list_remove(&turn->node);
	turns->taken_count--;
	lookup_turns_grant(turns);
}
