/* Ident files: the database users that a system user or a certificate name may use. */
#include "hba_ends.h"

static bool allows(const char *ident, const char *system_name, const char *user)
{
	struct hba *hba = rules("local all all peer map=m\n", ident);
	bool allowed = hba && hba_map_allows(hba, "m", system_name, user);

	hba_drop(&hba);
	return allowed;
}

TEST(maps_allow_users)
{
	static const struct {
		const char *lines, *system_name, *user;
		bool allowed;
	} cases[] = {
		{ "m bob robert", "bob", "robert", true },
		{ "m bob robert", "bob", "bob", false },
		{ "m bob robert", "Bob", "robert", false },
		{ "m bob robert", "alice", "robert", false },
		{ "n bob robert", "bob", "robert", false },
		{ "M bob robert", "bob", "robert", false },
		{ "m bob a\nm bob b\nm bob c", "bob", "b", true },
		{ "m \"bob smith\" \"a b\"", "bob smith", "a b", true },
		{ "m bob all", "bob", "anybody", true },
		{ "m bob \"all\"", "bob", "anybody", false },
		{ "m bob \"all\"", "bob", "all", true },
		/* `all` is not a system user name */
		{ "m all robert", "bob", "robert", false },
		{ "m /^ robert", "bob", "robert", true },
		{ "m /^b robert", "bob", "robert", true },
		{ "m /^b$ robert", "bob", "robert", false },
		{ "m /^(.*)@example\\.com$ \\1", "bob@example.com", "bob", true },
		{ "m /^(.*)@example\\.com$ \\1", "bob@exampleXcom", "bob", false },
		{ "m /^(.*)@example\\.com$ \\1", "bob@example.com", "alice", false },
		{ "m /^(.*)@x$ db_\\1_rw", "bob@x", "db_bob_rw", true },
		{ "m /^(.*)@x$ db_\\1_rw", "bob@x", "db_bob", false },
		{ "m /^(.*)@x$ db_\\1_rw", "bob@x", "bob_rw", false },
		{ "m /^(.*)@x$ db_\\1", "bob_and_alice@x", "db_bob", false },
		{ "m bob \"+app\"", "bob", "+app", true },
		{ "m /^(.*)@x$ \"\\1 rw\"", "bob@x", "bob rw", true },
		/* only the first \1, as in PostgreSQL */
		{ "m /^(.*)@x$ \\1\\1", "bob@x", "bob\\1", true },
		/* the result of replacing \1 is neither a keyword nor an expression */
		{ "m /^(.*)@x$ \\1", "all@x", "bob", false },
		{ "m /^(.*)@x$ \\1", "all@x", "all", true },
		{ "m /^(.*)@x$ \\1", "/.@x", "bob", false },
		{ "m /^(.*)@x$ \\1", "@x", "", true },
		{ "m /^((a)|b)@x$ \\1", "b@x", "b", true },
		/* the group did not take part in the match */
		{ "m /^(a)?b$ \\1", "b", "", false },
		/* without an expression, \1 has no special meaning */
		{ "m bob \\1", "bob", "\\1", true },
		{ "m bob \\1", "bob", "bob", false },
		{ "m bob /^app_", "bob", "app_1", true },
		{ "m bob /^app_", "bob", "my_app_1", false },
		{ "m /^(.*)$ /^x\\.1", "bob", "x.1", true },
		{ "# m bob robert", "bob", "robert", false },
		{ "m \\\nbob \\\nrobert # all", "bob", "robert", true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (allows(cases[i].lines, cases[i].system_name, cases[i].user) != cases[i].allowed)
			UNIT_FAIL("\"%s\": \"%s\" as \"%s\" is %s", cases[i].lines, cases[i].system_name, cases[i].user,
				  cases[i].allowed ? "refused" : "allowed");
}

TEST(without_a_map_names_are_equal)
{
	struct hba *hba = rules("local all all peer\n", "m bob robert\n");

	REQUIRE(hba);
	CHECK(hba_map_allows(hba, NULL, "bob", "bob"));
	CHECK(!hba_map_allows(hba, NULL, "bob", "robert"));
	CHECK(!hba_map_allows(hba, NULL, "bob", "Bob"));
	CHECK(!hba_map_allows(hba, "nosuch", "bob", "bob"));
	hba_drop(&hba);
}

static bool is_ident_refused(const char *text, const char *why)
{
	struct hba *hba = rules("local all all peer\n", text);
	bool is_right = hba && problems.errors == 1 && problems.items[0].line == 1 && strstr(problems.items[0].text, why);

	if (!is_right)
		fprintf(stderr, "%s: %zu errors, %s\n", text, problems.errors, problems.count ? problems.items[0].text : "nothing said");
	hba_drop(&hba);
	return is_right;
}

TEST(invalid_lines)
{
	CHECK(is_ident_refused("m", "one of each"));
	CHECK(is_ident_refused("m bob", "one of each"));
	CHECK(is_ident_refused("m bob,alice robert", "one of each"));
	CHECK(is_ident_refused("m bob robert,x", "one of each"));
	CHECK(is_ident_refused("m bob robert x", "nothing behind"));
	CHECK(is_ident_refused("m bob +admins", "\"+admins\" is not supported"));
	CHECK(is_ident_refused("m /( robert", "regular expression"));
	CHECK(is_ident_refused("m bob /(", "regular expression"));
	CHECK(is_ident_refused("m /^b \\1", "it has none"));
	CHECK(is_ident_refused("m /^(.)*b \\1", "a quantifier repeats"));
	CHECK(is_ident_refused("m \"bob robert", "not closed"));
}

/* A map line only allows: an invalid line allows nothing, and the other lines still apply. */
TEST(invalid_line_admits_no_client)
{
	static const char *const bad[] = {
		"m /( robert", "m bob +robert", "m bob \"robert", "m bob robert x", "m bob", "m bob @nosuch",
		"m @nosuch robert", "include nosuch", "m /^(b)+ \\1",
		"m bob /[", "m bob robert,", "m bob",
	};
	char text[200];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "%s\nm alice carol\n", bad[i]);
		if (i == 10) {
			/* as in PostgreSQL, a comma after the last word is ignored */
			CHECK(allows(text, "bob", "robert"));
			continue;
		}
		CHECK(!allows(text, "bob", "robert") && !allows(text, "bob", "bob") && !allows(text, "bob", "b"));
		CHECK(!allows(text, "bob", "carol") && !allows(text, "alice", "robert"));
		CHECK(allows(text, "alice", "carol"));
	}
}

TEST(problems_of_the_ident_file_are_counted)
{
	struct hba *good = rules("local all all peer\n", "m a b\n"), *bad = rules("local all all peer\n", "m a b\nm\n");

	REQUIRE(good && bad);
	CHECK(!hba_may_replace(bad, good));
	CHECK(hba_may_replace(good, bad));
	hba_drop(&good);
	hba_drop(&bad);
}

UNIT_MAIN
