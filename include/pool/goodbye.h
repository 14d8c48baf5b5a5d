#ifndef POOL_GOODBYE_H
#define POOL_GOODBYE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Reasons. Nobody types an error text at a call site: a row of include/tbl/goodbye.tbl has the side at
 * fault, the SQLSTATE, the text, and gets a counter.
 */
enum goodbye {
	GOODBYE_NONE,
#define GOODBYE(id, fault, sqlstate, text) GOODBYE_##id,
#include "tbl/goodbye.tbl"
#undef GOODBYE
	GOODBYES
};
enum fault { FAULT_NOBODY, FAULT_CLIENT, FAULT_SERVER, FAULT_POLICY, FAULT_POOLER };

struct goodbye_row {
	const char *name;		/* "MAX_CLIENT_CONN" */
	enum fault fault;
	const char *sqlstate;
	const char *text;		/* may hold one %s */
};
/* The row of a reason; GOODBYE_NONE has one too, with text "". */
const struct goodbye_row *goodbye_row(enum goodbye why);
/* Writes the text with its detail (NULL: ""), control bytes kept as they are. Returns buf. For the client. */
const char *goodbye_text(enum goodbye why, const char *detail, char *buf, size_t size);
/* The same for the log, where the detail is printable, and short: a name as printable_name() has it, or a text of
   PRINTABLE_TEXT bytes. `size` is GOODBYE_LOG_TEXT for all of it. */
const char *goodbye_log_text(enum goodbye why, const char *detail, char *buf, size_t size);
#define GOODBYE_LOG_TEXT 640
/* What the client, or its administrator, can do about it; NULL: nothing to say. */
const char *goodbye_hint(enum goodbye why);
/* Counts one, and how often each has happened since the start. */
void goodbye_count(enum goodbye why);
uint64_t goodbye_counted(enum goodbye why);

#endif
