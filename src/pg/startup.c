/*
 * The packet that opens a connection.
 *
 * It has no type byte, because version 2 had none: an Int32 length that counts
 * itself, and an Int32 code. Codes with major 1234 are requests (CancelRequest,
 * SSLRequest, GSSENCRequest), any other code is the version of a StartupMessage,
 * in which name/value pairs follow, closed by a zero byte where a name would be.
 *
 * All of this comes from a client that has proven nothing yet. So the length is
 * judged as soon as its four bytes are here, against a limit that the caller
 * sets, and nothing is looked at before the packet is whole: what a verdict
 * points at has been walked to its end, and pg_startup_pair may trust it.
 *
 * The second half reads the start-up parameter `options` as the server does: it
 * is cut at white space as in pg_split_opts and read as a command line, of which
 * only settings are meant for a connection.
 */
#include "pg/startup.h"

#include <string.h>

#define HEADER 8		/* bytes: length and code */
#define MAJOR_REQUEST 1234
#define MINOR_CANCEL 5678
#define MINOR_SSL 5679
#define MINOR_GSS 5680

static enum pg_startup_kind kind_of(uint16_t major, uint16_t minor)
{
	if (major == MAJOR_REQUEST) {
		switch (minor) {
		case MINOR_CANCEL: return STARTUP_CANCEL;
		case MINOR_SSL: return STARTUP_SSL;
		case MINOR_GSS: return STARTUP_GSS;
		default: return STARTUP_UNKNOWN;
		}
	}
	if (major == 3)
		return STARTUP_SESSION;
	return major < 3 ? STARTUP_VERSION_2 : STARTUP_UNKNOWN;
}

static enum pg_verdict bad(struct pg_startup *out, enum pg_startup_fault fault)
{
	out->fault = fault;
	return PG_BAD;
}

/* Every name has a value, and the empty name that ends the list is the last byte. */
static bool pairs_are_whole(struct pg_cursor cursor)
{
	for (;;) {
		const char *name = pg_read_string(&cursor);

		if (cursor.bad)
			return false;
		if (!*name)
			return cursor.at == cursor.end;
		pg_read_string(&cursor);
	}
}

static enum pg_verdict read_session(struct pg_cursor rest, struct pg_startup *out)
{
	if (!pairs_are_whole(rest))
		return bad(out, STARTUP_FAULT_LAYOUT);
	out->pairs = rest.at;
	out->pairs_size = (size_t)(rest.end - rest.at) - 1;
	return PG_OK;
}

static enum pg_verdict read_cancel(struct pg_cursor rest, struct pg_startup *out)
{
	out->cancel_pid = pg_read_u32(&rest);
	out->cancel_key = rest.at;
	out->cancel_key_size = (size_t)(rest.end - rest.at);
	if (rest.bad || out->cancel_key_size < PG_KEY_LEAST || out->cancel_key_size > PG_KEY_MOST)
		return bad(out, STARTUP_FAULT_HEADER);
	return PG_OK;
}

enum pg_verdict pg_startup_read(const uint8_t *p, size_t n, size_t max, struct pg_startup *out)
{
	struct pg_cursor cursor = pg_cursor_of(p, n);

	memset(out, 0, sizeof(*out));
	if (n < 4)
		return PG_MORE;
	out->size = pg_read_u32(&cursor);
	if (out->size < HEADER || out->size > max)
		return bad(out, STARTUP_FAULT_HEADER);
	if (n < out->size)
		return PG_MORE;
	cursor.end = p + out->size;
	out->major = pg_read_u16(&cursor);
	out->minor = pg_read_u16(&cursor);
	out->kind = kind_of(out->major, out->minor);
	switch (out->kind) {
	case STARTUP_SESSION:
		return read_session(cursor, out);
	case STARTUP_CANCEL:
		return read_cancel(cursor, out);
	case STARTUP_SSL:
	case STARTUP_GSS:
		return out->size == HEADER ? PG_OK : bad(out, STARTUP_FAULT_HEADER);
	case STARTUP_VERSION_2:
	case STARTUP_UNKNOWN:
		break;
	}
	return PG_OK;
}

bool pg_startup_pair(const struct pg_startup *s, size_t *at, const char **name, const char **value)
{
	struct pg_cursor cursor;

	if (*at >= s->pairs_size)
		return false;
	cursor = pg_cursor_of(s->pairs + *at, s->pairs_size - *at);
	*name = pg_read_string(&cursor);
	*value = pg_read_string(&cursor);
	*at = (size_t)(cursor.at - s->pairs);
	return !cursor.bad;
}

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The next byte of the word at *at, unescaped; -1 at its end. */
static int word_byte(const char **at)
{
	if (**at == '\\')
		(*at)++;
	else if (is_blank(**at))
		return -1;
	if (!**at)
		return -1;
	return (unsigned char)*(*at)++;
}

/* Copies the word's bytes up to `stop` (-1: up to its end). False when they do not fit or
   `stop` is not there. */
static bool word_copy(const char **at, int stop, char *to, size_t size)
{
	size_t used = 0;
	int c;

	while ((c = word_byte(at)) != stop) {
		if (c < 0 || used + 1 >= size)
			return false;
		to[used++] = (char)c;
	}
	to[used] = '\0';
	return true;
}

static const char *skip_blanks(const char *at)
{
	while (is_blank(*at))
		at++;
	return at;
}

enum pg_verdict pg_options_next(const char **text, char *name, size_t name_size, char *value, size_t value_size)
{
	const char *at = skip_blanks(*text);

	if (!*at) {
		*text = at;
		return PG_MORE;
	}
	if (word_byte(&at) != '-')
		return PG_BAD;
	switch (word_byte(&at)) {
	case 'c':
		/* As with getopt the setting is the rest of the word, or else the next word. */
		if (!*at || is_blank(*at))
			at = skip_blanks(at);
		break;
	case '-':
		break;
	default:
		return PG_BAD;
	}
	if (!word_copy(&at, '=', name, name_size) || !*name || !word_copy(&at, -1, value, value_size))
		return PG_BAD;
	*text = at;
	return PG_OK;
}
