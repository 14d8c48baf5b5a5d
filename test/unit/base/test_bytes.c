/* The growable byte buffer. */
#include "base/bytes.h"

#include "base/mem.h"
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

/* ---- values for another process: round trips, and records truncated at every byte ---- */

static void write_all(struct bytes *out)
{
	bytes_append_u8(out, 200);
	pack_bool(out, true);
	bytes_append_u16(out, 60000);
	bytes_append_u32(out, 4000000000u);
	pack_u64(out, 0xfedcba9876543210u);
	pack_i64(out, -7);
	pack_text(out, NULL);
	pack_text(out, "");
	pack_text(out, "word");
	pack_blob(out, "\0\1", 2);
	pack_blob(out, NULL, 0);
	pack_blob(out, "key", 3);
}

static void read_all(struct unpack *in, bool whole)
{
	char key[3];
	size_t size;
	uint8_t u8 = unpack_u8(in);
	bool truth = unpack_bool(in);
	uint16_t u16 = unpack_u16(in);
	uint32_t u32 = unpack_u32(in);
	uint64_t u64 = unpack_u64(in);
	int64_t i64 = unpack_i64(in);
	const char *nothing = unpack_text(in), *empty = unpack_text(in), *word = unpack_text(in);
	const uint8_t *blob = unpack_blob(in, &size);

	if (whole) {
		CHECK(u8 == 200 && truth && u16 == 60000 && u32 == 4000000000u);
		CHECK(u64 == 0xfedcba9876543210u && i64 == -7);
		CHECK(!nothing);
		CHECK_TEXT(empty, "");
		CHECK_TEXT(word, "word");
		CHECK(size == 2 && memcmp(blob, "\0\1", 2) == 0);
	}
	unpack_blob(in, &size);
	CHECK_INT(size, 0);
	unpack_exactly(in, key, 3);
	CHECK(!whole || memcmp(key, "key", 3) == 0);
}

TEST(packed_values_round_trip)
{
	struct bytes out = BYTES_EMPTY;
	struct unpack in;

	write_all(&out);
	in = unpack_of(bytes_front(&out), bytes_size(&out));
	read_all(&in, true);
	CHECK(unpack_is_done(&in));
	unpack_u8(&in);
	CHECK(in.bad);
	bytes_free(&out);
}

/* What this process would send, compared with what another process has sent. */
TEST(part_is_compared_with_the_other_process)
{
	static const struct { const char *theirs, *ours; bool is_same; } rows[] = {
		{ "a part", "a part", true }, { "a part", "a pert", false }, { "a part", "a par", false }, { "a part", NULL, false },
		{ NULL, NULL, true }, { NULL, "a part", false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct bytes out = BYTES_EMPTY, theirs = BYTES_EMPTY, ours = BYTES_EMPTY;
		struct unpack in;

		if (rows[i].theirs)
			bytes_append_text(&theirs, rows[i].theirs);
		if (rows[i].ours)
			bytes_append_text(&ours, rows[i].ours);
		pack_wiped(&out, &theirs);
		CHECK(!theirs.data);
		in = unpack_of(out.data, bytes_size(&out));
		CHECK_INT(unpack_compare(&in, &ours), rows[i].is_same);
		CHECK(unpack_is_done(&in) && !ours.data);
		bytes_free(&out);
	}
}

TEST(missing_part_is_not_the_same)
{
	struct bytes ours = BYTES_EMPTY;
	struct unpack in = unpack_of((const uint8_t *)"\0\0\0\1", 4);

	CHECK(!unpack_compare(&in, &ours));
	CHECK(in.bad);
}

TEST(truncated_record_is_rejected)
{
	struct bytes out = BYTES_EMPTY;

	write_all(&out);
	for (size_t n = 0; n < bytes_size(&out); n++) {
		/* an allocation of the exact size, so that the sanitizer detects a read past the end */
		uint8_t *copy = mem_must(n + 1);
		struct unpack in = unpack_of(copy + 1, n);

		memcpy(copy + 1, bytes_front(&out), n);
		read_all(&in, false);
		CHECK(in.bad);
		CHECK(in.at <= in.end);
		mem_free(copy);
	}
	bytes_free(&out);
}

TEST(invalid_encodings_are_rejected)
{
	struct unpack in = unpack_of("\2", 1);
	char three[3] = "xx";

	unpack_bool(&in);
	CHECK(in.bad);
	in = unpack_of("\0\0\0\3a\0b", 7);
	CHECK(!unpack_text(&in) && in.bad);
	in = unpack_of("\0\0\0\2ab", 6);
	CHECK(!unpack_text(&in) && in.bad);
	in = unpack_of("\0\0\0\2ab", 6);
	unpack_exactly(&in, three, 3);
	CHECK(in.bad && three[0] == 0);
	in = unpack_of("\xff\xff\xff\xff", 4);
	CHECK(unpack_count(&in, 8) == 0 && in.bad);
	in = unpack_of("\0\0\0\2abcd", 8);
	CHECK(unpack_count(&in, 2) == 2 && !in.bad);
}

TEST(impossible_times_are_rejected)
{
	static const int64_t wrong[] = { INT64_MIN, INT64_MAX, UNPACK_TIME_MOST + 1, -UNPACK_TIME_MOST - 1 };
	struct bytes out = BYTES_EMPTY;
	struct unpack in;

	for (int i = 0; i < 4; i++) {
		pack_i64(&out, wrong[i]);
		in = unpack_of(bytes_front(&out), bytes_size(&out));
		CHECK(unpack_i64(&in) == 0 && in.bad);
		bytes_consume(&out, bytes_size(&out));
	}
	bytes_free(&out);
}

TEST(decimal)
{
	struct bytes b = BYTES_EMPTY;

	bytes_append_decimal(&b, 0);
	bytes_append_u8(&b, ' ');
	bytes_append_decimal(&b, 1234567890);
	bytes_append_u8(&b, ' ');
	bytes_append_decimal(&b, UINT64_MAX);
	bytes_append_u8(&b, 0);
	CHECK_TEXT((const char *)bytes_front(&b), "0 1234567890 18446744073709551615");
	bytes_free(&b);
}

UNIT_MAIN
