#ifndef WEB_HISTORY_H
#define WEB_HISTORY_H

#include "base/bytes.h"
#include "base/clock.h"
#include "pool/pool.h"

#include <stdint.h>

/* Figures of all pools together and of some pools, once a second, for the graphs of the page. */
#define HISTORY_SECONDS 3600
#define HISTORY_POOLS 32		/* pools with a history, of 374 kB each */

/* Gauges, latencies in microseconds (of all pools: in this second; of a pool: in the last minute),
   and counters, in the order of the JSON columns. The bytes of a pool are its database's.
   HISTORY_EACH(X) calls X(type, name) for each. */
#define HISTORY_EACH(X) \
	X(uint32_t, time) \
	X(uint32_t, clients) X(uint32_t, waiting) X(uint32_t, active) X(uint32_t, idle) \
		X(uint32_t, opening) X(uint32_t, pinned) X(uint32_t, query_p50) \
			X(uint32_t, query_p99) X(uint32_t, transaction_p50) \
				X(uint32_t, transaction_p99) X(uint32_t, wait_p50) \
					X(uint32_t, wait_p99) X(uint64_t, queries) \
						X(uint64_t, transactions) X(uint64_t, logins) \
							X(uint64_t, closes) X(uint64_t, received) \
								X(uint64_t, sent)
#define HISTORY_NONE UINT32_MAX		/* a latency: there was none */
struct sample {
#define X(type, name) type name;
	HISTORY_EACH(X)
#undef X
};

struct history {
	/* samples since the start: the next is samples[count % HISTORY_SECONDS] */
	uint64_t count;
	/* monotonic: when history_of_pool() was last called; 0: never */
	usec_t asked;
	struct sample samples[HISTORY_SECONDS];	/* memory that is not written yet is not used */
};

struct histories {
	struct history *all;			/* of all pools; NULL: no memory */
	/* latencies of all pools at the last sample, by HISTORY_LATENCIES; NULL: no memory */
	uint64_t (*before)[LATENCY_BUCKETS];
	usec_t due;				/* monotonic: the next sample */
};

/* Adds a sample to each history; `now` is monotonic, `wall` the time of the sample, which is stored
   in seconds. The first HISTORY_POOLS pools in use get a history; pool->history is freed with the
   pool. */
void histories_add(struct histories *histories, struct pools *pools, usec_t now, usec_t wall);
/* Frees all histories. */
void histories_free(struct histories *histories, struct pools *pools);
/* Returns the history of a pool. Begins a history if the pool has none; if there are HISTORY_POOLS,
   the history whose last call is oldest is freed. NULL: no memory. */
struct history *history_of_pool(struct pools *pools, struct pool *pool, usec_t now);
/* The number of the oldest sample that is left. */
static inline uint64_t history_first(const struct history *h)
{
	return h->count > HISTORY_SECONDS ? h->count - HISTORY_SECONDS : 0;
}
/* The number of the first sample after `since` (seconds), or history->count. */
static inline uint64_t history_find(const struct history *h, uint64_t since)
{
	uint64_t at = h->count;

	while (at > history_first(h) && h->samples[(at - 1) % HISTORY_SECONDS].time > since)
		at--;
	return at;
}
/* Appends at most `most` samples as JSON arrays, each after a comma, from number `from` on. Returns
   the number after the last. */
uint64_t history_write(const struct history *history, uint64_t from, uint64_t most,
		       struct bytes *out);

#endif
