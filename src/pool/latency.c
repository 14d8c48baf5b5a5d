#include "pool/latency.h"

#include "pool/pool.h"
#include "base/mem.h"

#include <string.h>

#define BLOCKS_MOST (LATENCIES * LATENCY_POWERS + 1)

const char *const latency_names[SHOWN_LATENCIES] = { "wait",  "query",	 "transaction",
						     "login", "connect", "restore" };

/* The kinds that are added up for each name. */
static const struct { enum latency first, second; } parts[SHOWN_LATENCIES] = {
	[SHOWN_WAIT] = { LATENCY_WAIT, LATENCY_WAIT },
	[SHOWN_QUERY] = { LATENCY_SINGLE, LATENCY_QUERY },
	[SHOWN_TRANSACTION] = { LATENCY_SINGLE, LATENCY_TRANSACTION },
	[SHOWN_LOGIN] = { LATENCY_LOGIN, LATENCY_LOGIN },
	[SHOWN_CONNECT] = { LATENCY_CONNECT, LATENCY_CONNECT },
	[SHOWN_RESTORE] = { LATENCY_RESTORE, LATENCY_RESTORE },
};

/* The pool has no histograms, or no block for this power. Returns false without memory: the latency
   is in the sums only. */
static NEVER_INLINE bool latency_make_place(struct pool *pool, enum latency which, unsigned power)
{
	struct latencies *l = pool->latencies;

	if (!l || l->blocks == l->blocks_most) {
		unsigned most = !l				   ? LATENCY_BLOCKS_FIRST
				: l->blocks_most > BLOCKS_MOST / 2 ? BLOCKS_MOST
								   : l->blocks_most * 2u;
		struct latencies *more = mem_resize(l, sizeof(*l) + most * sizeof(l->block[0]));

		if (!more)
			return false;
		if (!l) {
			*more = (struct latencies){ .random = 1,
						    .limit = LATENCY_FULL,
						    .blocks = 1 };
			memset(more->block[0].current, 0xff, sizeof(more->block[0].current));
		}
		more->blocks_most = (uint8_t)most;
		pool->latencies = l = more;
	}
	l->block[l->blocks] = (struct latency_block){ .current = { 0 } };
	l->places[which][power] = l->blocks++;
	return true;
}

static ALWAYS_INLINE uint32_t next_random(struct latencies *l)
{
	l->random = l->random * 1664525u + 1013904223u;
	return l->random >> 8;
}

static struct latency_block *block_of(struct latencies *l, unsigned which, unsigned power)
{
	return l->places[which][power] ? &l->block[l->places[which][power]] : NULL;
}

/* Begins to sample a kind, or halves the part that is sampled. Odd counters are rounded at random:
   rounding down would lose the rare latencies that high percentiles consist of. */
static NEVER_INLINE void halve_current(struct latencies *l, enum latency which)
{
	struct latency_kind *k = &l->kinds[which];
	bool begins = k->shift++ == 0;

	l->limit = 0;
	for (unsigned p = 0; p < LATENCY_POWERS; p++) {
		struct latency_block *b = block_of(l, which, p);

		for (unsigned i = 0; b && i < LATENCY_STEPS; i++) {
			k->current += begins ? b->current[i] : 0;
			b->current[i] = (uint16_t)((b->current[i] + (next_random(l) & 1)) / 2);
		}
	}
}

NEVER_INLINE void latency_add_slowly(struct pool *pool, enum latency which, unsigned bucket)
{
	unsigned power = bucket / LATENCY_STEPS;
	struct latencies *l = pool->latencies;
	struct latency_kind *k;
	uint16_t *counter;

	if (!l || l->places[which][power] == 0) {
		if (!latency_make_place(pool, which, power))
			return;
		l = pool->latencies;
	}
	k = &l->kinds[which];
	if (k->shift > 0) {
		k->current++;
		if (next_random(l) & ((1u << k->shift) - 1))
			return;
	}
	counter = &block_of(l, which, power)->current[bucket % LATENCY_STEPS];
	if (*counter == LATENCY_FULL) {
		halve_current(l, which);
		k->current += k->shift == 1;
	}
	++*counter;
}

/* Adds to a total. A remainder that the scale of the totals cannot express is rounded at random, so
   that totals are right on average. */
static void add_scaled(struct latencies *l, unsigned which, struct latency_block *b, unsigned step,
		       uint64_t more)
{
	struct latency_kind *k = &l->kinds[which];
	uint64_t sum;

	for (;;) {
		sum = b->total[step] +
		      ((more + (next_random(l) & ((1u << k->total_shift) - 1))) >> k->total_shift);
		if (sum <= LATENCY_FULL)
			break;
		k->total_shift++;
		for (unsigned p = 0; p < LATENCY_POWERS; p++) {
			struct latency_block *each = block_of(l, which, p);

			for (unsigned i = 0; each && i < LATENCY_STEPS; i++)
				each->total[i] =
					(uint16_t)((each->total[i] + (next_random(l) & 1)) / 2);
		}
	}
	b->total[step] = (uint16_t)sum;
}

bool latency_period_end(struct pool *pool, usec_t now)
{
	struct latencies *l = pool->latencies;

	if (!l || now - l->period_from < LATENCY_PERIOD)
		return false;
	for (unsigned which = 0; which < LATENCIES; which++) {
		struct latency_kind *k = &l->kinds[which];
		uint64_t exact = 0;

		for (unsigned p = 0; p < LATENCY_POWERS; p++) {
			struct latency_block *b = block_of(l, which, p);

			for (unsigned i = 0; b && i < LATENCY_STEPS; i++) {
				exact += b->current[i];
				if (b->current[i] > 0)
					add_scaled(l, which, b, i,
						   (uint64_t)b->current[i] << k->shift);
				b->last[i] = b->current[i];
				b->current[i] = 0;
			}
		}
		k->last = k->shift > 0 ? k->current : exact;
		k->total += k->last;
		k->last_shift = k->shift;
		k->current = 0;
		k->shift = 0;
	}
	l->limit = LATENCY_FULL;
	l->at_once_last_from = l->at_once_current_from;
	l->at_once_current_from = pool->served_at_once;
	l->period_from = now;
	return true;
}

/* ---- reading ---- */

/* Adds the counts of a kind in each bucket, which are estimates if the kind is sampled. Returns the
   exact number of latencies. */
static uint64_t add_kind(const struct pool *pool, enum latency which, bool last_minute,
			 uint64_t counts[LATENCY_BUCKETS])
{
	struct latencies *l = pool->latencies;
	const struct latency_kind *k;
	uint64_t at_once = 0, exact = 0;

	if (which == LATENCY_WAIT)
		at_once = pool->served_at_once - (l && last_minute ? l->at_once_last_from : 0);
	counts[0] += at_once;
	if (!l)
		return at_once;
	k = &l->kinds[which];
	for (unsigned p = 0; p < LATENCY_POWERS; p++) {
		const struct latency_block *b = block_of(l, which, p);

		for (unsigned i = 0; b && i < LATENCY_STEPS; i++) {
			exact += b->current[i];
			counts[p * LATENCY_STEPS + i] += ((uint64_t)b->current[i] << k->shift) +
							 (last_minute ? (uint64_t)b->last[i]
										<< k->last_shift
								      : (uint64_t)b->total[i]
										<< k->total_shift);
		}
	}
	return at_once + (last_minute ? k->last : k->total) + (k->shift > 0 ? k->current : exact);
}

static uint64_t add_shown(const struct pool *pool, enum latency_shown which, bool last_minute,
			  uint64_t counts[LATENCY_BUCKETS])
{
	uint64_t exact = add_kind(pool, parts[which].first, last_minute, counts);

	if (parts[which].second != parts[which].first)
		exact += add_kind(pool, parts[which].second, last_minute, counts);
	return exact;
}

void latency_percentiles(const uint64_t counts[LATENCY_BUCKETS], struct latency_figures *f)
{
	uint64_t n = 0, below = 0;

	for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
		n += counts[i];
	*f = (struct latency_figures){ .count = n };
	if (n == 0)
		return;
	/* the rank is the number of latencies that are not above the percentile, rounded up */
	const struct { uint64_t rank, *to;
	} wanted[] = {
		{ n - n / 2, &f->p50 },	    { n - n / 10, &f->p90 }, { n - n / 100, &f->p99 },
		{ n - n / 1000, &f->p999 }, { n, &f->max },
	};
	for (unsigned i = 0, bucket = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		for (; bucket < LATENCY_BUCKETS - 1 && below + counts[bucket] < wanted[i].rank;
		     bucket++)
			below += counts[bucket];
		*wanted[i].to = latency_bucket_value(bucket);
	}
}

static bool has_shown(const struct pool *pool, enum latency_shown which)
{
	static const uint8_t none[LATENCY_POWERS_ROUND];
	const struct latencies *l = pool->latencies;

	if (which == SHOWN_WAIT && pool->served_at_once > 0)
		return true;
	return l && (memcmp(l->places[parts[which].first], none, sizeof(none)) != 0 ||
		     memcmp(l->places[parts[which].second], none, sizeof(none)) != 0);
}

void latency_sum(const struct pools *pools, enum latency_shown which, bool last_minute,
		 uint64_t counts[LATENCY_BUCKETS])
{
	const uint64_t *first = pools->latency_sums.count[parts[which].first],
		       *second = pools->latency_sums.count[parts[which].second];

	if (last_minute) {
		LIST_EACH(node, &pools->all)
			add_shown(LIST_OBJECT(node, struct pool, node), which, true, counts);
		return;
	}
	for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
		counts[i] += first[i] + (second != first ? second[i] : 0);
	if (which == SHOWN_WAIT) {
		counts[0] += pools->latency_sums.at_once;
		LIST_EACH(node, &pools->all)
			counts[0] += LIST_OBJECT(node, struct pool, node)->served_at_once;
	}
}

bool latency_read(const struct pools *pools, const struct pool *pool, enum latency_shown which,
		  bool last_minute, struct latency_figures *f)
{
	uint64_t counts[LATENCY_BUCKETS] = { 0 }, exact = 0;
	bool has = !pool || has_shown(pool, which);

	if (!f)
		return has;
	if (pool)
		exact = add_shown(pool, which, last_minute, counts);
	else
		latency_sum(pools, which, last_minute, counts);
	latency_percentiles(counts, f);
	if (pool)
		f->count = exact;
	return has;
}
