/*
 * The tables of prepared statements at random: a client sends any allowed message, a server answers, an error skips the rest of its batch, all
 * statements are occasionally forgotten, and either side ends with operations in progress. After each step, the tables and the reference counts are
 * compared with a simple model in arrays.
 */
#include "statement_tables.h"

#define NAMES  4
#define FLIGHT 40

static const char *const name_texts[NAMES] = { "a", "b", "a longer name", "ab" };

struct sent {
	enum op_kind kind;
	int name, statement;		/* statement 0: none; for the unnamed statement, text 0 is closed */
	uint32_t batch;
};

/* The model. A value is a statement or text; 0 is none. */
static struct {
	struct sent flight[FLIGHT];
	int count;
	int name_sent[NAMES], name_confirmed[NAMES], entry_sent[STATEMENTS + 1], entry_confirmed[STATEMENTS + 1];
	int text_sent, text_confirmed;
	int done, undone, gone, most;
} model;

static unsigned long long seed;

static int chance(int n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (int)((seed >> 33) % (unsigned)n);
}

/* The kinds of values that a message changes, as sent and as confirmed. */
static bool changes_name(const struct sent *m)
{
	return m->kind == OP_PARSE || m->kind == OP_KNOWN || m->kind == OP_CLOSE;
}

static bool changes_entry(const struct sent *m)
{
	return m->kind == OP_PARSE || m->kind == OP_REPARSE || m->kind == OP_EVICT;
}

static int name_flies(int name)
{
	int flying = 0;

	for (int i = 0; i < model.count; i++)
		flying += changes_name(&model.flight[i]) && model.flight[i].name == name;
	return flying;
}

static int entry_flies(int statement)
{
	int flying = 0;

	for (int i = 0; i < model.count; i++)
		flying += changes_entry(&model.flight[i]) && model.flight[i].statement == statement;
	return flying;
}

static int text_flies(void)
{
	int flying = 0;

	for (int i = 0; i < model.count; i++)
		flying += model.flight[i].kind == OP_UNNAMED;
	return flying;
}

/* prepared.c waits if the name is in doubt in another batch. */
static bool may_be_sent(const struct sent *m)
{
	for (int i = 0; i < model.count; i++) {
		const struct sent *f = &model.flight[i];

		if (f->batch != m->batch && ((changes_name(m) && changes_name(f) && f->name == m->name) ||
					     (changes_entry(m) && changes_entry(f) && f->statement == m->statement)))
			return false;
	}
	if (m->kind == OP_EVICT)
		return model.entry_sent[m->statement];
	if (m->kind == OP_CLOSE || m->kind == OP_USE)
		return model.name_sent[m->name];
	return model.count < FLIGHT;
}

static void send_random(void)
{
	static const enum op_kind kinds[] = {
		OP_PARSE, OP_PARSE, OP_REPARSE, OP_KNOWN, OP_CLOSE, OP_EVICT, OP_USE, OP_UNNAMED,
	};
	struct sent m = { kinds[chance(8)], chance(NAMES), 1 + chance(STATEMENTS), batch };
	char text[8];

	if (m.kind == OP_UNNAMED)
		m.statement = chance(4) ? 1 + chance(1000) : 0;
	if (model.count == FLIGHT || !may_be_sent(&m))
		return;
	snprintf(text, sizeof(text), "%d", m.statement);
	switch (m.kind) {
	case OP_PARSE: send_parse(name_texts[m.name], m.statement); break;
	case OP_REPARSE: send_replay(m.statement); break;
	case OP_KNOWN: send_known(name_texts[m.name], m.statement); break;
	case OP_CLOSE: send_close(name_texts[m.name]); break;
	case OP_EVICT: send_evict(m.statement); break;
	case OP_USE: send_use(name_texts[m.name], m.statement); break;
	default: send_unnamed(m.statement ? text : NULL);
	}
	model.flight[model.count++] = m;
	if (model.count > model.most)
		model.most = model.count;
	if (changes_name(&m))
		model.name_sent[m.name] = m.kind == OP_CLOSE ? 0 : m.statement;
	if (changes_entry(&m))
		model.entry_sent[m.statement] = m.kind != OP_EVICT;
	if (m.kind == OP_UNNAMED)
		model.text_sent = m.statement;
}

/* With nothing in flight, the confirmed state equals the sent state. */
static void model_settles(void)
{
	for (int i = 0; i < NAMES; i++)
		if (!name_flies(i))
			model.name_sent[i] = model.name_confirmed[i];
	for (int i = 1; i <= STATEMENTS; i++)
		if (!entry_flies(i))
			model.entry_sent[i] = model.entry_confirmed[i];
	if (!text_flies())
		model.text_sent = model.text_confirmed;
}

static void answer_one(bool done)
{
	struct sent m = model.flight[0];

	answer(done);
	model.count--;
	for (int i = 0; i < model.count; i++)
		model.flight[i] = model.flight[i + 1];
	if (done && changes_name(&m))
		model.name_confirmed[m.name] = m.kind == OP_CLOSE ? 0 : m.statement;
	if (done && changes_entry(&m))
		model.entry_confirmed[m.statement] = m.kind != OP_EVICT;
	if (done && m.kind == OP_UNNAMED)
		model.text_confirmed = m.statement;
	model_settles();
	*(done ? &model.done : &model.undone) += 1;
}

/* An error skips the rest of its batch; the server also skips the rest of a batch that is still being sent. */
static void answer_random(void)
{
	uint32_t failed = model.flight[0].batch;

	if (chance(6)) {
		answer_one(true);
		return;
	}
	while (model.count > 0 && model.flight[0].batch == failed)
		answer_one(false);
	batch += failed == batch;
}

static void forget_all(void)
{
	all_gone();
	memset(model.name_confirmed, 0, sizeof(model.name_confirmed));
	memset(model.entry_confirmed, 0, sizeof(model.entry_confirmed));
	model_settles();
	model.gone++;
}

static void compare_names(unsigned refs[])
{
	unsigned listed = 0;

	for (int i = 0; i < NAMES; i++) {
		const struct prepared_name *n = find(name_texts[i]);
		unsigned name_refs = 1;
		char want[32] = "";

		if (name_flies(i) || model.name_sent[i])
			snprintf(want, sizeof(want), "%d/%d", model.name_sent[i], model.name_confirmed[i]);
		CHECK_TEXT(name_is(name_texts[i]), want);
		refs[model.name_sent[i]]++;
		refs[model.name_confirmed[i]]++;
		if (!n)
			continue;
		listed++;
		CHECK_INT(n->in_flight, name_flies(i));
		CHECK(list_is_empty(&n->confirmed_link) == !n->confirmed);
		for (uint32_t op = 0; op < has->op_count; op++)
			name_refs += op_at(has, op)->name == n;
		CHECK_INT(n->refs, name_refs);
	}
	CHECK_INT(prepared_client_count(&client), listed);
}

static void compare_entries(unsigned refs[])
{
	size_t sent = 0;

	for (int i = 1; i <= STATEMENTS; i++) {
		const struct prepared_entry *e = entry_find(has, st[i]);
		char want[32] = "";

		if (entry_flies(i) || model.entry_sent[i])
			snprintf(want, sizeof(want), "%d/%d", model.entry_sent[i], model.entry_confirmed[i]);
		CHECK_TEXT(entry_is(i), want);
		CHECK(!!strchr(used(), '0' + i) == model.entry_sent[i]);
		sent += (size_t)model.entry_sent[i];
		refs[i] += e != NULL;
		if (!e)
			continue;
		CHECK_INT(e->in_flight, entry_flies(i));
		CHECK(list_is_empty(&e->confirmed_link) == !e->confirmed);
	}
	CHECK_INT(strlen(used()), sent);
}

static void compare(void)
{
	unsigned refs[STATEMENTS + 1] = { 0 };
	char want[32] = "";

	CHECK_INT(has->op_count, model.count);
	compare_names(refs);
	compare_entries(refs);
	for (uint32_t i = 0; i < has->op_count; i++)
		if (op_at(has, i)->statement)
			refs[op_at(has, i)->statement->number]++;
	for (int i = 1; i <= STATEMENTS; i++)
		CHECK_INT(st[i]->refs, refs[i] + 1);
	if (model.text_sent)
		snprintf(want, sizeof(want), "%d", model.text_sent);
	CHECK_TEXT(text_is(), want);
	CHECK_INT(mine->in_flight, text_flies());
}

static void random_round(int turns)
{
	begin();
	memset(model.flight, 0, sizeof(model.flight));
	model.count = model.text_sent = model.text_confirmed = 0;
	memset(model.name_sent, 0, sizeof(model.name_sent));
	memset(model.entry_sent, 0, sizeof(model.entry_sent));
	forget_all();
	for (int turn = 0; turn < turns; turn++) {
		int what = chance(10 + turns % 7);

		if (what == 0)
			batch++;
		else if (what == 1 && !chance(8))
			forget_all();
		else if (what < 5 && model.count > 0)
			answer_random();
		else
			send_random();
		if (model.count == 0 && !chance(3))
			prepared_client_trim(&client);
		compare();
	}
	/* half of the time with operations in progress, and either side may end first */
	while (turns % 2 && model.count > 0)
		answer_random();
	compare();
	if (turns % 4 < 2)
		prepared_server_free(&server);
	end();
}

TEST(random_operations_match_the_model)
{
	for (int round = 0; round < 600 && !unit_faults; round++) {
		seed = (unsigned long long)round;
		random_round(20 + round % 150);
		if (unit_faults)
			UNIT_FAIL("round %d", round);
	}
	CHECK(model.done > 5000);
	CHECK(model.undone > 5000);
	CHECK(model.gone > 1000);
	CHECK(model.most > 16);
}

UNIT_MAIN
