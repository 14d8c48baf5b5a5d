#ifndef SESSION_LOOKUP_TURNS_H
#define SESSION_LOOKUP_TURNS_H

#include "pool/pool.h"
#include "verify/queue.h"

/*
 * How many look-ups may be under way at once (max_auth_query_connections), and which is the next one: see lookup_turns.c.
 */

/* Of one pool that look-ups ask: the bound on a single database. */
struct lookup_line {
	struct verify_queue waiting;	/* struct lookup_turn */
	int admitted;			/* those of this pool that wait for a turn among all, or have one */
};

enum lookup_turn_state { TURN_NONE, TURN_WAITS_IN_LINE, TURN_WAITS, TURN_HAS };

/* In each look-up. Zero but for what lookup_turn_init sets. */
struct lookup_turn {
	enum lookup_turn_state state;
	struct verify_place place;	/* TURN_WAITS...: in one of the queues */
	struct list node;		/* TURN_HAS: of struct lookup_turns */
	struct verify_source source;
	const struct pool *pool;
	struct lookup_line *line;
};

struct lookup_turns {
	struct pools *pools;
	struct verify_queue waiting;	/* struct lookup_turn; addresses take turns */
	struct list taken;		/* struct lookup_turn */
	int taken_count;
	void (*granted)(struct lookup_turn *turn);	/* one that has waited has its turn */
};

void lookup_turns_init(struct lookup_turns *turns, struct pools *pools, void (*granted)(struct lookup_turn *turn));
/* NULL: no memory. Free it with mem_free, when no turn refers to it any more. */
struct lookup_line *lookup_line_new(void);
void lookup_turn_init(struct lookup_turn *turn);
/* Wants a turn to ask this pool, whose line this is, for a client of this address. False: no memory. Otherwise the state is
   TURN_HAS, or it waits and `granted` is called. */
bool lookup_turn_ask(struct lookup_turns *turns, struct lookup_turn *turn, const struct pool *pool, struct lookup_line *line,
		     const struct verify_source *source);
/* Has had its turn, or does not want it any more. Fine in every state. */
void lookup_turn_over(struct lookup_turns *turns, struct lookup_turn *turn);
/* About ten times a second: connections may have closed. */
void lookup_turns_tick(struct lookup_turns *turns);

#endif
