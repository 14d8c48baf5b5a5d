/* The growable byte buffer. */
#include "base/bytes.h"

#include "unit.h"

#define CHECK_CONTENT(b, text) \
	CHECK(bytes_size(b) == sizeof(text) - 1 && memcmp(bytes_front(b), text, sizeof(text) - 1) == 0)

TEST(appends_are_contiguous)
{
	struct bytes b = BYTES_EMPTY;

	bytes_append(&b, "ab", 2);
	bytes_append(&b, NULL, 0);
	bytes_append_text(&b, "cd");
	bytes_append_string(&b, "e");
	bytes_append_format(&b, "%d-%s", 42, "x");
	CHECK_CONTENT(&b, "abcde\00042-x");
	CHECK(!b.failed);
	bytes_free(&b);
}

TEST(numbers_are_in_network_order)
{
	struct bytes b = BYTES_EMPTY;

	bytes_append_u8(&b, 0xfe);
	bytes_append_u16(&b, 0x0102);
	bytes_append_u32(&b, 0xdeadbeef);
	CHECK_CONTENT(&b, "\xfe\x01\x02\xde\xad\xbe\xef");
	bytes_free(&b);
}

TEST(consuming_everything_resets_the_buffer)
{
	struct bytes b = BYTES_EMPTY;

	bytes_append_text(&b, "hello");
	bytes_consume(&b, 2);
	CHECK_CONTENT(&b, "llo");
	bytes_consume(&b, 0);
	CHECK_CONTENT(&b, "llo");
	bytes_consume(&b, 3);
	CHECK_INT(bytes_size(&b), 0);
	CHECK_INT(b.start, 0);
	CHECK_INT(b.end, 0);
	bytes_free(&b);
}

/* A queue that is never empty must not grow without limit. */
TEST(memory_is_bounded_by_what_is_unread)
{
	struct bytes b = BYTES_EMPTY;
	uint32_t in = 0, out = 0;

	for (int i = 0; i < 8; i++)
		bytes_append_u32(&b, in++);
	for (int i = 0; i < 100000; i++) {
		const uint8_t *front = bytes_front(&b);
		uint32_t got = (uint32_t)front[0] << 24 | (uint32_t)front[1] << 16 | (uint32_t)front[2] << 8 | front[3];

		CHECK_INT(got, out);
		out++;
		bytes_consume(&b, 4);
		bytes_append_u32(&b, in++);
	}
	CHECK(b.capacity <= 256);
	bytes_free(&b);
}

TEST(growing_keeps_the_unread_and_drops_the_read)
{
	struct bytes b = BYTES_EMPTY;

	bytes_append_text(&b, "0123456789");
	bytes_consume(&b, 4);
	for (int i = 0; i < 10000; i++)
		bytes_append_u8(&b, (uint8_t)i);
	CHECK_INT(bytes_size(&b), 10006);
	CHECK(memcmp(bytes_front(&b), "456789\0\1\2", 9) == 0);
	CHECK_INT(bytes_front(&b)[10005], 9999 & 0xff);
	CHECK(b.capacity < 40000);
	bytes_free(&b);
}

TEST(reserve_does_not_move_the_end)
{
	struct bytes b = BYTES_EMPTY;
	uint8_t *room = bytes_reserve(&b, 1000);

	REQUIRE(room);
	CHECK_INT(bytes_size(&b), 0);
	memset(room, 'x', 1000);
	b.end += 1000;
	CHECK_INT(bytes_size(&b), 1000);
	CHECK_INT(*bytes_front(&b), 'x');
	bytes_free(&b);
	CHECK(bytes_reserve(&b, 0));
	bytes_free(&b);
}

TEST(failure_is_permanent_and_keeps_earlier_data)
{
	struct bytes b = BYTES_EMPTY;

	bytes_append_text(&b, "kept");
	CHECK(!bytes_reserve(&b, SIZE_MAX - 2));
	CHECK(b.failed);
	bytes_append_text(&b, "lost");
	bytes_append_format(&b, "%s", "lost");
	bytes_append_u32(&b, 1);
	CHECK_CONTENT(&b, "kept");
	bytes_free(&b);
	CHECK(!b.failed);
	CHECK(!b.data);
}

TEST(wipe_leaves_an_empty_buffer)
{
	struct bytes b = BYTES_EMPTY;

	bytes_wipe(&b);
	bytes_append_text(&b, "password");
	bytes_wipe(&b);
	CHECK(!b.data);
	CHECK_INT(b.capacity, 0);
	bytes_append_text(&b, "again");
	CHECK_CONTENT(&b, "again");
	bytes_free(&b);
}

UNIT_MAIN
