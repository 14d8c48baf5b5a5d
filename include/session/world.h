#ifndef SESSION_WORLD_H
#define SESSION_WORLD_H

#include "conf/userlist.h"
#include "net/dns.h"
#include "net/listen.h"
#include "net/tls.h"
#include "pg/mock.h"
#include "session/client.h"
#include "session/handshake.h"
#include "session/lookup_turns.h"
#include "session/origin.h"
#include "session/server.h"
#include "verify/verifier.h"

#include <string.h>

/*
 * Everything that a running pgweir has, in one place that is handed down (there are no globals): the pools, the
 * connections, the shared buffer, the names and keys. main makes it and turns it; admin reads it.
 */

/* What the console (admin) does with a message of a console client; set by main. */
struct console_ops {
	/* A whole message after login; body of `size` bytes. May answer at once with client_send, or
	   set client->console_busy and answer in a later turn, then call client_console_done. */
	void (*message)(void *context, struct client *client, uint8_t type, const uint8_t *body, size_t size);
	void (*closed)(void *context, struct client *client);		/* the client is ending: forget it */
	void (*welcome)(void *context, struct client *client);		/* login done: the parameters and ReadyForQuery are the console's to send */
	bool (*is_at_rest)(void *context, const struct client *client);	/* nothing is known of it but that it is there */
	bool (*adopt)(void *context, struct client *client);		/* one that was at rest in another process. False: no memory */
	bool (*cancel)(void *context, struct client *client);		/* its command is to end. False: none waits, or it has to go on */
};

struct elders;
struct failures;
struct peer_line;
struct lookup;
struct successor;
struct server_keys;			/* SCRAM keys that logins revealed or derivations gave; see session/keys.h */

struct world {
	struct event_base *base;
	struct pools *pools;
	struct conf *conf;			/* the snapshot in force (held) */
	struct params_table *params;
	struct statements *statements;		/* prepared ones, shared */
	struct userlist *userlist;		/* NULL: no auth_file */
	usec_t userlist_checked;
	struct secret_kinds listed;		/* in the user list: what questions for unknown users look like */
	struct dns *dns;
	int crowd;				/* the most clients that there were since memory was given back */
	bool crowd_leaves;			/* it was given back for the first part of a crowd, and the rest is still there */
	usec_t names_watched;			/* retire_watch did so then */
	bool was_suspended;			/* in the last tick */
	struct tls_context *client_tls, *server_tls;	/* NULL: off */
	struct listener **listeners;
	int listener_count;
	bool inherited;				/* the TCP sockets are systemd's, and no others are opened */
	struct listener_offer *offers;		/* from the process whose place this one takes; NULL: none */
	int offer_count;
	const struct console_ops *console;
	void *console_context;
	struct database *console_database;
	struct list clients, servers;		/* every peer, in order of id */
	struct list again;			/* peers to be read again this turn without an event */
	struct list ending;			/* peers that end: see reap.h */
	struct client *by_cancel_pid;		/* uthash */
	struct server_keys *keys;		/* of the users in the user list */
	struct server_keys *found_keys;		/* of those that auth_query has found */
	struct lookup *lookups;			/* uthash: users that are being looked up now */
	uint64_t lookup_answers;		/* so many have been answered: a greater number is a later one of the same user */
	struct list dead_lookups;		/* freed by the next tick */
	struct lookup_turns lookup_turns;
	struct unknown *unknown;		/* what unknown users look like (unknown.h) */
	struct verifiers *verifiers;		/* who ask PAM and LDAP */
	struct verifiers *derivers;		/* who derive keys */
	struct derivation *derivations;		/* uthash: see derivation.c */
	struct derivation_budget *derivation_budgets;	/* the same */
	struct handshakes handshakes;		/* TLS with clients */
	struct origins origins;			/* addresses that clients come from */
	struct peer_line *peer_lines;		/* uthash: cancel requests that go on to other poolers; see peers.c */
	struct failures *failures;		/* failed logins; NULL: there was none */
	struct list refusals;			/* logins whose refusal waits, longest waiting first */
	int refusal_count;
	uint8_t *buffer;			/* the loop's read buffer */
	uint32_t streams, streams_before;	/* connections that had more than one read to pass on: this turn, the last one */
	size_t piece;				/* the most that one read takes from a connection */
	uint64_t last_id;
	uint8_t seed[32];			/* for the salts of unknown users */
	uint8_t random[1024];			/* the first random_left bytes are for world_draw */
	size_t random_left;
	bool clock_is_old;
	usec_t now;				/* monotonic, read once a turn */
	usec_t now_wall, wall_ahead;		/* the wall clock is `now` and this, which every tick sets */
	int drain;				/* enum world_drain */
	usec_t drain_since, leave_until;	/* the shutdown has begun; the listening sockets close then (0: closed, or no shutdown) */
	struct elders *elders;			/* processes before this one that still have clients; NULL: none */
	struct successor *successor;		/* the process that has taken this one's place; NULL: none */
};

/* What a shutdown waits for, the gentlest first. */
enum world_drain { DRAIN_OFF, DRAIN_WAIT_CLIENTS, DRAIN_WAIT_SERVERS, DRAIN_NOW };

/* NULL with problems: files that cannot be read (TLS, auth_file). Takes a reference to conf. */
struct world *world_new(struct event_base *base, struct conf *conf, struct conf_problems *problems);
/* Opens the listening sockets that the configuration names; fds are sockets handed over by systemd (then no
   other TCP sockets are opened). False with problems. */
bool world_listen(struct world *world, const int *fds, int fd_count, struct conf_problems *problems);
/* What is accepted from now on has the socket options of the configuration in force (tcp_...). */
void world_set_listen_options(struct world *world);
void world_stop_listening(struct world *world, bool unix_too);
/* A shutdown that waits for clients: whoever has connected is let in, and other processes on the same port get the others. TCP
   sockets close now or, by world_tick, at leave_until. */
void world_leave(struct world *world);
/* Sockets from the process whose place this one takes. Offered before world_listen, which takes them where they are what the
   configuration names (all of them, when they came from systemd); settled once that process has let them go: those that nobody
   wanted are closed. */
bool world_offer_listener(struct world *world, int fd, bool owns_file, struct conf_problems *problems);
void world_settle_listeners(struct world *world);
/* All sockets: newcomers wait in the kernel (false), or come in. */
void world_set_accepting(struct world *world, bool on);
/* Another process has them: closed here. `remove_files`: of Unix sockets that this process has made. */
void world_let_listeners_go(struct world *world, bool remove_files);
/* Every connection ends. Every client is told `why`, unless `is_silent`. */
void world_end_sessions(struct world *world, enum goodbye why, bool is_silent);
/* Ends what is left and frees everything. Sets *world to NULL; NULL inside is fine. */
void world_free(struct world **world);
/* A new snapshot comes into force: all that may fail is prepared first (TLS contexts, user list); false with problems: nothing changed. */
bool world_reconfigure(struct world *world, struct conf *conf, struct conf_problems *problems);

/* The parts of a turn, in this order; main/turn.c is the page that calls them. */
static inline void world_sleep(struct world *w) { w->clock_is_old = true; }	/* before the loop waits */
void world_read_clock(struct world *world);
static inline void world_wake(struct world *w)		/* reads the clock, once a turn; every callback of the loop calls it */
{
	if (w->clock_is_old)
		world_read_clock(w);
}
void world_set_wall_clock(struct world *world);		/* how far the wall clock is ahead of the other: once a tick */
void world_again(struct world *world);			/* peers whose input is buffered already */
static inline bool world_has_ending(const struct world *w) { return !list_is_empty(&w->ending); }
static inline bool world_has_marked_pools(const struct world *w) { return !list_is_empty(&w->pools->dirty); }
static inline void world_schedule(struct world *w) { pools_schedule(w->pools, w->now); }
void world_tick(struct world *world);			/* timeouts: about ten times a second */
void world_check(const struct world *world);		/* every invariant; test builds, each turn */
/* Puts a peer on the list of world_again: in this turn, or the next when that has begun. */
static inline void peer_come_again(struct peer *peer)
{
	list_remove(&peer->again);
	list_append(&peer->world->again, &peer->again);
}
/* What stood in the way of reading is gone. SUSPEND may still: then RESUME turns it on. */
static inline void peer_read_on(struct peer *peer)
{
	if (!peer->world->pools->suspended)
		stream_set_reading(&peer->stream, true);
}
static inline bool world_has_again(const struct world *w) { return !list_is_empty(&w->again); }	/* do not block in the event loop */

/* Writes `size` bytes of randomness, at most some dozens, to `to`. False: there is none. */
bool world_draw_more(struct world *world);
static inline bool world_draw(struct world *w, void *to, size_t size)
{
	if (w->random_left < size && !world_draw_more(w))
		return false;
	w->random_left -= size;
	memcpy(to, w->random + w->random_left, size);
	mem_wipe(w->random + w->random_left, size);
	return true;
}
/* Reads auth_file again when it has changed; looks at most once a second. */
void world_refresh_userlist(struct world *world);

/* How many logins may wait for each of look-ups, verifiers and derivations: max_auth_queue, or what follows from max_client_conn. */
int world_auth_queue_most(const struct settings *settings);

/* For the console. */
void client_console_done(struct client *client);	/* reads on after console_busy */
void world_kill_client(struct world *world, struct client *client);
struct client *world_client_by_id(struct world *world, uint64_t id);	/* not cancel requests; NULL: none */
/* SUSPEND: no peer is read; true once every buffer is flushed. */
void world_suspend(struct world *world, bool on);
bool world_is_flushed(const struct world *world);
void world_drop_unflushed(struct world *world);		/* suspend_timeout */
/* SHUTDOWN: no TCP socket is listened on any more, at once or (WAIT_CLIENTS) in a moment. Where one is under way already, a gentler
   one changes nothing. */
void world_drain(struct world *world, enum world_drain how);
/* It has connected before the shutdown closed the door on it: where clients are waited for it may log in. */
bool client_is_in_time(const struct client *client);
/* How many clients or servers a shutdown still waits for. */
size_t world_drain_left(const struct world *world);
/* The shutdown has nothing to wait for any more. */
bool world_has_drained(const struct world *world);
static inline bool world_is_drained(const struct world *w) { return w->drain != DRAIN_OFF && world_has_drained(w); }
/* Another process has taken this one's place, and all clients that it could not take have left. */
bool world_is_deserted(const struct world *world);
/* Cached figures. */
const char *pool_login_error(const struct pool *pool);	/* NULL: none */
size_t world_client_struct_size(void);
size_t world_server_struct_size(void);

/* What the console may ask of main. */
struct control {
	bool (*reload)(void *context, struct conf_problems *problems);
	bool (*set)(void *context, const char *name, const char *value, struct conf_problems *problems);
	void (*shutdown)(void *context, enum world_drain how);
	void *context;
	const char *version;			/* "PgBouncer 1.25.2 (pgweir 0.1.0)" */
};

#endif
