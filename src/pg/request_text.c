/*
 * The SQL text of a message. A Query is its text. A Parse has the name of its statement first, and
 * the types of its parameters after the text. A Bind has the names of a portal and of a statement;
 * the text came with an earlier Parse, and the caller finds it. All other messages have no text.
 * See "Message Formats" of the PostgreSQL documentation.
 *
 * A text ends with its first NUL. If a message has arrived in part, the text is the part of it that
 * has arrived.
 */
#include "pg/request_text.h"

#include "pg/message.h"

void request_text_set(struct request_text *text, const uint8_t *body, size_t size)
{
	const uint8_t *nul = size > 0 ? memchr(body, 0, size) : NULL;

	text->at = body;
	text->size = nul ? (size_t)(nul + 1 - body) : size;
	text->types = body + text->size;
	text->types_size = size - text->size;
}

bool request_text_read(const struct pg_frame *f, request_text_finder *find, const void *client,
		       struct request_text *text)
{
	struct pg_cursor body;
	const uint8_t *after;
	const char *name;

	*text = (struct request_text){ .at = NULL };
	switch (f->type) {
	case PGC_QUERY:
		request_text_set(text, f->body, f->here);
		return true;
	case PGC_PARSE:
		after = request_text_after_name(f->body, f->here);
		if (after)
			request_text_set(text, after, f->here - (size_t)(after - f->body));
		return true;
	case PGC_BIND:
		body = pg_cursor_of(f->body, f->here);
		/* of the portal, then of the statement */
		pg_read_string(&body);
		name = pg_read_string(&body);
		if (!body.bad)
			find(client, name, text);
		return true;
	default:
		return false;
	}
}
