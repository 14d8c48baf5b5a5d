/* Printing of texts that a peer has chosen. */
#include "base/printable.h"

#include "unit.h"

#include <stdlib.h>

static const char *as_text(const char *from)
{
	static char buf[PRINTABLE_TEXT];

	return printable_text(from, buf, sizeof(buf));
}

static const char *as_name(const char *from)
{
	static char buf[PRINTABLE_NAME];

	return printable_name(from, buf, sizeof(buf));
}

TEST(printable_characters_are_kept)
{
	static const char *const seen[] = {
		"", "plain", " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "caf\xc3\xa9", "\xc2\xa0", "\xdf\xbf", "\xe0\xa0\x80",
		"\xed\x9f\xbf", "\xe2\x82\xac\xe2\x82\xac",
		"\xd0\x91\xd0\xb0\xd0\xb7\xd0\xb0", "\xe6\x97\xa5\xe6\x9c\xac",
		"\xf0\x9f\x90\x98", "\xee\x80\x80",
		"\xf0\x90\x80\x80", "\xef\xbf\xbd",
	};

	for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++) {
		CHECK_TEXT(as_text(seen[i]), seen[i]);
		CHECK_INT(printable_write(NULL, seen[i], strlen(seen[i])), strlen(seen[i]));
	}
}

TEST(control_characters_are_escaped)
{
	CHECK_PAIRS(as_text, { "a\nb", "a\\x0ab" }, { "\x1b[31m", "\\x1b[31m" },
		    { "\t\r\x01\x1f\x7f", "\\x09\\x0d\\x01\\x1f\\x7f" },
		    /* CSI as one byte, and as a UTF-8 character */
		    { "\x9b" "31m", "\\x9b31m" }, { "\xc2\x9b" "31m", "\\xc2\\x9b31m" },
		    { "\xc2\x80 \xc2\x9f", "\\xc2\\x80 \\xc2\\x9f" });
}

TEST(bidirectional_and_invisible_characters_are_escaped)
{
	CHECK_PAIRS(as_text, { "\xe2\x80\xa8", "\\xe2\\x80\\xa8" }, { "\xe2\x80\xa9", "\\xe2\\x80\\xa9" },
		    { "\xe2\x80\xae" "cba", "\\xe2\\x80\\xaecba" }, { "\xe2\x81\xa6", "\\xe2\\x81\\xa6" },
		    { "\xe2\x80\x8b", "\\xe2\\x80\\x8b" },
		    { "\xe2\x80\x8f", "\\xe2\\x80\\x8f" }, { "\xd8\x9c", "\\xd8\\x9c" }, { "\xc2\xad", "\\xc2\\xad" },
		    { "\xef\xbb\xbf", "\\xef\\xbb\\xbf" }, { "\xf3\xa0\x81\x81", "\\xf3\\xa0\\x81\\x81" },
		    { "\xef\xbf\xbf", "\\xef\\xbf\\xbf" }, { "\xf4\x8f\xbf\xbf", "\\xf4\\x8f\\xbf\\xbf" });
}

TEST(invalid_utf8_is_escaped)
{
	CHECK_PAIRS(as_text, { "caf\xe9", "caf\\xe9" }, { "\xe9t\xe9 \xc3\xa9", "\\xe9t\\xe9 \xc3\xa9" },
		    { "\x80\xbf", "\\x80\\xbf" },
		    { "\xc0\xc1\xf5\xff", "\\xc0\\xc1\\xf5\\xff" },
		    /* overlong encodings */
		    { "\xc1\xbf", "\\xc1\\xbf" }, { "\xe0\x9f\xbf", "\\xe0\\x9f\\xbf" },
		    { "\xf0\x8f\xbf\xbf", "\\xf0\\x8f\\xbf\\xbf" },
		    { "\xed\xa0\x80", "\\xed\\xa0\\x80" }, { "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" },
		    { "\xe2\x82z", "\\xe2\\x82z" }, { "\xf0\x90\x80", "\\xf0\\x90\\x80" });
	/* bytes after the end are ignored */
	CHECK_INT(printable_write(NULL, "\xe2\x82\xac", 2), 8);
}

TEST(names_are_printed)
{
	CHECK_PAIRS(as_name, { "app", "app" }, { "my-db.2", "my-db.2" }, { "_$.+#%!*~^-", "_$.+#%!*~^-" },
		    { "\xd0\x91\xd0\xb0\xd0\xb7\xd0\xb0", "\xd0\x91\xd0\xb0\xd0\xb7\xd0\xb0" },
		    { "", "\"\"" }, { "a b", "\"a b\"" }, { "a@b", "\"a@b\"" }, { "(nodb)", "\"(nodb)\"" },
		    { "a\xc2\xa0" "b", "\"a\xc2\xa0" "b\"" },
		    { "a\"b", "\"a\\\"b\"" }, { "DOMAIN\\user", "\"DOMAIN\\\\user\"" }, { "a\x1b", "\"a\\x1b\"" },
		    { "a\\x1b", "\"a\\\\x1b\"" },
		    { "caf\xe9", "\"caf\\xe9\"" },
		    { "x@10.9.9.9:1 login failed: db=a user=b", "\"x@10.9.9.9:1 login failed: db=a user=b\"" });
	for (const char *c = " '(),/:;<=>?@[]`{|}&"; *c; c++) {
		char name[] = { 'a', *c, 'b', '\0' };

		CHECK_INT(as_name(name)[0], '"');
	}
}

TEST(name_of_63_bytes_is_not_truncated)
{
	char name[64], want[80];

	memset(name, 'n', 63);
	name[63] = '\0';
	CHECK_TEXT(as_name(name), name);
	name[31] = ' ';
	snprintf(want, sizeof(want), "\"%s\"", name);
	CHECK_TEXT(as_name(name), want);
}

#define EUROS_4 "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac"
#define EUROS EUROS_4 EUROS_4 EUROS_4 EUROS_4

/* For every size of the buffer, the output fits, is terminated, and contains no incomplete character or \xNN. */
TEST(truncation_keeps_characters_whole)
{
	static const char *const long_ones[] = {
		EUROS,
		"\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b",
		"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"",
		"\xf3\xa0\x81\x81\xf3\xa0\x81\x81\xf3\xa0\x81\x81\xf3\xa0\x81\x81",
	};
	static const char *(*const functions[])(const char *, char *, size_t) =
		{ printable_text, printable_inside, printable_name };

	for (size_t i = 0; i < sizeof(long_ones) / sizeof(long_ones[0]); i++) {
		for (size_t f = 0; f < 3; f++) {
			for (size_t size = 16; size < 40; size++) {
				/* an allocation of the exact size for the sanitizer */
				char *buf = malloc(size);

				functions[f](long_ones[i], buf, size);
				CHECK(strlen(buf) < size && strlen(buf) >= 3);
				CHECK(strstr(buf, "...") != NULL);
				CHECK(f == 2 || printable_write(NULL, buf, strlen(buf)) == strlen(buf));
				for (const char *c = buf; i == 1 && (c = strchr(c, '\\')); c += 4)
					CHECK(strncmp(c, "\\x1b", 4) == 0);
				free(buf);
			}
		}
	}
}

TEST(text_of_exact_size_is_not_truncated)
{
	char buf[16];

	CHECK_TEXT(printable_text("123456789012345", buf, sizeof(buf)), "123456789012345");
	CHECK_TEXT(printable_text("1234567890123456", buf, sizeof(buf)), "123456789012...");
	CHECK_TEXT(printable_name("1234567890 23", buf, sizeof(buf)), "\"1234567890 23\"");
	CHECK_TEXT(printable_name("1234567890 234", buf, sizeof(buf)), "\"1234567890...\"");
	CHECK_TEXT(printable_inside("a\"b\\c", buf, sizeof(buf)), "a\\\"b\\\\c");
}

TEST(text_is_escaped_in_place)
{
	char buf[16] = "";

	REQUIRE(printable_write(NULL, "a\x1b" "b", 3) == 6);
	printable_write(buf, "a\x1b" "b", 3);
	CHECK_TEXT(buf, "a\\x1bb");
}

UNIT_MAIN
