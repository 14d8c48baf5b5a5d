#ifndef RELAY_QUERY_STATS_H
#define RELAY_QUERY_STATS_H

#include "base/hash.h"
#include "base/list.h"
#include "base/mem.h"
#include "pool/latency.h"

/*
 * Executions and times of queries (query_stats), for SHOW STATEMENTS. A shared prepared statement
 * has an entry of its own; other texts share an entry if they differ only in literals. For example,
 * SELECT 1 and SELECT 22 are the entry SELECT ?.
 */
/* entries; then the entry that was not used for the longest time makes room */
#define QUERY_STATS_MOST 1000
#define QUERY_TEXT_MOST 1000		/* bytes of a text */

struct query_entry {
	UT_hash_handle hh;
	struct list used;
	uint64_t executions, total;	/* total: microseconds */
	uint32_t counts[LATENCY_BUCKETS];
	/* the number of the shared statement; 0: a text. The key begins here */
	uint64_t statement;
	char text[];			/* "" for a statement */
};

struct query_stats {
	struct query_entry *table;	/* uthash, in the order of creation */
	struct list used;		/* the entry that was used last is the last */
};

/* NULL: no memory. */
static inline struct query_stats *query_stats_new(void)
{
	struct query_stats *stats = mem_try(sizeof(*stats));

	if (stats)
		list_init(&stats->used);
	return stats;
}
/* NULL is allowed. */
void query_stats_free(struct query_stats **stats);
/* A query has taken this time. `statement`: see struct query_entry; `text` is the beginning of the
   query. */
void query_stats_add(struct query_stats *stats, uint64_t statement, const char *text, usec_t took);
/* Returns the entry of a shared statement, or NULL. */
const struct query_entry *query_stats_find(const struct query_stats *stats, uint64_t statement);
/* Returns the number of entries; NULL is allowed. */
static inline unsigned query_stats_count(const struct query_stats *stats)
{
	return stats ? HASH_COUNT(stats->table) : 0;
}
/* Returns the 99th percentile in microseconds. */
static inline uint64_t query_entry_p99(const struct query_entry *e)
{
	uint64_t rank = e->executions - e->executions / 100;
	unsigned bucket = 0;

	for (; bucket < LATENCY_BUCKETS - 1 && e->counts[bucket] < rank; bucket++)
		rank -= e->counts[bucket];
	return latency_bucket_value(bucket);
}

#endif
