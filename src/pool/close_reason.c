/*
 * The reasons why pgweir ends a connection or refuses a request: a table with a counter for each row.
 *
 * Invariant: the number of a reason is the index of its row in include/tbl/close_reason.tbl, after REASON_NONE. Alerts and
 * drivers match the texts, so they must not change.
 */
#include "pool/close_reason.h"

#include "base/assert.h"
#include "base/printable.h"
#include "base/text.h"

#include <string.h>

static const struct close_reason_row rows[REASONS] = {
	[REASON_NONE] = { "NONE", FAULT_NOBODY, "00000", "" },
#define CLOSE_REASON(id, fault, sqlstate, text) [REASON_##id] = { #id, FAULT_##fault, sqlstate, text },
#include "tbl/close_reason.tbl"
#undef CLOSE_REASON
};

static uint64_t counted[REASONS];

const struct close_reason_row *close_reason_row(enum close_reason why)
{
	ASSERT((unsigned)why < REASONS);
	return &rows[why];
}

const char *close_reason_text(enum close_reason why, const char *detail, char *buf, size_t size)
{
	const char *text = close_reason_row(why)->text, *hole = strstr(text, "%s");
	const char *optional = detail ? NULL : strstr(text, " (%s)");
	size_t used;

	/* printf is not used: the detail comes from a peer, and no row text must be used as a format by accident. */
	text_copy(buf, size, text);
	if (optional && (size_t)(optional - text) < size) {
		buf[optional - text] = '\0';
		return buf;
	}
	if (!hole || (size_t)(hole - text) >= size)
		return buf;
	used = (size_t)(hole - text);
	text_copy(buf + used, size - used, detail ? detail : "");
	used += strlen(buf + used);
	text_copy(buf + used, size - used, hole + 2);
	return buf;
}

const char *close_reason_hint(enum close_reason why)
{
	if (why == REASON_STARTUP_PARAMETER || why == REASON_STARTUP_OPTION)
		return "Parameters named in ignore_startup_parameters are passed over, those in track_extra_parameters are set.";
	return NULL;
}

/* Whether the detail of this reason is a name that a client has chosen. */
static bool is_about_name(enum close_reason why)
{
	return why == REASON_NO_DATABASE || why == REASON_STARTUP_PARAMETER || why == REASON_STARTUP_OPTION;
}

const char *close_reason_log_text(enum close_reason why, const char *detail, char *buf, size_t size)
{
	char name[PRINTABLE_NAME], text[PRINTABLE_TEXT];

	if (detail && (why == REASON_DATABASE_DISABLED || why == REASON_AUTH_DATABASE_DISABLED || why == REASON_SERVER_SECRET_OLD))
		/* its row has the quotes */
		detail = printable_inside(detail, name, sizeof(name));
	else if (detail && is_about_name(why))
		detail = printable_name(detail, name, sizeof(name));
	else if (detail)
		detail = printable_text(detail, text, sizeof(text));
	return close_reason_text(why, detail, buf, size);
}

void close_reason_count(enum close_reason why)
{
	ASSERT((unsigned)why < REASONS);
	counted[why]++;
}

uint64_t close_reason_counted(enum close_reason why)
{
	ASSERT((unsigned)why < REASONS);
	return counted[why];
}
