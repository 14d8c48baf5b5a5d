#ifndef POOL_POOL_H
#define POOL_POOL_H

#include "base/hash.h"
#include "base/list.h"
#include "base/printable.h"
#include "conf/conf.h"
#include "pool/close_reason.h"
#include "pool/stats.h"

/*
 * Which client may use which server connection, and when: databases, users, pools, their queues and limits. This room moves
 * no byte and opens no socket; it asks the session room for that through struct pool_ops. Every count it decides by is
 * the length of a list that it keeps itself.
 *
 * Invariants (pools_check): an idle server has no client; a link has two ends; an object is on the list of its state; counts of
 * database and user are the sums over their pools.
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
	LIMIT_NONE, LIMIT_POOL_SIZE, LIMIT_DATABASE, LIMIT_USER, LIMIT_INTERNAL, LIMIT_ONE_LOGIN, LIMIT_LOGIN_RETRY, LIMIT_PAUSED, LIMIT_DRAINING
};
/* Why a client keeps its server between transactions: bits of pool_client.pins, and their number. */
enum pin {
#define PIN(id, words, where) PIN_##id##_NUMBER,
#include "tbl/pin.tbl"
#undef PIN
	PINS,
#define PIN(id, words, where) PIN_##id = 1 << PIN_##id##_NUMBER,
#include "tbl/pin.tbl"
#undef PIN
};
/* What a failed server login means for the next one. The hand-over sends the number: add at the end. */
enum login_failure {
	FAILURE_LASTING,			/* refused until a setting or the server is changed: all waiting clients are told */
	FAILURE_PASSING,			/* no answer, or no TLS: tried again after server_login_retry, and clients wait for that */
	FAILURE_AWAY,				/* connection refused: the same, and tried twice a second besides */
	FAILURE_BUSY,				/* the server says that it is not ready: the same */
	FAILURE_FULL				/* the server has no connection left: the same, and one login at a time from then on */
};
/* SHUTDOWN WAIT_FOR_SERVERS: no server for any client any more; WAIT_FOR_CLIENTS, or replaced by another process: service goes on for
   connected clients, and new ones are the session room's to refuse. */
enum drain { DRAIN_NO, DRAIN_SERVERS, DRAIN_CLIENTS, DRAIN_REPLACED };
const char *client_state_name(enum client_state state);		/* as SHOW prints it */
const char *server_state_name(enum server_state state);

struct pool;
struct pools;
struct params;				/* only its address is used here: equal address, equal start-up parameters */

struct database {
	char *name;
	struct pools *pools;
	const struct conf_database *conf;	/* in the current snapshot, or the fallback's */
	struct conf *conf_held;			/* keeps `conf` alive */
	bool automatic;				/* made from "*" */
	bool removed;				/* gone from the configuration; ends with its last connection */
	bool paused;				/* PAUSE, KILL */
	bool disabled;
	bool stray;				/* made from "*" for a client that is not authenticated, and no client has logged in to it: it
						   keeps no server, and goes when nothing uses it */
	bool served;				/* a server of it has let us in, so that it exists */
	bool is_console;
	int servers, clients;			/* connections over all pools */
	struct list members;			/* its pools (pool->of_database) */
	struct list held;			/* those that its limit holds back, longest held first */
	struct stats_history stats;
	uint64_t meaning_changed_at;		/* the last number of a statement when a command changed what texts may mean (pg_tag_changes_meaning) */
	usec_t meaning_changed;			/* monotonic: the last such command */
	uint64_t statements;			/* place of its prepared statements (pg/statement.h); 0: none since then */
	usec_t idle_since;			/* 0: in use */
	UT_hash_handle hh;
};

struct user {
	char *name;
	const struct conf_user *conf;		/* or NULL */
	int servers, clients;			/* server connections made as it; clients logged in as it */
	int pools;				/* pools that it is the key of */
	struct list members, held;		/* those pools (pool->of_user); of them, those that its limit holds back */
	usec_t idle_since;			/* nothing has used it since; 0: in use, or not seen yet */
	UT_hash_handle hh;
};

/* What a pool is allowed, from the most specific place that says anything: user, database, global. */
struct pool_allowance {
	enum pool_mode mode;
	enum session_link link;
	enum session_state state;
	int64_t size, reserve;			/* servers; size 0: unlimited */
	usec_t server_lifetime;
};

struct pool {
	struct pools *pools;
	struct list node, of_database, of_user, dirty;	/* all pools; of the database; of the user; to be scheduled */
	struct list held_by_database, held_by_user;
	struct database *database;
	struct user *user;
	struct list clients[CLIENT_STATES];
	struct list servers[SERVER_STATES];
	int client_count[CLIENT_STATES], server_count[SERVER_STATES];
	int live;				/* servers, without those that carry cancel requests */
	struct pool_allowance allowed;		/* by the snapshots of now */
	int cancel_logins;			/* how many of server_count[SERVER_LOGIN] carry cancel requests */
	int pinned;				/* clients in it with pins */
	int listening;				/* clients in it that LISTEN with session_state = full */
	uint64_t notifications;			/* that its listener has told them */
	bool reads_sequences;			/* a client with session_state = full has asked for currval or lastval. Then clients get the server that
						   they had last, which has the values that they have drawn, and else the one that has been idle longest */
	uint64_t state_asks, state_restores;	/* questions for what a session has; times that a server was brought to what its client has */
	int dedicated;			/* clients and servers in it that ask for each other by `dedicated` */
	int internal_requests;				/* clients in it that are internal requests */
	bool idle_marked;			/* an idle server has a close_reason: the scheduler closes it */
	enum pool_limit held_by;		/* why its clients wait, as last seen by the scheduler */
	bool login_failed;			/* the last server login failed ... */
	bool missed;				/* ... and since then a client was told so */
	usec_t login_failed_at;			/* ... then; new ones wait server_login_retry, queries get the cached error */
	usec_t full_at;				/* last FAILURE_FULL; 0: none */
	usec_t login_failing_since;		/* the first that failed without one that succeeded between */
	uint8_t login_failure;			/* enum login_failure: the last one */
	int logins_succeeded;			/* since then, but no more than matter: one more than these may be in progress at a time */
	unsigned generation;			/* grows when a RELOAD changes where its servers come from */
	usec_t idle_since;			/* no client, no server since then; 0: in use */
	usec_t last_lifetime_close;
	usec_t held_until;			/* last seen paused or suspended: waiting counts from then */
	void *session;				/* what the session room keeps per pool; ops->pool_end frees it */
	UT_hash_handle hh;
	struct { struct database *database; struct user *user; } key;
};

/* The part of a client connection that policy sees; embedded in the session's struct. */
struct pool_client {
	struct list node;
	struct pool *pool;			/* NULL before its database is known */
	struct user *login_user;		/* the user it logged in as; may differ from pool->user (forced user) */
	struct pool_server *link;
	const struct params *startup;		/* the start-up parameters it asks for; set it before it wants a server */
	uint32_t dedicated;			/* replication: a number of its own, and only a server opened under it will do; 0: any;
						   set before join */
	bool is_internal : 1;			/* no connection, but work of the session room's own that needs a server: counts for
						   no limit of clients, and takes only a server with its start-up parameters; set before init */
	bool is_login : 1;			/* it waits for a server that it is to be welcomed with */
	bool refused : 1;			/* since it waits, what was opened for its start-up parameters was refused: others come first */
	bool counted : 1;			/* in database->clients and login_user->clients */
	bool notified : 1;			/* query_wait_notify sent for this wait */
	uint8_t state;				/* enum client_state */
	uint8_t pins;				/* PIN_ bits; set by pool_client_pin, and 0 without a link */
	usec_t since;				/* of this state */
};

/* Of a server connection. */
struct pool_server {
	struct list node;
	struct pool *pool;
	struct pool_client *link;
	const struct pool_client *last;		/* with session_state = full: the client that it was linked to last; NULL: not known, or gone */
	const struct params *startup;		/* the start-up parameters it was opened with; set before init */
	uint32_t dedicated;			/* of the client that it was opened for; set before init */
	bool lent;				/* has served a client */
	bool for_internal;			/* was opened for internal requests, and no client has had it */
	uint8_t state;				/* enum server_state */
	bool is_cancel;				/* only carries a cancel request: counts for no limit */
	uint8_t close_reason;			/* enum close_reason: close at release; REASON_NONE: keep */
	uint16_t cancels;			/* cancel requests under way that aim at it */
	usec_t since, opened;			/* of this state (USED: since it is idle); of the login's end, 0 before */
};

/* What the pool room asks for. Each is called from pools_schedule, pools_maintain, pools_reconfigure or a console verb, never from
   inside a client's or server's own event handler; each must carry the move out at once: when it returns the states have changed,
   of the objects it was given and of their links, of no others. A drop or refusal that policy asks for is no failed login. */
struct pool_ops {
	void (*lend)(struct pool_server *server, struct pool_client *client);	/* both are ACTIVE and linked already */
	/* open a server; with the start-up parameters of `whom` (and `dedicated`) where not NULL. One that fails on the spot says so
	   with pool_login_failed. */
	void (*dial)(struct pool *pool, struct pool_client *whom);
	/* the next one is a reserve connection, for this client, or NULL */
	void (*take_reserve)(struct pool *pool, struct pool_client *client);
	void (*test)(struct pool_server *server);				/* is TESTED already: run server_check_query */
	void (*drop)(struct pool_server *server, enum close_reason why);		/* close it (and its client, when it has one) */
	void (*refuse)(struct pool_client *client, enum close_reason why);		/* say why and close it; LOGIN_FAILING: the cached error */
	void (*notify)(struct pool_client *client, usec_t waited);		/* the queue NOTICE */
	/* open a connection for this cancel request; the client is ACTIVE_CANCEL or DEAD when it returns */
	void (*dial_cancel)(struct pool *pool, struct pool_client *canceller);
	/* the pool, or the database that it was for, is no more: what is kept in `session` is freed, and that set to NULL. Fine twice. */
	void (*pool_end)(struct pool *pool);
};

struct pools {
	const struct pool_ops *ops;
	void *owner;				/* what the session room finds itself by */
	struct conf *conf;			/* held */
	struct database *databases;		/* uthash by name */
	struct user *users;
	struct host *hosts;			/* uthash: hosts that pools have opened servers to, or tried to */
	struct pool *by_key;
	struct list all;			/* pools in order of creation */
	struct list dirty;			/* to be scheduled this turn */
	struct list unauthenticated[CLIENT_STATES];	/* clients without a pool yet */
	int unauthenticated_count[CLIENT_STATES];
	int clients;				/* all client connections, console and unauthenticated clients included, without cancel requests */
	int internal_servers;			/* servers of all pools that are for_internal ... */
	bool internal_servers_missed;		/* ... and an internal request waits until there are fewer: idle ones close (pools_maintain) */
	bool paused, suspended;			/* PAUSE; SUSPEND */
	enum drain draining;			/* SHUTDOWN; set by pools_drain */
	uint32_t last_dedicated;			/* number given last: pools_next_dedicated */
	bool waits_differ;			/* a user of the snapshot has a query_wait_timeout or query_timeout of its own */
	struct conf_database console;		/* what stands for the console's database */
	usec_t stats_at;			/* when the running period began */
	usec_t maintained_at, swept_at;		/* the last pools_maintain; the last look for what is unused */
};

struct pools *pools_new(const struct pool_ops *ops, struct conf *conf, usec_t now);
/* Everything must have been detached before. */
void pools_free(struct pools **pools);
/* A RELOAD: databases of the new snapshot appear, change, disappear; connections that do not fit any more are marked or dropped
   (ops->drop, ops->refuse), automatic databases stay while "*" does. */
void pools_reconfigure(struct pools *pools, struct conf *conf, usec_t now);
/* The database's servers were opened for another place, or another user, than its configuration names now: idle ones close at
   once, the others when they are released. Clients in the pool of a user that is not theirs, and that it does not force on them (any
   more), are refused. */
void database_moves(struct database *database);

/* Bytes of a database's name that count: CONF_NAME_MOST, unless the configuration has an entry for the whole name. */
size_t database_name_size(const struct conf *conf, const char *name);
/* The database of this name, made from the fallback when only "*" fits. NULL: no such database (or no memory).
   "pgbouncer" and "pgweir" give the console's. Databases, users and pools that nothing uses are freed by pools_maintain:
   a pointer from here is good for this turn, and as long as a client that has joined or a server keeps it in use. */
struct database *database_get(struct pools *pools, const char *name, usec_t now);
/* The same for a client that is not authenticated: a database that is made here keeps no memory and no server longer than that client. */
struct database *database_get_unauthenticated(struct pools *pools, const char *name, usec_t now);
/* As above, making nothing. */
struct database *database_find(struct pools *pools, const char *name);
/* The entry of the configuration that stands for a database of this name, "*" included; NULL: none. Makes nothing. */
const struct conf_database *database_conf_find(struct pools *pools, const char *name);
struct user *user_get(struct pools *pools, const char *name);		/* made on first use; NULL: no memory */
/* The pool of (database, forced user or user), made on first use; NULL: no memory. */
struct pool *pool_get(struct database *database, struct user *user, usec_t now);
/* The same for just this user, whatever the database forces on its clients: for internal requests. */
struct pool *pool_get_own(struct database *database, struct user *user, usec_t now);

/* "database/user" as lines of the log have it; `size` is POOL_TEXT. Returns buf. */
const char *pool_text(const struct pool *pool, char *buf, size_t size);
#define POOL_TEXT (2 * PRINTABLE_NAME)

/* Effective settings, most specific first. The first four are asked for with every query, and kept ready. */
static inline enum pool_mode pool_mode_of(const struct pool *pool) { return pool->allowed.mode; }
/* A client gets its server before it is welcomed. */
static inline bool pool_links_at_login(const struct pool *pool)
{
	return pool->allowed.mode == MODE_SESSION && pool->allowed.link == LINK_LOGIN;
}
/* What a client sets follows it from server to server, where it does not have one for itself. */
static inline bool pool_keeps_state(const struct pool *pool) { return pool->allowed.state == STATE_FULL; }
static inline int64_t pool_size_of(const struct pool *pool) { return pool->allowed.size; }
static inline int64_t pool_reserve_of(const struct pool *pool) { return pool->allowed.reserve; }
static inline usec_t pool_server_lifetime_of(const struct pool *pool) { return pool->allowed.server_lifetime; }
/* Whether start-up parameters decide which server a client gets here: in session mode, and for a client that gets a server of its own. */
static inline bool pool_minds_startup(const struct pool *pool, bool dedicated) { return dedicated || pool_mode_of(pool) == MODE_SESSION; }
int64_t pool_min_size_of(const struct pool *pool);
int64_t pool_max_pinned_of(const struct pool *pool);			/* 0: unlimited */
usec_t pool_pinned_idle_timeout_of(const struct pool *pool);		/* 0: none */
usec_t client_query_wait_timeout_of(const struct pool_client *client);	/* user, database, global */
usec_t client_query_timeout_of(const struct pool_client *client);	/* user, global */
int64_t database_max_servers(const struct database *database);		/* 0: unlimited */
int64_t database_max_clients(const struct database *database);
int64_t user_max_servers(const struct pools *pools, const struct user *user);

/* Why a further client may not come in, or REASON_NONE (max_client_conn: pools_may_accept). On the console nothing stops an
   administrator. */
enum close_reason pool_may_join(const struct pool *pool, const struct user *login_user, bool is_admin);
/* Nothing wants its servers, which were opened for a look-up: no client has logged in to its database, and none asks for it any more. */
bool pool_is_unwanted(const struct pool *pool);
/* PAUSE or KILL of this database; NULL: PAUSE of all, or SUSPEND. */
static inline bool pools_is_paused(const struct pools *pools, const struct database *database)
{
	return database ? database->paused : pools->paused || pools->suspended;
}
bool pools_may_accept(const struct pools *pools);	/* asked for one that is initialised, and so counted, already */

/* A client's life. init: an unauthenticated client in STARTUP. join: gives it its pool (and counts it); become: the only writer of the state:
   asserts that the table allows the move, moves it between lists. CLIENT_DEAD takes it off every list and count; a link must have been undone. */
void pool_client_init(struct pools *pools, struct pool_client *client, usec_t now);
void pool_client_join(struct pool_client *client, struct pool *pool, struct user *login_user);	/* NULL user: a cancel request or an internal request; not counted */
void pool_client_become(struct pools *pools, struct pool_client *client, enum client_state state, usec_t now);
/* A server's life. init: LOGIN, on its pool's list. */
void pool_server_init(struct pool_server *server, struct pool *pool, bool is_cancel, usec_t now);
void pool_server_become(struct pool_server *server, enum server_state state, usec_t now);
/* As if `dedicated`, which is not 0, had been set before init. */
void pool_server_dedicate(struct pool_server *server, uint32_t dedicated);
/* Asked when a client gives a server back: why it is to be closed instead of kept, or REASON_NONE. */
enum close_reason pool_server_is_spent(const struct pool_server *server, usec_t now);

/* A number for `dedicated`. */
uint32_t pools_next_dedicated(struct pools *pools);
/* A client has something to send: lends it a server at once when one is free and no client waits before it (both become ACTIVE, linked,
   counted), else puts it at the end of the queue (WAITING) and gives NULL. */
struct pool_server *pool_want(struct pool_client *client, usec_t now);
/* A client that has a server has these reasons (PIN_ bits) to keep it between transactions. */
void pool_client_pin(struct pool_client *client, unsigned pins);
/* The words of these reasons with commas between. Returns buf, which has PIN_TEXT bytes. */
const char *pins_text(unsigned pins, char *buf);
/* How many clients of the pool keep their server, of how many servers, and why: "2 of 20 server connections are pinned: 1 advisory lock, 1
   listens". `buf` has PIN_TEXT bytes. NULL: none does. */
const char *pool_pins_text(const struct pool *pool, char *buf);
#define PIN_TEXT 512
/* Links the two as they were in the process that this one replaces: client IDLE or WAITING, server IDLE, of one pool. */
void pool_relink(struct pool_server *server, struct pool_client *client, usec_t since);
/* Undoes a link: the client becomes IDLE (unless it is to die), the server `next` (IDLE, TESTED, BEING_CANCELED, DEAD); when that frees
   anything, the pool is scheduled.
   `client_dies`: the client stays ACTIVE for its caller, which ends it. */
void pool_unlink(struct pool_server *server, enum server_state next, bool client_dies, usec_t now);
/* A server finished its login, or failed to. */
void pool_login_succeeded(struct pool *pool);
/* While no server of the pool can be used: a query that comes to wait from now on is told at once (ops->refuse). After a LASTING
   failure so are all waiting clients; a later login waits for the next attempt. After others the queries that wait already wait on,
   and so do logins. If server_down is fail, no login waits. After AWAY, BUSY and FULL, while the pool has clients, pools_maintain opens a connection twice a second, whatever
   server_login_retry says. */
void pool_login_failed(struct pool *pool, enum login_failure failure, usec_t now);
/* This server's login was refused, and would be again: where start-up parameters decide, one is opened for others first, before
   those in the queue that ask for the same have theirs tried again. */
void pool_server_refused(const struct pool_server *server);
/* What failed may succeed now: the next client need not wait for server_login_retry, and the cached error is told no more. */
void pool_login_forgiven(struct pool *pool);
void pools_forgive_logins(struct pools *pools);		/* of all pools */
/* Something changed: look at this pool at the end of the turn. */
void pool_mark(struct pool *pool);
void pools_mark_all(struct pools *pools);

/* The verdict, pure. */
enum pool_action {
	POOL_HOLD, POOL_LEND, POOL_TEST, POOL_DIAL, POOL_REPLACE, POOL_EVICT_FOR_DATABASE, POOL_EVICT_FOR_USER, POOL_REFUSE
};
struct pool_view {
	usec_t now, oldest_wait;		/* how long the first in the queue has waited */
	int waiting, waiting_login;		/* clients */
	bool login_first;			/* one of waiting_login has waited longest of all */
	int covered;				/* of `waiting`: those with a server being tested or opened for them */
	int idle, used, testing, logging_in, live;	/* servers; live: all but cancel connections */
	bool exact;				/* session mode: only a server with the same start-up parameters will do */
	int idle_fitting, used_fitting;		/* not 0: there is one for the first client in the queue that needs one */
	bool fits_behind;			/* exact only: an idle one fits a client further back only */
	bool paused, draining;
	bool login_failed;
	int logins_at_once;			/* so many may be in progress */
	bool refusable;				/* after a failed login: there is a client that is to be told */
	usec_t since_login_failed, login_retry, reserve_timeout;
	int64_t size, reserve;			/* 0 = unlimited size */
	int64_t database_servers, database_limit, user_servers, user_limit;	/* limit 0 = none */
	int64_t database_evictable, user_evictable;	/* idle servers of other pools under the same limit */
	int64_t internal_servers, internal_limit;	/* max_auth_query_connections; limit 0: a new server does not count for it */
};
struct pool_verdict {
	enum pool_action action;
	enum pool_limit limit;			/* what held it back, or made it refuse */
	bool from_reserve;			/* a DIAL beyond `size` */
	bool for_login;				/* a DIAL for those in waiting_login */
};
struct pool_verdict pool_decide(const struct pool_view *view);
void pool_look(const struct pool *pool, usec_t now, struct pool_view *view);

/* Once a turn: carries out verdicts for every pool that was marked, until each says HOLD. */
void pools_schedule_marked(struct pools *pools, usec_t now);
static inline void pools_schedule(struct pools *pools, usec_t now)
{
	if (!list_is_empty(&pools->dirty))
		pools_schedule_marked(pools, now);
}
/* Every fraction of a second: lifetimes, idle timeouts, min_pool_size, query_wait_timeout and _notify, cancel_wait_timeout,
   idle pools and automatic databases, periods of the statistics. Returns true when a stats period ended. */
bool pools_maintain(struct pools *pools, usec_t now);

/* Console verbs that are policy. Marks or drops; return nothing because the caller waits on pools_is_quiet. */
void pools_pause(struct pools *pools, struct database *database, bool on);		/* database NULL: all */
void pools_drain(struct pools *pools, enum drain drain);
void pools_reconnect(struct pools *pools, struct database *database);			/* every server that is busy: close_reason CLOSE_NEEDED */
void pools_kill(struct pools *pools, struct database *database);			/* drops clients and servers, pauses */
/* No server connection (PAUSE) / none marked for closing (WAIT_CLOSE) is left. */
bool pools_is_without_servers(const struct pools *pools, const struct database *database);
bool pools_is_without_close_needed(const struct pools *pools, const struct database *database);

/* Walks everything and ASSERTs the invariants. */
void pools_check(const struct pools *pools);

#endif
