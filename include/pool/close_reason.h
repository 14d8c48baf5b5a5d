#ifndef POOL_REASON_H
#define POOL_REASON_H

#include <stddef.h>
#include <stdint.h>

/*
 * Reasons. No call site has an error text: a row of include/tbl/close_reason.tbl has the side at
 * fault, the SQLSTATE, the text, and gets a counter.
 */
enum close_reason {
	REASON_NONE,
#define CLOSE_REASON(id, fault, sqlstate, text) REASON_##id,
#include "tbl/close_reason.tbl"
#undef CLOSE_REASON
	REASONS
};
enum fault { FAULT_NOBODY, FAULT_CLIENT, FAULT_SERVER, FAULT_POLICY, FAULT_POOLER };

struct close_reason_row {
	const char *name;		/* "MAX_CLIENT_CONN" */
	enum fault fault;
	const char *sqlstate;
	const char *text;		/* may hold one %s */
};
/* The row of a reason; REASON_NONE has one too, with text "". */
const struct close_reason_row *close_reason_row(enum close_reason why);
/* Writes the text with its detail (NULL: ""), control bytes kept as they are. Returns buf. For the client. */
const char *close_reason_text(enum close_reason why, const char *detail, char *buf, size_t size);
/* The same for the log, where the detail is printable, and short: a name as printable_name() has it, or a text of
   PRINTABLE_TEXT bytes. `size` is REASON_LOG_TEXT for all of it. */
const char *close_reason_log_text(enum close_reason why, const char *detail, char *buf, size_t size);
#define REASON_LOG_TEXT 640
/* What the client, or its administrator, can do about it; NULL: nothing to say. */
const char *close_reason_hint(enum close_reason why);
/* Counts one, and how often each has happened since the start. */
void close_reason_count(enum close_reason why);
uint64_t close_reason_counted(enum close_reason why);

#endif
