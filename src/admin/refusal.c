/*
 * The table of the console's errors. Call sites contain no texts, so scripts can rely on the texts of one table, and a test can
 * provoke every row.
 */
#include "admin/refusal.h"

#include "base/assert.h"

#include <string.h>

#define DETAIL_MOST 200

static const struct {
	const char *sqlstate, *text;
} rows[REFUSALS] = {
#define REFUSAL(id, sqlstate, text) [REFUSAL_##id] = { sqlstate, text },
#include "tbl/refusal.tbl"
#undef REFUSAL
};

const char *refusal_sqlstate(enum refusal why)
{
	ASSERT((unsigned)why < REFUSALS);
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

void refusal_text(enum refusal why, const char *first, const char *second, struct bytes *out)
{
	const char *details[] = { first, second }, *at, *place;
	size_t used = 0;

	ASSERT((unsigned)why < REFUSALS);
	for (at = rows[why].text; (place = strstr(at, "%s")) != NULL; at = place + 2) {
		ASSERT(used < 2);
		bytes_append(out, at, (size_t)(place - at));
		append_detail(out, details[used++]);
	}
	bytes_append_string(out, at);
}
