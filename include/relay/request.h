#ifndef RELAY_REQUEST_H
#define RELAY_REQUEST_H

#include "conn/client_request.h"
#include "conn/gather.h"
#include "conn/verdict.h"
#include "conn/world.h"
#include "pg/frame.h"
#include "pg/message.h"
#include "pg/request_text.h"
#include "pool/read_verdicts.h"

/*
 * The request of a client with a role: which host executes it. See request.c; offload.c has single
 * statements, and retry.c the requests that another server gets instead.
 */

/* How much of the request has arrived, of a client without a server. */
enum request_arrived {
	ARRIVED_IN_PART,
	ARRIVED_LARGE,			/* in part, and it is too large to be collected */
	ARRIVED_QUERY,			/* a whole Query */
	ARRIVED_BATCH			/* another message */
};
/* The meaning of its texts. */
enum request_says {
	SAYS_OTHER,
	SAYS_BEGIN,			/* only a BEGIN, of a read-only transaction */
	SAYS_END,			/* only a COMMIT or ROLLBACK, while a BEGIN is held */
	SAYS_READ			/* a statement for standbys, in a read-only transaction that
					   has begun or begins here */
};

/* The facts on which the decision depends. */
struct request_view {
	enum request_step step;
	enum reads reads;		/* the requests of the client that standbys may execute */
	bool is_shared, is_transaction;	/* its server would be lent, not for the session; for a
					   transaction, not a statement */
	bool holds_begin, is_aborted;	/* a BEGIN is held; its transaction is aborted */
	enum request_arrived arrived;
	enum request_says says;
	/* A single statement, outside of read-only transactions. */
	bool is_statement;		/* the messages are one statement, and nothing binds the
					   client to a host */
	enum read_verdict verdict;	/* on its text */
	bool is_recent;			/* verdicts rest on an answer of the catalogue that is
					   recent enough */
	bool is_due;			/* ... and it is time to ask again */
	bool may_ask;			/* a question about this text may be asked now */
	bool only_reads;		/* the catalogue can confirm that the text only reads */
};
enum request_decision {
	DECIDE_DIRECT,			/* the request goes to a host of the role */
	DECIDE_MORE,			/* more of it must arrive */
	DECIDE_HOLD_BEGIN,		/* pgweir answers the BEGIN, and holds it */
	DECIDE_ANSWER_END,		/* pgweir answers the end of the transaction, and forgets
					   the BEGIN */
	DECIDE_READ,			/* a transaction for a standby */
	DECIDE_PRIMARY,			/* a transaction for the primary */
	/* DIRECT; the text is noted, and asked about when it comes again, because most texts never
	   return */
	DECIDE_NOTE,
	DECIDE_ASK,			/* DIRECT, after a question to the catalogue about the text
					   */
	DECIDE_ASK_ALL,			/* ... about all texts with a verdict */
	DECIDE_NEVER,			/* DIRECT, also in the future: the text may do more than
					   read */
	DECIDE_ASK_AGAIN,		/* a lost server may have executed the statement: the next
					   server is asked first */
	DECIDE_OFFLOAD			/* a statement for a standby */
};
/* Pure. */
enum request_decision request_decide(const struct request_view *view);

/* The only writer of request->step: asserts that tbl/request_step.tbl allows the move, and asks for
   the host of the step. */
void request_to(struct client *client, enum request_step step);
/* Returns the step of a request while no server has it: BEGIN_HELD or DIRECT, or the step that
   binds it. */
enum request_step request_step_again(const struct request *request);
/* The status for a ReadyForQuery of pgweir's own, to a client without a server. */
static inline const char *request_status(const struct client *c)
{
	return !request_holds_begin(c) ? "I" : request_is_aborted(c) ? "E" : "T";
}

/* ---- from the client ---- */

/* Whether the message at the front of n bytes (n > PG_HEADER + 1) may begin a read-only
   transaction. Only the first letter of its text is tested, because this excludes nearly every
   other text at the cost of one comparison. */
static inline bool request_may_begin(const uint8_t *at, size_t n)
{
	const uint8_t *text = at + PG_HEADER;
	uint8_t letter;

	if (*at == PGC_PARSE)
		text = request_text_after_name(text, n - PG_HEADER - 1);
	else if (*at != PGC_QUERY)
		text = NULL;
	if (!text)
		return false;
	letter = *text | 0x20;
	/* BEGIN with further words, such as READ ONLY; START; blanks and comments */
	if (letter == 'b')
		return pg_u32_at(at + 1) >= PG_LENGTH_WORD + sizeof("BEGIN READ ONLY");
	return (letter == 's' && (text[1] | 0x20) == 't') || *text < 'A';
}
/* Whether request_take() must look at the first of n bytes of input, which begin a message.
   Otherwise the message goes to a host of the client's role. For a client with a request. */
static inline bool request_minds(const struct client *c, const uint8_t *at, size_t n)
{
	if (c->request->step != REQUEST_DIRECT)
		return true;
	if (c->pooled.link || c->pooled.reads == READS_OFF || n <= PG_HEADER + 1)
		return false;
	return c->pooled.reads == READS_AUTO || c->reads_only || request_may_begin(at, n);
}
/* Decides which host gets the request at the front of n bytes; the client has no server. `is_all`:
   all n bytes may be one statement for a standby. VERDICT_PASS: the message is handled as any
   other, or *used bytes are answered; VERDICT_MORE: more must arrive; VERDICT_WAIT: the client
   waits for a server, which is asked first; VERDICT_GONE. */
enum verdict request_take(struct client *client, const uint8_t *at, size_t n, bool is_all,
			  size_t *used);
/* The server of the client is ready for its next message, this frame: gathers the BEGIN that is
   held. For the steps of REQUEST_IN_TRANSACTION. VERDICT_PASS; VERDICT_WAIT: the last request must
   be answered first; VERDICT_MORE: more of the message must arrive; VERDICT_SWALLOW: a failing
   message was gathered instead; VERDICT_LATER: the client has left its server;
   VERDICT_NO_MEMORY. */
#define REQUEST_IN_TRANSACTION                                                                     \
	(REQUEST_IN(BEGIN_HELD) | REQUEST_IN(TO_READ) | REQUEST_IN(TO_PRIMARY) | REQUEST_IN_READ)
enum verdict request_before(struct client *client, struct server *server,
			    const struct pg_frame *frame, struct gather *gather);
/* The server has answered the failing message that request_before() has gathered: the client gets
   the error 25001. VERDICT_SWALLOW; VERDICT_INVALID: no memory. */
enum verdict request_tell_refused(struct client *client);
/* A cancel request has ended the request, which has waited for a server: if a BEGIN is held, its
   transaction is aborted. */
void request_refused(struct client *client);

/* ---- the messages that the server has got ---- */

#define RETRY_SPARE 512			/* bytes of memory that stay for the next request */

/* Whether the messages were too long to be kept. */
static inline bool request_is_cut(const struct request *r)
{
	return r->sent > bytes_size(&r->kept);
}
/* Whether another server can get the request, because all of its bytes are kept. */
static inline bool request_is_whole(const struct request *r)
{
	return (r->repeat == REPEAT_WHOLE || r->repeat == REPEAT_UNSENT) && !request_is_cut(r);
}
/* The server owes nothing. */
static inline void request_forget(struct request *r)
{
	if (r->kept.capacity > RETRY_SPARE)
		bytes_free(&r->kept);
	r->kept.start = r->kept.end = 0;
	r->sent = 0;
	if (r->repeat != REPEAT_BOUND)
		r->repeat = REPEAT_NOTHING;
}
/* The part of request_keep() that gets more memory. */
void request_keep_more(struct request *request, const uint8_t *at, size_t n);
/* The server of the client gets these bytes of its request, at least one: keeps them, so that
   another server can get them after a failure. */
static inline void request_keep(struct client *c, const uint8_t *at, size_t n)
{
	struct request *r = c->request;

	if (r->sent == 0) {
		if (r->repeat != REPEAT_BOUND)
			r->repeat = server_of(c->pooled.link)->status == 'I' ? REPEAT_WHOLE :
									       REPEAT_ANSWERED;
		r->sent_in = c->peer.world->loop.turns;
	}
	r->sent += n;
	/* the capacity doubles up to RETRY_MOST; 0: the request is cut */
	if (n > r->kept.capacity - r->kept.end) {
		request_keep_more(r, at, n);
		return;
	}
	memcpy(r->kept.data + r->kept.end, at, n);
	r->kept.end += n;
}
/* The client has got a part of the answer. */
static inline void request_forwarded(struct request *r)
{
	if (r->repeat == REPEAT_WHOLE || r->repeat == REPEAT_UNSENT)
		r->repeat = REPEAT_ANSWERED;
}
/* pgweir has sent the client a reply of its own, in a walk whose messages are kept at its end. */
static inline void request_replied(struct request *r) { r->repeat = REPEAT_BOUND; }
/* The server of the client has answered all that it got. */
static inline void request_answered(struct client *c)
{
	struct request *r = c->request;

	request_forget(r);
	if (r->begin_is == BEGIN_SENT)
		r->begin_is = BEGIN_ANSWERED;
	r->repeat = server_of(c->pooled.link)->session.dirty ? REPEAT_BOUND : REPEAT_NOTHING;
}
/* A link begins: forgets everything about an earlier link. */
void request_begin_link_again(struct client *client);
static inline void request_begin_link(struct client *c)
{
	const struct request *r = c->request;

	if (r && (r->step | r->begin_is | r->repeat || r->sent > 0))
		request_begin_link_again(c);
}

/* ---- its memory ---- */

void request_free(struct client *client);
/* The record of a handover: see request.c. */
void request_pack(struct bytes *out, const struct client *client);
/* The request as read from a record; false: the record is wrong. It is set when the client has its
   pool and its server. */
struct request_record {
	uint8_t step;
	bool reads_only, is_aborted;
	uint32_t size;
	const uint8_t *begin;
	size_t begin_size;
};
struct request_record request_unpack(struct unpack *in);
/* False: no memory. */
bool request_restore(struct client *client, const struct request_record *record);

#endif
