#ifndef SHOW_RESULT_H
#define SHOW_RESULT_H

#include "base/bytes.h"
#include "core/connection_row.h"

/*
 * The rows of a SHOW. A SHOW adds values in the order of its columns; the last value of a row ends
 * the row. A format (struct result_format) writes the values: result_wire.h has the format of the
 * protocol. Missing memory sets rows.failed.
 */
#define RESULT_COLUMNS 48

enum column_type { COLUMN_TEXT, COLUMN_INT4, COLUMN_INT8, COLUMN_NUMERIC };

struct result {
	const struct result_format *format;
	const char *const *columns;	/* "name:type" each */
	size_t column_count;
	uint8_t type[RESULT_COLUMNS];	/* enum column_type */
	size_t cell;			/* index of the next column */
	struct bytes rows;		/* not returned yet */
	size_t row_count;		/* number of these rows */
	/* the position of a SHOW, which returns its rows in several turns */
	struct connection_walk walk;
	/* rows of one call of show_part(), which increases it if there are many; 0: connections in
	   parts, all other rows at once. Set by the caller */
	size_t most;
	/* of a SHOW in parts that walks over no connections: the first row of this part, and of the
	   next row */
	size_t first, index;
	bool is_secret;			/* wiped when freed */
	/* used by the format: */
	size_t mark;			/* position in `rows` of the current row */
	/* the protocol's format of the column: binary instead of text */
	uint8_t binary[RESULT_COLUMNS];
};

/*
 * Writes values: each function appends the value of the column r->columns[r->cell] to r->rows. The
 * type of a value fits its column: text for text columns, numbers for number columns.
 */
struct result_format {
	void (*begin_row)(struct result *r);
	void (*null)(struct result *r);
	/* unmodified bytes; the format makes them printable */
	void (*text)(struct result *r, const char *text, size_t size);
	void (*number)(struct result *r, int64_t value);		/* int4, int8 */
	void (*count)(struct result *r, uint64_t value);		/* numeric */
	void (*end_row)(struct result *r);
};

/* Initialises an empty result. `columns` must outlive the result; count is at most
   RESULT_COLUMNS. */
void result_init(struct result *r, const struct result_format *format, const char *const *columns,
		 size_t count);
static inline void result_free(struct result *r)
{
	if (r->is_secret)
		bytes_wipe(&r->rows);
	else
		bytes_free(&r->rows);
	r->cell = 0;
	r->row_count = 0;
}

/* Adds a value to a text column. NULL: SQL null, for a column of any type. */
void result_text(struct result *r, const char *text);
/* Adds a value to an int4 (limited to its range), int8, numeric or text column. */
void result_number(struct result *r, int64_t value);
/* values beyond INT64_MAX only for numeric columns */
void result_count(struct result *r, uint64_t value);
/* Records that there was no memory for the values. */
static inline void result_fail(struct result *r) { r->rows.failed = true; }

#endif
