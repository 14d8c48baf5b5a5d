#ifndef POOL_LATENCY_H
#define POOL_LATENCY_H

#include "base/clock.h"
#include "base/inline.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Histograms of latencies: of each pool, and of all pools since the start.
 *
 * Buckets are log-linear: a bucket for each microsecond below 8, then LATENCY_STEPS buckets for
 * each power of 2, up to 71 minutes. For example, a latency of 1,000 microseconds is in the bucket
 * from 960 to 1,023. The value reported for a bucket differs from each latency in the bucket by
 * less than 6 %.
 *
 * The histograms of a pool store a block of counters for each power of 2 that has occurred. They
 * are allocated when the pool has its first latency, with LATENCY_BLOCKS_FIRST blocks (2 KiB), and
 * grow if latencies are spread over more powers of 2, to 11 KiB at most.
 */
#define LATENCY_STEPS 8
#define LATENCY_BUCKETS 240
#define LATENCY_BUCKETS_ROUND 256	/* for cheap addresses */
#define LATENCY_POWERS_ROUND (LATENCY_BUCKETS_ROUND / LATENCY_STEPS)
#define LATENCY_FULL UINT16_MAX
#define LATENCY_POWERS (LATENCY_BUCKETS / LATENCY_STEPS)
#define LATENCY_BLOCKS_FIRST 32	/* with block[0] */
/* the last minute is the current period and the last full one */
#define LATENCY_PERIOD (30 * USEC)

/* The kinds of latencies. A query outside a transaction block counts as SINGLE, and SHOW counts
   SINGLE as a query and as a transaction. */
enum latency {
	/* of clients for a server, when the client had to wait; pool->served_at_once counts the
	   others */
	LATENCY_WAIT,
	LATENCY_SINGLE,
	LATENCY_QUERY,		/* within a transaction */
	LATENCY_TRANSACTION,	/* of several queries, with the time between them */
	/* of clients, from the accepted connection to the first ReadyForQuery */
	LATENCY_LOGIN,
	LATENCY_CONNECT,	/* to a server, with TLS and login */
	LATENCY_RESTORE,	/* of a client's session state on its next server */
	LATENCIES
};

struct latency_block {
	/* total: without current */
	uint16_t current[LATENCY_STEPS], last[LATENCY_STEPS], total[LATENCY_STEPS];
};

/* Counters have 16 bits. When one is full, all current counters of its kind are halved, and until
   the end of the period a random one of 2^shift latencies of the kind is counted. */
struct latency_kind {
	/* exact numbers of latencies; total: without current; current: only if the kind is
	   sampled */
	uint64_t total, last, current;
	uint8_t shift, last_shift, total_shift;
};

struct latencies {
	usec_t period_from;
	/* pool->served_at_once at the beginning of these periods */
	uint64_t at_once_last_from, at_once_current_from;
	uint32_t random;
	/* of counters that latency_add_fast() may increment; 0: a kind is sampled */
	uint16_t limit;
	uint8_t blocks, blocks_most;
	struct latency_kind kinds[LATENCIES];
	uint8_t places[LATENCIES][LATENCY_POWERS_ROUND];	/* index of the block; 0: none */
	/* block[0] stands for blocks that do not exist: its counters are full */
	struct latency_block block[];
};

/* All pools since the start. */
struct latency_sums {
	uint64_t count[LATENCIES][LATENCY_BUCKETS_ROUND];
	uint64_t at_once;			/* of pools that have been freed */
};

struct pool;
struct pools;

static ALWAYS_INLINE unsigned latency_bucket(usec_t usec)
{
	unsigned value = (unsigned)usec, shift;

	if ((uint64_t)usec > UINT32_MAX)
		return LATENCY_BUCKETS - 1;
	shift = ((unsigned)__builtin_clz(value | LATENCY_STEPS) ^ 31) - 3;
	return shift * LATENCY_STEPS + (value >> shift);
}

/* The lowest latency in the bucket, in microseconds. */
static inline uint64_t latency_bucket_low(unsigned bucket)
{
	if (bucket < LATENCY_STEPS)
		return bucket;
	return (uint64_t)(LATENCY_STEPS + bucket % LATENCY_STEPS) << (bucket / LATENCY_STEPS - 1);
}

/* The value, in microseconds, with the least relative error for all latencies of the bucket. */
static inline uint64_t latency_bucket_value(unsigned bucket)
{
	uint64_t low = latency_bucket_low(bucket), high = latency_bucket_low(bucket + 1) - 1;

	return high == low ? low : low + low * (high - low) / (low + high);
}

/* Counts a latency in the histograms of the pool, but not in the sums of all pools. Allocates
   counters, and counts a part of the latencies if the kind is sampled. */
void latency_add_slowly(struct pool *pool, enum latency which, unsigned bucket);
/* Ends the pool's period if LATENCY_PERIOD is over. Returns whether a period was ended. */
bool latency_period_end(struct pool *pool, usec_t now);

/* The figures that SHOW LATENCIES prints, in microseconds; all are 0 without a latency. */
struct latency_figures {
	uint64_t count, p50, p90, p99, p999, max;
};
enum latency_shown {
	SHOWN_WAIT,
	SHOWN_QUERY,
	SHOWN_TRANSACTION,
	SHOWN_LOGIN,
	SHOWN_CONNECT,
	SHOWN_RESTORE,
	SHOWN_LATENCIES
};
extern const char *const latency_names[SHOWN_LATENCIES];
/* Computes the figures of a pool since its first latency or, if `pool` is NULL, of all pools since
   the start of the process; or the figures of the last minute, without pools that have been freed
   since. False: the pool has never had such a latency; `figures` NULL asks only for this. */
bool latency_read(const struct pools *pools, const struct pool *pool, enum latency_shown which,
		  bool last_minute, struct latency_figures *figures);
/* The figures of these counts. */
void latency_percentiles(const uint64_t counts[LATENCY_BUCKETS], struct latency_figures *figures);
/* Adds the counts of all pools in each bucket to counts[]. */
void latency_sum(const struct pools *pools, enum latency_shown which, bool last_minute,
		 uint64_t counts[LATENCY_BUCKETS]);

#endif
