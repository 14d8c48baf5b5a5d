#ifndef POOL_STATS_H
#define POOL_STATS_H

#include "base/clock.h"

#include <stdint.h>

/* The counters of SHOW STATS, per database. Times are in microseconds. This list gives the fields
   and the order of SHOW. */
#define STATS_EACH(X) \
	X(server_assignment_count) \
	X(xact_count) X(query_count) X(received) X(sent) X(xact_time) X(query_time) X(wait_time) \
		X(client_parse_count) X(server_parse_count) X(bind_count) X(client_login_count)

struct stats {
#define X(name) uint64_t name;
	STATS_EACH(X)
#undef X
};

/* Totals now, and at the ends of the last two full periods. */
struct stats_history {
	struct stats total, newer, older;
	usec_t newer_at, older_at;
};

static inline void stats_add(struct stats *sum, const struct stats *more)
{
#define X(name) sum->name += more->name;
	STATS_EACH(X)
#undef X
}
/* Averages from the start of the last full period, or a second before the history began, until
   `now`: counts and bytes per second; times per transaction (xact_time), per query (query_time) and
   per assignment (wait_time) in microseconds. */
void stats_average(const struct stats_history *history, usec_t now, struct stats *out);

#endif
