#ifndef CORE_WORLD_H
#define CORE_WORLD_H

#include "conn/listening.h"
#include "conn/world.h"

/* The life of struct world, the parts of the turn that concern all connections, and console commands on them. */

/* Returns NULL with problems if files cannot be read (TLS, auth_file). Takes a reference to conf. */
struct world *world_new(struct event_base *base, struct conf *conf, struct conf_problems *problems);
/* Ends all connections. Sends the error `why` to every client, unless `is_silent`. */
void world_end_sessions(struct world *world, enum close_reason why, bool is_silent);
/* Ends the remaining connections and frees everything. Sets *world to NULL; *world may be NULL. */
void world_free(struct world **world);
/* Applies a new snapshot. First prepares everything that may fail (TLS contexts, user list). False with problems: nothing changed. */
bool world_reconfigure(struct world *world, struct conf *conf, struct conf_problems *problems);

/* Parts of the turn, called by main/turn.c. */
void world_again(struct world *world);			/* peers with buffered input */
void world_tick(struct world *world);			/* timeouts: about ten times a second */
struct tick *tick_new(void);				/* state between two ticks; NULL: no memory. Free with mem_free */
void world_check(const struct world *world);		/* checks all invariants; called in each turn of test builds */

/* For the console. */
void client_console_done(struct client *client);	/* the client is READY again: continue to read */
void world_kill_client(struct world *world, struct client *client);
struct client *world_client_by_id(struct world *world, uint64_t id);	/* without cancel requests; NULL: not found */
/* SUSPEND: stops reading from all peers; world_is_flushed returns true when every buffer is empty. */
void world_suspend(struct world *world, bool on);
bool world_is_flushed(const struct world *world);
void world_drop_unflushed(struct world *world);		/* closes connections with unsent bytes, for suspend_timeout */
/* SHUTDOWN: closes the TCP listening sockets, at once or (WAIT_CLIENTS) after a moment. A shutdown in progress is never
   replaced by a gentler one. */
void world_drain(struct world *world, enum world_drain how);
/* Returns how many clients or servers a shutdown waits for. */
size_t world_drain_left(const struct world *world);
/* Whether the shutdown waits for no more clients or servers. */
bool world_has_drained(const struct world *world);
static inline bool world_is_drained(const struct world *w) { return w->drain != DRAIN_OFF && world_has_drained(w); }
/* Whether another process has replaced this one, and all clients that could not be handed over have left. */
bool world_is_deserted(const struct world *world);
size_t world_client_struct_size(void);
size_t world_server_struct_size(void);

#endif
