#ifndef VERIFY_QUEUE_H
#define VERIFY_QUEUE_H

#include "base/hash.h"
#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

/* A fair queue of questions for the verifiers: see queue.c. */

/* The source of a question, as defined by the caller (an address). Sources of a group take turns
   within the turns of the group. */
struct verify_source {
	uint8_t bytes[17];
	/* number of leading bytes that identify the group; 0: no group */
	uint8_t group;
};
bool verify_source_same_group(const struct verify_source *a, const struct verify_source *b);

/* A place in the queue, embedded in the waiting object, which calls verify_place_init; `share`
   belongs to the queue. */
struct verify_share;
struct verify_place {
	struct list node;
	struct verify_share *share;	/* NULL: not in the queue */
};

struct verify_queue {
	struct list turns;		/* struct verify_group, in the order of service */
	struct verify_share *by_source;
	struct verify_group *by_group;
	int waiting;			/* total number of places */
};

static inline void verify_place_init(struct verify_place *place)
{
	place->share = NULL;
	list_init(&place->node);
}
static inline void verify_queue_init(struct verify_queue *queue)
{
	*queue = (struct verify_queue){ .waiting = 0 };
	list_init(&queue->turns);
}
/* Adds a place after the others of its source. False: no memory. */
bool verify_queue_add(struct verify_queue *queue, struct verify_place *place,
		      const struct verify_source *source);
/* A client of another source shares the place: moves it to `source` if it is served earlier there.
   Does nothing if the place is not in the queue. */
void verify_queue_share(struct verify_queue *queue, struct verify_place *place,
			const struct verify_source *source);
/* Removes the place. Does nothing if it is not in the queue. */
void verify_queue_remove(struct verify_queue *queue, struct verify_place *place);
/* A filter for places: by source, then by place. */
struct verify_fit {
	bool (*source)(void *context, const struct verify_source *source);
	bool (*place)(void *context, struct verify_place *place);
	void *context;
};
/* Removes and returns the next place that `fit` accepts (`fit` NULL: the next place). NULL: the
   queue is empty, or `fit` accepts no place; then all places were walked. */
struct verify_place *verify_queue_next(struct verify_queue *queue, const struct verify_fit *fit);
/* Removes and returns the place that must make room for a new one of `source`. If the group of
   `source`, with the new place, would not be fuller than the fullest group, this is the newest
   place of the fullest source in the fullest group. Otherwise it is the newest place of the fullest
   source in the group of `source`, if `source`, with the new place, would not be fuller than that
   source. NULL: no place. Walks the groups, and the sources of two groups. */
struct verify_place *verify_queue_displace(struct verify_queue *queue,
					   const struct verify_source *source);
/* Calls visit() for all places, by source, the oldest first. The visitor must not change the
   queue. */
void verify_queue_each(const struct verify_queue *queue,
		       void (*visit)(void *context, struct verify_place *place), void *context);

#endif
