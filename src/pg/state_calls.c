/*
 * Calls of functions in SQL: whether PostgreSQL itself, or the catalogue of the database, has a function of that name.
 *
 * A call is a name with a parenthesis after it. Words in strings and comments count, too, as in state_text.c. What is not a call:
 *
 *	IN (...), VALUES (...)		keywords, which are in the same table as the functions
 *	INSERT INTO t (...)		COPY, AS, WITH, RECURSIVE, TABLE and EXISTS in front of the name
 *
 * A name that cannot be read (quoted with other characters, with a comment before the parenthesis) is not known.
 */
#include "pg/state_calls.h"

#include "pg/state_text.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define NAME_MOST 63

/* ---- PostgreSQL's own names ---- */

static const char *const builtins[] = {
#define BUILTIN_SIZE(size, first)
#define BUILTIN(name) name,
#include "tbl/builtin.tbl"
#undef BUILTIN
#undef BUILTIN_SIZE
};

/* The names of this size begin there. */
static const uint16_t firsts[NAME_MOST + 2] = {
#define BUILTIN_SIZE(size, first) [size] = first,
#define BUILTIN(name)
#include "tbl/builtin.tbl"
#undef BUILTIN
#undef BUILTIN_SIZE
};

/* In lower case. */
static bool is_builtin(const char *name, size_t size)
{
	size_t low = firsts[size], high = firsts[size + 1];

	while (low < high) {
		size_t middle = (low + high) / 2;
		int order = memcmp(builtins[middle], name, size);

		if (order == 0)
			return true;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* ---- texts ---- */

static bool is_in_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

/* Goes back over blanks. */
static const char *before_blanks(const char *at, const char *begin)
{
	while (at > begin && isspace((unsigned char)at[-1]))
		at--;
	return at;
}

/* Goes back over a name, quoted or not. The same place: there is none. */
static const char *before_name(const char *at, const char *begin)
{
	const char *start = at;

	if (at > begin && at[-1] == '"') {
		for (at--; at > begin && at[-1] != '"'; at--)
			;
		return at > begin ? at - 1 : start;
	}
	while (at > begin && is_in_name(at[-1]))
		at--;
	return at;
}

/* The word that ends there is one that has a name with columns after it. */
static bool names_columns(const char *end, const char *begin)
{
	static const char *const words[] = { "into", "copy", "as", "with", "recursive", "table", "exists" };
	const char *at = before_name(end, begin);

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if ((size_t)(end - at) == strlen(words[i]) && strncasecmp(at, words[i], strlen(words[i])) == 0)
			return true;
	return false;
}

/* Stands in front of a name with a dot between. Sets *at in front of all of it. */
static bool skip_qualifiers(const char **at, const char *begin, bool *is_of_catalog)
{
	static const char catalog[] = "pg_catalog";
	bool is_qualified = false;
	const char *dot, *start;

	*is_of_catalog = true;
	while ((dot = before_blanks(*at, begin)) > begin && dot[-1] == '.') {
		const char *end = before_blanks(dot - 1, begin);

		start = before_name(end, begin);
		if (start == end)
			break;
		is_qualified = true;
		*is_of_catalog = (size_t)(end - start) == strlen(catalog) && strncasecmp(start, catalog, strlen(catalog)) == 0;
		*at = start;
	}
	return is_qualified;
}

/* In lower case, into `name`. 0: it may be another name than it looks like. */
static size_t read_name(const char *at, const char *end, char name[NAME_MOST])
{
	bool is_quoted = *at == '"';
	size_t size;

	at += is_quoted;
	end -= is_quoted;
	size = (size_t)(end - at);
	if (size > NAME_MOST)
		return 0;
	for (size_t i = 0; i < size; i++) {
		if (!(isalnum((unsigned char)at[i]) || at[i] == '_') || (is_quoted && isupper((unsigned char)at[i])))
			return 0;
		name[i] = (char)tolower((unsigned char)at[i]);
	}
	return size;
}

/* `at` is at a parenthesis. */
static bool look_up_call(const char *at, const char *begin, bool has_lines, name_is_known *known, const void *context)
{
	const char *end = before_blanks(at, begin), *start, *before;
	char name[NAME_MOST];
	bool is_of_catalog;
	size_t size;

	if (end == begin)
		return true;
	/* a comment */
	if ((end - begin >= 2 && end[-1] == '/' && end[-2] == '*') || (has_lines && memchr(end, '\n', (size_t)(at - end))))
		return false;
	start = before = before_name(end, begin);
	if (start == end)
		return end[-1] != '"';
	/* a quote within a quoted name */
	if (*start == '"' && start > begin && start[-1] == '"')
		return false;
	size = read_name(start, end, name);
	if (!skip_qualifiers(&before, begin, &is_of_catalog) || is_of_catalog)
		if (size > 0 && is_builtin(name, size))
			return true;
	if (size > 0 && known && known(context, name, size))
		return true;
	return names_columns(before_blanks(before, begin), begin);
}

bool state_calls_look_up(const uint8_t *text, size_t size, name_is_known *known, const void *context)
{
	const char *begin = (const char *)text, *nul = size > 0 ? memchr(begin, 0, size) : NULL, *end = nul ? nul : begin + size, *at = begin;
	bool has_lines = false, looked = false;

	while (at < end && (at = memchr(at, '(', (size_t)(end - at))) != NULL) {
		if (!looked)
			has_lines = memmem(begin, (size_t)(end - begin), "--", 2);
		looked = true;
		if (!look_up_call(at, begin, has_lines, known, context))
			return false;
		at++;
	}
	return nul;
}
