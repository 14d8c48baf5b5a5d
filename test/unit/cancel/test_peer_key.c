/* Information about its process in a cancel key. */
#include "cancel/peer_key.h"
#include "unit.h"

#define SIZE 4

TEST(key_contains_the_peer_id)
{
	static const int64_t ids[] = { 1, 63, 64, 4095, 16383 };

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		uint8_t key[SIZE] = { 0xaa, 0xbb, 0xcc, 0xdd };

		peer_key_mark(ids[i], key);
		CHECK_INT(peer_key_id(key), ids[i]);
		/* the other bits are random and stay unchanged */
		CHECK(key[2] == 0xcc && key[3] == 0xdd);
	}
}

TEST(without_a_group_a_key_is_random)
{
	uint8_t key[SIZE] = { 0xaa, 0xbb, 0xcc, 0xdd };

	peer_key_mark(0, key);
	CHECK(key[0] == 0xaa && key[1] == 0xbb);
}

TEST(key_is_forwarded_at_most_three_times)
{
	uint8_t key[SIZE] = { 0 };
	int hops = 0;

	peer_key_mark(77, key);
	for (; peer_key_has_hops(key) && hops < 10; hops++) {
		peer_key_hop(key);
		CHECK_INT(peer_key_id(key), 77);
	}
	CHECK_INT(hops, 3);
}

TEST(remaining_hops_do_not_change_the_key)
{
	uint8_t own[SIZE] = { 0, 0, 1, 2 }, asked[SIZE];

	peer_key_mark(9, own);
	memcpy(asked, own, SIZE);
	peer_key_hop(asked);
	CHECK(peer_key_is_same(9, own, asked, SIZE));
	/* outside a group, these bits are part of the secret */
	CHECK(!peer_key_is_same(0, own, asked, SIZE));
	asked[3]++;
	CHECK(!peer_key_is_same(9, own, asked, SIZE));
}

UNIT_MAIN
