/*
 * Durations in the log, and the texts of queries.
 *
 * The text belongs to the first message of a request; a Bind stands for the statement that it names. Values of parameters are in no text.
 */
#include "relay/duration.h"

#include "base/log.h"
#include "base/printable.h"
#include "pool/drain.h"
#include "pg/message.h"
#include "prepared/statements.h"

#include <string.h>

#define TEXT_MOST 1000			/* bytes of a text */

void duration_log(struct client *c, enum duration what, usec_t took)
{
	static const char *const names[] = { [DURATION_QUERY] = "query", [DURATION_TRANSACTION] = "transaction", [DURATION_WAIT] = "wait" };
	const struct settings *set = &c->peer.world->conf->settings;
	const int64_t least[] = {
		[DURATION_QUERY] = set->log_min_duration_query, [DURATION_TRANSACTION] = set->log_min_duration_transaction,
		[DURATION_WAIT] = set->log_min_duration_wait,
	};
	char who[256], text[TEXT_MOST + 1] = "";
	bool has_text = what == DURATION_QUERY && set->log_query_text && c->query_text;

	if (least[what] >= 0 && took >= least[what] * (USEC / 1000) && client_is_sampled(c, set->log_sample)) {
		if (has_text)
			printable_text(c->query_text, text, sizeof(text));
		log_info("%s %s duration: %lld.%03lld ms (server pid %u)%s%s", client_text(c, who, sizeof(who)), names[what], (long long)took / 1000,
			 (long long)took % 1000, (unsigned)server_of(c->pooled.link)->backend_pid, has_text ? " statement: " : "", text);
	}
	/* the transaction is over when this call returns */
	if (what == DURATION_TRANSACTION && drain_due(c->peer.world->pools, c->pooled.pool->database, c->pooled.login_user->name, c->peer.id, c->peer.world->now))
		peer_post(&c->peer, POST_LEAVE);
	/* the next request may begin without a text that is known */
	if (what == DURATION_QUERY) {
		mem_free(c->query_text);
		c->query_text = NULL;
	}
}

/* Returns the text of the statement that a Bind names, with a NUL; NULL: unknown. */
static const uint8_t *bound_text(const struct client *c, const uint8_t *body, size_t here)
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
	return known && known->sent ? known->sent->body : NULL;
}

void duration_note_text(struct client *c, uint8_t type, const uint8_t *body, size_t here)
{
	const uint8_t *text = body;
	size_t size;

	mem_free(c->query_text);
	c->query_text = NULL;
	if (type == PGC_BIND) {
		text = bound_text(c, body, here);
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
	size = strnlen((const char *)text, here <= TEXT_MOST ? here : TEXT_MOST + 1);
	c->query_text = mem_try(size + 1);
	if (!c->query_text)
		return;
	memcpy(c->query_text, text, size);
	c->query_text[size] = '\0';
}
