#ifndef POOL_DRAIN_H
#define POOL_DRAIN_H

#include "pool/pool.h"

/*
 * DRAIN: the clients of a target are ended one after the other, each between two transactions, and
 * no client of the target may log in. Example: DRAIN shop OVER 60 SECONDS ends the clients of shop
 * within a minute, so that they reconnect elsewhere without a crowd. A drain names its target and
 * has no pointer to it, because a database can be removed and added again. It lasts until DRAIN ...
 * STOP, also without clients.
 */
/* the handover record contains these numbers */
enum drain_of { DRAIN_OF_ALL, DRAIN_OF_DATABASE, DRAIN_OF_USER, DRAIN_OF_HOST };
#define DRAIN_SECONDS_MOST 1000000

struct drain {
	struct list node;		/* in pools->drains */
	enum drain_of of;
	char *name;			/* "" for DRAIN_OF_ALL */
	usec_t since, until;		/* monotonic; at most DRAIN_SECONDS_MOST apart */
	size_t left;			/* clients of the target; counted by room core */
	uint64_t ended;			/* clients that it has ended */
	bool is_logged, is_over;	/* the log has its begin; ... and that no client is left */
};

/* Begins a drain, which replaces a drain of the same target. NULL: no memory. */
struct drain *drain_begin(struct pools *pools, enum drain_of of, const char *name, usec_t since,
			  usec_t until);
/* Ends the drain of a target, or with DRAIN_OF_ALL every drain. `quietly`: without a log line.
   False: there is none. */
bool drain_stop(struct pools *pools, enum drain_of of, const char *name, bool quietly);
/* Whether a client of this database and user, which keeps a server at this host, belongs to the
   target. `user` and `at` may be NULL. DRAIN HOST moves the clients of a database with roles and
   several hosts: only clients that keep a server at the host belong to the target. */
bool drain_applies(const struct drain *drain, const struct database *database, const char *user,
		   const struct host *at);
/* Returns a drain of the client, in which it is the client's turn. The turn follows from the id of
   the connection, because ids are spread evenly over the time of the drain. With `now` INT64_MAX
   the turn of each client has come. NULL: none. */
struct drain *drain_due(const struct pools *pools, const struct database *database,
			const char *user, const struct host *at, uint64_t id, usec_t now);
/* Calls give() for each drain, oldest first. */
static inline void drains_each(const struct pools *pools,
			       void (*give)(void *context, const struct drain *drain),
			       void *context)
{
	LIST_EACH(node, &pools->drains)
		give(context, LIST_OBJECT(node, struct drain, node));
}
/* Writes the target for log and errors: database "shop". `size` is DRAIN_TEXT. Returns buf. */
const char *drain_text(const struct drain *drain, char *buf, size_t size);
#define DRAIN_TEXT (PRINTABLE_NAME + 16)
extern const char *const drain_of_words[];

#endif
