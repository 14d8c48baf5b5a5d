/*
 * Whether a text may run code that pgweir does not know: then the text is unproven
 * (state/session_state.c).
 *
 * The walk over the text (sql_uses.c) says where code may run. Each way in which the grammar of
 * PostgreSQL (gram.y) runs code has a rule here. KNOWN means: a function of PostgreSQL
 * (tbl/builtin.tbl) without a schema or in pg_catalog, or a function of the catalogue as it was
 * read (state_functions.c), whose effects count wherever its name is a word of the text. CATALOGUE
 * means: the effects of the called functions count for each text, or for each text that writes, and
 * are read with the catalogue. A text proves nothing about changes of the catalogue by other
 * connections since the last reading: when a reading finds a change, all servers of the database
 * are reset before their next client (state/session_functions.c; doc/sessions.md, Limits).
 *
 * Each item is a way to run code; the indented lines are its rule.
 *
 * - f(x), f(DISTINCT x ORDER BY y), f(VARIADIC x), f() WITHIN GROUP, FILTER, OVER; f() in
 *   FROM, ROWS FROM (); CALL f(); EXECUTE FUNCTION f()
 *	KNOWN. A comment may precede the parenthesis. Quotes and schemas count. An unreadable name
 *	(U&"", quotes with other bytes) is not known.
 * - keyword(x): CAST, COALESCE, EXTRACT, TRIM, TREAT, XMLELEMENT, JSON_VALUE,
 *   COLLATION FOR ...
 *	Keywords that cannot be names of functions call functions of PostgreSQL only. If a name can
 *	be a keyword, it is one where only a keyword is possible: GROUP BY (, JOIN (, SET (.
 * - Words for functions and operators: AT TIME ZONE, LIKE, SIMILAR TO, OVERLAPS, IN,
 *   BETWEEN, IS DISTINCT FROM, CASE x WHEN, NULLIF, JOIN USING, CURRENT_DATE
 *	Functions of pg_catalog; operators as below.
 * - (x).f, a[1].f, $1.f, (SELECT ...).f
 *	KNOWN: f(x), for any type of x. A column of this name proves nothing.
 * - t.f, s.t.f
 *	Mostly a column. Unproven only if PostgreSQL has a function with one argument that
 *	runs a text (ts_stat). Functions of the catalogue count by their words.
 * - x + y, OPERATOR(s.+), ORDER BY USING, op ANY ()
 *	CATALOGUE. OPERATOR with another schema than pg_catalog is unproven.
 * - x::t, CAST(x AS t), t 'x', t(x), implicit casts, assignments, RETURNING t in JSON
 *   functions, XMLTABLE COLUMNS, f() AS (a t)
 *	CATALOGUE: casts, input functions, constraints of domains. t(x) is a call, too.
 * - a[1] of a type of users
 *	Only superusers can create such a type.
 * - COLLATE c
 *	Runs no code of users.
 * - TABLESAMPLE m (x)
 *	Handlers are in C; x is an expression.
 * - GROUP BY, ORDER BY, DISTINCT, UNION, indexes
 *	CATALOGUE: operator classes.
 * - Tables: views, rules, policies, triggers, defaults, generated columns, CHECK, index
 *   expressions, partition keys, foreign keys; INSERT, UPDATE, DELETE, MERGE, COPY FROM, ON
 *   CONFLICT, SELECT INTO
 *	CATALOGUE.
 * - DO, CALL
 *	The command tag taints the session.
 * - CREATE, ALTER, DROP ... with expressions; IMPORT
 *	The tag makes the functions stale until the next reading.
 * - PREPARE, EXECUTE, EXPLAIN ANALYZE, DECLARE, CREATE TABLE AS
 *	The text that they contain is a part of the text. EXECUTE p(1) counts as a call.
 * - COPY ... PROGRAM, COPY ... WHERE
 *	Runs no SQL; the condition is an expression.
 * - Functions that run a text in a string: query_to_xml, table_to_xml, ts_stat, ts_rewrite
 *	They are not in tbl/builtin.tbl.
 *
 * Not calls, though a parenthesis follows: IN (...), VALUES (...) by the table of keywords, and the
 * columns in INSERT INTO t (...), also after COPY, AS, WITH, RECURSIVE, TABLE and EXISTS.
 *
 * test/unit/sql/test_state_calls.c has a text for each item.
 */
#include "sql/state_text.h"

#include <ctype.h>
#include <string.h>

#define CALLED_MOST 63

/* ---- names ---- */

static const struct { const char *name; bool is_word; } builtins[] = {
#define BUILTIN_SIZE(size, first)
#define BUILTIN(name) { name, false },
#define BUILTIN_WORD(name) { name, true },
#include "tbl/builtin.tbl"
#undef BUILTIN
#undef BUILTIN_WORD
#undef BUILTIN_SIZE
};

/* The index of the first name of this size; the names of a size are in order. */
static const uint16_t firsts[CALLED_MOST + 2] = {
#define BUILTIN_SIZE(size, first) [size] = first,
#define BUILTIN(name)
#define BUILTIN_WORD(name)
#include "tbl/builtin.tbl"
#undef BUILTIN
#undef BUILTIN_WORD
#undef BUILTIN_SIZE
};

/* Whether PostgreSQL has a function with this name, which is in lower case. A keyword counts only
   if it `may_be_keyword`. */
static bool is_builtin(const char *name, size_t size, bool may_be_keyword)
{
	size_t low = firsts[size], high = firsts[size + 1];

	while (low < high) {
		size_t middle = (low + high) / 2;
		int order = memcmp(builtins[middle].name, name, size);

		if (order == 0)
			return may_be_keyword || !builtins[middle].is_word;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* Writes the name in lower case. Returns its size; 0: the name is not as it appears. */
static size_t read_called(const struct lex_token *t, char name[CALLED_MOST])
{
	if (t->kind == LEX_ESCAPED_WORD || t->text_size > CALLED_MOST)
		return 0;
	for (size_t i = 0; i < t->text_size; i++) {
		char c = t->text[i];

		if (!lex_is_in_word(c) || (t->kind == LEX_QUOTED_WORD && c >= 'A' && c <= 'Z'))
			return 0;
		name[i] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
	}
	return t->text_size;
}

static bool is_word_of(const struct lex_token *t, const char *const *words)
{
	if (t->kind == LEX_WORD)
		for (; *words; words++)
			if (lex_equal(t->text, t->text_size, *words))
				return true;
	return false;
}

/* ---- keywords ---- */

/* Whether an expression may begin after the token, so that a word there with a parenthesis may be a
   function. */
static bool introduces_operand(const struct lex_token *t)
{
	static const char *const words[] = {
		"select",    "distinct",   "all",     "any",	 "some",      "where",
		"having",    "and",	   "or",      "not",	 "case",      "when",
		"then",	     "else",	   "on",      "by",	 "limit",     "offset",
		"fetch",     "first",	   "next",    "values",	 "in",	      "between",
		"symmetric", "asymmetric", "like",    "ilike",	 "similar",   "to",
		"escape",    "from",	   "lateral", "using",	 "returning", "call",
		"return",    "query",	   "perform", "if",	 "elsif",     "elseif",
		"while",     "loop",	   "exit",    "default", "check",     "variadic",
		"zone",	     "is",	   "rows",    "range",	 "groups",    "array",
		"as",	     "over",	   "for",     "collate", "execute",   "function",
		"procedure", "begin",	   "into",    "set",	 "with",      NULL
	};

	return t->kind == LEX_END || t->kind == LEX_OPERATOR ||
	       (t->kind == LEX_MARK && *t->at != ')' && *t->at != ']') || is_word_of(t, words);
}

/* Whether the name with a parenthesis is a keyword here, although it can be the name of a function,
   too. */
static bool is_keyword_here(const struct sql_use *use)
{
	static const char *const after_operand[] = { "by",	 "filter", "ilike", "join",
						     "operator", "over",   "set",   NULL },
				 *const first[] = { "copy", "explain", "vacuum", NULL };

	if (use->is_qualified)
		return false;
	if (is_word_of(&use->name, first))
		return use->before.kind == LEX_END || lex_is_mark(&use->before, ';');
	if (lex_is(&use->name, "materialized"))
		return lex_is(&use->before, "as");
	return is_word_of(&use->name, after_operand) && !introduces_operand(&use->before);
}

/* ---- rules ---- */

struct judge {
	struct text_calls *calls;
	name_is_known *known;
	const void *context;
	bool is_proven;
};

static bool call_is_known(const struct judge *j, const struct sql_use *use)
{
	static const char *const before_columns[] = { "into",	   "copy",  "as",     "with",
						      "recursive", "table", "exists", NULL };
	char name[CALLED_MOST];
	size_t size = read_called(&use->name, name);

	if (size > 0 && !use->is_qualified && is_builtin(name, size, use->name.kind == LEX_WORD))
		return true;
	if (size > 0 && j->known && j->known(j->context, name, size))
		return true;
	return is_keyword_here(use) || is_word_of(&use->before, before_columns);
}

static bool field_is_known(const struct judge *j, const struct sql_use *use)
{
	char name[CALLED_MOST];
	size_t size = read_called(&use->name, name);

	/* the source of a function is read again together with a function of that name */
	if (j->calls->walk.is_source)
		return true;
	return size > 0 &&
	       (is_builtin(name, size, false) || (j->known && j->known(j->context, name, size)));
}

/* Whether PostgreSQL has no function with this name and one argument that runs a text, so that
   t.name cannot be its call. */
static bool column_is_known(const struct lex_token *t)
{
	return t->kind != LEX_ESCAPED_WORD &&
	       !(t->text_size == 7 && lex_equal(t->text, 7, "ts_stat"));
}

static void judge_use(void *context, const struct sql_use *use)
{
	struct judge *j = context;
	bool is_known = true;

	switch (use->kind) {
	case SQL_USE_CALL:
		is_known = call_is_known(j, use);
		break;
	case SQL_USE_FIELD:
		is_known = field_is_known(j, use);
		break;
	case SQL_USE_COLUMN:
		is_known = column_is_known(&use->name);
		break;
	case SQL_USE_OPERATOR:
		is_known = !use->is_qualified;
		break;
	default:
		break;
	}
	if (is_known)
		return;
	j->is_proven = false;
	j->calls->walk.is_over = true;
}

/* ---- plain texts ---- */

/*
 * Most texts with a parenthesis are proven without a walk. A plain text has no comment and no value
 * before a dot, so each call is a name and a parenthesis with blanks between them at most, and a
 * search for parentheses finds them all. Parentheses in strings count, too, so that the ends of
 * strings do not matter.
 */

/* Whether the name before the parenthesis follows the keyword INTO. */
static bool is_after_into(const char *at, const char *begin)
{
	const char *end = at;

	while (end > begin && lex_is_blank(end[-1]))
		end--;
	return end < at && end - begin >= 6 && strncasecmp(end - 4, "into", 4) == 0 &&
	       lex_is_blank(end[-5]);
}

/* Whether the call with the parenthesis at `at` is of a known function. False: the walk must
   decide. */
static bool is_plain_call(const struct judge *j, const char *at, const char *begin)
{
	const char *end = at, *start;
	char name[CALLED_MOST];
	size_t size;

	while (end > begin && lex_is_blank(end[-1]))
		end--;
	if (end > begin && end[-1] == '"') {
		start = memrchr(begin, '"', (size_t)(end - 1 - begin));
		return start && is_after_into(start, begin);
	}
	for (start = end; start > begin && lex_is_in_name(start[-1]);)
		start--;
	if (start == end)
		return true;
	size = read_called(&(struct lex_token){ LEX_WORD, start, (size_t)(end - start), start,
						(size_t)(end - start) },
			   name);
	if (size == 0 || (start > begin &&
			  (start[-1] == '.' ||
			   (start - begin > 1 && lex_bytes[(uint8_t)start[-2]] & BYTE_NOT_ASCII))))
		return false;
	/* a blank may be between the dot and the name */
	for (at = start; at > begin && lex_is_blank(at[-1]);)
		at--;
	if (at > begin && at[-1] == '.')
		return false;
	return is_builtin(name, size, true) || (j->known && j->known(j->context, name, size)) ||
	       is_after_into(start, begin);
}

/* Reads on from calls->search.at until the search is over or has stopped. False: the walk must
   decide. */
static bool prove_plainly(const struct judge *j, const uint8_t *text, size_t size)
{
	struct text_search *search = &j->calls->search;
	const char *begin = (const char *)text, *at = begin + search->at, *end = begin + size;

	for (; search->words_left > 0 && (at = memchr(at, '(', (size_t)(end - at))) != NULL; at++) {
		search->words_left -= 2;
		if (!is_plain_call(j, at, begin))
			return false;
	}
	search->is_over = !at;
	search->at = at ? (size_t)(at - begin) : size;
	return true;
}

bool state_text_calls_known(struct text_calls *calls, const uint8_t *text, size_t size,
			    name_is_known *known, const void *context)
{
	struct judge j = { calls, known, context, true };

	if (calls->is_plain && prove_plainly(&j, text, size))
		return true;
	calls->is_plain = false;
	sql_uses_walk(&calls->walk, text, size, &calls->search.words_left, judge_use, &j);
	calls->search.is_over = calls->walk.is_over;
	return j.is_proven && !calls->walk.is_uncertain;
}
