/* Cells and rows on the wire, in text and in binary, and rows fetched a few at a time. */
#include "admin/result_wire.h"

#include "pg/frame.h"
#include "unit.h"

static const char *const columns[] = { "t:text", "i:int4", "b:int8", "n:numeric", "y:17" };

/* Formats the rest of a result as hexadecimal values of the cells: "[61 0000002a ~ ...]" per row. */
static const char *rows(struct result *r, size_t most)
{
	static char text[4096];
	struct bytes out = BYTES_EMPTY;
	struct pg_frame f;
	size_t used = 0;

	result_give(r, most, &out);
	text[0] = '\0';
	while (bytes_size(&out) > 0 && pg_frame_look(bytes_front(&out), bytes_size(&out), INT32_MAX, &f) == PG_OK) {
		struct pg_cursor c = pg_cursor_of(f.body, f.size);
		uint16_t count = pg_read_u16(&c);

		CHECK_INT(f.type, 'D');
		used += (size_t)sprintf(text + used, "[");
		for (uint16_t i = 0; i < count; i++) {
			uint32_t size = pg_read_u32(&c);
			const uint8_t *cell = size == UINT32_MAX ? NULL : pg_read_bytes(&c, size);

			used += (size_t)sprintf(text + used, "%s%s", i ? " " : "", cell ? "" : "~");
			for (uint32_t k = 0; cell && k < size; k++)
				used += (size_t)sprintf(text + used, "%02x", cell[k]);
		}
		used += (size_t)sprintf(text + used, "]");
		CHECK(!c.bad && c.at == c.end);
		bytes_consume(&out, PG_HEADER + f.size);
	}
	CHECK_INT(bytes_size(&out), 0);
	bytes_free(&out);
	return text;
}

static void one_row(struct result *r, const char *t, int64_t i, int64_t b, uint64_t n)
{
	result_text(r, t);
	result_number(r, i);
	result_number(r, b);
	result_count(r, n);
	result_text(r, NULL);
}

TEST(text)
{
	struct result r;

	result_init(&r, &result_wire, columns, 5);
	one_row(&r, "a", 42, -7, 18446744073709551615u);
	one_row(&r, NULL, 0, 0, 0);
	one_row(&r, "", INT64_MAX, INT64_MIN, 1);
	CHECK_TEXT(rows(&r, 0),
		   "[61 3432 2d37 3138343436373434303733373039353531363135 ~]"
		   "[~ 30 30 30 ~]"
		   "[ 32313437343833363437 2d39323233333732303336383534373735383038 31 ~]");
	CHECK_TEXT(rows(&r, 0), "");
	result_free(&r);
}

TEST(binary)
{
	struct result r;

	result_init(&r, &result_wire, columns, 5);
	memset(r.binary, WIRE_BINARY, 5);
	one_row(&r, "a", 42, -7, 0);
	one_row(&r, "b", INT64_MIN, INT64_MAX, 1);
	one_row(&r, "c", -1, 1, 9999);
	one_row(&r, "d", 0, 0, 10000);
	one_row(&r, "e", 0, 0, 120003400);
	one_row(&r, "f", 0, 0, 18446744073709551615u);
	/* number of digits, weight, sign, scale, and base-10000 digits, as in numeric_send */
	CHECK_TEXT(rows(&r, 0),
		   "[61 0000002a fffffffffffffff9 0000000000000000 ~]"
		   "[62 80000000 7fffffffffffffff 00010000000000000001 ~]"
		   "[63 ffffffff 0000000000000001 0001000000000000270f ~]"
		   "[64 00000000 0000000000000000 00010001000000000001 ~]"
		   "[65 00000000 0000000000000000 0003000200000000" "0001" "07d0" "0d48" " ~]"
		   "[66 00000000 0000000000000000 0005000400000000" "0734" "1a58" "02e1" "03bb" "064f" " ~]");
	result_free(&r);
}

TEST(format_codes)
{
	const uint8_t each[] = { 0, 1, 0, 1, 1 };
	struct result r;
	struct bytes out = BYTES_EMPTY;

	result_init(&r, &result_wire, columns, 5);
	memcpy(r.binary, each, sizeof(each));
	one_row(&r, "a", 1, 1, 1);
	CHECK_TEXT(rows(&r, 0), "[61 00000001 31 00010000000000000001 ~]");
	/* the buffer already contains other bytes */
	bytes_append(&out, "xyz", 3);
	result_describe(&r, &out);
	bytes_consume(&out, 3);
	{
		struct pg_cursor c = pg_cursor_of(bytes_front(&out) + PG_HEADER, bytes_size(&out) - PG_HEADER);

		CHECK_INT(pg_read_u16(&c), 5);
		for (int i = 0; i < 5; i++) {
			CHECK(pg_read_string(&c)[0] == columns[i][0]);
			pg_read_bytes(&c, 16);
			CHECK_INT(pg_read_u16(&c), each[i]);
		}
		CHECK(!c.bad && c.at == c.end);
	}
	bytes_free(&out);
	result_free(&r);
}

/* The same holds if more cells follow in the row. */
TEST(unprintable_text_is_escaped)
{
	struct result r;

	result_init(&r, &result_wire, columns, 5);
	one_row(&r, "caf\xe9", 1, 1, 1);
	one_row(&r, "caf\xc3\xa9", 1, 1, 1);
	one_row(&r, "\x1b[", 1, 1, 1);
	one_row(&r, "a\nb", 1, 1, 1);
	one_row(&r, "\x9b", 1, 1, 1);
	one_row(&r, "\xc2\x9b", 1, 1, 1);
	CHECK_TEXT(rows(&r, 0),
		   "[6361665c786539 31 31 31 ~][636166c3a9 31 31 31 ~][5c7831625b 31 31 31 ~]"
		   "[615c78306162 31 31 31 ~][5c783962 31 31 31 ~][5c7863325c783962 31 31 31 ~]");
	result_free(&r);
}

TEST(rows_in_portions)
{
	static const char *const one[] = { "n:int4" };
	struct bytes out = BYTES_EMPTY;
	struct result r;

	result_init(&r, &result_wire, one, 1);
	for (int i = 1; i <= 5; i++)
		result_number(&r, i);
	CHECK_TEXT(rows(&r, 2), "[31][32]");
	CHECK_INT(result_give(&r, 2, &out), 2);
	bytes_free(&out);
	CHECK_INT(result_give(&r, 1, &out), 1);
	CHECK_INT(r.row_count, 0);
	CHECK_TEXT(rows(&r, 1), "");
	bytes_free(&out);
	result_free(&r);
}

/* After an allocation failure, a result makes its output fail and does not drop rows silently. */
TEST(out_of_memory_makes_the_output_fail)
{
	struct bytes out = BYTES_EMPTY;
	struct result r;

	result_init(&r, &result_wire, columns, 5);
	result_fail(&r);
	one_row(&r, "a", 1, 1, 1);
	CHECK_INT(r.cell, 0);
	CHECK_INT(result_give(&r, 0, &out), 0);
	CHECK(out.failed);
	result_free(&r);
	bytes_free(&out);
}

UNIT_MAIN
