/*
 * SHOW STATS, STATS_TOTALS, STATS_AVERAGES and TOTALS: counters of databases since the start, and averages of the last period
 * (pool/stats.h).
 */
#include "show/rows.h"

#include "conn/world.h"

#include <stdio.h>

static void give_database(void *context, const struct database_row *database)
{
	const struct show *s = context;
	struct stats_row row = { .database = database->name, .total = database->stats->total };

	stats_average(database->stats, s->world->now, &row.average);
	show_row(context, &row);
}

void show_stats(const struct show *s)
{
	struct show copy = *s;

	if (!databases_each_row(s->world->pools, give_database, &copy))
		result_fail(s->to);
}

/* ---- TOTALS ---- */

/* The names of the counters in SHOW TOTALS, in the order of STATS_EACH. */
static const char *const total_names[] = {
	"server_assignment_count", "xact_count", "query_count", "client_bytes", "server_bytes", "xact_time",
	"query_time", "wait_time", "ps_client_parse_count", "ps_server_parse_count", "ps_bind_count",
	"client_login_count",
};

static void named_rows(const struct show *s, const char *prefix, const struct stats *stats)
{
#define X(counter) stats->counter,
	const uint64_t values[] = { STATS_EACH(X) };
#undef X
	char name[64];

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		snprintf(name, sizeof(name), "%s_%s", prefix, total_names[i]);
		show_row(s, &(struct count_row){ name, values[i] });
	}
}

void show_totals(const struct show *s)
{
	struct stats_history sum;
	struct stats average;

	pools_sum_stats(s->world->pools, &sum);
	stats_average(&sum, s->world->now, &average);
	named_rows(s, "total", &sum.total);
	named_rows(s, "avg", &average);
}
