#ifndef SIM_ASK_H
#define SIM_ASK_H

#include "base/bytes.h"

/*
 * The language of simulated clients and servers inside queries: the request, its client, and its serial number. The text describes the request
 * completely, so a server needs no knowledge of its client, and every answer names its request.
 *
 * ask CLIENT SERIAL VERB A B MILLISECONDS
 *
 * The pooler looks for some words: ASK_ROLE is preceded by "SET ROLE ", ASK_ROWS by "SELECT ", and ASK_READ, ASK_COMMIT and ASK_ROLLBACK are comments
 * behind "BEGIN READ ONLY", "COMMIT" and "ROLLBACK", with the tags of these.
 */
enum ask_verb {
	ASK_ROWS,		/* `a` rows, filled up to `b` bytes each */
	ASK_BEGIN, ASK_COMMIT, ASK_ROLLBACK,
	ASK_READ,		/* BEGIN READ ONLY; tagged BEGIN */
	ASK_ERROR,
	ASK_SET,		/* application_name = n<client>_<a> */
	ASK_COPY_IN,		/* `a` messages; `b`: enum ask_copy */
	ASK_COPY_OUT,		/* `a` messages of `b` bytes */
	ASK_FORGET,		/* DEALLOCATE ALL, in those words */
	ASK_EMPTY,		/* the empty query */
	ASK_ROLE,		/* the session acts as this client from now on; tagged SET */
	ASK_STREAM,		/* of a walsender: `a` rows of `b` bytes, with pauses of up to `milliseconds` between them */
	ASK_VERBS
};

enum ask_copy {
	ASK_COPY_WHOLE,
	ASK_COPY_GIVEN_UP,	/* the client ends it with CopyFail */
	ASK_COPY_BAD,		/* the server fails when it reads message ask_bad_row */
	ASK_COPIES
};

struct ask {
	uint32_t client, serial;	/* client 0: a text that all clients share; the parameter of Bind names the client */
	enum ask_verb verb;
	uint32_t a, b, milliseconds;
};

/* Appends its text, without a NUL. */
void ask_write(struct bytes *out, const struct ask *ask);
/* Reads one up to the end of the text or a semicolon. Where it ends, or NULL: it is not of this language. */
const char *ask_read(const char *text, struct ask *ask);
/* Changes the transaction status `tx` (I T E) by this request. Returns false if the request fails. */
bool ask_moves(const struct ask *ask, char *tx);
static inline uint32_t ask_bad_row(const struct ask *ask) { return ask->a / 2; }
/* The request also works in a failed transaction. */
bool ask_works_in_failed(const struct ask *ask);
/* The tag of CommandComplete, with its number where it has one. `failed`: COMMIT in a failed transaction. */
void ask_tag(const struct ask *ask, uint32_t client, uint32_t serial, char tx_before, char *tag, size_t size);

#endif
