/*
 * Recognises SQL texts that only read ("SELECT", "VALUES", "Value Expressions" and "Lexical
 * Structure" in the PostgreSQL documentation).
 *
 * A standby rejects writes, but that is not enough: a function may catch the error, take an
 * advisory lock, or tell where it runs. The reader must understand the whole text: one query
 * without locks; names, literals, parameters, operators; calls of functions from a list
 * (tbl/read_functions.tbl) or of functions that the administrator has named. Each other text is for
 * the primary.
 *
 * The reader is an automaton: its state is the expected kind of the next token, and a frame for
 * each open parenthesis, bracket and CASE. The reader need not reject texts with wrong syntax,
 * because these are errors on any server. The reader must reject each text that is valid and does
 * something else, so words of two meanings are refused, and two operands without an operator
 * between them, as in all commands and clauses that it does not know:
 *
 *	SELECT a INTO b			SELECT ... FOR UPDATE		FROM a TABLESAMPLE b (1)
 *	(TABLE a)			JSON_OBJECT('a': 1)
 *
 * Calls are found by their parenthesis; t.f may be a call, too. Relations are found by their place
 * in FROM. All of these names are reported, because only the catalogue knows whether they have the
 * built-in meaning (read_question.c).
 *
 * Refused as well: identifiers with characters that are not ASCII, because of encodings in which
 * such a character has a byte of ASCII; strings with backslashes; U&"" and U&''; numbers with a
 * letter after them (1a is the number 1 and the name a before PostgreSQL 15); relations pg_..., and
 * xmin and similar columns. now() is the clock of the standby.
 *
 * Invariant: no step reads beyond lexer.end, and each step moves the lexer forward.
 */
#include "sql/read_text.h"

#include "sql/read_reader.h"
#include "sql/read_transaction.h"

/* ---- clauses ---- */

/* After FETCH. */
static bool take_fetch(struct query_reader *r)
{
	if (!take_word(r, "first") && !take_word(r, "next"))
		return false;
	if (take_mark(r, '$') || lex_is_digit(peek(r)))
		reader_next(r);
	if (!take_word(r, "row") && !take_word(r, "rows"))
		return false;
	return (take_word(r, "only") || (take_word(r, "with") && take_word(r, "ties"))) &&
	       begin_clause(r, CLAUSE_OTHER, EXPECTS_JOIN);
}

/* Takes the first word of a clause of a query. */
bool reader_take_clause(struct query_reader *r, enum word word)
{
	/* ((SELECT 1) UNION SELECT 2), and the same in FROM */
	if (r->top->kind == FRAME_LIST || r->top->kind == FRAME_JOINS) {
		if (word == WORD_FROM || word == WORD_WHERE || word == WORD_GROUP ||
		    word == WORD_WINDOW)
			return false;
		r->top->kind = FRAME_QUERY;
		r->top->clause = CLAUSE_OTHER;
	}
	if (r->top->kind != FRAME_QUERY)
		return false;
	switch (word) {
	case WORD_FROM:
		return r->top->clause == CLAUSE_LIST &&
		       begin_clause(r, CLAUSE_FROM, EXPECTS_RELATION);
	case WORD_WHERE:
		return begin_clause(r, CLAUSE_OTHER, EXPECTS_OPERAND);
	case WORD_GROUP:
		return take_word(r, "by") && begin_clause(r, CLAUSE_GROUP, EXPECTS_OPERAND);
	case WORD_ORDER:
		return take_word(r, "by") && begin_clause(r, CLAUSE_ORDER, EXPECTS_OPERAND);
	case WORD_LIMIT:
	case WORD_OFFSET:
		return begin_clause(r, CLAUSE_LIMIT, EXPECTS_OPERAND);
	case WORD_FETCH:
		return take_fetch(r);
	case WORD_UNION:
		if (!take_word(r, "all"))
			take_word(r, "distinct");
		return begin_clause(r, CLAUSE_OTHER, EXPECTS_QUERY);
	case WORD_WINDOW:
		return begin_clause(r, CLAUSE_WINDOW, EXPECTS_WINDOW_NAME);
	default:
		return false;
	}
}

static bool begin_select(struct query_reader *r)
{
	return begin_clause(r, CLAUSE_LIST, EXPECTS_OPERAND);
}

/* The frame, which has just been opened, becomes a query. */
bool reader_begin_query(struct query_reader *r, enum word word)
{
	r->top->kind = FRAME_QUERY;
	switch (word) {
	case WORD_SELECT:
		return begin_select(r);
	case WORD_VALUES:
		return begin_clause(r, CLAUSE_OTHER, EXPECTS_ROW_OF_VALUES);
	case WORD_WITH:
		take_word(r, "recursive");
		return expect(r, EXPECTS_CTE);
	default:
		return false;
	}
}

static bool step_query(struct query_reader *r, const struct lex_token *t)
{
	if (lex_is_mark(t, '('))
		return open_frame(r, FRAME_QUERY, CLAUSE_OTHER, EXPECTS_QUERY, EXPECTS_JOIN);
	return reader_begin_query(r, r->word);
}

/* WITH name (a, b) AS MATERIALIZED (query) */
static bool step_cte(struct query_reader *r, const struct lex_token *t)
{
	if (r->expects == EXPECTS_CTE_OR_QUERY)
		return lex_is_mark(t, ',') ? expect(r, EXPECTS_CTE) : step_query(r, t);
	if (r->expects == EXPECTS_CTE) {
		if (!is_identifier(t) || !is_plain(t) || !word_may_be_name(r->word))
			return false;
		return take_mark(r, '(') ? open_frame(r, FRAME_NAMES, CLAUSE_OTHER, EXPECTS_NAME,
						      EXPECTS_CTE_AS)
					 : expect(r, EXPECTS_CTE_AS);
	}
	if (r->word != WORD_AS)
		return false;
	take_word(r, "not");
	take_word(r, "materialized");
	return take_mark(r, '(') &&
	       open_frame(r, FRAME_QUERY, CLAUSE_OTHER, EXPECTS_QUERY, EXPECTS_CTE_OR_QUERY);
}

static bool step_name(struct query_reader *r, const struct lex_token *t)
{
	if (r->expects == EXPECTS_NAME)
		return is_identifier(t) && word_may_be_name(r->word) &&
		       expect(r, EXPECTS_END_OF_NAME);
	return lex_is_mark(t, ',') ? expect(r, EXPECTS_NAME)
				   : lex_is_mark(t, ')') && close_frame(r);
}

/* ---- FROM ---- */

static bool step_relation(struct query_reader *r, const struct lex_token *t)
{
	enum word word = r->word;
	struct read_path p;

	if (lex_is_mark(t, '('))
		return open_frame(r, FRAME_JOINS, CLAUSE_FROM, EXPECTS_RELATION, EXPECTS_ALIAS);
	if (word == WORD_LATERAL)
		return true;
	if ((word == WORD_SELECT || word == WORD_VALUES || word == WORD_WITH) &&
	    r->top->kind == FRAME_JOINS)
		return reader_begin_query(r, word);
	if (!is_identifier(t) || !reader_take_path(r, *t, &p))
		return false;
	if (peek(r) == '(')
		return (word == WORD_NAME || p.count == 2) &&
		       reader_take_call(r, &p, EXPECTS_ALIAS);
	if (p.has_star || p.count > 2 || !word_may_be_name(p.count == 1 ? word : WORD_NAME))
		return false;
	for (unsigned i = 0; i < p.count; i++)
		if (begins(&p.parts[i], "pg_") || begins(&p.parts[i], "information_schema") ||
		    !report(r, i + 1 < p.count ? READ_NAME_SCHEMA : READ_NAME_RELATION,
			    &p.parts[i]))
			return false;
	return expect(r, EXPECTS_ALIAS);
}

/* After a relation, its alias, or ON and an expression. */
static bool take_join(struct query_reader *r, enum word word, const struct lex_token *t)
{
	if (r->top->clause != CLAUSE_FROM && r->top->clause != CLAUSE_ON)
		return false;
	switch (word) {
	case WORD_JOINED:
		if (lex_is(t, "natural") && !take_word(r, "inner") && !take_word(r, "left") &&
		    !take_word(r, "right"))
			take_word(r, "full");
		take_word(r, "outer");
		return take_word(r, "join") && begin_clause(r, CLAUSE_FROM, EXPECTS_RELATION);
	case WORD_JOIN:
		return begin_clause(r, CLAUSE_FROM, EXPECTS_RELATION);
	case WORD_ON:
		return begin_clause(r, CLAUSE_ON, EXPECTS_OPERAND);
	case WORD_USING:
		return take_mark(r, '(') && begin_clause(r, CLAUSE_FROM, EXPECTS_JOIN) &&
		       open_frame(r, FRAME_NAMES, CLAUSE_OTHER, EXPECTS_NAME, EXPECTS_ALIAS);
	default:
		return false;
	}
}

/* Any place after an operand, a relation or a query where a comma, a parenthesis or a clause may
   follow. */
bool reader_step_end(struct query_reader *r, const struct lex_token *t)
{
	enum clause clause = r->top->clause;
	enum word word;

	if (lex_is_mark(t, ')'))
		return r->top->kind != FRAME_INDEX && r->top->kind != FRAME_CASE &&
		       r->top > r->frames && close_frame(r);
	if (lex_is_mark(t, ','))
		return expect(r, clause == CLAUSE_FROM || clause == CLAUSE_ON ? EXPECTS_RELATION :
				 clause == CLAUSE_WINDOW ? EXPECTS_WINDOW_NAME : EXPECTS_OPERAND);
	word = r->word;
	return take_join(r, word, t) || reader_take_clause(r, word);
}

static bool step_alias(struct query_reader *r, const struct lex_token *t)
{
	if (r->word == WORD_WITH)
		return take_word(r, "ordinality");
	if (lex_is_mark(t, '*'))
		return true;
	if (r->word == WORD_AS) {
		struct lex_token name = reader_next(r);

		if (!is_identifier(&name) || !word_may_be_name(word_of(&name)))
			return false;
	} else if (!is_identifier(t) || !word_may_be_name(r->word)) {
		return reader_step_end(r, t);
	}
	return take_mark(r, '(')
		       ? open_frame(r, FRAME_NAMES, CLAUSE_OTHER, EXPECTS_NAME, EXPECTS_JOIN)
		       : expect(r, EXPECTS_JOIN);
}

/* ---- windows ---- */

/* WINDOW name AS (...) */
static bool step_window_name(struct query_reader *r, const struct lex_token *t)
{
	return is_identifier(t) && word_may_be_name(r->word) && take_word(r, "as") &&
	       take_mark(r, '(') &&
	       open_frame(r, FRAME_WINDOW, CLAUSE_OTHER, EXPECTS_WINDOW, EXPECTS_JOIN);
}

/* The parts of a window: PARTITION BY, ORDER BY, ROWS ... */
bool reader_take_window_part(struct query_reader *r, enum word word)
{
	if (r->top->kind != FRAME_WINDOW)
		return false;
	if (word == WORD_PARTITION || word == WORD_ORDER)
		return take_word(r, "by") &&
		       begin_clause(r, word == WORD_ORDER ? CLAUSE_ORDER : CLAUSE_OTHER,
				    EXPECTS_OPERAND);
	return word == WORD_ROWS && expect(r, EXPECTS_FRAME);
}

static bool step_window(struct query_reader *r, const struct lex_token *t)
{
	if (lex_is_mark(t, ')'))
		return close_frame(r);
	/* the name of another window may come first */
	return reader_take_window_part(r, r->word) || (is_identifier(t) && r->word == WORD_NAME);
}

/* After ROWS, RANGE or GROUPS: BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING EXCLUDE TIES */
static bool step_frame(struct query_reader *r, const struct lex_token *t)
{
	static const char *const parts[] = { "between", "unbounded", "preceding", "following",
					     "current", "row",	     "and",	  "exclude",
					     "no",	"others",    "group",	  "ties",
					     "interval" };

	if (lex_is_mark(t, ')'))
		return close_frame(r);
	if (t->kind == LEX_STRING || (t->kind == LEX_WORD && lex_is_digit(*t->at)))
		return true;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (lex_is(t, parts[i]))
			return true;
	return false;
}

/* ---- texts ---- */

static bool read_text_step(struct query_reader *r, const struct lex_token *t)
{
	switch (r->expects) {
	case EXPECTS_QUERY:
		return step_query(r, t);
	case EXPECTS_CTE:
	case EXPECTS_CTE_AS:
	case EXPECTS_CTE_OR_QUERY:
		return step_cte(r, t);
	case EXPECTS_ROW_OF_VALUES:
		return lex_is_mark(t, '(') && open_frame(r, FRAME_LIST, CLAUSE_OTHER,
							 EXPECTS_OPERAND, EXPECTS_END_OF_VALUES);
	case EXPECTS_END_OF_VALUES:
		return lex_is_mark(t, ',') ? expect(r, EXPECTS_ROW_OF_VALUES)
					   : reader_step_end(r, t);
	case EXPECTS_OPERAND:
		return reader_step_operand(r, t);
	case EXPECTS_OPERATOR:
		return reader_step_operator(r, t);
	case EXPECTS_END_OF_COLUMN:
	case EXPECTS_JOIN:
		return reader_step_end(r, t);
	case EXPECTS_RELATION:
		return step_relation(r, t);
	case EXPECTS_ALIAS:
		return step_alias(r, t);
	case EXPECTS_NAME:
	case EXPECTS_END_OF_NAME:
		return step_name(r, t);
	case EXPECTS_WINDOW_NAME:
		return step_window_name(r, t);
	case EXPECTS_WINDOW:
		return step_window(r, t);
	default:
		return step_frame(r, t);
	}
}

/* Whether the text may end here. */
static bool read_text_is_complete(const struct query_reader *r)
{
	static const uint32_t ends = 1u << EXPECTS_END_OF_VALUES | 1u << EXPECTS_OPERATOR |
				     1u << EXPECTS_END_OF_COLUMN | 1u << EXPECTS_ALIAS |
				     1u << EXPECTS_JOIN;

	return r->top == r->frames && ends >> r->expects & 1;
}

bool read_text_only_reads(const uint8_t *text, size_t size, const char *functions,
			  struct read_names *names)
{
	struct query_reader r;
	struct lex_token t;

	r.lexer = lex_begin(text, size);
	r.text = (const char *)text;
	r.functions = functions;
	r.names = names;
	r.expects = EXPECTS_QUERY;
	names->count = 0;
	names->operators = 0;
	if (size > READ_TEXT_MOST || r.lexer.is_cut || read_has_hint(text, size))
		return false;
	r.top = r.frames;
	r.frames[0] = (struct frame){ FRAME_QUERY, CLAUSE_OTHER, EXPECTS_JOIN };
	while (t = reader_next(&r), t.kind != LEX_END && !lex_is_mark(&t, ';')) {
		/* before a dot each word is a name, or a text is wrong */
		r.word = t.kind == LEX_WORD && *r.lexer.at != '.' ? word_of(&t) : WORD_NAME;
		if (!read_text_step(&r, &t))
			return false;
	}
	while (lex_is_mark(&t, ';'))
		t = reader_next(&r);
	return t.kind == LEX_END && read_text_is_complete(&r) && !r.lexer.is_uncertain;
}
