#ifndef CONN_CLIENT_REQUEST_H
#define CONN_CLIENT_REQUEST_H

#include "base/bytes.h"
#include "base/clock.h"
#include "conn/client.h"
#include "sql/read_names.h"
#include "pool/host.h"

/*
 * The request of a client with a role: see relay/request.c. Room relay writes it.
 */
#define RETRY_MOST (16 * 1024)		/* kept bytes of a request, and held bytes of an answer */

enum request_step {
#define REQUEST_STEP(id, host, moves) REQUEST_##id,
#include "tbl/request_step.tbl"
#undef REQUEST_STEP
	REQUEST_STEPS
};
/* A set of steps. */
#define REQUEST_IN(id) (1u << REQUEST_##id)
#define REQUEST_IN_READ                                                                            \
	(REQUEST_IN(READ_ON_STANDBY) | REQUEST_IN(READ_ON_PRIMARY) | REQUEST_IN(MAY_WRITE))

/* The state of a BEGIN with an answer of pgweir. */
enum request_begin {
	BEGIN_NONE,
	BEGIN_HELD,			/* no server has it */
	BEGIN_SENT,			/* the server of this link has it */
	BEGIN_ANSWERED			/* ... and has answered it, and the first request */
};

/* Whether another server can get the messages that this server has got. */
enum request_repeat {
	REPEAT_NOTHING,			/* nothing is pending, and the session has no state of the
					   client */
	REPEAT_WHOLE,			/* the request begins a transaction, and the client has no
					   part of the answer */
	REPEAT_UNSENT,			/* ... and the socket has refused all of its bytes */
	REPEAT_ANSWERED,		/* no: the client has a part of the answer, or the
					   transaction began earlier */
	REPEAT_BOUND			/* no: the session may have state of the client; until the
					   link ends, or the server has answered */
};

struct request {
	uint8_t step;			/* enum request_step; written by request_to() */
	uint8_t held_step;		/* AWAITS_VERDICT: the step that follows if another host
					   gets the request */
	uint8_t begin_is;		/* enum request_begin */
	uint8_t repeat;			/* enum request_repeat */
	uint8_t *begin;			/* the message of the BEGIN; owned; NULL: none */
	/* the first request of its transaction was cancelled before a server got it */
	bool is_aborted;
	/* The messages that the server has got since it owed nothing. */
	struct bytes kept;		/* the messages; empty if they are longer than RETRY_MOST */
	size_t sent;			/* their bytes */
	uint64_t sent_in;		/* world->turns when the first byte was sent; 0, the number
					   of no turn, after the server has sent something */
	/* AWAITS_VERDICT. */
	struct bytes answer;		/* the answer if the host is still the primary:
					   ErrorResponse, and ReadyForQuery unless it is fatal */
	size_t taken;			/* bytes of the request at the front of peer.held */
	struct host *host;		/* that has answered; a reference, or NULL */
	usec_t since;			/* when that was */
	/* ASKING, ASKING_ALL, DOUBTED, OFFLOADED: a single statement. See relay/offload.c. */
	bool is_confirmed;		/* the catalogue has confirmed that the statement only reads
					   */
	bool is_canceled;		/* an error may be due to a cancel request, and says nothing
					   about the text */
	size_t size;			/* bytes of the statement's messages */
	uint64_t key, text_key;		/* the text without its literals, by its hash; the whole
					   text. Equal if it has none */
	uint64_t definitions;		/* database->roles->written->definitions when the question
					   was made ... */
	usec_t asked_at;		/* ... and when that was */
	struct bytes question;		/* for the catalogue */
	struct read_set names;		/* ASKING: the names in the question */
};

/* Whether the step of the client's request is one of these: REQUEST_IN(). */
static inline bool request_step_in(const struct client *c, unsigned steps)
{
	return c->request && (1u << c->request->step & steps);
}
static inline bool request_holds_begin(const struct client *c)
{
	return c->request && c->request->begin_is == BEGIN_HELD;
}
/* Whether the transaction of the client's BEGIN is aborted. */
static inline bool request_is_aborted(const struct client *c)
{
	return c->request && c->request->is_aborted;
}

#endif
