/*
 * The table of the console's errors. Call sites contain no texts, so scripts can rely on the texts of one table, and a test can
 * provoke every row.
 */
#include "admin/console_error.h"

#include "base/assert.h"

#include <string.h>

#define DETAIL_MOST 200

static const struct {
	const char *sqlstate, *text;
} rows[CONSOLE_ERRORS] = {
#define CONSOLE_ERROR(id, sqlstate, text) [CONSOLE_ERROR_##id] = { sqlstate, text },
#include "tbl/console_error.tbl"
#undef CONSOLE_ERROR
};

const char *console_error_sqlstate(enum console_error why)
{
	ASSERT((unsigned)why < CONSOLE_ERRORS);
	return rows[why].sqlstate;
}

static void append_detail(struct bytes *out, const char *detail)
{
	size_t size = detail ? strlen(detail) : 0;

	if (size <= DETAIL_MOST) {
		bytes_append(out, detail, size);
		return;
	}
	size = DETAIL_MOST;
	while (size > 0 && ((unsigned char)detail[size] & 0xc0) == 0x80)
		size--;
	bytes_append(out, detail, size);
	bytes_append_text(out, "...");
}

void console_error_text(enum console_error why, const char *first, const char *second, struct bytes *out)
{
	const char *details[] = { first, second }, *at, *place;
	size_t used = 0;

	ASSERT((unsigned)why < CONSOLE_ERRORS);
	for (at = rows[why].text; (place = strstr(at, "%s")) != NULL; at = place + 2) {
		ASSERT(used < 2);
		bytes_append(out, at, (size_t)(place - at));
		append_detail(out, details[used++]);
	}
	bytes_append_string(out, at);
}
