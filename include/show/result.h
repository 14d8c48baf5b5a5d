#ifndef SHOW_RESULT_H
#define SHOW_RESULT_H

#include "base/bytes.h"
#include "session/connection_row.h"

/*
 * The rows of one SHOW. A SHOW gives values, in the order of its columns; the last one of a row closes it. A format
 * (struct result_format) writes them: result_wire.h has the one of the protocol. Out of memory shows as rows.failed.
 */
#define RESULT_COLUMNS 48

enum column_type { COLUMN_TEXT, COLUMN_INT4, COLUMN_INT8, COLUMN_NUMERIC };

/* A column, as include/tbl/figure.tbl has it: "name:type". */
struct column {
	const char *name;		/* name_size bytes */
	size_t name_size;
	enum column_type type;
};

struct result {
	const struct result_format *format;
	const char *const *columns;	/* "name:type" each */
	size_t column_count;
	uint8_t type[RESULT_COLUMNS];	/* enum column_type */
	size_t cell;			/* the column that is next */
	struct bytes rows;		/* not yet given */
	size_t row_count;		/* as many are those */
	struct connection_walk walk;	/* how far a SHOW has come that has more rows than one turn gives */
	bool is_secret;			/* wiped when freed */
	/* of the format: */
	size_t mark;			/* in rows: where the row under way began */
	uint8_t binary[RESULT_COLUMNS];	/* the wire's: not as text */
};

/*
 * How values are written: each function appends to r->rows what stands for the value of result_column(r). A value that comes here fits
 * its column: text into text, any other value into a column of numbers.
 */
struct result_format {
	void (*begin_row)(struct result *r);
	void (*null)(struct result *r);
	void (*text)(struct result *r, const char *text, size_t size);	/* bytes as they came; what is printable is the format's to say */
	void (*number)(struct result *r, int64_t value);		/* int4, int8 */
	void (*count)(struct result *r, uint64_t value);		/* numeric */
	void (*end_row)(struct result *r);
};

/* No rows. `columns` must outlive the result; count is at most RESULT_COLUMNS. */
void result_init(struct result *r, const struct result_format *format, const char *const *columns, size_t count);
void result_free(struct result *r);
/* The column of the value that is being written. */
struct column result_column(const struct result *r);

/* A NULL pointer is SQL null. Into a column of text. */
void result_text(struct result *r, const char *text);
/* Into int4 (held to what that takes), int8, numeric or text. */
void result_number(struct result *r, int64_t value);
void result_count(struct result *r, uint64_t value);	/* beyond INT64_MAX only into numeric */
void result_null(struct result *r);
/* There was no memory for the values. */
static inline void result_fail(struct result *r) { r->rows.failed = true; }

#endif
