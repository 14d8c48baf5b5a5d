#ifndef POOL_ROLE_H
#define POOL_ROLE_H

#include "pool/following.h"
#include "pool/freshness.h"
#include "pool/host.h"

/*
 * Roles of hosts: which host of a database is the primary, and which hosts suit a client. Promise:
 * a host is the primary only by evidence that is not older than two periods (host_check_period),
 * and a database has at most one primary. See role.c.
 */

/* A host in the list of a database with roles. */
struct role_place {
	struct host *host;		/* a reference */
	unsigned weight;
	bool has_no_readers;		/* Patroni's tag noloadbalance */
	uint8_t targets;			/* as pool->targets */
	uint32_t incarnation;			/* of the host: see `fresh_to` */
	/* the time that the standby covers (pool/freshness.h); 0: unknown */
	usec_t fresh_to;
	/* of a standby, as are the next four members: see following.c */
	enum following following;
	uint64_t server_id;		/* the server of this verdict; 0: unknown */
	unsigned moves;			/* how often it has replayed more than `from` */
	/* position: first the higher one of both hosts, then the primary's at each move; 0: not
	   yet */
	uint64_t from;
	usec_t unproven_since;		/* it has been known as no follower; 0: it is not */
	usec_t back_at;			/* when it became suitable for readers */
	/* the host refuses the logins of the pool of the client that chooses now */
	bool refuses;
	/* the host is refused as a primary of the past; written by find_primary() */
	bool is_past;
	/* the host is a second primary; written by role_place_set_rival() */
	bool is_rival;
};

/* The hosts of a database whose clients ask for roles; database->roles. */
struct roles {
	struct database *database;
	struct role_place *places;	/* in the order of the list */
	unsigned count;
	struct host *primary;		/* one of the places; NULL: none is known */
	usec_t began_at;		/* when a client has asked for a role first */
	usec_t changed_at;		/* when `primary` changed last */
	struct host *last;		/* the last primary, a reference; NULL: none so far ... */
	uint32_t timeline;		/* ... its timeline, 0: unknown ... */
	usec_t last_seen;		/* ... and when it was last known as the primary */
	/* the system identifier of the last primary with a known identifier; 0: none */
	uint64_t system;
	/* an event, such as a lost connection, has put the primary in doubt at this time: only
	   later evidence ends the doubt; 0: no doubt */
	usec_t doubt_since;
	bool is_due;			/* new evidence: roles_decide() is due */
	unsigned next;			/* place at which round-robin continues */
	bool is_waited_for;		/* readers wait until a host is fresh enough */
	/* clients read from standbys: the hosts are asked more often */
	bool has_readers;
	bool has_refusals;		/* the last login of a pool at a host has failed */
	usec_t readers_at;		/* when a host became suitable for readers */
	usec_t answered_at;		/* the last answer of the last primary; 0: none */
	struct mark marked;		/* the last mark of the last primary; at 0: none */
	struct written *written;	/* see pool/freshness.h */
	struct read_verdicts *verdicts;	/* see pool/read_verdicts.h; NULL: none yet */
	char why[HOST_WHY];		/* why there is no primary */
	/* Patroni's word: */
	bool has_source;		/* the primary must be the leader by this word, too */
	/* the places are Patroni's members, because the configuration has no hosts */
	bool has_members;
	/* monotonic: before the question of the last answer; 0: no answer */
	usec_t source_at;
	struct host *leader;		/* one of the places; NULL: none */
	char source_why[HOST_WHY];	/* why there is no leader */
};

#define ROLE_MEMBERS_MOST 64		/* hosts of a list from Patroni */
/* A member of a cluster. */
struct role_member {
	char key[272];			/* "host:port" */
	bool has_no_readers;
};
/* The members of the cluster and its leader (an index; -1: none, and `why` says why), by an answer
   to the question of the time `at`. */
void roles_note_members(struct roles *roles, const struct role_member *members, unsigned count,
			int leader, const char *why, usec_t at);
/* The addresses of the name have changed (host_set_members()): the databases that list it get other
   places. */
void roles_note_addresses(const struct host *name, usec_t now);
/* The source does not answer: `why`. */
void roles_note_silence(struct roles *roles, const char *why);
/* Whether both hosts are addresses of one server. */
static inline bool is_same_server(const struct host *a, const struct host *b)
{
	return a->evidence.server_id > 0 && a->evidence.server_id == b->evidence.server_id &&
	       a->evidence.system_id == b->evidence.system_id;
}

/* role_place.c */
/* Returns the place of the host, or NULL if it is not in the list. */
struct role_place *role_place_of(const struct roles *roles, const struct host *host);
/* Makes the places from the configuration: a name with several addresses is several hosts. NULL: no
   memory. */
struct role_place *role_places_of(const struct database *database, unsigned *count);
void role_places_free(struct role_place *places, unsigned count);
/* Replaces the list; hosts in both lists keep their state. */
void roles_set_places(struct roles *roles, struct role_place *places, unsigned count);
/* Whether the host is in the list of the database. */
bool roles_list(const struct database *database, const struct host *host);
/* Sets pool->targets and pool->fresh_to. Returns whether more or fewer clients may use the
   pool. */
bool pool_set_targets(struct pool *pool);
#define TARGET_BIT(target) (1u << (target))
/* Returns the pool at this host of the database and user of `pool`. NULL: no memory. */
struct pool *pool_at_host(struct pool *pool, struct host *host, usec_t now);
/* Returns the pool of the database and user of `pool` at the host with this key; "": the pool whose
   clients wait for a host. NULL: no memory. */
struct pool *pool_at_key(struct pool *pool, const char *key, usec_t now);

/* role_evidence.c */
/* The database decides at the end of the turn. */
void roles_set_due(struct roles *roles);

/* After a RELOAD: the clients of the database aim at the roles of the new configuration, and
   database->roles is made, renewed or freed. Hosts keep their state. False: no memory; the old list
   stays. */
bool roles_reconfigure(struct database *database, usec_t now);
/* Writes why clients of the database wait for a host with their role: "no host has the role that
   the client asks for: db1:5432 is unknown (connect failed (Connection refused)), db2:5432 is a
   standby". Returns buf. */
const char *roles_text(const struct database *database, usec_t now, char *buf, size_t size);
/* Sets client->target, from the options of the client, its user or the database, in this order.
   False: no memory. */
bool pool_client_set_target(struct pool_client *client, usec_t now);
/* After an online restart: sets client->target. Its writes and reads until now are unknown: a host
   suits it only after it has caught up with the present position. False: no memory. */
bool pool_client_adopt(struct pool_client *client, usec_t now);
/* Makes database->roles, because a client asks for a role although the configuration does not.
   False: no memory. */
bool roles_begin(struct database *database, usec_t now);
void roles_free(struct database *database);
/* The last primary, its timeline and the system identifier, as the process before this one knew
   them. False: no memory. */
bool roles_restore(struct roles *roles, const char *key, uint32_t timeline, uint64_t system,
		   usec_t last_seen, usec_t changed_at, usec_t now);

/* New evidence about a host. Evidence older than the host's is ignored. Fields that are 0 are
   unknown: the older value stays if the claim is the same. `source`: "asked", "login" ..., for the
   log. */
void host_note(struct host *host, const struct host_evidence *evidence, const char *source,
	       usec_t now);
/* Returns the claim as a word: "primary", "standby" or "unknown". */
const char *host_claim_word(enum host_claim claim);
/* The connection that asks the host has ended: a standby may have restarted, and covers nothing
   until it answers again. */
void host_forget(struct host *host);
/* A session reports a new value of in_hot_standby. */
void host_note_promotion(struct host *host, const char *standby, usec_t now);
/* The host does not accept connections: its claim is unknown from now on, and all hosts of its
   databases are asked. `why`: in words. */
void host_note_failure(struct host *host, const char *why, usec_t now);
/* The host has refused a login, but lives: its claim is as fresh as if it had been repeated. */
void host_note_alive(struct host *host, usec_t now);
/* An event casts doubt on the role of the host (the end of a connection, 25006): all hosts of its
   databases are asked at once. */
void host_doubt(struct host *host, usec_t now);
/* Called several times a second: claims expire, and databases get or lose their primary. */
void roles_tick(struct pools *pools, usec_t now);
/* The hosts that are closed to the database have changed (pool/admit.h). */
void roles_admit(struct database *database, usec_t now);
/* Decides again who is the primary, after a change of the list or of an administrator's word. */
void roles_decide(struct roles *roles, usec_t now);
/* Calls roles_decide() for each database with new evidence. Called before the scheduler. */
void roles_decide_due(struct pools *pools, usec_t now);
/* After a decision: finds the hosts that are primaries beside roles->primary, or beside the first
   host that is a primary, and logs changes. */
void roles_find_rivals(struct roles *roles);
/* Keeps host->rivals. */
void role_place_set_rival(struct role_place *place, bool is_rival);
/* How old evidence may be. */
usec_t roles_fresh_for(const struct pools *pools);

/* A transaction of the client, which has a server of a pool at a host, has ended. */
void pool_client_note_end(struct pool_client *client, usec_t now);
/* Returns the pool of the same database and user at the host that suits the client now, creates it
   if needed, or the pool in which clients wait for such a host. NULL: no memory. */
struct pool *pool_for_client(struct pool_client *client, usec_t now);
/* Moves the client to the pool that suits it now. False: no memory. */
bool pool_client_route(struct pool_client *client, usec_t now);
/* The host of its pool has refused a login: moves the client, which waits, to another host that
   suits it. False: there is none. */
bool pool_client_reroute(struct pool_client *client, usec_t now);
/* Takes the reads back that run on silent and closed hosts, if other hosts suit their clients
   (ops->recall). */
void roles_recall_reads(struct roles *roles, usec_t now);

#endif
