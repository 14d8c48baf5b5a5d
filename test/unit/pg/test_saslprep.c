/* SASLprep: the examples of RFC 4013 section 3, and the cases in which PostgreSQL uses the raw password. */
#include "pg/password.h"
#include "unit.h"

#include <stdlib.h>

static char shown[256];

static const char *prepared(const char *password)
{
	struct secret *secret = saslprep(password);

	snprintf(shown, sizeof(shown), "%s", secret ? secret->bytes : "(none)");
	if (secret && secret->length != strlen(secret->bytes))
		UNIT_FAIL("length of \"%s\" is %zu", password, secret->length);
	secret_free(&secret);
	return shown;
}

TEST(rfc_4013_examples)
{
	CHECK_PAIRS(prepared,
		{ "I\xC2\xADX", "IX" },
		{ "user", "user" },
		{ "USER", "USER" },
		{ "\xC2\xAA", "a" },
		{ "\xE2\x85\xA8", "IX" });
}

TEST(ascii_is_never_touched)
{
	CHECK_PAIRS(prepared,
		{ "", "" },
		{ "\x07", "\x07" },
		{ "a b\tc\x7f", "a b\tc\x7f" });
}

TEST(blanks_become_blank)
{
	CHECK_PAIRS(prepared,
		{ "a\xC2\xA0" "b", "a b" },		/* no-break space */
		{ "a\xE3\x80\x80" "b", "a b" },	/* ideographic space */
		/* Zero width space is in the table of blanks and in the table of deleted characters: PostgreSQL applies blanks first. */
		{ "a\xE2\x80\x8B" "b", "a b" });
}

TEST(normalised_to_kc)
{
	CHECK_PAIRS(prepared,
		{ "e\xCC\x81", "\xC3\xA9" },		/* e + acute */
		{ "\xEF\xBC\xA1", "A" },		/* fullwidth A */
		{ "\xEF\xAC\x81", "fi" });		/* ligature */
}

TEST(password_of_deleted_characters_is_raw)
{
	CHECK_TEXT(prepared("\xC2\xAD"), "\xC2\xAD");
}

TEST(prohibited_is_raw)
{
	CHECK_PAIRS(prepared,
		{ "\xC2\xAA\x07", "\xC2\xAA\x07" },			/* control character */
		{ "\xC2\xAA\xEE\x80\x80", "\xC2\xAA\xEE\x80\x80" },	/* private use */
		{ "\xC2\xAA\xEF\xBF\xBD", "\xC2\xAA\xEF\xBF\xBD" },	/* replacement character */
		/* Prohibited, although normalised to U+0300: PostgreSQL checks before normalisation. */
		{ "a\xCD\x80", "a\xCD\x80" });
}

TEST(unassigned_in_unicode_3_2_is_raw)
{
	CHECK_TEXT(prepared("\xC2\xAA\xC8\xA1"), "\xC2\xAA\xC8\xA1");			/* U+0221 */
	CHECK_TEXT(prepared("\xC2\xAA\xF0\x9F\x98\x80"), "\xC2\xAA\xF0\x9F\x98\x80");	/* U+1F600 */
}

TEST(mixed_directions_are_raw)
{
	CHECK_PAIRS(prepared,
		{ "\xC2\xAA\xD8\xA7" "1", "\xC2\xAA\xD8\xA7" "1" },	/* both kinds */
		{ "\xD8\xA7" "1\xC2\xA0", "\xD8\xA7" "1\xC2\xA0" },	/* does not end right to left */
		{ "\xD8\xA7" "1\xC2\xAD\xD8\xA8", "\xD8\xA7" "1\xD8\xA8" },
		/* Alef symbol counts as left to right before normalisation makes it a Hebrew letter. */
		{ "a\xE2\x84\xB5", "a\xD7\x90" });
}

TEST(invalid_utf8_is_raw)
{
	static const char *const bad[] = {
		"\xC2\xAA\xFF", "\xC2\xAA\xC3", "\xC2\xAA\xC0\xAF", "\xC2\xAA\xED\xA0\x80", "\xC2\xAA\xF4\x90\x80\x80",
		"\xC2\xAA\x80", "\xC2\xAA\xE2\x82",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_TEXT(prepared(bad[i]), bad[i]);
}

TEST(too_long_to_prepare_is_raw)
{
	char *text = malloc(4099);
	struct secret *secret;

	REQUIRE(text);
	memset(text, 'x', 4098);
	memcpy(text, "\xC2\xAA", 2);
	text[4096] = '\0';
	secret = saslprep(text);
	CHECK(secret && secret->length == 4095 && secret->bytes[0] == 'a');
	secret_free(&secret);
	text[4096] = 'x';
	text[4097] = '\0';
	secret = saslprep(text);
	CHECK(secret && secret->length == 4097 && strcmp(secret->bytes, text) == 0);
	secret_free(&secret);
	free(text);
}

UNIT_MAIN
