/* Tokens end where PostgreSQL's scanner ends them. */
#include "sql/sql_lex.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

/* Returns the tokens with a blank between them, and " uncertain" at the end; static memory. */
static const char *tokens_of(const char *text, size_t size, bool is_source)
{
	static char joined[1024];
	uint8_t *copy = malloc(size ? size : 1);
	struct sql_lexer l;
	struct lex_token t;

	if (!copy)
		abort();
	memcpy(copy, text, size);
	l = lex_begin(copy, size);
	l.is_source = is_source;
	*joined = '\0';
	while (t = lex_scan(&l), t.kind != LEX_END) {
		CHECK(t.size > 0 && t.at + t.size == l.at);
		sprintf(joined + strlen(joined), "%s%.*s", *joined ? " " : "", (int)t.size, t.at);
	}
	if (l.is_uncertain)
		strcat(joined, " uncertain");
	free(copy);
	return joined;
}

static const struct { const char *text, *tokens; } texts[] = {
	{ "", "" },
	{ "SELECT a.b,c_$1 FROM \"t\"\"u\"", "SELECT a . b , c_$1 FROM \"t\"\"u\"" },
	{ "a--b\nc", "a c" },
	{ "a--b\rc", "a c" },
	{ "a--b\r\nc", "a c" },
	{ "a/*/**/*/b", "a b" },
	{ "a/*/b*/c/**/d/***/e", "a c d e" },
	{ "a /* b", "a uncertain" },
	{ "a+--b\n-c", "a + - c" },
	{ "a+/*b*/c", "a + c" },
	{ "a<-1 b@-c d=>e f-+-g", "a < - 1 b @- c d => e f - + - g" },
	{ "a<>-1", "a <> - 1" },
	{ "a!=-1", "a !=- 1" },
	{ "a::b:=c:d", "a :: b := c : d" },
	{ "a[1:2]{", "a [ 1 : 2 ] {" },
	{ "1 1.5 .5 1. 1e5 1.5E-3 1.e5 1..10", "1 1.5 .5 1. 1e5 1.5E-3 1.e5 1 .. 10" },
	{ "1_000 0x1F 0b1_0 0o17 0xg 1and", "1_000 0x1F 0b1_0 0o17 0 xg 1 and" },
	{ "1e 1e+ 1.a", "1 e 1 e + 1. a" },
	{ "$1 $12a $a$ b $$ $a$ $b", "$1 $12 a $a$ b $$ $a$ $ b" },
	{ "a$$b$$", "a$$b$$" },
	{ "$$a$b$$c", "$$a$b$$ c" },
	{ "$x$ $y$x$ z", "$x$ $y$x$ z" },
	{ "$x$ $y$ z", "$x$ $y$ z uncertain" },
	{ "$\xc3\xa4$a$\xc3\xa4$ b", "$\xc3\xa4$a$\xc3\xa4$ b uncertain" },
	{ "'a''b'c", "'a''b' c" },
	{ "'a'\n'b' 'c' 'd'", "'a'\n'b' 'c' 'd'" },
	{ "'a' -- 'x\r 'b'c", "'a' -- 'x\r 'b' c" },
	{ "'a'--\n--\n'b'c", "'a'--\n--\n'b' c" },
	{ "'a' - 'b'", "'a' - 'b'" },
	{ "'a' /*\n*/ 'b'", "'a' 'b'" },
	{ "'a'\n", "'a'" },
	/* the second part has escapes, too */
	{ "E'a'\n'\\'b'c", "E'a'\n'\\'b' c" },
	{ "e'\\\\'a E'\\''b", "e'\\\\' a E'\\'' b" },
	{ "B'1'a x'1F'b N'c'd", "B'1' a x'1F' b N 'c' d" },
	{ "U&'a' u&\"b\"\"c\" u & \"d\" menu&\"e\"", "U&'a' u&\"b\"\"c\" u & \"d\" menu & \"e\"" },
	/* standard_conforming_strings */
	{ "'a\\b\\\\'c", "'a\\b\\\\' c" },
	{ "'a\\'c", "'a\\' c uncertain" },
	{ "'a\\'''c'", "'a\\''' c ' uncertain" },
	{ "'a\\\\\\'c", "'a\\\\\\' c uncertain" },
	{ "\"a\\\"b", "\"a\\\" b" },
	/* client_encoding: the backslash may belong to the character before it */
	{ "E'\x95\\'a'", "E'\x95\\'a' uncertain" },
	{ "'\xc3\xa4\\n'", "'\xc3\xa4\\n'" },
	{ "'\x95\\\\'", "'\x95\\\\' uncertain" },
	{ "\x81|a", "\x81 | a uncertain" },
	{ "\xc3\xa4,b", "\xc3\xa4 , b" },
	{ "'a", "'a uncertain" },
	{ "a\vb\fc", "a b c" },
	{ "f?(a)", "f ? ( a )" },
};

TEST(tokens)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		CHECK_TEXT(tokens_of(texts[i].text, strlen(texts[i].text) + 1, false), texts[i].tokens);
	CHECK_TEXT(tokens_of("f?(a ?| b", 10, true), "f? ( a ? | b");
}

/* Nothing beyond the text is read. */
TEST(beginnings_of_texts)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		for (size_t size = 0; size <= strlen(texts[i].text); size++)
			tokens_of(texts[i].text, size, false);
}

/* lex_next() cuts operators, numbers and parameters, and has the same strings, names and comments. */
TEST(tokens_in_parts)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct sql_lexer whole = lex_begin((const uint8_t *)texts[i].text, strlen(texts[i].text) + 1), parts = whole;
		struct lex_token t, part = { .kind = LEX_WORD };

		if (lex_is_digit(*texts[i].text) || *texts[i].text == '$')
			continue;
		while (t = lex_scan(&whole), t.kind != LEX_END) {
			do
				part = lex_next(&parts);
			while (part.kind != LEX_END && part.at + part.size < t.at + t.size);
			if (part.at + part.size != t.at + t.size)
				UNIT_FAIL("%s: %.*s", texts[i].text, (int)t.size, t.at);
		}
	}
}

UNIT_MAIN
