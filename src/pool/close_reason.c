/*
 * The reasons why pgweir ends a connection or refuses a request: a table.
 *
 * Invariant: the number of a reason is the index of its row in include/tbl/close_reason.tbl, after
 * REASON_NONE. Alerts and drivers match the texts, so they must not change.
 */
#include "pool/close_reason.h"

#include "base/printable.h"
#include "base/text.h"

#include <string.h>

#define HINT_NONE NULL
#define HINT_CONNECTIONS "SHOW ADDRESSES and SHOW SOCKETS on the console list the connections."
#define HINT_CLIENTS "SHOW CLIENTS on the console lists the clients."
#define HINT_PINS "SHOW PINS on the console lists the clients that keep a server connection."
#define HINT_PARAMETERS \
	"Parameters named in ignore_startup_parameters are passed over, those in " \
	"track_extra_parameters are set."

const struct close_reason_row close_reason_rows[REASONS] = {
	[REASON_NONE] = { "NONE", FAULT_NOBODY, "00000", TOLD_ERROR, DETAIL_TEXT, NULL, "" },
#define CLOSE_REASON(id, fault, sqlstate, told, detail, hint, text) \
	[REASON_##id] = { #id,	       FAULT_##fault, sqlstate, TOLD_##told, DETAIL_##detail, \
			  HINT_##hint, text },
#include "tbl/close_reason.tbl"
#undef CLOSE_REASON
};

const char *close_reason_text(enum close_reason why, const char *detail, char *buf, size_t size)
{
	const char *text = close_reason_rows[why].text, *hole = strstr(text, "%s");
	const char *optional = detail ? NULL : strstr(text, " (%s)");
	size_t used;

	/* printf is not used, because the detail comes from a peer: a name like "%s%s" must not be
	   read as a format. */
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

const char *close_reason_log_text(enum close_reason why, const char *detail, char *buf, size_t size)
{
	char name[PRINTABLE_NAME], text[PRINTABLE_TEXT];

	if (detail) {
		switch (close_reason_rows[why].detail) {
		case DETAIL_TEXT:
			detail = printable_text(detail, text, sizeof(text));
			break;
		case DETAIL_NAME:
			detail = printable_name(detail, name, sizeof(name));
			break;
		case DETAIL_QUOTED:
			detail = printable_inside(detail, name, sizeof(name));
			break;
		}
	}
	return close_reason_text(why, detail, buf, size);
}
