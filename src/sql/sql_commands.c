/*
 * SQL texts of clients: the commands that concern a pooler (sql_commands.h): SET, RESET and
 * set_config; DEALLOCATE, DISCARD and EXECUTE; DROP and ALTER DATABASE.
 */
#include "sql/sql_commands.h"

#include "base/inline.h"
#include "sql/sql_lex.h"

#include <string.h>
#include <strings.h>

/* ---- SET and set_config ---- */

/*
 * The tag of CommandComplete is SET or RESET, without the name of the parameter, so the text is
 * read:
 *
 *	statement = "SET" [ "SESSION" / "LOCAL" ] name rest / "RESET" name rest
 *	call      = "set_config" "(" "'" name "'" rest
 *
 * The role changes with the parameters role and session_authorization, with SET SESSION
 * AUTHORIZATION, and possibly with each name that is not plain ("role", U&"\0072ole"). SET LOCAL
 * ends with the transaction, and SET CONSTRAINTS has a tag of its own.
 *
 * The meaning of texts depends on search_path, on the role ("$user" in search_path), and on
 * parameters that change how an expression is read (transform_null_equals). Parameters with a dot
 * in their names, which are not parameters of the server itself, and the parameters in a table
 * below are harmless.
 *
 * Any other text may change both. A plain name is ASCII: in every client_encoding, when a byte of
 * ASCII is a part of a longer character, it follows a byte beyond ASCII. Comments and semicolons
 * are skipped at the beginning of a Parse only, where programs put comments.
 */
#define PLAIN (BYTE_IN_WORD | BYTE_DOLLAR)
#define PLAIN_WITH_DOTS (PLAIN | BYTE_DOT)
#define NAME_MOST 64

/* Beginnings of names. */
static const char *const harmless_families[] = {
	"enable_",
	"log_",
	"jit",
	"geqo",
	"vacuum_",
	"transaction_",
	"default_transaction_",
	"cpu_",
	"max_parallel_",
	"parallel_",
	"idle_",
	"tcp_",
	"track_",
	"debug_",
	"effective_",
	"min_parallel_",
	"backend_flush",
	"commit_",
};

static const char *const harmless_names[] = {
	"application_name",
	"bytea_output",
	"client_min_messages",
	"constraint_exclusion",
	"cursor_tuple_fraction",
	"extra_float_digits",
	"from_collapse_limit",
	"hash_mem_multiplier",
	"join_collapse_limit",
	"local_preload_libraries",
	"lock_timeout",
	"maintenance_work_mem",
	"plan_cache_mode",
	"random_page_cost",
	"recursive_worktable_factor",
	"row_security",
	"seq_page_cost",
	"statement_timeout",
	"synchronous_commit",
	"temp_buffers",
	"temp_file_limit",
	"transaction",
	"work_mem",
	/* reported by the server; clients share statements only if these are equal */
	"client_encoding",
	"datestyle",
	"intervalstyle",
	"standard_conforming_strings",
	"timezone",
};

static bool is_harmless(const struct lex_token *name)
{
	if (name->size == 0 || name->size >= NAME_MOST)
		return false;
	if (memchr(name->at, '.', name->size))
		return true;
	for (size_t i = 0; i < sizeof(harmless_families) / sizeof(harmless_families[0]); i++) {
		size_t size = strlen(harmless_families[i]);

		if (name->size >= size && strncasecmp(name->at, harmless_families[i], size) == 0)
			return true;
	}
	for (size_t i = 0; i < sizeof(harmless_names) / sizeof(harmless_names[0]); i++)
		if (lex_is(name, harmless_names[i]))
			return true;
	return false;
}

static struct lex_token take_after_blanks(struct sql_lexer *l, uint8_t properties)
{
	lex_skip_blanks(l);
	return lex_take(l, properties);
}

static bool is_at_blank(const struct sql_lexer *l)
{
	return l->at < l->end && lex_is_blank(*l->at);
}

/* After SET or RESET: SESSION or LOCAL, and a harmless name, may follow. */
static bool names_harmless(struct sql_lexer l)
{
	struct lex_token name = take_after_blanks(&l, PLAIN_WITH_DOTS);

	if (lex_is(&name, "local") || lex_is(&name, "session"))
		name = take_after_blanks(&l, PLAIN_WITH_DOTS);
	if (lex_is(&name, "time"))
		return true;
	/* after a quote or a byte beyond ASCII the name continues */
	return is_harmless(&name) &&
	       (l.at == l.end || is_at_blank(&l) || *l.at == '=' || *l.at == ';');
}

/* After RESET or SET SESSION: whether the name is plain, and not the name of a role. */
static bool names_no_role(struct sql_lexer l)
{
	static const char *const names[] = { "role", "session_authorization", "session",
					     "authorization" };
	struct lex_token name = take_after_blanks(&l, PLAIN);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (lex_is(&name, names[i]))
			return false;
	if (name.size == 0)
		return false;
	return l.at == l.end ? !l.is_cut : lex_is_blank(*l.at) || *l.at == '=' || *l.at == '.';
}

/* After SET. */
static bool set_keeps_role(struct sql_lexer l)
{
	struct sql_lexer after = l;
	struct lex_token first = take_after_blanks(&after, PLAIN);

	if (!is_at_blank(&l))
		return false;
	if (lex_is(&first, "local") && is_at_blank(&after))
		return true;
	return names_no_role(lex_is(&first, "session") && is_at_blank(&after) ? after : l);
}

unsigned set_query_keeps(const uint8_t *text, size_t size)
{
	struct sql_lexer l = lex_begin(text, size), after;
	struct lex_token first = lex_take(&l, PLAIN), second;

	if (l.is_cut || !lex_is(&first, "set") || !is_at_blank(&l))
		return 0;
	/* only one statement */
	after = l;
	after.at = memchr(l.at, ';', (size_t)(l.end - l.at));
	if (after.at) {
		after.at++;
		lex_skip_blanks(&after);
		if (after.at < after.end)
			return 0;
	}
	after = l;
	second = take_after_blanks(&after, PLAIN);
	return (!lex_is(&second, "constraints") && set_keeps_role(l) ? SET_KEEPS_ROLE : 0) |
	       (names_harmless(l) ? SET_KEEPS_MEANING : 0) |
	       (lex_is(&second, "local") && is_at_blank(&after) ? SET_IS_LOCAL : 0);
}

/* Skips blanks, semicolons and comments. False: the rest of a comment has not arrived. */
static bool skip_to_statement(struct sql_lexer *l)
{
	for (;;) {
		while (l->at < l->end && (lex_is_blank(*l->at) || *l->at == ';'))
			l->at++;
		if (!lex_is_at(l, "--") && !lex_is_at(l, "/*"))
			return true;
		if (!lex_skip_comment(l))
			return false;
	}
}

static bool parse_keeps_role(struct sql_lexer l)
{
	struct lex_token first;

	if (!skip_to_statement(&l))
		return false;
	/* a comment may begin here */
	if (l.is_cut && l.end - l.at < 2)
		return false;
	first = lex_take(&l, PLAIN);
	if (l.is_cut && l.at == l.end)
		return false;
	if (lex_is(&first, "set"))
		return set_keeps_role(l);
	if (lex_is(&first, "reset"))
		return is_at_blank(&l) && names_no_role(l);
	return true;
}

static bool parse_keeps_meaning(struct sql_lexer l)
{
	struct lex_token first;

	if (l.is_cut || !skip_to_statement(&l))
		return false;
	first = lex_take(&l, PLAIN_WITH_DOTS);
	return (!lex_is(&first, "set") && !lex_is(&first, "reset")) || names_harmless(l);
}

unsigned set_parse_keeps(const uint8_t *text, size_t size)
{
	struct sql_lexer l = lex_begin(text, size);

	return (parse_keeps_role(l) ? SET_KEEPS_ROLE : 0) |
	       (parse_keeps_meaning(l) ? SET_KEEPS_MEANING : 0);
}

/* After the word set_config. */
static bool configures_harmless(struct sql_lexer l)
{
	struct lex_token name;

	if (l.at < l.end && *l.at == '"')
		l.at++;
	lex_skip_blanks(&l);
	if (l.at == l.end || *l.at++ != '(')
		return false;
	lex_skip_blanks(&l);
	if (l.at == l.end || *l.at++ != '\'')
		return false;
	name = lex_take(&l, PLAIN_WITH_DOTS);
	return is_harmless(&name) && l.at < l.end && *l.at == '\'';
}

bool meaning_is_configured(const uint8_t *text, size_t size)
{
	static const char before[] = "set", after[] = "_config";
	const size_t before_size = sizeof(before) - 1, after_size = sizeof(after) - 1;
	struct sql_lexer l = lex_begin(text, size);
	const char *begin = l.at, *at;

	if (l.is_cut)
		return true;
	/* U&"set\005fconfig" */
	for (at = begin; (at = memchr(at, '&', (size_t)(l.end - at))) != NULL; at++)
		if (at > begin && (at[-1] | 0x20) == 'u' && l.end - at > 1 && at[1] == '"')
			return true;
	for (at = begin; (at = memchr(at, '_', (size_t)(l.end - at))) != NULL; at++) {
		if ((size_t)(at - begin) < before_size || (size_t)(l.end - at) < after_size ||
		    strncasecmp(at - before_size, before, before_size) != 0 ||
		    strncasecmp(at, after, after_size) != 0)
			continue;
		l.at = at + after_size;
		if (!configures_harmless(l))
			return true;
	}
	return false;
}

/* ---- prepared statements ---- */

/*
 * SQL commands that name prepared statements ("DEALLOCATE", "EXECUTE" in the PostgreSQL
 * documentation).
 *
 * Two searches: a quick one for words, which nearly every text passes without a match, and a reader
 * of statements. The reader knows a statement by its first word. If the reader does not understand
 * a text, the text has no names: it goes to the server unchanged, and the server reports an unknown
 * statement.
 *
 * U&"..." is not read as a name.
 */
#define SHORTEST (sizeof("DISCARD") - 1)

static ALWAYS_INLINE bool commands_begins_with(const uint8_t *at, const uint8_t *end,
					       const char *word)
{
	size_t size = strlen(word);

	return (size_t)(end - at) >= size && strncasecmp((const char *)at, word, size) == 0;
}

bool deallocate_is_mentioned(const uint8_t *text, size_t size, bool or_execute)
{
	const uint8_t *end = size > 0 ? memchr(text, 0, size) : NULL;

	if (!end)
		return true;
	for (; (size_t)(end - text) >= SHORTEST; text++) {
		uint8_t letter = *text | 0x20;

		if ((letter == 'd' && (commands_begins_with(text, end, "DISCARD") ||
				       commands_begins_with(text, end, "DEALLOCATE"))) ||
		    (letter == 'e' && or_execute && (text[1] | 0x20) == 'x' &&
		     commands_begins_with(text, end, "EXECUTE")))
			return true;
	}
	return false;
}

/* ---- statements ---- */

struct reader {
	struct sql_lexer lexer;
	const char *text;
	/* of parentheses: the statements of CREATE RULE are separated by semicolons, too */
	int depth;
};

/* Returns the next token; a semicolon outside of parentheses is LEX_END. */
static struct lex_token next(struct reader *r)
{
	struct lex_token t = lex_next(&r->lexer);

	r->depth += lex_is_mark(&t, '(') - lex_is_mark(&t, ')');
	if (lex_is_mark(&t, ';') && r->depth <= 0) {
		t.kind = LEX_END;
		r->depth = 0;
	}
	return t;
}

static void skip_statement(struct reader *r, struct lex_token t)
{
	while (t.kind != LEX_END)
		t = next(r);
}

static bool commands_is_identifier(const struct lex_token *t)
{
	return t->kind == LEX_QUOTED_WORD || (t->kind == LEX_WORD && !lex_is_digit(*t->at));
}

static void read_identifier(const struct reader *r, const struct lex_token *t, struct sql_name *n)
{
	bool is_quoted = t->kind == LEX_QUOTED_WORD;
	size_t size = 0;

	for (size_t i = 0; i < t->text_size && size < SQL_NAME_SIZE - 1; i++) {
		char c = t->text[i];

		n->text[size++] = !is_quoted && c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
		i += is_quoted && c == '"';
	}
	n->text[size] = 0;
	n->text_size = (uint8_t)(size + 1);
	n->at = (size_t)(t->at - r->text);
	n->size = t->size;
}

/* Reads a statement after DEALLOCATE. The name is the last token; PREPARE is a name if nothing
   follows. */
static bool read_deallocate(struct reader *r, struct sql_name *n)
{
	struct lex_token t = next(r), after;

	if (t.kind == LEX_END)
		return false;
	after = next(r);
	if (lex_is(&t, "PREPARE") && commands_is_identifier(&after)) {
		t = after;
		after = next(r);
	}
	if (after.kind != LEX_END) {
		skip_statement(r, after);
		return false;
	}
	if (!commands_is_identifier(&t) || lex_is(&t, "ALL"))
		return false;
	n->drops = true;
	read_identifier(r, &t, n);
	return true;
}

/* Reads a statement that begins with this token; the name follows EXECUTE, which follows AS in
   CREATE TABLE. */
static bool read_execute(struct reader *r, struct lex_token first, struct sql_name *n)
{
	bool creates = lex_is(&first, "CREATE"), follows_as = false;
	struct lex_token t = first;

	if (!creates && !lex_is(&first, "EXECUTE") && !lex_is(&first, "EXPLAIN")) {
		skip_statement(r, t);
		return false;
	}
	while (t.kind != LEX_END && !(lex_is(&t, "EXECUTE") && (follows_as || !creates))) {
		follows_as = lex_is(&t, "AS");
		t = next(r);
	}
	if (t.kind == LEX_END)
		return false;
	t = next(r);
	if (!commands_is_identifier(&t)) {
		skip_statement(r, t);
		return false;
	}
	n->drops = false;
	read_identifier(r, &t, n);
	skip_statement(r, t);
	return true;
}

unsigned statement_sql_read(const uint8_t *text, size_t size, struct sql_name names[SQL_NAMES_MOST])
{
	struct reader r = { lex_begin(text, size), (const char *)text, 0 };
	unsigned count = 0;

	if (r.lexer.is_cut)
		return 0;
	while (r.lexer.at < r.lexer.end && !r.lexer.is_uncertain) {
		struct lex_token first = next(&r);
		struct sql_name n;

		if (first.kind == LEX_END ||
		    !(lex_is(&first, "DEALLOCATE") ? read_deallocate(&r, &n)
						   : read_execute(&r, first, &n)))
			continue;
		if (count == SQL_NAMES_MOST)
			return 0;
		names[count++] = n;
	}
	return r.lexer.is_uncertain ? 0 : count;
}

bool statement_sql_ends_database(const uint8_t *text, size_t size, char name[SQL_NAME_SIZE])
{
	struct reader r = { lex_begin(text, size), (const char *)text, 0 };
	struct lex_token verb, t;
	struct sql_name n;
	bool drops;

	if (r.lexer.is_cut)
		return false;
	verb = next(&r);
	drops = lex_is(&verb, "DROP");
	t = next(&r);
	if ((!drops && !lex_is(&verb, "ALTER")) || !lex_is(&t, "DATABASE"))
		return false;
	t = next(&r);
	if (drops && lex_is(&t, "IF")) {
		next(&r);		/* EXISTS */
		t = next(&r);
	}
	if (!commands_is_identifier(&t))
		return false;
	read_identifier(&r, &t, &n);
	memcpy(name, n.text, n.text_size);
	t = next(&r);
	return !r.lexer.is_uncertain && (drops || lex_is(&t, "RENAME"));
}
