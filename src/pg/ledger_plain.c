/*
 * The short ways of the ledger: what nearly all traffic is, and needs no thought.
 *
 * What the type of an answer does to the oldest message is a row of a table (pg_answers, of include/tbl/message.tbl), and `plain` points
 * to the row that holds now; ledger_passes, in the header, does what it says there. What is sent is entered at once while the account is
 * small and nothing is particular about it.
 *
 * Invariants: the short ways never do what those of ledger.c would not do; `plain` and `is_particular` say nothing that the rest of
 * the account does not say (ledger_check).
 */
#include "pg/ledger_ring.h"

#include "base/assert.h"
#include "base/inline.h"

const uint64_t ledger_weights[LEDGER_NOTHING] = {
	[LEDGER_EXECUTE] = LEDGER_COPIER,
	[LEDGER_QUERY] = LEDGER_COPIER + LEDGER_END,
	[LEDGER_SYNC] = LEDGER_END,
	[LEDGER_CALL] = LEDGER_END,
	[LEDGER_COPY_END] = LEDGER_END,
};

uint8_t ledger_plain_row(enum ledger_kind kind, enum ledger_owner owner, enum ledger_mark mark)
{
	/* the answers to other marked messages have more to say than that they have come */
	bool says_all = mark == LEDGER_UNMARKED || (mark == MARK_PREPARED && (kind == LEDGER_PARSE || kind == LEDGER_BIND));

	return owner == OWED_TO_CLIENT && says_all ? (uint8_t)kind : LEDGER_NOTHING;
}

void ledger_aim(struct ledger *l)
{
	l->is_particular = l->entries || l->skipping || l->copy_in || l->lost || l->copy_syncs;
	l->copy_synced &= l->is_particular;	/* the short ways don't look after it */
	l->plain = pg_answers[STAGE_BEGIN][LEDGER_NOTHING];
	if (!l->used || l->copy_syncs)
		return;
	/* behind the server's half of a CopyBoth its answer ends the client's half as well */
	if ((l->stage == STAGE_BEGIN && !l->copy_in) || l->stage == STAGE_COPY_OUT || l->stage == STAGE_COPY_BOTH)
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
		counts += e->count * ledger_weights[e->kind];
	}
	ASSERT(l->used <= l->capacity && l->depth == depth && l->counts == counts);
	ASSERT(l->used || (l->stage == STAGE_BEGIN && !l->copy_in));
	ASSERT(!l->used || !(l->skipping || l->lost));
	ledger_aim(&aimed);
	ASSERT(l->plain == aimed.plain && l->is_particular == aimed.is_particular);
}

/* One of several small ones, with no marker behind it, as it mostly is. */
static ALWAYS_INLINE bool cross_off_plain(struct ledger *l)
{
	uint32_t after = (l->head + 1) % LEDGER_SMALL;
	const struct ledger_entry *head = &l->small[l->head], *next = &l->small[after];

	if (head->count > 1 || (l->used > 1 && next->kind == LEDGER_COPY_END))
		return false;
	l->mark = head->mark;
	l->answered = 0;
	l->depth--;
	l->counts -= ledger_weights[head->kind];
	l->head = --l->used ? after : 0;
	l->plain = pg_answers[STAGE_BEGIN][l->used ? next->plain : LEDGER_NOTHING];
	return true;
}

void ledger_cross_off(struct ledger *l)
{
	if (!l->is_particular && cross_off_plain(l))
		return;
	ledger_drop_answered(l);
	ledger_aim(l);
}

bool ledger_sent_query(struct ledger *l)
{
	if (!ledger_is_empty(l))
		return ledger_sent(l, PGC_QUERY, 0, OWED_TO_CLIENT);
	/* mostly nothing else is owed */
	l->small[0] = (struct ledger_entry){ LEDGER_QUERY, LEDGER_QUERY, OWED_TO_CLIENT, LEDGER_UNMARKED, 1 };
	l->head = 0;
	l->used = 1;
	l->depth = 1;
	l->counts = LEDGER_COPIER + LEDGER_END;
	l->plain = pg_answers[STAGE_BEGIN][LEDGER_QUERY];
	return true;
}

/* Both would be counted together. */
static ALWAYS_INLINE bool is_like(const struct ledger_entry *a, const struct ledger_entry *b)
{
	return a->plain == b->plain && a->mark == b->mark;
}

static ALWAYS_INLINE bool sent_plain(struct ledger *l, const struct ledger_entry *e)
{
	if (l->is_particular || l->used == LEDGER_SMALL)
		return false;
	if (l->used == 0)
		l->plain = pg_answers[STAGE_BEGIN][e->plain];
	else if (is_like(&l->small[(l->head + l->used - 1) % LEDGER_SMALL], e))
		return false;
	l->small[(l->head + l->used) % LEDGER_SMALL] = *e;
	l->used++;
	l->depth++;
	l->counts += ledger_weights[e->kind];
	l->open = e->kind != LEDGER_SYNC;
	l->executed = (l->executed | (e->kind == LEDGER_EXECUTE)) & (e->kind != LEDGER_SYNC);
	return true;
}

bool ledger_sent_plain(struct ledger *l, uint8_t type)
{
	/* count 0: it is not plain */
#define CLIENT_MESSAGE(id, byte, name, phases, look, owes, taken_by, unread) [byte] = { LEDGER_##owes, LEDGER_##owes, OWED_TO_CLIENT, \
	LEDGER_UNMARKED, UNREAD_##unread != UNREAD_NEVER && LEDGER_##owes <= LEDGER_SYNC },
#define SERVER_MESSAGE(id, byte, name, phases, whole, taken_by)
#define ANSWER(id, to, at, does)
	static const struct ledger_entry entries[256] = {
#include "tbl/message.tbl"
	};

	return entries[type].count && sent_plain(l, &entries[type]);
}

bool ledger_sent_plain_marked(struct ledger *l, uint8_t type)
{
	static const struct ledger_entry parse = { LEDGER_PARSE, LEDGER_PARSE, OWED_TO_CLIENT, MARK_PREPARED, 1 };
	static const struct ledger_entry bind = { LEDGER_BIND, LEDGER_BIND, OWED_TO_CLIENT, MARK_PREPARED, 1 };

	return (type == PGC_PARSE || type == PGC_BIND) && sent_plain(l, type == PGC_PARSE ? &parse : &bind);
}

bool ledger_is_within_query(const struct ledger *l)
{
	return l->answered && l->used > 0 && ledger_head(l)->kind == LEDGER_QUERY;
}

void ledger_watch_last(struct ledger *l)
{
	if (l->used)
		ledger_entry_at(l, l->used - 1)->plain = LEDGER_NOTHING;
	ledger_aim(l);
}

bool ledger_entry_is_watched(const struct ledger_entry *e)
{
	return e->plain != ledger_plain_row((enum ledger_kind)e->kind, (enum ledger_owner)e->owner, (enum ledger_mark)e->mark);
}

/* The answer to the head can have come so far. */
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
	case STAGE_COPY_BOTH: return ledger_may_open_copy(head->kind);
	case STAGE_ENDED: return head->kind == LEDGER_QUERY || head->kind == LEDGER_CALL;
	case STAGES: break;
	}
	return false;
}

bool ledger_restored(struct ledger *l)
{
	uint64_t depth = 0, counts = 0;

	for (uint32_t i = 0; i < l->used; i++) {
		struct ledger_entry *e = ledger_entry_at(l, i);

		e->plain = e->plain ? LEDGER_NOTHING : ledger_plain_row((enum ledger_kind)e->kind, (enum ledger_owner)e->owner, (enum ledger_mark)e->mark);
		depth += e->kind == LEDGER_COPY_END ? 0 : e->count;
		counts += e->count * ledger_weights[e->kind];
	}
	if (depth != l->depth || (uint32_t)counts != l->counts || !stage_fits(l, l->used ? ledger_entry_at(l, 0) : NULL) ||
	    (l->lost && l->used) || (l->copy_in && (depth != 1 || (uint32_t)counts != 1)))
		return false;
	l->counts = counts;
	ledger_aim(l);
	return true;
}
