/* Regular expressions with the semantics of PostgreSQL. */
#include "conf/pattern.h"

#include "unit.h"

TEST(what_matches)
{
	static const struct {
		const char *pattern, *text;
		bool matches;
	} cases[] = {
		{ "", "x", true }, { "b", "abc", true }, { "^b", "abc", false }, { "^a.c$", "abc", true },
		{ "^(a|b)+$", "abab", true },
		{ "^a{2,3}$", "aaaa", false }, { "^[a-c]+$", "abc", true }, { "^[]x]$", "]", true }, { "^[^]x]$", "]", false },
		{ "^\\d+$", "123", true }, { "^\\d+$", "d", false }, { "^\\D+$", "abc", true }, { "^\\w+$", "a_1", true },
		{ "^\\W$", "_", false }, { "^\\s$", " ", true }, { "^\\S$", " ", false }, { "\\mab\\M", "x ab y", true },
		{ "\\mab\\M", "xaby", false }, { "a\\y", "a b", true }, { "\\Aab\\Z", "ab", true }, { "\\Ab", "ab", false },
		{ "^a\\.b$", "a.b", true }, { "^a\\.b$", "axb", false }, { "^\\\\$", "\\", true },
		{ "^[[:digit:]]$", "7", true },
		{ "^\\*$", "*", true }, { "A", "a", false },
		/* anchors of the C library that are plain characters in PostgreSQL: /\' must not match every name */
		{ "\\'", "a", false }, { "\\'", "o'neil", true }, { "\\`", "a", false }, { "\\`", "`", true },
		{ "\\<a", "a", false },
		{ "\\<a", "<a", true }, { "a\\>", "a", false }, { "a\\>", "a>", true },
		/* braces that are not quantifiers */
		{ "^a{,3}$", "aa", false }, { "^a{,3}$", "a{,3}", true }, { "^{$", "{", true }, { "^a{x}$", "a{x}", true },
		{ "^\\{1}$", "{1}", true }, { "^a}$", "a}", true }, { "^a{2}$", "aa", true }, { "^a{2,}$", "aaa", true },
		{ "^a{0}$", "", true },
		/* empty branches and groups */
		{ "^(|a)$", "", true }, { "^(a|)b$", "b", true }, { "^()$", "", true }, { "^()*a$", "a", true },
		{ "^(a||b)$", "", true },
		{ "^(?:a|b)c$", "bc", true }, { "^(?:)$", "", true }, { "^(a*)*b$", "aab", true },
		/* brackets */
		{ "^[\\w.-]+$", "a_1.-", true }, { "^[\\w.-]+$", "a b", false }, { "^[\\]]$", "]", true },
		{ "^[a\\-z]$", "b", false },
		{ "^[a\\-z]$", "-", true }, { "^[--a]$", "A", true }, { "^[a-]$", "-", true }, { "^[[]$", "[", true },
		{ "^[\\\\a]+$", "a\\", true },
		{ "^[[:cntrl:]]$", "\x85", true }, { "^[^[:cntrl:]]$", "\xa0", true }, { "^[[:blank:]]$", "\t", true },
		{ "^[[:blank:]]$", "\v", false }, { "^[[:xdigit:]]+$", "09afAF", true }, { "^[[:punct:]]+$", "!/:@[`{~", true },
		/* bytes, independent of the locale */
		{ "^.$", "\xc3\xa9", false }, { "^..$", "\xc3\xa9", true }, { "^\xc3\xa9$", "\xc3\xa9", true },
		{ "^\\w", "\xc3\xa9", false },
		{ "^.$", "\n", true }, { "^a$", "a\n", false }, { "^\\s$", "\n", true }, { "[^a]", "\xff", true },
		/* positions */
		{ "a^b", "ab", false }, { "a$b", "ab", false }, { "(^a|b)c", "bc", true }, { "^^a$$", "a", true },
		{ "\\Y", "", true },
		{ "\\y", "", false }, { "a\\Yb", "ab", true }, { "\\mb", "ab", false }, { "\\m1", "_1", false },
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

static bool is_taken(const char *text)
{
	char why[100] = "";
	struct pattern *p = pattern_new(text, why, sizeof(why));
	bool taken = p;

	CHECK(taken || *why);
	pattern_free(&p);
	return taken;
}

/* Expressions that PostgreSQL refuses, and expressions of PostgreSQL that are not supported. */
TEST(unsupported_expressions)
{
	static const char *const patterns[] = {
		"(", ")", "a)", "[", "[a", "[]", "[[:digit:]", "[[:nosuch:]]", "[[:word:]]", "a{2,1}", "a{256}", "a{1,256}",
		"a{1", "a{1x}", "\\",
		"(?i)a", "(?=a)", "(?!a)", "(?<=a)", "(?#a)", "(?", "a*?", "a+?", "a??", "a{1}?", "(a)\\1", "\\x41", "\\n",
		"\\b", "\\B", "\\0",
		"\\h", "[\\D]", "[\\n]", "[\\1]", "[a\\", "[b-a]", "[a-b-c]", "[\\w-z]", "[a-\\w]", "[[.a.]]", "[[=a=]]",
		"[[:<:]]", "[[:>:]]a",
		"*a", "+a", "?a", "{1}a", "(*a)", "***=a", "***:a", "a**", "a*+", "a{1}{2}", "a|*b", "^*", "$*", "\\y+",
		"\\A?", "^{2}",
	};

	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		if (is_taken(patterns[i]))
			UNIT_FAIL("\"%s\" is taken", patterns[i]);
}

/* Returns the text inside `count` pairs of parentheses, each followed by `behind`. */
static const char *nested(int count, const char *text, const char *behind)
{
	static char out[4096];
	size_t used = 0;

	for (int i = 0; i < count; i++)
		out[used++] = '(';
	used += (size_t)sprintf(out + used, "%s", text);
	for (int i = 0; i < count; i++)
		used += (size_t)sprintf(out + used, ")%s", behind);
	return out;
}

TEST(size_of_expressions_is_limited)
{
	CHECK(is_taken(nested(100, "a", "")));
	CHECK(!is_taken(nested(101, "a", "")));
	CHECK(is_taken("^.{1,255}@.{1,255}$"));
	CHECK(!is_taken(nested(3, "a", "{255}")));
	CHECK(!is_taken(nested(30, "a", "{2}")));
	/* 255 repetitions of 255 repetitions ... of nothing */
	CHECK(is_taken(nested(90, "", "{255}")));
	CHECK(is_taken(nested(90, "a", "*")));
}

/* Expressions that take a backtracking engine exponential time, with a name of a length that clients may send. */
TEST(matching_time_is_bounded)
{
	static const char *const patterns[] = {
		"^(a*)*b$", "^(a|aa)+$", "^(a|a)*b", "(.*)(.*)(.*)(.*)(.*)x", "^(a?){200}a{200}b", "((a*)*)*b",
	};
	char text[1025] = "";

	memset(text, 'a', 1024);
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		struct pattern *p = pattern_new(patterns[i], (char[100]){ 0 }, 100);
		size_t size;
		long start;

		REQUIRE(p);
		CHECK(pattern_matches(p, text) == (i == 1));
		CHECK(pattern_captures(p, text, &start, &size) == (i == 1));
		pattern_free(&p);
	}
}

/* Returns "aab" for the text of \1, "-" if the group did not take part, "?" if the text is ambiguous, "!" for no match. */
static const char *captured(const char *pattern, const char *text)
{
	static char out[100];
	struct pattern *p = pattern_new(pattern, out, sizeof(out));
	size_t size;
	long start;

	if (!p)
		return out;
	if (!pattern_captures(p, text, &start, &size))
		snprintf(out, sizeof(out), "!");
	else if (start < 0)
		snprintf(out, sizeof(out), "%s", pattern_group_fault(p) ? "?" : "-");
	else
		snprintf(out, sizeof(out), "%.*s", (int)size, text + start);
	pattern_free(&p);
	return out;
}

/* The expected results are PostgreSQL's: test/live/test_hba_expressions.py compares them. */
TEST(the_first_group)
{
	static const struct {
		const char *pattern, *text, *group;
	} cases[] = {
		{ "^(a*)(b*)$", "aab", "aa" }, { "^(a*)(b*)$", "aabx", "!" }, { "a", "a", "?" }, { "(?:a)", "a", "?" },
		{ "^(.*)@x$", "@x", "" },
		/* leftmost, then longest */
		{ "(a|ab)", "xab", "ab" }, { "(b|ab)", "ab", "ab" }, { "(a|ab)(c|bcd)(d*)", "abcd", "ab" },
		{ "(a|ab)(bcd|c)", "abcd", "a" },
		/* the preceding part takes as much as it can, as a whole */
		{ "a*(a*)", "aa", "" }, { "a*(a+)", "aa", "a" }, { "(a+)a*", "aa", "aa" },
		{ "(?:a|ab)(?:c|bcd)?(d*)", "abcd", "" }, { "^(.*)@", "a@b@x", "a@b" },
		/* the first branch that matches all of its part */
		{ "^(?:x(a)|y)", "y", "-" }, { "^(?:(a*)|(.*))$", "ab", "-" }, { "^(?:a(.*)|(.*))$", "ab", "b" },
		{ "(a)?b", "b", "-" }, { "(a*)?b", "b", "" },
		{ "(a){0}b", "b", "-" }, { "(a){1}b", "ab", "a" }, { "(?:(a)|b){1}", "a", "a" },
		/* the repetition that sets the group is ambiguous */
		{ "(a*)*", "aa", "?" }, { "(a)+", "aa", "?" }, { "(?:(a)|b){2}", "ab", "?" }, { "((a)|b)(c)*", "bc", "b" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(captured(cases[i].pattern, cases[i].text), cases[i].group) != 0)
			UNIT_FAIL("\"%s\" on \"%s\": \"%s\"", cases[i].pattern, cases[i].text,
				  captured(cases[i].pattern, cases[i].text));
}

TEST(text_that_is_too_long_for_a_group)
{
	struct pattern *p = pattern_new("(a)", (char[100]){ 0 }, 100);
	char text[PATTERN_CAPTURE_MOST + 2] = "";
	size_t size;
	long start;

	REQUIRE(p);
	memset(text, 'a', PATTERN_CAPTURE_MOST);
	CHECK(pattern_captures(p, text, &start, &size));
	text[PATTERN_CAPTURE_MOST] = 'a';
	CHECK(!pattern_captures(p, text, &start, &size) && pattern_matches(p, text));
	pattern_free(&p);
}

UNIT_MAIN
