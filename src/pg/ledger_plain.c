/*
 * The short ways of the ledger: what nearly all traffic is, and needs no thought.
 *
 * What the type of an answer does to the oldest message is a row of a table, and `plain` points to the row that holds now; ledger_passes,
 * in the header, does what it says there. What is sent is entered at once while the account is small and nothing is
 * particular about it.
 *
 * Invariants: the short ways never do what those of ledger.c would not do; `plain` and `is_particular` say nothing that the rest of
 * the account does not say (ledger_check).
 */
#include "pg/ledger_ring.h"

#include "base/assert.h"
#include "base/inline.h"

enum { NOTHING_PLAIN = PROMISE + 1, MARKED_PARSE, MARKED_BIND, PLAIN_COPY_DATA, PLAIN_ROWS };

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
	[PLAIN_COPY_DATA] = { ['d'] = LEDGER_STAYS },
};

const uint64_t ledger_weights[LEDGER_LOCAL_REPLY + 1] = {
	[EXECUTE] = LEDGER_COPIER,
	[QUERY] = LEDGER_COPIER + LEDGER_END,
	[SYNC] = LEDGER_END,
	[CALL] = LEDGER_END,
	[COPY_END] = LEDGER_END,
};

uint8_t ledger_plain_row(enum kind kind, enum ledger_owner owner, bool marked)
{
	if (owner != OWED_TO_CLIENT)
		return NOTHING_PLAIN;
	if (!marked)
		return (uint8_t)kind;
	return kind == PARSE ? MARKED_PARSE : kind == BIND ? MARKED_BIND : NOTHING_PLAIN;
}

void ledger_aim(struct ledger *l)
{
	uint8_t row = NOTHING_PLAIN;

	l->is_particular = l->entries || l->skipping || l->copy_in || l->lost || l->copy_syncs;
	l->copy_synced &= l->is_particular;	/* the short ways don't look after it */
	if (l->used && !l->copy_syncs) {
		/* behind the server's half of a CopyBoth its answer ends the client's half as well */
		if (l->stage == STAGE_BEGIN && !l->copy_in)
			row = ledger_head(l)->plain;
		else if ((l->stage == STAGE_COPY_OUT || l->stage == STAGE_COPY_BOTH) && ledger_head(l)->plain != NOTHING_PLAIN)
			row = PLAIN_COPY_DATA;
	}
	l->plain = plain_rows[row];
}

void ledger_check(const struct ledger *l)
{
	const struct ledger_entry *ring = l->entries ? l->entries : l->small;
	struct ledger aimed = *l;
	uint64_t counts = 0;
	uint32_t depth = 0;

	for (uint32_t i = 0; i < l->used; i++) {
		const struct ledger_entry *e = &ring[ledger_place(l, i)];

		ASSERT(e->count > 0 && (i > 0 || e->kind != COPY_END));
		depth += e->kind == COPY_END ? 0 : e->count;
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

	if (head->count > 1 || (l->used > 1 && next->kind == COPY_END))
		return false;
	l->mark = head->marked;
	l->answered = 0;
	l->depth--;
	l->counts -= ledger_weights[head->kind];
	l->head = --l->used ? after : 0;
	l->plain = plain_rows[l->used ? next->plain : NOTHING_PLAIN];
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
		return ledger_sent(l, 'Q', 0, OWED_TO_CLIENT);
	/* mostly nothing else is owed */
	l->small[0] = (struct ledger_entry){ QUERY, QUERY, OWED_TO_CLIENT, false, 1 };
	l->head = 0;
	l->used = 1;
	l->depth = 1;
	l->counts = LEDGER_COPIER + LEDGER_END;
	l->plain = plain_rows[QUERY];
	return true;
}

static ALWAYS_INLINE bool sent_plain(struct ledger *l, const struct ledger_entry *e)
{
	if (l->is_particular || l->used == LEDGER_SMALL)
		return false;
	if (l->used == 0)
		l->plain = plain_rows[e->plain];
	else if (l->small[(l->head + l->used - 1) % LEDGER_SMALL].plain == e->plain)
		return false;
	l->small[(l->head + l->used) % LEDGER_SMALL] = *e;
	l->used++;
	l->depth++;
	l->counts += ledger_weights[e->kind];
	l->open = e->kind != SYNC;
	l->executed = (l->executed | (e->kind == EXECUTE)) & (e->kind != SYNC);
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

bool ledger_is_within_query(const struct ledger *l)
{
	return l->answered && l->used > 0 && ledger_head(l)->kind == QUERY;
}

void ledger_watch_last(struct ledger *l)
{
	if (l->used)
		ledger_entry_at(l, l->used - 1)->plain = NOTHING_PLAIN;
	ledger_aim(l);
}

bool ledger_entry_is_watched(const struct ledger_entry *e)
{
	return e->plain != ledger_plain_row((enum kind)e->kind, (enum ledger_owner)e->owner, e->marked);
}

/* The answer to the head can have come so far. */
static bool stage_fits(const struct ledger *l, const struct ledger_entry *head)
{
	if (!head)
		return l->stage == STAGE_BEGIN && (l->lost || !l->answered);
	if (l->answered && head->kind != QUERY)
		return false;
	switch ((enum stage)l->stage) {
	case STAGE_BEGIN: return head->kind != COPY_END;
	case STAGE_TYPES: return head->kind == DESCRIBE_STATEMENT;
	case STAGE_COPY_IN:
	case STAGE_COPY_OUT:
	case STAGE_COPY_BOTH: return ledger_may_open_copy(head->kind);
	case STAGE_ENDED: return head->kind == QUERY || head->kind == CALL;
	}
	return false;
}

bool ledger_restored(struct ledger *l)
{
	uint64_t depth = 0, counts = 0;

	for (uint32_t i = 0; i < l->used; i++) {
		struct ledger_entry *e = ledger_entry_at(l, i);

		e->plain = e->plain ? NOTHING_PLAIN : ledger_plain_row((enum kind)e->kind, (enum ledger_owner)e->owner, e->marked);
		depth += e->kind == COPY_END ? 0 : e->count;
		counts += e->count * ledger_weights[e->kind];
	}
	if (depth != l->depth || (uint32_t)counts != l->counts || !stage_fits(l, l->used ? ledger_entry_at(l, 0) : NULL) ||
	    (l->lost && l->used) || (l->copy_in && (depth != 1 || (uint32_t)counts != 1)))
		return false;
	l->counts = counts;
	ledger_aim(l);
	return true;
}
