#ifndef AUTH_LOOKUP_TURNS_H
#define AUTH_LOOKUP_TURNS_H

#include "pool/pool.h"
#include "verify/queue.h"

/*
 * Limits the look-ups in progress (max_auth_query_connections) and decides which is next: see
 * lookup_turns.c.
 */
enum lookup_turn_state { TURN_NONE, TURN_WAITS, TURN_HAS };

/* In each look-up. */
struct lookup_turn {
	enum lookup_turn_state state;
	struct list askers;		/* TURN_WAITS: struct lookup_asker */
	struct list node;		/* TURN_HAS: of struct lookup_turns ... */
	struct verify_source source;	/* ... for a client of this address */
	const struct pool *pool;
};

/* In each client that waits for a look-up. */
struct lookup_asker {
	struct lookup_turn *turn;	/* NULL: does not wait */
	struct list node;
	struct verify_place place;
	struct verify_source source;
};

struct lookup_turns {
	struct pools *pools;
	struct verify_queue waiting;	/* struct lookup_asker; addresses take turns */
	struct list taken;		/* struct lookup_turn */
	int taken_count;
	/* called when a waiting look-up gets its turn */
	void (*granted)(struct lookup_turn *turn);
};

static inline void lookup_turn_init(struct lookup_turn *turn)
{
	*turn = (struct lookup_turn){ .state = TURN_NONE };
	list_init(&turn->askers);
	list_init(&turn->node);
}
static inline void lookup_asker_init(struct lookup_asker *asker)
{
	*asker = (struct lookup_asker){ .turn = NULL };
	list_init(&asker->node);
	verify_place_init(&asker->place);
}
/* Requests a turn to query this pool, for a client of this address; other clients may have
   requested it already, but it is not granted. False: no memory. Otherwise the state is TURN_HAS,
   or the asker waits and `granted` is called. */
bool lookup_turn_ask(struct lookup_turns *turns, struct lookup_turn *turn, const struct pool *pool,
		     struct lookup_asker *asker, const struct verify_source *source);
/* The client does not wait for the turn any longer. No effect if it does not wait. */
static inline void lookup_asker_leave(struct lookup_turns *turns, struct lookup_asker *asker)
{
	asker->turn = NULL;
	list_remove(&asker->node);
	verify_queue_remove(&turns->waiting, &asker->place);
}
/* The turn is over or not needed any longer. Allowed in every state. */
void lookup_turn_over(struct lookup_turns *turns, struct lookup_turn *turn);
/* Called about ten times a second: grants turns, because connections may have closed. */
void lookup_turns_grant(struct lookup_turns *turns);

#endif
