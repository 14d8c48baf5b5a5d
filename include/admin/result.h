#ifndef ADMIN_RESULT_H
#define ADMIN_RESULT_H

#include "base/bytes.h"

/*
 * The rows of one SHOW, written as DataRow messages while the cells come, in the formats that the
 * client asked for. Cells are given in the order of the columns; the last one of a row closes it.
 * Out of memory shows as rows.failed.
 */
#define RESULT_COLUMNS 48

enum result_format { FORMAT_TEXT, FORMAT_BINARY };

/* How far a SHOW has come that has more rows than one turn gives. */
struct result_place {
	bool goes_on;			/* rows are left: the next turn gives some */
	int list;			/* of those that it walks */
	uint64_t behind, last;		/* ids of connections in it: the one shown last, and the last that there was in the beginning */
};

struct result {
	const char *const *columns;	/* "name:type" each, as pg_build_row_description takes them */
	size_t column_count;
	uint8_t kind[RESULT_COLUMNS];
	uint8_t format[RESULT_COLUMNS];	/* enum result_format */
	size_t cell;			/* the column that is next */
	size_t mark;			/* of the row under way */
	struct bytes rows;		/* not yet given */
	size_t row_count;		/* as many are those */
	struct result_place place;
	bool is_secret;			/* wiped when freed */
};

/* No rows, everything in text. `columns` must outlive the result; count is at most RESULT_COLUMNS. */
void result_init(struct result *r, const char *const *columns, size_t count);
void result_free(struct result *r);
/* The format codes of a Bind: none (all text), one for all, or one for each column. False:
   another count. Codes must be 0 or 1. */
bool result_set_formats(struct result *r, const uint16_t *codes, size_t count);
/* Appends the RowDescription, with the formats. */
void result_describe(const struct result *r, struct bytes *out);

/* A NULL pointer is SQL null. Into a column of any type: what is not text is read by the client
   as it stands. */
void result_text(struct result *r, const char *text);
/* Into int4 (held to what that takes), int8, numeric or text. */
void result_number(struct result *r, int64_t value);
void result_count(struct result *r, uint64_t value);	/* beyond INT64_MAX only into numeric */
void result_null(struct result *r);

/* Moves at most `most` rows (0: all) to the end of `out`; returns how many. */
size_t result_give(struct result *r, size_t most, struct bytes *out);

#endif
