/*
 * Expressions in SQL texts that only read ("Value Expressions" in the PostgreSQL documentation):
 * operands and operators by turns. See read_text.c.
 */
#include "sql/read_reader.h"

/* ---- names ---- */

/* Whether the name is of a system column, such as xmin. */
static bool is_system_column(const struct lex_token *t)
{
	return t->text_size == 4 && (begins(t, "xm") || begins(t, "cm")) &&
	       word_of(&(struct lex_token){ LEX_WORD, t->text, 4, t->text, 4 }) == WORD_REFUSED;
}

bool reader_take_path(struct query_reader *r, struct lex_token first, struct read_path *p)
{
	p->parts[0] = first;
	p->count = 1;
	p->has_star = false;
	if (first.text_size > READ_NAME_MOST || (first.kind == LEX_WORD && !is_plain(&first)) ||
	    (first.kind == LEX_QUOTED_WORD && memchr(first.text, '"', first.text_size)))
		return false;
	while (peek(r) == '.') {
		struct lex_token t;

		reader_next(r);
		t = reader_next(r);
		if (p->has_star || p->count == READ_PARTS_MOST)
			return false;
		if (lex_is_mark(&t, '*'))
			p->has_star = true;
		else if (is_identifier(&t) && is_plain(&t))
			p->parts[p->count++] = t;
		else
			return false;
	}
	return true;
}

/* Takes the call of a function, at its parenthesis. */
bool reader_take_call(struct query_reader *r, const struct read_path *p, enum expects then)
{
	const struct lex_token *name = &p->parts[p->count - 1];

	if (p->has_star || p->count > 2)
		return false;
	if (!word_is_listed(r->functions, p)) {
		if (p->count == 2 &&
		    !(begins(&p->parts[0], "pg_catalog") && p->parts[0].text_size == 10))
			return false;
		if (!is_plain(name) || !word_is_read_function(name) ||
		    !report(r, READ_NAME_FUNCTION, name))
			return false;
	}
	reader_next(r);
	return open_frame(r, FRAME_ARGUMENTS, CLAUSE_OTHER, EXPECTS_OPERAND, then);
}

/* ---- types ---- */

/* After INTERVAL '1 2': DAY TO HOUR. */
static void skip_interval_fields(struct query_reader *r)
{
	static const char *const fields[] = { "year", "month", "day", "hour", "minute", "second" };

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (take_word(r, fields[i]) && take_word(r, "to"))
			i = 0;
}

/* (10, 2), or (Point, 4326) of an extension. */
static bool take_modifiers(struct query_reader *r)
{
	struct lex_token t;

	if (!take_mark(r, '('))
		return true;
	do {
		take_mark(r, '-');
		t = reader_next(r);
		if (t.kind != LEX_WORD || !word_may_be_name(word_of(&t)))
			return false;
	} while (take_mark(r, ','));
	return take_mark(r, ')');
}

/* Takes a type, of which this is the first token. */
static bool take_type(struct query_reader *r, struct lex_token first)
{
	struct read_path p;

	if (!is_identifier(&first) || !reader_take_path(r, first, &p) || p.has_star ||
	    p.count > 2 || !report(r, READ_NAME_TYPE, &p.parts[p.count - 1]))
		return false;
	if (p.count == 1 && first.kind == LEX_WORD) {
		enum word word = word_of(&first);

		if (!word_may_be_name(word))
			return false;
		if (lex_is(&first, "national") && !take_word(r, "character") &&
		    !take_word(r, "char"))
			return false;
		if (lex_is(&first, "double") ? !take_word(r, "precision")
					     : !take_word(r, "varying") && word == WORD_INTERVAL)
			skip_interval_fields(r);
		if (!take_modifiers(r))
			return false;
		if (word == WORD_TIME && (take_word(r, "with") || take_word(r, "without")) &&
		    !(take_word(r, "time") && take_word(r, "zone")))
			return false;
	} else if (!take_modifiers(r)) {
		return false;
	}
	while (take_mark(r, '[')) {
		if (lex_is_digit(peek(r)))
			reader_next(r);
		if (!take_mark(r, ']'))
			return false;
	}
	return expect(r, EXPECTS_OPERATOR);
}

/* ---- operators ---- */

#define OPERATOR_MOST 4

static const struct { uint8_t size; char text[OPERATOR_MOST + 1]; } operators[] = {
#define READ_OPERATOR(text) { sizeof(text) - 1, text },
#define READ_OPERATOR_IMPLIED(text) READ_OPERATOR(text)
#include "tbl/read_operators.tbl"
#undef READ_OPERATOR
#undef READ_OPERATOR_IMPLIED
};
_Static_assert(sizeof(operators) / sizeof(operators[0]) <= 64, "operators of a text are bits");

static bool is_operator_byte(char c)
{
	return c && strchr("~!@#^&|`?+-*/%<>=", c);
}

/* Takes the rest of the operator that begins with the mark `t`. Returns its size. */
static size_t take_operator(struct query_reader *r, const struct lex_token *t)
{
	const char *at = t->at, *end = r->lexer.end;
	bool may_end_with_sign = false;
	size_t size;

	for (; at < end && is_operator_byte(*at); at++) {
		if (end - at > 1 && (memcmp(at, "--", 2) == 0 || memcmp(at, "/*", 2) == 0))
			break;
		may_end_with_sign |= !strchr("+-*/<>=", *at);
	}
	size = (size_t)(at - t->at);
	while (size > 1 && !may_end_with_sign && (t->at[size - 1] == '+' || t->at[size - 1] == '-'))
		size--;
	if (size > 0)
		r->lexer.at = t->at + size;
	return size;
}

static bool step_operator_mark(struct query_reader *r, const struct lex_token *t)
{
	size_t size = take_operator(r, t);

	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
		if (operators[i].size == size && memcmp(operators[i].text, t->at, size) == 0) {
			r->names->operators |= UINT64_C(1) << i;
			return expect(r, EXPECTS_OPERAND);
		}
	/* the name of an argument */
	return size == 2 && memcmp(t->at, "=>", 2) == 0 && r->top->kind == FRAME_ARGUMENTS &&
	       expect(r, EXPECTS_OPERAND);
}

/* ---- expressions ---- */

/* 1, 1.5, .5, 1e-5 */
static bool take_number(struct query_reader *r, const char *at)
{
	const char *end = r->lexer.end;

	while (at < end && lex_is_digit(*at))
		at++;
	if (at < end && *at == '.')
		for (at++; at < end && lex_is_digit(*at);)
			at++;
	if (at < end && (*at | 0x20) == 'e') {
		at++;
		at += at < end && (*at == '+' || *at == '-');
		if (at == end || !lex_is_digit(*at))
			return false;
		while (at < end && lex_is_digit(*at))
			at++;
	}
	if (at < end && (lex_is_in_name(*at) || *at == '.'))
		return false;
	r->lexer.at = at;
	return expect(r, EXPECTS_OPERATOR);
}

/* After '$'. */
static bool take_parameter(struct query_reader *r)
{
	const char *at = r->lexer.at;

	while (at < r->lexer.end && lex_is_digit(*at))
		at++;
	if (at == r->lexer.at || (at < r->lexer.end && lex_is_in_name(*at)))
		return false;
	r->lexer.at = at;
	return expect(r, EXPECTS_OPERATOR);
}

static bool step_operand_mark(struct query_reader *r, const struct lex_token *t)
{
	enum frame_kind kind = r->top->kind;

	switch (*t->at) {
	case '(':
		return open_frame(r, FRAME_LIST, CLAUSE_OTHER, EXPECTS_OPERAND, EXPECTS_OPERATOR);
	case ')':
		/* f() */
		return reader_step_end(r, t);
	case '[':
		return kind == FRAME_INDEX &&
		       open_frame(r, FRAME_INDEX, CLAUSE_OTHER, EXPECTS_OPERAND, EXPECTS_OPERATOR);
	case ']':
		return kind == FRAME_INDEX && close_frame(r);
	case ':':
		return kind == FRAME_INDEX && peek(r) != ':';
	case '$':
		return take_parameter(r);
	case '.':
		return lex_is_digit(peek(r)) && take_number(r, t->at + 1);
	case '*':
		return (kind == FRAME_ARGUMENTS ||
			(kind == FRAME_QUERY && r->top->clause == CLAUSE_LIST)) &&
		       expect(r, EXPECTS_OPERATOR);
	default:
		return step_operator_mark(r, t);
	}
}

/* A column, a call, or a literal with its type. */
static bool take_named_operand(struct query_reader *r, const struct lex_token *t, enum word word)
{
	struct read_path p;
	char next;

	if (!reader_take_path(r, *t, &p))
		return false;
	next = peek(r);
	if (next == '(')
		return reader_take_call(r, &p, EXPECTS_OPERATOR);
	if (next == '\'') {
		reader_next(r);
		if (word == WORD_INTERVAL)
			skip_interval_fields(r);
		return !p.has_star && p.count <= 2 &&
		       report(r, READ_NAME_TYPE, &p.parts[p.count - 1]) &&
		       expect(r, EXPECTS_OPERATOR);
	}
	if (is_system_column(&p.parts[p.count - 1]))
		return false;
	for (unsigned i = 1; i < p.count; i++)
		if (begins(&p.parts[i], "pg_") || !report(r, READ_NAME_ATTRIBUTE, &p.parts[i]))
			return false;
	return expect(r, EXPECTS_OPERATOR);
}

/* timestamp(3) with time zone '...' */
static bool take_time(struct query_reader *r, const struct lex_token *t)
{
	struct sql_lexer after = r->lexer;
	struct lex_token next;
	bool is_type = peek(r) == '(' || take_word(r, "with") || take_word(r, "without");

	r->lexer = after;
	if (!is_type)
		return take_named_operand(r, t, WORD_TIME);
	if (!take_type(r, *t))
		return false;
	next = reader_next(r);
	return next.kind == LEX_STRING && expect(r, EXPECTS_OPERATOR);
}

/* A keyword with a parenthesis. */
static bool take_parenthesis(struct query_reader *r, enum frame_kind kind)
{
	return take_mark(r, '(') &&
	       open_frame(r, kind, CLAUSE_OTHER, EXPECTS_OPERAND, EXPECTS_OPERATOR);
}

static bool step_operand_word(struct query_reader *r, const struct lex_token *t)
{
	enum word word = r->word;
	enum frame_kind kind = r->top->kind;
	bool calls;

	if (word == WORD_NAME)
		return take_named_operand(r, t, word);
	calls = peek(r) == '(';
	switch (word) {
	case WORD_SELECT:
	case WORD_VALUES:
	case WORD_WITH:
		return kind == FRAME_LIST && reader_begin_query(r, word);
	case WORD_NOT:
	case WORD_QUANTIFIER:
		return true;
	case WORD_DISTINCT:
		if (kind != FRAME_ARGUMENTS && kind != FRAME_QUERY)
			return false;
		return !take_word(r, "on") ||
		       (take_mark(r, '(') &&
			open_frame(r, FRAME_LIST, CLAUSE_OTHER, EXPECTS_OPERAND, EXPECTS_OPERAND));
	case WORD_VALUE:
		return !calls ? expect(r, EXPECTS_OPERATOR) : take_parenthesis(r, FRAME_LIST);
	case WORD_CASE:
		return open_frame(r, FRAME_CASE, CLAUSE_OTHER, EXPECTS_OPERAND, EXPECTS_OPERATOR);
	case WORD_WHEN:
		return kind == FRAME_CASE;
	case WORD_EXISTS:
		return take_parenthesis(r, FRAME_LIST);
	case WORD_ARRAY:
		return take_mark(r, '[') ? open_frame(r, FRAME_INDEX, CLAUSE_OTHER, EXPECTS_OPERAND,
						      EXPECTS_OPERATOR)
					 : take_parenthesis(r, FRAME_LIST);
	case WORD_CAST:
		return take_parenthesis(r, FRAME_CAST);
	case WORD_SPECIAL:
		return calls ? report(r, READ_NAME_FUNCTION, t) &&
				       take_parenthesis(r, FRAME_SPECIAL)
			     : take_named_operand(r, t, word);
	case WORD_SIDE:
	case WORD_FROM:
		/* trim(BOTH FROM a) */
		return kind == FRAME_SPECIAL;
	case WORD_ROW:
		return calls ? take_parenthesis(r, FRAME_LIST) : take_named_operand(r, t, word);
	case WORD_GROUPING:
		take_word(r, "sets");
		calls = peek(r) == '(';
		/* FALLTHROUGH */
	case WORD_ROLLUP:
		if (calls)
			return (word == WORD_GROUPING || r->top->clause == CLAUSE_GROUP) &&
			       take_parenthesis(r, FRAME_LIST);
		return take_named_operand(r, t, word);
	case WORD_ARGUMENTS:
		return calls ? take_parenthesis(r, FRAME_ARGUMENTS)
			     : take_named_operand(r, t, word);
	case WORD_TIME:
		return take_time(r, t);
	case WORD_INTERVAL:
		return !calls && take_named_operand(r, t, word);
	case WORD_JOINED:
		/* left(a, 1) */
		return calls && take_named_operand(r, t, word);
	default:
		return word_may_be_name(word) && !calls && take_named_operand(r, t, word);
	}
}

bool reader_step_operand(struct query_reader *r, const struct lex_token *t)
{
	switch (t->kind) {
	case LEX_STRING:
		return expect(r, EXPECTS_OPERATOR);
	case LEX_MARK:
		return step_operand_mark(r, t);
	case LEX_WORD:
		if (lex_is_digit(*t->at))
			return take_number(r, t->at);
		return step_operand_word(r, t);
	default:
		return t->kind == LEX_QUOTED_WORD && step_operand_word(r, t);
	}
}

/* ---- after an operand ---- */

/* (a).b */
static bool take_field(struct query_reader *r)
{
	struct lex_token t = reader_next(r);

	if (lex_is_mark(&t, '*'))
		return true;
	return is_identifier(&t) && !begins(&t, "pg_") && !is_system_column(&t) &&
	       report(r, READ_NAME_ATTRIBUTE, &t) && peek(r) != '(';
}

static bool step_operator_byte(struct query_reader *r, const struct lex_token *t)
{
	switch (*t->at) {
	case '.':
		return take_field(r);
	case ':':
		if (r->lexer.at < r->lexer.end && *r->lexer.at == ':') {
			r->lexer.at++;
			return take_type(r, reader_next(r));
		}
		return r->top->kind == FRAME_INDEX && peek(r) != '=' && expect(r, EXPECTS_OPERAND);
	case '[':
		return open_frame(r, FRAME_INDEX, CLAUSE_OTHER, EXPECTS_OPERAND, EXPECTS_OPERATOR);
	case ']':
		return r->top->kind == FRAME_INDEX && close_frame(r);
	case ',':
	case ')':
		return reader_step_end(r, t);
	default:
		return step_operator_mark(r, t);
	}
}

/* After IS. */
static bool take_test(struct query_reader *r)
{
	take_word(r, "not");
	if (take_word(r, "null") || take_word(r, "true") || take_word(r, "false") ||
	    take_word(r, "unknown"))
		return true;
	return take_word(r, "distinct") && take_word(r, "from") && expect(r, EXPECTS_OPERAND);
}

/* After a call: OVER, FILTER or WITHIN. */
static bool take_call_clause(struct query_reader *r, enum word word)
{
	struct lex_token name;

	if (word == WORD_FILTER)
		return take_mark(r, '(') && take_word(r, "where") &&
		       open_frame(r, FRAME_LIST, CLAUSE_OTHER, EXPECTS_OPERAND, EXPECTS_OPERATOR);
	if (word == WORD_WITHIN)
		return take_word(r, "group") && take_mark(r, '(') && take_word(r, "order") &&
		       take_word(r, "by") &&
		       open_frame(r, FRAME_LIST, CLAUSE_ORDER, EXPECTS_OPERAND, EXPECTS_OPERATOR);
	if (take_mark(r, '('))
		return open_frame(r, FRAME_WINDOW, CLAUSE_OTHER, EXPECTS_WINDOW, EXPECTS_OPERATOR);
	name = reader_next(r);
	return is_identifier(&name);
}

/* After AS in the select list or in CAST. */
static bool take_as(struct query_reader *r)
{
	struct lex_token t = reader_next(r);

	if (r->top->kind == FRAME_CAST)
		return take_type(r, t);
	return r->top->kind == FRAME_QUERY && r->top->clause == CLAUSE_LIST && is_identifier(&t) &&
	       expect(r, EXPECTS_END_OF_COLUMN);
}

static bool take_collation(struct query_reader *r)
{
	struct lex_token t = reader_next(r);
	struct read_path p;

	return is_identifier(&t) && reader_take_path(r, t, &p) && !p.has_star && p.count <= 2;
}

static bool step_operator_word(struct query_reader *r, const struct lex_token *t)
{
	enum word word = r->word;
	enum frame_kind kind = r->top->kind;
	struct lex_token next;

	if (word == WORD_NOT) {
		next = reader_next(r);
		word = word_of(&next);
		if (word != WORD_IN && word != WORD_LIKE && word != WORD_BETWEEN &&
		    word != WORD_SIMILAR)
			return false;
	}
	switch (word) {
	case WORD_NAME:
		return is_identifier(t) && kind == FRAME_QUERY && r->top->clause == CLAUSE_LIST &&
		       expect(r, EXPECTS_END_OF_COLUMN);
	case WORD_AND:
	case WORD_LIKE:
	case WORD_OVERLAPS:
	case WORD_ESCAPE:
		return expect(r, EXPECTS_OPERAND);
	case WORD_BETWEEN:
		if (!take_word(r, "symmetric"))
			take_word(r, "asymmetric");
		return expect(r, EXPECTS_OPERAND);
	case WORD_SIMILAR:
		return take_word(r, "to") && expect(r, EXPECTS_OPERAND);
	case WORD_IN:
		/* position(a IN b) */
		return kind == FRAME_SPECIAL && peek(r) != '(' ? expect(r, EXPECTS_OPERAND)
							       : take_parenthesis(r, FRAME_LIST);
	case WORD_IS:
		return take_test(r);
	case WORD_ISNULL:
		return true;
	case WORD_COLLATE:
		return take_collation(r);
	case WORD_AT:
		return take_word(r, "time") && take_word(r, "zone") && expect(r, EXPECTS_OPERAND);
	case WORD_ASC:
		return r->top->clause == CLAUSE_ORDER;
	case WORD_NULLS:
		return r->top->clause == CLAUSE_ORDER &&
		       (take_word(r, "first") || take_word(r, "last"));
	case WORD_OVER:
	case WORD_FILTER:
	case WORD_WITHIN:
		return take_call_clause(r, word);
	case WORD_WHEN:
		return kind == FRAME_CASE && expect(r, EXPECTS_OPERAND);
	case WORD_END:
		return kind == FRAME_CASE && close_frame(r);
	case WORD_AS:
		return take_as(r);
	case WORD_PART:
		return kind == FRAME_SPECIAL && expect(r, EXPECTS_OPERAND);
	case WORD_FROM:
		return kind == FRAME_SPECIAL ? expect(r, EXPECTS_OPERAND)
					     : reader_take_clause(r, word);
	case WORD_ORDER:
		if (kind == FRAME_ARGUMENTS)
			return take_word(r, "by") && begin_clause(r, CLAUSE_ORDER, EXPECTS_OPERAND);
		return reader_take_window_part(r, word) || reader_take_clause(r, word);
	case WORD_ROW:
		return r->top->clause == CLAUSE_LIMIT;
	case WORD_ROWS:
		return reader_take_window_part(r, word) ||
		       (r->top->clause == CLAUSE_LIMIT && lex_is(t, "rows"));
	default:
		return reader_step_end(r, t);
	}
}

bool reader_step_operator(struct query_reader *r, const struct lex_token *t)
{
	if (t->kind == LEX_MARK)
		return step_operator_byte(r, t);
	if (t->kind == LEX_STRING || (t->kind == LEX_WORD && lex_is_digit(*t->at)))
		return false;
	return step_operator_word(r, t);
}
