/*
 * The rows of a SHOW, independent of their format. A SHOW calls one function for each value; this file converts the value to
 * the type of its column, and the format writes it.
 *
 * Invariant: `rows` contains row_count complete rows, and then at most one incomplete row with `cell` values.
 */
#include "show/result.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *type_of(const char *column)
{
	return strrchr(column, ':') + 1;
}

static enum column_type read_type(const char *column)
{
	static const char *const names[] = {
		[COLUMN_TEXT] = "text", [COLUMN_INT4] = "int4", [COLUMN_INT8] = "int8", [COLUMN_NUMERIC] = "numeric",
	};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], type_of(column)))
			return (enum column_type)i;
	return COLUMN_TEXT;	/* bytea: always null */
}

void result_init(struct result *r, const struct result_format *format, const char *const *columns, size_t count)
{
	ASSERT(count <= RESULT_COLUMNS);
	*r = (struct result){ .format = format, .columns = columns, .column_count = count };
	for (size_t i = 0; i < count; i++)
		r->type[i] = (uint8_t)read_type(columns[i]);
}

void result_free(struct result *r)
{
	if (r->is_secret)
		bytes_wipe(&r->rows);
	else
		bytes_free(&r->rows);
	r->cell = 0;
	r->row_count = 0;
}

struct column result_column(const struct result *r)
{
	const char *name = r->columns[r->cell];

	return (struct column){
		.name = name, .name_size = (size_t)(type_of(name) - name) - 1, .type = (enum column_type)r->type[r->cell],
	};
}

/* The first value begins a row. */
static void begin(struct result *r)
{
	ASSERT(r->cell < r->column_count);
	if (r->cell > 0)
		return;
	r->mark = bytes_size(&r->rows);
	r->format->begin_row(r);
}

static void end(struct result *r)
{
	if (++r->cell < r->column_count)
		return;
	r->format->end_row(r);
	r->cell = 0;
	r->row_count++;
}

void result_null(struct result *r)
{
	begin(r);
	r->format->null(r);
	end(r);
}

void result_text(struct result *r, const char *text)
{
	ASSERT(r->type[r->cell] == COLUMN_TEXT);
	if (!text) {
		result_null(r);
		return;
	}
	begin(r);
	r->format->text(r, text, strlen(text));
	end(r);
}

static void number_as_text(struct result *r, int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	result_text(r, text);
}

void result_number(struct result *r, int64_t value)
{
	enum column_type type = (enum column_type)r->type[r->cell];

	if (type == COLUMN_NUMERIC) {
		ASSERT(value >= 0);
		result_count(r, (uint64_t)value);
		return;
	}
	if (type == COLUMN_TEXT) {
		number_as_text(r, value);
		return;
	}
	if (type == COLUMN_INT4)
		value = value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value;
	begin(r);
	r->format->number(r, value);
	end(r);
}

void result_count(struct result *r, uint64_t value)
{
	if (r->type[r->cell] != COLUMN_NUMERIC) {
		result_number(r, value > INT64_MAX ? INT64_MAX : (int64_t)value);
		return;
	}
	begin(r);
	r->format->count(r, value);
	end(r);
}
