#ifndef POOL_FRESHNESS_H
#define POOL_FRESHNESS_H

#include "pool/host.h"

/*
 * Freshness of standbys. Promise: a standby covers a time if it shows everything that the primary
 * has acknowledged before that time. A client reads from a standby only if the standby covers the
 * client's last write (read_your_writes). See freshness.c.
 */
#define MARKS_MOST 64

/* A question to the primary at the time `at`, and its answer: everything that the primary had
   acknowledged until then is before this position in its WAL. */
struct mark {
	usec_t at;
	uint64_t position;
};
/* The marks of a primary, in the order of time; both members ascend. */
struct marks {
	unsigned count;
	struct mark list[MARKS_MOST];
};

/* The last write of all clients of databases with the same name on the same servers; the table is
   pools->written. */
struct written {
	UT_hash_handle hh;
	int users;			/* references */
	usec_t at;			/* the last write that pgweir has acknowledged; 0: none */
	/* commands that have changed definitions: see pool/read_verdicts.h */
	uint64_t definitions;
	/* name of the database on the server, and first of its hosts by name, or Patroni's URLs */
	char key[];
};

/* Adds a mark; `position` as the primary reports it (pg_current_wal_insert_lsn). Old marks are
   thinned out when there is no room. Ignores the mark unless it is later than the last mark. */
void marks_add(struct marks *marks, usec_t at, uint64_t position);
/* A standby has replayed its WAL up to the position: returns the time that it covers. 0: none of
   the marks. */
usec_t marks_covered(const struct marks *marks, uint64_t replayed);

struct roles;
struct role_place;
/* Computes for each standby of the database the time that it covers, and its lag. `has_changed`:
   another primary, or another timeline, than before. */
void roles_cover(struct roles *roles, bool has_changed);
/* Whether max_lag excludes the standby. */
bool role_place_is_late(const struct roles *roles, const struct role_place *place);
/* The databases with this name on these servers share *roles->written. False: no memory. */
bool roles_hold_written(struct roles *roles, usec_t now);
void written_drop(struct pools *pools, struct written **written);	/* *written may be NULL */
/* Another process has handed the client over: its writes and reads until now are unknown, and count
   as made now. */
void pool_client_note_adopted(struct pool_client *client, usec_t now);
/* Returns the time that a standby must cover for the client; 0: any standby is fresh enough. */
usec_t pool_client_needs(const struct pool_client *client, const struct host *standby);

#endif
