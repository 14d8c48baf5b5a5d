/* Frames: length words at the limits, input truncated at every byte, and cursors that never leave their body. */
#include "pg/frame.h"
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>

static enum pg_verdict look_length(uint32_t length, uint32_t max, struct pg_frame *f)
{
	uint8_t header[PG_HEADER] = { 'D', (uint8_t)(length >> 24), (uint8_t)(length >> 16),
				      (uint8_t)(length >> 8), (uint8_t)length };

	return pg_frame_look(header, sizeof(header), max, f);
}

TEST(length_edges)
{
	static const uint32_t lengths[] = { 0, 1, 2, 3, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff };
	struct pg_frame f;

	CHECK(look_length(4, 1000, &f) == PG_OK);
	CHECK_INT(f.size, 0);
	CHECK(pg_frame_is_whole(&f));
	CHECK(look_length(1000, 1000, &f) == PG_OK);
	CHECK_INT(f.size, 996);
	CHECK_INT(f.here, 0);
	CHECK(!pg_frame_is_whole(&f));
	CHECK(look_length(1001, 1000, &f) == PG_BAD);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		bool ok = lengths[i] == 0x7fffffff;

		CHECK_INT(look_length(lengths[i], UINT32_MAX, &f), ok ? PG_OK : PG_BAD);
	}
	CHECK(look_length(0x7fffffff, 0x7fffffff, &f) == PG_OK);
	CHECK_INT(f.size, 0x7ffffffb);
}

/* The input is copied to an allocation of the exact size, so that the sanitizer detects a read past the end. */
TEST(fragmented_input_gives_the_same_frames)
{
	static const uint8_t stream[] = { 'Q', 0, 0, 0, 8, 'a', 'b', 'c', 0, 'S', 0, 0, 0, 4 };

	for (size_t n = 0; n <= sizeof(stream); n++) {
		uint8_t *copy = malloc(n ? n : 1);
		struct pg_frame f = { 0 };

		REQUIRE(copy != NULL);
		memcpy(copy, stream, n);
		CHECK_INT(pg_frame_look(copy, n, 1000, &f), n < PG_HEADER ? PG_MORE : PG_OK);
		if (n >= PG_HEADER) {
			CHECK_INT(f.type, 'Q');
			CHECK_INT(f.size, 4);
			CHECK(f.body == copy + PG_HEADER);
			CHECK_INT(f.here, n - PG_HEADER < 4 ? n - PG_HEADER : 4);
			CHECK_INT(pg_frame_is_whole(&f), n >= 9);
		}
		free(copy);
	}
}

TEST(cursor_reads_in_network_order)
{
	static const uint8_t body[] = { 1, 2, 3, 0xff, 0xfe, 0xfd, 0xfc, 'h', 'i', 0, 0, 9, 8 };
	struct pg_cursor c = pg_cursor_of(body, sizeof(body));
	const uint8_t *rest;

	CHECK_INT(pg_read_u8(&c), 1);
	CHECK_INT(pg_read_u16(&c), 0x0203);
	CHECK_INT(pg_read_u32(&c), 0xfffefdfc);
	CHECK_TEXT(pg_read_string(&c), "hi");
	CHECK_TEXT(pg_read_string(&c), "");
	rest = pg_read_bytes(&c, 2);
	CHECK(rest == body + 11);
	CHECK(!c.bad);
	CHECK(c.at == c.end);
	CHECK(pg_read_bytes(&c, 0) == c.end);
	CHECK(!c.bad);
}

TEST(cursor_stays_bad)
{
	static const uint8_t body[] = { 7, 7, 7 };
	struct pg_cursor c = pg_cursor_of(body, sizeof(body));

	CHECK_INT(pg_read_u32(&c), 0);
	CHECK(c.bad);
	CHECK(c.at == body);
	/* The body has enough bytes for these reads, but the cursor is already bad. */
	CHECK_INT(pg_read_u8(&c), 0);
	CHECK_INT(pg_read_u16(&c), 0);
	CHECK(pg_read_bytes(&c, 1) == NULL);
	CHECK_TEXT(pg_read_string(&c), "");
	CHECK(c.at == body);
}

TEST(cursor_bounds)
{
	static const uint8_t open_text[] = { 'a', 'b' };
	struct pg_cursor c = pg_cursor_of(open_text, sizeof(open_text));

	CHECK_TEXT(pg_read_string(&c), "");
	CHECK(c.bad);
	c = pg_cursor_of(open_text, sizeof(open_text));
	CHECK(pg_read_bytes(&c, SIZE_MAX) == NULL);
	CHECK(c.bad);
	c = pg_cursor_of(open_text, sizeof(open_text));
	CHECK(pg_read_bytes(&c, 3) == NULL);
	c = pg_cursor_of(open_text, 0);
	CHECK_INT(pg_read_u8(&c), 0);
	CHECK(c.bad);
	c = pg_cursor_of(open_text, 0);
	CHECK_TEXT(pg_read_string(&c), "");
	CHECK(c.bad);
}

/* With input truncated anywhere, whole messages are taken one by one, and the rest is kept. */
TEST(whole_messages_are_taken_one_by_one)
{
	static const uint8_t two[] = { 'S', 0, 0, 0, 4, 'Q', 0, 0, 0, 6, 'a', 0 };

	for (size_t n = 0; n <= sizeof(two); n++) {
		struct pg_frames in = { two, n };
		struct pg_frame f;
		size_t taken = 0;

		while (pg_frames_next(&in, 6, &f) == PG_OK) {
			CHECK_INT(f.type, taken == 0 ? 'S' : 'Q');
			CHECK_INT(f.here, f.size);
			taken++;
		}
		CHECK_INT(taken, (n >= 5) + (n == sizeof(two)));
		CHECK_INT(in.left, n - (n >= 5 ? 5 : 0) - (n == sizeof(two) ? 7 : 0));
		CHECK(in.at + in.left == two + n);
	}
}

TEST(a_message_out_of_bounds_is_not_taken)
{
	static const uint8_t longer[] = { 'Q', 0, 0, 0, 6, 'a', 0 }, shorter[] = { 'Q', 0, 0, 0, 3 };
	struct pg_frames in = { longer, sizeof(longer) }, bad = { shorter, sizeof(shorter) };
	struct pg_frame f;

	CHECK_INT(pg_frames_next(&in, 5, &f), PG_BAD);
	CHECK(in.at == longer && in.left == sizeof(longer));
	CHECK_INT(pg_frames_next(&bad, 5, &f), PG_BAD);
	CHECK(bad.at == shorter && bad.left == sizeof(shorter));
}

/* The short walks see the same messages as pg_frame_look. */
TEST(short_look_agrees_with_pg_frame_look)
{
	static const uint32_t lengths[] = { 0, 3, 4, 5, 9, 10, 0x7fffffff, 0x80000000, 0xffffffff };

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (size_t n = PG_HEADER; n <= 12; n++) {
			uint32_t l = lengths[i], size;
			uint8_t at[12] = { 'd', (uint8_t)(l >> 24), (uint8_t)(l >> 16), (uint8_t)(l >> 8), (uint8_t)l };
			struct pg_frames in = { at, n };
			struct pg_frame f;

			CHECK_INT(pg_frame_is_here(at, n, &size) != 0, pg_frames_next(&in, PG_LENGTH_LIMIT, &f) == PG_OK);
		}
}

UNIT_MAIN
