/* Values of a SHOW, converted to the type of their column and written by a format of this test. */
#include "show/result.h"

#include "unit.h"

#include <inttypes.h>

static const char *const columns[] = { "a name:text", "i:int4", "b:int8", "n:numeric", "y:17" };

static void write_begin(struct result *r) { bytes_append_text(&r->rows, "{"); }
static void write_end(struct result *r) { bytes_append_text(&r->rows, "}"); }

static void write_name(struct result *r)
{
	static const char *const types[] = {
		[COLUMN_TEXT] = "text", [COLUMN_INT4] = "int4", [COLUMN_INT8] = "int8", [COLUMN_NUMERIC] = "numeric",
	};
	const char *column = r->columns[r->cell];

	bytes_append_format(&r->rows, "%s%.*s %s=", r->cell > 0 ? ", " : "", (int)strcspn(column, ":"), column, types[r->type[r->cell]]);
}

static void write_null(struct result *r)
{
	write_name(r);
	bytes_append_text(&r->rows, "null");
}

static void write_text(struct result *r, const char *text, size_t size)
{
	write_name(r);
	bytes_append_format(&r->rows, "'%.*s'", (int)size, text);
}

static void write_number(struct result *r, int64_t value)
{
	write_name(r);
	bytes_append_format(&r->rows, "%" PRId64, value);
}

static void write_count(struct result *r, uint64_t value)
{
	write_name(r);
	bytes_append_format(&r->rows, "+%" PRIu64, value);
}

static const struct result_format format = {
	.begin_row = write_begin, .null = write_null, .text = write_text, .number = write_number, .count = write_count,
	.end_row = write_end,
};

static const char *written(struct result *r)
{
	static char text[4096];

	snprintf(text, sizeof(text), "%.*s", (int)bytes_size(&r->rows), (const char *)bytes_front(&r->rows));
	return text;
}

TEST(row_is_written)
{
	struct result r;

	result_init(&r, &format, columns, 5);
	result_text(&r, "x\n");
	result_number(&r, -1);
	result_number(&r, INT64_MIN);
	CHECK_INT(r.row_count, 0);
	result_count(&r, UINT64_MAX);
	result_text(&r, NULL);
	CHECK_INT(r.row_count, 1);
	CHECK_INT(r.cell, 0);
	CHECK_TEXT(written(&r), "{a name text='x\n', i int4=-1, b int8=-9223372036854775808, n numeric=+18446744073709551615, y text=null}");
	result_free(&r);
}

/* A value is converted to the type of its column. */
TEST(values_are_converted_to_column_types)
{
	struct result r;

	result_init(&r, &format, columns, 4);
	result_number(&r, -5);
	result_number(&r, INT64_MAX);
	result_count(&r, UINT64_MAX);
	result_number(&r, 7);
	result_text(&r, NULL);
	result_number(&r, INT64_MIN);
	result_count(&r, 1);
	result_count(&r, 0);
	CHECK_TEXT(written(&r), "{a name text='-5', i int4=2147483647, b int8=9223372036854775807, n numeric=+7}"
				"{a name text=null, i int4=-2147483648, b int8=1, n numeric=+0}");
	CHECK_INT(r.row_count, 2);
	result_fail(&r);
	CHECK(r.rows.failed);
	result_free(&r);
	CHECK_INT(r.row_count, 0);
}

UNIT_MAIN
