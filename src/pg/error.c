/*
 * ErrorResponse and NoticeResponse, read.
 *
 * The body is a run of fields, each a code byte and a string, closed by a zero
 * byte ("Error and Notice Message Fields"). A server may leave out any field,
 * and may send codes that did not exist when this was written: missing ones
 * read as "", unknown ones are passed over. Bytes that are no such run give
 * PG_BAD and a result with all texts "", so that even a caller that only
 * wants something to log has nothing to fear from it.
 */
#include "pg/error.h"

#include <string.h>

static void take_field(struct pg_error *out, uint8_t code, const char *text, const char **localised)
{
	switch (code) {
	case 'S': *localised = text; break;
	case 'V': out->severity = text; break;
	case 'C': out->sqlstate = text; break;
	case 'M': out->message = text; break;
	case 'D': out->detail = text; break;
	case 'H': out->hint = text; break;
	default: break;
	}
}

enum pg_verdict pg_error_read(const uint8_t *body, size_t size, struct pg_error *out)
{
	static const struct pg_error nothing = { "", "", "", "", "" };
	struct pg_cursor cursor = pg_cursor_of(body, size);
	const char *localised = "";
	uint8_t code;

	*out = nothing;
	while ((code = pg_read_u8(&cursor)) != 0)
		take_field(out, code, pg_read_string(&cursor), &localised);
	if (cursor.bad || cursor.at != cursor.end) {
		*out = nothing;
		return PG_BAD;
	}
	/* V, which is never translated, is newer than 9.6; S may be in the server's language. */
	if (!*out->severity)
		out->severity = localised;
	return PG_OK;
}

bool pg_error_is_fatal(const uint8_t *at, size_t n)
{
	const uint8_t *end;
	bool fatal = false;

	/* field by field, because the text of an error may have these words in it, too */
	for (; n > 1 && (end = memchr(at, 0, n)) != NULL; n -= (size_t)(end + 1 - at), at = end + 1) {
		if (*at != 'S' && *at != 'V')
			continue;
		fatal = strcmp((const char *)at + 1, "FATAL") == 0 || strcmp((const char *)at + 1, "PANIC") == 0;
		if (*at == 'V')
			break;		/* not translated: the last word */
	}
	return fatal;
}
