#ifndef CONN_WORLD_H
#define CONN_WORLD_H

#include "conn/busy_poll.h"
#include "conn/client.h"
#include "conn/listen_sockets.h"
#include "conn/peer.h"
#include "conn/randomness.h"
#include "conn/server.h"
#include "net/dns.h"
#include "net/listen.h"
#include "net/tls.h"
#include "verify/verifier.h"

/* Size of the read buffer, in bytes. */
#define READ_BUFFER (128 * 1024)
/* Maximum number of looks in a turn; with more connections each has a share of at least
   LEAST_LOOKS. A look is the examination of one message, or of one word of an SQL text. Without the
   limit, a client with thousands of tiny messages in one read would delay all others. */
#define LOOKS_OF_TURN 4096
#define LEAST_LOOKS 32

/*
 * struct world contains the state of a running pgweir, and is passed down. Only the log, the key of
 * hashes, the counts of SHOW REASONS, TLS, the memory of the event loop and the verifier processes
 * have variables of their own. core/lifecycle.c creates the world.
 */

/* Functions of room admin for console clients; set by main. */
struct console_ops {
	/* Handles a complete message, with a body of `size` bytes, of a logged-in client in state
	   READY. Either answers with client_send() or, for a long answer such as SHOW CLIENTS with
	   10,000 rows, leaves the state READY, answers in later turns, and puts the client on
	   world->peers.again. */
	void (*message)(void *context, struct client *client, uint8_t type, const uint8_t *body,
			size_t size);
	/* Continues the long answer to a client, after peer_come_again() or an event. */
	void (*go_on)(void *context, struct client *client);
	/* The client is ending. */
	void (*closed)(void *context, struct client *client);
	/* The login is over: sends the parameters and ReadyForQuery. */
	void (*welcome)(void *context, struct client *client);
	/* Returns whether the console has no data of the client, so that the client can be handed
	   over to another process. */
	bool (*is_at_rest)(void *context, const struct client *client);
	/* After an online restart: adds a client of the console. False: no memory. */
	bool (*adopt)(void *context, struct client *client);
	/* Ends the command of the client. False: the client has no command that can be ended. */
	bool (*cancel)(void *context, struct client *client);
};

/* Functions of higher rooms that the rooms of connections call. Set by world_new(). Each may end
   the connection that it is called for. */
struct world_ops {
	/* events of connections */
	const struct stream_ops *client_stream, *server_stream;
	/* A listening socket with this port has a new connection. False: refused, and the
	   descriptor is or will be closed. */
	bool (*accepted)(struct world *world, int fd, const struct address *remote, bool is_unix,
			 uint16_t port);
	/* The client is authenticated. */
	void (*proven)(struct client *client);
};

struct alarms;			/* core/alarm.h */
struct cancels;			/* cancel/cancel.h */
struct client_addresses;	/* auth/client_address.h */
struct derivations;		/* backend/derivation.h */
struct handshakes;		/* login/handshake.h */
struct query_stats;		/* relay/query_stats.h */
struct lookups;			/* auth/lookup.h */
struct secrets;			/* backend/keys.h */
struct successor;		/* cancel/predecessors.h */
struct unknown;			/* auth/unknown.h */
struct watchers;		/* watch/watcher.h */

/* The clients that a shutdown waits for, in ascending order of urgency. */
enum world_drain { DRAIN_OFF, DRAIN_WAIT_CLIENTS, DRAIN_WAIT_SERVERS, DRAIN_NOW };

/* The TLS contexts of a configuration (core/tls_setup.h); each is held. */
struct tls_contexts {
	struct tls_context *clients, *servers;	/* NULL: TLS is off */
	/* of a database with values of its own: see conf_server_tls() */
	struct database_tls {
		char *name;			/* of the entry; "*" for the fallback */
		struct tls_context *context;	/* NULL: TLS is off */
	} *own;
	size_t own_count;
};

/* The event loop, beside its base and its clock. */
struct world_loop {
	struct busy_poll busy_poll;
	uint64_t turns;			/* the number of this turn, from 1 */
	/* the loop waits for events; the next callback reads the clock */
	bool clock_is_old;
	/* world_again() reads connections that no event announces */
	bool reads_again;
	/* bytes were relayed since the loop began to wait */
	bool has_traffic;
};

/* All connections; a peer in `ending` has left the lists of its kind. */
struct world_peers {
	struct list clients, servers;	/* in ascending order of id */
	/* uthash: servers after their login; written by server_enlist() and core/reap.c */
	struct server *by_backend_pid;
	uint64_t last_id;		/* the highest id of a peer */
	/* peers with input that no event announces: see peer_come_again() */
	struct list again;
	/* peers that are ending, for core/reap.c; written by peer_end() */
	struct list ending;
};

/* The share of each connection in a turn; written by relay/budget.c, and world_looked(). */
struct world_share {
	/* limits apply: one of the following counts is not 0 */
	bool is_limited;
	/* connections with more than one read, in this turn and in the last turn */
	uint32_t streams, streams_before;
	/* reads after which more bytes were waiting, in this turn */
	uint32_t reads;
	/* messages that were examined one by one, and words of texts that were read, in this
	   turn */
	uint32_t looks;
	/* walks over messages that were stopped at the limit, in this turn */
	uint32_t cut;
	uint32_t looks_each;		/* limit of looks for a connection */
	/* words of texts that the client whose input is handled may still read in this turn */
	int64_t words_left;
	size_t piece;			/* limit of bytes for one read of a connection */
};

/* Notifications: room state, see state/notify.c. */
struct world_notify {
	struct list listeners;		/* notification servers of pools */
	/* number of clients that left their servers after possible notifications
	   (notifiers.c) */
	uint64_t releases;
	/* servers begin to wait until listeners have their notifications */
	bool is_wait_due;
	bool servers_wait;		/* servers wait for this */
	/* clients with notifications to send after the events */
	struct list due;
	/* notifications delivered to clients in this turn */
	uint32_t deliveries;
	/* clients of `due` were left over from the last turn */
	bool clients_wait;
};

/* Why servers are replaced before their lifetime ends (backend/retire.c). */
struct world_retire {
	/* ALTER DATABASE or ROLE has changed the initial state of sessions */
	bool sessions_changed;
	/* monotonic: when servers were last replaced for this reason */
	usec_t sessions_retired;
	/* monotonic: last dns_watch() of the host names in use */
	usec_t names_watched;
};

/* Parts of the rooms that a login goes through; each is a pointer to that room's own data. */
struct world_logins {
	struct handshakes *handshakes;		/* TLS handshakes that wait for their turn */
	struct client_addresses *addresses;	/* counts by address of the client */
	struct secrets *secrets;		/* user list, SCRAM keys */
	struct lookups *lookups;		/* queries of auth_query */
	struct unknown *unknown;		/* secrets for users that do not exist */
	struct verifiers *verifiers;		/* processes for PAM and LDAP */
	struct derivations *derivations;	/* SCRAM keys that are being derived */
};

/* Counts and texts of queries (relay/duration.c, relay/query_stats.c). */
struct world_queries {
	uint64_t count;			/* number of answered queries since the start */
	struct query_stats *stats;	/* NULL: query_stats is off */
	struct durations_logged {	/* written by world_set_durations() */
		/* such durations are passed to duration_log(); INT64_MAX: none */
		usec_t query, transaction;
		/* texts of queries are noted: duration_note_text() */
		bool texts;
	} durations;
};

struct world {
	/* The event loop and its clock. */
	struct event_base *base;
	const struct world_ops *ops;
	/* monotonic clock; read once a turn by world_wake() */
	usec_t now;
	usec_t now_wall;			/* wall clock: now + wall_ahead */
	/* difference of the clocks; written by world_tick() */
	usec_t wall_ahead;
	struct world_loop loop;
	struct last_tick {			/* core/tick.c */
		/* maximum number of clients since freed memory was returned to the system */
		int peak_clients;
		/* memory of some of these clients was returned; the others are still connected */
		bool peak_leaves;
		bool was_suspended, had_drains;
	} last_tick;
#ifdef PGWEIR_TEST_BUILD
	const struct peer *current;		/* a handler of this peer is running; NULL: none */
#endif

	/* Shared by all connections. */
	uint8_t *buffer;			/* the read buffer: READ_BUFFER bytes */
	struct world_peers peers;
	struct world_share share;
	struct world_queries queries;
	struct conf *conf;			/* the configuration in force; a reference */
	struct last_reload {			/* the last RELOAD; written by main */
		usec_t at;				/* wall clock; 0: none yet */
		bool has_failed;
		char why[256];				/* its first error; "": none */
	} reload;
	/* what this world has in common with the other worlds of the process; not owned */
	struct shared *shared;
	struct alarms *alarms;
	struct pools *pools;
	struct params_table *params;		/* tracked parameters and their sets of values */
	struct statements *statements;		/* texts of prepared statements */
	/* number of commands that may have changed the meaning of SQL texts */
	uint64_t meanings;
	struct world_notify notify;

	/* The network and the hosts. */
	struct listen_sockets listen_sockets;
	struct dns *dns;
	struct tls_contexts tls;
	struct watchers *watchers;		/* connections that ask hosts for their roles */
	struct world_retire retire;

	/* Authentication. */
	struct world_logins logins;
	struct randomness randomness;		/* for cancel keys and names of statements */
	/* random; for secrets of users that do not exist, and for digests that clients cannot
	   predict */
	uint8_t seed[32];

	/* Cancel requests, the console, online restart, shutdown. */
	struct cancels *cancels;
	struct {
		const struct console_ops *ops;
		void *context;			/* argument of ops */
	} console;
	struct successor *successor;		/* the process that replaces this one; NULL: none */
	struct {
		int step;			/* enum world_drain; written by world_drain() */
		usec_t since;			/* monotonic: when the shutdown began */
	} drain;
};

/* Test builds: a handler of this connection runs. client_send() asserts that a handler sends only
   to its own client. NULL: none. */
static inline void world_set_current(struct world *w, const struct peer *peer)
{
#ifdef PGWEIR_TEST_BUILD
	w->current = peer;
#else
	(void)w, (void)peer;
#endif
}
/* Each callback of the event loop calls this first. Reads the clock, once a turn. */
static inline void world_wake(struct world *w)
{
	world_set_current(w, NULL);
	if (w->loop.clock_is_old) {
		w->loop.clock_is_old = false;
		w->now = clock_monotonic();
		w->now_wall = w->now + w->wall_ahead;
	}
}
/* world_wake() for an event of a connection. False: the connection is stopped, and the event must
   be ignored. */
static inline bool peer_wake(struct peer *peer)
{
	world_wake(peer->world);
	world_set_current(peer->world, peer);
	return !peer_is_stopped(peer);
}
/* Lets the turn read the peer without an event: in this turn, or in the next turn if world_again()
   has begun. Does nothing for a stopped peer. */
static inline void peer_come_again(struct peer *peer)
{
	if (peer_is_stopped(peer) || peer->posted)
		return;
	list_remove(&peer->again);
	list_append(&peer->world->peers.again, &peer->again);
}
/* Sends a request to a peer from the handler of another connection. The peer handles the request in
   its own turn, before all other peers of world->peers.again. Does nothing for a stopped peer. */
static inline void peer_post(struct peer *peer, enum peer_post what)
{
	peer_come_again(peer);
	peer->posted |= (uint8_t)what;
	if (list_is_empty(&peer->again))
		return;
	list_remove(&peer->again);
	list_prepend(&peer->world->peers.again, &peer->again);
}
/* The event that the client waits for has occurred, or may have: the turn handles the held messages
   of the client, and its socket is read again. */
static inline void client_resume(struct client *c)
{
	peer_hold_first(&c->peer);
	flow_unblock(&c->peer, FLOW_ROOM | FLOW_ANSWERS | FLOW_HELD);
	peer_come_again(&c->peer);
}
/* Whether the client may log in during a shutdown that waits for clients: it connected before the
   shutdown, or over TCP: TCP sockets do not listen any more. */
static inline bool client_is_in_time(const struct client *c)
{
	return c->peer.remote.family != AF_UNIX ||
	       c->login_facts.since <= c->peer.world->drain.since;
}
/* Whether the next turn has work without an event: the loop must not sleep. */
static inline bool world_has_again(const struct world *w)
{
	return !list_is_empty(&w->peers.again) || !list_is_empty(&w->notify.due) ||
	       w->notify.is_wait_due;
}

/* Counts looks in this turn. Small numbers make no turn a shared one. */
static inline void world_looked(struct world *w, uint32_t count)
{
	w->share.looks += count;
	if (w->share.looks < LEAST_LOOKS)
		return;
	w->share.is_limited = true;
	if (w->share.looks >= LOOKS_OF_TURN)
		w->share.looks_each = LEAST_LOOKS;
}

#endif
