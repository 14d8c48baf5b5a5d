/* Random bytes are given out once, and not kept. */
#include "conn/randomness.h"
#include "unit.h"

TEST(random_bytes_are_used_once)
{
	static struct randomness r;
	uint8_t first[32], second[32];
	size_t left;

	REQUIRE(randomness_draw(&r, first, sizeof(first)));
	left = r.left;
	CHECK_INT(left, sizeof(r.bytes) - sizeof(first));
	REQUIRE(randomness_draw(&r, second, sizeof(second)));
	CHECK_INT(r.left, left - sizeof(second));
	CHECK(memcmp(first, second, sizeof(first)) != 0);
}

TEST(used_random_bytes_are_wiped)
{
	static const uint8_t zeros[sizeof(((struct randomness *)NULL)->bytes)];
	static struct randomness r;
	uint8_t secret[64];

	while (r.left > 0 || r.bytes[0] == 0) {
		REQUIRE(randomness_draw(&r, secret, sizeof(secret)));
		CHECK(memcmp(r.bytes + r.left, zeros, sizeof(r.bytes) - r.left) == 0);
		if (r.left == 0)
			break;
	}
	CHECK_INT(r.left, 0);
}

UNIT_MAIN
