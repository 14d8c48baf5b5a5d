#ifndef CORE_LIFECYCLE_H
#define CORE_LIFECYCLE_H

#include "conn/listen_sockets.h"
#include "conn/world.h"

/*
 * The life of struct world, the steps of the turn that concern all connections, and console
 * commands on all connections.
 */

/* Returns NULL with problems if files cannot be read (TLS, auth_file). Takes a reference to conf;
   `shared` must live longer. */
struct world *world_new(struct event_base *base, struct shared *shared, struct conf *conf,
			struct conf_problems *problems);
/* Ends all connections. Sends the error `why` to every client, unless `is_silent`. */
void world_end_sessions(struct world *world, enum close_reason why, bool is_silent);
/* Ends the remaining connections and frees everything. Sets *world to NULL; *world may be NULL. */
void world_free(struct world **world);
/* Applies a new snapshot. First prepares everything that may fail (TLS contexts, user list). False
   with problems: nothing changed. */
bool world_reconfigure(struct world *world, struct conf *conf, struct conf_problems *problems);
/* Writes world->queries.durations. */
void world_set_durations(struct world *world);

/* Functions that lower rooms call: events of connections (dispatch.c), and decisions of the pool
   (policy.c). */
extern const struct world_ops dispatch_ops;
extern const struct pool_ops policy_ops;

/* Steps of the turn; main/turn.c calls them. */

/* Reads the connections of world->peers.again (dispatch.c). */
void world_again(struct world *world);
/* Compares timeouts with the clock, about ten times a second (tick.c). */
void world_tick(struct world *world);
/* Ends and frees each connection on world->peers.ending (reap.c). Must be called without an event
   handler on the stack. */
void world_reap_ending(struct world *world);
static inline void world_reap(struct world *w)
{
	if (!list_is_empty(&w->peers.ending))
		world_reap_ending(w);
}
/* Asserts the invariants of every connection; called in each turn of test builds. */
void world_check(const struct world *world);

/* Console commands. */

/* KILL_CLIENT: ends the client with this id, and its server connection if one is linked. False:
   there is no such client. */
bool world_kill_client(struct world *world, uint64_t id);
/* SUSPEND and RESUME: no connection is read while `on`. */
void world_suspend(struct world *world, bool on);
/* Returns the number of connections with bytes to be passed on. `drop`: closes them, for
   suspend_timeout, and returns 0. */
size_t world_unflushed(struct world *world, bool drop);
/* DRAIN: ends the clients that are due and between two transactions, counts the others, and logs
   begin and end. Also called by world_tick(). */
void world_drain_clients(struct world *world);
/* Ends this client if a DRAIN or a shutdown waits for it and its transaction has ended: called when
   a transaction ends, or may have. Returns whether the client has ended. */
bool client_leave(struct client *client);
/* SHUTDOWN: closes the TCP listening sockets, at once or (WAIT_CLIENTS) after a moment. A shutdown
   in progress is never replaced by a gentler one. */
void world_drain(struct world *world, enum world_drain how);
/* Returns the number of clients or servers that a shutdown waits for. */
size_t world_drain_left(const struct world *world);
/* Whether the process has no more to do: a shutdown waits for no more clients or servers, or
   another process has replaced this one, and all clients that could not be handed over have
   left. */
bool world_is_over(const struct world *world);

#endif
