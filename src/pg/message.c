/*
 * The messages of protocol 3 by their type bytes, cursors over bodies, command tags, and errors
 * ("Message Formats", "Error and Notice Message Fields").
 *
 * A cursor never moves past the end of a body. After a read past the end it stays bad, so that a
 * parser can read all fields before it checks.
 *
 * The rows of include/tbl/message.tbl are arrays with a place for each byte, so that the row of a
 * message is one index; a byte without a row has no name and no phases. pg_answers has a row for
 * each stage of the answer to each entry of a ledger.
 *
 * The body of an error is a list of fields, each a code and a string, which ends with a zero byte.
 * A server may omit any field, and may send unknown codes, which are skipped.
 */
#include "pg/message.h"

#include "base/inline.h"

#include <string.h>

#define CLIENT_MESSAGE(id, type, name, phases, look, owes, taken_by, unread) \
	[type] = { name, type, phases, look, LEDGER_##owes },
#define SERVER_MESSAGE(id, type, name, phases, whole, taken_by)
#define ANSWER(id, to, at, does)
const struct pg_client_message pg_client_messages[256] = {
#include "tbl/message.tbl"
};
#undef CLIENT_MESSAGE

#define CLIENT_MESSAGE(id, type, name, phases, look, owes, taken_by, unread) \
	[type] = UNREAD_##unread >= UNREAD_ALWAYS && UNREAD_##unread <= UNREAD_PORTAL,
const bool pg_client_begins[256] = {
#include "tbl/message.tbl"
};
#undef CLIENT_MESSAGE
#undef SERVER_MESSAGE

#define CLIENT_MESSAGE(id, type, name, phases, look, owes, taken_by, unread)
#define SERVER_MESSAGE(id, type, name, phases, whole, taken_by) \
	[type] = { name, type, phases, whole, TAKEN_AS_##taken_by },
const struct pg_server_message pg_server_messages[256] = {
#include "tbl/message.tbl"
};
#undef SERVER_MESSAGE
#undef ANSWER

#define SERVER_MESSAGE(id, type, name, phases, whole, taken_by)
#define ANSWER(id, to, at, does) [STAGE_##at][LEDGER_##to][PGS_##id] = LEDGER_##does,
const uint8_t pg_answers[STAGES][LEDGER_NOTHING + 1][256] = {
#include "tbl/message.tbl"
};

/* ---- bodies ---- */

const uint8_t *pg_read_bytes(struct pg_cursor *c, size_t size)
{
	const uint8_t *found = c->at;

	if (c->bad || size > (size_t)(c->end - c->at)) {
		c->bad = 1;
		return NULL;
	}
	c->at += size;
	return found;
}

const char *pg_read_string(struct pg_cursor *c)
{
	const uint8_t *text = c->at;
	const uint8_t *nul;

	nul = c->bad || c->at == c->end ? NULL : memchr(text, 0, (size_t)(c->end - text));
	if (!nul) {
		c->bad = 1;
		return "";
	}
	c->at = nul + 1;
	return (const char *)text;
}

/* ---- command tags ---- */

/* Macros, because memcmp() with a constant size is inlined. */
#define BEGINS(tag, size, words) \
	((size) >= sizeof(words) && memcmp(tag, words, sizeof(words) - 1) == 0)
#define IS(tag, size, whole) ((size) == sizeof(whole) && memcmp(tag, whole, sizeof(whole)) == 0)

/* Reads a tag by its first words. */
static NEVER_INLINE enum pg_tag read_beginning(const uint8_t *tag, uint32_t size)
{
	if (BEGINS(tag, size, "ALTER "))
		return IS(tag, size, "ALTER ROLE") || IS(tag, size, "ALTER DATABASE")
			       ? TAG_ALTER_SESSIONS
			       : TAG_ALTER;
	if (BEGINS(tag, size, "CREATE ")) {
		bool is_relation = IS(tag, size, "CREATE TABLE") || IS(tag, size, "CREATE INDEX") ||
				   IS(tag, size, "CREATE SEQUENCE");

		return is_relation ? TAG_CREATE : TAG_DEFINE;
	}
	if (BEGINS(tag, size, "CLOSE "))
		return TAG_CLOSE;
	if (BEGINS(tag, size, "DROP "))
		return TAG_DROP;
	if (BEGINS(tag, size, "DEALLOCATE"))
		return TAG_DEALLOCATE;
	if (BEGINS(tag, size, "DISCARD SEQUENCES"))
		return TAG_DISCARD_SEQUENCES;
	if (BEGINS(tag, size, "DISCARD "))
		return TAG_DISCARD;
	if (BEGINS(tag, size, "LISTEN") || BEGINS(tag, size, "UNLISTEN"))
		return TAG_LISTEN;
	if (BEGINS(tag, size, "LOAD"))
		return TAG_LOAD;
	return BEGINS(tag, size, "PREPARE") ? TAG_PREPARE : TAG_NOTHING;
}

enum pg_tag pg_tag_read(const uint8_t *tag, uint32_t size)
{
	switch (size) {
	case TAG_DO_SIZE:
		return IS(tag, size, "DO") ? TAG_CODE : TAG_NOTHING;
	case TAG_SET_SIZE:
		return IS(tag, size, "SET") ? TAG_SET : TAG_NOTHING;
	case TAG_CALL_SIZE:
		if (IS(tag, size, "CALL"))
			return TAG_CODE;
		break;
	case TAG_RESET_SIZE:
		return IS(tag, size, "RESET") ? TAG_SET : TAG_NOTHING;
	case TAG_DISCARD_ALL_SIZE:
		if (IS(tag, size, "DISCARD ALL"))
			return TAG_DISCARD_ALL;
		break;
	case TAG_DEALLOCATE_ALL_SIZE:
		if (IS(tag, size, "DEALLOCATE ALL"))
			return TAG_DEALLOCATE_ALL;
		break;
	}
	return size > 0 && pg_tag_tells(tag, size) ? read_beginning(tag, size) : TAG_NOTHING;
}

/* ---- errors ---- */

enum pg_verdict pg_error_read(const uint8_t *body, size_t size, struct pg_error *out)
{
	static const struct pg_error nothing = { "", "", "", "", "" };
	struct pg_cursor cursor = pg_cursor_of(body, size);
	const char *translated = "";
	uint8_t code;

	*out = nothing;
	while ((code = pg_read_u8(&cursor)) != 0) {
		const char *text = pg_read_string(&cursor);

		switch (code) {
		case 'S': translated = text; break;
		case 'V': out->severity = text; break;
		case 'C': out->sqlstate = text; break;
		case 'M': out->message = text; break;
		case 'D': out->detail = text; break;
		case 'H': out->hint = text; break;
		default: break;
		}
	}
	if (cursor.bad || cursor.at != cursor.end) {
		*out = nothing;
		return PG_BAD;
	}
	/* V is newer than PostgreSQL 9.6 */
	if (!*out->severity)
		out->severity = translated;
	return PG_OK;
}

bool pg_error_is_fatal(const uint8_t *at, size_t n)
{
	const uint8_t *end;
	bool fatal = false;

	/* field by field, because the message may contain these words, too */
	for (; n > 1 && (end = memchr(at, 0, n)) != NULL;
	     n -= (size_t)(end + 1 - at), at = end + 1) {
		if (*at != 'S' && *at != 'V')
			continue;
		fatal = strcmp((const char *)at + 1, "FATAL") == 0 ||
			strcmp((const char *)at + 1, "PANIC") == 0;
		if (*at == 'V')
			break;		/* not translated, unlike S */
	}
	return fatal;
}
