/*
 * The pending answers of a server ("Message Flow" in the PostgreSQL documentation).
 *
 * The entries are the messages that wait for an answer, in the order in which they were sent. The
 * server answers the head now, and `stage` is the progress of that answer. An answer violates the
 * protocol if it does not fit head and stage. Equal neighbours are one entry with a count: a
 * thousand Syncs are one entry, and nearly every pipeline fits the ring in the struct itself.
 *
 * During COPY IN the server itself reads messages: it ignores a Sync, but answers each Sync after
 * the failure of the COPY. Therefore:
 *
 *  - CopyDone and CopyFail that are sent before CopyInResponse arrives add a marker. When it
 *    arrives, the Syncs before the marker were sent into the COPY. They leave the ledger and are
 *    counted in copy_syncs, as are Syncs that are sent later while the COPY has no end yet
 *    (copy_in).
 *  - When the COPY succeeds, all of them were ignored.
 *  - When the COPY fails, the server may have ignored any number of these Syncs before the failure.
 *    (COPY into a view fails between CopyInResponse and the first read.) Then up to copy_syncs
 *    ReadyForQuery arrive in addition to the entries, and the ledger is not empty until the answer
 *    to a later message shows that the server has read all of these Syncs. It does not matter which
 *    of two ReadyForQuery is the additional one.
 *  - If the uncertainty reaches further, because the server may or may not have skipped later
 *    messages, the ledger is lost.
 *
 * The fast paths handle nearly all traffic. The effect of an answer on the oldest message is a row
 * of pg_answers (include/tbl/message.tbl), and `plain` points to the current row, which
 * ledger_passes() in the header uses. A message is entered at once while the ring is small and no
 * special state holds.
 *
 * Invariants: a marker is never the head, and there is no stage without a head; while `skipping`
 * nothing is entered; depth and counts are the sums over the entries; with copy_in the head is the
 * only entry; a fast path has the same effect as the slow one, and `plain` and `is_particular`
 * follow from the other members (ledger_check).
 */
#include "pg/ledger.h"

#include "base/assert.h"
#include "base/inline.h"
#include "base/mem.h"

#include <string.h>

#define LEDGER_SMALL (sizeof(((struct ledger *)0)->small) / sizeof(struct ledger_entry))

/* The part of one message of each kind in ledger.counts. */
#define COPIER UINT64_C(1)
#define END (UINT64_C(1) << 32)
static const uint64_t weights[LEDGER_NOTHING] = {
	[LEDGER_EXECUTE] = COPIER,
	[LEDGER_QUERY] = COPIER + END,
	[LEDGER_SYNC] = END,
	[LEDGER_CALL] = END,
	[LEDGER_COPY_END] = END,
};

/* ---- the ring ---- */

/* Returns an index of the ring; a capacity is a power of two. */
static inline uint32_t ledger_place(const struct ledger *l, uint32_t index)
{
	return (l->head + index) & (l->capacity - 1);
}

static inline struct ledger_entry *entry_at(struct ledger *l, uint32_t index)
{
	return &(l->entries ? l->entries : l->small)[ledger_place(l, index)];
}

static bool head_is(const struct ledger *l, enum ledger_kind kind)
{
	return l->used && ledger_head(l)->kind == kind;
}

static void take_off(struct ledger *l, const struct ledger_entry *e, uint32_t count)
{
	if (e->kind != LEDGER_COPY_END)
		l->depth -= count;
	l->counts -= count * weights[e->kind];
}

/* Returns the row of pg_answers for the fast path of an entry. */
static uint8_t plain_row(enum ledger_kind kind, enum ledger_owner owner, enum ledger_mark mark)
{
	/* the features of other marks must read the answers */
	bool is_simple = mark == LEDGER_UNMARKED ||
			 (mark == MARK_PREPARED && (kind == LEDGER_PARSE || kind == LEDGER_BIND));

	return owner == OWED_TO_CLIENT && is_simple ? (uint8_t)kind : LEDGER_NOTHING;
}

/* Sets the members that the fast paths use, after any other change. */
static void ledger_aim(struct ledger *l)
{
	l->is_particular = l->entries || l->skipping || l->copy_in || l->lost || l->copy_syncs;
	l->copy_synced &= l->is_particular;	/* which the fast paths do not maintain */
	l->plain = pg_answers[STAGE_BEGIN][LEDGER_NOTHING];
	if (!l->used || l->copy_syncs)
		return;
	/* after the server's half of a CopyBoth (COPY_LAST, then BEGIN), its answer also ends the
	   client's half */
	if ((l->stage == STAGE_BEGIN && !l->copy_in) || l->stage == STAGE_COPY_OUT ||
	    l->stage == STAGE_COPY_BOTH)
		l->plain = pg_answers[l->stage][ledger_head(l)->plain];
}

void ledger_check(const struct ledger *l)
{
	const struct ledger_entry *ring = l->entries ? l->entries : l->small;
	struct ledger aimed = *l;
	uint64_t counts = 0;
	uint32_t depth = 0;

	for (uint32_t i = 0; i < l->used; i++) {
		const struct ledger_entry *e = &ring[ledger_place(l, i)];

		ASSERT(e->count > 0 && (i > 0 || e->kind != LEDGER_COPY_END));
		depth += e->kind == LEDGER_COPY_END ? 0 : e->count;
		counts += e->count * weights[e->kind];
	}
	ASSERT(l->used <= l->capacity && l->depth == depth && l->counts == counts);
	ASSERT(l->used || (l->stage == STAGE_BEGIN && !l->copy_in));
	ASSERT(!l->used || !(l->skipping || l->lost));
	ledger_aim(&aimed);
	ASSERT(l->plain == aimed.plain && l->is_particular == aimed.is_particular);
}

static void forget_entries(struct ledger *l)
{
	mem_free(l->entries);
	l->entries = NULL;
	l->capacity = LEDGER_SMALL;
	l->head = l->used = 0;
	l->depth = 0;
	l->counts = 0;
	l->stage = STAGE_BEGIN;
}

void ledger_clear(struct ledger *l)
{
	mem_free(l->entries);
	memset(l, 0, sizeof(*l));
	l->capacity = LEDGER_SMALL;
	ledger_aim(l);
}

/* The pending answers are unknown from now on. Whether a batch is open depends only on the messages
   sent. */
static void lose(struct ledger *l)
{
	uint8_t open = l->open && !l->copy_synced;

	ledger_clear(l);
	l->lost = 1;
	l->open = l->executed = open;
}

static bool ledger_enter(struct ledger *l, enum ledger_kind kind, enum ledger_owner owner,
			 enum ledger_mark mark)
{
	struct ledger_entry *last = l->used ? entry_at(l, l->used - 1) : NULL, *larger;

	if (l->depth == UINT32_MAX)
		return false;
	if (last && last->kind == kind && last->owner == owner && last->mark == mark &&
	    last->count < UINT8_MAX) {
		last->count++;
	} else {
		if (l->used == l->capacity) {
			larger = l->capacity > UINT32_MAX / 4
					 ? NULL
					 : mem_resize(NULL,
						      2 * (size_t)l->capacity * sizeof(*larger));
			if (!larger)
				return false;
			for (uint32_t i = 0; i < l->used; i++)
				larger[i] = *entry_at(l, i);
			mem_free(l->entries);
			l->entries = larger;
			l->capacity *= 2;
			l->head = 0;
		}
		*entry_at(l, l->used++) = (struct ledger_entry){ (uint8_t)kind,
								 plain_row(kind, owner, mark),
								 owner, mark & 0x7f, 1 };
	}
	if (kind != LEDGER_COPY_END)
		l->depth++;
	l->counts += weights[kind];
	return true;
}

/* Removes the head with its whole count. */
static void drop_head(struct ledger *l)
{
	struct ledger_entry *head = entry_at(l, 0);

	take_off(l, head, head->count);
	l->head = ledger_place(l, 1);
	l->used--;
}

/* The head is answered once. */
static void drop_answered(struct ledger *l)
{
	struct ledger_entry *head = entry_at(l, 0);

	l->stage = STAGE_BEGIN;
	l->answered = 0;
	l->mark = head->mark;
	if (head->count > 1) {
		head->count--;
		take_off(l, head, 1);
		return;
	}
	drop_head(l);
	while (head_is(l, LEDGER_COPY_END))
		drop_head(l);
	if (!l->used)
		forget_entries(l);
}

/* ---- messages sent ---- */

bool ledger_may_copy(const struct ledger *l)
{
	uint32_t past = l->stage == STAGE_ENDED && head_is(l, LEDGER_QUERY);

	/* an entry may begin a COPY */
	return l->lost || l->copy_in || (uint32_t)l->counts > past;
}

/* The server handles the message separately: enters it after all entries. */
static bool sent_request(struct ledger *l, enum ledger_kind kind, enum ledger_owner owner,
			 enum ledger_mark mark)
{
	if (l->copy_in || (l->skipping && l->copy_syncs)) {
		/* the COPY fails on the message and may read it; or the server skips the message,
		   unless it has read a Sync of the failed COPY */
		lose(l);
		l->open = l->executed = kind != LEDGER_QUERY && kind != LEDGER_CALL;
		return true;
	}
	if (l->skipping)
		return true;
	if (!ledger_enter(l, kind, owner, mark))
		return false;
	l->open = kind != LEDGER_QUERY && kind != LEDGER_CALL;
	l->executed = l->open && (l->executed || kind == LEDGER_EXECUTE);
	l->copy_synced = 0;
	return true;
}

bool ledger_sent_marked(struct ledger *l, uint8_t type, uint8_t what, enum ledger_owner owner,
			enum ledger_mark mark)
{
	const struct pg_client_message *row = &pg_client_messages[type];
	enum ledger_kind kind = row->name ? (enum ledger_kind)row->owes : LEDGER_NOTHING;
	bool entered = true;

	if (l->lost) {
		/* nothing is entered any more */
		if (row->owes <= LEDGER_CLOSE)
			l->open = l->executed = 1;
		else if (row->owes <= LEDGER_CALL)
			l->open = l->executed = 0;
	} else if (kind == LEDGER_SYNC) {
		if (!l->copy_in) {
			entered = ledger_enter(l, LEDGER_SYNC, owner, mark);
			if (entered)
				l->open = l->executed = l->skipping = 0;
		} else {
			l->copy_syncs += l->copy_syncs < UINT32_MAX;
			l->copy_synced = 1;
		}
	} else if (kind == LEDGER_COPY_END) {
		if (l->copy_in)
			l->copy_in = 0;
		else if (ledger_may_copy(l))
			entered = ledger_enter(l, LEDGER_COPY_END, OWED_TO_CLIENT, LEDGER_UNMARKED);
	} else if (kind != LEDGER_NOTHING) {
		entered = sent_request(l,
				       kind == LEDGER_DESCRIBE && what == PG_OF_STATEMENT
					       ? LEDGER_DESCRIBE_STATEMENT
					       : kind,
				       owner, mark);
	}
	ledger_aim(l);
	return entered;
}

bool ledger_local_reply(struct ledger *l)
{
	bool entered = l->lost ||
		       sent_request(l, LEDGER_LOCAL_REPLY, OWED_TO_CLIENT, MARK_PREPARED);

	ledger_aim(l);
	return entered;
}

/* ---- messages sent: the fast path ---- */

bool ledger_sent_query(struct ledger *l)
{
	if (!ledger_is_empty(l))
		return ledger_sent(l, PGC_QUERY, 0, OWED_TO_CLIENT);
	/* usually no other answer is pending */
	l->small[0] = (struct ledger_entry){ LEDGER_QUERY, LEDGER_QUERY, OWED_TO_CLIENT,
					     LEDGER_UNMARKED, 1 };
	l->head = 0;
	l->used = 1;
	l->depth = 1;
	l->counts = COPIER + END;
	l->plain = pg_answers[STAGE_BEGIN][LEDGER_QUERY];
	return true;
}

static ALWAYS_INLINE bool sent_plain(struct ledger *l, const struct ledger_entry *e)
{
	const struct ledger_entry *last = &l->small[(l->head + l->used - 1) % LEDGER_SMALL];

	if (l->is_particular || l->used == LEDGER_SMALL)
		return false;
	if (l->used == 0)
		l->plain = pg_answers[STAGE_BEGIN][e->plain];
	else if (last->plain == e->plain && last->mark == e->mark)
		return false;	/* one entry with a count */
	l->small[(l->head + l->used) % LEDGER_SMALL] = *e;
	l->used++;
	l->depth++;
	l->counts += weights[e->kind];
	l->open = e->kind != LEDGER_SYNC;
	l->executed = (l->executed | (e->kind == LEDGER_EXECUTE)) & (e->kind != LEDGER_SYNC);
	return true;
}

bool ledger_sent_plain(struct ledger *l, uint8_t type)
{
	/* a count of 0: not for the fast path */
#define CLIENT_MESSAGE(id, byte, name, phases, look, owes, taken_by, unread) \
	[byte] = { LEDGER_##owes, LEDGER_##owes, OWED_TO_CLIENT, LEDGER_UNMARKED, \
		   UNREAD_##unread != UNREAD_NEVER && LEDGER_##owes <= LEDGER_SYNC },
#define SERVER_MESSAGE(id, byte, name, phases, whole, taken_by)
#define ANSWER(id, to, at, does)
	static const struct ledger_entry entries[256] = {
#include "tbl/message.tbl"
	};

	return entries[type].count && sent_plain(l, &entries[type]);
}

bool ledger_sent_plain_marked(struct ledger *l, uint8_t type)
{
	static const struct ledger_entry parse = { LEDGER_PARSE, LEDGER_PARSE, OWED_TO_CLIENT,
						   MARK_PREPARED, 1 };
	static const struct ledger_entry bind = { LEDGER_BIND, LEDGER_BIND, OWED_TO_CLIENT,
						  MARK_PREPARED, 1 };

	return (type == PGC_PARSE || type == PGC_BIND) &&
	       sent_plain(l, type == PGC_PARSE ? &parse : &bind);
}

/* ---- messages received ---- */

/* The server skips messages of this entry. */
static void ledger_skip(struct ledger *l, const struct ledger_entry *e, uint32_t count)
{
	if (!e->mark)
		return;
	l->marks_skipped[LEDGER_UNMARKED] += count;
	l->marks_skipped[e->mark] += count;
}

/* The server begins to read COPY data, and ignores the Syncs between this statement and the end of
   the COPY that have been sent. (The COPY fails on any other message in between.) */
static void copy_in_begins(struct ledger *l, enum ledger_stage stage)
{
	struct ledger_entry head = *entry_at(l, 0);
	uint32_t gone = 0;
	bool ended = false;

	while (gone + 1 < l->used && entry_at(l, gone + 1)->kind == LEDGER_SYNC) {
		struct ledger_entry *syncs = entry_at(l, ++gone);

		ledger_skip(l, syncs, syncs->count);
		take_off(l, syncs, syncs->count);
		l->copy_syncs += syncs->count;
	}
	if (gone + 1 < l->used) {
		struct ledger_entry *marker = entry_at(l, gone + 1);

		ended = marker->kind == LEDGER_COPY_END;
		if (ended) {
			take_off(l, marker, 1);
			gone += --marker->count == 0;
		}
	}
	if (head.count > 1 || (gone + 1 < l->used && !ended)) {
		lose(l);
		return;
	}
	*entry_at(l, gone) = head;
	l->head = ledger_place(l, gone);
	l->used -= gone;
	l->stage = (uint8_t)stage;
	l->copy_in = !ended;
	/* the server ignores the Sync, so the batch of the Execute is still open */
	if (head.kind == LEDGER_EXECUTE && l->copy_syncs &&
	    (l->used == 1 || (l->used == 2 && entry_at(l, 1)->kind == LEDGER_COPY_END)))
		l->open = l->executed = 1;
}

static enum ledger_verdict received_error(struct ledger *l)
{
	const struct ledger_entry *head;
	bool in_doubt, lost;

	if (!l->used) {
		/* the server skips to the Sync, too, if a batch fails between two messages */
		if (l->open)
			l->skipping = 1;
		return LEDGER_ASYNC;
	}
	head = entry_at(l, 0);
	if (head->kind == LEDGER_SYNC || l->stage == STAGE_ENDED)
		return LEDGER_ANSWER;
	if (l->stage != STAGE_COPY_IN && l->stage != STAGE_COPY_BOTH)
		l->copy_syncs = 0;
	if (head->kind == LEDGER_QUERY || head->kind == LEDGER_CALL) {
		l->stage = STAGE_ENDED;
		l->copy_in = 0;
		return LEDGER_ANSWER;
	}
	/* an extended message has failed: the server skips to the next Sync */
	in_doubt = l->copy_syncs != 0;
	lost = in_doubt && head->count > 1;
	l->mark = head->mark;
	l->mark_failed = head->mark != LEDGER_UNMARKED;
	ledger_skip(l, head, head->count - 1u);
	drop_head(l);
	while (l->used && !head_is(l, LEDGER_SYNC)) {
		head = entry_at(l, 0);
		lost = lost || (in_doubt && head->kind != LEDGER_COPY_END);
		ledger_skip(l, head, head->count);
		drop_head(l);
	}
	l->stage = STAGE_BEGIN;
	l->copy_in = 0;
	if (lost) {
		lose(l);
	} else if (!l->used) {
		forget_entries(l);
		l->skipping = 1;
	}
	return LEDGER_ANSWER;
}

static void advance(struct ledger *l, enum ledger_effect effect)
{
	switch (effect) {
	case LEDGER_DOES_NOT_FIT:
	case LEDGER_STAYS: break;
	case LEDGER_ENDS_STATEMENT:
	case LEDGER_ENDS_COPY:
		l->copy_in = 0;
		l->stage = STAGE_BEGIN;
		if (head_is(l, LEDGER_EXECUTE))
			drop_answered(l);
		else
			l->answered = 1;
		break;
	case LEDGER_CROSSES_OFF:
	case LEDGER_CROSSES_OFF_ENDED:
		l->copy_in = 0;
		drop_answered(l);
		break;
	case LEDGER_BEGINS_TYPES: l->stage = STAGE_TYPES; break;
	case LEDGER_BEGINS_COPY_IN: copy_in_begins(l, STAGE_COPY_IN); break;
	case LEDGER_BEGINS_COPY_OUT: l->stage = STAGE_COPY_OUT; break;
	case LEDGER_BEGINS_COPY_BOTH: copy_in_begins(l, STAGE_COPY_BOTH); break;
	/* the client's half of CopyBoth, copy_in, ends separately */
	case LEDGER_BEGINS_COPY_LAST: l->stage = STAGE_COPY_LAST; break;
	case LEDGER_ENDS_COPY_DATA: l->stage = STAGE_BEGIN; break;
	case LEDGER_ENDS_CALL: l->stage = STAGE_ENDED; break;
	}
}

static enum ledger_verdict received(struct ledger *l, uint8_t type)
{
	const struct pg_server_message *row = pg_server_message(type, PG_SESSION);
	enum ledger_effect effect;

	l->mark = LEDGER_UNMARKED;
	l->mark_failed = 0;
	memset(l->marks_skipped, 0, sizeof(l->marks_skipped));
	if (!row)
		return LEDGER_BROKEN;
	if (row->taken_by == TAKEN_AS_ASYNC)
		return LEDGER_ASYNC;
	if (l->lost) {
		l->answered = row->taken_by != TAKEN_AS_READY;
		return LEDGER_ANSWER;
	}
	if (row->taken_by == TAKEN_AS_ERROR)
		return received_error(l);
	effect = l->used ? (enum ledger_effect)pg_answers[l->stage][ledger_head(l)->kind][type]
			 : LEDGER_DOES_NOT_FIT;
	if (effect == LEDGER_CROSSES_OFF_ENDED && !l->answered)
		effect = LEDGER_DOES_NOT_FIT;
	if (effect != LEDGER_DOES_NOT_FIT) {
		/* either the COPY has succeeded, or a later message is answered: no Sync of a COPY
		   is uncertain */
		if (row->taken_by != TAKEN_AS_READY)
			l->copy_syncs = 0;
		advance(l, effect);
		return LEDGER_ANSWER;
	}
	if (row->taken_by != TAKEN_AS_READY || !l->copy_syncs || l->stage != STAGE_BEGIN)
		return LEDGER_BROKEN;
	/* the server has read a Sync of the COPY after the failure */
	l->copy_syncs--;
	if (l->skipping)
		l->open = l->executed = l->skipping = 0;
	return LEDGER_ANSWER;
}

enum ledger_verdict ledger_received(struct ledger *l, uint8_t type, enum ledger_owner *owner)
{
	enum ledger_verdict verdict;

	*owner = l->used ? (enum ledger_owner)ledger_head(l)->owner : OWED_TO_CLIENT;
	verdict = received(l, type);
	ledger_aim(l);
	return verdict;
}

void ledger_cross_off(struct ledger *l)
{
	if (!l->is_particular) {
		uint32_t after = (l->head + 1) % LEDGER_SMALL;
		const struct ledger_entry *head = &l->small[l->head], *next = &l->small[after];

		/* usually one of several entries, with a count of 1, and without a marker after
		   it */
		if (head->count == 1 && !(l->used > 1 && next->kind == LEDGER_COPY_END)) {
			l->mark = head->mark;
			l->answered = 0;
			l->depth--;
			l->counts -= weights[head->kind];
			l->head = --l->used ? after : 0;
			l->plain = pg_answers[STAGE_BEGIN][l->used ? next->plain : LEDGER_NOTHING];
			return;
		}
	}
	drop_answered(l);
	ledger_aim(l);
}

void ledger_watch_last(struct ledger *l)
{
	if (l->used)
		entry_at(l, l->used - 1)->plain = LEDGER_NOTHING;
	ledger_aim(l);
}

/* ---- handover ---- */

#define ENTRY_PACKED 5			/* bytes */

void ledger_pack(struct bytes *out, const struct ledger *l)
{
	const struct ledger_entry *ring = l->entries ? l->entries : l->small;

	bytes_append_u32(out, l->used);
	for (uint32_t i = 0; i < l->used; i++) {
		const struct ledger_entry *e = &ring[ledger_place(l, i)];

		bytes_append_u8(out, e->kind);
		bytes_append_u8(out, e->owner);
		bytes_append_u8(out, e->mark);
		pack_bool(out, e->plain != plain_row((enum ledger_kind)e->kind,
						     (enum ledger_owner)e->owner,
						     (enum ledger_mark)e->mark));
		bytes_append_u8(out, e->count);
	}
	bytes_append_u32(out, l->depth);
	bytes_append_u32(out, (uint32_t)l->counts);
	bytes_append_u32(out, l->copy_syncs);
	bytes_append_u8(out, l->stage);
	pack_bool(out, l->answered);
	pack_bool(out, l->open);
	pack_bool(out, l->executed);
	pack_bool(out, l->skipping);
	pack_bool(out, l->copy_in);
	pack_bool(out, l->copy_synced);
	pack_bool(out, l->lost);
}

/* Whether the answer to this head can have the stage of the ledger. */
static bool stage_fits(const struct ledger *l, const struct ledger_entry *head)
{
	if (!head)
		return l->stage == STAGE_BEGIN && (l->lost || !l->answered);
	if (l->answered && head->kind != LEDGER_QUERY)
		return false;
	switch ((enum ledger_stage)l->stage) {
	case STAGE_BEGIN: return head->kind != LEDGER_COPY_END;
	case STAGE_TYPES: return head->kind == LEDGER_DESCRIBE_STATEMENT;
	case STAGE_COPY_IN:
	case STAGE_COPY_OUT:
	case STAGE_COPY_BOTH:
	case STAGE_COPY_LAST: return head->kind == LEDGER_EXECUTE || head->kind == LEDGER_QUERY;
	case STAGE_ENDED: return head->kind == LEDGER_QUERY || head->kind == LEDGER_CALL;
	case STAGES: break;
	}
	return false;
}

bool ledger_unpack(struct unpack *in, struct ledger *l)
{
	uint32_t used = unpack_count(in, ENTRY_PACKED), capacity = LEDGER_SMALL;
	uint64_t depth = 0, counts = 0;
	struct ledger_entry *ring;

	while (capacity < used)
		capacity *= 2;
	if (capacity > LEDGER_SMALL && !(l->entries = mem_try(capacity * sizeof(*l->entries)))) {
		in->bad = true;
		return false;
	}
	l->capacity = capacity;
	l->used = used;
	ring = l->entries ? l->entries : l->small;
	for (uint32_t i = 0; i < used; i++) {
		struct ledger_entry *e = &ring[i];
		uint8_t mark;
		bool is_watched;

		e->kind = unpack_u8(in);
		e->owner = unpack_bool(in);
		mark = unpack_u8(in);
		e->mark = mark & 0x7f;
		is_watched = unpack_bool(in);
		e->count = unpack_u8(in);
		in->bad |= e->kind > LEDGER_LOCAL_REPLY || mark >= LEDGER_MARKS || e->count == 0;
		if (in->bad)
			break;
		e->plain = is_watched ? LEDGER_NOTHING
				      : plain_row((enum ledger_kind)e->kind,
						  (enum ledger_owner)e->owner,
						  (enum ledger_mark)e->mark);
		depth += e->kind == LEDGER_COPY_END ? 0 : e->count;
		counts += e->count * weights[e->kind];
	}
	l->depth = unpack_u32(in);
	/* the upper half follows from the entries */
	in->bad |= unpack_u32(in) != (uint32_t)counts;
	l->counts = counts;
	l->copy_syncs = unpack_u32(in);
	l->stage = unpack_u8(in);
	l->answered = unpack_bool(in);
	l->open = unpack_bool(in);
	l->executed = unpack_bool(in);
	l->skipping = unpack_bool(in);
	l->copy_in = unpack_bool(in);
	l->copy_synced = unpack_bool(in);
	l->lost = unpack_bool(in);
	in->bad = in->bad || depth != l->depth || !stage_fits(l, l->used ? ledger_head(l) : NULL) ||
		  (l->lost && l->used) || (l->copy_in && (depth != 1 || (uint32_t)l->counts != 1));
	if (in->bad)
		ledger_clear(l);
	else
		ledger_aim(l);
	return !in->bad;
}
