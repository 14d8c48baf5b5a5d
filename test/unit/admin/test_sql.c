/* The lexer: tokens, statements, and every way to cut a text short. */
#include "admin/command.h"

#include "unit.h"

#include <stdlib.h>

static struct sql_span span(const char *text)
{
	return (struct sql_span){ text, strlen(text) };
}

/* The tokens of a text, as "W:word I:\"x\" S:'y' =:= !:'bad". */
static const char *tokens(const char *text)
{
	static const char kinds[] = "EWIS=!";
	static char out[4096];
	struct sql_span rest = span(text), raw;
	enum sql_token token;

	out[0] = '\0';
	while ((token = sql_next_token(&rest, &raw)) != SQL_END) {
		size_t used = strlen(out);

		snprintf(out + used, sizeof(out) - used, "%s%c:%.*s", used ? " " : "", kinds[token], (int)raw.size, raw.at);
	}
	return out;
}

TEST(tokens)
{
	CHECK_PAIRS(tokens,
		{ "", "" },
		{ " \t\r\n\f\v", "" },
		{ "show pools;", "W:show W:pools =:;" },
		{ "SET a=b", "W:SET W:a =:= W:b" },
		{ "pause\"My Db\"'x'", "W:pause I:\"My Db\" S:'x'" },
		{ "'it''s' \"a\"\"b\" '' \"\"", "S:'it''s' I:\"a\"\"b\" S:'' I:\"\"" },
		{ "'\"' \"'\"", "S:'\"' I:\"'\"" },
		{ "my-db/x.y,z*", "W:my-db/x.y,z*" });
}

TEST(comments)
{
	CHECK_PAIRS(tokens,
		{ "-- ping", "" },
		{ "/* agent='x;' */SHOW/**/STATS--end\nx", "W:SHOW W:STATS W:x" },
		{ "/* a /* b */ c */ x", "W:x" },
		{ "a - b / c * d", "W:a W:- W:b W:/ W:c W:* W:d" },
		{ "'-- no' \"/* no\"", "S:'-- no' I:\"/* no\"" });
}

TEST(what_does_not_end)
{
	CHECK_PAIRS(tokens,
		{ "x 'abc", "W:x !:'abc" },
		{ "x \"abc;def", "W:x !:\"abc;def" },
		{ "x 'abc''", "W:x !:'abc''" },
		{ "x /* a /* b */", "W:x !:/* a /* b */" },
		{ "/*/", "!:/*/" });
}

/* The statements of a text, each in brackets. */
static const char *statements(const char *text)
{
	static char out[4096];
	struct sql_span rest = span(text), one;

	out[0] = '\0';
	while (sql_next_statement(&rest, &one)) {
		size_t used = strlen(out);

		snprintf(out + used, sizeof(out) - used, "[%.*s]", (int)one.size, one.at);
	}
	CHECK_INT(rest.size, 0);
	return out;
}

TEST(statements)
{
	CHECK_PAIRS(statements,
		{ "", "" },
		{ " ; ;; -- x", "" },
		{ "show pools", "[show pools]" },
		{ "  show pools  ;  ", "[show pools]" },
		{ "pause a;resume a;;show  x ; ", "[pause a][resume a][show  x]" },
		{ "/* c */ a /* in */ b /* c */;", "[a /* in */ b]" },
		{ "set q = 'a;b'; x \"c;d\"", "[set q = 'a;b'][x \"c;d\"]" },
		{ "a; b 'c; d", "[a][b 'c; d]" });
}

/* Walks the text in memory of exactly its size; every token must move on, stay inside and not
   overlap the one before. */
static void walk(const char *text, size_t size)
{
	char *copy = malloc(size ? size : 1);
	struct sql_span rest = { copy, size }, raw;
	const char *behind = copy;
	size_t rounds = 0;

	memcpy(copy, text, size);
	while (sql_next_token(&rest, &raw) != SQL_END) {
		CHECK(raw.size > 0 && raw.at >= behind && raw.at + raw.size <= copy + size);
		CHECK(rest.at == raw.at + raw.size && rest.at + rest.size == copy + size);
		behind = rest.at;
		if (++rounds > size) {
			UNIT_FAIL("does not move on: %.*s", (int)size, text);
			break;
		}
	}
	CHECK_INT(rest.size, 0);
	rest = (struct sql_span){ copy, size };
	while (sql_next_statement(&rest, &raw))
		CHECK(raw.size > 0 && raw.at >= copy && raw.at + raw.size <= copy + size);
	free(copy);
}

TEST(every_cut)
{
	static const char *const texts[] = {
		"/* a /* b */ ' */ SHOW \"x\"\"y\" -- c\n; SET a='it''s;' ; PAUSE \"b;\" /* open",
		"'/*''--\"\";=''\"'\"'/*/**/*/--",
		"-\n--\n/\n/*\n*/ = == ;;= '=' \"=\"",
		"set x to 'a'\"b\"'c'/**/''''\"\"\"\"",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		for (size_t from = 0; from <= strlen(texts[i]); from++)
			for (size_t size = 0; from + size <= strlen(texts[i]); size++)
				walk(texts[i] + from, size);
}

/* All texts of up to six of the characters that mean something. */
TEST(every_short_text)
{
	static const char alphabet[] = "'\";=/*-\na ";
	size_t letters = sizeof(alphabet) - 1;
	char text[6];

	for (size_t size = 0, total = 1; size <= 5; size++, total *= letters)
		for (size_t n = 0; n < total; n++) {
			for (size_t i = 0, left = n; i < size; i++, left /= letters)
				text[i] = alphabet[left % letters];
			walk(text, size);
		}
}

UNIT_MAIN
