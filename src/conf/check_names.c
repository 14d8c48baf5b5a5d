/*
 * Finds a name in an SQL text that the server resolves by search_path, for warnings of --check: an
 * operator or a function without a schema. Another user may have made an operator = in a schema of
 * search_path, and the query would execute its code. Example: "a = lower(b)" has two such names, "a
 * OPERATOR(pg_catalog.=) pg_catalog.lower(b)" has none ("Lexical Structure" in the PostgreSQL
 * documentation, with standard_conforming_strings on).
 *
 * The text is split into tokens; the kind of a name follows from the token and its neighbours.
 * There is no grammar, so the answer may be wrong in both directions for unusual text: use it only
 * for warnings.
 *
 * Some words stand for operators, which are looked up by search_path as well: "a IN (b)" is "a =
 * b".
 */
#include "conf/check_names.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum kind { END, WORD, QUOTED_WORD, LITERAL, OPERATOR, PUNCTUATION };

struct token {
	enum kind kind;
	const char *at;
	size_t size;
};

/* Words that may precede "(" without calling a function, or that the grammar maps to pg_catalog. */
static const char no_functions[] =
	"all and any array as between by case cast coalesce cross cube distinct else end except "
	"exists extract filter for from full greatest group grouping having ilike in inner "
	"intersect interval into is isnull join lateral least left like limit natural normalize "
	"not notnull nullif of offset on operator or order outer over overlay partition position "
	"returning right rollup row rows select set sets similar some substring symmetric then to "
	"treat trim union using values when where window with within xmlelement xmlforest "
	"xmlparse xmlserialize";
/* Words that stand for an operator. */
static const char operators[] = "between ilike in like nullif similar";
/* A "*" after these words means all columns. */
static const char before_star[] = "all distinct select";

static bool is_word_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c & 0x80;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool check_is_word(char c)
{
	return is_word_start(c) || is_digit(c) || c == '$';
}

static bool is_operator(char c)
{
	return c && strchr("+-*/<>=~!@#%^&|`?", c);
}

static const char *check_skip_blanks(const char *at)
{
	for (;;) {
		at += strspn(at, " \t\r\n\f\v");
		if (at[0] == '-' && at[1] == '-') {
			at += strcspn(at, "\r\n");
		} else if (at[0] == '/' && at[1] == '*') {
			/* comments nest */
			int depth = 1;

			for (at += 2; *at && depth > 0; at++) {
				if (at[0] == '/' && at[1] == '*')
					depth++, at++;
				else if (at[0] == '*' && at[1] == '/')
					depth--, at++;
			}
		} else {
			return at;
		}
	}
}

/* Returns the end of the quoted text that begins at `at`; a doubled quote is one quote of the
   text. */
static const char *skip_quoted(const char *at, bool has_escapes)
{
	char quote = *at++;

	for (; *at; at++) {
		if (has_escapes && *at == '\\' && at[1])
			at++;
		else if (*at == quote && *++at != quote)
			return at;
	}
	return at;
}

/* Returns the end of $tag$...$tag$, or NULL if `at` does not begin one. */
static const char *skip_dollar_quoted(const char *at)
{
	size_t size = 1;

	if (is_word_start(at[1]))
		while (check_is_word(at[size]) && at[size] != '$')
			size++;
	if (at[size] != '$')
		return NULL;
	size++;
	for (const char *end = at + size; (end = strchr(end, '$')) != NULL; end++)
		if (strncmp(end, at, size) == 0)
			return end + size;
	return at + strlen(at);
}

static struct token token_up_to(enum kind kind, const char *at, const char *end)
{
	return (struct token){ kind, at, (size_t)(end - at) };
}

static struct token next_token(const char *at)
{
	const char *end;

	at = check_skip_blanks(at);
	if (!*at)
		return token_up_to(END, at, at);
	if (is_word_start(*at)) {
		for (end = at; check_is_word(*end); end++)
			;
		/* the prefix of a string constant, as in E'...' */
		if (*end == '\'' && end == at + 1 && strchr("EeBbXxNn", *at))
			return token_up_to(LITERAL, at, skip_quoted(end, *at == 'E' || *at == 'e'));
		return token_up_to(WORD, at, end);
	}
	if (*at == '\'' || *at == '"')
		return token_up_to(*at == '"' ? QUOTED_WORD : LITERAL, at, skip_quoted(at, false));
	if (*at == '$' && (end = skip_dollar_quoted(at)) != NULL)
		return token_up_to(LITERAL, at, end);
	if (*at == '$' || is_digit(*at)) {
		for (end = at + 1; check_is_word(*end) || (*end == '.' && is_digit(end[1])); end++)
			;
		return token_up_to(LITERAL, at, end);
	}
	if (is_operator(*at)) {
		/* an operator ends where a comment begins */
		for (end = at + 1;
		     is_operator(*end) && strncmp(end, "--", 2) != 0 && strncmp(end, "/*", 2) != 0;
		     end++)
			;
		return token_up_to(OPERATOR, at, end);
	}
	return token_up_to(PUNCTUATION, at, at + (strncmp(at, "::", 2) == 0 ? 2 : 1));
}

static bool is_punctuation(const struct token *t, const char *text)
{
	return t->kind == PUNCTUATION && strlen(text) == t->size &&
	       strncmp(t->at, text, t->size) == 0;
}

/* Whether the token is an unquoted word of a list. */
static bool check_is_one_of(const struct token *t, const char *list)
{
	char word[32];

	if (t->kind != WORD || t->size >= sizeof(word))
		return false;
	snprintf(word, sizeof(word), "%.*s", (int)t->size, t->at);
	return text_list_has(list, word, true);
}

static bool is_star(const struct token *t, const struct token *before)
{
	return t->size == 1 && *t->at == '*' &&
	       (before->kind == END || is_punctuation(before, "(") || is_punctuation(before, ",") ||
		is_punctuation(before, ".") || check_is_one_of(before, before_star));
}

/* Whether a function is called by a name without a schema. After AS or another name the parentheses
   enclose column names, and after "::" type modifiers. */
static bool is_unqualified_call(const struct token *t, const struct token *before,
				const struct token *behind)
{
	bool is_name = t->kind == QUOTED_WORD ||
		       (t->kind == WORD && !check_is_one_of(t, no_functions));

	return is_name && is_punctuation(behind, "(") && !is_punctuation(before, ".") &&
	       !is_punctuation(before, "::") && !check_is_one_of(before, "as");
}

bool unqualified_name(const char *sql, bool only_functions, char *name, size_t size)
{
	struct token before = { END, sql, 0 }, t = next_token(sql), behind;

	for (; t.kind != END; before = t, t = behind) {
		/* a statement "SET name = value" has words and constants, but no expressions */
		if (check_is_one_of(&t, "set") &&
		    (before.kind == END || is_punctuation(&before, ";")))
			while (t.kind != END && !is_punctuation(&t, ";"))
				t = next_token(t.at + t.size);
		behind = next_token(t.at + t.size);
		/* OPERATOR(schema.op): skip to the parenthesis */
		if (check_is_one_of(&t, "operator") && is_punctuation(&behind, "(")) {
			const char *end = strchr(behind.at, ')');

			t = token_up_to(PUNCTUATION, t.at, end ? end + 1 : t.at + strlen(t.at));
			behind = next_token(t.at + t.size);
			continue;
		}
		if ((!only_functions && ((t.kind == OPERATOR && !is_star(&t, &before)) ||
					 check_is_one_of(&t, operators))) ||
		    is_unqualified_call(&t, &before, &behind)) {
			snprintf(name, size, "%.*s", (int)t.size, t.at);
			return true;
		}
	}
	return false;
}
