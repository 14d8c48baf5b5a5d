/*
 * The last hour in seconds, in a ring of fixed size. It exists while the endpoint is on.
 */
#include "web/history.h"

#include "base/mem.h"
#include "pool/rows.h"

#include <inttypes.h>

void history_add(struct history *h, const struct pools *pools, usec_t now, usec_t wall)
{
	struct stats_history stats;
	struct pool_row sum;
	struct sample *s;

	/* no drift: one sample for each second, unless the process was stopped */
	h->due = now - h->due < USEC ? h->due + USEC : now + USEC;
	if (!h->samples)
		h->samples = mem_try(HISTORY_SECONDS * sizeof(*h->samples));
	if (!h->samples)
		return;
	pools_sum_stats(pools, &stats);
	pools_sum_row(pools, now, &sum);
	s = &h->samples[h->count++ % HISTORY_SECONDS];
	*s = (struct sample){
		.time = (uint64_t)(wall / USEC), .queries = stats.total.query_count, .transactions = stats.total.xact_count,
		.query_time = stats.total.query_time, .wait_time = stats.total.wait_time, .logins = stats.total.client_login_count,
		.received = stats.total.received, .sent = stats.total.sent,
		.clients = (uint64_t)(sum.clients + sum.waiting), .waiting = (uint64_t)sum.waiting, .active = (uint64_t)sum.active,
		.idle = (uint64_t)(sum.idle + sum.used + sum.tested), .opening = (uint64_t)sum.login, .pinned = (uint64_t)sum.pinned,
	};
}

void history_free(struct history *h)
{
	mem_free(h->samples);
	*h = (struct history){ .samples = NULL };
}

uint64_t history_find(const struct history *h, uint64_t since)
{
	uint64_t first = h->count > HISTORY_SECONDS ? h->count - HISTORY_SECONDS : 0, at = h->count;

	while (at > first && h->samples[(at - 1) % HISTORY_SECONDS].time > since)
		at--;
	return at;
}

uint64_t history_write(const struct history *h, uint64_t from, uint64_t most, struct bytes *out)
{
	uint64_t first = h->count > HISTORY_SECONDS ? h->count - HISTORY_SECONDS : 0, end;

	from = from < first ? first : from;
	end = h->count - from > most ? from + most : h->count;
	for (uint64_t i = from; i < end; i++) {
		const struct sample *s = &h->samples[i % HISTORY_SECONDS];
		char before = '[';

#define X(name) bytes_append_format(out, "%c%" PRIu64, before, s->name), before = ',';
		HISTORY_EACH(X)
#undef X
		bytes_append_text(out, i + 1 < h->count ? "],\n" : "]");
	}
	return end;
}
