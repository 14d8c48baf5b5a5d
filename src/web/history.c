/*
 * The last hour in seconds, in rings of fixed size. They exist while the endpoint is on.
 *
 * Latencies of all pools are the growth of their histograms in the last second. The histograms of a
 * pool do not count each second: its latencies equal SHOW POOLS.
 *
 * Invariant: at most HISTORY_POOLS pools have a history.
 */
#include "web/history.h"

#include "base/mem.h"
#include "pool/rows.h"

#include <string.h>

static const enum latency_shown shown[] = { SHOWN_QUERY, SHOWN_TRANSACTION, SHOWN_WAIT };
#define HISTORY_LATENCIES (sizeof(shown) / sizeof(shown[0]))

static struct pool *history_pool_at(struct list *node)
{
	return LIST_OBJECT(node, struct pool, node);
}

static uint32_t limited(uint64_t value)
{
	return value < HISTORY_NONE ? (uint32_t)value : HISTORY_NONE - 1;
}

/* ---- samples ---- */

static struct sample sample_of(const struct pool_row *row,
			       const struct latency_figures latencies[HISTORY_LATENCIES],
			       usec_t wall)
{
	uint32_t percentiles[2 * HISTORY_LATENCIES];

	for (size_t i = 0; i < HISTORY_LATENCIES; i++) {
		percentiles[2 * i] = latencies[i].count > 0 ? limited(latencies[i].p50)
							    : HISTORY_NONE;
		percentiles[2 * i + 1] = latencies[i].count > 0 ? limited(latencies[i].p99)
								: HISTORY_NONE;
	}
	return (struct sample){
		.time = (uint32_t)(wall / USEC),
		.clients = (uint32_t)(row->clients + row->waiting),
		.waiting = (uint32_t)row->waiting,
		.active = (uint32_t)row->active,
		.idle = (uint32_t)(row->idle + row->used + row->tested),
		.opening = (uint32_t)row->login,
		.pinned = (uint32_t)row->pinned,
		.query_p50 = percentiles[0],
		.query_p99 = percentiles[1],
		.transaction_p50 = percentiles[2],
		.transaction_p99 = percentiles[3],
		.wait_p50 = percentiles[4],
		.wait_p99 = percentiles[5],
	};
}

/* Times only grow, because readers ask for samples after a time. A second sample in one second
   takes the place of the first; if the wall clock was set back, the history begins again. */
static void history_add(struct history *h, const struct sample *sample)
{
	if (h->count > 0) {
		uint32_t last = h->samples[(h->count - 1) % HISTORY_SECONDS].time;

		if (last > sample->time)
			h->count = 0;
		else
			h->count -= last == sample->time;
	}
	h->samples[h->count++ % HISTORY_SECONDS] = *sample;
}

/* The latencies since the last call. */
static void latencies_since(struct histories *h, const struct pools *pools,
			    struct latency_figures latencies[HISTORY_LATENCIES])
{
	for (size_t i = 0; i < HISTORY_LATENCIES; i++) {
		uint64_t counts[LATENCY_BUCKETS] = { 0 }, grown[LATENCY_BUCKETS];

		latency_sum(pools, shown[i], false, counts);
		for (unsigned bucket = 0; bucket < LATENCY_BUCKETS; bucket++)
			grown[bucket] = counts[bucket] - h->before[i][bucket];
		memcpy(h->before[i], counts, sizeof(counts));
		latency_percentiles(grown, &latencies[i]);
	}
}

static void add_all(struct histories *h, const struct pools *pools, usec_t now, usec_t wall)
{
	struct latency_figures latencies[HISTORY_LATENCIES];
	struct stats_history stats;
	struct sample sample;
	struct pool_row sum;

	latencies_since(h, pools, latencies);
	pools_sum_row(pools, now, &sum);
	pools_sum_stats(pools, &stats);
	sample = sample_of(&sum, latencies, wall);
	sample.queries = stats.total.query_count;
	sample.transactions = stats.total.xact_count;
	sample.logins = stats.total.client_login_count;
	sample.closes = pools->closes;
	sample.received = stats.total.received;
	sample.sent = stats.total.sent;
	history_add(h->all, &sample);
}

static void add_pool(const struct pool *pool, usec_t now, usec_t wall)
{
	struct latency_figures latencies[HISTORY_LATENCIES], total;
	struct sample sample;
	struct pool_row row;

	for (size_t i = 0; i < HISTORY_LATENCIES; i++)
		latency_read(pool->pools, pool, shown[i], true, &latencies[i]);
	pool_row_of(pool, now, &row);
	sample = sample_of(&row, latencies, wall);
	latency_read(pool->pools, pool, SHOWN_QUERY, false, &total);
	sample.queries = total.count;
	latency_read(pool->pools, pool, SHOWN_TRANSACTION, false, &total);
	sample.transactions = total.count;
	latency_read(pool->pools, pool, SHOWN_LOGIN, false, &total);
	sample.logins = total.count;
	sample.closes = pool->closes;
	sample.received = pool->database->stats.total.received;
	sample.sent = pool->database->stats.total.sent;
	history_add(pool->history, &sample);
}

/* ---- life ---- */

static size_t count_of_pools(const struct pools *pools)
{
	size_t count = 0;

	LIST_EACH(node, &pools->all)
		count += history_pool_at(node)->history != NULL;
	return count;
}

void histories_add(struct histories *h, struct pools *pools, usec_t now, usec_t wall)
{
	size_t count = count_of_pools(pools);

	/* At the beginning of the next second of the wall clock. A fixed distance between two
	   samples would drift over the limit of a second, and two samples would have the same time:
	   the page divides by the difference. */
	h->due = now + USEC - wall % USEC;
	if (!h->before)
		h->before = mem_try(HISTORY_LATENCIES * sizeof(*h->before));
	if (!h->all)
		h->all = mem_try(sizeof(*h->all));
	if (h->before && h->all)
		add_all(h, pools, now, wall);
	LIST_EACH(node, &pools->all) {
		struct pool *pool = history_pool_at(node);

		if (!pool->history && count < HISTORY_POOLS && pool->idle_since == 0 &&
		    !pool->database->is_console)
			count += (pool->history = mem_try(sizeof(*pool->history))) != NULL;
		if (pool->history)
			add_pool(pool, now, wall);
	}
}

static void history_forget(struct pool *pool)
{
	mem_free(pool->history);
	pool->history = NULL;
}

void histories_free(struct histories *h, struct pools *pools)
{
	LIST_EACH(node, &pools->all)
		history_forget(history_pool_at(node));
	mem_free(h->all);
	mem_free(h->before);
	*h = (struct histories){ .all = NULL };
}

struct history *history_of_pool(struct pools *pools, struct pool *pool, usec_t now)
{
	struct pool *oldest = NULL;

	if (!pool->history && count_of_pools(pools) >= HISTORY_POOLS) {
		LIST_EACH(node, &pools->all)
			if (history_pool_at(node)->history &&
			    (!oldest ||
			     history_pool_at(node)->history->asked < oldest->history->asked))
				oldest = history_pool_at(node);
		history_forget(oldest);
	}
	if (!pool->history)
		pool->history = mem_try(sizeof(*pool->history));
	if (pool->history)
		pool->history->asked = now;
	return pool->history;
}

/* ---- reading ---- */

static void write_sample(const struct sample *s, struct bytes *out)
{
	char before = '[';

	bytes_append_text(out, ",\n");
#define X(type, name) \
	bytes_append_u8(out, (uint8_t)before); \
	if (sizeof(type) == sizeof(uint32_t) && s->name == HISTORY_NONE) \
		bytes_append_text(out, "null"); \
	else \
		bytes_append_decimal(out, s->name); \
	before = ',';
	HISTORY_EACH(X)
#undef X
	bytes_append_u8(out, ']');
}

uint64_t history_write(const struct history *h, uint64_t from, uint64_t most, struct bytes *out)
{
	uint64_t end;

	from = from < history_first(h) ? history_first(h) : from > h->count ? h->count : from;
	end = h->count - from > most ? from + most : h->count;
	for (uint64_t i = from; i < end; i++)
		write_sample(&h->samples[i % HISTORY_SECONDS], out);
	return end;
}
