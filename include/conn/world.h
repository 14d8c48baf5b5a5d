#ifndef CONN_WORLD_H
#define CONN_WORLD_H

#include "conf/userlist.h"
#include "conn/busy_poll.h"
#include "conn/client.h"
#include "conn/server.h"
#include "net/dns.h"
#include "net/listen.h"
#include "net/tls.h"
#include "pg/mock.h"
#include "verify/verifier.h"

#include <string.h>

/* Size of the loop's one read buffer, in bytes. */
#define READ_BUFFER (128 * 1024)

/*
 * Everything that a running pgweir has, in one place that is handed down (there are no globals): the pools, the
 * connections, the shared buffer, the names and keys. main makes it and turns it; admin reads it.
 */

/* What the console (admin) does with a message of a console client; set by main. */
struct console_ops {
	/* A whole message after login, of a client that is READY; body of `size` bytes. Answers at once with client_send; or the client
	   is not READY afterwards, is answered in later turns, and client_console_done follows. */
	void (*message)(void *context, struct client *client, uint8_t type, const uint8_t *body, size_t size);
	/* The turn comes to a client that is not READY, because of peer_come_again() or an event: a long answer goes on. */
	void (*go_on)(void *context, struct client *client);
	void (*closed)(void *context, struct client *client);		/* the client is ending: forget it */
	void (*welcome)(void *context, struct client *client);		/* login done: the parameters and ReadyForQuery are the console's to send */
	bool (*is_at_rest)(void *context, const struct client *client);	/* nothing is known of it but that it is there */
	bool (*adopt)(void *context, struct client *client);		/* one that was at rest in another process. False: no memory */
	bool (*cancel)(void *context, struct client *client);		/* its command is to end. False: none waits, or it has to go on */
};

/*
 * What the rooms of connections ask of rooms above them. Set by world_new; a function here may end the connection that it is given.
 */
struct world_ops {
	const struct stream_ops *client_stream, *server_stream;	/* events of connections */
	/* A listening socket of this port has a new connection. False: it is not kept. */
	bool (*accepted)(struct world *world, int fd, const struct address *remote, bool is_unix, uint16_t port);
	void (*proven)(struct client *client);			/* the client is authenticated */
	void (*opened_dedicated)(struct server *server);		/* a server that is for one client only (replication) has logged in */
};

struct predecessors;
struct failures;
struct handshakes;
struct lookup_turns;
struct client_addresses;
struct peer_line;
struct lookup;
struct successor;
struct server_keys;			/* SCRAM keys that logins revealed or derivations gave; see backend/keys.h */

struct world {
	struct event_base *base;
	const struct world_ops *ops;
	struct pools *pools;
	struct conf *conf;			/* the snapshot in force (held) */
	struct params_table *params;
	struct statements *statements;		/* prepared ones, shared */
	struct userlist *userlist;		/* NULL: no auth_file */
	usec_t userlist_checked;
	struct secret_kinds listed;		/* in the user list: what questions for unknown users look like */
	struct dns *dns;
	int peak_clients;				/* the most clients that there were since memory was given back */
	bool peak_leaves;			/* it was given back for the first part of a crowd, and the rest is still there */
	usec_t names_watched;			/* retire_watch did so then */
	bool was_suspended;			/* in the last tick */
	struct tls_context *client_tls, *server_tls;	/* NULL: off */
	struct listener **listeners;
	int listener_count;
	bool inherited;				/* the TCP sockets are systemd's, and no others are opened */
	struct listener_offer *offers;		/* from the process that this one replaces; NULL: none */
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
	struct lookup_turns *lookup_turns;
	struct unknown *unknown;		/* what unknown users look like (unknown.h) */
	struct verifiers *verifiers;		/* processes that ask PAM and LDAP */
	struct verifiers *derivers;		/* processes that derive keys */
	struct derivation *derivations;		/* uthash: see derivation.c */
	struct derivation_budget *derivation_budgets;	/* the same */
	struct handshakes *handshakes;		/* TLS with clients */
	struct client_addresses *addresses;		/* addresses that clients come from */
	struct peer_line *peer_lines;		/* uthash: cancel requests that go on to other poolers; see peers.c */
	struct failures *failures;		/* failed logins; NULL: there was none */
	struct list refusals;			/* logins with a waiting refusal, longest waiting first */
	int refusal_count;
	uint8_t *buffer;			/* the loop's read buffer */
	uint32_t streams, streams_before;	/* connections that had more than one read to pass on: this turn, the last one */
	size_t piece;				/* the most that one read takes from a connection */
	uint64_t last_id;
	uint8_t seed[32];			/* for the salts of unknown users */
	uint8_t random[1024];			/* the first random_left bytes are for world_draw */
	size_t random_left;
	struct busy_poll busy_poll;
	uint64_t queries;			/* answered since the start */
	bool clock_is_old;
	usec_t now;				/* monotonic, read once a turn */
	usec_t now_wall, wall_ahead;		/* the wall clock is `now` and this, which every tick sets */
	int drain;				/* enum world_drain */
	usec_t drain_since, leave_until;	/* the shutdown has begun; the listening sockets close then (0: closed, or no shutdown) */
	struct predecessors *predecessors;			/* processes before this one that still have clients; NULL: none */
	struct successor *successor;		/* the process that has taken this one's place; NULL: none */
};

/* What a shutdown waits for, the gentlest first. */
enum world_drain { DRAIN_OFF, DRAIN_WAIT_CLIENTS, DRAIN_WAIT_SERVERS, DRAIN_NOW };

/* For the turn (main/turn.c), and for what is called in it. */
static inline void world_sleep(struct world *w) { w->clock_is_old = true; }	/* before the loop waits */
void world_read_clock(struct world *world);
static inline void world_wake(struct world *w)		/* reads the clock, once a turn; every callback of the loop calls it */
{
	if (w->clock_is_old)
		world_read_clock(w);
}
void world_set_wall_clock(struct world *world);		/* how far the wall clock is ahead of the other: once a tick */
static inline bool world_has_ending(const struct world *w) { return !list_is_empty(&w->ending); }
static inline bool world_has_marked_pools(const struct world *w) { return !list_is_empty(&w->pools->dirty); }
static inline void world_schedule(struct world *w) { pools_schedule(w->pools, w->now); }
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
/* What the client waits for has come, or may have: it is read again, and what it holds is looked at. */
static inline void client_goes_on(struct client *c)
{
	c->peer.waits_for_room = false;
	peer_read_on(&c->peer);
	peer_come_again(&c->peer);
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

#endif
