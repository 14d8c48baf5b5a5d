/*
 * Where an SQL text may run code, by its tokens.
 *
 * A text is not parsed. The walk follows the tokens of PostgreSQL's scanner (sql_lex.c) and keeps
 * only the name that is being read, with its qualifiers, and the expected kind of the name.
 * Therefore it reports too much, such as the columns of INSERT INTO t (a, b) as a call of t, and
 * never too little. If it is uncertain where a token ends, the text is unproven.
 *
 *	SELECT lower(t.name)::text FROM t
 *		CALL lower, COLUMN name, TYPE text
 */
#include "sql/sql_uses.h"

#include "base/inline.h"

/* The kind of the next name. */
enum name_is { NAME_IS_PLAIN, NAME_IS_TYPE, NAME_IS_COLLATION, NAME_IS_METHOD };

struct walker {
	struct sql_lexer lexer;
	struct sql_walk *walk;
	sql_use_seen *seen;
	void *context;
	struct lex_token before;	/* the token before the present one */
	/* the name that is being read: */
	unsigned parts;			/* 0: there is none */
	struct lex_token name;		/* its last part */
	struct lex_token before_name;
	bool is_of_value;		/* it begins with the dot after a value */
	bool is_qualified;
	bool has_dot;			/* the next part follows */
	bool in_operator;		/* in the parentheses of OPERATOR(schema.+) */
	enum name_is name_is;
};

static ALWAYS_INLINE void report_use(struct walker *w, enum sql_use_kind kind,
				     const struct lex_token *name)
{
	struct sql_use use = { kind, *name, w->parts > 0 ? w->before_name : w->before,
			       w->is_qualified };

	w->seen(w->context, &use);
}

static bool uses_is_name(const struct lex_token *t)
{
	return t->kind == LEX_WORD || t->kind == LEX_QUOTED_WORD || t->kind == LEX_ESCAPED_WORD;
}

/* Another part, or nothing, follows the last part. */
static void end_part(struct walker *w)
{
	if (w->is_of_value)
		report_use(w, SQL_USE_FIELD, &w->name);
	else if (w->parts > 1)
		report_use(w, SQL_USE_COLUMN, &w->name);
}

/* The name ends, and is not a call. */
static ALWAYS_INLINE void end_name(struct walker *w)
{
	static const enum sql_use_kind kinds[] = { [NAME_IS_TYPE] = SQL_USE_TYPE,
						   [NAME_IS_COLLATION] = SQL_USE_COLLATION,
						   [NAME_IS_METHOD] = SQL_USE_METHOD };

	if (w->parts == 0)
		return;
	if (w->name_is != NAME_IS_PLAIN)
		report_use(w, kinds[w->name_is], &w->name);
	else if (w->parts > 1 || w->is_of_value)
		end_part(w);
	w->parts = 0;
	w->name_is = NAME_IS_PLAIN;
	w->is_of_value = w->is_qualified = false;
}

/* Whether the last part, which is the schema of the next one, is pg_catalog. */
static bool is_catalog(const struct lex_token *t)
{
	return (t->kind == LEX_WORD && lex_equal(t->text, t->text_size, "pg_catalog")) ||
	       (t->kind == LEX_QUOTED_WORD && t->text_size == sizeof("pg_catalog") - 1 &&
		memcmp(t->text, "pg_catalog", t->text_size) == 0);
}

static ALWAYS_INLINE void read_word(struct walker *w, const struct lex_token *t)
{
	if (t->size == 2 && w->walk->casts & 1 && lex_is(t, "as"))
		w->name_is = NAME_IS_TYPE;
	else if (t->size == 7 && lex_is(t, "collate"))
		w->name_is = NAME_IS_COLLATION;
	else if (t->size == 11 && lex_is(t, "tablesample"))
		w->name_is = NAME_IS_METHOD;
	else
		return;
	w->parts = 0;
}

static ALWAYS_INLINE void read_name_part(struct walker *w, const struct lex_token *t)
{
	if (w->has_dot) {
		if (w->parts > 0) {
			if (w->name_is == NAME_IS_PLAIN)
				end_part(w);
			w->is_qualified = w->parts > 1 || w->is_of_value || !is_catalog(&w->name);
		}
		w->has_dot = false;
	} else {
		end_name(w);
		w->before_name = w->before;
	}
	w->parts++;
	w->name = *t;
	if (w->walk->reports_all && t->kind == LEX_WORD)
		report_use(w, SQL_USE_WORD, t);
	if (w->parts == 1 && !w->is_of_value && t->kind == LEX_WORD)
		read_word(w, t);
}

static void read_dot(struct walker *w)
{
	if (w->parts == 0) {
		w->is_of_value = true;
		w->before_name = w->before;
	}
	w->has_dot = true;
}

static void open_parenthesis(struct walker *w)
{
	bool casts = false;

	if (w->parts > 0 && w->name_is == NAME_IS_PLAIN) {
		report_use(w, SQL_USE_CALL, &w->name);
		w->in_operator = w->parts == 1 && lex_is(&w->name, "operator");
		casts = w->parts == 1 && (lex_is(&w->name, "cast") || lex_is(&w->name, "treat") ||
					  lex_is(&w->name, "xmlserialize"));
		w->parts = 0;
		w->is_of_value = w->is_qualified = false;
	} else {
		end_name(w);
	}
	/* of more than 64, the outer ones count as CAST */
	w->walk->casts = w->walk->casts << 1 | casts;
	w->walk->depth++;
}

static void close_parenthesis(struct walker *w)
{
	end_name(w);
	w->walk->casts = w->walk->casts >> 1 | (w->walk->depth > 64 ? UINT64_C(1) << 63 : 0);
	w->walk->depth -= w->walk->depth > 0;
}

static void read_mark(struct walker *w, const struct lex_token *t)
{
	char c = t->size == 1 ? *t->at : '\0';

	if (c == '.') {
		read_dot(w);
		return;
	}
	if (c == '(')
		open_parenthesis(w);
	else if (c == ')')
		close_parenthesis(w);
	else
		end_name(w);
	w->in_operator &= c == '(';
	w->has_dot = w->is_of_value = false;
	w->name_is = t->size == 2 && *t->at == ':' && t->at[1] == ':' ? NAME_IS_TYPE
								      : NAME_IS_PLAIN;
}

static void read_operator(struct walker *w, const struct lex_token *t)
{
	/* t.* has a dot, too */
	if (w->in_operator && w->has_dot && w->parts > 0)
		w->is_qualified = w->parts > 1 || !is_catalog(&w->name);
	else
		end_name(w);
	report_use(w, SQL_USE_OPERATOR, t);
	w->parts = 0;
	w->has_dot = w->is_of_value = w->is_qualified = w->in_operator = false;
	w->name_is = NAME_IS_PLAIN;
}

static void read_value(struct walker *w, const struct lex_token *t)
{
	/* a literal with its type */
	if (t->kind == LEX_STRING && w->parts > 0 && !w->is_of_value)
		w->name_is = NAME_IS_TYPE;
	end_name(w);
	w->has_dot = w->is_of_value = w->in_operator = false;
	w->name_is = NAME_IS_PLAIN;
}

/* Returns the token that lex_scan() would return. Names and blanks, which are most of a text, are
   read here without a call. */
static ALWAYS_INLINE struct lex_token scan(struct sql_lexer *l)
{
	const char *begin = l->at, *at, *end = l->end;

	while (begin < end && lex_is_blank(*begin))
		begin++;
	at = begin;
	if (at < end && lex_is_in_word(*at) && !lex_is_digit(*at)) {
		uint8_t p = 0;

		while (at < end && (p = lex_bytes[(uint8_t)*at]) & (BYTE_IN_WORD | BYTE_DOLLAR))
			at++;
		/* the prefix of a string, or a byte beyond ASCII */
		if (!(p & BYTE_NOT_ASCII) &&
		    (at == end || (*at != '\'' && *at != '&' && *at != '?'))) {
			l->at = at;
			return (struct lex_token){ LEX_WORD, begin, (size_t)(at - begin), begin,
						   (size_t)(at - begin) };
		}
	} else if (at < end && (*at == ',' || *at == '(' || *at == ')')) {
		l->at = at + 1;
		return (struct lex_token){ LEX_MARK, at, 1, at, 1 };
	}
	l->at = begin;
	return lex_scan(l);
}

static ALWAYS_INLINE void step_walk(struct walker *w, const struct lex_token *t)
{
	if (w->walk->reports_all) {
		struct sql_use use = { SQL_USE_TOKEN, *t, w->before, false };

		w->seen(w->context, &use);
		use.kind = SQL_USE_STATEMENT;
		if ((w->before.kind == LEX_END || lex_is_mark(&w->before, ';')) &&
		    !lex_is_mark(t, ';'))
			w->seen(w->context, &use);
	}
	if (uses_is_name(t))
		read_name_part(w, t);
	else if (t->kind == LEX_MARK)
		read_mark(w, t);
	else if (t->kind == LEX_OPERATOR)
		read_operator(w, t);
	else
		read_value(w, t);
	w->before = *t;
}

void sql_uses_walk(struct sql_walk *walk, const uint8_t *text, size_t size, int64_t *tokens,
		   sql_use_seen *seen, void *context)
{
	struct walker w = {
		.lexer = lex_begin(text, size), .walk = walk, .seen = seen, .context = context
	};
	const char *begin = w.lexer.at;
	struct lex_token t;

	w.lexer.at += walk->at;
	w.lexer.is_source = walk->is_source;
	w.before.kind = (enum lex_kind)walk->before_kind;
	w.before.at = w.before.text = begin + walk->before;
	w.before.size = w.before.text_size = walk->before_size;
	w.lexer.is_uncertain = w.lexer.is_cut;
	/* the walk stops only between names */
	while (!walk->is_over && !w.lexer.is_cut &&
	       (*tokens > 0 || w.parts > 0 || w.has_dot || w.in_operator ||
		w.name_is != NAME_IS_PLAIN)) {
		const char *from = w.lexer.at;

		t = scan(&w.lexer);
		if (w.lexer.is_uncertain)
			break;
		if (t.kind == LEX_END) {
			end_name(&w);
			walk->is_over = true;
			break;
		}
		*tokens -= 1 + (w.lexer.at - from) / SQL_USE_BYTES;
		step_walk(&w, &t);
	}
	walk->is_uncertain |= w.lexer.is_uncertain;
	walk->is_over |= walk->is_uncertain;
	walk->at = (size_t)(w.lexer.at - begin);
	walk->before_kind = (uint8_t)w.before.kind;
	walk->before = (size_t)(w.before.at - begin);
	walk->before_size = w.before.size;
}
