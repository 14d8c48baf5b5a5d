#ifndef CONN_WORLD_H
#define CONN_WORLD_H

#include "conn/busy_poll.h"
#include "conn/client.h"
#include "conn/flow.h"
#include "conn/listening.h"
#include "conn/randomness.h"
#include "conn/server.h"
#include "net/dns.h"
#include "net/listen.h"
#include "net/tls.h"
#include "verify/verifier.h"

/* Size of the loop's one read buffer, in bytes. */
#define READ_BUFFER (128 * 1024)

/*
 * Everything that a running pgweir has, in one place that is handed down (there are no globals): the pools, the
 * connections, the shared buffer, the names and keys. main makes it and turns it; admin reads it.
 */

/* The handlers of the console (admin) for console clients; set by main. */
struct console_ops {
	/* A whole message after login, of a client that is READY; body of `size` bytes. Answers at once with client_send; or the client
	   is not READY afterwards, is answered in later turns, and client_console_done follows. */
	void (*message)(void *context, struct client *client, uint8_t type, const uint8_t *body, size_t size);
	/* The turn comes to a client that is not READY, because of peer_come_again() or an event: a long answer goes on. */
	void (*go_on)(void *context, struct client *client);
	void (*closed)(void *context, struct client *client);		/* the client is ending: forget it */
	void (*welcome)(void *context, struct client *client);		/* login done: the parameters and ReadyForQuery are the console's to send */
	bool (*is_at_rest)(void *context, const struct client *client);	/* it has no state but its existence */
	bool (*adopt)(void *context, struct client *client);		/* takes a console client that was at rest in another process. False: no
									   memory */
	bool (*cancel)(void *context, struct client *client);		/* its command is to end. False: none waits, or it has to go on */
};

/*
 * Functions of higher rooms that the rooms of connections call. Set by world_new; a function here may end the connection that it is given.
 */
struct world_ops {
	const struct stream_ops *client_stream, *server_stream;	/* events of connections */
	/* A listening socket of this port has a new connection. False: it is not kept. */
	bool (*accepted)(struct world *world, int fd, const struct address *remote, bool is_unix, uint16_t port);
	void (*proven)(struct client *client);			/* the client is authenticated */
};

struct cancels;			/* cancel/cancel.h */
struct client_addresses;	/* auth/client_address.h */
struct derivations;		/* backend/derivation.h */
struct handshakes;		/* login/handshake.h */
struct lookups;			/* auth/lookup.h */
struct refusals;		/* auth/refusal.h */
struct secrets;			/* backend/secrets.h */
struct successor;		/* cancel/predecessors.h */
struct tick;			/* core/tick.c */
struct unknown;			/* auth/unknown.h */

struct world {
	/* the loop and its clock */
	struct event_base *base;
	const struct world_ops *ops;
	usec_t now;				/* monotonic, read once a turn */
	usec_t now_wall, wall_ahead;		/* the wall clock is `now` and this, which every tick sets */
	bool clock_is_old;
	bool has_traffic;			/* of clients that have logged in, or of servers: since the loop began to wait */
	struct busy_poll busy_poll;
	uint64_t queries;			/* answered since the start */
	struct tick *tick;			/* values that one tick compares with the previous tick */
	struct list again;			/* peers to be read again this turn without an event */
#ifdef PGWEIR_TEST_BUILD
	const struct peer *current;		/* the peer whose handler is on the stack; NULL: none */
#endif
	struct list listeners;			/* those of pools that have a server (state/notify_server.h) */
	uint64_t notified;			/* so many clients that may have sent notifications have left their servers: state/notify_server.c */
	bool notifiers_due, notifiers_wait;	/* servers begin to wait for these listeners; wait for them */
	struct list notify_due;			/* clients with notifications to be sent when the events are handled (state/notify_client.c) */
	uint32_t deliveries;			/* of notifications to clients, in this turn */
	bool notify_waits;			/* the last turn has left some of these clients */
	struct list ending;			/* peers that end: see reap.h */

	/* the read buffer, and how much of it one connection may use */
	uint8_t *buffer;			/* the loop's read buffer */
	bool is_shared;				/* the limits of a turn are shared among connections: one of the following is not 0 (relay/from_client.c)
						   */
	uint32_t streams, streams_before;	/* connections that had more than one read to pass on: this turn, the last one */
	uint32_t reads;				/* in this turn, reads after which more bytes were waiting */
	uint32_t looks, cut;			/* messages that were looked at one by one, and walks that were cut short, in this turn */
	uint32_t looks_each;			/* limit on such messages in the next walk */
	size_t piece;				/* the most that one read takes from a connection */

	/* shared by all connections */
	struct conf *conf;			/* the snapshot in force (held) */
	struct pools *pools;
	struct params_table *params;
	struct statements *statements;		/* prepared ones, shared */
	uint64_t meanings;			/* counts commands that may have changed what texts mean */
	struct list clients, servers;		/* every peer, in order of id */
	struct server *by_backend_pid;		/* uthash: servers that have logged in; see state/notify_server.c */
	uint64_t last_id;

	/* the network */
	struct listening listening;
	struct dns *dns;
	bool sessions_changed;			/* databases have it (backend/retire.h) */
	usec_t sessions_retired;		/* the last time that servers were retired for it */
	usec_t names_watched;			/* retire_watch did so then */
	struct tls_context *client_tls, *server_tls;	/* NULL: off */
	struct handshakes *handshakes;		/* TLS with clients */

	/* authentication */
	struct client_addresses *addresses;	/* addresses that clients come from */
	struct secrets *secrets;
	struct lookups *lookups;
	struct unknown *unknown;		/* the imitation of known users */
	struct verifiers *verifiers;		/* processes that ask PAM and LDAP */
	struct derivations *derivations;	/* keys of SCRAM that are being derived */
	struct refusals *refusals;		/* failed logins */
	struct randomness randomness;		/* for keys and tags */
	uint8_t seed[32];			/* for made-up secrets, and for digests that clients cannot predict */

	/* cancel requests, the console, other processes */
	struct cancels *cancels;
	const struct console_ops *console;
	void *console_context;
	struct successor *successor;		/* the new process in an online restart; NULL: none */
	int drain;				/* enum world_drain */
	usec_t drain_since;			/* the shutdown has begun */
};

/* The clients that a shutdown waits for, in ascending order of haste. */
enum world_drain { DRAIN_OFF, DRAIN_WAIT_CLIENTS, DRAIN_WAIT_SERVERS, DRAIN_NOW };

/* For the turn (main/turn.c), and for functions called in it. */
static inline void world_sleep(struct world *w) { w->clock_is_old = true; }	/* before the loop waits */
void world_read_clock(struct world *world);
/* Test builds: a handler sends only to its own connection, and to the other end of its link (client_send). NULL: no connection. */
static inline void world_set_current(struct world *w, const struct peer *peer)
{
#ifdef PGWEIR_TEST_BUILD
	w->current = peer;
#else
	(void)w, (void)peer;
#endif
}
/* Reads the clock, once a turn; every callback of the loop calls it. */
static inline void world_wake(struct world *w)
{
	world_set_current(w, NULL);
	if (w->clock_is_old)
		world_read_clock(w);
}
/* For a callback of the loop that is about a connection: reads the clock. False: the connection is ending, and the event is ignored. */
static inline bool peer_wake(struct peer *peer)
{
	world_wake(peer->world);
	world_set_current(peer->world, peer);
	return !peer_is_stopped(peer);
}
void world_set_wall_clock(struct world *world);		/* how far the wall clock is ahead of the other: once a tick */
static inline bool world_has_ending(const struct world *w) { return !list_is_empty(&w->ending); }
static inline bool world_has_marked_pools(const struct world *w) { return !list_is_empty(&w->pools->dirty); }
static inline void world_schedule(struct world *w) { pools_schedule(w->pools, w->now); }
/* The turn reads the peer although no event announces its input: this turn, or the next if world_again has begun. Nothing for a peer
   that is ending. */
static inline void peer_come_again(struct peer *peer)
{
	if (peer_is_stopped(peer) || peer->posted)
		return;
	list_remove(&peer->again);
	list_append(&peer->world->again, &peer->again);
}
/* Another connection, or a handler of another one, has something for this peer, which handles it in its own turn: before all other input
   of `again`, and in this turn unless `again` is over. Nothing for a peer that is ending. */
static inline void peer_post(struct peer *peer, enum peer_post what)
{
	peer_come_again(peer);
	peer->posted |= (uint8_t)what;
	if (list_is_empty(&peer->again))
		return;
	list_remove(&peer->again);
	list_prepend(&peer->world->again, &peer->again);
}
/* The event that the client waits for has come, or may have: the turn handles the messages that the client holds, and its socket is
   read again. */
static inline void client_resume(struct client *c)
{
	c->peer.held_first = bytes_size(&c->peer.held) > 0;
	flow_unblock(&c->peer, FLOW_ROOM | FLOW_ANSWERS | FLOW_HELD);
	peer_come_again(&c->peer);
}
static inline bool world_has_again(const struct world *w) { return !list_is_empty(&w->again) || !list_is_empty(&w->notify_due) || w->notifiers_due; }	/* do not block in the event loop */

#endif
