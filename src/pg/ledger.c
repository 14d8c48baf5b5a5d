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
 * skipping means that nothing is entered; depth and copiers are the sums over
 * the entries; copy_in means that the head is alone.
 */
#include "pg/ledger.h"

#include "base/inline.h"
#include "base/mem.h"
#include "pg/message.h"

#include <string.h>

#define SMALL (sizeof(((struct ledger *)0)->small) / sizeof(struct ledger_entry))

enum kind {
	PARSE, BIND, DESCRIBE, DESCRIBE_STATEMENT, EXECUTE, CLOSE,
	SYNC, QUERY, CALL,
	COPY_END,		/* the marker; no answer belongs to it */
	PROMISE = LEDGER_PROMISE	/* answered by the pooler, in its turn */
};

enum stage {
	STAGE_BEGIN,		/* also: between the statements of a Query */
	STAGE_TYPES,		/* ParameterDescription has come, RowDescription or NoData has not */
	STAGE_COPY_IN,
	STAGE_COPY_OUT,
	STAGE_COPY_BOTH,
	STAGE_ENDED		/* Query, FunctionCall: only ReadyForQuery has not come */
};

/* ---- what needs no thought ---- */

enum { NOTHING_PLAIN = PROMISE + 1, MARKED_PARSE, MARKED_BIND, PLAIN_COPY_OUT, PLAIN_ROWS };

static const uint8_t plain_rows[PLAIN_ROWS][256] = {
	[PARSE] = { ['1'] = LEDGER_CROSSES_OFF },
	[BIND] = { ['2'] = LEDGER_CROSSES_OFF },
	[DESCRIBE] = { ['T'] = LEDGER_CROSSES_OFF, ['n'] = LEDGER_CROSSES_OFF },
	[EXECUTE] = { ['D'] = LEDGER_STAYS, ['C'] = LEDGER_CROSSES_OFF, ['I'] = LEDGER_CROSSES_OFF, ['s'] = LEDGER_CROSSES_OFF },
	[CLOSE] = { ['3'] = LEDGER_CROSSES_OFF },
	[SYNC] = { ['Z'] = LEDGER_CROSSES_OFF },
	[QUERY] = { ['T'] = LEDGER_STAYS, ['D'] = LEDGER_STAYS, ['C'] = LEDGER_ENDS_STATEMENT, ['I'] = LEDGER_ENDS_STATEMENT,
		    ['Z'] = LEDGER_CROSSES_OFF_ENDED },
	[MARKED_PARSE] = { ['1'] = LEDGER_CROSSES_OFF },
	[MARKED_BIND] = { ['2'] = LEDGER_CROSSES_OFF },
	[PLAIN_COPY_OUT] = { ['d'] = LEDGER_STAYS },
};

static uint8_t plain_row_of(enum kind kind, enum ledger_owner owner, bool marked)
{
	if (owner != OWED_TO_CLIENT)
		return NOTHING_PLAIN;
	if (!marked)
		return (uint8_t)kind;
	return kind == PARSE ? MARKED_PARSE : kind == BIND ? MARKED_BIND : NOTHING_PLAIN;
}

/* ---- the ring ---- */

/* A capacity is a power of two. */
static uint32_t place_of(const struct ledger *l, uint32_t index)
{
	return (l->head + index) & (l->capacity - 1);
}

static struct ledger_entry *entry_at(struct ledger *l, uint32_t index)
{
	return &(l->entries ? l->entries : l->small)[place_of(l, index)];
}

static const struct ledger_entry *head_of(const struct ledger *l)
{
	return l->entries ? &l->entries[l->head] : &l->small[l->head];
}

static bool head_is(const struct ledger *l, enum kind kind)
{
	return l->used && head_of(l)->kind == kind;
}

/* To be called when anything has changed that the short ways rely on. */
static void aim(struct ledger *l)
{
	uint8_t row = NOTHING_PLAIN;

	l->is_particular = l->entries || l->skipping || l->copy_in || l->lost || l->copy_syncs;
	if (l->used && !l->copy_syncs) {
		if (l->stage == STAGE_BEGIN)
			row = head_of(l)->plain;
		else if (l->stage == STAGE_COPY_OUT && head_of(l)->plain != NOTHING_PLAIN)
			row = PLAIN_COPY_OUT;
	}
	l->plain = plain_rows[row];
}

static bool may_copy(uint8_t kind)
{
	return kind == EXECUTE || kind == QUERY;
}

static void take_off(struct ledger *l, const struct ledger_entry *e, uint32_t count)
{
	if (e->kind != COPY_END)
		l->depth -= count;
	if (may_copy(e->kind))
		l->copiers -= count;
}

static void forget_entries(struct ledger *l)
{
	mem_free(l->entries);
	l->entries = NULL;
	l->capacity = SMALL;
	l->head = l->used = 0;
	l->depth = l->copiers = 0;
	l->stage = STAGE_BEGIN;
}

void ledger_init(struct ledger *l)
{
	memset(l, 0, sizeof(*l));
	l->capacity = SMALL;
	l->plain = plain_rows[NOTHING_PLAIN];
}

void ledger_clear(struct ledger *l)
{
	mem_free(l->entries);
	ledger_init(l);
}

/* Nobody can say any more what the server owes. */
static void lose(struct ledger *l)
{
	ledger_clear(l);
	l->lost = 1;
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
		larger[i] = *entry_at(l, i);
	mem_free(l->entries);
	l->entries = larger;
	l->capacity *= 2;
	l->head = 0;
	return true;
}

static bool enter(struct ledger *l, enum kind kind, enum ledger_owner owner, bool marked)
{
	struct ledger_entry *last = l->used ? entry_at(l, l->used - 1) : NULL;

	if (l->depth == UINT32_MAX)
		return false;
	if (last && last->kind == kind && last->owner == owner && last->marked == marked && last->count < UINT8_MAX) {
		last->count++;
	} else {
		if (l->used == l->capacity && !grow(l))
			return false;
		*entry_at(l, l->used++) = (struct ledger_entry){ (uint8_t)kind, plain_row_of(kind, owner, marked), owner, marked, 1 };
	}
	if (kind != COPY_END)
		l->depth++;
	if (may_copy((uint8_t)kind))
		l->copiers++;
	return true;
}

/* Removes the head, and all that was counted together with it. */
static void drop_head(struct ledger *l)
{
	struct ledger_entry *head = entry_at(l, 0);

	take_off(l, head, head->count);
	l->head = place_of(l, 1);
	l->used--;
}

/* The head is answered. */
static void cross_off(struct ledger *l)
{
	struct ledger_entry *head = entry_at(l, 0);

	l->stage = STAGE_BEGIN;
	l->answered = 0;
	l->mark = head->marked;
	if (head->count > 1) {
		head->count--;
		take_off(l, head, 1);
		return;
	}
	drop_head(l);
	while (head_is(l, COPY_END))
		drop_head(l);
	if (!l->used)
		forget_entries(l);
}

/* One of several small ones, with no marker behind it, as it mostly is. */
static ALWAYS_INLINE bool cross_off_plain(struct ledger *l)
{
	uint32_t after = (l->head + 1) % SMALL;
	const struct ledger_entry *head = &l->small[l->head], *next = &l->small[after];

	if (head->count > 1 || (l->used > 1 && next->kind == COPY_END))
		return false;
	l->mark = head->marked;
	l->answered = 0;
	l->depth--;
	l->copiers -= may_copy(head->kind);
	l->head = --l->used ? after : 0;
	l->plain = plain_rows[l->used ? next->plain : NOTHING_PLAIN];
	return true;
}

void ledger_cross_off(struct ledger *l)
{
	if (!l->is_particular && cross_off_plain(l))
		return;
	cross_off(l);
	aim(l);
}

/* ---- what is sent ---- */

/* A message that the server will handle on its own, after all that is entered. */
static bool sent_request(struct ledger *l, enum kind kind, enum ledger_owner owner, bool marked)
{
	if (l->copy_in || (l->skipping && l->copy_syncs)) {
		/* The COPY breaks on it and may swallow it; or it is skipped or not, as
		   a Sync of the failed COPY has been read or not. */
		lose(l);
		return true;
	}
	if (l->skipping)
		return true;
	if (!enter(l, kind, owner, marked))
		return false;
	l->open = kind != QUERY && kind != CALL;
	return true;
}

static bool sent_sync(struct ledger *l, enum ledger_owner owner)
{
	if (l->copy_in) {
		if (l->copy_syncs < UINT32_MAX)
			l->copy_syncs++;
		return true;
	}
	if (!enter(l, SYNC, owner, false))
		return false;
	l->open = 0;
	l->skipping = 0;
	return true;
}

static bool sent_copy_end(struct ledger *l)
{
	if (l->copy_in) {
		l->copy_in = 0;
		return true;
	}
	return !ledger_may_copy(l) || enter(l, COPY_END, OWED_TO_CLIENT, false);
}

static bool sent_as(struct ledger *l, uint8_t type, uint8_t what, enum ledger_owner owner, bool marked)
{
	switch (type) {
	case 'P': return sent_request(l, PARSE, owner, marked);
	case 'B': return sent_request(l, BIND, owner, marked);
	case 'D': return sent_request(l, what == 'S' ? DESCRIBE_STATEMENT : DESCRIBE, owner, marked);
	case 'E': return sent_request(l, EXECUTE, owner, marked);
	case 'C': return sent_request(l, CLOSE, owner, marked);
	case 'Q': return sent_request(l, QUERY, owner, marked);
	case 'F': return sent_request(l, CALL, owner, marked);
	case 'S': return sent_sync(l, owner);
	case 'c':
	case 'f': return sent_copy_end(l);
	default: return true;	/* Flush, CopyData, Terminate: no answer is theirs */
	}
}

static bool sent(struct ledger *l, uint8_t type, uint8_t what, enum ledger_owner owner, bool marked)
{
	bool entered = l->lost || sent_as(l, type, what, owner, marked);

	aim(l);
	return entered;
}

bool ledger_sent(struct ledger *l, uint8_t type, uint8_t what, enum ledger_owner owner)
{
	return sent(l, type, what, owner, false);
}

bool ledger_sent_query(struct ledger *l)
{
	if (!ledger_is_empty(l))
		return sent(l, 'Q', 0, OWED_TO_CLIENT, false);
	/* mostly nothing else is owed */
	l->small[0] = (struct ledger_entry){ QUERY, QUERY, OWED_TO_CLIENT, false, 1 };
	l->head = 0;
	l->used = 1;
	l->depth = l->copiers = 1;
	l->plain = plain_rows[QUERY];
	return true;
}

static ALWAYS_INLINE bool sent_plain(struct ledger *l, const struct ledger_entry *e)
{
	if (l->is_particular || l->used == SMALL)
		return false;
	if (l->used == 0)
		l->plain = plain_rows[e->plain];
	else if (l->small[(l->head + l->used - 1) % SMALL].plain == e->plain)
		return false;
	l->small[(l->head + l->used) % SMALL] = *e;
	l->used++;
	l->depth++;
	l->copiers += e->kind == EXECUTE;
	l->open = e->kind != SYNC;
	return true;
}

bool ledger_sent_plain(struct ledger *l, uint8_t type)
{
	static const struct ledger_entry entries[256] = {
		['P'] = { PARSE, PARSE, OWED_TO_CLIENT, false, 1 },
		['B'] = { BIND, BIND, OWED_TO_CLIENT, false, 1 },
		['D'] = { DESCRIBE, DESCRIBE, OWED_TO_CLIENT, false, 1 },
		['E'] = { EXECUTE, EXECUTE, OWED_TO_CLIENT, false, 1 },
		['S'] = { SYNC, SYNC, OWED_TO_CLIENT, false, 1 },
	};

	return entries[type].count && sent_plain(l, &entries[type]);
}

bool ledger_sent_plain_marked(struct ledger *l, uint8_t type)
{
	static const struct ledger_entry parse = { PARSE, MARKED_PARSE, OWED_TO_CLIENT, true, 1 };
	static const struct ledger_entry bind = { BIND, MARKED_BIND, OWED_TO_CLIENT, true, 1 };

	return (type == 'P' || type == 'B') && sent_plain(l, type == 'P' ? &parse : &bind);
}

bool ledger_sent_marked(struct ledger *l, uint8_t type, uint8_t what, enum ledger_owner owner)
{
	return sent(l, type, what, owner, true);
}

void ledger_watch_last(struct ledger *l)
{
	if (l->used)
		entry_at(l, l->used - 1)->plain = NOTHING_PLAIN;
	aim(l);
}

bool ledger_entry_is_watched(const struct ledger_entry *e)
{
	return e->plain != plain_row_of((enum kind)e->kind, (enum ledger_owner)e->owner, e->marked);
}

void ledger_restored(struct ledger *l)
{
	for (uint32_t i = 0; i < l->used; i++) {
		struct ledger_entry *e = entry_at(l, i);

		e->plain = e->plain ? NOTHING_PLAIN : plain_row_of((enum kind)e->kind, (enum ledger_owner)e->owner, e->marked);
	}
	aim(l);
}

bool ledger_promise(struct ledger *l)
{
	bool entered = l->lost || sent_request(l, PROMISE, OWED_TO_CLIENT, true);

	aim(l);
	return entered;
}

/* ---- what is received ---- */

/*
 * The server begins to read COPY data: it will ignore the Syncs between this
 * statement and the end of the COPY, as far as they have been sent. (If
 * anything else has been sent in between, the COPY breaks on it.)
 */
static void copy_in_begins(struct ledger *l, enum stage stage)
{
	struct ledger_entry head = *entry_at(l, 0);
	uint32_t gone = 0;
	bool ended = false;

	while (gone + 1 < l->used && entry_at(l, gone + 1)->kind == SYNC) {
		struct ledger_entry *syncs = entry_at(l, ++gone);

		take_off(l, syncs, syncs->count);
		l->copy_syncs += syncs->count;
	}
	if (gone + 1 < l->used) {
		struct ledger_entry *marker = entry_at(l, gone + 1);

		ended = marker->kind == COPY_END;
		if (ended && --marker->count == 0)
			gone++;
	}
	if (head.count > 1 || (gone + 1 < l->used && !ended)) {
		lose(l);
		return;
	}
	*entry_at(l, gone) = head;
	l->head = place_of(l, gone);
	l->used -= gone;
	l->stage = (uint8_t)stage;
	l->copy_in = !ended;
	/* With its Sync ignored, the batch that Execute belongs to is still open. */
	if (head.kind == EXECUTE && l->copy_syncs && (l->used == 1 || (l->used == 2 && entry_at(l, 1)->kind == COPY_END)))
		l->open = 1;
}

static void statement_ends(struct ledger *l)
{
	l->copy_in = 0;
	l->stage = STAGE_BEGIN;
	if (head_is(l, EXECUTE))
		cross_off(l);
	else
		l->answered = 1;
}

/* The head, an extended message, has failed: the server skips to the next Sync. */
static void skip_to_sync(struct ledger *l)
{
	const struct ledger_entry *head = entry_at(l, 0);
	bool in_doubt = l->copy_syncs != 0, lost = in_doubt && head->count > 1;

	if (head->marked) {
		l->mark = LEDGER_MARK_FAILED;
		l->marks_skipped = head->count - 1;
	}
	drop_head(l);
	while (l->used && !head_is(l, SYNC)) {
		head = entry_at(l, 0);
		lost = lost || (in_doubt && !head_is(l, COPY_END));
		l->marks_skipped += head->marked ? head->count : 0;
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
	if (head_is(l, SYNC) || l->stage == STAGE_ENDED)
		return LEDGER_ANSWER;
	if (l->stage != STAGE_COPY_IN && l->stage != STAGE_COPY_BOTH)
		l->copy_syncs = 0;
	if (head_is(l, QUERY) || head_is(l, CALL)) {
		l->stage = STAGE_ENDED;
		l->copy_in = 0;
	} else {
		skip_to_sync(l);
	}
	return LEDGER_ANSWER;
}

static enum ledger_verdict received_ready(struct ledger *l)
{
	bool ended = l->stage == STAGE_ENDED;

	if (head_is(l, SYNC) || ended || (head_is(l, QUERY) && l->stage == STAGE_BEGIN && l->answered)) {
		cross_off(l);
		return LEDGER_ANSWER;
	}
	if (!l->copy_syncs || l->stage != STAGE_BEGIN)
		return LEDGER_BROKEN;
	/* A Sync sent into the COPY that failed was read after the failure. */
	l->copy_syncs--;
	if (l->skipping)
		l->open = l->skipping = 0;
	return LEDGER_ANSWER;
}

/* True when a message of this type, neither error nor ReadyForQuery, may come now. */
static bool fits(struct ledger *l, uint8_t type)
{
	uint8_t kind = head_of(l)->kind;
	bool begin = l->stage == STAGE_BEGIN;

	switch (type) {
	case '1': return kind == PARSE;
	case '2': return kind == BIND;
	case '3': return kind == CLOSE;
	case 't': return kind == DESCRIBE_STATEMENT && begin;
	case 'n': return kind == DESCRIBE || l->stage == STAGE_TYPES;
	case 'T': return kind == DESCRIBE || l->stage == STAGE_TYPES || (kind == QUERY && begin);
	case 's': return kind == EXECUTE && begin;
	case 'C': return may_copy(kind) && l->stage != STAGE_ENDED;
	case 'D':
	case 'I':
	case 'G':
	case 'H':
	case 'W': return may_copy(kind) && begin;
	case 'c':
	case 'd': return l->stage == STAGE_COPY_OUT || l->stage == STAGE_COPY_BOTH;
	case 'V': return kind == CALL && begin;
	default: return false;
	}
}

static void advance(struct ledger *l, uint8_t type)
{
	switch (type) {
	case '1':
	case '2':
	case '3':
	case 'n': cross_off(l); break;
	case 'T':
		if (!head_is(l, QUERY))
			cross_off(l);
		break;
	case 't': l->stage = STAGE_TYPES; break;
	case 'C':
	case 'I':
	case 's': statement_ends(l); break;
	case 'G': copy_in_begins(l, STAGE_COPY_IN); break;
	case 'W': copy_in_begins(l, STAGE_COPY_BOTH); break;
	case 'H': l->stage = STAGE_COPY_OUT; break;
	case 'c': l->stage = STAGE_BEGIN; break;	/* after CopyBoth the client's half, copy_in, ends on its own */
	case 'V': l->stage = STAGE_ENDED; break;
	default: break;
	}
}

static enum ledger_verdict received(struct ledger *l, uint8_t type)
{
	l->mark = LEDGER_UNMARKED;
	l->marks_skipped = 0;
	if (type == 'N' || type == 'A' || type == 'S')
		return LEDGER_ASYNC;
	if (l->lost)
		return pg_server_message(type) ? LEDGER_ANSWER : LEDGER_BROKEN;
	if (type == 'E')
		return received_error(l);
	if (type == 'Z')
		return received_ready(l);
	if (!l->used || !fits(l, type))
		return LEDGER_BROKEN;
	/* Either the COPY went well, or a later message is answered: no Sync of a COPY is in doubt. */
	l->copy_syncs = 0;
	advance(l, type);
	return LEDGER_ANSWER;
}

enum ledger_verdict ledger_received(struct ledger *l, uint8_t type, enum ledger_owner *owner)
{
	enum ledger_verdict verdict;

	*owner = ledger_next_owner(l);
	verdict = received(l, type);
	aim(l);
	return verdict;
}

void ledger_promise_kept(struct ledger *l)
{
	ledger_cross_off(l);
	l->mark = LEDGER_UNMARKED;
}

/* ---- questions ---- */

bool ledger_is_one_batch(const struct ledger *l)
{
	struct ledger *look = (struct ledger *)(uintptr_t)l;

	for (uint32_t i = 0; i < l->used; i++) {
		uint8_t kind = entry_at(look, i)->kind;

		if (kind == SYNC || kind == QUERY || kind == CALL || kind == COPY_END)
			return false;
	}
	return true;
}

bool ledger_is_in_doubt(const struct ledger *l)
{
	return !l->used && !l->open && !l->skipping && !l->copy_in && !l->lost && l->copy_syncs;
}

bool ledger_may_copy(const struct ledger *l)
{
	uint32_t past = l->stage == STAGE_ENDED && head_is(l, QUERY);

	return l->lost || l->copy_in || l->copiers > past;
}

enum ledger_owner ledger_next_owner(const struct ledger *l)
{
	return l->used ? (enum ledger_owner)head_of(l)->owner : OWED_TO_CLIENT;
}