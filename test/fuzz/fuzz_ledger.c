/*
 * The ledger of a server's pending answers (pg/ledger.c), compared with itself.
 *
 * Input: two bytes per step: the sending side and its options, and the type of the message. Properties: the short paths (ledger_sent_plain,
 * ledger_passes) have the same result as the general ones; a packed and unpacked ledger gives the same results from then on; no bytes, unpacked as a
 * ledger, can end the process.
 */
#include "fuzz.h"
#include "pg/ledger.h"

#include <stdlib.h>
#include <string.h>

#define STEPS_MOST 2000
#define MARKER LEDGER_COPY_END	/* kind of the one entry that nothing answers: the end of a COPY */

enum { STEP_SENT, STEP_SENT_MARKED, STEP_SENT_OWN, STEP_PROMISE, STEP_WATCH, STEP_QUERY, STEP_PACK, STEP_RECEIVED };

static const struct ledger_entry *entry_at(const struct ledger *l, uint32_t i)
{
	const struct ledger_entry *entries = l->entries ? l->entries : l->small;

	return &entries[(l->head + i) % l->capacity];
}

/* A walk over the messages: equal ones in a row may be counted together or not, as one of them is watched. */
struct walk {
	const struct ledger *ledger;
	uint32_t entry, taken;
};

static const struct ledger_entry *next_message(struct walk *w)
{
	const struct ledger_entry *e;

	if (w->entry == w->ledger->used)
		return NULL;
	e = entry_at(w->ledger, w->entry);
	if (++w->taken == e->count) {
		w->entry++;
		w->taken = 0;
	}
	return e;
}

static void compare(const struct ledger *a, const struct ledger *b)
{
	struct walk in_a = { .ledger = a }, in_b = { .ledger = b };
	const struct ledger_entry *x, *y;

	FUZZ_CHECK(a->depth == b->depth && a->counts == b->counts && a->copy_syncs == b->copy_syncs);
	FUZZ_CHECK(a->stage == b->stage && a->answered == b->answered && a->open == b->open && a->skipping == b->skipping);
	FUZZ_CHECK(a->copy_in == b->copy_in && a->lost == b->lost);
	FUZZ_CHECK(ledger_is_empty(a) == ledger_is_empty(b) && ledger_may_copy(a) == ledger_may_copy(b));
	FUZZ_CHECK(ledger_is_in_doubt(a) == ledger_is_in_doubt(b) && ledger_is_one_batch(a) == ledger_is_one_batch(b));
	FUZZ_CHECK(ledger_local_reply_is_due(a) == ledger_local_reply_is_due(b));
	do {
		x = next_message(&in_a);
		y = next_message(&in_b);
		FUZZ_CHECK(!x == !y && (!x || (x->kind == y->kind && x->owner == y->owner && x->mark == y->mark)));
	} while (x);
}

/* Checks the invariants of the ledger. */
static void check(const struct ledger *l)
{
	uint32_t depth = 0;

	FUZZ_CHECK(l->used <= l->capacity);
	for (uint32_t i = 0; i < l->used; i++) {
		FUZZ_CHECK(entry_at(l, i)->count > 0);
		depth += entry_at(l, i)->kind == MARKER ? 0 : entry_at(l, i)->count;
	}
	FUZZ_CHECK(depth == l->depth && (uint32_t)l->counts <= l->depth);
	FUZZ_CHECK(!ledger_is_empty(l) || (l->depth == 0 && !ledger_local_reply_is_due(l)));
}

/* Makes an independent copy; not possible if the ledger has its own ring, which both would share. */
static bool has_twin(const struct ledger *l, struct ledger *twin)
{
	*twin = *l;
	return !l->entries;
}

static bool enter(struct ledger *l, uint8_t type, bool marked, enum ledger_owner owner)
{
	/* 't' is Describe of a statement here, 'D' of a portal */
	uint8_t real = type == 't' ? 'D' : type, what = type == 't' ? 'S' : 'P';
	struct ledger twin;
	bool plain = false, entered;

	if (marked && !ledger_enters(l))
		return true;
	if (has_twin(l, &twin) && owner == OWED_TO_CLIENT && type != 't')
		plain = marked ? ledger_sent_plain_marked(&twin, real) : ledger_sent_plain(&twin, real);
	entered = marked ? ledger_sent_marked(l, real, what, owner, MARK_PREPARED) : ledger_sent(l, real, what, owner);
	if (plain && entered && !l->entries)
		compare(l, &twin);
	return entered;
}

static bool enter_query(struct ledger *l)
{
	struct ledger twin;
	bool has = has_twin(l, &twin) && l->used < l->capacity && ledger_sent_query(&twin), entered;

	entered = ledger_sent(l, 'Q', 0, OWED_TO_CLIENT);
	if (has && entered && !l->entries)
		compare(l, &twin);
	return entered;
}

static void receive(struct ledger *l, uint8_t type)
{
	enum ledger_owner owner = OWED_TO_CLIENT;
	bool due = ledger_local_reply_is_due(l), passes;
	enum ledger_verdict verdict;
	struct ledger twin;

	/* the relay sends promised answers before it looks at the next message */
	if (due)
		ledger_local_reply_sent(l);
	passes = has_twin(l, &twin) && ledger_passes(&twin, type);
	verdict = ledger_received(l, type, &owner);
	if (!passes)
		return;
	FUZZ_CHECK(verdict == LEDGER_ANSWER && owner == OWED_TO_CLIENT && twin.mark == l->mark && l->marks_skipped[0] == 0);
	compare(l, &twin);
}

/* To another process and on there. */
static void pack(struct ledger *l)
{
	struct bytes out = BYTES_EMPTY, again = BYTES_EMPTY;
	struct ledger other = { .used = 0 };
	struct unpack in;

	ledger_pack(&out, l);
	FUZZ_CHECK(!out.failed);
	in = unpack_of(bytes_front(&out), bytes_size(&out));
	ledger_clear(&other);
	FUZZ_CHECK(ledger_unpack(&in, &other) && unpack_is_done(&in));
	compare(l, &other);
	ledger_pack(&again, &other);
	FUZZ_SAME(&out, &again);
	ledger_clear(l);
	*l = other;
	bytes_free(&out);
	bytes_free(&again);
}

/* Whatever is unpacked is a sound account, or none. */
static void unpack_anything(const uint8_t *data, size_t size)
{
	struct unpack in = unpack_of(data, size);
	struct ledger l = { .used = 0 };

	ledger_clear(&l);
	if (ledger_unpack(&in, &l)) {
		check(&l);
		pack(&l);
		for (const char *answer = "Z12CTDEsZIZGcCHdcCZnZ"; *answer; answer++)
			receive(&l, (uint8_t)*answer);
		check(&l);
	} else {
		FUZZ_CHECK(ledger_is_empty(&l));
	}
	ledger_clear(&l);
}

static bool step(struct ledger *l, uint8_t how, uint8_t type)
{
	switch (how & 7) {
	case STEP_SENT: return enter(l, type, false, OWED_TO_CLIENT);
	case STEP_SENT_MARKED: return strchr("PBDtEC", type) && type ? enter(l, type, true, OWED_TO_CLIENT) : true;
	case STEP_SENT_OWN: return enter(l, type, false, OWED_TO_POOLER);
	case STEP_PROMISE: return !ledger_enters(l) || ledger_local_reply(l);
	case STEP_WATCH:
		if (l->used > 0)
			ledger_watch_last(l);
		return true;
	case STEP_QUERY: return enter_query(l);
	case STEP_PACK:
		pack(l);
		return true;
	default:
		receive(l, type);
		return true;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input_of(data, size);
	struct ledger l = { .used = 0 };

	if (size > 2 * STEPS_MOST)
		return 0;
	if (size > 0 && data[0] == 'U') {
		unpack_anything(data + 1, size - 1);
		return 0;
	}
	ledger_clear(&l);
	while (fuzz_left(&in) > 1) {
		uint8_t how = fuzz_u8(&in);

		if (!step(&l, how, fuzz_u8(&in)))
			break;
		check(&l);
	}
	ledger_clear(&l);
	return 0;
}
