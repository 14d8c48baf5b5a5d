#ifndef WEB_HISTORY_H
#define WEB_HISTORY_H

#include "base/bytes.h"
#include "base/clock.h"

#include <stdint.h>

/* Figures of the whole pooler, once a second, for the graphs of the page. */
struct pools;

#define HISTORY_SECONDS 3600

/* Counters since the start, and gauges. HISTORY_EACH(X) calls X(name) for each in the order of the JSON columns. */
#define HISTORY_EACH(X) \
	X(time) X(queries) X(transactions) X(query_time) X(wait_time) X(logins) X(received) X(sent) \
	X(clients) X(waiting) X(active) X(idle) X(opening) X(pinned)
struct sample {
#define X(name) uint64_t name;
	HISTORY_EACH(X)
#undef X
};

struct history {
	struct sample *samples;		/* HISTORY_SECONDS; NULL: no memory */
	uint64_t count;			/* samples since the start: the next is samples[count % HISTORY_SECONDS] ... */
	usec_t due;			/* ... and is to be added at this time (monotonic) */
};

/* Adds a sample; `now` is monotonic, `wall` the time of the sample, which is stored in seconds. */
void history_add(struct history *history, const struct pools *pools, usec_t now, usec_t wall);
void history_free(struct history *history);
/* The number of the first sample after `since` (seconds), or history->count. */
uint64_t history_find(const struct history *history, uint64_t since);
/* Appends at most `most` samples as JSON arrays, from number `from` on. Returns the number after the last. */
uint64_t history_write(const struct history *history, uint64_t from, uint64_t most, struct bytes *out);

#endif
