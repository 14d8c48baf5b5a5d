/*
 * Statistics of a database: totals that only grow, and their values at the ends of the last two periods.
 *
 * An average is what has been added since the start of the last full period, divided by the time since then, or, for times, by the number of
 * transactions, queries or assignments. So it covers one to two periods, as in PgBouncer. Before the first period has ended the average
 * covers the time since the creation of the history and one second more, so that the first moments do not divide by nearly zero.
 *
 * Invariant: newer >= older in every field, and newer_at > older_at as soon as one period has ended. A history begins with
 * newer_at = its creation and older_at = 0, which means that no period has ended yet.
 */
#include "pool/stats.h"

void stats_add(struct stats *sum, const struct stats *more)
{
#define X(name) sum->name += more->name;
	STATS_EACH(X)
#undef X
}

void stats_period_end(struct stats_history *history, usec_t now)
{
	history->older = history->newer;
	history->older_at = history->newer_at;
	history->newer = history->total;
	history->newer_at = now;
}

/* grown * USEC / duration, without the product that could overflow. */
static uint64_t per_second(uint64_t grown, uint64_t duration)
{
	return grown / duration * (uint64_t)USEC + grown % duration * (uint64_t)USEC / duration;
}

static uint64_t each(uint64_t time, uint64_t count)
{
	return count ? time / count : 0;
}

usec_t stats_since(const struct stats_history *history)
{
	return history->older_at > 0 ? history->older_at : history->newer_at - USEC;
}

void stats_average(const struct stats_history *history, usec_t now, struct stats *out)
{
	const struct stats *to = &history->total, *from = &history->older;
	uint64_t duration;

	*out = (struct stats){ 0 };
	if (now <= stats_since(history))
		return;
	duration = (uint64_t)(now - stats_since(history));
#define X(name) out->name = per_second(to->name - from->name, duration);
	STATS_EACH(X)
#undef X
	out->xact_time = each(to->xact_time - from->xact_time, to->xact_count - from->xact_count);
	out->query_time = each(to->query_time - from->query_time, to->query_count - from->query_count);
	out->wait_time = each(to->wait_time - from->wait_time, to->server_assignment_count - from->server_assignment_count);
}
