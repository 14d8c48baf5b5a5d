/*
 * The rows of a SHOW, independent of their format. A SHOW calls one function for each value; this
 * file converts the value to the type of its column, and the format writes it.
 *
 * Invariant: `rows` contains row_count complete rows, and then at most one incomplete row with
 * `cell` values.
 */
#include "show/result.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void result_init(struct result *r, const struct result_format *format, const char *const *columns,
		 size_t count)
{
	static const char *const types[] = {
		[COLUMN_TEXT] = "text",
		[COLUMN_INT4] = "int4",
		[COLUMN_INT8] = "int8",
		[COLUMN_NUMERIC] = "numeric",
	};

	ASSERT(count <= RESULT_COLUMNS);
	*r = (struct result){ .format = format, .columns = columns, .column_count = count };
	for (size_t i = 0; i < count; i++) {
		r->type[i] = COLUMN_TEXT;	/* also for bytea, which is always null */
		for (unsigned type = 0; type < sizeof(types) / sizeof(types[0]); type++)
			if (strcmp(types[type], strrchr(columns[i], ':') + 1) == 0)
				r->type[i] = (uint8_t)type;
	}
}

/* The first value begins a row. */
static void result_begin(struct result *r)
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

void result_text(struct result *r, const char *text)
{
	ASSERT(!text || r->type[r->cell] == COLUMN_TEXT);
	result_begin(r);
	if (text)
		r->format->text(r, text, strlen(text));
	else
		r->format->null(r);
	end(r);
}

void result_number(struct result *r, int64_t value)
{
	enum column_type type = (enum column_type)r->type[r->cell];
	char text[24];

	if (type == COLUMN_NUMERIC) {
		ASSERT(value >= 0);
		result_count(r, (uint64_t)value);
		return;
	}
	if (type == COLUMN_TEXT) {
		snprintf(text, sizeof(text), "%" PRId64, value);
		result_text(r, text);
		return;
	}
	if (type == COLUMN_INT4)
		value = value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value;
	result_begin(r);
	r->format->number(r, value);
	end(r);
}

void result_count(struct result *r, uint64_t value)
{
	if (r->type[r->cell] != COLUMN_NUMERIC) {
		result_number(r, value > INT64_MAX ? INT64_MAX : (int64_t)value);
		return;
	}
	result_begin(r);
	r->format->count(r, value);
	end(r);
}
