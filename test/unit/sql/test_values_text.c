/* Texts that ask for the last value of a sequence and for nothing else. */
#include "sql/values_text.h"

#include "unit.h"

#include <string.h>

static const struct { const char *text, *call, *argument; bool is_named; } shapes[] = {
	{ "SELECT lastval()", "lastval()", "", false },
	{ "/* a */ select pg_catalog . LASTVAL ( ) ; -- b", "pg_catalog . LASTVAL ( )", "", false },
	{ "SELECT \"lastval\"() AS id;", "\"lastval\"()", "", true },
	{ "SELECT lastval() \"Id\"", "lastval()", "", true },
	{ "SELECT currval('a')", "currval('a')", "'a'", false },
	{ "SELECT pg_catalog.currval('s.\"It''s\"'::regclass)", "pg_catalog.currval('s.\"It''s\"'::regclass)", "'s.\"It''s\"'::regclass", false },
	{ "SELECT CurrVal($1::text::pg_catalog.regclass) select", "CurrVal($1::text::pg_catalog.regclass)", "$1::text::pg_catalog.regclass", true },
	{ "SELECT currval(pg_catalog.pg_get_serial_sequence('t', 'c'))", "currval(pg_catalog.pg_get_serial_sequence('t', 'c'))",
	  "pg_catalog.pg_get_serial_sequence('t', 'c')", false },
	{ "SELECT currval('a' -- b\n'c')", "currval('a' -- b\n'c')", "'a' -- b\n'c'", false },
	{ "SELECT currval('a' -- b\n)", "currval('a' -- b\n)", "'a' -- b\n", false },
};

TEST(texts_of_this_shape)
{
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		const char *text = shapes[i].text;
		struct values_text t;

		CHECK(values_text_read((const uint8_t *)text, strlen(text) + 1, &t));
		CHECK_INT(t.is_last, !*shapes[i].argument);
		CHECK_INT(t.is_named, shapes[i].is_named);
		CHECK_INT(t.call_end - t.call, strlen(shapes[i].call));
		CHECK(memcmp(text + t.call, shapes[i].call, strlen(shapes[i].call)) == 0);
		CHECK(memcmp(text + t.argument, shapes[i].argument, strlen(shapes[i].argument)) == 0);
		CHECK(t.is_last || t.argument_end - t.argument == strlen(shapes[i].argument));
		/* truncated */
		for (size_t size = 0; size <= strlen(text); size++)
			CHECK(!values_text_read((const uint8_t *)text, size, &t));
	}
}

TEST(texts_of_other_shapes)
{
	static const char *const texts[] = {
		"", "SELECT", "SELECT lastval", "SELECT lastval(1)", "SELECT lastval(), 1", "SELECT 1, lastval()", "SELECT lastval() + 1", "SELECT lastval() FROM t",
		"SELECT lastval(); SELECT 1", "SELECT (lastval())", "EXPLAIN SELECT lastval()", "SELECT nextval('a')", "SELECT s.currval('a')", "SELECT \"CURRVAL\"('a')",
		"SELECT currval()", "SELECT currval('a' || 'b')", "SELECT currval('a' 'b')", "SELECT currval(E'a')", "SELECT currval('a\\b')", "SELECT currval($$a$$)",
		"SELECT currval('a'::name)", "SELECT currval('a':regclass)", "SELECT currval(a)", "SELECT currval($ 1)", "SELECT currval($a)", "SELECT currval(16384)",
		"SELECT currval(pg_get_serial_sequence('t', lower('C')))", "SELECT currval(U&'a')", "SELECT currval('a'", "SELECT currval('a) /*", "SELECT currval('a', 'b')",
	};
	static char longer[VALUES_TEXT_MOST + 2];
	struct values_text t;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		CHECK(!values_text_read((const uint8_t *)texts[i], strlen(texts[i]) + 1, &t));
	memset(longer, ' ', sizeof(longer) - 1);
	memcpy(longer, "SELECT lastval()", 16);
	CHECK(!values_text_read((const uint8_t *)longer, sizeof(longer), &t));
	CHECK(values_text_read((const uint8_t *)longer + 0, (longer[VALUES_TEXT_MOST] = '\0', sizeof(longer)), &t));
}

UNIT_MAIN
