/*
 * Rows as DataRow messages ("Message Formats"), in text or in binary. Drivers that use the extended
 * protocol (asyncpg, pgx, JDBC) request binary for every type they know, so every type of a SHOW
 * column can be sent in binary: integers in network byte order, numeric in PostgreSQL's format,
 * which for whole numbers is a list of digits to the base 10000.
 *
 * The console announces UTF-8, and drivers fail on other bytes. Names and values of clients may
 * have any encoding, and psql writes them to a terminal unchanged. Therefore each unprintable byte
 * (printable.c) is sent as \xNN: an application_name can neither make SHOW fail nor send control
 * characters to an administrator's terminal.
 *
 * Invariant: `rows` contains complete DataRow messages, and then at most one incomplete message.
 */
#include "admin/result_wire.h"

#include "base/assert.h"
#include "base/printable.h"
#include "pg/build.h"
#include "pg/frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void result_describe(const struct result *r, struct bytes *out)
{
	size_t mark = bytes_size(out), name;
	struct pg_cursor c;

	pg_build_row_description(out, r->columns, r->column_count);
	if (out->failed)
		return;
	/* The builder writes text formats only. A field is its name and 18 bytes; the last two
	   bytes are the format. */
	name = mark + PG_HEADER + 2;
	for (size_t i = 0; i < r->column_count; i++) {
		c = pg_cursor_of(bytes_front(out) + name, bytes_size(out) - name);
		name += strlen(pg_read_string(&c)) + 1 + 18;
		bytes_front(out)[name - 1] = r->binary[i];
	}
}

static void wire_begin_row(struct result *r)
{
	r->mark = pg_begin(&r->rows, 'D');
	bytes_append_u16(&r->rows, (uint16_t)r->column_count);
}

static void wire_end_row(struct result *r)
{
	pg_end(&r->rows, r->mark);
}

static void add_cell(struct result *r, const void *data, size_t size)
{
	bytes_append_u32(&r->rows, (uint32_t)size);
	bytes_append(&r->rows, data, size);
}

static void wire_add_null(struct result *r)
{
	bytes_append_u32(&r->rows, UINT32_MAX);
}

static void wire_add_text(struct result *r, const char *text, size_t size)
{
	size_t shown = printable_write(NULL, text, size);
	uint8_t *to;

	if (shown == size) {
		add_cell(r, text, size);
		return;
	}
	bytes_append_u32(&r->rows, (uint32_t)shown);
	to = bytes_reserve(&r->rows, shown);
	if (to) {
		printable_write((char *)to, text, size);
		r->rows.end += shown;
	}
}

static void put_big_endian(uint8_t *to, uint64_t value, size_t size)
{
	for (size_t i = size; i-- > 0; value >>= 8)
		to[i] = (uint8_t)value;
}

static void wire_add_number(struct result *r, int64_t value)
{
	size_t size = r->type[r->cell] == COLUMN_INT4 ? 4 : 8;
	uint8_t wire[8];
	char text[24];

	if (!r->binary[r->cell]) {
		add_cell(r, text, (size_t)snprintf(text, sizeof(text), "%" PRId64, value));
		return;
	}
	put_big_endian(wire, (uint64_t)value, size);
	add_cell(r, wire, size);
}

static void wire_add_count(struct result *r, uint64_t value)
{
	uint8_t wire[8 + 2 * 5] = { 0 };
	uint16_t digits[5];		/* 2^64 has 20 decimal digits; least significant first */
	size_t count = 0, zeros = 0;
	char text[24];

	if (!r->binary[r->cell]) {
		add_cell(r, text, (size_t)snprintf(text, sizeof(text), "%" PRIu64, value));
		return;
	}
	/* The format of numeric_send: number of digits, weight of the first digit, sign, scale,
	   digits; trailing zeros are omitted. */
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

const struct result_format result_wire = {
	.begin_row = wire_begin_row,
	.null = wire_add_null,
	.text = wire_add_text,
	.number = wire_add_number,
	.count = wire_add_count,
	.end_row = wire_end_row,
};

size_t result_give(struct result *r, size_t most, struct bytes *out)
{
	size_t count = most == 0 || most > r->row_count ? r->row_count : most;
	size_t size = 0, have = bytes_size(&r->rows);
	struct pg_frame row = { .size = 0 };

	ASSERT(r->cell == 0 && r->format == &result_wire);
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
