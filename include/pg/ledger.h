#ifndef PG_LEDGER_H
#define PG_LEDGER_H

#include "pg/message.h"

#include <stddef.h>

/*
 * What a server still owes. Every message that goes to the server is entered,
 * every answer crosses off what it answers, in order. From this one account
 * follow pipelining, errors until Sync, COPY, row-limited portals, and the only
 * question that matters to a pool: may this connection be lent to another client?
 *
 * Rules of the protocol that it knows ("Message Flow"):
 *  - after an error in an extended-protocol message the server skips everything up
 *    to and including the next Sync, Query and FunctionCall too;
 *  - an error while it handles Sync, Query or FunctionCall skips nothing;
 *  - extended messages without a Sync leave the server in an open implicit
 *    transaction although every answer has come: it is not free;
 *  - a Sync (or Flush) that the server reads during COPY IN is ignored; CopyDone and
 *    CopyFail end the COPY; CopyData, CopyDone, CopyFail outside COPY are ignored;
 *  - when a COPY IN fails only the server knows which of the Syncs sent so far it
 *    had read before: each of the others is answered by a ReadyForQuery;
 *  - an answer that nothing asked for is a broken server.
 */
enum ledger_owner {
	OWED_TO_CLIENT,		/* relay the answer */
	OWED_TO_POOLER		/* the pooler asked: swallow the answer */
};

struct ledger_entry {
	uint8_t kind;		/* enum ledger_kind */
	uint8_t plain;		/* the row of pg_answers for ledger_passes: its kind, or LEDGER_NOTHING */
	uint8_t owner : 1;
	uint8_t mark : 7;	/* enum ledger_mark */
	uint8_t count;		/* of equal entries in a row */
};

/* Which feature of the pooler wants to know what becomes of a message. */
enum ledger_mark {
	LEDGER_UNMARKED,
#define LEDGER_MARK(id) MARK_##id,
#include "tbl/ledger_mark.tbl"
#undef LEDGER_MARK
	LEDGER_MARKS
};

struct ledger {
	const uint8_t *plain;	/* row of pg_answers: what the types of answers do to the oldest message; see ledger_passes */
	struct ledger_entry *entries;	/* ring; NULL while the ledger is empty and small */
	uint32_t head, used, capacity;
	struct ledger_entry small[64];	/* where the ring starts out: room for a pipeline of ten in the extended protocol */
	uint32_t depth;		/* answers entered */
	uint64_t counts;	/* of these, the ones that may open a COPY (lower half); that end a batch, and ends of a COPY (upper half) */
	uint8_t stage;		/* enum ledger_stage: how far the answer to the head has come */
	uint8_t answered;	/* a statement of the Query at the head has ended: ReadyForQuery may come; when the account is lost, it has to */
	uint8_t open;		/* extended messages since the last Sync/Query/Call; also when the account is lost */
	uint8_t executed;	/* an Execute is among them */
	uint8_t skipping;	/* the server skips to a Sync that has not been sent yet */
	uint8_t copy_in;	/* the server reads COPY data now */
	uint8_t copy_synced;	/* a Sync was sent into this COPY, and no request since: no batch is open, should it prove to have been read */
	uint8_t lost;		/* what it owes cannot be known any more: relay on, never reuse */
	uint8_t is_particular;	/* skipping, copy_in, lost, copy_syncs, or a ring of its own: nothing goes the short way */
	uint8_t mark;		/* news of the last answer: enum ledger_mark of the message that it ends */
	uint8_t mark_failed;	/* ... with an error of the extended protocol; set with `mark`, but by ledger_passes */
	uint32_t marks_skipped[LEDGER_MARKS];	/* news of the last answer: marked messages behind it that the server passes over, by
						   mark; the first counts all */
	uint32_t copy_syncs;	/* Syncs sent into this COPY IN: ignored, unless it fails first; and after it
				   failed: those of them that may yet be answered. Any other answer settles it */
};

void ledger_init(struct ledger *ledger);
/* Frees the ring and forgets everything. */
void ledger_clear(struct ledger *ledger);
/* Enters a message sent to the server. `type` is a client message type after login; `what` is
   the first body byte of Describe and Close ('S' or 'P'), else ignored. False when there
   is no memory: the connection must be dropped. What has no place in a COPY IN under way leaves the
   ledger lost; from then on everything a server may send at all is LEDGER_ANSWER, the client's. */
bool ledger_sent(struct ledger *ledger, uint8_t type, uint8_t what, enum ledger_owner owner);
/* The same for a Query of the client's. */
bool ledger_sent_query(struct ledger *ledger);
/* True: as ledger_sent, for the client's Parse, Bind, Describe of a portal, Execute or Sync, or as ledger_sent_marked with MARK_PREPARED,
   for its Parse or Bind, in the case that nearly always holds: it has its place in the account, which has room. False: nothing has happened, ask
   these. */
bool ledger_sent_plain(struct ledger *ledger, uint8_t type);
bool ledger_sent_plain_marked(struct ledger *ledger, uint8_t type);
/* The same for a message with a fate that the feature with this mark wants to know: ledger_received tells it in `mark`, `mark_failed`
   and `marks_skipped`, for all messages with that mark in the order in which they were sent. A Query or FunctionCall fails by an
   ErrorResponse of its own, and is ended by its ReadyForQuery all the same. What is sent while the server skips to a Sync, or into a
   COPY IN, is not entered (ledger_enters tells before). */
bool ledger_sent_marked(struct ledger *ledger, uint8_t type, uint8_t what, enum ledger_owner owner, enum ledger_mark mark);
/* The answer to what was entered last wants to be looked at: ledger_passes never takes it. */
void ledger_watch_last(struct ledger *ledger);
/* The invariants, of the short ways too: that they rely on nothing which the account does not say. */
void ledger_check(const struct ledger *ledger);
/* For packed.c: whether an entry is watched; and, when entries (their `plain` says then whether they are watched), stage and flags
   have been written from outside, the end of that: false when no account can be so, and it is to be cleared. */
bool ledger_entry_is_watched(const struct ledger_entry *entry);
bool ledger_restored(struct ledger *ledger);
/* Enters, with MARK_PREPARED, an answer to the client that the pooler gives by itself, in the place of a message that the server need not see.
   An error before it takes it away as it would that message. */
bool ledger_local_reply(struct ledger *ledger);
/* The next answer is such a one: give it, between two messages of the server, and cross it off. */
static inline bool ledger_local_reply_is_due(const struct ledger *ledger);
void ledger_local_reply_sent(struct ledger *ledger);
/* A request sent now would have its place in the account. */
static inline bool ledger_enters(const struct ledger *l)
{
	return !l->is_particular || !(l->skipping | l->copy_in | l->lost);
}
/* Syncs of a COPY that failed may yet be answered, before what is owed. */
static inline bool ledger_may_surprise(const struct ledger *l) { return l->copy_syncs > 0; }
/* Everything that is owed belongs to one batch, begun and not ended by a Sync, so that an error of any of it skips all that follows. */
static inline bool ledger_is_one_batch(const struct ledger *l) { return l->counts >> 32 == 0; }
/* Nothing that may change the session's parameters has been sent since the last ReadyForQuery, in front of which the server reports
   such changes. */
bool ledger_is_up_to_date(const struct ledger *ledger);

enum ledger_verdict {
	LEDGER_ANSWER,		/* fits; *owner says which client's it is */
	LEDGER_ASYNC,		/* NoticeResponse, NotificationResponse, ParameterStatus, or an error that nothing asked for */
	LEDGER_BROKEN		/* the server may not send this here */
};
/* Crosses off what a server message of this type answers. *owner is set with LEDGER_ANSWER
   (and, for LEDGER_ASYNC, to the owner of the oldest open entry, or OWED_TO_CLIENT). */
enum ledger_verdict ledger_received(struct ledger *ledger, uint8_t type, enum ledger_owner *owner);

/* Crosses off the oldest message; for ledger_passes. */
void ledger_cross_off(struct ledger *ledger);
/* True: as ledger_received, in the case that nearly always holds: the answer is the client's, fits, and is no error; `mark` is
   the only news. False: nothing has happened, ask ledger_received. */
static inline bool ledger_passes(struct ledger *l, uint8_t type)
{
	uint8_t effect = l->plain[type];

	if (effect >= LEDGER_CROSSES_OFF) {
		if (effect > LEDGER_CROSSES_OFF && (effect > LEDGER_CROSSES_OFF_ENDED || !l->answered))
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

/* Nothing is owed or may yet come, no batch is open, no COPY is under way, nothing was lost. */
static inline bool ledger_is_empty(const struct ledger *l)
{
	return !l->used && !(l->open | l->is_particular);
}
/* All has been answered that must be, but Syncs of a COPY that failed may yet be: only the answer to a later message tells. */
bool ledger_is_in_doubt(const struct ledger *ledger);
/* True while CopyData, CopyDone or CopyFail of the client can still mean something: a COPY is open,
   or an answer is owed that may open one. False: such messages are leftovers to be dropped. */
bool ledger_may_copy(const struct ledger *ledger);
/* The last answer was to a statement of a Query that has not ended yet. */
bool ledger_is_within_query(const struct ledger *ledger);
/* Of the messages entered, those that may open a COPY. */
static inline uint32_t ledger_copiers(const struct ledger *l) { return (uint32_t)l->counts; }
/* Owner of the answer that comes next; OWED_TO_CLIENT when nothing is owed. */
enum ledger_owner ledger_next_owner(const struct ledger *ledger);
/* Kind of the message that waits for the next answer; LEDGER_NOTHING when nothing is owed. */
enum ledger_kind ledger_next_kind(const struct ledger *ledger);
/* Mark of the message that waits for the next answer. */
enum ledger_mark ledger_next_mark(const struct ledger *ledger);
/* Number of answers owed that are still entered, for limits. */
static inline size_t ledger_depth(const struct ledger *l) { return l->depth; }

static inline bool ledger_local_reply_is_due(const struct ledger *l)
{
	return l->used > 0 && (l->entries ? &l->entries[l->head] : &l->small[l->head])->kind == LEDGER_LOCAL_REPLY;
}

/* The oldest message that waits for an answer is a marked one. */
static inline bool ledger_head_is_marked(const struct ledger *l)
{
	return l->used > 0 && (l->entries ? &l->entries[l->head] : &l->small[l->head])->mark != LEDGER_UNMARKED;
}

#endif
