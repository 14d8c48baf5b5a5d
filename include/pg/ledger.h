#ifndef PG_LEDGER_H
#define PG_LEDGER_H

#include "base/bytes.h"
#include "pg/message.h"

#include <stddef.h>

/*
 * The pending answers of a server. Each message to the server is entered, and each answer crosses
 * off the oldest message. The ledger covers pipelines, errors until Sync, COPY and row-limited
 * portals, and says when a server can be assigned to another client.
 *
 * Rules of the protocol ("Message Flow"):
 *  - after an error in an extended-protocol message the server skips all messages up to the next
 *    Sync, Query and FunctionCall included;
 *  - an error while the server handles Sync, Query or FunctionCall skips nothing;
 *  - extended messages without a Sync leave the server in an open implicit transaction after the
 *    last answer: the server is not free;
 *  - a Sync or Flush that the server reads during COPY IN is ignored; CopyDone and CopyFail end the
 *    COPY; CopyData, CopyDone and CopyFail outside of a COPY are ignored;
 *  - when a COPY IN fails, only the server knows which of the Syncs sent so far it had read before:
 *    each of the others is answered by a ReadyForQuery;
 *  - an answer without a message is a protocol violation of the server.
 */
enum ledger_owner {
	OWED_TO_CLIENT,		/* forward the answer */
	OWED_TO_POOLER		/* the message was sent by pgweir: consume the answer */
};

struct ledger_entry {
	uint8_t kind;		/* enum ledger_kind */
	/* the row of pg_answers for ledger_passes(): the kind, or LEDGER_NOTHING */
	uint8_t plain;
	uint8_t owner : 1;
	uint8_t mark : 7;	/* enum ledger_mark */
	uint8_t count;		/* of equal neighbours */
};

/* The feature of pgweir that gets the result of a message. */
enum ledger_mark {
	LEDGER_UNMARKED,
#define LEDGER_MARK(id) MARK_##id,
#include "tbl/ledger_mark.tbl"
#undef LEDGER_MARK
	LEDGER_MARKS
};

struct ledger {
	/* the row of pg_answers with the effects of answers on the oldest message: see
	   ledger_passes() */
	const uint8_t *plain;
	struct ledger_entry *entries;	/* a ring in memory of its own; NULL: `small` is the ring */
	uint32_t head, used, capacity;
	struct ledger_entry small[64];	/* room for a pipeline of ten in the extended protocol */
	uint32_t depth;		/* answers entered */
	/* of these, the messages that may begin a COPY (lower half); the messages that end a batch,
	   and ends of a COPY (upper half) */
	uint64_t counts;
	uint8_t stage;		/* enum ledger_stage: the progress of the answer to the head */
	/* a statement of the Query at the head has ended: ReadyForQuery may follow; if `lost`:
	   ReadyForQuery must follow */
	uint8_t answered;
	/* extended messages since the last Sync, Query or FunctionCall; also if `lost` */
	uint8_t open;
	uint8_t executed;	/* an Execute is among them */
	uint8_t skipping;	/* the server skips to a Sync, which has not been sent yet */
	/* the server reads COPY data now, and no CopyDone or CopyFail has been sent */
	uint8_t copy_in;
	/* a Sync was sent into this COPY, and no request since: if the server reads the Sync, no
	   batch is open */
	uint8_t copy_synced;
	/* the pending answers are unknown: forward all answers, and never reuse the server */
	uint8_t lost;
	/* skipping, copy_in, lost, copy_syncs, or a ring in memory of its own: no fast path */
	uint8_t is_particular;
	/* result of the last answer: enum ledger_mark of the message that it ends */
	uint8_t mark;
	/* ... by an error of the extended protocol; set with `mark`, but not by ledger_passes() */
	uint8_t mark_failed;
	/* result of the last answer: later messages with each mark that the server skips; the first
	   element counts all */
	uint32_t marks_skipped[LEDGER_MARKS];
	/* Syncs sent into this COPY IN, which are ignored unless the COPY fails first; after a
	   failure: Syncs that may still be answered, until any other answer arrives */
	uint32_t copy_syncs;
};

/* Returns the oldest entry; there must be one. */
static inline const struct ledger_entry *ledger_head(const struct ledger *l)
{
	return l->entries ? &l->entries[l->head] : &l->small[l->head];
}

/* Frees the ring and removes all entries; also makes a zeroed ledger ready. */
void ledger_clear(struct ledger *ledger);

/* Enters a message to the server, a client message type after login. `what` is the first body byte
   of Describe and Close ('S' or 'P'), else ignored. False: no memory, and the connection must be
   closed. A message makes the ledger lost if it is illegal in the COPY IN in progress, for example
   a Query; then each message that a server may send is LEDGER_ANSWER for the client, except for
   those of LEDGER_ASYNC. With a mark, ledger_received() reports the result in `mark`, `mark_failed`
   and `marks_skipped` for all messages with the mark in the order in which they were sent. A Query
   or FunctionCall fails with an ErrorResponse, and still ends with its ReadyForQuery. A message is
   not entered while the server skips to a Sync, or reads a COPY IN (see ledger_enters()). */
bool ledger_sent_marked(struct ledger *ledger, uint8_t type, uint8_t what, enum ledger_owner owner,
			enum ledger_mark mark);
static inline bool ledger_sent(struct ledger *l, uint8_t type, uint8_t what,
			       enum ledger_owner owner)
{
	return ledger_sent_marked(l, type, what, owner, LEDGER_UNMARKED);
}
/* Enters a Query of the client, without a mark. False: no memory. */
bool ledger_sent_query(struct ledger *ledger);
/* The fast path of ledger_sent() for the client's Parse, Bind, Describe of a portal, Execute or
   Sync, and of ledger_sent_marked() with MARK_PREPARED for the client's Parse or Bind. False:
   nothing has changed, call those functions. */
bool ledger_sent_plain(struct ledger *ledger, uint8_t type);
bool ledger_sent_plain_marked(struct ledger *ledger, uint8_t type);
/* The answer to the last entry must be read: ledger_passes() never takes it. */
void ledger_watch_last(struct ledger *ledger);
/* Asserts the invariants. */
void ledger_check(const struct ledger *ledger);
/* Enters, with MARK_PREPARED, a message for which the client gets a reply of pgweir: the server
   does not get it. An earlier error skips the entry as it would skip the message. */
bool ledger_local_reply(struct ledger *ledger);
/* Whether the oldest entry is a local reply, which is due now because all answers before it have
   been sent. */
static inline bool ledger_local_reply_is_due(const struct ledger *l)
{
	return l->used > 0 && ledger_head(l)->kind == LEDGER_LOCAL_REPLY;
}
/* Whether the newest entry is a local reply, so that the server owes no answer after it. The ledger
   is not empty. */
static inline bool ledger_local_reply_is_last(const struct ledger *l)
{
	uint32_t last = l->head + l->used - 1;

	return (l->entries ? l->entries[last % l->capacity]
			   : l->small[last % (sizeof(l->small) / sizeof(l->small[0]))])
		       .kind == LEDGER_LOCAL_REPLY;
}
/* Whether a request sent now is entered. */
static inline bool ledger_enters(const struct ledger *l)
{
	return !l->is_particular || !(l->skipping | l->copy_in | l->lost);
}

enum ledger_verdict {
	LEDGER_ANSWER,		/* fits; *owner is set */
	/* NoticeResponse, NotificationResponse, ParameterStatus, or an error while no message is
	   pending */
	LEDGER_ASYNC,
	LEDGER_BROKEN		/* the server may not send the message now */
};
/* Crosses off the message that a server message of this type answers. *owner is the owner of the
   oldest entry, or OWED_TO_CLIENT if there is no entry. */
enum ledger_verdict ledger_received(struct ledger *ledger, uint8_t type, enum ledger_owner *owner);

/* Crosses off the oldest message; for ledger_passes() and ledger_local_reply_sent(). */
void ledger_cross_off(struct ledger *ledger);
/* Crosses off the local reply, which is sent between two messages of the server. */
static inline void ledger_local_reply_sent(struct ledger *l)
{
	ledger_cross_off(l);
	l->mark = LEDGER_UNMARKED;
}
/* The fast path of ledger_received(): true if the answer fits, belongs to the client, and is not an
   error; `mark` is the only result. False: nothing has changed, call ledger_received(). */
static inline bool ledger_passes(struct ledger *l, uint8_t type)
{
	uint8_t effect = l->plain[type];

	if (effect >= LEDGER_CROSSES_OFF) {
		if (effect > LEDGER_CROSSES_OFF &&
		    (effect > LEDGER_CROSSES_OFF_ENDED || !l->answered))
			return false;
		ledger_cross_off(l);
		return true;
	}
	if (effect == LEDGER_DOES_NOT_FIT)
		return false;
	l->mark = LEDGER_UNMARKED;
	if (effect == LEDGER_ENDS_STATEMENT)
		l->answered = 1;
	return true;
}

/* Whether no answer is pending or possible, no batch is open, no COPY is in progress, and the
   ledger is not lost: only then can the server go to another client. */
static inline bool ledger_is_empty(const struct ledger *l)
{
	return !l->used && !(l->open | l->is_particular);
}
/* Whether all entries are answered, but Syncs of a failed COPY may still be answered: only the
   answer to a later message shows it. */
static inline bool ledger_is_in_doubt(const struct ledger *l)
{
	return !l->used && !l->open && !l->skipping && !l->copy_in && !l->lost && l->copy_syncs;
}
/* Whether Syncs of a failed COPY may still be answered, before the entries. */
static inline bool ledger_may_surprise(const struct ledger *l) { return l->copy_syncs > 0; }
/* Whether all entries belong to one batch without a Sync yet, so that an error of one skips all
   later ones. */
static inline bool ledger_is_one_batch(const struct ledger *l) { return l->counts >> 32 == 0; }
/* Whether no message that may change parameters has been sent since the last ReadyForQuery. The
   server reports changes before ReadyForQuery, so the known parameters are the present ones. */
static inline bool ledger_is_up_to_date(const struct ledger *l)
{
	return !l->executed && !l->copy_syncs && ledger_is_one_batch(l);
}
/* Whether CopyData, CopyDone or CopyFail of the client may be legal, because a COPY is in progress,
   or an entry may begin one. False: such a message is late, and is dropped. */
bool ledger_may_copy(const struct ledger *ledger);
/* Whether the last answer was to a statement of a Query, and the Query has not ended yet. */
static inline bool ledger_is_within_query(const struct ledger *l)
{
	return l->answered && l->used > 0 && ledger_head(l)->kind == LEDGER_QUERY;
}
/* The kind of the oldest entry, or LEDGER_NOTHING; its mark, or LEDGER_UNMARKED. */
static inline enum ledger_kind ledger_next_kind(const struct ledger *l)
{
	return l->used ? (enum ledger_kind)ledger_head(l)->kind : LEDGER_NOTHING;
}
static inline enum ledger_mark ledger_next_mark(const struct ledger *l)
{
	return l->used ? (enum ledger_mark)ledger_head(l)->mark : LEDGER_UNMARKED;
}
/* Whether the oldest message is a Query of the client, and ledger_passes() may take its answer. */
static inline bool ledger_answers_query(const struct ledger *l)
{
	return l->plain == pg_answers[STAGE_BEGIN][LEDGER_QUERY];
}
/* The number of pending answers, for limits. */
static inline size_t ledger_depth(const struct ledger *l) { return l->depth; }
void ledger_pack(struct bytes *out, const struct ledger *ledger);
/* Unpacks into a ledger after ledger_clear(). False: in->bad, or no memory; the ledger is then
   empty. */
bool ledger_unpack(struct unpack *in, struct ledger *ledger);

#endif
