/* Packed values: round trips, and records truncated at every byte. */
#include "unit.h"

#include "base/mem.h"
#include "base/pack.h"

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

UNIT_MAIN
