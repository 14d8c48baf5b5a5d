/*
 * key=value lists in libpq's syntax, with one difference that configurations rely on: a quote within single quotes is doubled,
 * and a backslash is an ordinary character.
 *
 * list = [ pair *( blanks pair ) ]
 * pair = word [blanks] "=" [blanks] value
 * value = "'" *( any but "'" / "''" ) "'" / *( any but blanks )
 *
 * The text is modified in place: a value only becomes shorter.
 */
#include "conf/connstr.h"

#include <string.h>

static const char blanks[] = " \t\r\n\v\f";

/* Parses the quoted value at `text`. Returns the position after it, or NULL if the closing quote is missing. */
static char *read_quoted(char *text, char **value)
{
	char *to = text;
	char *from = text + 1;

	*value = to;
	for (;;) {
		if (*from == '\0')
			return NULL;
		if (*from == '\'') {
			if (from[1] != '\'')
				break;
			from++;
		}
		*to++ = *from++;
	}
	*to = '\0';
	return from + 1;
}

enum connstr_verdict connstr_next(char **cursor, char **key, char **value, const char **why)
{
	char *p = *cursor + strspn(*cursor, blanks);
	char *key_end;

	if (*p == '\0')
		return CONNSTR_END;
	*why = "expected key=value (a value with blanks in it must stand in 'single quotes')";
	*key = p;
	p += strcspn(p, " \t\r\n\v\f=");
	key_end = p;
	p += strspn(p, blanks);
	if (key_end == *key || *p != '=')
		return CONNSTR_BAD;
	*key_end = '\0';
	p++;
	p += strspn(p, blanks);
	if (*p == '\'') {
		p = read_quoted(p, value);
		if (!p) {
			*why = "a value begins with a single quote that nothing closes (a quote inside is doubled)";
			return CONNSTR_BAD;
		}
		if (*p && !strchr(blanks, *p)) {
			*why = "expected a blank behind a closing single quote (a quote inside is doubled)";
			return CONNSTR_BAD;
		}
	} else {
		*value = p;
		p += strcspn(p, blanks);
	}
	if (*p)
		*p++ = '\0';
	*cursor = p;
	return CONNSTR_PAIR;
}
