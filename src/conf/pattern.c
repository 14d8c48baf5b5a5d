/*
 * Regular expressions, by the C library's POSIX extended ones.
 *
 * PostgreSQL has an engine of its own, whose "advanced" expressions are a superset. A rule that decides who gets in
 * must not mean something else here than there, so what the library has under another name is translated (\d, \m, \M, \y,
 * \A, \Z), and what it lacks, or would read as something else, is refused: look-ahead and options "(?", the lazy
 * quantifiers, back references inside the expression, escapes with letters or digits that are not known.
 */
#include "conf/pattern.h"

#include "base/mem.h"

#include <regex.h>
#include <stdio.h>
#include <string.h>

struct pattern {
	regex_t regex;
};

#define WIDEST 12		/* bytes of the longest translation of an escape */

/* What PostgreSQL's escape \letter is called here; NULL: nothing. */
static const char *escape_of(char letter)
{
	switch (letter) {
	case 'd': return "[[:digit:]]";
	case 'D': return "[^[:digit:]]";
	case 's': return "[[:space:]]";
	case 'S': return "[^[:space:]]";
	case 'w': return "[[:alnum:]_]";
	case 'W': return "[^[:alnum:]_]";
	case 'm': return "\\<";
	case 'M': return "\\>";
	case 'y': return "\\b";
	case 'Y': return "\\B";
	case 'A': return "\\`";
	case 'Z': return "\\'";
	default: return NULL;
	}
}

static bool is_letter_or_digit(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Copies the [bracket expression] at `from` to *to, and moves *to. Returns what is behind it; NULL: it does not end, or holds a
   backslash, which is an escape in PostgreSQL and a plain byte here. */
static const char *copy_bracket(const char *from, char **to)
{
	const char *at = from + 1;

	if (*at == '^')
		at++;
	if (*at == ']')
		at++;
	for (; *at != ']'; at++) {
		if (*at == '\0' || *at == '\\')
			return NULL;
		/* [:class:], [.collating.], [=equivalence=] */
		if (*at == '[' && (at[1] == ':' || at[1] == '.' || at[1] == '=')) {
			char end[] = { at[1], ']', '\0' };

			at = strstr(at + 2, end);
			if (!at)
				return NULL;
			at++;
		}
	}
	memcpy(*to, from, (size_t)(at + 1 - from));
	*to += at + 1 - from;
	return at + 1;
}

/* Translates into `to`, which has room. NULL, or why it cannot. */
static const char *translate(const char *from, char *to)
{
	const char *word;
	char last = '(';		/* a quantifier must not stand at the beginning */

	while (*from) {
		if (*from == '[') {
			from = copy_bracket(from, &to);
			if (!from)
				return "its [brackets] are not closed, or hold a backslash";
			last = ']';
			continue;
		}
		if (*from == '(' && from[1] == '?')
			return "expressions with \"(?\" are not supported";
		if (strchr("*+?", *from) && strchr("(|^*+?}", last))
			return "a quantifier stands behind nothing, or behind another (lazy ones are not supported)";
		last = *from;
		if (*from != '\\') {
			*to++ = *from++;
			continue;
		}
		word = escape_of(from[1]);
		if (!word && (from[1] == '\0' || is_letter_or_digit(from[1])))
			return "it holds an escape that is not supported";
		if (word)
			to = stpcpy(to, word);
		else
			*to++ = '\\', *to++ = from[1];
		from += 2;
		last = 'a';
	}
	*to = '\0';
	return NULL;
}

struct pattern *pattern_new(const char *text, char *why, size_t why_size)
{
	struct pattern *p = mem_try(sizeof(*p));
	char *posix = mem_try(strlen(text) * WIDEST + 1);
	const char *fault = "out of memory";
	int error;

	if (p && posix)
		fault = translate(text, posix);
	if (fault) {
		snprintf(why, why_size, "%s", fault);
	} else if ((error = regcomp(&p->regex, posix, REG_EXTENDED)) != 0) {
		regerror(error, &p->regex, why, why_size);
		fault = why;
	}
	mem_free(posix);
	if (!fault)
		return p;
	mem_free(p);
	return NULL;
}

void pattern_free(struct pattern **pattern)
{
	if (!*pattern)
		return;
	regfree(&(*pattern)->regex);
	mem_free(*pattern);
	*pattern = NULL;
}

bool pattern_matches(const struct pattern *pattern, const char *text)
{
	return regexec(&pattern->regex, text, 0, NULL, 0) == 0;
}

bool pattern_captures(const struct pattern *pattern, const char *text, long *start, size_t *size)
{
	regmatch_t found[2];

	if (regexec(&pattern->regex, text, 2, found, 0) != 0)
		return false;
	*start = found[1].rm_so;
	*size = found[1].rm_so < 0 ? 0 : (size_t)(found[1].rm_eo - found[1].rm_so);
	return true;
}

bool pattern_has_group(const struct pattern *pattern)
{
	return pattern->regex.re_nsub > 0;
}
