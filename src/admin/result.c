/*
 * Rows of the console, in text or in binary. Drivers that speak the extended protocol (asyncpg,
 * pgx, JDBC later on) ask for binary whenever they know the type, so every type that a SHOW has can
 * be sent that way: integers in network byte order, numeric as PostgreSQL sends it, which for whole
 * numbers is their digits to the base of 10000.
 *
 * The console says that it speaks UTF-8, and drivers give up where it does not. Names and values of clients are bytes of any
 * encoding, and psql writes them to a terminal as they are. So each byte of what is not printable (printable.c) is shown as
 * \xNN: an application_name can neither make SHOW fail nor send controls to the terminal of an administrator.
 *
 * Invariant: `rows` holds whole DataRow messages, followed by at most one that is still open, which
 * has `cell` cells.
 */
#include "admin/result.h"

#include "base/assert.h"
#include "base/printable.h"
#include "pg/build.h"
#include "pg/frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { KIND_TEXT, KIND_INT4, KIND_INT8, KIND_NUMERIC };

static uint8_t kind_of(const char *column)
{
	static const char *const names[] = { "text", "int4", "int8", "numeric" };
	const char *type = strrchr(column, ':') + 1;

	for (uint8_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], type))
			return i;
	return KIND_TEXT;	/* bytea: only ever null here */
}

void result_init(struct result *r, const char *const *columns, size_t count)
{
	ASSERT(count <= RESULT_COLUMNS);
	*r = (struct result){ .columns = columns, .column_count = count };
	for (size_t i = 0; i < count; i++)
		r->kind[i] = kind_of(columns[i]);
}

void result_free(struct result *r)
{
	if (r->is_secret)
		bytes_wipe(&r->rows);
	else
		bytes_free(&r->rows);
	r->cell = 0;
}

bool result_set_formats(struct result *r, const uint16_t *codes, size_t count)
{
	if (count > 1 && count != r->column_count)
		return false;
	for (size_t i = 0; i < r->column_count; i++)
		r->format[i] = count == 0 ? FORMAT_TEXT : (uint8_t)codes[count == 1 ? 0 : i];
	return true;
}

void result_describe(const struct result *r, struct bytes *out)
{
	size_t mark = bytes_size(out), name;
	struct pg_cursor c;

	pg_build_row_description(out, r->columns, r->column_count);
	if (out->failed)
		return;
	/* The builder writes text everywhere. A field is its name, then 18 bytes, of which the
	   last two are the format. */
	name = mark + PG_HEADER + 2;
	for (size_t i = 0; i < r->column_count; i++) {
		c = pg_cursor_of(bytes_front(out) + name, bytes_size(out) - name);
		name += strlen(pg_read_string(&c)) + 1 + 18;
		bytes_front(out)[name - 1] = r->format[i];
	}
}

/* Opens the row with its first cell. */
static void begin_cell(struct result *r)
{
	if (r->cell == 0) {
		r->mark = pg_begin(&r->rows, 'D');
		bytes_append_u16(&r->rows, (uint16_t)r->column_count);
	}
}

static void end_cell(struct result *r)
{
	if (++r->cell < r->column_count)
		return;
	pg_end(&r->rows, r->mark);
	r->cell = 0;
	r->row_count++;
}

static void add_cell(struct result *r, const void *data, size_t size)
{
	begin_cell(r);
	bytes_append_u32(&r->rows, (uint32_t)size);
	bytes_append(&r->rows, data, size);
	end_cell(r);
}

static void add_escaped(struct result *r, const char *text, size_t size, size_t shown)
{
	uint8_t *to;

	begin_cell(r);
	bytes_append_u32(&r->rows, (uint32_t)shown);
	to = bytes_reserve(&r->rows, shown);
	if (to) {
		printable_write((char *)to, text, size);
		r->rows.end += shown;
	}
	end_cell(r);
}

void result_null(struct result *r)
{
	begin_cell(r);
	bytes_append_u32(&r->rows, UINT32_MAX);
	end_cell(r);
}

void result_text(struct result *r, const char *text)
{
	size_t size = text ? strlen(text) : 0, shown = printable_size(text, size);

	ASSERT(r->kind[r->cell] == KIND_TEXT);
	if (!text)
		result_null(r);
	else if (shown == size)
		add_cell(r, text, size);
	else
		add_escaped(r, text, size, shown);
}

static void put_big_endian(uint8_t *to, uint64_t value, size_t size)
{
	for (size_t i = size; i-- > 0; value >>= 8)
		to[i] = (uint8_t)value;
}

/* numeric_send: number of digits, weight of the first, sign, scale, digits; zeros at the end are
   left out. */
static void add_numeric(struct result *r, uint64_t value)
{
	uint8_t wire[8 + 2 * 5] = { 0 };
	uint16_t digits[5];		/* 2^64 has 20 decimal digits; least significant first */
	size_t count = 0, zeros = 0;

	for (; value > 0; value /= 10000)
		digits[count++] = (uint16_t)(value % 10000);
	while (zeros < count && digits[zeros] == 0)
		zeros++;
	put_big_endian(wire, count - zeros, 2);
	put_big_endian(wire + 2, count > 0 ? count - 1 : 0, 2);
	for (size_t i = zeros; i < count; i++)
		put_big_endian(wire + 8 + 2 * (count - 1 - i), digits[i], 2);
	add_cell(r, wire, 8 + 2 * (count - zeros));
}

static void add_binary(struct result *r, int64_t value)
{
	size_t size = r->kind[r->cell] == KIND_INT4 ? 4 : 8;
	uint8_t wire[8];

	put_big_endian(wire, (uint64_t)value, size);
	add_cell(r, wire, size);
}

void result_number(struct result *r, int64_t value)
{
	uint8_t kind = r->kind[r->cell];
	char text[24];

	if (kind == KIND_NUMERIC) {
		ASSERT(value >= 0);
		result_count(r, (uint64_t)value);
		return;
	}
	if (kind == KIND_INT4)
		value = value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value;
	if (r->format[r->cell] == FORMAT_BINARY && kind != KIND_TEXT)
		add_binary(r, value);
	else
		add_cell(r, text, (size_t)snprintf(text, sizeof(text), "%" PRId64, value));
}

void result_count(struct result *r, uint64_t value)
{
	char text[24];

	if (r->kind[r->cell] != KIND_NUMERIC)
		result_number(r, value > INT64_MAX ? INT64_MAX : (int64_t)value);
	else if (r->format[r->cell] == FORMAT_BINARY)
		add_numeric(r, value);
	else
		add_cell(r, text, (size_t)snprintf(text, sizeof(text), "%" PRIu64, value));
}

size_t result_give(struct result *r, size_t most, struct bytes *out)
{
	size_t count = most == 0 || most > r->row_count ? r->row_count : most;
	size_t size = 0, have = bytes_size(&r->rows);
	struct pg_frame row;

	ASSERT(r->cell == 0);
	if (r->rows.failed) {
		out->failed = true;
		return 0;
	}
	if (count == r->row_count)
		size = have;
	for (size_t i = 0; i < count && size < have; i++) {
		pg_frame_look(bytes_front(&r->rows) + size, have - size, INT32_MAX, &row);
		size += PG_HEADER + row.size;
	}
	if (size == 0)
		return 0;
	bytes_append(out, bytes_front(&r->rows), size);
	bytes_consume(&r->rows, size);
	r->row_count -= count;
	return count;
}
