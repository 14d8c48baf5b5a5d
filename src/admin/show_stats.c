/*
 * SHOW STATS, STATS_TOTALS, STATS_AVERAGES and TOTALS: what databases have done, since the start
 * and per second of the last full period. All walk the one list of counters (pool/stats.h); its
 * order is the order of the columns.
 */
#include "admin/show.h"

#include "base/mem.h"

#include <stdio.h>

static void counter_cells(struct result *r, const struct stats *stats)
{
#define X(name) result_count(r, stats->name);
	STATS_EACH(X)
#undef X
}

enum { TOTALS = 1, AVERAGES = 2 };

static void rows(const struct show *s, int which)
{
	size_t count;
	struct database **sorted = show_databases_sorted(s->world, &count);
	struct stats average;

	if (!sorted)
		result_fail(s->to);
	for (size_t i = 0; i < count; i++) {
		const struct stats_history *history = &sorted[i]->stats;

		result_text(s->to, sorted[i]->name);
		if (which & TOTALS)
			counter_cells(s->to, &history->total);
		if (which & AVERAGES) {
			stats_average(history, &average);
			counter_cells(s->to, &average);
		}
	}
	mem_free(sorted);
}

void show_stats(const struct show *s)
{
	rows(s, TOTALS | AVERAGES);
}

void show_stats_totals(const struct show *s)
{
	rows(s, TOTALS);
}

void show_stats_averages(const struct show *s)
{
	rows(s, AVERAGES);
}

/* ---- TOTALS ---- */

/* All databases as if they were one. Their periods end together; the shorter first one of a
   database that is new counts for as long as the others'. */
static void sum_up(const struct world *world, struct stats_history *sum)
{
	*sum = (struct stats_history){ .older_at = 0 };
	for (const struct database *d = world->pools->databases; d; d = d->hh.next) {
		const struct stats_history *one = &d->stats;

		stats_add(&sum->total, &one->total);
		if (one->older_at == 0)
			continue;
		stats_add(&sum->newer, &one->newer);
		stats_add(&sum->older, &one->older);
		if (one->newer_at > sum->newer_at)
			sum->newer_at = one->newer_at;
		if (sum->older_at == 0 || one->older_at < sum->older_at)
			sum->older_at = one->older_at;
	}
}

/* The names that the counters have here, in their order. */
static const char *const total_names[] = {
	"server_assignment_count", "xact_count", "query_count", "client_bytes", "server_bytes", "xact_time",
	"query_time", "wait_time", "ps_client_parse_count", "ps_server_parse_count", "ps_bind_count",
	"client_login_count",
};

static void named_rows(struct result *r, const char *prefix, const struct stats *stats)
{
	char name[64];
	size_t i = 0;

#define X(counter)								\
	snprintf(name, sizeof(name), "%s_%s", prefix, total_names[i++]);	\
	result_text(r, name);							\
	result_count(r, stats->counter);
	STATS_EACH(X)
#undef X
}

void show_totals(const struct show *s)
{
	struct stats_history sum;
	struct stats average;

	sum_up(s->world, &sum);
	stats_average(&sum, &average);
	named_rows(s->to, "total", &sum.total);
	named_rows(s->to, "avg", &average);
}
