#ifndef BENCH_ANSWER_H
#define BENCH_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"

/*
 * The answers of nullpg:
 *
 * - ROWS n w: n rows of one text column of w bytes
 * - BEGIN, COMMIT, ROLLBACK, SET, DISCARD ALL, DEALLOCATE ALL: their tag
 * - nothing: EmptyQueryResponse
 * - anything else: one row of one column, "1"
 */
struct answer {
	const char *tag;	/* NULL: the tag of the rows */
	size_t rows, width;	/* without a tag; no row: an empty query */
	char status;		/* of the transaction from then on; 0: as it was */
	bool forgets;		/* all prepared statements go */
};

/* The answer to this text; keywords in any case. */
struct answer answer_to(const char *sql);

/* The messages of the answer: a message without a body, RowDescription or NoData, one DataRow, CommandComplete for rows. */
void answer_put_empty(struct bytes *out, uint8_t type);
void answer_put_description(struct bytes *out, const struct answer *a);
void answer_put_row(struct bytes *out, size_t width);
void answer_put_rows_tag(struct bytes *out, size_t rows);

#endif
