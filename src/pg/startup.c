/*
 * The first packet of a connection ("StartupMessage" in "Message Formats").
 *
 * The packet has no type byte, because version 2 had none: an Int32 length that counts itself, and an Int32 code. Codes with major 1234 are requests
 * (CancelRequest, SSLRequest, GSSENCRequest), other codes are the version of a StartupMessage, with name/value pairs and a zero byte at the end.
 *
 * The client is not authenticated yet. The length is compared with the caller's limit as soon as its four bytes have arrived, and the rest is read
 * when the packet is complete: the pairs have been checked to their end, and pg_startup_pair() relies on that.
 *
 * The start-up parameter `options` is split at white space as in the server's pg_split_opts(), and read as a command line with settings only.
 */
#include "pg/startup.h"

#include <string.h>

#define HEADER 8		/* bytes: length and code */
#define MAJOR_REQUEST 1234
#define MINOR_CANCEL 5678
#define MINOR_SSL 5679
#define MINOR_GSS 5680

static enum pg_verdict bad(struct pg_startup *out, enum pg_startup_fault fault)
{
	out->fault = fault;
	return PG_BAD;
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
	if (out->major == MAJOR_REQUEST && out->minor == MINOR_CANCEL) {
		out->kind = STARTUP_CANCEL;
		out->cancel_pid = pg_read_u32(&cursor);
		out->cancel_key = cursor.at;
		out->cancel_key_size = (size_t)(cursor.end - cursor.at);
		if (cursor.bad || out->cancel_key_size < PG_KEY_LEAST || out->cancel_key_size > PG_KEY_MOST)
			return bad(out, STARTUP_FAULT_HEADER);
	} else if (out->major == MAJOR_REQUEST && (out->minor == MINOR_SSL || out->minor == MINOR_GSS)) {
		out->kind = out->minor == MINOR_SSL ? STARTUP_SSL : STARTUP_GSS;
		if (out->size != HEADER)
			return bad(out, STARTUP_FAULT_HEADER);
	} else if (out->major == 3) {
		out->kind = STARTUP_SESSION;
		out->pairs = cursor.at;
		out->pairs_size = (size_t)(cursor.end - cursor.at) - 1;
		/* every name has a value, and the last byte is the empty name that ends the list */
		while (*pg_read_string(&cursor))
			pg_read_string(&cursor);
		if (cursor.bad || cursor.at != cursor.end) {
			out->pairs = NULL;
			out->pairs_size = 0;
			return bad(out, STARTUP_FAULT_LAYOUT);
		}
	} else {
		out->kind = out->major < 3 ? STARTUP_VERSION_2 : STARTUP_UNKNOWN;
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

/* Returns the next byte of the word at *at, unescaped; -1: the word ends. */
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

/* Copies the bytes of the word before `stop` (-1: all bytes). False: too many bytes, or no `stop`. */
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
		/* as with getopt, the setting is the rest of the word, or the next word */
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
