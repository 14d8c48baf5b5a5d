/*
 * Turns of look-ups.
 *
 * Clients that are not authenticated decide how many look-ups there are, of which users, and, where an entry "*" stands for
 * every database, in how many databases. Each may need a server connection of its own. So three bounds hold, all of them
 * parts of max_auth_query_connections:
 *
 *  - so many look-ups have a turn over all databases, and so many connections are open that only look-ups have used;
 *  - a quarter of them in one pool, so that a database that does not answer does not stop logins to others;
 *  - half of them for clients of one address.
 *
 * The others wait: first in the line of their pool, then in the queue of all. In both, addresses take turns (verify/queue.c).
 *
 * Invariant: a turn that waits is in one queue, one that is taken is on the list; `admitted` of a line counts the
 * turns of its pool behind the line.
 */
#include "session/lookup_turns.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

static int64_t most_of(const struct lookup_turns *turns)
{
	return turns->pools->conf->settings.max_auth_query_connections;
}

/* A part of the bound, at least one. */
static int64_t part(const struct lookup_turns *turns, int divisor)
{
	int64_t most = most_of(turns) / divisor;

	return most > 0 ? most : 1;
}

static struct lookup_turn *turn_at(struct verify_place *place)
{
	return LIST_OBJECT(place, struct lookup_turn, place);
}

void lookup_turns_init(struct lookup_turns *turns, struct pools *pools, void (*granted)(struct lookup_turn *turn))
{
	*turns = (struct lookup_turns){ .pools = pools, .granted = granted };
	verify_queue_init(&turns->waiting);
	list_init(&turns->taken);
}

struct lookup_line *lookup_line_new(void)
{
	struct lookup_line *line = mem_try(sizeof(*line));

	if (line)
		verify_queue_init(&line->waiting);
	return line;
}

void lookup_turn_init(struct lookup_turn *turn)
{
	*turn = (struct lookup_turn){ .state = TURN_NONE };
	verify_place_init(&turn->place);
	list_init(&turn->node);
}

/* No more than `part` of the turns are taken for clients of its address. */
static bool address_has_room(const struct lookup_turns *turns, const struct lookup_turn *turn)
{
	int64_t count = 0;

	LIST_EACH(node, &turns->taken)
		count += memcmp(&LIST_OBJECT(node, struct lookup_turn, node)->source, &turn->source, sizeof(turn->source)) == 0;
	return count < part(turns, 2);
}

/* It needs no new connection, or one may be opened. If neither, an idle one of another pool is to close. */
static bool has_connection(struct lookup_turns *turns, const struct pool *pool)
{
	bool has = pool->server_count[SERVER_IDLE] + pool->server_count[SERVER_USED] > 0 || turns->pools->errand_servers < most_of(turns);

	turns->pools->errand_servers_missed |= !has;
	return has;
}

static bool may_take(void *context, struct verify_place *place)
{
	struct lookup_turns *turns = context;
	const struct lookup_turn *turn = turn_at(place);

	return turns->taken_count < most_of(turns) && address_has_room(turns, turn) && has_connection(turns, turn->pool);
}

static void take(struct lookup_turns *turns, struct lookup_turn *turn)
{
	turn->state = TURN_HAS;
	list_append(&turns->taken, &turn->node);
	turns->taken_count++;
}

/* Out of the line of its pool: has a turn at once, or waits among all. False: no memory. */
static bool admit(struct lookup_turns *turns, struct lookup_turn *turn)
{
	turn->line->admitted++;
	/* every turn that waits and could be taken has been */
	if (may_take(turns, &turn->place)) {
		take(turns, turn);
		return true;
	}
	turn->state = TURN_WAITS;
	if (verify_queue_add(&turns->waiting, &turn->place, &turn->source))
		return true;
	turn->state = TURN_NONE;
	turn->line->admitted--;
	return false;
}

static void grant_waiting(struct lookup_turns *turns)
{
	struct verify_place *place;

	while ((place = verify_queue_next_if(&turns->waiting, may_take, turns)) != NULL) {
		take(turns, turn_at(place));
		turns->granted(turn_at(place));
	}
}

static void admit_waiting(struct lookup_turns *turns, struct lookup_line *line)
{
	while (line->waiting.waiting > 0 && line->admitted < part(turns, 4)) {
		struct lookup_turn *turn = turn_at(verify_queue_next(&line->waiting));

		/* without memory to wait, it goes at once */
		if (!admit(turns, turn)) {
			line->admitted++;
			take(turns, turn);
		}
		if (turn->state == TURN_HAS)
			turns->granted(turn);
	}
}

bool lookup_turn_ask(struct lookup_turns *turns, struct lookup_turn *turn, const struct pool *pool, struct lookup_line *line,
		     const struct verify_source *source)
{
	ASSERT(turn->state == TURN_NONE);
	turn->pool = pool;
	turn->line = line;
	turn->source = *source;
	if (line->waiting.waiting == 0 && line->admitted < part(turns, 4))
		return admit(turns, turn);
	if (!verify_queue_add(&line->waiting, &turn->place, source))
		return false;
	turn->state = TURN_WAITS_IN_LINE;
	return true;
}

void lookup_turn_over(struct lookup_turns *turns, struct lookup_turn *turn)
{
	enum lookup_turn_state was = turn->state;

	turn->state = TURN_NONE;
	switch (was) {
	case TURN_NONE:
		return;
	case TURN_WAITS_IN_LINE:
		verify_queue_remove(&turn->line->waiting, &turn->place);
		return;
	case TURN_WAITS:
		verify_queue_remove(&turns->waiting, &turn->place);
		break;
	case TURN_HAS:
		list_remove(&turn->node);
		turns->taken_count--;
		break;
	}
	turn->line->admitted--;
	admit_waiting(turns, turn->line);
	grant_waiting(turns);
}

void lookup_turns_tick(struct lookup_turns *turns)
{
	grant_waiting(turns);
}
