#ifndef POOL_HOST_H
#define POOL_HOST_H

#include "pool/pool.h"

#include <inttypes.h>
#include <stdio.h>

/*
 * PostgreSQL hosts, which pools share, and their budget max_host_connections. Promise: no server is
 * opened at a host whose budget is used up, and pools with fewer servers come first.
 */

/*
 * A host: a name, address or socket directory, and its port. All pools with this host in their
 * lists share the object, so that all pools know of a failure after one pool has met it. The table
 * is pools->hosts.
 */
#define SENDER_TEXT 272			/* bytes of a host and port in words */
enum host_claim { CLAIM_UNKNOWN, CLAIM_STANDBY, CLAIM_PRIMARY };
/* The state of a host as the host reported it. */
struct host_evidence {
	enum host_claim claim;
	usec_t at;			/* monotonic: before the question was sent */
	/* 0: unknown. A standby has begun to follow this timeline, and perhaps a later one */
	uint32_t timeline;
	/* in the WAL: inserted by a primary, replayed by a standby; 0: unknown */
	uint64_t position;
	/* monotonic: before the question whose answer had the position; 0: no position */
	usec_t position_at;
	/* monotonic: when this answer came; written by host_note() */
	usec_t position_heard;
	/* process id of the WAL receiver of a standby; 0: none, or unknown */
	uint32_t receiver;
	/* "host:port" that this receiver is connected to; "": unknown */
	char sender[SENDER_TEXT];
	/* which server has answered: when its postmaster started, in microseconds of Unix time; 0:
	   unknown */
	uint64_t server_id;
	uint64_t system_id;		/* system identifier of the cluster; 0: unknown */
	bool is_read_only;		/* default_transaction_read_only */
	/* reported by a login, without timeline, position and system_id */
	bool is_of_login;
};
/* Whether a standby follows the primary; see pool/following.h. */
enum following { FOLLOWING_PRESUMED, FOLLOWING_YES, FOLLOWING_UNPROVEN, FOLLOWING_DIVERGED };
#define HOST_WHY 200			/* bytes of a reason in words */
/* Why no server can be opened at a host: the last attempts. Written by host_note_attempt(). */
struct host_failure {
	/* REASON_NONE: the last attempt has succeeded, or there was none */
	enum close_reason why;
	enum login_failure kind;
	usec_t since, at;		/* monotonic: the first and the last failure in a row */
	unsigned count;			/* of them */
	/* of SERVER_TLS: the database and context that have failed; only compared */
	const void *database, *tls;
	char text[HOST_WHY];
};
/* An attempt to open a server at a host. */
struct host_attempt {
	/* REASON_NONE: it has succeeded, or the host has refused the login for a reason that
	   concerns this user only */
	enum close_reason why;
	enum login_failure kind;
	const char *text;		/* why it has failed */
	const void *database, *tls;	/* the database, and the TLS context; NULL: none */
};
#define POSITION_TEXT 24

struct host {
	UT_hash_handle hh;		/* by key */
	struct pools *pools;
	/* the name that the address belongs to, for TLS; owned; NULL: the host is named by
	   itself */
	char *name;
	/* of a name with several addresses: a host for each, with a reference; owned ... */
	struct host **members;
	unsigned member_count;		/* ... 0: one address, or unknown */
	/* the addresses of the name, with a reference; written by watch/names.c */
	bool is_looked_up;
	int users;			/* references of places, servers, roles and pools */
	/* connections to it, without watchers and connections that carry cancel requests:
	   max_host_connections */
	struct budget *servers;
	/* of these, of databases that clients may have invented (pool_is_trial) */
	struct budget *trials;
	/* pools with servers or waiting for room; pools waiting for room; servers with a client.
	   Valid after hosts_count() */
	int sharers, waiting, used;
	/* when connecting to the host failed last; 0 after a success, and before the first
	   failure */
	usec_t unreachable_since;
	struct host_failure failure;
	/* failed attempts to open a server, of a host without roles; see also `errors` */
	uint64_t failures;
	int port;
	struct host_evidence evidence;	/* written by role_evidence.c, host_identity.c */
	/* the evidence is not too old, and not in contradiction to other hosts; written by
	   roles_decide() */
	bool is_fresh;
	usec_t changed_at;		/* when the claim changed last */
	/* the last two answers have named the same WAL receiver; written by host_note() */
	bool is_receiving;
	/* of a standby, by the last judgement of a database; written by following.c, as are ... */
	enum following following;
	/* ... as the old process knew it, for roles_restore_verdicts(), because a standby must not
	   count as unproven after each online restart; ... */
	enum following followed;
	bool is_warned;			/* ... whether the log says that it does not follow ... */
	char follows_why[HOST_WHY];	/* ... and why it does not */
	uint64_t errors;		/* failed checks and connects */
	/* requests that were taken back from its servers, to be sent to other servers; ... whose
	   clients got the answer of the host after all, because the host is still the primary */
	uint64_t retries, kept_answers;
	/* reads that were taken back from the host because it was silent or closed */
	uint64_t recalls;
	uint64_t stale_reads;		/* reads for which the host was not fresh enough */
	uint64_t changes;		/* of the claim */
	bool is_disabled, is_drained;	/* by an administrator; written by admit.c, closed.c */
	bool has_answered;		/* a question for its role */
	/* a login has changed the claim: timeline and system identifier are not known yet */
	bool is_reported;
	/* the host belongs to another cluster; written by roles_decide() */
	bool is_of_another;
	/* monotonic: before the question whose answer had evidence.system_id was sent */
	usec_t identified_at;
	usec_t failed_at;		/* monotonic: last host_note_failure() */
	/* monotonic: when the last successful login began, of a watcher or of a server with a
	   report of its role */
	usec_t accepted_at;
	/* monotonic: the watcher logs in again unless accepted_at is as late. During its shutdown a
	   host still answers queries on open connections, so only a login shows that it stays */
	usec_t login_wanted;
	/* consecutive logins that led to another server than the watcher's */
	unsigned strangers;
	/* clients that wait for the verdict on it (pool_client.is_held), each with a reference */
	int held;
	int role_users;			/* databases that ask for its role */
	/* databases that have another primary at the same time: see role_rival.c */
	int rivals;
	void *watcher;			/* of room watch; NULL: none */
	struct marks *marks;		/* of a primary (pool/freshness.h); NULL: none */
	uint32_t incarnation;		/* grows with each possible restart; not 0 */
	/* of a standby, see pool/freshness.h; fresh_to 0: the lag is unknown */
	usec_t fresh_to, lag;
	char why[HOST_WHY];		/* the last event, in words */
	char key[];			/* "name:port" */
};

/* A host in the list of a pool. */
struct host_place {
	struct host *host;		/* a reference */
	/* time of the last failed login of this pool; 0: it works, or was not tried */
	usec_t failed_at;
};

/* Writes a position in the WAL as PostgreSQL does: 16/B374D848. Returns buf. */
static inline const char *position_text(uint64_t position, char buf[POSITION_TEXT])
{
	snprintf(buf, POSITION_TEXT, "%" PRIX32 "/%" PRIX32, (uint32_t)(position >> 32),
		 (uint32_t)position);
	return buf;
}
/* Makes pool->places, in the order of the list of hosts, unless they exist. Returns them; NULL: no
   memory. */
struct host_place *pool_places(struct pool *pool);
/* Whether the host or this pool's login at it has failed within server_login_retry. */
bool host_place_has_failed(const struct pools *pools, const struct host_place *place, usec_t now);
/* Whether the database comes from the entry "*" and no server has admitted a login to it yet. The
   client may have invented its name, so such pools share a part of a host's budget. */
static inline bool pool_is_trial(const struct pool *pool)
{
	return pool->database->automatic && !pool->database->served;
}
/* A server has admitted a login to the database: it exists. */
void database_admitted(struct database *database);
/* An attempt is over. Returns whether the attempt before it has failed in the same way. A failure
   of TLS ends with a success of the same database or TLS context: others may ask less of the
   certificate. */
bool host_note_attempt(struct host *host, const struct host_attempt *attempt, usec_t now);
/* Whether the last attempt has failed, and is not too old to say something about the host. */
bool host_is_failing(const struct host *host, usec_t now);
/* The state of a host that is failing, in a word for SHOW HOSTS: "down", "no address", "no TLS",
   "full" or "starting". */
const char *host_failure_word(const struct host_failure *failure);
static inline bool host_is_full(const struct host *host)
{
	return !budget_has_room(host->servers);
}
/* The server is opened at this host: it counts there and no longer at another host. False: it would
   exceed the budget of the host, and nothing has changed. */
bool pool_server_take_host(struct pool_server *server, struct host *host);
/* The server is at this host, also beyond its budget: a watcher, which does not count, or a server
   that exists already. NULL: the server counts at no host any more. */
void pool_server_set_host(struct pool_server *server, struct host *host);
/* Counts the server, which another process has handed over, at the host with this key. False: no
   memory. */
bool pool_server_restore_host(struct pool_server *server, const char *key);
/* Returns the host with this key ("name:port"), and adds a reference. NULL: no memory. */
struct host *host_hold(struct pools *pools, const char *key);
void host_drop(struct host *host);
/* Returns the name of an entry of the configuration: of the directory of sockets if it has none. */
static inline const char *host_name(const struct pools *pools, const struct conf_host *conf)
{
	const char *sockets = pools->conf->settings.unix_socket_dir;

	return conf->name ? conf->name : sockets ? sockets : "/tmp";
}
/* A look-up of the name of this host has returned these addresses (texts without a port). If there
   are two or more, each is a host of its own, and databases with roles list these hosts instead of
   the name. Returns whether the hosts have changed; without memory they do not. */
bool host_set_members(struct host *name, const char *const *addresses, unsigned count);
/* Returns the host of an entry of the configuration, as host_hold(). */
struct host *host_of(struct pools *pools, const struct conf_host *conf);
/* Writes how much of the budgets of the pool's hosts is in use, and the pools with the most: "the
   host db:5432 has 20 of 20 server connections (max_host_connections): 9 of app/anna, 4 of
   report/bob". Returns buf. */
const char *pool_hosts_text(const struct pool *pool, char *buf, size_t size);

#endif
