/*
 * What SQL says about the state of its session.
 *
 * The command tag SET says that something has been set, not what. Parameters that the server knows are in its view pg_settings. Those
 * with a dot that no extension has defined ("Customized Options") are in no view: only one that has the name can ask for the value. So the
 * names are read from the texts of clients:
 *
 *	SET [ SESSION ] name ...		RESET name		set_config('name', value, false)
 *
 * SET LOCAL, and set_config with true, end with the transaction. Functions that change the session, and commands with the tag of a SELECT, are found by
 * their words:
 *
 *	SELECT ... INTO TEMP t			CREATE TEMP TABLE t AS ...		pg_advisory_lock(1)		dblink_connect(...)
 *
 * The text is cut into words, and not parsed: what is found too much costs a question of the server, or the server itself for a while. So words
 * count in strings, comments and quotes, too. What one of these is hangs on dollar quotes and on standard_conforming_strings, and a mistake
 * about it would hide all that follows:
 *
 *	SELECT $$it's$$; SELECT set_config('app.tenant', '7', false)
 *
 * Only behind a word that has been found, what follows is read by the rules of SQL, as far as WINDOW goes.
 *
 * A name that PostgreSQL takes and that cannot be asked for counts as one that is not known: with a '$' or bytes beyond ASCII, with a part
 * that PostgreSQL cuts, of a reserved prefix, or too long. So does a text with an identifier in which letters may be escaped, which may be any of the
 * words:
 *
 *	SELECT U&"set\005fconfig"('app.tenant', '7', false)
 */
#include "pg/state_text.h"

#include "pg/params.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define WINDOW 256		/* bytes behind a word in which a name is looked for */
#define PARAMETERS_MOST 1000	/* names that are looked for in one text */
#define CALL_MOST 24		/* tokens of a call of set_config that are looked at, to find its last argument */
#define IDENTIFIER_MOST 63	/* bytes that PostgreSQL keeps of an identifier */

enum kind { END, WORD, STRING, MARK };

struct token {
	enum kind kind;
	const char *at;			/* of a WORD or STRING without its quotes */
	size_t size;
	bool is_quoted;			/* "a word" */
};

struct reader { const char *at, *end; };

static bool is_at(const struct reader *r, const char *what)
{
	size_t size = strlen(what);

	return (size_t)(r->end - r->at) >= size && memcmp(r->at, what, size) == 0;
}

static bool is_in_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

size_t state_text_next_word(const char **at, const char *end, const char **word)
{
	while (*at < end && !is_in_word(**at))
		(*at)++;
	*word = *at;
	while (*at < end && is_in_word(**at))
		(*at)++;
	return (size_t)(*at - *word);
}

static void skip_comment(struct reader *r)
{
	int depth = 0;

	if (is_at(r, "--")) {
		while (r->at < r->end && *r->at != '\n' && *r->at != '\r')
			r->at++;
		return;
	}
	do {
		bool has_two = r->end - r->at >= 2;
		bool begins = has_two && r->at[0] == '/' && r->at[1] == '*', ends = has_two && r->at[0] == '*' && r->at[1] == '/';

		depth += begins - ends;
		r->at += begins || ends ? 2 : 1;
	} while (depth > 0 && r->at < r->end);
}

/* In a name. In the words that are looked for there are none of the others. */
static bool is_in_name(char c)
{
	return is_in_word(c) || c == '$' || (unsigned char)c >= 0x80;
}

/* At a '$': what is quoted between two tags is read as the rest. */
static bool skip_tag(struct reader *r)
{
	const char *at = r->at + 1;

	while (at < r->end && *at != '$' && is_in_name(*at))
		at++;
	if (at == r->end || *at != '$')
		return false;
	r->at = at + 1;
	return true;
}

static void skip_blanks(struct reader *r)
{
	while (r->at < r->end) {
		if (is_at(r, "--") || is_at(r, "/*"))
			skip_comment(r);
		else if (!(*r->at == '$' && skip_tag(r)) && !isspace((unsigned char)*r->at))
			break;
		else if (r->at < r->end && isspace((unsigned char)*r->at))
			r->at++;
	}
}

/* Behind the quote that it begins with. */
static struct token take_quoted(struct reader *r, enum kind kind, bool has_escapes)
{
	char quote = *r->at++;
	struct token t = { kind, r->at, 0, quote == '"' };

	while (r->at < r->end && *r->at != quote)
		r->at += has_escapes && *r->at == '\\' && r->at + 1 < r->end ? 2 : 1;
	t.size = (size_t)(r->at - t.at);
	r->at += r->at < r->end;
	return t;
}

static struct token take(struct reader *r)
{
	struct token t = { END, r->at, 0, false };

	skip_blanks(r);
	t.at = r->at;
	if (r->at == r->end)
		return t;
	if (is_at(r, "E'") || is_at(r, "e'")) {
		r->at++;
		return take_quoted(r, STRING, true);
	}
	if (*r->at == '\'')
		return take_quoted(r, STRING, false);
	if (*r->at == '"')
		return take_quoted(r, WORD, false);
	if (*r->at != '$')
		while (r->at < r->end && is_in_name(*r->at))
			r->at++;
	t.kind = r->at > t.at ? WORD : MARK;
	r->at += r->at == t.at;
	t.size = (size_t)(r->at - t.at);
	return t;
}

static struct token look(const struct reader *r)
{
	struct reader ahead = *r;

	return take(&ahead);
}

static bool is(const struct token *t, const char *word)
{
	return t->kind == WORD && !t->is_quoted && t->size == strlen(word) && strncasecmp(t->at, word, t->size) == 0;
}

static bool is_mark(const struct token *t, char c)
{
	return t->kind == MARK && *t->at == c;
}

/* ---- what a text says ---- */

struct reading {
	struct reader r;		/* behind a word */
	bool is_cut;			/* there is more behind its end */
	setting_named *named;
	void *context;
	unsigned said;
	int parameters;			/* words SET, RESET and set_config behind which a name was read */
};

struct name {
	char text[PARAMS_NAME_LONGEST + 1];
	size_t size;			/* of one that is too long more than fits */
	bool has_parts, is_cut;		/* with a dot between them; PostgreSQL cuts one */
};

static void append(struct name *n, const char *at, size_t size)
{
	for (size_t i = 0; i < size; i++, n->size++) {
		if (n->size < PARAMS_NAME_LONGEST)
			n->text[n->size] = (char)tolower((unsigned char)at[i]);
		n->has_parts |= at[i] == '.';
	}
}

/* PostgreSQL may take it for a parameter's name ("Customized Options"): parts with dots between them. A question mark stands for a character beyond
   ASCII in the sources of functions (state_functions.c), and in no name. */
static bool may_be_taken(const char *name)
{
	bool begins = true;

	for (; *name; name++) {
		if (*name == '.' ? begins : (!is_in_name(*name) && *name != '?') || (begins && (isdigit((unsigned char)*name) || *name == '$')))
			return false;
		begins = *name == '.';
	}
	return !begins;
}

static void name_is_unknown(struct reading *x)
{
	x->said |= TEXT_SETS | TEXT_SETS_UNNAMED;
}

static void tell(struct reading *x, struct name *n)
{
	bool is_too_long = n->size > PARAMS_NAME_LONGEST;

	if (!n->has_parts)
		return;
	n->text[is_too_long ? PARAMS_NAME_LONGEST : n->size] = '\0';
	if (!is_too_long && !n->is_cut && params_is_settable(n->text))
		x->named(x->context, n->text);
	else if (is_too_long || n->is_cut || may_be_taken(n->text))
		name_is_unknown(x);
}

/* The next token. A name may stand behind a comment that is longer than what is looked at. */
static struct token peek(struct reading *x)
{
	struct token t = look(&x->r);

	if (t.kind == END && x->is_cut)
		name_is_unknown(x);
	return t;
}

/* The token is the beginning of U&"...", in which letters may be written by their numbers, and `behind` stands where that goes on. */
static bool is_escaped(const struct token *t, const struct reader *behind)
{
	return is(t, "u") && is_at(behind, "&\"");
}

/* Parts with dots between them. */
static void name_follows(struct reading *x)
{
	struct name n = { .size = 0 };
	struct token t = peek(x);

	while (t.kind == WORD) {
		take(&x->r);
		if (is_escaped(&t, &x->r)) {
			name_is_unknown(x);
			return;
		}
		n.is_cut |= t.size > IDENTIFIER_MOST;
		append(&n, t.at, t.size);
		t = peek(x);
		if (!is_mark(&t, '.'))
			break;
		take(&x->r);
		append(&n, ".", 1);
		t = peek(x);
	}
	tell(x, &n);
}

static void set_follows(struct reading *x)
{
	struct token t = peek(x), behind;
	struct reader name = x->r;

	if (is(&t, "local") || is(&t, "session")) {
		take(&x->r);
		behind = peek(x);
		/* these may be the first part of a name, too */
		if (is_mark(&behind, '.'))
			x->r = name;
		else if (is(&t, "local"))
			return;
	}
	name_follows(x);
}

/* It cannot be told what of these bytes is a string: they have a backslash, which counts or not, or a dollar quote. */
static bool has_other_quotes(const char *at, const char *end)
{
	struct reader r = { at, end };

	if (memchr(at, '\\', (size_t)(end - at)))
		return true;
	while ((r.at = memchr(r.at, '$', (size_t)(end - r.at))) != NULL) {
		if (skip_tag(&r))
			return true;
		r.at++;
	}
	return false;
}

/* Behind the parenthesis of a call: its last argument is the word true. Where that is not found soon, it is taken for another one. */
static bool call_is_local(struct reader r)
{
	const char *begin = r.at;
	struct token before = { END, NULL, 0, false }, last = before, t;
	int depth = 1;

	for (int i = 0; i < CALL_MOST && (t = take(&r)).kind != END; i++) {
		depth += is_mark(&t, '(') - is_mark(&t, ')');
		if (depth == 0)
			return is(&last, "true") && is_mark(&before, ',') && !has_other_quotes(begin, r.at);
		before = last;
		last = t;
	}
	return false;
}

/* The next token, behind a cast to a type of one word: 'app.tenant'::text. */
static struct token take_behind_cast(struct reader *r)
{
	struct reader behind = *r;
	struct token first = take(&behind), second = take(&behind), type = take(&behind);

	if (is_mark(&first, ':') && is_mark(&second, ':') && type.kind == WORD)
		*r = behind;
	return take(r);
}

/* Behind the word set_config. */
static void call_follows(struct reading *x)
{
	struct token t = peek(x), comma;
	struct name n = { .size = 0 };

	if (!is_mark(&t, '('))
		return;
	take(&x->r);
	if (call_is_local(x->r))
		return;
	x->said |= TEXT_SETS;
	t = look(&x->r);
	if (t.kind == STRING) {
		struct reader behind = x->r;

		take(&behind);
		comma = take_behind_cast(&behind);
		if (is_mark(&comma, ',') && !memchr(t.at, '\\', t.size)) {
			comma = take(&behind);
			x->said |= is(&comma, "null") ? TEXT_SETS_NULL : 0u;
			append(&n, t.at, t.size);
			tell(x, &n);
			return;
		}
	}
	name_is_unknown(x);
}

/* A word that begins so. */
static bool begins(const struct token *t, const char *with)
{
	size_t size = strlen(with);

	return t->kind == WORD && t->size >= size && strncasecmp(t->at, with, size) == 0;
}

/* pg_advisory_lock, pg_try_advisory_lock, pg_advisory_unlock and their like, but for those of the transaction: pg_advisory_xact_lock. */
static bool is_lock(const struct token *t)
{
	static const char *const heads[] = { "pg_advisory_", "pg_try_advisory_" };

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		size_t size = strlen(heads[i]);

		if (begins(t, heads[i]))
			return t->size < size + strlen("xact") || strncasecmp(t->at + size, "xact", strlen("xact")) != 0;
	}
	return false;
}

/* TEMP as a keyword: behind CREATE, CREATE OR REPLACE, GLOBAL, LOCAL, or INTO, but for the table's name of INSERT INTO and MERGE INTO (`first`), which
   are columns in the middle of a text. Where there are comments, their words may stand between. */
static bool makes_temporary(const struct token *t, const struct token *before, const struct token *first, bool has_comments)
{
	if (!is(t, "temp") && !is(t, "temporary"))
		return false;
	if (has_comments)
		return true;
	if (is(before, "into"))
		return !is(first, "insert") && !is(first, "merge");
	return is(before, "create") || is(before, "replace") || is(before, "global") || is(before, "local");
}

/* What a word says that is not the beginning of something about parameters. */
static unsigned said_by(const struct token *t)
{
	if (is(t, "prepare"))
		return TEXT_PREPARES;
	if (is(t, "hold"))
		return TEXT_HOLDS;
	if (is(t, "unlisten") || is(t, "pg_listening_channels"))
		return TEXT_UNLISTENS;
	if (is_lock(t))
		return TEXT_LOCKS;
	if (is(t, "lastval"))
		return TEXT_READS_SEQUENCES;
	if (is(t, "currval"))
		return TEXT_READS_SEQUENCES | TEXT_READS_NAMED;
	if (is(t, "nextval"))
		return TEXT_DRAWS;
	if (is(t, "setval"))
		return TEXT_DRAWS | TEXT_SETS_VALUES;
	if (begins(t, "dblink_connect") || begins(t, "setseed"))
		return TEXT_STAYS;
	/* its rule calls set_config for an UPDATE; it has no parameters with a dot that must be named */
	if (is(t, "pg_settings"))
		return TEXT_SETS;
	return begins(t, "pg_temp") ? TEXT_TEMPORARY : 0;
}

/* The first letter of a word that says something: most words have another one, and are not compared. */
static bool may_matter(char first)
{
	static const bool is_first[256] = {
		['c'] = true, ['d'] = true, ['h'] = true, ['l'] = true, ['n'] = true, ['p'] = true, ['r'] = true, ['s'] = true, ['t'] = true,
		['u'] = true,
	};

	return is_first[(uint8_t)(first | 0x20)];
}

/* From *at on, which goes behind it; quotes are no part of it. Of kind END: there is none. */
static struct token next_word(const char **at, const char *end)
{
	struct token t = { END, NULL, 0, false };

	t.size = state_text_next_word(at, end, &t.at);
	t.kind = t.size > 0 ? WORD : END;
	return t;
}

/* What is behind a word, from the quote on that may end it. */
static void look_behind(struct reading *x, const struct token *t, const char *begin, const char *end)
{
	const char *at = t->at + t->size;

	at += t->at > begin && t->at[-1] == '"' && at < end && *at == '"';
	x->is_cut = end - at > WINDOW;
	x->r = (struct reader){ at, x->is_cut ? at + WINDOW : end };
}

/* The word is SET, RESET or set_config. Once a name is not known, others are of no more use, and a text full of such words is read no longer
   than others. After PARAMETERS_MOST of these words a name counts as not known. */
static bool parameters_follow(struct reading *x, const struct token *t, const char *begin, const char *end)
{
	bool sets = is(t, "set"), resets = is(t, "reset"), calls = is(t, "set_config");

	if (!sets && !resets && !calls)
		return false;
	if (x->said & TEXT_SETS_UNNAMED)
		return true;
	if (x->parameters++ == PARAMETERS_MOST) {
		name_is_unknown(x);
		return true;
	}
	look_behind(x, t, begin, end);
	if (sets)
		set_follows(x);
	else if (resets)
		name_follows(x);
	else
		call_follows(x);
	return true;
}

/* The word begins an identifier with escapes, which may be any function or schema. */
static bool name_is_escaped(struct reading *x, const struct token *t, const char *end)
{
	if (!is_escaped(t, &(struct reader){ t->at + t->size, end }))
		return false;
	name_is_unknown(x);
	return true;
}

unsigned state_text_read(const uint8_t *text, size_t size, setting_named *named, void *context)
{
	const char *begin = (const char *)text, *nul = size > 0 ? memchr(begin, 0, size) : NULL, *end = nul ? nul : begin + size, *at = begin;
	const char *opening = NULL;
	bool has_comments = memmem(begin, (size_t)(end - begin), "/*", 2) || memmem(begin, (size_t)(end - begin), "--", 2);
	struct reading x = { .named = named, .context = context, .said = nul ? 0 : TEXT_CUT };
	struct token t, before = { END, NULL, 0, false }, first = before;

	while ((t = next_word(&at, end)).kind != END) {
		if (may_matter(*t.at) && !name_is_escaped(&x, &t, end) && !parameters_follow(&x, &t, begin, end))
			x.said |= said_by(&t) | (makes_temporary(&t, &before, &first, has_comments) ? TEXT_TEMPORARY : 0);
		first = before.at == opening ? before : (struct token){ END, NULL, 0, false };
		before = t;
		opening = opening ? opening : t.at;
	}
	return x.said;
}

/* INSERT or MERGE begins a statement there: a column may have such a name, too. */
static bool begins_statement(const char *word, const char *begin)
{
	while (word > begin && isspace((unsigned char)word[-1]))
		word--;
	return word == begin || strchr("(;/", word[-1]);
}

bool state_text_selects_into(const uint8_t *text, size_t size)
{
	const char *begin = (const char *)text, *nul = size > 0 ? memchr(begin, 0, size) : NULL, *end = nul ? nul : begin + size, *at = begin;
	struct token t, before = { END, NULL, 0, false }, opening = before;

	while ((t = next_word(&at, end)).kind != END) {
		bool writes = is(&before, "insert") || is(&before, "merge");

		if (is(&t, "into") && !(writes && (is(&opening, "explain") || is(&opening, "prepare") || begins_statement(before.at, begin))))
			return true;
		opening = opening.kind == END ? t : opening;
		before = t;
	}
	return false;
}

/* It has one of the words, or is cut off. */
static bool has_word(const uint8_t *text, size_t size, const char *const *words, size_t count)
{
	const char *at = (const char *)text, *nul = size > 0 ? memchr(at, 0, size) : NULL, *end = nul ? nul : at + size;
	struct token t;

	while ((t = next_word(&at, end)).kind != END)
		for (size_t i = 0; i < count; i++)
			if (is(&t, words[i]))
				return true;
	return !nul;
}

bool state_text_may_begin(const uint8_t *text, size_t size)
{
	static const char *const words[] = { "begin", "start" };

	return has_word(text, size, words, 2);
}

bool state_text_begins(const uint8_t *text, size_t size)
{
	struct reader r = { (const char *)text, (const char *)text + size };
	struct token t = take(&r);

	return is(&t, "begin") || is(&t, "start");
}

bool state_text_may_notify(const uint8_t *text, size_t size)
{
	static const char *const words[] = { "notify", "pg_notify" };

	return has_word(text, size, words, 2);
}

bool state_text_may_draw(const uint8_t *text, size_t size)
{
	static const char *const words[] = { "insert", "merge", "copy" };

	return has_word(text, size, words, 3);
}

/* ---- sequences that a text asks for ---- */

/* The end of an argument: a parenthesis, perhaps behind a cast to regclass. */
static bool take_end(struct reader *r)
{
	struct token t = take(r), second, type;

	if (!is_mark(&t, ':'))
		return is_mark(&t, ')');
	second = take(r);
	type = take(r);
	t = take(r);
	return is_mark(&second, ':') && is(&type, "regclass") && is_mark(&t, ')');
}

/* Behind pg_get_serial_sequence. */
static bool take_column(struct reader *r, struct token *table, struct token *column)
{
	struct token opening = take(r), comma, closing;

	*table = take(r);
	comma = take(r);
	*column = take(r);
	closing = take(r);
	return is_mark(&opening, '(') && table->kind == STRING && is_mark(&comma, ',') && column->kind == STRING && is_mark(&closing, ')');
}

/* Behind the word currval. */
static bool read_sequence(struct reader r, struct bytes *oids)
{
	struct token opening = take(&r), first = take(&r), table, column;

	if (!is_mark(&opening, '('))
		return false;
	if (first.kind == STRING)
		bytes_append_format(oids, "pg_catalog.to_regclass('%.*s')", (int)first.size, first.at);
	else if (is(&first, "pg_get_serial_sequence") && take_column(&r, &table, &column))
		bytes_append_format(oids, "pg_catalog.to_regclass(pg_catalog.pg_get_serial_sequence('%.*s','%.*s'))", (int)table.size, table.at, (int)column.size,
				    column.at);
	else
		return false;
	bytes_append_text(oids, "::pg_catalog.oid,");
	return take_end(&r);
}

/* Strings are between single quotes as they are, and there is one statement. */
static bool is_plain(const char *begin, const char *end)
{
	const char *at = begin;

	while (end > begin && (isspace((unsigned char)end[-1]) || end[-1] == ';'))
		end--;
	if (memchr(begin, ';', (size_t)(end - begin)) || memchr(begin, '\\', (size_t)(end - begin)))
		return false;
	while ((at = memchr(at, '$', (size_t)(end - at))) != NULL)
		if (++at == end || !isdigit((unsigned char)*at))
			return false;
	return true;
}

bool state_text_read_sequences(const uint8_t *text, size_t size, struct bytes *oids)
{
	const char *begin = (const char *)text, *end = size > 0 ? memchr(begin, 0, size) : NULL, *at = begin;
	struct token t, first;

	if (!end || !is_plain(begin, end))
		return false;
	first = next_word(&at, end);
	for (; begin < first.at; begin++)
		if (!isspace((unsigned char)*begin))
			return false;
	if (!is(&first, "select") && !is(&first, "insert") && !is(&first, "update") && !is(&first, "delete"))
		return false;
	while ((t = next_word(&at, end)).kind != END) {
		const char *behind = at + (t.at[-1] == '"' && at < end && *at == '"');

		/* of search_path: then a name may be another sequence */
		if (is(&t, "set_config") || (is(&t, "currval") && !read_sequence((struct reader){ behind, end }, oids)))
			return false;
	}
	return true;
}

/* ---- parameters that are set to NULL ---- */

/* Behind the word set_config. True: *name is lower case, and *null the NULL. */
static bool take_null(struct reader r, struct name *name, struct token *null)
{
	struct token opening = take(&r), t = take(&r), comma = take_behind_cast(&r);

	*null = take(&r);
	if (!is_mark(&opening, '(') || t.kind != STRING || !is_mark(&comma, ',') || !is(null, "null"))
		return false;
	*name = (struct name){ .size = 0 };
	append(name, t.at, t.size);
	if (name->size > PARAMS_NAME_LONGEST)
		return false;
	name->text[name->size] = '\0';
	return true;
}

static void append_string(struct bytes *to, const char *value)
{
	bytes_append_text(to, " E'");
	for (; *value; value++) {
		if (*value == '\'' || *value == '\\')
			bytes_append_u8(to, (uint8_t)*value);
		bytes_append_u8(to, (uint8_t)*value);
	}
	bytes_append_text(to, "' ");
}

bool state_text_fill_nulls(const uint8_t *text, size_t size, value_of_setting *value_of, void *context, struct bytes *filled)
{
	const char *begin = (const char *)text, *end = size > 0 ? memchr(begin, 0, size) : NULL, *at = begin, *copied = begin;
	struct token t, null;
	struct name name;

	/* the text of a function, a comment or a quoted name may look like a call */
	if (!end || !is_plain(begin, end) || memchr(begin, '"', (size_t)(end - begin)) || memmem(begin, (size_t)(end - begin), "/*", 2) ||
	    memmem(begin, (size_t)(end - begin), "--", 2))
		return false;
	while ((t = next_word(&at, end)).kind != END) {
		const char *value;

		if (!is(&t, "set_config") || !take_null((struct reader){ at, end }, &name, &null))
			continue;
		value = value_of(context, name.text);
		if (!value)
			continue;
		bytes_append(filled, copied, (size_t)(null.at - copied));
		append_string(filled, value);
		copied = at = null.at + null.size;
	}
	if (copied == begin)
		return false;
	bytes_append(filled, copied, (size_t)((const char *)text + size - copied));
	return true;
}
