/*
 * SHOW STATS, STATS_TOTALS, STATS_AVERAGES and TOTALS: what databases have done, since the start
 * and per second of the last full period. All walk the one list of counters (pool/stats.h); its
 * order is the order of the columns.
 */
#include "admin/show.h"

#include "pool/rows.h"

#include <stdio.h>

static void counter_cells(struct result *r, const struct stats *stats)
{
#define X(name) result_count(r, stats->name);
	STATS_EACH(X)
#undef X
}

enum { TOTALS = 1, AVERAGES = 2 };

static void give_database(void *context, const struct database_row *row, int which)
{
	const struct show *s = context;
	struct stats average;

	result_text(s->to, row->name);
	if (which & TOTALS)
		counter_cells(s->to, &row->stats->total);
	if (which & AVERAGES) {
		stats_average(row->stats, &average);
		counter_cells(s->to, &average);
	}
}

static void give_both(void *context, const struct database_row *row) { give_database(context, row, TOTALS | AVERAGES); }
static void give_totals(void *context, const struct database_row *row) { give_database(context, row, TOTALS); }
static void give_averages(void *context, const struct database_row *row) { give_database(context, row, AVERAGES); }

static void rows(const struct show *s, void (*give)(void *context, const struct database_row *row))
{
	struct show copy = *s;

	if (!databases_each_row(s->world->pools, give, &copy))
		result_fail(s->to);
}

void show_stats(const struct show *s)
{
	rows(s, give_both);
}

void show_stats_totals(const struct show *s)
{
	rows(s, give_totals);
}

void show_stats_averages(const struct show *s)
{
	rows(s, give_averages);
}

/* ---- TOTALS ---- */

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

	pools_sum_stats(s->world->pools, &sum);
	stats_average(&sum, &average);
	named_rows(s->to, "total", &sum.total);
	named_rows(s->to, "avg", &average);
}
