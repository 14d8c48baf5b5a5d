#ifndef POOL_REASON_H
#define POOL_REASON_H

#include <stddef.h>

/*
 * The reasons why connections end and requests are refused. Call sites name a reason and have no
 * error text: each row of include/tbl/close_reason.tbl has the side at fault, the SQLSTATE and the
 * text, and a counter in pools->ended.
 */
enum close_reason {
	REASON_NONE,
#define CLOSE_REASON(id, ...) REASON_##id,
#include "tbl/close_reason.tbl"
#undef CLOSE_REASON
	REASONS
};
enum fault { FAULT_NOBODY, FAULT_CLIENT, FAULT_SERVER, FAULT_POLICY, FAULT_POOLER };
enum reason_told {
	TOLD_NOTHING,			/* the client gets no error */
	TOLD_ERROR,
	/* ... an error, with a DETAIL: */
	/* the limit or condition that the client waits for, or the last failed login at the
	   server */
	TOLD_WAIT,
	TOLD_PINS,			/* the pinned servers of the pool */
	TOLD_HOLDING			/* the detail of the end, which is not in the text */
};
enum reason_detail {			/* how the log writes the detail in place of %s */
	DETAIL_TEXT,
	DETAIL_NAME,			/* chosen by a client: quoted if necessary */
	DETAIL_QUOTED			/* the text has the quotes */
};

struct close_reason_row {
	const char *name;		/* "MAX_CLIENT_CONN" */
	enum fault fault;
	const char *sqlstate;
	enum reason_told told;
	enum reason_detail detail;
	const char *hint;		/* for the client or its administrator; NULL: none */
	const char *text;		/* may contain one %s */
};
/* The row of each reason; REASON_NONE has one too, with text "". */
extern const struct close_reason_row close_reason_rows[REASONS];
/* Writes the text for the client, with `detail` (NULL: "") in place of %s. Control bytes are kept.
   Returns buf. */
const char *close_reason_text(enum close_reason why, const char *detail, char *buf, size_t size);
/* Writes the text for the log, where the detail is printable and short: a name is written as by
   printable_name(), other text takes at most PRINTABLE_TEXT bytes. `size` is REASON_LOG_TEXT.
   Returns buf. */
const char *close_reason_log_text(enum close_reason why, const char *detail, char *buf,
				  size_t size);
#define REASON_LOG_TEXT 640

#endif
