/*
 * Stored secrets: their formats, the derivation of SCRAM keys as in RFC 7677, MD5 secrets and responses, and the comparison of a password with each
 * kind.
 */
#include "pg/scram.h"
#include "base/text.h"
#include "derive.h"
#include "unit.h"

#include <stdlib.h>

#include <openssl/evp.h>

/* "pencil" with the salt and count of RFC 7677 section 3. */
static const char rfc_secret[] = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$"
				 "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

TEST(kinds)
{
	CHECK_INT(secret_kind_of(NULL), SECRET_NONE);
	CHECK_INT(secret_kind_of(""), SECRET_NONE);
	CHECK_INT(secret_kind_of("md5"), SECRET_PLAIN);
	CHECK_INT(secret_kind_of("md5d41d8cd98f00b204e9800998ecf8427e"), SECRET_MD5);
	CHECK_INT(secret_kind_of("md5d41d8cd98f00b204e9800998ecf8427"), SECRET_PLAIN);
	CHECK_INT(secret_kind_of("md5d41d8cd98f00b204e9800998ecf8427ee"), SECRET_PLAIN);
	CHECK_INT(secret_kind_of("md5D41D8CD98F00B204E9800998ECF8427E"), SECRET_PLAIN);
	CHECK_INT(secret_kind_of("MD5d41d8cd98f00b204e9800998ecf8427e"), SECRET_PLAIN);
	/* the prefix of a SCRAM secret without a valid rest: no password is expected to begin so */
	CHECK_INT(secret_kind_of("SCRAM-SHA-256$"), SECRET_NONE);
	CHECK_INT(secret_kind_of("SCRAM-SHA-256$"), SECRET_NONE);
	CHECK_INT(secret_kind_of(rfc_secret), SECRET_SCRAM);
}

TEST(scram_secret_round_trip)
{
	struct scram_secret secret;
	char text[SCRAM_SECRET_TEXT];

	REQUIRE(scram_secret_read(rfc_secret, &secret));
	CHECK_INT(secret.iterations, 4096);
	CHECK_INT(secret.salt_size, 16);
	CHECK(scram_secret_write(&secret, text, sizeof(text)));
	CHECK_TEXT(text, rfc_secret);
	CHECK(scram_secret_write(&secret, text, strlen(rfc_secret) + 1));
	CHECK(!scram_secret_write(&secret, text, strlen(rfc_secret)));
}

TEST(longest_scram_secret_fits)
{
	struct scram_secret secret, back;
	char text[SCRAM_SECRET_TEXT];

	memset(&secret, 0xff, sizeof(secret));
	secret.iterations = INT32_MAX;
	secret.salt_size = SCRAM_SALT_MAX;
	REQUIRE(scram_secret_write(&secret, text, sizeof(text)));
	REQUIRE(scram_secret_read(text, &back));
	CHECK_INT(back.iterations, INT32_MAX);
	CHECK_INT(back.salt_size, SCRAM_SALT_MAX);
	CHECK(memcmp(back.salt, secret.salt, SCRAM_SALT_MAX) == 0);
	CHECK(memcmp(back.stored_key, secret.stored_key, SCRAM_KEY) == 0);
	CHECK(memcmp(back.server_key, secret.server_key, SCRAM_KEY) == 0);
}

/* Replaces the first `from` of the valid secret by `to` and parses the result. */
static bool reads_with(const char *from, const char *to)
{
	struct scram_secret secret;
	const char *at = strstr(rfc_secret, from);
	char text[1024];

	snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - rfc_secret), rfc_secret, to, at + strlen(from));
	return scram_secret_read(text, &secret);
}

TEST(invalid_scram_secrets)
{
	CHECK(reads_with("4096", "1"));
	CHECK(reads_with("4096", "2147483647"));
	CHECK(!reads_with("4096", "2147483648"));
	CHECK(!reads_with("4096", "99999999999999999999999"));
	CHECK(!reads_with("4096", "0"));
	CHECK(!reads_with("4096", ""));
	CHECK(!reads_with("4096", "-1"));
	CHECK(!reads_with("4096", "+1"));
	CHECK(!reads_with("4096", " 1"));
	CHECK(!reads_with("4096", "4096x"));
	CHECK(!reads_with("SHA-256", "SHA-1"));
	CHECK(!reads_with("W22ZaJ0SNY7soEsUEjb6gQ==", ""));
	CHECK(!reads_with("W22ZaJ0SNY7soEsUEjb6gQ==", "W22ZaJ0SNY7soEsUEjb6gR=="));
	CHECK(!reads_with("wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=", "wfPL"));
	CHECK(!reads_with("2dU=", "2dU=AAAA"));
	CHECK(!reads_with("2dU=", "2dU=:"));
	CHECK(!reads_with("WG5d8oPm3Otc", ""));
}

TEST(every_truncation_and_mutation_of_a_secret)
{
	size_t length = strlen(rfc_secret);
	struct scram_secret good, other;
	char text[sizeof(rfc_secret)];

	REQUIRE(scram_secret_read(rfc_secret, &good));
	for (size_t cut = 0; cut < length; cut++) {
		memcpy(text, rfc_secret, cut);
		text[cut] = '\0';
		CHECK(!scram_secret_read(text, &other));
	}
	for (size_t at = 0; at < length; at++) {
		for (int bit = 0; bit < 8; bit++) {
			memcpy(text, rfc_secret, sizeof(text));
			text[at] ^= (char)(1 << bit);
			/* The result is invalid or another secret, never the same. */
			if (scram_secret_read(text, &other))
				CHECK(memcmp(&good, &other, sizeof(good)) != 0);
		}
	}
}

TEST(derivation_of_rfc_7677)
{
	struct scram_secret secret, derived;
	char text[SCRAM_SECRET_TEXT];

	REQUIRE(scram_secret_read(rfc_secret, &secret));
	REQUIRE(scram_secret_derive("pencil", secret.salt, secret.salt_size, secret.iterations, &derived));
	REQUIRE(scram_secret_write(&derived, text, sizeof(text)));
	CHECK_TEXT(text, rfc_secret);
}

TEST(derivation_applies_saslprep)
{
	static const uint8_t salt[16] = "0123456789abcde";
	struct scram_secret a, b;

	REQUIRE(scram_secret_derive("I\xC2\xADX", salt, sizeof(salt), 1, &a));
	REQUIRE(scram_secret_derive("\xE2\x85\xA8", salt, sizeof(salt), 1, &b));
	CHECK(memcmp(&a, &b, sizeof(a)) == 0);
	REQUIRE(scram_secret_derive("Ix", salt, sizeof(salt), 1, &b));
	CHECK(memcmp(a.stored_key, b.stored_key, SCRAM_KEY) != 0);
}

TEST(derivation_is_bounded)
{
	static const uint8_t salt[SCRAM_SALT_MAX + 1], zeros[SCRAM_KEY];
	uint8_t client[SCRAM_KEY], stored[SCRAM_KEY], server[SCRAM_KEY];
	struct scram_secret out;

	CHECK(scram_secret_derive("x", salt, 1, 1, &out));
	CHECK(scram_secret_derive("x", salt, SCRAM_SALT_MAX, 1, &out));
	CHECK(!scram_secret_derive("x", salt, 0, 1, &out));
	CHECK(!scram_secret_derive("x", salt, SCRAM_SALT_MAX + 1, 1, &out));
	CHECK(!scram_secret_derive("x", salt, 16, 0, &out));
	CHECK(!scram_secret_derive("x", salt, 16, SCRAM_ITERATIONS_MAX + 1, &out));
	memset(client, 1, sizeof(client));
	memset(stored, 1, sizeof(stored));
	memset(server, 1, sizeof(server));
	CHECK(!scram_keys_derive("x", salt, 16, UINT32_MAX, client, stored, server));
	CHECK(memcmp(client, zeros, SCRAM_KEY) == 0);
	CHECK(memcmp(stored, zeros, SCRAM_KEY) == 0);
	CHECK(memcmp(server, zeros, SCRAM_KEY) == 0);
}

TEST(md5_as_in_postgresql)
{
	static const uint8_t salt[4] = { 0x2a, 0x3d, 0x8f, 0xe0 };
	char secret[MD5_SECRET + 1], answer[MD5_SECRET + 1];

	/* Values from md5sum. */
	REQUIRE(md5_secret("secret", "joe", secret));
	CHECK_TEXT(secret, "md5c59ec932d911ffdf487595b5a2adf973");
	REQUIRE(md5_answer(secret, salt, answer));
	CHECK_TEXT(answer, "md5856504c7b9f546ba8cde4886d01bbca6");
}

TEST(passwords_match)
{
	CHECK(password_matches("open", "joe", "open"));
	CHECK(!password_matches("open ", "joe", "open"));
	CHECK(!password_matches("ope", "joe", "open"));
	CHECK(!password_matches("", "joe", ""));
	CHECK(!password_matches("", "joe", "open"));
	CHECK(!password_matches("open", "joe", ""));
	CHECK(!password_matches("open", "joe", NULL));
	CHECK(password_matches("secret", "joe", "md5c59ec932d911ffdf487595b5a2adf973"));
	CHECK(!password_matches("secret", "jo", "md5c59ec932d911ffdf487595b5a2adf973"));
	CHECK(!password_matches("secreT", "joe", "md5c59ec932d911ffdf487595b5a2adf973"));
	/* not without a derivation */
	CHECK(!password_matches("pencil", "anyone", rfc_secret));
}

/* Returns whether the keys derived from the password are the keys of the secret. */
static bool scram_matches(const char *password, const char *text)
{
	uint8_t salted[SCRAM_KEY], client_key[SCRAM_KEY], stored_key[SCRAM_KEY], server_key[SCRAM_KEY];
	struct scram_secret secret;

	return scram_secret_read(text, &secret) &&
	       scram_salted_derive(password, secret.salt, secret.salt_size, secret.iterations, salted) &&
	       scram_keys_of_salted(salted, client_key, stored_key, server_key) &&
	       memcmp(stored_key, secret.stored_key, SCRAM_KEY) == 0 && memcmp(server_key, secret.server_key, SCRAM_KEY) == 0;
}

TEST(keys_in_two_steps)
{
	CHECK(scram_matches("pencil", rfc_secret));
	CHECK(!scram_matches("pencils", rfc_secret));
}

TEST(empty_password_never_matches)
{
	char secret[MD5_SECRET + 1];

	REQUIRE(md5_secret("", "joe", secret));
	CHECK(!password_matches("", "joe", secret));
}

TEST(stored_secret_is_not_accepted_as_password)
{
	CHECK(!password_matches("md5c59ec932d911ffdf487595b5a2adf973", "joe", "md5c59ec932d911ffdf487595b5a2adf973"));
	CHECK(!password_matches(rfc_secret, "joe", rfc_secret));
}

TEST(secret_with_too_many_iterations_matches_nothing)
{
	char text[SCRAM_SECRET_TEXT];

	snprintf(text, sizeof(text), "SCRAM-SHA-256$2147483647%s", strchr(rfc_secret, ':'));
	CHECK_INT(secret_kind_of(text), SECRET_SCRAM);
	CHECK(!scram_matches("pencil", text));
}

/* ---- SASLprep ---- */

/* The keys of the password are derived from these bytes. */
static void check_prepared(const char *password, const char *want)
{
	static const uint8_t salt[16] = "0123456789abcde";
	uint8_t have[SCRAM_KEY], expected[SCRAM_KEY];

	REQUIRE(scram_salted_derive(password, salt, sizeof(salt), 1, have));
	REQUIRE(PKCS5_PBKDF2_HMAC(want, (int)strlen(want), salt, sizeof(salt), 1, EVP_sha256(), SCRAM_KEY, expected) == 1);
	if (memcmp(have, expected, SCRAM_KEY) != 0)
		UNIT_FAIL("\"%s\" is not prepared as \"%s\"", password, want);
}

#define CHECK_PREPARED(...) do { \
	static const struct { const char *password, *want; } pairs[] = { __VA_ARGS__ }; \
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) \
		check_prepared(pairs[i].password, pairs[i].want); \
} while (0)

TEST(rfc_4013_examples)
{
	CHECK_PREPARED(
		{ "I\xC2\xADX", "IX" },
		{ "user", "user" },
		{ "USER", "USER" },
		{ "\xC2\xAA", "a" },
		{ "\xE2\x85\xA8", "IX" });
}

TEST(ascii_is_never_touched)
{
	CHECK_PREPARED(
		{ "", "" },
		{ "\x07", "\x07" },
		{ "a b\tc\x7f", "a b\tc\x7f" });
}

TEST(blanks_become_blank)
{
	CHECK_PREPARED(
		{ "a\xC2\xA0" "b", "a b" },		/* no-break space */
		{ "a\xE3\x80\x80" "b", "a b" },	/* ideographic space */
		/* Zero width space is in the table of blanks and in the table of deleted characters: PostgreSQL applies blanks first. */
		{ "a\xE2\x80\x8B" "b", "a b" });
}

TEST(normalised_to_kc)
{
	CHECK_PREPARED(
		{ "e\xCC\x81", "\xC3\xA9" },		/* e + acute */
		{ "\xEF\xBC\xA1", "A" },		/* fullwidth A */
		{ "\xEF\xAC\x81", "fi" });		/* ligature */
}

TEST(password_of_deleted_characters_is_raw)
{
	check_prepared("\xC2\xAD", "\xC2\xAD");
}

TEST(prohibited_is_raw)
{
	CHECK_PREPARED(
		{ "\xC2\xAA\x07", "\xC2\xAA\x07" },			/* control character */
		{ "\xC2\xAA\xEE\x80\x80", "\xC2\xAA\xEE\x80\x80" },	/* private use */
		{ "\xC2\xAA\xEF\xBF\xBD", "\xC2\xAA\xEF\xBF\xBD" },	/* replacement character */
		/* Prohibited, although normalised to U+0300: PostgreSQL checks before normalisation. */
		{ "a\xCD\x80", "a\xCD\x80" });
}

TEST(unassigned_in_unicode_3_2_is_raw)
{
	check_prepared("\xC2\xAA\xC8\xA1", "\xC2\xAA\xC8\xA1");			/* U+0221 */
	check_prepared("\xC2\xAA\xF0\x9F\x98\x80", "\xC2\xAA\xF0\x9F\x98\x80");	/* U+1F600 */
}

TEST(mixed_directions_are_raw)
{
	CHECK_PREPARED(
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
		check_prepared(bad[i], bad[i]);
}

TEST(too_long_to_prepare_is_raw)
{
	char *text = malloc(4099), *want = malloc(4099);

	REQUIRE(text && want);
	memset(text, 'x', 4098);
	memcpy(text, "\xC2\xAA", 2);
	text[4096] = '\0';
	/* two bytes become a letter */
	strcpy(want, text + 1);
	want[0] = 'a';
	check_prepared(text, want);
	text[4096] = 'x';
	text[4097] = '\0';
	check_prepared(text, text);
	free(want);
	free(text);
}

/* ---- base64 ---- */

/* Reads a secret with this salt. */
static bool reads_salt(const char *coded, struct scram_secret *secret)
{
	char text[512];

	snprintf(text, sizeof(text), "SCRAM-SHA-256$1:%s%s", coded, strchr(rfc_secret, '=') + 2);
	return scram_secret_read(text, secret);
}

TEST(rfc_4648_vectors)
{
	static const struct { const char *plain, *coded; } rows[] = {
		{ "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" }, { "foob", "Zm9vYg==" }, { "fooba", "Zm9vYmE=" }, { "foobar", "Zm9vYmFy" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct scram_secret secret;

		REQUIRE(reads_salt(rows[i].coded, &secret));
		CHECK_INT(secret.salt_size, strlen(rows[i].plain));
		CHECK(memcmp(secret.salt, rows[i].plain, secret.salt_size) == 0);
	}
}

TEST(all_bytes_round_trip)
{
	struct scram_secret secret = { .iterations = 1 }, back;
	char text[SCRAM_SECRET_TEXT];

	for (unsigned first = 0; first < 256; first += 16) {
		for (size_t size = 1; size <= SCRAM_SALT_MAX; size++) {
			for (size_t i = 0; i < size; i++)
				secret.salt[i] = (uint8_t)((first + i) * 7);
			secret.salt_size = size;
			REQUIRE(scram_secret_write(&secret, text, sizeof(text)) && scram_secret_read(text, &back));
			CHECK_INT(strcspn(strchr(text, ':') + 1, "$"), BASE64_SIZE(size));
			CHECK_INT(back.salt_size, size);
			CHECK(memcmp(back.salt, secret.salt, size) == 0);
		}
	}
}

TEST(longer_salt_than_its_buffer_is_refused)
{
	char coded[BASE64_SIZE(SCRAM_SALT_MAX + 1) + 1];
	struct scram_secret secret;

	memset(coded, 'A', sizeof(coded) - 1);
	coded[sizeof(coded) - 1] = '\0';
	coded[sizeof(coded) - 2] = '=';		/* 65 bytes */
	CHECK(!reads_salt(coded, &secret));
	coded[sizeof(coded) - 3] = '=';		/* 64 bytes */
	CHECK(reads_salt(coded, &secret));
}

TEST(non_canonical_input_is_refused)
{
	static const char *const bad[] = {
		"", "Zg=", "Zg", "Z", "Zm9", "=", "==", "====", "Z===", "Zg==Zg==", "Zm=v", "Zh==", "Zm9=", "Zm 9", "Zm9v\n",
		"Zm9-", "Zm9_", "Zm9\x80", " Zm9v",
	};
	struct scram_secret secret;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (reads_salt(bad[i], &secret))
			UNIT_FAIL("\"%s\" was accepted", bad[i]);
}

UNIT_MAIN
