/* The answer to a statement, computed from its text only: no state, no table, no plan. Only the first word is examined. */
#include "answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pg/build.h"

static bool begins(const char *sql, const char *word)
{
	return strncasecmp(sql, word, strlen(word)) == 0;
}

struct answer answer_to(const char *sql)
{
	struct answer rows = { .rows = 1, .width = 1 };

	sql += strspn(sql, " \t\r\n;");
	if (!*sql)
		return (struct answer){ .rows = 0 };
	if (begins(sql, "ROWS")) {
		sscanf(sql + 4, "%zu %zu", &rows.rows, &rows.width);
		return rows;
	}
	if (begins(sql, "BEGIN"))
		return (struct answer){ .tag = "BEGIN", .status = 'T' };
	if (begins(sql, "COMMIT") || begins(sql, "END"))
		return (struct answer){ .tag = "COMMIT", .status = 'I' };
	if (begins(sql, "ROLLBACK"))
		return (struct answer){ .tag = "ROLLBACK", .status = 'I' };
	if (begins(sql, "SET"))
		return (struct answer){ .tag = "SET" };
	if (begins(sql, "DISCARD"))
		return (struct answer){ .tag = "DISCARD ALL", .forgets = true };
	if (begins(sql, "DEALLOCATE ALL"))
		return (struct answer){ .tag = "DEALLOCATE ALL", .forgets = true };
	return rows;
}

void answer_put_empty(struct bytes *out, uint8_t type)
{
	pg_end(out, pg_begin(out, type));
}

void answer_put_description(struct bytes *out, const struct answer *a)
{
	static const char *const column[] = { "c:text" };

	if (a->tag || a->rows == 0)
		answer_put_empty(out, 'n');
	else
		pg_build_row_description(out, column, 1);
}

void answer_put_row(struct bytes *out, size_t width)
{
	size_t mark = pg_begin(out, 'D');
	uint8_t *value;

	bytes_append_u16(out, 1);
	bytes_append_u32(out, (uint32_t)width);
	value = bytes_reserve(out, width);
	if (!value)
		abort();
	memset(value, '1', width);
	out->end += width;
	pg_end(out, mark);
}

void answer_put_rows_tag(struct bytes *out, size_t rows)
{
	char tag[40];

	snprintf(tag, sizeof(tag), "SELECT %zu", rows);
	pg_build_string(out, 'C', tag);
}
