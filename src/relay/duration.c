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
#include "prepared/statements.h"
#include "relay/query_stats.h"

#include <string.h>

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
	char who[256], text[QUERY_TEXT_MOST + 1] = "";
	bool has_text = what == DURATION_QUERY && set->log_query_text && c->query;

	if (least[what] >= 0 && took >= least[what] * (USEC / 1000) &&
	    client_is_sampled(c, set->log_sample)) {
		if (has_text)
			printable_text(c->query->text, text, sizeof(text));
		log_info("%s %s duration: %lld.%03lld ms (server pid %u)%s%s",
			 client_text(c, who, sizeof(who)), names[what], (long long)took / 1000,
			 (long long)took % 1000, (unsigned)server_of(c->pooled.link)->backend_pid,
			 has_text ? " statement: " : "", text);
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
	/* the next request may begin without a text that is known */
	mem_free(c->query);
	c->query = NULL;
}

/* Returns the text of the statement that a Bind names, with a NUL; NULL: unknown. *number: the
   number of a shared statement. */
static const uint8_t *duration_bound_text(const struct client *c, const uint8_t *body, size_t here,
					  uint64_t *number)
{
	const uint8_t *end = here > 0 ? memchr(body, 0, here) : NULL, *name = end ? end + 1 : NULL;
	const struct prepared_client *own = c->prepared;
	const struct prepared_name *known;

	end = name ? memchr(name, 0, here - (size_t)(name - body)) : NULL;
	if (!end || !own)
		return NULL;
	if (end == name)
		return own->has_text && bytes_size(&own->text) > 0 ? bytes_front(&own->text) : NULL;
	known = name_find(own, (const char *)name, (size_t)(end + 1 - name));
	if (!known || !known->sent)
		return NULL;
	*number = known->sent->known ? known->sent->number : 0;
	return known->sent->body;
}

NEVER_INLINE void duration_note_text(struct client *c, uint8_t type, const uint8_t *body,
				     size_t here)
{
	const uint8_t *text = body;
	uint64_t statement = 0;
	size_t size;

	mem_free(c->query);
	c->query = NULL;
	if (type == PGC_BIND) {
		text = duration_bound_text(c, body, here, &statement);
		here = text ? strlen((const char *)text) : 0;
	} else if (type == PGC_PARSE) {
		text = here > 0 ? memchr(body, 0, here) : NULL;
		text = text ? text + 1 : NULL;
		here -= text ? (size_t)(text - body) : 0;
	} else if (type != PGC_QUERY) {
		text = NULL;
	}
	if (!text)
		return;
	size = strnlen((const char *)text, here <= QUERY_TEXT_MOST ? here : QUERY_TEXT_MOST + 1);
	c->query = mem_try(sizeof(*c->query) + size + 1);
	if (!c->query)
		return;
	c->query->statement = statement;
	memcpy(c->query->text, text, size);
}
