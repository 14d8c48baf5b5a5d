/* Short texts: copies, comparisons, lists, numbers, hex, nearest names, files. */
#include "base/text.h"

#include "base/mem.h"
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(text_copy_reports_truncation)
{
	char buf[4] = "zzz";

	CHECK(text_copy(buf, sizeof(buf), "abc"));
	CHECK_TEXT(buf, "abc");
	CHECK(!text_copy(buf, sizeof(buf), "wxyz"));
	CHECK_TEXT(buf, "wxy");
	CHECK(text_copy(buf, sizeof(buf), ""));
	CHECK_TEXT(buf, "");
	CHECK(!text_copy(buf, 0, "a"));
}

TEST(fold_is_ascii_only)
{
	CHECK(text_equal_fold("DateStyle", "datestyle"));
	CHECK(text_equal_fold("", ""));
	CHECK(!text_equal_fold("abc", "abcd"));
	CHECK(!text_equal_fold("abcd", "abc"));
	CHECK(!text_equal_fold("\xc3\x84", "\xc3\xa4"));
	CHECK(!text_equal_fold("[", "{"));
	CHECK(!text_equal_fold("@", "`"));
}

TEST(prefix_is_recognised)
{
	CHECK(text_starts("md5abc", "md5"));
	CHECK(text_starts("md5", "md5"));
	CHECK(text_starts("x", ""));
	CHECK(!text_starts("md", "md5"));
}

TEST(list_elements_are_whole_names)
{
	CHECK(text_list_has("alice, bob ,carol", "alice", false));
	CHECK(text_list_has("alice, bob ,carol", "bob", false));
	CHECK(text_list_has("alice, bob ,carol", "carol", false));
	CHECK(text_list_has("two words , x", "words", false) && text_list_has("two words , x", "two", false));
	CHECK(text_list_has("alice bob\tcarol", "alice", false) && text_list_has("alice bob\tcarol", "bob", false));
	CHECK(text_list_has("alice bob\tcarol ", "carol", false) && text_list_has("alice  Bob", "bob", true));
	CHECK(!text_list_has("alice bob", "bo", false) && !text_list_has("alice bob", "b", false));
	CHECK(!text_list_has("two words", "two words x", false) && !text_list_has("a b c", "a c", false));
	CHECK(!text_list_has("a b, c", "b, c", false) && !text_list_has("a b", " ", false));
	CHECK(!text_list_has("alice, bob", "Bob", false));
	CHECK(text_list_has("alice, bob", "Bob", true));
	CHECK(!text_list_has("alice", "ali", false));
	CHECK(!text_list_has("ali", "alice", false));
	CHECK(!text_list_has("a,,b", "", false));
	CHECK(!text_list_has("", "a", false));
	CHECK(!text_list_has(NULL, "a", false));
	CHECK(!text_list_has("alice,bob", "alice,bob", false));
}

static bool has(const char *list, const char *name)
{
	return text_list_has(list, name, false);
}

/* admin_users = a b must not make an administrator of a role that is called "a b". */
TEST(element_with_blanks_needs_quotes)
{
	CHECK(!has("a b", "a b") && !has("a b, c", "a b") && !has("c,a b ", "a b"));
	CHECK(has("\"a b\"", "a b") && has("c, \"a b\",d", "a b"));
	CHECK(!has("\"a b\"", "a") && !has("\"a b\"", "b") && !has("\"a b\"", "\"a b\""));
	CHECK(has("\"a b\" c", "c") && has("\"a,b\"", "a,b") && has("\"a\"", "a"));
	CHECK(!has("\"\"", "") && !has("\"\"", "\"\""));
	/* unpaired quotes */
	CHECK(has("\"a b", "\"a") && has("\"a b", "b") && !has("\"a b", "a b"));
	CHECK(has("o\"neil", "o\"neil") && has("\"a\"b", "\"a\"b") && !has("\"a\"b", "b"));
}

TEST(nearest_finds_typing_errors)
{
	static const char *const names[] = { "default_pool_size", "min_pool_size", "pool_mode", "user", "verbose" };
	enum { N = 5 };
	char lengthy[200];

	CHECK_TEXT(text_nearest("defualt_pool_size", names, N), "default_pool_size");
	CHECK_TEXT(text_nearest("poolmode", names, N), "pool_mode");
	CHECK_TEXT(text_nearest("Pool_Mode", names, N), "pool_mode");
	CHECK_TEXT(text_nearest("usre", names, N), "user");
	CHECK_TEXT(text_nearest("min_pol_sise", names, N), "min_pool_size");
	CHECK(!text_nearest("listen_port", names, N));
	CHECK(!text_nearest("ab", (const char *const[]){ "cd" }, 1));
	CHECK(!text_nearest("", names, N));
	CHECK(!text_nearest("user", names, 0));
	memset(lengthy, 'x', sizeof(lengthy) - 1);
	lengthy[sizeof(lengthy) - 1] = '\0';
	CHECK(!text_nearest(lengthy, names, N));
}

TEST(nearest_prefers_the_smallest_distance)
{
	static const char *const names[] = { "client_tls_ca_file", "server_tls_key_file", "server_tls_ca_file" };

	CHECK_TEXT(text_nearest("server_tls_cafile", names, 3), "server_tls_ca_file");
	CHECK_TEXT(text_nearest("server_tls_ca_file", names, 3), "server_tls_ca_file");
	/* A swap is one step: nearer than the two replacements of the first name. */
	static const char *const swaps[] = { "xy34", "2134" };
	CHECK_TEXT(text_nearest("1234", swaps, 2), "2134");
	/* Among equally near names, the first is taken. */
	CHECK_TEXT(text_nearest("abcz", (const char *const[]){ "abcx", "abcy" }, 2), "abcx");
}

TEST(partial_numbers_are_rejected)
{
	static const char *const bad[] = {
		"", "-", "+", " 1", "1 ", "1.0", "0x10", "1e3", "--1", "+-1", "abc", "1a",
		"9223372036854775808", "-9223372036854775809", "99999999999999999999999",
	};
	int64_t value = 7;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!text_to_int64(bad[i], &value));
	CHECK_INT(value, 7);
	CHECK(text_to_int64("0", &value) && value == 0);
	CHECK(text_to_int64("-0", &value) && value == 0);
	CHECK(text_to_int64("+12", &value) && value == 12);
	CHECK(text_to_int64("0012", &value) && value == 12);
	CHECK(text_to_int64("9223372036854775807", &value) && value == INT64_MAX);
	CHECK(text_to_int64("-9223372036854775808", &value) && value == INT64_MIN);
}

TEST(hex_round_trip)
{
	char hex[9];

	text_hex(hex, "\x00\x7f\x80\xff", 4);
	CHECK_TEXT(hex, "007f80ff");
	text_hex(hex, "", 0);
	CHECK_TEXT(hex, "");
}

static void make_file(char *path, size_t size)
{
	int fd;

	strcpy(path, "/tmp/pgweir-text-XXXXXX");
	fd = mkstemp(path);
	for (size_t i = 0; fd >= 0 && i < size; i++) {
		if (write(fd, i % 100 == 99 ? "\n" : "x", 1) != 1)
			UNIT_FAIL("cannot write %s", path);
	}
	if (fd < 0 || close(fd) != 0)
		UNIT_FAIL("cannot make %s", path);
}

TEST(files_are_read_whole_or_not)
{
	char path[64];
	size_t size = 0;
	char *text;

	make_file(path, 5000);
	text = text_read_file(path, 5000, &size);
	REQUIRE(text);
	CHECK_INT(size, 5000);
	CHECK_INT(strlen(text), 5000);
	CHECK_INT(text[4999], '\n');
	mem_free(text);
	errno = 0;
	CHECK(!text_read_file(path, 4999, NULL));
	CHECK_INT(errno, EFBIG);
	CHECK(!text_read_file(path, 10, NULL));
	CHECK_INT(errno, EFBIG);
	unlink(path);
	CHECK(!text_read_file(path, 10, NULL));
	CHECK_INT(errno, ENOENT);
	CHECK(!text_read_file("/tmp", 1000000, NULL));
	CHECK_INT(errno, EISDIR);
}

/* No process writes to it. */
TEST(a_named_pipe_is_not_read)
{
	char path[64];

	make_file(path, 0);
	unlink(path);
	REQUIRE(mkfifo(path, 0600) == 0);
	errno = 0;
	CHECK(!text_read_file(path, 10, NULL));
	CHECK_INT(errno, ENOTSUP);
	unlink(path);
}

/* As /dev/fd/63 of a shell's <(command). */
TEST(a_pipe_without_a_name_is_read_to_its_end)
{
	char path[64];
	int ends[2];
	char *text;

	REQUIRE(pipe(ends) == 0 && write(ends[1], "abc", 3) == 3);
	close(ends[1]);
	snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
	text = text_read_file(path, 10, NULL);
	CHECK_TEXT(text, "abc");
	mem_free(text);
	close(ends[0]);
}

TEST(an_empty_file_is_an_empty_text)
{
	char path[64];
	size_t size = 7;
	char *text;

	make_file(path, 0);
	text = text_read_file(path, 0, &size);
	CHECK_TEXT(text, "");
	CHECK_INT(size, 0);
	mem_free(text);
	unlink(path);
}

/* Files of /proc report size 0. */
TEST(a_file_of_unknown_size_is_read_to_its_end)
{
	size_t size = 0;
	char *text = text_read_file("/proc/self/maps", 1 << 24, &size);

	REQUIRE(text);
	CHECK(size > 0 && strlen(text) == size);
	mem_free(text);
}

UNIT_MAIN
