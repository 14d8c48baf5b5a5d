/* Base64: the vectors of RFC 4648 section 10, all sizes in both directions, and the refusal of non-canonical input. */
#include "pg/digest.h"
#include "unit.h"

#include <stdint.h>

TEST(rfc_4648_vectors)
{
	static const struct { const char *plain, *coded; } rows[] = {
		{ "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" }, { "foob", "Zm9vYg==" },
		{ "fooba", "Zm9vYmE=" }, { "foobar", "Zm9vYmFy" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char coded[16], plain[16] = "";
		size_t got = 99;

		base64_encode(coded, rows[i].plain, strlen(rows[i].plain));
		CHECK_TEXT(coded, rows[i].coded);
		CHECK(base64_decode(plain, sizeof(plain), &got, coded, strlen(coded)));
		CHECK_INT(got, strlen(rows[i].plain));
		CHECK(memcmp(plain, rows[i].plain, got) == 0);
	}
}

TEST(all_bytes_round_trip)
{
	uint8_t all[256], back[256];
	char coded[BASE64_SIZE(256) + 1];

	for (size_t i = 0; i < 256; i++)
		all[i] = (uint8_t)(i * 7);
	for (size_t size = 0; size <= 256; size++) {
		size_t got = 999;

		base64_encode(coded, all, size);
		CHECK_INT(strlen(coded), BASE64_SIZE(size));
		CHECK(base64_decode(back, size, &got, coded, strlen(coded)));
		CHECK_INT(got, size);
		CHECK(memcmp(all, back, size) == 0);
		/* A buffer that is one byte too small is refused. */
		if (size > 0)
			CHECK(!base64_decode(back, size - 1, &got, coded, strlen(coded)));
	}
}

TEST(non_canonical_input_is_refused)
{
	static const char *const bad[] = {
		"Zg=", "Zg", "Z", "Zm9", "=", "==", "====", "Z===", "Zg==Zg==", "Zm=v", "Zh==", "Zm9=", "Zm 9", "Zm9v\n",
		"Zm9-", "Zm9_", "Zm9\x80", " Zm9v",
	};
	uint8_t out[16];
	size_t got;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (base64_decode(out, sizeof(out), &got, bad[i], strlen(bad[i])))
			UNIT_FAIL("\"%s\" was accepted", bad[i]);
	CHECK(!base64_decode(out, sizeof(out), &got, "Zm\0v", 4));
}

UNIT_MAIN
