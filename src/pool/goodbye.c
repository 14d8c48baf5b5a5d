/*
 * The reasons for which pgweir ends or refuses something: one table, and a counter for each of its rows.
 *
 * Invariant: a reason's number is its row's place in include/tbl/goodbye.tbl, behind GOODBYE_NONE. The
 * texts are an interface: alerts and drivers match them.
 */
#include "pool/goodbye.h"

#include "base/assert.h"
#include "base/printable.h"
#include "base/text.h"

#include <string.h>

static const struct goodbye_row rows[GOODBYES] = {
	[GOODBYE_NONE] = { "NONE", FAULT_NOBODY, "00000", "" },
#define GOODBYE(id, fault, sqlstate, text) [GOODBYE_##id] = { #id, FAULT_##fault, sqlstate, text },
#include "tbl/goodbye.tbl"
#undef GOODBYE
};

static uint64_t counted[GOODBYES];

const struct goodbye_row *goodbye_row(enum goodbye why)
{
	ASSERT((unsigned)why < GOODBYES);
	return &rows[why];
}

const char *goodbye_text(enum goodbye why, const char *detail, char *buf, size_t size)
{
	const char *text = goodbye_row(why)->text, *hole = strstr(text, "%s");
	const char *optional = detail ? NULL : strstr(text, " (%s)");
	size_t used;

	/* Not through printf: a detail is a peer's, and a row's text must not become a format by accident. */
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

const char *goodbye_hint(enum goodbye why)
{
	if (why == GOODBYE_STARTUP_PARAMETER || why == GOODBYE_STARTUP_OPTION)
		return "Parameters named in ignore_startup_parameters are passed over, those in track_extra_parameters are set.";
	return NULL;
}

/* Of these the detail is a name that a client has chosen. */
static bool is_about_name(enum goodbye why)
{
	return why == GOODBYE_NO_DATABASE || why == GOODBYE_STARTUP_PARAMETER || why == GOODBYE_STARTUP_OPTION;
}

const char *goodbye_log_text(enum goodbye why, const char *detail, char *buf, size_t size)
{
	char name[PRINTABLE_NAME], text[PRINTABLE_TEXT];

	if (detail && (why == GOODBYE_DATABASE_DISABLED || why == GOODBYE_AUTH_DATABASE_DISABLED))		/* its row has the quotes */
		detail = printable_inside(detail, name, sizeof(name));
	else if (detail && is_about_name(why))
		detail = printable_name(detail, name, sizeof(name));
	else if (detail)
		detail = printable_text(detail, text, sizeof(text));
	return goodbye_text(why, detail, buf, size);
}

void goodbye_count(enum goodbye why)
{
	ASSERT((unsigned)why < GOODBYES);
	counted[why]++;
}

uint64_t goodbye_counted(enum goodbye why)
{
	ASSERT((unsigned)why < GOODBYES);
	return counted[why];
}
