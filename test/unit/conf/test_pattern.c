/* Regular expressions of PostgreSQL, in the C library's words. */
#include "conf/pattern.h"

#include "unit.h"

TEST(what_matches)
{
	static const struct {
		const char *pattern, *text;
		bool matches;
	} cases[] = {
		{ "", "x", true }, { "b", "abc", true }, { "^b", "abc", false }, { "^a.c$", "abc", true }, { "^(a|b)+$", "abab", true },
		{ "^a{2,3}$", "aaaa", false }, { "^[a-c]+$", "abc", true }, { "^[]x]$", "]", true }, { "^[^]x]$", "]", false },
		{ "^\\d+$", "123", true }, { "^\\d+$", "d", false }, { "^\\D+$", "abc", true }, { "^\\w+$", "a_1", true },
		{ "^\\W$", "_", false }, { "^\\s$", " ", true }, { "^\\S$", " ", false }, { "\\mab\\M", "x ab y", true },
		{ "\\mab\\M", "xaby", false }, { "a\\y", "a b", true }, { "\\Aab\\Z", "ab", true }, { "\\Ab", "ab", false },
		{ "^a\\.b$", "a.b", true }, { "^a\\.b$", "axb", false }, { "^\\\\$", "\\", true }, { "^[[:digit:]]$", "7", true },
		{ "^\\*$", "*", true }, { "A", "a", false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char why[100] = "it does not match, or does";
		struct pattern *p = pattern_new(cases[i].pattern, why, sizeof(why));

		if (!p || pattern_matches(p, cases[i].text) != cases[i].matches)
			UNIT_FAIL("\"%s\" on \"%s\": %s", cases[i].pattern, cases[i].text, why);
		pattern_free(&p);
		CHECK(!p);
		pattern_free(&p);
	}
}

/* What would mean something else here than in PostgreSQL is refused. */
TEST(what_cannot_be_had)
{
	static const char *const patterns[] = {
		"(", "[", "[a", "[[:digit:]", "[[:nosuch:]]", "a{2,1}", "\\", "(?i)a", "(?:a)", "(?=a)", "a*?", "a+?", "a??", "a{1}?",
		"(a)\\1", "\\x41", "\\n", "[\\d]", "*a", "***=a", "a**", "a|*b", "^*",
	};

	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		char why[100] = "";
		struct pattern *p = pattern_new(patterns[i], why, sizeof(why));

		if (p || !*why)
			UNIT_FAIL("\"%s\" is taken", patterns[i]);
		if (strstr(patterns[i], "(?"))
			CHECK(strstr(why, "\"(?\""));
		pattern_free(&p);
	}
}

TEST(the_first_group)
{
	struct pattern *p = pattern_new("^(a*)(b*)$", (char[100]){ 0 }, 100), *without = pattern_new("a", (char[100]){ 0 }, 100);
	size_t size;
	long start;

	REQUIRE(p && without);
	CHECK(pattern_has_group(p) && !pattern_has_group(without));
	CHECK(pattern_captures(p, "aab", &start, &size));
	CHECK_INT(start, 0);
	CHECK_INT(size, 2);
	CHECK(!pattern_captures(p, "aabx", &start, &size));
	CHECK(pattern_captures(without, "a", &start, &size));
	CHECK_INT(start, -1);
	pattern_free(&p);
	pattern_free(&without);
}

UNIT_MAIN
