/* The user list. */
#include "conf/userlist.h"

#include "tempfile.h"
#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>

static struct conf_problems problems;

static struct userlist *load(const char *text)
{
	conf_problems_free(&problems);
	return userlist_load(temp_write("users.txt", text), &problems);
}

/* Returns the secret of a user in the list, "-" for none. */
static const char *secret_of(const struct userlist *list, const char *user)
{
	const struct secret *secret = userlist_find(list, user);

	if (secret)
		CHECK_INT(strlen(secret->bytes), secret->length);
	return secret ? secret->bytes : "-";
}

#define SCRAM "SCRAM-SHA-256$4096:c2FsdA==$c3RvcmVk:c2VydmVy"
#define MD5 "md51bc29b36f623ba82aaf6724fd3b16718"

TEST(all_kinds_of_secrets)
{
	struct userlist *list = load("; comment\n# another\n\n\"alice\" \"clear text\"\n\"bob\" \"" MD5 "\" ignored \"x\"\n"
				     "  \"carol\"\t\"" SCRAM "\"\r\n\"empty\" \"\"\n\"last\" \"line\"");

	REQUIRE(list);
	CHECK_INT(problems.count, 0);
	CHECK_INT(list->count, 5);
	CHECK_TEXT(secret_of(list, "alice"), "clear text");
	CHECK_TEXT(secret_of(list, "bob"), MD5);
	CHECK_TEXT(secret_of(list, "carol"), SCRAM);
	CHECK_TEXT(secret_of(list, "empty"), "");
	CHECK_TEXT(secret_of(list, "last"), "line");
	CHECK_TEXT(secret_of(list, "nobody"), "-");
	CHECK_TEXT(secret_of(list, "Alice"), "-");
	userlist_free(&list);
	CHECK(!list);
	userlist_free(&list);
}

TEST(doubled_quotes_are_one)
{
	struct userlist *list = load("\"a\"\"b\" \"c\"\"\"\"d\"\n\"e\"\"f\"\n\"\"\"\" \"\"\"\"\n");

	REQUIRE(list);
	CHECK_TEXT(secret_of(list, "a\"b"), "c\"\"d");
	CHECK_TEXT(secret_of(list, "\""), "\"");
	/* "e""f" is one name without a secret. */
	CHECK_INT(list->count, 2);
	CHECK_INT(problems.count, 1);
	CHECK_INT(problems.items[0].line, 2);
	userlist_free(&list);
}

TEST(invalid_lines_are_skipped_and_not_printed)
{
	struct userlist *list = load("alice secret\n\"bob\"\n\"bob\" \"sec\nret\"\n\"\" \"secret\"\n\"x\" secret\n"
				     "\"good\" \"one\"\n\"y\"\"secret\"\n\"z\",\"secret\"\n");

	REQUIRE(list);
	CHECK_INT(list->count, 1);
	CHECK_TEXT(secret_of(list, "good"), "one");
	CHECK_INT(problems.count, 8);
	CHECK_INT(problems.errors, 0);
	for (size_t i = 0; i < problems.count; i++)
		CHECK(!strstr(problems.items[i].text, "sec") || strstr(problems.items[i].text, "\"secret\", both"));
	userlist_free(&list);
}

TEST(any_blanks_between_name_and_secret)
{
	struct userlist *list = load("\"a\"   \t \"b\"\n");

	CHECK_TEXT(secret_of(list, "a"), "b");
	userlist_free(&list);
}

TEST(last_line_of_a_user_applies)
{
	struct userlist *list = load("\"a\" \"1\"\n\"b\" \"2\"\n\"a\" \"3\"\n");

	CHECK_TEXT(secret_of(list, "a"), "3");
	CHECK_INT(list->count, 2);
	CHECK_INT(problems.count, 1);
	CHECK(problems.items[0].is_warning);
	CHECK_INT(problems.items[0].line, 3);
	userlist_free(&list);
}

TEST(each_walks_in_order)
{
	struct userlist *list = load("\"z\" \"1\"\n\"a\" \"2\"\n\"m\" \"3\"\n");
	char seen[64] = "";

	REQUIRE(list);
	for (size_t i = 0; i < list->count; i++)
		sprintf(seen + strlen(seen), "%s:%s ", list->entries[i]->user, list->entries[i]->secret->bytes);
	CHECK_TEXT(seen, "z:1 a:2 m:3 ");
	userlist_free(&list);
}

TEST(invalid_bytes)
{
	struct userlist *list = userlist_load(temp_write_bytes("users.txt", "\"a\" \"b\0c\"\n\"d\" \"e\"\n", 19), &problems);

	CHECK_INT(list->count, 1);
	CHECK_TEXT(secret_of(list, "d"), "e");
	userlist_free(&list);
	list = load("\xef\xbb\xbf\"a\" \"b\"\n");
	CHECK_TEXT(secret_of(list, "a"), "b");
	CHECK_INT(problems.count, 0);
	userlist_free(&list);
}

TEST(file_truncated_at_every_byte)
{
	static const char text[] = "; users\n\"al\"\"ice\" \"pa\"\"ss\"\n\"bob\" \"" MD5 "\"\n\"x\" \"y\" z\n";

	for (size_t size = 0; size < sizeof(text); size++) {
		struct userlist *list = userlist_load(temp_write_bytes("users.txt", text, size), &problems);

		REQUIRE(list);
		/* A listed name has its complete secret. */
		CHECK(!userlist_find(list, "bob") || strcmp(secret_of(list, "bob"), MD5) == 0);
		CHECK(list->count <= 3);
		userlist_free(&list);
	}
}

TEST(a_missing_list_is_an_error)
{
	conf_problems_free(&problems);
	CHECK(!userlist_load("/nonexistent/users.txt", &problems));
	CHECK_INT(problems.errors, 1);
	CHECK(strstr(problems.items[0].text, "No such file"));
	CHECK(!userlist_load("/tmp", &problems));
	CHECK_INT(problems.errors, 2);
}

TEST(an_empty_list_is_a_list)
{
	struct userlist *list = load("");

	REQUIRE(list);
	CHECK_INT(list->count, 0);
	CHECK(!userlist_find(list, ""));
	userlist_free(&list);
}

static void set_time(const char *path, long seconds, long nanoseconds)
{
	struct timespec times[2] = { { seconds, 0 }, { seconds, nanoseconds } };

	if (utimensat(AT_FDCWD, path, times, 0) != 0)
		abort();
}

TEST(changed_file_makes_the_list_stale)
{
	const char *path = temp_write("users.txt", "\"a\" \"1\"\n"), *other;
	struct userlist *list;

	set_time(path, 1000000, 5);
	list = userlist_load(path, &problems);
	REQUIRE(list);
	CHECK(!userlist_is_stale(list));
	/* Same size, another time. */
	temp_write("users.txt", "\"a\" \"2\"\n");
	set_time(path, 1000000, 6);
	CHECK(userlist_is_stale(list));
	userlist_free(&list);
	/* Another file with the same name. */
	list = userlist_load(path, &problems);
	other = temp_write("new.txt", "\"a\" \"3\"\n");
	set_time(other, 1000000, 6);
	CHECK(!userlist_is_stale(list));
	if (rename(other, path) != 0)
		abort();
	CHECK(userlist_is_stale(list));
	userlist_free(&list);
	/* The file was removed: the loaded list is kept. */
	list = userlist_load(path, &problems);
	unlink(path);
	CHECK(!userlist_is_stale(list));
	CHECK_TEXT(secret_of(list, "a"), "3");
	userlist_free(&list);
}

TEST(a_large_list)
{
	enum { MANY = 20000 };
	const char *path = temp_path("users.txt");
	FILE *file = fopen(path, "w");
	struct userlist *list;
	char name[32], want[32];

	for (int i = 0; i < MANY; i++)
		fprintf(file, "\"user%d\" \"secret%d\"\n", i, i);
	fclose(file);
	conf_problems_free(&problems);
	list = userlist_load(path, &problems);
	CHECK_INT(list->count, MANY);
	CHECK_INT(problems.count, 0);
	for (int i = 0; i < MANY; i += 97) {
		snprintf(name, sizeof(name), "user%d", i);
		snprintf(want, sizeof(want), "secret%d", i);
		CHECK_TEXT(secret_of(list, name), want);
	}
	userlist_free(&list);
}

TEST(teardown)
{
	conf_problems_free(&problems);
	CHECK_INT(problems.count, 0);
}

UNIT_MAIN
