/*
 * The failures of logins at servers: each host remembers the last one, and the log has each once.
 *
 * A dial tries hosts until one works. dial_note_attempt() notes at each host whether it works, and
 * why not (struct host_failure): SHOW HOSTS and the alarms read it. When the last host of the list
 * has failed the server ends, and core/reap.c calls dial_note_failure().
 *
 * A server that is down is tried twice a second for each pool. The first failure has its line in
 * the log; a failure like the one before it has a line of level DEBUG, because an alarm tells that
 * the failure lasts. Another error has a line again.
 *
 * A refused password or a missing database says that the host works: it concerns the pool.
 */
#include "backend/dial.h"

#include <string.h>

bool dial_note_attempt(const struct server *s, struct host *host, enum close_reason why,
		       const char *text)
{
	const struct dial *d = s->dial;
	struct host_attempt attempt = { .why = why,
					.kind = FAILURE_PASSING,
					.text = text,
					.database = s->pooled.pool->database,
					.tls = d->tls };

	if (d->refusal == SERVER_REFUSAL_FULL)
		attempt.kind = FAILURE_FULL;
	else if (d->refusal == SERVER_REFUSAL_AWAY)
		attempt.kind = FAILURE_BUSY;
	return host_note_attempt(host, &attempt, s->peer.world->now);
}

/* Returns the error of the last login of the pool; NULL: it has succeeded, or there was none. */
static const char *known_error(const struct pool *pool)
{
	const struct server_info *info = pool->server_info;

	return pool->login_failed && info ? info->failure.text : NULL;
}

bool dial_failed_alike(const struct server *s, const char *text)
{
	const struct pool *pool = s->pooled.pool;
	const struct host *host = s->pooled.host;
	const char *of_pool = known_error(pool);

	return (of_pool && strstr(of_pool, text)) ||
	       (host && host_is_failing(host, s->peer.world->now) &&
		strstr(host->failure.text, text));
}

/* Whether the reason says something about the host, not about one user, database or setting. */
static bool is_of_host(const struct dial *d, enum close_reason why)
{
	switch (why) {
	case REASON_CONNECT_FAILED:
	case REASON_CONNECT_TIMED_OUT:
	case REASON_CONNECT_TIMEOUT:
	case REASON_DNS_FAILED:
	case REASON_SERVER_CRASHED:
	case REASON_SERVER_TLS:
		return true;
	default:
		return d->refusal != SERVER_REFUSAL_OTHER;
	}
}

/* Returns the host that the dial tries. A server that has ended is counted at no host any more.
   NULL: a RELOAD has changed the list. */
static struct host *dial_host(const struct server *s)
{
	const struct pool *pool = s->pooled.pool;
	const struct dial *d = s->dial;
	unsigned at = d->order ? d->order[d->order_at] : 0;

	if (s->pooled.is_watcher)
		return pool->host;
	return d->order && d->generation == pool->generation && at < pool->place_count
		       ? pool->places[at].host
		       : NULL;
}

bool dial_note_failure(struct server *s, enum close_reason why, const char *text)
{
	const struct dial *d = s->dial;
	struct host *host = d && !s->pooled.is_cancel ? dial_host(s) : NULL;
	const char *before = known_error(s->pooled.pool);
	enum fault fault = close_reason_rows[why].fault;

	if (!host)
		return false;
	if (is_of_host(d, why))
		return dial_note_attempt(s, host, why, text);
	if (fault != FAULT_SERVER)
		return false;
	dial_note_attempt(s, host, REASON_NONE, "");
	return before && strcmp(before, text) == 0;
}
