/*
 * Effects of SQL texts on the state of the session.
 *
 * The command tag SET says that a parameter was set, but not which one. Parameters that the server
 * knows are in its view pg_settings. Parameters with a dot are in no view unless an extension has
 * defined them ("Customized Options"): to ask for their values, pgweir must know their names.
 * Therefore the names are read from the texts of clients:
 *
 *	SET [ SESSION ] name ...	RESET name	set_config('name', value, false)
 *
 * SET LOCAL, and set_config with true, end with the transaction. Functions that change the session,
 * and commands with the tag of a SELECT, are found by their words:
 *
 *	SELECT ... INTO TEMP t		CREATE TEMP TABLE t AS ...
 *	pg_advisory_lock(1)		dblink_connect(...)
 *
 * The text is split into words and not parsed: a false match costs a query to the server, or keeps
 * the server assigned for a while. Words in strings, comments and quoted identifiers count, because
 * the end of a string depends on dollar quotes and on standard_conforming_strings, and a wrong end
 * would hide the rest of the text:
 *
 *	SELECT $$it's$$; SELECT set_config('app.tenant', '7', false)
 *
 * Only the WINDOW bytes after a found word are read by the rules of SQL.
 *
 * Some names are accepted by PostgreSQL, but pgweir cannot ask for them, and they count as unknown:
 * names with '$' or bytes beyond ASCII, with a truncated part, with a reserved prefix, or too long.
 * A text with an escaped identifier counts as setting an unknown parameter, because the identifier
 * may be any of the words:
 *
 *	SELECT U&"set\005fconfig"('app.tenant', '7', false)
 */
#include "sql/state_text.h"

#include "base/inline.h"
#include "pg/params.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define WINDOW 256		/* bytes after a word in which a name is looked for */
#define PARAMETERS_MOST 1000	/* names that are looked for in one text */
/* tokens of a call of set_config that are read to find its last argument */
#define CALL_MOST 24
#define IDENTIFIER_MOST 63	/* significant bytes of an identifier */
#define NAME_WORDS 16		/* units of a text_search for a name of a parameter */

/* ---- names of parameters ---- */

struct reading {
	struct sql_lexer lexer;		/* after a word */
	setting_named *named;
	void *context;
	struct text_reading *so_far;
	const char *begin, *end;	/* the text */
};

struct name {
	char text[PARAMS_NAME_LONGEST + 1];
	size_t size;			/* of a longer name, more than `text` holds */
	bool has_dot, is_truncated;	/* PostgreSQL truncates a part */
};

static void name_is_unknown(struct reading *x)
{
	x->so_far->said |= TEXT_SETS | TEXT_SETS_UNNAMED;
}

static void state_text_append(struct name *n, const char *at, size_t size)
{
	for (size_t i = 0; i < size; i++, n->size++) {
		if (n->size < PARAMS_NAME_LONGEST)
			n->text[n->size] = (char)tolower((unsigned char)at[i]);
		n->has_dot |= at[i] == '.';
	}
}

/* Whether PostgreSQL may accept the name for a parameter ("Customized Options"): parts with dots
   between them. In the sources of functions (state_functions.c) a question mark replaces each
   character that is not ASCII. */
static bool may_be_accepted(const char *name)
{
	bool begins = true;

	for (; *name; name++) {
		if (*name == '.' ? begins
				 : (!lex_is_in_name(*name) && *name != '?') ||
					   (begins && (lex_is_digit(*name) || *name == '$')))
			return false;
		begins = *name == '.';
	}
	return !begins;
}

/* Names without a dot are parameters of the server. It can be asked for all of them but seed. */
static void report_name(struct reading *x, struct name *n)
{
	bool is_too_long = n->size > PARAMS_NAME_LONGEST;

	if (lex_equal(n->text, n->size < PARAMS_NAME_LONGEST ? n->size : 0, "seed"))
		x->so_far->said |= TEXT_STAYS;
	if (!n->has_dot)
		return;
	n->text[is_too_long ? PARAMS_NAME_LONGEST : n->size] = '\0';
	if (!is_too_long && !n->is_truncated && params_kind_of(n->text) == PARAMS_SETTABLE)
		x->named(x->context, n->text);
	else if (is_too_long || n->is_truncated || may_be_accepted(n->text)) {
		name_is_unknown(x);
		x->so_far->said |= TEXT_SETS_ODDLY_NAMED;
	}
}

/* Returns the next token without taking it. A name may follow a comment, which may be longer than
   the window. */
static struct lex_token state_text_peek(struct reading *x)
{
	struct sql_lexer ahead = x->lexer;
	struct lex_token t = lex_next(&ahead);

	if (t.kind == LEX_END && x->lexer.is_cut)
		name_is_unknown(x);
	return t;
}

static bool state_text_is_word(const struct lex_token *t)
{
	return t->kind == LEX_WORD || t->kind == LEX_QUOTED_WORD;
}

/* After U: the token is the beginning of U&"an identifier". */
static bool begins_escaped_name(const struct sql_lexer *l)
{
	return l->end - l->at >= 2 && memcmp(l->at, "&\"", 2) == 0;
}

/* After RESET, or SET [ SESSION ]: parts with dots between them. */
static void read_name(struct reading *x)
{
	struct name n = { .size = 0 };
	struct lex_token t = state_text_peek(x);

	while (state_text_is_word(&t)) {
		lex_next(&x->lexer);
		if (lex_is(&t, "u") && begins_escaped_name(&x->lexer)) {
			name_is_unknown(x);
			return;
		}
		n.is_truncated |= t.text_size > IDENTIFIER_MOST;
		state_text_append(&n, t.text, t.text_size);
		t = state_text_peek(x);
		if (!lex_is_mark(&t, '.'))
			break;
		lex_next(&x->lexer);
		state_text_append(&n, ".", 1);
		t = state_text_peek(x);
	}
	report_name(x, &n);
}

/* After the parenthesis of a call: the last argument is the word true, and nothing in the call
   makes the ends of its strings uncertain, neither a backslash nor a dollar quote. False also if
   the call is too long. */
static bool call_is_local(struct sql_lexer l)
{
	struct sql_lexer call = l;
	struct lex_token before = { .kind = LEX_END }, last = before, t;
	int depth = 1;

	for (int i = 0; depth > 0; i++) {
		if (i == CALL_MOST || (t = lex_next(&l)).kind == LEX_END)
			return false;
		depth += lex_is_mark(&t, '(') - lex_is_mark(&t, ')');
		if (depth > 0) {
			before = last;
			last = t;
		}
	}
	if (!lex_is(&last, "true") || !lex_is_mark(&before, ',') ||
	    memchr(call.at, '\\', (size_t)(l.at - call.at)))
		return false;
	for (call.end = l.at;
	     (call.at = memchr(call.at, '$', (size_t)(call.end - call.at))) != NULL; call.at++)
		if (lex_skip_tag(&call))
			return false;
	return true;
}

/* Returns the token after a string, and after a cast of the string to a type of one word:
   'app.tenant'::text. */
static struct lex_token take_after_cast(struct sql_lexer *l)
{
	struct sql_lexer cast = *l;
	struct lex_token first = lex_next(&cast), second = lex_next(&cast), type = lex_next(&cast);

	if (lex_is_mark(&first, ':') && lex_is_mark(&second, ':') && state_text_is_word(&type))
		*l = cast;
	return lex_next(l);
}

/* After set_config. */
static void read_call(struct reading *x)
{
	struct lex_token t = state_text_peek(x), first;
	struct name n = { .size = 0 };

	if (!lex_is_mark(&t, '('))
		return;
	lex_next(&x->lexer);
	if (call_is_local(x->lexer)) {
		/* the end of the transaction does not undo it */
		first = lex_next(&x->lexer);
		if (lex_equal(first.text, first.text_size, "seed"))
			x->so_far->said |= TEXT_STAYS;
		return;
	}
	x->so_far->said |= TEXT_SETS;
	first = lex_next(&x->lexer);
	if (first.kind == LEX_STRING && !memchr(first.text, '\\', first.text_size)) {
		t = take_after_cast(&x->lexer);
		if (lex_is_mark(&t, ',')) {
			t = lex_next(&x->lexer);
			x->so_far->said |= lex_is(&t, "null") ? TEXT_SETS_NULL : 0u;
			state_text_append(&n, first.text, first.text_size);
			report_name(x, &n);
			return;
		}
	}
	name_is_unknown(x);
}

/* Reads the name after SET, RESET or set_config; false: the word is another one. Once a name is
   unknown, further names are not read, so that a text with many of these words takes no longer than
   others; after PARAMETERS_MOST words a name counts as unknown. */
static bool read_parameter(struct reading *x, const struct lex_token *t)
{
	bool sets = lex_is(t, "set"), resets = !sets && lex_is(t, "reset"),
	     calls = !sets && !resets && lex_is(t, "set_config");
	const char *at = t->at + t->size;

	if (!sets && !resets && !calls)
		return false;
	if (x->so_far->said & TEXT_SETS_UNNAMED)
		return true;
	if (x->so_far->parameters++ == PARAMETERS_MOST) {
		name_is_unknown(x);
		return true;
	}
	x->so_far->search.words_left -= NAME_WORDS;
	/* the quote of "set_config" */
	at += t->at > x->begin && t->at[-1] == '"' && at < x->end && *at == '"';
	x->lexer = (struct sql_lexer){ .at = at, .end = x->end, .is_fragment = true };
	if (x->end - at > WINDOW) {
		x->lexer.end = at + WINDOW;
		x->lexer.is_cut = true;
	}
	if (calls) {
		read_call(x);
		return true;
	}
	if (sets) {
		struct sql_lexer name = x->lexer;
		struct lex_token first = state_text_peek(x), after;

		if (lex_is(&first, "local") || lex_is(&first, "session")) {
			lex_next(&x->lexer);
			after = state_text_peek(x);
			/* the word may also be the first part of a name */
			if (lex_is_mark(&after, '.')) {
				x->lexer = name;
			} else if (lex_is(&first, "local")) {
				x->so_far->said |= lex_equal(after.text, after.text_size, "seed")
							   ? TEXT_STAYS
							   : 0u;
				return true;
			}
		}
	}
	read_name(x);
	return true;
}

/* ---- words ---- */

static unsigned said_by(const struct lex_token *t)
{
	static const struct { const char *word; uint8_t size; bool is_beginning; unsigned says;
	} words[] = {
#define WHOLE(word) word, sizeof(word) - 1, false
#define BEGINNING(word) word, sizeof(word) - 1, true
		{ WHOLE("prepare"), TEXT_PREPARES },
		{ WHOLE("hold"), TEXT_HOLDS },
		{ WHOLE("unlisten"), TEXT_UNLISTENS },
		{ WHOLE("pg_listening_channels"), TEXT_UNLISTENS },
		{ WHOLE("currval"), TEXT_READS_SEQUENCES | TEXT_READS_NAMED },
		{ WHOLE("lastval"), TEXT_READS_SEQUENCES },
		{ WHOLE("nextval"), TEXT_DRAWS },
		{ WHOLE("setval"), TEXT_DRAWS | TEXT_SETS_VALUES },
		{ WHOLE("begin"), TEXT_BEGINS },
		{ WHOLE("start"), TEXT_BEGINS },
		{ WHOLE("insert"), TEXT_FILLS },
		{ WHOLE("merge"), TEXT_FILLS },
		{ WHOLE("copy"), TEXT_FILLS },
		/* UPDATE t SET id = DEFAULT; ALTER TABLE t ADD id serial */
		{ WHOLE("default"), TEXT_FILLS },
		{ WHOLE("alter"), TEXT_FILLS },
		/* its rule calls set_config for an UPDATE; it has no parameters with a dot that
		   must be named */
		{ WHOLE("pg_settings"), TEXT_SETS },
		{ BEGINNING("dblink_connect"), TEXT_STAYS },
		{ BEGINNING("setseed"), TEXT_STAYS },
		{ WHOLE("isn_weak"), TEXT_STAYS },
		{ WHOLE("pg_backup_start"), TEXT_STAYS },
		{ WHOLE("pg_start_backup"), TEXT_STAYS },
		/* a slot may be temporary */
		{ WHOLE("pg_create_physical_replication_slot"), TEXT_STAYS },
		{ WHOLE("pg_create_logical_replication_slot"), TEXT_STAYS },
		{ WHOLE("pg_copy_physical_replication_slot"), TEXT_STAYS },
		{ WHOLE("pg_copy_logical_replication_slot"), TEXT_STAYS },
		{ WHOLE("pg_replication_origin_session_setup"), TEXT_STAYS },
		{ BEGINNING("pg_replication_origin_xact_"), TEXT_STAYS },
		{ BEGINNING("pg_temp"), TEXT_TEMPORARY },
		/* locks of the transaction: pg_advisory_xact_lock */
		{ BEGINNING("pg_advisory_xact"), 0 },
		{ BEGINNING("pg_try_advisory_xact"), 0 },
		{ BEGINNING("pg_advisory_"), TEXT_LOCKS },
		{ BEGINNING("pg_try_advisory_"), TEXT_LOCKS },
#undef WHOLE
#undef BEGINNING
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if ((words[i].is_beginning ? t->size >= words[i].size : t->size == words[i].size) &&
		    strncasecmp(t->at, words[i].word, words[i].size) == 0)
			return words[i].says;
	return 0;
}

/* Whether INSERT or MERGE begins a statement there, because a column may have such a name, too. */
static bool state_text_begins_statement(const char *word, const char *begin)
{
	while (word > begin && lex_is_blank(word[-1]))
		word--;
	return word == begin || strchr("(;/", word[-1]);
}

/* TEMP is a keyword after CREATE, CREATE OR REPLACE, GLOBAL, LOCAL, or INTO, and the name of a
   table in INSERT INTO and MERGE INTO at the beginning of the text; further in the text INSERT and
   MERGE may be names of columns. Between the words may be the words of comments. */
static bool makes_temporary(struct reading *x, const struct lex_token *before,
			    const struct lex_token *opening, unsigned words_before)
{
	if (lex_is(before, "into")) {
		if (words_before != 2 || !(lex_is(opening, "insert") || lex_is(opening, "merge")))
			return true;
	} else if (lex_is(before, "create") || lex_is(before, "replace") ||
		   lex_is(before, "global") || lex_is(before, "local")) {
		return true;
	}
	if (!x->so_far->looked_for_comments) {
		x->so_far->looked_for_comments = true;
		x->so_far->has_comments = memmem(x->begin, (size_t)(x->end - x->begin), "/*", 2) ||
					  memmem(x->begin, (size_t)(x->end - x->begin), "--", 2);
	}
	return x->so_far->has_comments;
}

/* Sizes of the words that matter, by their first letter, as bits; bit 31 is for 31 bytes and more.
   Nearly all words of a text have another size, and are not compared. */
#define OF(size) (1u << (size))
#define FROM(size) (~0u << (size))
static const uint32_t sizes[256] = {
	['a'] = OF(5),	       ['b'] = OF(5),
	['c'] = OF(4) | OF(7), ['d'] = OF(7) | FROM(14),
	['h'] = OF(4),	       ['i'] = OF(4) | OF(6) | OF(8),
	['l'] = OF(7),	       ['m'] = OF(5),
	['n'] = OF(7),	       ['p'] = FROM(7),
	['r'] = OF(5),	       ['s'] = OF(3) | OF(5) | OF(6) | FROM(7),
	['t'] = OF(4) | OF(9), ['u'] = OF(1) | OF(8),
};
#undef OF
#undef FROM

void state_text_read(struct text_reading *r, const uint8_t *text, size_t size, setting_named *named,
		     void *context)
{
	struct sql_lexer l = lex_begin(text, size);
	struct reading x = {
		.named = named, .context = context, .so_far = r, .begin = l.at, .end = l.end
	};
	struct lex_token t = { .kind = LEX_WORD }, before = t, opening = t;

	before.at = x.begin + r->before, before.size = r->before_size;
	opening.at = x.begin + r->opening, opening.size = r->opening_size;
	r->said |= l.is_cut ? (unsigned)TEXT_CUT : 0u;
	l.at += r->search.at;
	for (; r->search.words_left > 0; before = t, r->count++) {
		uint8_t letter;

		t.size = text_search_word(&r->search, &l.at, l.end, &t.at);
		if (t.size == 0)
			return;
		letter = (uint8_t)(*t.at | 0x20);
		if (r->count == 0)
			opening = t;
		if (!(sizes[letter] & 1u << (t.size < 31 ? t.size : 31)))
			continue;
		if (letter == 't') {
			if (!(r->said & TEXT_TEMPORARY) &&
			    (lex_is(&t, "temp") || lex_is(&t, "temporary")) &&
			    makes_temporary(&x, &before, &opening, r->count))
				r->said |= TEXT_TEMPORARY;
		} else if (letter == 'i' && lex_is(&t, "into")) {
			if (!((lex_is(&before, "insert") || lex_is(&before, "merge")) &&
			      (lex_is(&opening, "explain") || lex_is(&opening, "prepare") ||
			       state_text_begins_statement(before.at, x.begin))))
				r->said |= TEXT_SELECTS_INTO;
		} else if (letter == 'u' && lex_is(&t, "u")) {
			if (begins_escaped_name(&l))
				name_is_unknown(&x);
		} else if (!((letter == 's' || letter == 'r') && read_parameter(&x, &t))) {
			r->said |= said_by(&t);
		}
	}
	r->search.at = (size_t)(l.at - x.begin);
	r->before = (size_t)(before.at - x.begin), r->before_size = before.size;
	r->opening = (size_t)(opening.at - x.begin), r->opening_size = opening.size;
}

/* ---- arguments of functions ---- */

/* Whether the text is one statement, and all strings are between single quotes without escapes. */
static bool state_text_is_plain(const char *begin, const char *end)
{
	const char *at = begin;

	while (end > begin && (lex_is_blank(end[-1]) || end[-1] == ';'))
		end--;
	if (memchr(begin, ';', (size_t)(end - begin)) || memchr(begin, '\\', (size_t)(end - begin)))
		return false;
	while ((at = memchr(at, '$', (size_t)(end - at))) != NULL)
		if (++at == end || !lex_is_digit(*at))
			return false;
	return true;
}

/* After currval. */
static bool read_sequence(struct sql_lexer l, struct bytes *oids)
{
	struct lex_token opening = lex_next(&l), first = lex_next(&l), t;

	if (!lex_is_mark(&opening, '('))
		return false;
	if (first.kind == LEX_STRING) {
		bytes_append_format(oids, "pg_catalog.to_regclass('%.*s')", (int)first.text_size,
				    first.text);
	} else if (lex_is(&first, "pg_get_serial_sequence")) {
		struct lex_token inner = lex_next(&l), table = lex_next(&l), comma = lex_next(&l),
				 column = lex_next(&l), closing = lex_next(&l);

		if (!lex_is_mark(&inner, '(') || table.kind != LEX_STRING ||
		    !lex_is_mark(&comma, ',') || column.kind != LEX_STRING ||
		    !lex_is_mark(&closing, ')'))
			return false;
		bytes_append_format(
			oids,
			"pg_catalog.to_regclass(pg_catalog.pg_get_serial_sequence('%.*s','%.*s'))",
			(int)table.text_size, table.text, (int)column.text_size, column.text);
	} else {
		return false;
	}
	bytes_append_text(oids, "::pg_catalog.oid,");
	/* the argument ends, possibly after a cast to regclass */
	t = lex_next(&l);
	if (lex_is_mark(&t, ':')) {
		struct lex_token second = lex_next(&l), type = lex_next(&l);

		if (!lex_is_mark(&second, ':') || !lex_is(&type, "regclass"))
			return false;
		t = lex_next(&l);
	}
	return lex_is_mark(&t, ')');
}

bool state_text_read_sequences(const uint8_t *text, size_t size, struct bytes *oids)
{
	struct sql_lexer l = lex_begin(text, size);
	struct lex_token first = { .kind = LEX_WORD }, t = first;
	const char *begin;

	if (l.is_cut || !state_text_is_plain(l.at, l.end))
		return false;
	while (l.at < l.end && lex_is_blank(*l.at))
		l.at++;
	begin = l.at;
	first.size = lex_next_word(&l.at, l.end, &first.at);
	if (first.at != begin)
		return false;
	if (!lex_is(&first, "select") && !lex_is(&first, "insert") && !lex_is(&first, "update") &&
	    !lex_is(&first, "delete"))
		return false;
	while ((t.size = lex_next_word(&l.at, l.end, &t.at)) > 0) {
		struct sql_lexer after = { .at = l.at, .end = l.end, .is_fragment = true };

		after.at += t.at[-1] == '"' && after.at < after.end && *after.at == '"';
		/* set_config of search_path: then a name may be another sequence */
		if (lex_is(&t, "set_config") ||
		    (lex_is(&t, "currval") && !read_sequence(after, oids)))
			return false;
	}
	return true;
}

bool state_text_fill_nulls(const uint8_t *text, size_t size, value_of_setting *value_of,
			   void *context, struct bytes *filled)
{
	struct sql_lexer l = lex_begin(text, size);
	const char *begin = l.at, *copied = begin, *word;
	struct lex_token null;
	size_t length;

	/* the text of a function, a comment or a quoted name may look like a call */
	if (l.is_cut || !state_text_is_plain(begin, l.end) ||
	    memchr(begin, '"', (size_t)(l.end - begin)) ||
	    memmem(begin, (size_t)(l.end - begin), "/*", 2) ||
	    memmem(begin, (size_t)(l.end - begin), "--", 2))
		return false;
	while ((length = lex_next_word(&l.at, l.end, &word)) > 0) {
		struct sql_lexer after = { .at = l.at, .end = l.end, .is_fragment = true };
		struct lex_token opening, first, comma;
		struct name name = { .size = 0 };
		const char *value;

		if (!lex_equal(word, length, "set_config"))
			continue;
		opening = lex_next(&after);
		first = lex_next(&after);
		comma = take_after_cast(&after);
		null = lex_next(&after);
		if (!lex_is_mark(&opening, '(') || first.kind != LEX_STRING ||
		    !lex_is_mark(&comma, ',') || !lex_is(&null, "null"))
			continue;
		state_text_append(&name, first.text, first.text_size);
		if (name.size > PARAMS_NAME_LONGEST)
			continue;
		name.text[name.size] = '\0';
		value = value_of(context, name.text);
		if (!value)
			continue;
		bytes_append(filled, copied, (size_t)(null.at - copied));
		bytes_append_text(filled, " E'");
		for (; *value; value++) {
			if (*value == '\'' || *value == '\\')
				bytes_append_u8(filled, (uint8_t)*value);
			bytes_append_u8(filled, (uint8_t)*value);
		}
		bytes_append_text(filled, "' ");
		copied = l.at = null.at + null.size;
	}
	if (copied == begin)
		return false;
	bytes_append(filled, copied, (size_t)((const char *)text + size - copied));
	return true;
}

/* ---- the quick search ---- */

/*
 * The texts of all clients with session_state = full are searched, and nearly none has an effect.
 * Therefore many bytes are compared at once, with three letters of each word: the beginnings of
 * "set", "temp", "hold", "advisory", "dblink", "unlisten" and of an escaped identifier, rare
 * letters in "currval", "lastval", "nextval" and "pg_listening_channels", and the end of "into".
 */
#define BLOCK 32

static inline bool tells(uint8_t a, uint8_t b, uint8_t c, bool selects)
{
	a |= 0x20;
	b |= 0x20;
	switch (c | 0x20) {
	case 't': return a == 's' && b == 'e';
	case 'm': return a == 't' && b == 'e';
	case 'l':
		return (a == 'h' && b == 'o') || (a == 'd' && b == 'b') || (a == 'u' && b == 'n') ||
		       (a == 'g' && b == ('_' | 0x20));
	case 'o': return a == 'n' && b == 't' && selects;
	case 'v':
		return (a == 'a' && b == 'd') || (a == 'r' && b == 'r') || (a == 's' && b == 't') ||
		       (a == 'x' && b == 't');
	default: return a == 'u' && b == '&';
	}
}

/* The last of such three bytes. */
static const bool is_third[256] = {
	['t'] = true, ['T'] = true, ['m'] = true, ['M'] = true, ['l'] = true, ['L'] = true,
	['v'] = true, ['V'] = true, ['o'] = true, ['O'] = true, ['"'] = true,
};

/* Compares the three bytes at each of BLOCK places. Without a branch, so that the compiler compares
   many bytes at a time. A few bytes that are not letters match, too: they cost a reading of the
   text. */
static NEVER_INLINE bool block_tells(const uint8_t *at, uint8_t selects)
{
	uint8_t found = 0;

	for (size_t i = 0; i < BLOCK; i++) {
		uint8_t a = at[i] | 0x20, b = at[i + 1] | 0x20, c = at[i + 2] | 0x20;
		uint8_t with_e = (uint8_t)((b == 'e') &
					   (((a == 's') & (c == 't')) | ((a == 't') & (c == 'm'))));
		uint8_t others = (uint8_t)(((a == 'h') & (b == 'o') & (c == 'l')) |
					   ((a == 'a') & (b == 'd') & (c == 'v')) |
					   ((a == 'd') & (b == 'b') & (c == 'l')));
		uint8_t with_v = (uint8_t)((c == 'v') & (((a == 'r') & (b == 'r')) |
							 (((a == 's') | (a == 'x')) & (b == 't'))));
		uint8_t escaped = (uint8_t)((a == 'u') & (b == '&') & (c == '"'));
		uint8_t listens = (uint8_t)((c == 'l') & (((a == 'u') & (b == 'n')) |
							  ((a == 'g') & (b == ('_' | 0x20)))));
		uint8_t into = (uint8_t)((a == 'n') & (b == 't') & (c == 'o') & selects);

		found |= into | with_e | others | with_v | escaped | listens;
	}
	return found;
}

/* Whether a dot follows a value (a parenthesis, a bracket, a parameter), or a name that begins with
   "ts" follows the dot (ts_stat); or blanks or a comment are next to the dot. */
static bool has_telling_dot(const char *text, const char *end)
{
	for (const char *dot = text; (dot = memchr(dot, '.', (size_t)(end - dot))) != NULL; dot++) {
		const char *before = dot, *after = dot + 1;

		if (dot == text || !(lex_is_in_name(dot[-1]) || dot[-1] == '"'))
			return true;
		after += *after == '"';
		if (!(lex_is_in_name(*after) || *after == '*') ||
		    ((*after | 0x20) == 't' && (after[1] | 0x20) == 's'))
			return true;
		while (before > text && lex_is_digit(before[-1]))
			before--;
		if (before < dot && before > text && before[-1] == '$')
			return true;
	}
	return false;
}

static bool has_comment(const char *text, const char *end)
{
	for (const char *at = text; (at = memchr(at, '-', (size_t)(end - at))) != NULL; at++)
		if (at[1] == '-')
			return true;
	for (const char *at = text; (at = memchr(at, '/', (size_t)(end - at))) != NULL; at++)
		if (at[1] == '*')
			return true;
	return false;
}

static ALWAYS_INLINE bool words_tell(const uint8_t *text, const uint8_t *end)
{
	const uint8_t *at = text;
	/* not if the text is one INSERT, in which INTO does not belong to a SELECT */
	uint8_t selects = !(end - text > 6 && (text[0] | 0x20) == 'i' && (text[1] | 0x20) == 'n' &&
			    (text[2] | 0x20) == 's' &&
			    !memchr(text, ';', (size_t)(end - text - 1)));

	for (; end - at >= BLOCK + 2; at += BLOCK)
		if (block_tells(at, selects))
			return true;
	for (; end - at >= 3; at++)
		if (is_third[at[2]] && tells(at[0], at[1], at[2], selects))
			return true;
	return false;
}

/* Returns TEXT_TELLS_CALLS and TEXT_TELLS_PARENTHESIS. */
static NEVER_INLINE unsigned calls_tell(const char *text, const char *end)
{
	unsigned told = has_telling_dot(text, end) ? TEXT_TELLS_CALLS : 0u;

	if (memchr(text, '(', (size_t)(end - text)))
		told |= has_comment(text, end) ? TEXT_TELLS_PARENTHESIS | TEXT_TELLS_CALLS
					       : TEXT_TELLS_PARENTHESIS;
	return told;
}

bool state_text_tells_words(const uint8_t *text, size_t size)
{
	const uint8_t *end = size > 0 ? memchr(text, 0, size) : NULL;

	return !end || words_tell(text, end);
}

unsigned state_text_tells(const uint8_t *text, size_t size)
{
	const uint8_t *end = size > 0 ? memchr(text, 0, size) : NULL;
	unsigned told;

	if (!end)
		return TEXT_TELLS_WORDS | TEXT_TELLS_CALLS | TEXT_TELLS_PARENTHESIS;
	told = words_tell(text, end) ? TEXT_TELLS_WORDS : 0u;
	/* a shorter text, as BEGIN, calls nothing */
	return end - text < (ptrdiff_t)sizeof("CALL f()") - 1
		       ? told
		       : told | calls_tell((const char *)text, (const char *)end);
}
