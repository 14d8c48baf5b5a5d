/*
 * The first packet of a connection ("StartupMessage" in "Message Formats").
 *
 * The packet has no type byte, because version 2 had none: an Int32 length that counts itself, and
 * an Int32 code. Codes with major 1234 are requests (CancelRequest, SSLRequest, GSSENCRequest),
 * other codes are the version of a StartupMessage, with name/value pairs and a zero byte at the
 * end.
 *
 * The client is not authenticated yet. The length is compared with the caller's limit as soon as
 * its four bytes have arrived, and the rest is read when the packet is complete: the pairs have
 * been checked to their end, and pg_startup_pair() relies on that.
 *
 * The start-up parameter `options` is split at white space as in the server's pg_split_opts(), and
 * read as a command line with settings only.
 */
#include "pg/startup.h"

#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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
		if (cursor.bad || out->cancel_key_size < PG_KEY_LEAST ||
		    out->cancel_key_size > PG_KEY_MOST)
			return bad(out, STARTUP_FAULT_HEADER);
	} else if (out->major == MAJOR_REQUEST &&
		   (out->minor == MINOR_SSL || out->minor == MINOR_GSS)) {
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

static bool startup_is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Returns the next byte of the word at *at, unescaped; -1: the word ends. */
static int word_byte(const char **at)
{
	if (**at == '\\')
		(*at)++;
	else if (startup_is_blank(**at))
		return -1;
	if (!**at)
		return -1;
	return (unsigned char)*(*at)++;
}

/* Copies the bytes of the word before `stop` (-1: all bytes). False: too many bytes, or no
   `stop`. */
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

static const char *startup_skip_blanks(const char *at)
{
	while (startup_is_blank(*at))
		at++;
	return at;
}

enum pg_verdict pg_options_next(const char **text, char *name, size_t name_size, char *value,
				size_t value_size)
{
	const char *at = startup_skip_blanks(*text);

	if (!*at) {
		*text = at;
		return PG_MORE;
	}
	if (word_byte(&at) != '-')
		return PG_BAD;
	switch (word_byte(&at)) {
	case 'c':
		/* as with getopt, the setting is the rest of the word, or the next word */
		if (!*at || startup_is_blank(*at))
			at = startup_skip_blanks(at);
		break;
	case '-':
		break;
	default:
		return PG_BAD;
	}
	if (!word_copy(&at, '=', name, name_size) || !*name ||
	    !word_copy(&at, -1, value, value_size))
		return PG_BAD;
	*text = at;
	return PG_OK;
}

/* ---- values of parameters ---- */

/*
 * Values of parameters in the spelling of the server ("Parameter Names and Values", "Character Set
 * Support", "Date/Time Output").
 *
 * Boolean values are on, off, true, false, yes, no, 1 and 0 in any case, and each unique prefix of
 * one of these words. Values of an enumeration are compared without regard to case. PostgreSQL
 * compares only letters and digits of the name of a character set: for "utf-8" in its start-up
 * message the client is told "UTF8" before any server has been asked.
 *
 * DateStyle has two parts: how dates are written (ISO, SQL, Postgres, German), and the order of
 * their fields (YMD, DMY, MDY). A value may have one part, and the session keeps the other, so that
 * the effect of a value depends on the server connection. Words are as in the server's
 * check_datestyle(): in any case, with commas between them; EURO... is DMY, US and NONEURO... are
 * MDY, and German implies DMY if the value has no order.
 */

const char *pg_boolean_spelled(const char *value)
{
	static const struct {
		const char *word;
		/* characters that distinguish the word from the others */
		size_t least;
		const char *spelled;
	} words[] = {
		{ "true", 1, "on" }, { "yes", 1, "on" }, { "on", 2, "on" }, { "1", 1, "on" },
		{ "false", 1, "off" }, { "no", 1, "off" }, { "off", 2, "off" }, { "0", 1, "off" },
	};
	size_t size = strlen(value);

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (size >= words[i].least && size <= strlen(words[i].word) &&
		    strncasecmp(value, words[i].word, size) == 0)
			return words[i].spelled;
	return NULL;
}

/* ---- character sets ---- */

#define CLEAN_MOST 64			/* more than any name has */

struct alias {
	const char *clean;		/* lower case, letters and digits only */
	const char *spelled;
};

/* in the order of `clean` */
static const struct alias aliases[] = {
	{ "abc", "WIN1258" },
	{ "alt", "WIN866" },
	{ "big5", "BIG5" },
	{ "euccn", "EUC_CN" },
	{ "eucjis2004", "EUC_JIS_2004" },
	{ "eucjp", "EUC_JP" },
	{ "euckr", "EUC_KR" },
	{ "euctw", "EUC_TW" },
	{ "gb18030", "GB18030" },
	{ "gbk", "GBK" },
	{ "iso88591", "LATIN1" },
	{ "iso885910", "LATIN6" },
	{ "iso885913", "LATIN7" },
	{ "iso885914", "LATIN8" },
	{ "iso885915", "LATIN9" },
	{ "iso885916", "LATIN10" },
	{ "iso88592", "LATIN2" },
	{ "iso88593", "LATIN3" },
	{ "iso88594", "LATIN4" },
	{ "iso88595", "ISO_8859_5" },
	{ "iso88596", "ISO_8859_6" },
	{ "iso88597", "ISO_8859_7" },
	{ "iso88598", "ISO_8859_8" },
	{ "iso88599", "LATIN5" },
	{ "johab", "JOHAB" },
	{ "koi8", "KOI8R" },
	{ "koi8r", "KOI8R" },
	{ "koi8u", "KOI8U" },
	{ "latin1", "LATIN1" },
	{ "latin10", "LATIN10" },
	{ "latin2", "LATIN2" },
	{ "latin3", "LATIN3" },
	{ "latin4", "LATIN4" },
	{ "latin5", "LATIN5" },
	{ "latin6", "LATIN6" },
	{ "latin7", "LATIN7" },
	{ "latin8", "LATIN8" },
	{ "latin9", "LATIN9" },
	{ "mskanji", "SJIS" },
	{ "muleinternal", "MULE_INTERNAL" },
	{ "shiftjis", "SJIS" },
	{ "shiftjis2004", "SHIFT_JIS_2004" },
	{ "sjis", "SJIS" },
	{ "sqlascii", "SQL_ASCII" },
	{ "tcvn", "WIN1258" },
	{ "tcvn5712", "WIN1258" },
	{ "uhc", "UHC" },
	{ "unicode", "UTF8" },
	{ "utf8", "UTF8" },
	{ "vscii", "WIN1258" },
	{ "win", "WIN1251" },
	{ "win1250", "WIN1250" },
	{ "win1251", "WIN1251" },
	{ "win1252", "WIN1252" },
	{ "win1253", "WIN1253" },
	{ "win1254", "WIN1254" },
	{ "win1255", "WIN1255" },
	{ "win1256", "WIN1256" },
	{ "win1257", "WIN1257" },
	{ "win1258", "WIN1258" },
	{ "win866", "WIN866" },
	{ "win874", "WIN874" },
	{ "win932", "SJIS" },
	{ "win936", "GBK" },
	{ "win949", "UHC" },
	{ "win950", "BIG5" },
	{ "windows1250", "WIN1250" },
	{ "windows1251", "WIN1251" },
	{ "windows1252", "WIN1252" },
	{ "windows1253", "WIN1253" },
	{ "windows1254", "WIN1254" },
	{ "windows1255", "WIN1255" },
	{ "windows1256", "WIN1256" },
	{ "windows1257", "WIN1257" },
	{ "windows1258", "WIN1258" },
	{ "windows866", "WIN866" },
	{ "windows874", "WIN874" },
	{ "windows932", "SJIS" },
	{ "windows936", "GBK" },
	{ "windows949", "UHC" },
	{ "windows950", "BIG5" },
};

static int startup_compare(const void *clean, const void *alias)
{
	return strcmp(clean, ((const struct alias *)alias)->clean);
}

/* Returns unknown names unchanged, and "UNICODE", which old drivers use. */
static const char *encoding_spelled(const char *name)
{
	char clean[CLEAN_MOST];
	const struct alias *found;
	size_t size = 0;

	if (strcmp(name, "UNICODE") == 0)
		return name;
	for (const char *at = name; *at; at++) {
		if (!isalnum((unsigned char)*at))
			continue;
		if (size == sizeof(clean) - 1)
			return name;
		clean[size++] = (char)tolower((unsigned char)*at);
	}
	clean[size] = 0;
	found = bsearch(clean, aliases, sizeof(aliases) / sizeof(aliases[0]), sizeof(aliases[0]),
			startup_compare);
	return found ? found->spelled : name;
}

const char *pg_spelled(const char *name, const char *value)
{
	static const char *const styles[] = { "postgres", "postgres_verbose", "sql_standard",
					      "iso_8601" };
	const char *spelled = NULL;

	if (text_equal_fold(name, "client_encoding"))
		return encoding_spelled(value);
	if (text_equal_fold(name, "standard_conforming_strings"))
		spelled = pg_boolean_spelled(value);
	for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++)
		if (text_equal_fold(name, "IntervalStyle") && text_equal_fold(value, styles[i]))
			spelled = styles[i];
	return spelled ? spelled : value;
}

/* ---- DateStyle ---- */

struct halves {
	const char *style, *order;	/* in the server's spelling; NULL: not in the value */
	bool order_is_implied;
};

enum half { HALF_STYLE, HALF_ORDER };

static const struct word {
	const char *text, *spelling;
	enum half half;
	bool is_beginning;		/* longer words match, too */
} words[] = {
	{ "ISO", "ISO", HALF_STYLE, false },
	{ "SQL", "SQL", HALF_STYLE, false },
	{ "POSTGRES", "Postgres", HALF_STYLE, true },
	{ "GERMAN", "German", HALF_STYLE, false },
	{ "YMD", "YMD", HALF_ORDER, false },
	{ "DMY", "DMY", HALF_ORDER, false },
	{ "EURO", "DMY", HALF_ORDER, true },
	{ "MDY", "MDY", HALF_ORDER, false },
	{ "US", "MDY", HALF_ORDER, false },
	{ "NONEURO", "MDY", HALF_ORDER, true },
};

/* Adds the word of `size` bytes. False: the word is unknown, or contradicts another word. */
static bool startup_add_word(struct halves *h, const char *at, size_t size)
{
	const struct word *w = NULL;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && !w; i++) {
		size_t length = strlen(words[i].text);

		if ((words[i].is_beginning ? size >= length : size == length) &&
		    strncasecmp(at, words[i].text, length) == 0)
			w = &words[i];
	}
	if (!w)
		return false;
	if (w->half == HALF_STYLE) {
		if (h->style && h->style != w->spelling)
			return false;
		h->style = w->spelling;
		if (!h->order && strcmp(w->spelling, "German") == 0) {
			h->order = "DMY";
			h->order_is_implied = true;
		}
		return true;
	}
	if (h->order && !h->order_is_implied && strcmp(h->order, w->spelling) != 0)
		return false;
	h->order = w->spelling;
	h->order_is_implied = false;
	return true;
}

static bool read_halves(const char *text, struct halves *h)
{
	static const char blanks[] = " \t\n\r\f\v";

	*h = (struct halves){ 0 };
	for (const char *at = text;; at++) {
		size_t size;

		at += strspn(at, blanks);
		size = strcspn(at, ", \t\n\r\f\v");
		if (!startup_add_word(h, at, size))
			return false;
		at += size;
		at += strspn(at, blanks);
		if (*at != ',')
			return !*at;
	}
}

bool pg_datestyle_over(const char *before, const char *asked, char full[PG_DATESTYLE_MOST])
{
	struct halves old, new;

	if (!read_halves(before, &old) || !old.style || !old.order || !read_halves(asked, &new))
		return false;
	snprintf(full, PG_DATESTYLE_MOST, "%s, %s", new.style ? new.style : old.style,
		 new.order ? new.order : old.order);
	return true;
}
