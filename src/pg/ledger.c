/*
 * What a server still owes ("Message Flow" in the PostgreSQL documentation).
 *
 * The entries are the messages that wait for an answer, in the order in which
 * they were sent; the head is the one the server answers now, and `stage` is
 * how far that answer has come. An answer that does not fit head and stage is
 * a broken server. Equal neighbours are counted and not repeated, so that a
 * thousand Syncs are one entry, and nearly every pipeline fits the eight entries
 * that lie in the struct itself.
 *
 * COPY IN is where an account of sent messages and the truth part ways, because the
 * server reads these messages itself. A Sync among them is ignored and owes
 * nothing; one that is read after the COPY has failed is answered. So:
 *
 *  - CopyDone and CopyFail leave a marker, and when CopyInResponse comes,
 *    the Syncs in front of the marker were sent into the COPY. They leave the
 *    ledger and are counted in copy_syncs, as are those that follow while no
 *    marker has been sent (copy_in).
 *  - When the COPY ends well, all of them were ignored.
 *  - When it fails, any number of them may have been read before. (COPY into a
 *    view fails between CopyInResponse and the first read.) Then up to copy_syncs
 *    ReadyForQuery come more than the entries explain, and the ledger is not
 *    empty until an answer to a later message shows that the server is past them.
 *    Which of two ReadyForQuery is the surplus one need not be known.
 *  - Where the doubt would reach further than that - what followed may have been
 *    skipped or not - the account is closed: lost.
 *
 * Invariants: a marker is never at the head, nor is there a stage without a head;
 * skipping means that nothing is entered; depth and counts are the sums over
 * the entries; copy_in means that the head is alone.
 */
#include "pg/ledger_ring.h"

#include "base/mem.h"

#include <string.h>

/* ---- the ring ---- */

static bool head_is(const struct ledger *l, enum ledger_kind kind)
{
	return l->used && ledger_head(l)->kind == kind;
}

static void take_off(struct ledger *l, const struct ledger_entry *e, uint32_t count)
{
	if (e->kind != LEDGER_COPY_END)
		l->depth -= count;
	l->counts -= count * ledger_weights[e->kind];
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

void ledger_init(struct ledger *l)
{
	memset(l, 0, sizeof(*l));
	l->capacity = LEDGER_SMALL;
	ledger_aim(l);
}

void ledger_clear(struct ledger *l)
{
	mem_free(l->entries);
	ledger_init(l);
}

/* What the server owes is not known any more. Whether a batch is open follows from what was sent alone. */
static void lose(struct ledger *l)
{
	uint8_t open = l->open && !l->copy_synced;

	ledger_clear(l);
	l->lost = 1;
	l->open = l->executed = open;
}

static bool grow(struct ledger *l)
{
	struct ledger_entry *larger;

	if (l->capacity > UINT32_MAX / 4)
		return false;
	larger = mem_resize(NULL, 2 * (size_t)l->capacity * sizeof(*larger));
	if (!larger)
		return false;
	for (uint32_t i = 0; i < l->used; i++)
		larger[i] = *ledger_entry_at(l, i);
	mem_free(l->entries);
	l->entries = larger;
	l->capacity *= 2;
	l->head = 0;
	return true;
}

static bool enter(struct ledger *l, enum ledger_kind kind, enum ledger_owner owner, enum ledger_mark mark)
{
	struct ledger_entry *last = l->used ? ledger_entry_at(l, l->used - 1) : NULL;

	if (l->depth == UINT32_MAX)
		return false;
	if (last && last->kind == kind && last->owner == owner && last->mark == mark && last->count < UINT8_MAX) {
		last->count++;
	} else {
		if (l->used == l->capacity && !grow(l))
			return false;
		*ledger_entry_at(l, l->used++) = (struct ledger_entry){ (uint8_t)kind, ledger_plain_row(kind, owner, mark), owner, mark & 0x7f, 1 };
	}
	if (kind != LEDGER_COPY_END)
		l->depth++;
	l->counts += ledger_weights[kind];
	return true;
}

/* Removes the head, and all that was counted together with it. */
static void drop_head(struct ledger *l)
{
	struct ledger_entry *head = ledger_entry_at(l, 0);

	take_off(l, head, head->count);
	l->head = ledger_place(l, 1);
	l->used--;
}

void ledger_drop_answered(struct ledger *l)
{
	struct ledger_entry *head = ledger_entry_at(l, 0);

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

/* ---- what is sent ---- */

/* A message that the server will handle on its own, after all that is entered. */
static bool sent_request(struct ledger *l, enum ledger_kind kind, enum ledger_owner owner, enum ledger_mark mark)
{
	if (l->copy_in || (l->skipping && l->copy_syncs)) {
		/* The COPY breaks on it and may swallow it; or it is skipped or not, as
		   a Sync of the failed COPY has been read or not. */
		lose(l);
		l->open = l->executed = kind != LEDGER_QUERY && kind != LEDGER_CALL;
		return true;
	}
	if (l->skipping)
		return true;
	if (!enter(l, kind, owner, mark))
		return false;
	l->open = kind != LEDGER_QUERY && kind != LEDGER_CALL;
	l->executed = l->open && (l->executed || kind == LEDGER_EXECUTE);
	l->copy_synced = 0;
	return true;
}

static bool sent_sync(struct ledger *l, enum ledger_owner owner, enum ledger_mark mark)
{
	if (l->copy_in) {
		if (l->copy_syncs < UINT32_MAX)
			l->copy_syncs++;
		l->copy_synced = 1;
		return true;
	}
	if (!enter(l, LEDGER_SYNC, owner, mark))
		return false;
	l->open = l->executed = 0;
	l->skipping = 0;
	return true;
}

static bool sent_copy_end(struct ledger *l)
{
	if (l->copy_in) {
		l->copy_in = 0;
		return true;
	}
	return !ledger_may_copy(l) || enter(l, LEDGER_COPY_END, OWED_TO_CLIENT, LEDGER_UNMARKED);
}

static bool sent_as(struct ledger *l, const struct pg_client_message *row, uint8_t what, enum ledger_owner owner, enum ledger_mark mark)
{
	enum ledger_kind kind = row->name ? (enum ledger_kind)row->owes : LEDGER_NOTHING;

	switch (kind) {
	case LEDGER_SYNC: return sent_sync(l, owner, mark);
	case LEDGER_COPY_END: return sent_copy_end(l);
	case LEDGER_NOTHING: return true;
	default: break;
	}
	return sent_request(l, kind == LEDGER_DESCRIBE && what == PG_OF_STATEMENT ? LEDGER_DESCRIBE_STATEMENT : kind, owner, mark);
}

/* Nothing is entered any more. */
static bool sent_lost(struct ledger *l, const struct pg_client_message *row)
{
	if (row->owes <= LEDGER_CLOSE)
		l->open = l->executed = 1;
	else if (row->owes <= LEDGER_CALL)
		l->open = l->executed = 0;
	return true;
}

static bool sent(struct ledger *l, uint8_t type, uint8_t what, enum ledger_owner owner, enum ledger_mark mark)
{
	const struct pg_client_message *row = &pg_client_messages[type];
	bool entered = l->lost ? sent_lost(l, row) : sent_as(l, row, what, owner, mark);

	ledger_aim(l);
	return entered;
}

bool ledger_sent(struct ledger *l, uint8_t type, uint8_t what, enum ledger_owner owner)
{
	return sent(l, type, what, owner, LEDGER_UNMARKED);
}

bool ledger_sent_marked(struct ledger *l, uint8_t type, uint8_t what, enum ledger_owner owner, enum ledger_mark mark)
{
	return sent(l, type, what, owner, mark);
}

bool ledger_local_reply(struct ledger *l)
{
	bool entered = l->lost || sent_request(l, LEDGER_LOCAL_REPLY, OWED_TO_CLIENT, MARK_PREPARED);

	ledger_aim(l);
	return entered;
}

/* ---- what is received ---- */

/* Messages of this entry are passed over. */
static void skip(struct ledger *l, const struct ledger_entry *e, uint32_t count)
{
	if (!e->mark)
		return;
	l->marks_skipped[LEDGER_UNMARKED] += count;
	l->marks_skipped[e->mark] += count;
}

/*
 * The server begins to read COPY data: it will ignore the Syncs between this
 * statement and the end of the COPY, as far as they have been sent. (If
 * anything else has been sent in between, the COPY breaks on it.)
 */
static void copy_in_begins(struct ledger *l, enum ledger_stage stage)
{
	struct ledger_entry head = *ledger_entry_at(l, 0);
	uint32_t gone = 0;
	bool ended = false;

	while (gone + 1 < l->used && ledger_entry_at(l, gone + 1)->kind == LEDGER_SYNC) {
		struct ledger_entry *syncs = ledger_entry_at(l, ++gone);

		skip(l, syncs, syncs->count);
		take_off(l, syncs, syncs->count);
		l->copy_syncs += syncs->count;
	}
	if (gone + 1 < l->used) {
		struct ledger_entry *marker = ledger_entry_at(l, gone + 1);

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
	*ledger_entry_at(l, gone) = head;
	l->head = ledger_place(l, gone);
	l->used -= gone;
	l->stage = (uint8_t)stage;
	l->copy_in = !ended;
	/* With its Sync ignored, the batch that Execute belongs to is still open. */
	if (head.kind == LEDGER_EXECUTE && l->copy_syncs && (l->used == 1 || (l->used == 2 && ledger_entry_at(l, 1)->kind == LEDGER_COPY_END)))
		l->open = l->executed = 1;
}

static void statement_ends(struct ledger *l)
{
	l->copy_in = 0;
	l->stage = STAGE_BEGIN;
	if (head_is(l, LEDGER_EXECUTE))
		ledger_drop_answered(l);
	else
		l->answered = 1;
}

/* The head, an extended message, has failed: the server skips to the next Sync. */
static void skip_to_sync(struct ledger *l)
{
	const struct ledger_entry *head = ledger_entry_at(l, 0);
	bool in_doubt = l->copy_syncs != 0, lost = in_doubt && head->count > 1;

	l->mark = head->mark;
	l->mark_failed = head->mark != LEDGER_UNMARKED;
	skip(l, head, head->count - 1u);
	drop_head(l);
	while (l->used && !head_is(l, LEDGER_SYNC)) {
		head = ledger_entry_at(l, 0);
		lost = lost || (in_doubt && !head_is(l, LEDGER_COPY_END));
		skip(l, head, head->count);
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
}

static enum ledger_verdict received_error(struct ledger *l)
{
	if (!l->used) {
		/* A batch that fails between two messages is skipped to its Sync all the same. */
		if (l->open)
			l->skipping = 1;
		return LEDGER_ASYNC;
	}
	if (head_is(l, LEDGER_SYNC) || l->stage == STAGE_ENDED)
		return LEDGER_ANSWER;
	if (l->stage != STAGE_COPY_IN && l->stage != STAGE_COPY_BOTH)
		l->copy_syncs = 0;
	if (head_is(l, LEDGER_QUERY) || head_is(l, LEDGER_CALL)) {
		l->stage = STAGE_ENDED;
		l->copy_in = 0;
	} else {
		skip_to_sync(l);
	}
	return LEDGER_ANSWER;
}

/* What this answer does to the oldest entry. */
static enum ledger_effect effect_of(const struct ledger *l, uint8_t type)
{
	enum ledger_effect effect;

	if (!l->used)
		return LEDGER_DOES_NOT_FIT;
	effect = (enum ledger_effect)pg_answers[l->stage][ledger_head(l)->kind][type];
	return effect == LEDGER_CROSSES_OFF_ENDED && !l->answered ? LEDGER_DOES_NOT_FIT : effect;
}

static void advance(struct ledger *l, enum ledger_effect effect)
{
	switch (effect) {
	case LEDGER_DOES_NOT_FIT:
	case LEDGER_STAYS: break;
	case LEDGER_ENDS_STATEMENT:
	case LEDGER_ENDS_COPY: statement_ends(l); break;
	case LEDGER_CROSSES_OFF:
	case LEDGER_CROSSES_OFF_ENDED:
		l->copy_in = 0;
		ledger_drop_answered(l);
		break;
	case LEDGER_BEGINS_TYPES: l->stage = STAGE_TYPES; break;
	case LEDGER_BEGINS_COPY_IN: copy_in_begins(l, STAGE_COPY_IN); break;
	case LEDGER_BEGINS_COPY_OUT: l->stage = STAGE_COPY_OUT; break;
	case LEDGER_BEGINS_COPY_BOTH: copy_in_begins(l, STAGE_COPY_BOTH); break;
	case LEDGER_ENDS_COPY_DATA: l->stage = STAGE_BEGIN; break;	/* after CopyBoth the client's half, copy_in, ends on its own */
	case LEDGER_ENDS_CALL: l->stage = STAGE_ENDED; break;
	}
}

static enum ledger_verdict received_ready(struct ledger *l)
{
	enum ledger_effect effect = effect_of(l, PGS_READY);

	if (effect != LEDGER_DOES_NOT_FIT) {
		advance(l, effect);
		return LEDGER_ANSWER;
	}
	if (!l->copy_syncs || l->stage != STAGE_BEGIN)
		return LEDGER_BROKEN;
	/* A Sync sent into the COPY that failed was read after the failure. */
	l->copy_syncs--;
	if (l->skipping)
		l->open = l->executed = l->skipping = 0;
	return LEDGER_ANSWER;
}

static enum ledger_verdict received_answer(struct ledger *l, uint8_t type)
{
	enum ledger_effect effect = effect_of(l, type);

	if (effect == LEDGER_DOES_NOT_FIT)
		return LEDGER_BROKEN;
	/* Either the COPY went well, or a later message is answered: no Sync of a COPY is in doubt. */
	l->copy_syncs = 0;
	advance(l, effect);
	return LEDGER_ANSWER;
}

static enum ledger_verdict received(struct ledger *l, uint8_t type)
{
	const struct pg_server_message *row = pg_server_message(type, PG_SESSION);

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
	switch ((enum pg_server_taker)row->taken_by) {
	case TAKEN_AS_ERROR: return received_error(l);
	case TAKEN_AS_READY: return received_ready(l);
	default: return received_answer(l, type);
	}
}

enum ledger_verdict ledger_received(struct ledger *l, uint8_t type, enum ledger_owner *owner)
{
	enum ledger_verdict verdict;

	*owner = ledger_next_owner(l);
	verdict = received(l, type);
	ledger_aim(l);
	return verdict;
}

void ledger_local_reply_sent(struct ledger *l)
{
	ledger_cross_off(l);
	l->mark = LEDGER_UNMARKED;
}

/* ---- questions ---- */

bool ledger_is_up_to_date(const struct ledger *l)
{
	return !l->executed && !l->copy_syncs && ledger_is_one_batch(l);
}

bool ledger_is_in_doubt(const struct ledger *l)
{
	return !l->used && !l->open && !l->skipping && !l->copy_in && !l->lost && l->copy_syncs;
}

bool ledger_may_copy(const struct ledger *l)
{
	uint32_t past = l->stage == STAGE_ENDED && head_is(l, LEDGER_QUERY);

	return l->lost || l->copy_in || ledger_copiers(l) > past;
}

enum ledger_owner ledger_next_owner(const struct ledger *l)
{
	return l->used ? (enum ledger_owner)ledger_head(l)->owner : OWED_TO_CLIENT;
}

enum ledger_kind ledger_next_kind(const struct ledger *l)
{
	return l->used ? (enum ledger_kind)ledger_head(l)->kind : LEDGER_NOTHING;
}

enum ledger_mark ledger_next_mark(const struct ledger *l)
{
	return l->used ? (enum ledger_mark)ledger_head(l)->mark : LEDGER_UNMARKED;
}
