#ifndef POOL_POOL_H
#define POOL_POOL_H

#include "base/hash.h"
#include "base/list.h"
#include "base/printable.h"
#include "base/state.h"
#include "conf/conf.h"
#include "pool/close_reason.h"
#include "pool/latency.h"
#include "pool/stats.h"
#include "shared/shared.h"

#include <string.h>

/*
 * Databases, users and pools with their queues and limits: which client may use which server
 * connection, and when. This room sends no bytes and opens no sockets; it calls struct pool_ops for
 * that. Every count is the length of a list of this room, and every limit is a budget of room
 * shared (pool/seats.c).
 *
 * Invariants (pools_check): an idle server has no client; a link has two ends; an object is on the
 * list of its state; `used` of a budget is the sum over the pools that count for it.
 */
enum client_state {
#define CLIENT_STATE(id, name, moves) CLIENT_##id,
#include "tbl/client_state.tbl"
#undef CLIENT_STATE
	CLIENT_STATES
};
enum server_state {
#define SERVER_STATE(id, name, moves) SERVER_##id,
#include "tbl/server_state.tbl"
#undef SERVER_STATE
	SERVER_STATES
};
enum pool_limit {
	LIMIT_NONE,
	LIMIT_POOL_SIZE,
	LIMIT_DATABASE,
	LIMIT_USER,
	LIMIT_HOST,
	LIMIT_INTERNAL,
	LIMIT_ONE_LOGIN,
	LIMIT_LOGIN_RETRY,
	LIMIT_PAUSED,
	LIMIT_DRAINING,
	LIMIT_ROLE,
	POOL_LIMITS
};
/* Why a client keeps its server between transactions: bits of pool_client.pins, and the number of
   each bit. */
enum pin {
#define SESSION_PIN(id, label, texts, set_by, ended_by, ask, where) PIN_##id##_NUMBER,
#include "tbl/session_fact.tbl"
	PINS,
#define SESSION_PIN(id, label, texts, set_by, ended_by, ask, where) \
	PIN_##id = 1 << PIN_##id##_NUMBER,
#include "tbl/session_fact.tbl"
};
/* The effect of a failed server login on later logins. For example, a wrong password is LASTING,
   because the next login would fail too; a restarting server is AWAY, and is tried twice a second
   so that clients wait no longer than necessary. The handover record contains these numbers: add
   new ones at the end. */
enum login_failure {
	/* refused until a setting or the server is changed: all waiting clients get the error */
	FAILURE_LASTING,
	/* no answer, or no TLS: tried again after server_login_retry, and clients wait for that */
	FAILURE_PASSING,
	/* connection refused: as FAILURE_PASSING, and also tried twice a second */
	FAILURE_AWAY,
	/* the server says that it is not ready: as FAILURE_AWAY */
	FAILURE_BUSY,
	/* the server has no connection left: as FAILURE_AWAY, and then one login at a time */
	FAILURE_FULL,
	/* the server does not have this database, which only the entry * names: as FAILURE_LASTING,
	   and a later client causes a new attempt at once */
	FAILURE_MISSING
};
/* POOL_DRAIN_SERVERS: SHUTDOWN WAIT_FOR_SERVERS, no client gets a server. POOL_DRAIN_CLIENTS,
   POOL_DRAIN_REPLACED: SHUTDOWN WAIT_FOR_CLIENTS, or another process has taken over: connected
   clients are served, and room core refuses new clients. */
enum pool_drain { POOL_DRAIN_NO, POOL_DRAIN_SERVERS, POOL_DRAIN_CLIENTS, POOL_DRAIN_REPLACED };
/* The allowed moves, and the names that SHOW prints. */
extern const struct state_row client_state_rows[CLIENT_STATES], server_state_rows[SERVER_STATES];

struct pool;
struct pools;
struct server_info;
/* only the address is used here: sets with equal start-up parameters have equal addresses */
struct params;

struct database {
	char *name;
	struct pools *pools;
	/* in the current snapshot, or the fallback entry "*" */
	const struct conf_database *conf;
	struct conf *conf_held;			/* keeps `conf` alive */
	bool automatic;				/* created from "*" */
	/* not in the configuration any more; freed after its last connection */
	bool removed;
	bool paused;				/* PAUSE, KILL */
	bool disabled;
	/* created from "*" for an unauthenticated client, and no client has logged in: idle servers
	   are closed, and the database is freed when it is unused */
	bool stray;
	/* a server of the database has accepted a login: the database exists */
	bool served;
	bool is_console;
	/* its hosts, if clients ask for roles (pool/role.h); NULL: no client does */
	struct roles *roles;
	/* servers and clients of all its pools: max_db_connections, max_db_client_connections */
	struct budget *servers, *clients;
	struct list members;			/* its pools (pool->of_database) */
	struct stats_history stats;
	/* the last statement number when a command changed the meaning of statement texts
	   (pg_tag_changes_meaning) */
	uint64_t meaning_changed_at;
	usec_t meaning_changed;			/* monotonic: the last such command */
	/* its place (sql/statement.h); 0: no statement since then */
	uint64_t statements;
	bool sessions_changed;			/* see retire_sessions() */
	usec_t idle_since;			/* 0: in use */
	UT_hash_handle hh;
};

struct user {
	char *name;
	const struct conf_user *conf;		/* may be NULL */
	/* servers opened as this user: max_user_connections; clients logged in as this user:
	   max_user_client_connections */
	struct budget *servers, *clients;
	int pools;				/* pools with this user in their key */
	struct list members;			/* its pools (pool->of_user) */
	/* when it became unused; 0: in use, or not checked yet */
	usec_t idle_since;
	UT_hash_handle hh;
};

/* The limits of a pool, from the most specific place that sets a value: user, database, global. */
struct pool_allowance {
	enum pool_mode mode;
	enum session_link link;
	enum session_state state;
	int64_t size, min_size, reserve;	/* servers; size 0: unlimited */
	int64_t max_pinned;			/* 0: unlimited */
	usec_t server_lifetime, pinned_idle_timeout;	/* pinned_idle_timeout 0: none */
};

struct pool {
	struct pools *pools;
	/* in the list of all pools; of the database; of the user; of pools to be scheduled */
	struct list node, of_database, of_user, dirty;
	struct budget_wait wait_for_database, wait_for_user, wait_for_host, wait_for_lookups;
	/* with several worlds: a client waits, and another world may have a server for it */
	struct budget_wait wait_for_server;
	bool is_waiting;		/* in at least one of these lists */
	struct database *database;
	struct user *user;
	struct list clients[CLIENT_STATES];
	struct list servers[SERVER_STATES];
	int client_count[CLIENT_STATES], server_count[SERVER_STATES];
	/* servers, without connections that carry cancel requests and watchers */
	int live;
	/* the same in all worlds: the pool size */
	struct budget *budget;
	/* 1: a seat in each budget is taken for the server that ops->dial opens now, and ... */
	uint8_t seats;
	bool seat_is_for_internal;	/* ... in shared->lookup_servers */
	struct pool_allowance allowed;		/* from the current snapshot */
	/* how many of server_count[SERVER_LOGIN] carry cancel requests, or are watchers */
	int apart_logins;
	int pinned;				/* clients with pins */
	int listening;				/* clients that LISTEN with session_state = full */
	uint64_t notifications;			/* sent to these clients by the pool's listener */
	/* all its servers are at this host, a reference; NULL: at any host of the list.
	   pools->no_host: clients wait here for a host with their role, and there are no servers */
	struct host *host;
	/* the pool of the same database and user without a host, which keeps the secrets; itself */
	struct pool *parent;
	int child_count;				/* pools with this parent, besides itself */
	/* bit 1 << TARGET_...: clients that ask for this role may use the pool; without a host:
	   TARGET_ANY */
	uint8_t targets;
	/* bits of `targets` for which no route is chosen, so that most transactions need no choice
	   of a host. Any idle server of this pool may serve any client with such a target, unless
	   the client waits for a verdict on its last host (is_held), LISTENs, or waits for a
	   standby (settles). Example: PRIMARY at the primary */
	uint8_t fixed_targets;
	/* a client may use the pool if it needs no later time than this: see pool_client_needs() */
	usec_t fresh_to;
	/* a client with session_state = full has called currval or lastval. From then on a client
	   gets the server that it had last, because this server has the values of its sequences, or
	   else the server that is idle longest */
	bool reads_sequences;
	/* neither a host nor reads_sequences: any idle server suits its next client */
	bool is_plain;
	/* an idle server is for a client of another world that has waited longer: see
	   pools_give() */
	bool owes;
	uint64_t served_at_once;		/* clients that got a server without waiting */
	struct latencies *latencies;		/* NULL: none yet */
	uint64_t closes;			/* clients that have left after their login */
	struct history *history;		/* of room web, freed with the pool; NULL: none */
	/* queries that client_gone has cancelled; servers that were kept after their client had
	   left */
	uint64_t gone_cancels, gone_kept;
	uint64_t read_asks;			/* questions to the catalogue for reads = auto */
	/* queries for the session state of servers; times that a server was set to the session
	   state of its client */
	uint64_t state_asks, state_restores;
	int dedicated;			/* clients and servers with a `dedicated` number */
	int internal_requests;				/* clients that are internal requests */
	/* an idle server has a close_reason: the scheduler closes it */
	bool idle_marked;
	/* why its clients wait, according to the last verdict */
	enum pool_limit held_by;
	bool login_failed;			/* the last server login failed ... */
	bool missed;				/* ... and a client was told so since then */
	/* when; later logins wait server_login_retry, queries get the cached error */
	usec_t login_failed_at;
	usec_t full_at;				/* last FAILURE_FULL; 0: none */
	usec_t login_failing_since;		/* the first failure since the last success */
	uint8_t login_failure;			/* enum login_failure of the last failure */
	/* logins since the last failure, up to LOGINS_AT_ONCE: one more than these may be in
	   progress at a time */
	int logins_succeeded;
	/* while the pool has at most this many servers, pool_server_is_spent() need not ask whether
	   a limit claims one of them */
	int64_t close_above;
	unsigned place_count;
	/* its hosts (pool/host.h), in the order of the list; NULL: not made yet */
	struct host_place *places;
	/* incremented when a RELOAD changes where its servers connect to */
	unsigned generation;
	usec_t idle_since;			/* when the last client or server left; 0: in use */
	usec_t last_lifetime_close;
	/* when the pool was last seen paused or suspended: waiting is counted from then */
	usec_t stopped_until;
	/* facts about its servers, kept by room backend; ops->pool_end frees it */
	struct server_info *server_info;
	UT_hash_handle hh;
	struct { struct database *database; struct user *user; struct host *host; } key;
};

/* The part of a client connection that room pool uses; embedded in struct client. */
struct pool_client {
	struct list node;
	struct pool *pool;			/* NULL before its database is known */
	/* the user that the client logged in as; differs from pool->user if the database forces a
	   user */
	struct user *login_user;
	struct pool_server *link;
	/* the start-up parameters that the client asks for; set before it asks for a server */
	const struct params *startup;
	/* replication: a unique number; only a server with the same number fits; 0: any server. Set
	   before join */
	uint32_t dedicated;
	/* an internal request instead of a connection: not counted for limits of clients, and gets
	   only a server with its start-up parameters; set before init */
	bool is_internal : 1;
	/* waits for a server, to send its parameters in the welcome */
	bool is_login : 1;
	/* since it began to wait, a server has rejected its start-up parameters: clients with other
	   parameters come first, so that a client with a wrong parameter cannot keep the others
	   waiting */
	bool refused : 1;
	bool counted : 1;			/* in database->clients and login_user->clients */
	bool notified : 1;			/* query_wait_notify sent for this wait */
	/* waits for the verdict on its last host, and no host suits it until then; written by
	   request_to() */
	bool is_held : 1;
	/* waits for a standby with the data of the client's last read: see pool/choose.c */
	bool settles : 1;
	/* has channels on the listener of its pool, and cannot move to another pool */
	bool listens : 1;
	/* both enum target: `target` is the role that the next request needs (pool_client_seek()),
	   `own_target` the role in the start-up options; TARGET_ANY: none */
	uint8_t target : 4, own_target : 4;
	/* enum target, without TARGET_READ; enum reads: the requests that standbys may execute for
	   a client of the primary. Set by pool_client_set_target() */
	uint8_t role : 4, reads : 2;
	/* host->incarnation of the host of its last read; 0: none, or the primary, unless a choice
	   for reads has led there */
	uint32_t read_incarnation;
	/* end of its last transaction on a primary with possible writes, and of its last read; 0:
	   none */
	usec_t wrote_at, read_at;
	uint8_t state;				/* enum client_state */
	/* PIN_ bits; set by pool_client_pin, and 0 without a link */
	uint8_t pins;
	usec_t since;				/* when it entered this state */
};

/* The only writer of client->target: the next request needs a host of its role or, with `reads`,
   any host that is fresh enough. `reads` may be set only for clients whose reads may go to
   standbys. */
static inline void pool_client_seek(struct pool_client *client, bool reads)
{
	client->target = reads && client->reads != READS_OFF ? TARGET_READ : client->role;
}

/* The part of a server connection that room pool uses; embedded in struct server. */
struct pool_server {
	struct list node;
	struct pool *pool;
	struct pool_client *link;
	/* with session_state = full: the client that was linked last; NULL: unknown, or ended */
	const struct pool_client *last;
	/* the start-up parameters that it was opened with; set before init */
	const struct params *startup;
	/* where it counts for max_host_connections; NULL: nowhere. Set by
	   pool_server_take_host() */
	struct host *host;
	/* the number of the client that it was opened for; set before init */
	uint32_t dedicated;
	bool lent;				/* has served a client */
	/* was opened for internal requests, and no client has used it */
	bool for_internal;
	uint8_t state;				/* enum server_state */
	/* only carries a cancel request: not counted for limits */
	bool is_cancel;
	/* only asks the host for its role: not counted for limits */
	bool is_watcher;
	bool is_trial;				/* counted in host->trials; written by host.c */
	/* enum close_reason: close at release; REASON_NONE: keep */
	uint8_t close_reason;
	/* which server it is connected to, as host_evidence.server_id; 0: unknown */
	uint64_t server_id;
	uint16_t cancels;			/* cancel requests in progress for this server */
	/* when it entered this state (USED: when it became idle); when its login succeeded, 0
	   before */
	usec_t since, opened;
};

/* Callbacks of room pool. They are called from pools_schedule, pools_maintain, pools_reconfigure
   and console verbs, never from an event handler of a client or server. Each callback acts at once:
   when it returns, the states of the given objects and of the other ends of their links have
   changed, and no other states. Servers closed by ops->drop do not count as failed logins. */
struct pool_ops {
	/* The server is lent to the client, which has waited for this time. Both are ACTIVE and
	   linked already. */
	void (*lend)(struct pool_server *server, struct pool_client *client, usec_t waited);
	/* Opens a server. If `client` is not NULL, the server gets the start-up parameters and the
	   `dedicated` number of this client. Calls pool_login_failed if this fails at once. */
	void (*dial)(struct pool *pool, struct pool_client *client);
	/* The next server is opened from the reserve, for this client (may be NULL). */
	void (*take_reserve)(struct pool *pool, struct pool_client *client);
	/* the server is TESTED already: sends server_check_query */
	void (*test)(struct pool_server *server);
	/* closes the server, and its client if it is linked. With HOST_ROLE the client stays if its
	   request only reads */
	void (*drop)(struct pool_server *server, enum close_reason why);
	/* sends the error and closes the client; LOGIN_FAILING: the cached error */
	void (*refuse)(struct pool_client *client, enum close_reason why);
	/* sends the NOTICE of query_wait_notify */
	void (*notify)(struct pool_client *client, usec_t waited);
	/* Opens a connection for this cancel request. When it returns, the client is ACTIVE_CANCEL
	   or DEAD. */
	void (*dial_cancel)(struct pool *pool, struct pool_client *canceller);
	/* The client, which waits for its login, has moved to another pool: gets its welcome if the
	   parameters of that pool's servers are known, and is IDLE then. It may end. */
	void (*moved)(struct pool_client *client);
	/* The pool ends, or its database does: frees pool->server_info and sets it to NULL. May be
	   called twice. */
	void (*pool_end)(struct pool *pool);
	/* There is new evidence about hosts, and the client waits with is_held. Clears is_held, or
	   ends the client, unless the evidence proves nothing. */
	void (*judge)(struct pool_client *client);
	/* The host of the server is silent or closed, and another host would suit its client. Takes
	   the request of the client back, so that the other host gets it, if the request only reads
	   and nothing of its answer was forwarded. False: the client keeps its server. */
	bool (*recall)(struct pool_server *server);
	/* Hosts are in doubt: asks them at once. */
	void (*ask_hosts)(struct pools *pools);
	/* Other clients wait: finds a client of the pool that keeps its server between transactions
	   only for values of sequences, and takes the server from it. False: there is no such
	   client. */
	bool (*yield)(struct pool *pool);
	/* The server, which is idle and has no link, goes to a pool of another world that has the
	   same database, user and host: calls pool_server_move() and gives the connection to that
	   world, with the parameters that clients there wait for. False: it does not. NULL: servers
	   do not move, and close instead. */
	bool (*move)(struct pool_server *server, struct pool *to);
};

/* The server closes at its release, for this reason; REASON_NONE: it stays. */
static inline void pool_server_close_later(struct pool_server *server, enum close_reason why)
{
	server->close_reason = (uint8_t)why;
}

struct pools {
	const struct pool_ops *ops;
	struct shared *shared;			/* budgets of all worlds */
	struct bell bell;			/* requests of the other worlds */
	void *owner;				/* the world; room core sets and uses it */
	struct conf *conf;			/* held */
	struct database *databases;		/* uthash by name */
	struct user *users;
	/* uthash: hosts that pools have tried to open servers to, hosts of servers, and hosts with
	   roles */
	struct host *hosts;
	/* the host of the pools in which clients wait for a host; not in the table */
	struct host *no_host;
	/* there is new evidence about hosts: see roles_decide_due() */
	bool are_roles_due;
	bool are_hosts_doubtful;		/* ... and hosts are to be asked: ops->ask_hosts */
	uint32_t incarnations;				/* the last value of host->incarnation */
	struct written *written;		/* uthash: see pool/freshness.h */
	uint64_t random;			/* for the choice of hosts */
	/* hosts that exceed max_host_connections; counted in bell.shortages */
	int hosts_exceeded;
	/* max_host_connections may claim a server at its release: set when a pool waits, cleared in
	   a tick */
	bool are_hosts_scarce;
	struct pool *by_key;
	struct list all;			/* pools in order of creation */
	struct list dirty;			/* to be scheduled this turn */
	struct list unauthenticated[CLIENT_STATES];	/* clients without a pool yet */
	int unauthenticated_count[CLIENT_STATES];
	/* client connections of this world: its part of shared->clients */
	int clients;
	/* an internal request waits because of max_auth_query_connections: pools_maintain closes
	   idle internal servers */
	bool internal_servers_missed;
	bool paused, suspended;			/* PAUSE; SUSPEND */
	struct list drains;			/* DRAIN: see pool/drain.h */
	/* a host is disabled or drained: see pool/admit.h */
	bool has_closed_hosts;
	/* SHUTDOWN; call pools_mark_all() after a change */
	enum pool_drain draining;
	/* the last number that was used for `dedicated` */
	uint32_t last_dedicated;
	/* a user of the snapshot has its own query_wait_timeout or query_timeout */
	bool waits_differ;
	struct conf_database console;		/* the entry of the console's database ... */
	struct conf_host console_host;		/* ... and its port */
	usec_t stats_at;			/* when the current statistics period began */
	struct latency_sums latency_sums;
	uint64_t closes;				/* clients that have left their pool */
	/* connections and requests that each reason has ended since the start */
	uint64_t ended[REASONS];
	/* the last call of pools_maintain; the last look for unused objects */
	usec_t maintained_at, swept_at;
};

/* Counts a latency of the pool, and in the sums. */
static inline void latency_add(struct pool *pool, enum latency which, usec_t usec)
{
	unsigned bucket = latency_bucket(usec);

	pool->pools->latency_sums.count[which][bucket]++;
	latency_add_slowly(pool, which, bucket);
}
/* latency_add() for each query and transaction. */
static ALWAYS_INLINE void latency_add_fast(struct pool *pool, enum latency which, usec_t usec)
{
	unsigned bucket = latency_bucket(usec), place = which * LATENCY_BUCKETS_ROUND + bucket;
	struct latencies *l = pool->latencies;
	uint16_t *counter;

	(&pool->pools->latency_sums.count[0][0])[place]++;
	if (__builtin_expect(l != NULL, 1)) {
		counter = &l->block[(&l->places[0][0])[place / LATENCY_STEPS]]
				   .current[bucket % LATENCY_STEPS];
		if (__builtin_expect(*counter < l->limit, 1)) {
			++*counter;
			return;
		}
	}
	latency_add_slowly(pool, which, bucket);
}

/* `shared` must live longer. */
struct pools *pools_new(const struct pool_ops *ops, struct shared *shared, struct conf *conf,
			usec_t now);
/* All clients and servers must have been detached. */
void pools_free(struct pools **pools);
/* Applies a new snapshot: creates, changes and removes databases. Connections that do not fit the
   new settings are marked or closed (ops->drop, ops->refuse). Automatic databases stay while the
   configuration has "*". */
void pools_reconfigure(struct pools *pools, struct conf *conf, usec_t now);
/* The database's host, port, name or user has changed: closes idle servers now and the others when
   they are released. Refuses clients if their pool has a user that is neither their own nor forced
   by the database. */
void database_moves(struct database *database);

static inline bool name_is_console(const char *database)
{
	return strcmp(database, "pgbouncer") == 0 || strcmp(database, "pgweir") == 0;
}
/* Returns how many bytes of a database name are significant: CONF_NAME_MOST, unless the
   configuration has an entry for the whole name. */
size_t database_name_size(const struct conf *conf, const char *name);
/* Returns the database of this name, and creates it if only "*" matches. NULL: no such database, or
   no memory. "pgbouncer" and "pgweir" give the console's database. pools_maintain frees databases,
   users and pools that are not used: the pointer is valid until the end of this turn, and as long
   as a joined client or a server uses the object. If the client is not authenticated
   (`is_authenticated` false), a new database and its servers do not outlive that client, because
   the client may have invented the name. */
struct database *database_get(struct pools *pools, const char *name, bool is_authenticated,
			      usec_t now);
/* Returns the database of this name if it exists. NULL: it does not; "*" creates none here. */
struct database *database_find(struct pools *pools, const char *name);
/* Returns the entry of the configuration for a database of this name, which may be "*", or NULL.
   Creates nothing. */
const struct conf_database *database_conf_find(struct pools *pools, const char *name);
/* creates it if needed; NULL: no memory */
struct user *user_get(struct pools *pools, const char *name);
/* Returns the pool of the database and its forced user, or else `user`; creates it if needed.
   `is_internal`: for internal requests, of exactly this user, even if the database forces another
   user. NULL: no memory. */
struct pool *pool_get(struct database *database, struct user *user, bool is_internal, usec_t now);
/* Returns the pool at this host with this parent, and creates it if needed; NULL: no memory. */
struct pool *pool_get_at(struct pool *parent, struct host *host, usec_t now);
/* Returns the pool at this host with this parent if it exists, otherwise NULL. */
struct pool *pool_find_at(const struct pool *parent, const struct host *host);

/* Writes "database/user" in the format of log lines; `size` is POOL_TEXT. Returns buf. */
const char *pool_text(const struct pool *pool, char *buf, size_t size);
#define POOL_TEXT (2 * PRINTABLE_NAME)

/* Effective settings, from the most specific place: see also pool->allowed. */
/* Whether a client's session state is restored on each server that it gets (session_state =
   full). */
static inline bool pool_keeps_state(const struct pool *pool)
{
	return pool->allowed.state == STATE_FULL;
}
/* Whether only a server with the same start-up parameters fits a client. This is so in session
   mode, because the session is the client's own, and for a client with a `dedicated` number. */
static inline bool pool_minds_startup(const struct pool *pool, bool dedicated)
{
	return dedicated || pool->allowed.mode == MODE_SESSION;
}
/* Limit 0: unlimited. */
static inline bool is_reached(int64_t count, int64_t limit) { return limit > 0 && count >= limit; }
/* The setting of a user, or CONF_UNSET; and the first of two settings that is set, or the global
   one. */
#define OF_USER(user, name) ((user) && (user)->conf ? (user)->conf->name : CONF_UNSET)
static inline int64_t first_set(int64_t a, int64_t b, int64_t global)
{
	if (a != CONF_UNSET)
		return a;
	return b != CONF_UNSET ? b : global;
}

/* Returns why a further client is refused, or REASON_NONE. max_client_conn is checked earlier
   (login/startup_packet.c). An administrator is always admitted to the console. */
enum close_reason pool_may_join(const struct pool *pool, const struct user *login_user,
				bool is_admin);
/* All clients on its lists, including cancel requests. */
static inline int pool_clients(const struct pool *pool)
{
	int count = 0;

	for (int state = 0; state < CLIENT_STATES; state++)
		count += pool->client_count[state];
	return count;
}
/* Whether the servers of the pool can be closed, because they were opened for look-ups, no client
   has logged in to its database, and no login needs a look-up. */
static inline bool pool_is_unwanted(const struct pool *pool)
{
	return pool->database->stray && pool->database->automatic && pool_clients(pool) == 0;
}
/* Whether PAUSE or KILL of this database is in force; `database` NULL: PAUSE of all, or SUSPEND. */
static inline bool pools_is_paused(const struct pools *pools, const struct database *database)
{
	return database ? database->paused : pools->paused || pools->suspended;
}

/* The life of a client. init: unauthenticated, in STARTUP. join: assigns and counts it in a pool.
   become: the only writer of the state; asserts that the table allows the move, and moves the
   client between lists. CLIENT_DEAD removes it from all lists and counts; its link must be undone
   before. */
void pool_client_init(struct pools *pools, struct pool_client *client, usec_t now);
/* `login_user` NULL: a cancel request or an internal request; not counted */
void pool_client_join(struct pool_client *client, struct pool *pool, struct user *login_user);
void pool_client_become(struct pools *pools, struct pool_client *client, enum client_state state,
			usec_t now);
/* Moves a joined client without a server to another pool of its database and user, and keeps its
   place in the order of the queue. */
void pool_client_move(struct pool_client *client, struct pool *pool, usec_t now);
/* The life of a server. init: LOGIN, on the list of its pool. */
void pool_server_init(struct pool_server *server, struct pool *pool, bool is_cancel, usec_t now);
/* The server, which was just created, asks its host for the role only. */
void pool_server_watch(struct pool_server *server);
void pool_server_become(struct pool_server *server, enum server_state state, usec_t now);
/* Sets `dedicated` (not 0) after init. */
static inline void pool_server_dedicate(struct pool_server *server, uint32_t dedicated)
{
	server->dedicated = dedicated;
	server->pool->dedicated++;
}
/* Moves an idle server to the pool of another world that has the same database, user and host. The
   budgets of all worlds stay as they are. False: no memory; the server has not moved. */
bool pool_server_move(struct pool_server *server, struct pool *to, usec_t now);
/* Returns why a server must be closed when its client returns it, or REASON_NONE if it can be
   kept. */
enum close_reason pool_server_is_spent(const struct pool_server *server, usec_t now);

/* A client has something to send. If a server is free and no other client waits, both become ACTIVE
   and are linked, and the server is returned. Otherwise the client goes to the end of the queue
   (WAITING), and NULL is returned. */
struct pool_server *pool_want(struct pool_client *client, usec_t now);
/* Sets the reasons (PIN_ bits) why a linked client keeps its server between transactions. */
void pool_client_pin(struct pool_client *client, unsigned pins);
/* Writes the words of these reasons, separated by commas, into buf, which has PIN_TEXT bytes.
   Returns buf. */
const char *pins_text(unsigned pins, char *buf);
/* Writes how many servers of the pool are pinned, and why: "2 of 20 server connections are pinned:
   1 advisory lock, 1 listens". `buf` has PIN_TEXT bytes. Returns NULL if no client is pinned. */
const char *pool_pins_text(const struct pool *pool, char *buf);
#define PIN_TEXT 512
/* Links a client (IDLE or WAITING) and a server (IDLE) of one pool; counts the assignment. */
void pool_link(struct pool_server *server, struct pool_client *client, usec_t now);
/* Undoes a link: the client becomes IDLE, the server becomes `next` (a state that server_state.tbl
   allows after ACTIVE). Marks the pool if a waiting client may use the server. `client_dies`: the
   client stays ACTIVE, and the caller ends it. */
void pool_unlink(struct pool_server *server, enum server_state next, bool client_dies, usec_t now);
/* A login at a server succeeded. */
void pool_login_succeeded(struct pool *pool);
/* A login at a server failed. Example: the password is wrong (FAILURE_LASTING). All clients that
   wait get the server's error at once, and the next login is attempted after server_login_retry.
   While no server of the pool can be used, the cached error is the answer to each query that begins
   to wait (ops->refuse). After FAILURE_LASTING and FAILURE_MISSING the waiting clients get the
   error too, and a later login waits for the next attempt. After other failures the waiting queries
   and logins go on waiting; with server_down = fail, no login waits. After AWAY, BUSY and FULL,
   pools_maintain opens a connection twice a second while the pool has clients, independent of
   server_login_retry. */
void pool_login_failed(struct pool *pool, enum login_failure failure, usec_t now);
/* The server rejected the start-up parameters of this login, and would do so again. If start-up
   parameters decide which server fits, a server for other parameters is opened before the next
   attempt with these, because otherwise one client with a wrong parameter would block the pool. */
void pool_server_refused(const struct pool_server *server);
/* The cause of failed logins may be gone: the next client does not wait for server_login_retry, and
   the cached error is cleared. */
void pool_login_forgiven(struct pool *pool);
static inline void pool_reads_sequences(struct pool *pool)
{
	pool->reads_sequences = true;
	pool->fixed_targets = 0;
	pool->is_plain = false;
}
/* Something changed: the scheduler looks at this pool at the end of the turn. */
static inline void pool_mark(struct pool *pool)
{
	if (list_is_empty(&pool->dirty))
		list_append(&pool->pools->dirty, &pool->dirty);
}
static inline void pools_mark_all(struct pools *pools)
{
	LIST_EACH(node, &pools->all)
		pool_mark(LIST_OBJECT(node, struct pool, node));
}

/* The verdict of the scheduler, a pure function of the view. */
enum pool_action {
	POOL_HOLD,
	POOL_LEND,
	POOL_TEST,
	POOL_DIAL,
	POOL_REPLACE,
	POOL_EVICT_FOR_DATABASE,
	POOL_EVICT_FOR_USER,
	POOL_EVICT_FOR_HOST,
	POOL_REFUSE
};
struct pool_view {
	/* how long the first client of the queue has waited */
	usec_t now, oldest_wait;
	int waiting, waiting_login;		/* clients */
	bool login_first;			/* a client of waiting_login has waited longest */
	/* of `waiting`: clients that a tested or connecting server is available for */
	int covered;
	/* servers, without connections that carry cancel requests */
	int idle, used, logging_in;
	int64_t live;				/* of all worlds */
	/* not 0: such a server fits the first client of the queue that needs a server */
	int idle_fitting, used_fitting;
	/* if not every server fits every client: an idle server fits a client, but not the first
	   client of the queue */
	bool fits_behind;
	bool paused, draining;
	/* the host of the pool has not the role that clients ask for, or is unknown */
	bool lacks_role;
	bool login_failed;
	int logins_at_once;			/* how many logins may be in progress */
	/* after a failed login: a client is to get the error */
	bool refusable;
	usec_t since_login_failed, login_retry, reserve_timeout;
	int64_t size, reserve;			/* size 0: unlimited */
	/* how many servers must close before another may open; 0: there is room */
	int64_t database_excess, user_excess;
	/* idle servers of other pools under the same limit */
	int64_t database_evictable, user_evictable;
	/* max_host_connections leaves the pool no room at any host; an idle server of another pool
	   can make room */
	bool host_full, host_evictable;
	/* max_auth_query_connections is reached, and a new server would count for it */
	bool internal_full;
};
struct pool_verdict {
	enum pool_action action;
	enum pool_limit limit;			/* the limit that caused HOLD or REFUSE */
	bool from_reserve;			/* a DIAL beyond `size` */
	bool for_login;				/* a DIAL for the clients in waiting_login */
};
struct pool_verdict pool_decide(const struct pool_view *view);

/* Called once a turn: carries out verdicts for every marked pool until each verdict is HOLD. */
void pools_schedule_marked(struct pools *pools, usec_t now);
static inline void pools_schedule(struct pools *pools, usec_t now)
{
	if (!list_is_empty(&pools->dirty))
		pools_schedule_marked(pools, now);
}
/* Called several times a second: applies lifetimes, idle timeouts, min_pool_size,
   query_wait_timeout, query_wait_notify and cancel_wait_timeout, frees idle pools and automatic
   databases, and ends periods of the statistics. Returns true when a period has ended. */
bool pools_maintain(struct pools *pools, usec_t now);

/* Console commands. They mark or close connections and do not wait; the caller calls
   pools_is_without_servers until it returns true. */
/* database NULL: all */
void pools_pause(struct pools *pools, struct database *database, bool on);
/* marks every busy server with CLOSE_NEEDED */
void pools_reconnect(struct pools *pools, struct database *database);
/* closes clients and servers, and pauses */
void pools_kill(struct pools *pools, struct database *database);
/* Whether no server connection is left (PAUSE), or with `marked` no server that is marked for
   closing (WAIT_CLOSE). */
bool pools_is_without_servers(const struct pools *pools, const struct database *database,
			      bool marked);

/* Asserts the invariants of all pools, and of the budgets of all worlds. */
void pools_check(const struct pools *pools);

#endif
