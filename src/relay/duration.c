/*
 * Durations in the log and in the statistics of queries, and the texts of queries.
 *
 * The text belongs to the first message of a request; a Bind stands for the statement that it
 * names. Values of parameters are in no text.
 */
#include "relay/duration.h"

#include "base/inline.h"
#include "base/log.h"
#include "base/printable.h"
#include "pool/drain.h"
#include "pg/message.h"
#include "prepared/prepared.h"
#include "relay/query_stats.h"

#include <stdio.h>
#include <string.h>

/* The line of a duration, in JSON with its values as members. */
static void log_duration(const struct client *c, const char *what, usec_t took, const char *text)
{
	unsigned pid = (unsigned)server_of(c->pooled.link)->backend_pid;
	char who[256], number[32], shown[16];

	snprintf(number, sizeof(number), "%lld.%03lld", (long long)took / 1000,
		 (long long)took % 1000);
	client_text(c, who, sizeof(who));
	log_member("duration_of", what, false);
	log_member("duration_ms", number, true);
	snprintf(shown, sizeof(shown), "%u", pid);
	log_member("server_pid", shown, true);
	if (*text)
		log_member("statement", text, false);
	log_info("%s %s duration: %s ms (server pid %u)%s%s", who, what, number, pid,
		 *text ? " statement: " : "", text);
}

NEVER_INLINE void duration_log(struct client *c, enum duration what, usec_t took)
{
	static const char *const names[] = { [DURATION_QUERY] = "query",
					     [DURATION_TRANSACTION] = "transaction",
					     [DURATION_WAIT] = "wait" };
	const struct settings *set = &c->peer.world->conf->settings;
	const int64_t least[] = {
		[DURATION_QUERY] = set->log_min_duration_query,
		[DURATION_TRANSACTION] = set->log_min_duration_transaction,
		[DURATION_WAIT] = set->log_min_duration_wait,
	};
	char text[QUERY_TEXT_MOST + 1] = "";
	bool has_text = what == DURATION_QUERY && set->log_query_text && c->query;

	if (least[what] >= 0 && took >= least[what] * (USEC / 1000) &&
	    client_is_sampled(c, set->log_sample)) {
		if (has_text)
			printable_text(c->query->text, text, sizeof(text));
		log_duration(c, names[what], took, text);
	}
	/* the transaction is over when this call returns */
	if (what == DURATION_TRANSACTION &&
	    drain_due(c->peer.world->pools, c->pooled.pool->database, c->pooled.login_user->name,
		      c->pooled.link->host, c->peer.id, c->peer.world->now))
		peer_post(&c->peer, POST_LEAVE);
	if (what != DURATION_QUERY)
		return;
	if (c->peer.world->queries.stats && c->query)
		query_stats_add(c->peer.world->queries.stats, c->query->statement, c->query->text,
				took);
	/* the text of the next request may be unknown */
	mem_free(c->query);
	c->query = NULL;
}

NEVER_INLINE void duration_note_text(struct client *c, uint8_t type, const uint8_t *body,
				     size_t here)
{
	struct pg_frame f = { .type = type, .size = (uint32_t)here, .body = body, .here = here };
	struct request_text text;
	size_t size;

	mem_free(c->query);
	c->query = NULL;
	prepared_request_text(c, &f, &text);
	if (!text.at)
		return;
	/* without the NUL */
	size = strnlen((const char *)text.at, text.size);
	size = size <= QUERY_TEXT_MOST ? size : QUERY_TEXT_MOST + 1;
	c->query = mem_try(sizeof(*c->query) + size + 1);
	if (!c->query)
		return;
	c->query->statement = text.statement && text.statement->known ? text.statement->number : 0;
	memcpy(c->query->text, text.at, size);
}
