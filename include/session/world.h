#ifndef SESSION_WORLD_H
#define SESSION_WORLD_H

#include "conn/listening.h"
#include "conn/world.h"

/* The life of struct world, the parts of the turn that are about all connections, and what the console does to them. */

/* NULL with problems: files that cannot be read (TLS, auth_file). Takes a reference to conf. */
struct world *world_new(struct event_base *base, struct conf *conf, struct conf_problems *problems);
/* Every connection ends. Every client is told `why`, unless `is_silent`. */
void world_end_sessions(struct world *world, enum close_reason why, bool is_silent);
/* Ends what is left and frees everything. Sets *world to NULL; NULL inside is fine. */
void world_free(struct world **world);
/* A new snapshot comes into force: all that may fail is prepared first (TLS contexts, user list); false with problems: nothing changed. */
bool world_reconfigure(struct world *world, struct conf *conf, struct conf_problems *problems);

/* Parts of the turn; main/turn.c is the page that calls them. */
void world_again(struct world *world);			/* peers with input that is buffered already */
void world_tick(struct world *world);			/* timeouts: about ten times a second */
struct tick *tick_new(void);				/* what a tick remembers; NULL: no memory. For mem_free */
void world_check(const struct world *world);		/* every invariant; test builds, each turn */

/* For the console. */
void client_console_done(struct client *client);	/* it is READY again: reads on */
void world_kill_client(struct world *world, struct client *client);
struct client *world_client_by_id(struct world *world, uint64_t id);	/* not cancel requests; NULL: none */
/* SUSPEND: no peer is read; true once every buffer is flushed. */
void world_suspend(struct world *world, bool on);
bool world_is_flushed(const struct world *world);
void world_drop_unflushed(struct world *world);		/* suspend_timeout */
/* SHUTDOWN: no TCP socket is listened on any more, at once or (WAIT_CLIENTS) in a moment. Where one is under way already, a gentler
   one changes nothing. */
void world_drain(struct world *world, enum world_drain how);
/* How many clients or servers a shutdown still waits for. */
size_t world_drain_left(const struct world *world);
/* The shutdown has nothing to wait for any more. */
bool world_has_drained(const struct world *world);
static inline bool world_is_drained(const struct world *w) { return w->drain != DRAIN_OFF && world_has_drained(w); }
/* Another process has taken this one's place, and all clients that it could not take have left. */
bool world_is_deserted(const struct world *world);
size_t world_client_struct_size(void);
size_t world_server_struct_size(void);

#endif
