#ifndef VERIFY_QUEUE_H
#define VERIFY_QUEUE_H

#include "base/hash.h"
#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

/* Questions that wait for a verifier, served by turns: see queue.c. */

/* The source of a question; the caller says what that is (an address). Sources of one group take turns among themselves in the turns of the
   group. */
struct verify_source {
	uint8_t bytes[17];
	uint8_t group;			/* so many of the bytes are those of its group; 0: it is alone */
};
bool verify_source_same_group(const struct verify_source *a, const struct verify_source *b);

/* In whatever waits. Its own from verify_place_init on; `share` is the queue's. */
struct verify_share;
struct verify_place {
	struct list node;
	struct verify_share *share;	/* NULL: it does not wait */
};

struct verify_queue {
	struct list turns;		/* struct verify_group: the next to be served comes first */
	struct verify_share *by_source;
	struct verify_group *by_group;
	int waiting;			/* places in all shares */
};

void verify_place_init(struct verify_place *place);
void verify_queue_init(struct verify_queue *queue);
/* Behind all of its source. False: no memory. */
bool verify_queue_add(struct verify_queue *queue, struct verify_place *place, const struct verify_source *source);
/* A place that a client of another source has come to share: it goes behind those of `source` if it is served sooner there.
   Harmless when it does not wait. */
void verify_queue_share(struct verify_queue *queue, struct verify_place *place, const struct verify_source *source);
/* It waits no more. Harmless when it does not. */
void verify_queue_remove(struct verify_queue *queue, struct verify_place *place);
/* The next to be served, taken out of the queue. NULL: none waits. */
struct verify_place *verify_queue_next(struct verify_queue *queue);
/* Which places may be taken out now: those of sources that fit, of these the ones that fit themselves. */
struct verify_fit {
	bool (*source)(void *context, const struct verify_source *source);
	bool (*place)(void *context, struct verify_place *place);
	void *context;
};
/* As verify_queue_next, of those only. NULL: there is none. Walks them all then. */
struct verify_place *verify_queue_next_if(struct verify_queue *queue, const struct verify_fit *fit);
/* The one that has to go for one more of `source`: the youngest of the source with most in the group with most, if the group of `source` then does
   not have more than that one; or of the source with most in its own group, if it does not have more then. Taken out of the queue. NULL: there is
   none. Walks the groups, and the sources of two of them. */
struct verify_place *verify_queue_displace(struct verify_queue *queue, const struct verify_source *source);
/* Source by source, the oldest of each first. The visitor must not change the queue. */
void verify_queue_each(const struct verify_queue *queue, void (*visit)(void *context, struct verify_place *place), void *context);

#endif
