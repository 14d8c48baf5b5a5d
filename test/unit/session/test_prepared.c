/*
 * The tables of prepared statements: what a client's names stand for and what a server has, as sent and as certain; the
 * texts of the unnamed statement; the journal. First one thing at a time. Then a random client sends and a random server
 * answers, where an error undoes the rest of its batch, and everything is compared with arrays that say the same in a
 * simple way, the references to statements and names included.
 */
#include "session/prepared_tables.h"
#include "session/world.h"
#include "unit.h"

#define STATEMENTS 6

static struct world world;
static struct client client;
static struct server server;
static struct prepared_client *mine;
static struct prepared_server *has;
static struct statement *st[STATEMENTS + 1];	/* from 1: "SELECT 1" is PGWEIR_1 */
static uint32_t batch;

static void begin(void)
{
	const struct params *none;
	char body[] = "SELECT 0\0\0";

	memset(&world, 0, sizeof(world));
	memset(&client, 0, sizeof(client));
	memset(&server, 0, sizeof(server));
	world.params = params_table_new(NULL);
	world.statements = statements_new(world.params);
	client.peer.world = server.peer.world = &world;
	none = params_none(world.params);
	for (int i = 1; i <= STATEMENTS; i++) {
		body[7] = (char)('0' + i);
		st[i] = statement_take(world.statements, none, (const uint8_t *)body, sizeof(body));
	}
	params_drop(world.params, &none);
	mine = prepared_client_of(&client);
	has = prepared_server_of(&server);
	batch = 1;
}

/* Nothing may be left of a statement, whatever was under way. */
static void end(void)
{
	prepared_client_free(&client);
	prepared_server_free(&server);
	CHECK(!client.prepared && !server.prepared);
	for (int i = 1; i <= STATEMENTS; i++) {
		CHECK_INT(st[i]->refs, 1);
		statement_drop(world.statements, &st[i]);
	}
	CHECK_INT(statements_count(world.statements), 0);
	statements_free(&world.statements);
	CHECK_INT(params_sets(world.params), 1);
	params_table_free(&world.params);
}

/* ---- what is sent ---- */

static struct prepared_name *find(const char *text)
{
	return name_find(mine, text, strlen(text) + 1);
}

static void send_name(enum prepared_what what, const char *text, int number)
{
	struct prepared_name *n = find(text);

	if (!n)
		n = name_new(mine, text, strlen(text) + 1);
	name_sent(&world, n, number ? st[number] : NULL, batch);
	CHECK(op_push(has, what, n, number ? st[number] : NULL));
}

static void send_parse(const char *text, int number)
{
	CHECK(entry_parse_sent(has, st[number], batch));
	send_name(OP_PARSE, text, number);
}

static void send_known(const char *text, int number)
{
	send_name(OP_KNOWN, text, number);
}

static void send_close(const char *text)
{
	send_name(OP_CLOSE, text, 0);
}

static void send_replay(int number)
{
	CHECK(entry_parse_sent(has, st[number], batch));
	CHECK(op_push(has, OP_REPLAY, NULL, st[number]));
}

static void send_evict(int number)
{
	entry_close_sent(has, entry_find(has, st[number]), batch);
	CHECK(op_push(has, OP_EVICT, NULL, st[number]));
}

static void send_use(const char *text, int number)
{
	CHECK(op_push(has, OP_USE, find(text), st[number]));
}

/* NULL: the statement is closed. */
static void send_unnamed(const char *text)
{
	CHECK(unnamed_sent(mine, has, text != NULL, batch));
	CHECK_INT(bytes_size(&mine->text), 0);
	if (text)
		bytes_append_text(&mine->text, text);
}

/* ---- what is answered ---- */

static void answer_entry(const struct prepared_op *op, bool done)
{
	if (op->what != OP_PARSE && op->what != OP_REPLAY && op->what != OP_EVICT)
		return;
	if (done)
		entry_done(&world, has, op->statement, op->what != OP_EVICT);
	else
		entry_undone(&world, has, op->statement);
}

static void answer_name(const struct prepared_op *op, bool done)
{
	if (op->what != OP_PARSE && op->what != OP_KNOWN && op->what != OP_CLOSE)
		return;
	if (done)
		name_done(&world, mine, op->name, op->statement);
	else
		name_undone(&world, mine, op->name);
}

/* The oldest that is under way. */
static void answer(bool done)
{
	struct prepared_op op = op_take(has);

	if (op.what == OP_UNNAMED) {
		if (done)
			unnamed_done(mine, &op);
		else
			unnamed_undone(mine);
	}
	answer_entry(&op, done);
	answer_name(&op, done);
	op_release(&world, &op);
}

/* "d" for each that is done, "u" for each that is not. */
static void answers(const char *fates)
{
	for (; *fates; fates++)
		answer(*fates == 'd');
}

static void all_gone(void)
{
	entries_gone(&world, has);
	names_gone(&world, mine);
}

/* ---- what is there ---- */

/* Numbers of the statements that the name stands for, as sent and as certain; "" where there is no such name. */
static const char *name_is(const char *text)
{
	static char seen[64];
	const struct prepared_name *n = find(text);

	if (!n)
		return "";
	CHECK(n->listed);
	snprintf(seen, sizeof(seen), "%d/%d", n->sent ? (int)n->sent->number : 0, n->certain ? (int)n->certain->number : 0);
	return seen;
}

static const char *entry_is(int number)
{
	static char seen[64];
	const struct prepared_entry *e = entry_find(has, st[number]);

	if (!e)
		return "";
	CHECK(e->statement == st[number]);
	snprintf(seen, sizeof(seen), "%d/%d", e->sent, e->certain);
	return seen;
}

/* Their numbers, the least recently used first. */
static const char *used(void)
{
	static char seen[64];
	size_t size = 0;

	LIST_EACH(node, &has->used)
		size += (size_t)snprintf(seen + size, sizeof(seen) - size, "%d",
					 (int)LIST_OBJECT(node, struct prepared_entry, use)->statement->number);
	seen[size] = 0;
	CHECK_INT(has->count, size);
	CHECK_INT(prepared_server_count(&server), size);
	return seen;
}

/* Of the unnamed statement, "" when there is none. */
static const char *text_is(void)
{
	static char seen[64];

	if (!mine->kept)
		return "";
	snprintf(seen, sizeof(seen), "%.*s", (int)bytes_size(&mine->text), (const char *)bytes_front(&mine->text));
	return seen;
}

/* ---- names ---- */

TEST(made_when_needed)
{
	begin();
	CHECK(prepared_client_of(&client) == mine && client.prepared == mine);
	CHECK(prepared_server_of(&server) == has && server.prepared == has);
	CHECK_INT(prepared_client_count(&client), 0);
	CHECK_INT(prepared_server_count(&server), 0);
	CHECK_TEXT(used(), "");
	end();
	CHECK_INT(prepared_client_count(&client), 0);
	CHECK_INT(prepared_server_count(&server), 0);
	prepared_client_free(&client);
	prepared_server_free(&server);
}

TEST(a_name_from_parse_to_close)
{
	begin();
	send_parse("a", 1);
	CHECK_TEXT(name_is("a"), "1/0");
	CHECK_INT(find("a")->batch, 1);
	answers("d");
	CHECK_TEXT(name_is("a"), "1/1");
	CHECK_INT(find("a")->in_flight, 0);
	CHECK_INT(prepared_client_count(&client), 1);
	CHECK(!find("b") && !find("aa") && !find(""));
	batch = 2;
	send_close("a");
	CHECK_TEXT(name_is("a"), "0/1");
	CHECK_INT(find("a")->batch, 2);
	answers("d");
	CHECK_TEXT(name_is("a"), "");
	CHECK_INT(prepared_client_count(&client), 0);
	end();
}

TEST(a_name_that_is_skipped)
{
	begin();
	send_parse("a", 1);
	answers("u");
	CHECK_TEXT(name_is("a"), "");
	send_known("a", 2);
	answers("d");
	send_close("a");
	answers("u");
	CHECK_TEXT(name_is("a"), "2/2");
	end();
}

/* Close, Parse of the same name, in one batch, and where the error comes. */
TEST(a_name_that_changes_twice)
{
	static const struct { const char *fates, *is[3]; } cases[] = {
		{ "ddd", { "3/0", "3/2", "3/3" } },
		{ "ddu", { "3/0", "3/2", "2/2" } },
		{ "duu", { "3/0", "3/0", "" } },
		{ "uuu", { "3/1", "3/1", "1/1" } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin();
		send_known("a", 1);
		answers("d");
		send_close("a");
		send_known("a", 2);
		send_known("a", 3);
		CHECK_TEXT(name_is("a"), "3/1");
		for (int at = 0; at < 3; at++) {
			answer(cases[i].fates[at] == 'd');
			CHECK_TEXT(name_is("a"), cases[i].is[at]);
		}
		end();
	}
}

/* DEALLOCATE ALL is answered: what was prepared behind it is still under way. */
TEST(all_names_are_gone_in_the_middle)
{
	begin();
	send_known("a", 1);
	send_known("b", 2);
	send_known("c", 3);
	answers("ddd");
	send_close("b");
	send_known("b", 4);
	send_close("c");
	send_known("d", 5);
	names_gone(&world, mine);
	CHECK_TEXT(name_is("a"), "");
	CHECK_TEXT(name_is("b"), "4/0");
	CHECK_TEXT(name_is("c"), "0/0");
	CHECK_TEXT(name_is("d"), "5/0");
	CHECK_INT(prepared_client_count(&client), 3);
	answers("dddu");
	CHECK_TEXT(name_is("b"), "4/4");
	CHECK_TEXT(name_is("c"), "");
	CHECK_TEXT(name_is("d"), "");
	send_close("b");
	names_gone(&world, mine);
	answers("u");
	CHECK_TEXT(name_is("b"), "");
	end();
}

/* The journal may name one that is gone already, while another has taken its place. */
TEST(a_name_that_has_gone_is_still_referred_to)
{
	struct prepared_name *old;

	begin();
	send_known("a", 1);
	answers("d");
	old = find("a");
	send_close("a");
	CHECK(op_push(has, OP_USE, old, st[1]));
	answers("d");
	CHECK_TEXT(name_is("a"), "");
	CHECK(!old->listed);
	CHECK_TEXT(old->text, "a");
	send_known("a", 2);
	CHECK(find("a") != old);
	CHECK(op_at(has, 0)->name == old);
	answers("dd");
	CHECK_TEXT(name_is("a"), "2/2");
	end();
}

TEST(a_name_for_the_journal_alone)
{
	struct prepared_name *n;

	begin();
	n = name_new(NULL, "PGWEIR_7", 9);
	CHECK(!n->listed && !find("PGWEIR_7"));
	CHECK(op_push(has, OP_USE, n, NULL));
	name_drop(&world, &n);
	CHECK(!n);
	CHECK_TEXT(op_at(has, 0)->name->text, "PGWEIR_7");
	answers("d");
	n = name_new(NULL, "x", 2);
	name_drop(&world, &n);
	name_drop(&world, &n);
	end();
}

/* ---- the server's set ---- */

TEST(an_entry_from_parse_to_close)
{
	begin();
	send_replay(1);
	CHECK_TEXT(entry_is(1), "1/0");
	CHECK_INT(entry_find(has, st[1])->batch, 1);
	CHECK_TEXT(used(), "1");
	answers("d");
	CHECK_TEXT(entry_is(1), "1/1");
	CHECK_TEXT(entry_is(2), "");
	batch = 2;
	send_evict(1);
	CHECK_TEXT(entry_is(1), "0/1");
	CHECK_INT(entry_find(has, st[1])->batch, 2);
	CHECK_TEXT(used(), "");
	answers("d");
	CHECK_TEXT(entry_is(1), "");
	end();
}

TEST(an_entry_that_is_skipped)
{
	begin();
	send_replay(1);
	answers("u");
	CHECK_TEXT(entry_is(1), "");
	CHECK_TEXT(used(), "");
	send_replay(1);
	answers("d");
	send_evict(1);
	answers("u");
	CHECK_TEXT(entry_is(1), "1/1");
	CHECK_TEXT(used(), "1");
	end();
}

/* A client's Parse where the statement is there already: it is closed first. */
TEST(an_entry_that_is_parsed_again)
{
	static const struct { const char *fates, *is[2]; } cases[] = {
		{ "dd", { "1/0", "1/1" } }, { "du", { "1/0", "" } }, { "uu", { "1/1", "1/1" } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin();
		send_replay(1);
		answers("d");
		send_evict(1);
		send_parse("a", 1);
		CHECK_TEXT(entry_is(1), "1/1");
		CHECK_TEXT(used(), "1");
		for (int at = 0; at < 2; at++) {
			answer(cases[i].fates[at] == 'd');
			CHECK_TEXT(entry_is(1), cases[i].is[at]);
		}
		CHECK_TEXT(used(), cases[i].is[1][0] ? "1" : "");
		end();
	}
}

TEST(the_least_recently_used_is_first)
{
	begin();
	for (int i = 1; i <= 4; i++)
		send_replay(i);
	CHECK_TEXT(used(), "1234");
	entry_used(has, entry_find(has, st[2]));
	CHECK_TEXT(used(), "1342");
	answers("dddd");
	CHECK_TEXT(used(), "1342");
	entry_used(has, entry_find(has, st[2]));
	entry_used(has, entry_find(has, st[1]));
	CHECK_TEXT(used(), "3421");
	send_evict(4);
	CHECK_TEXT(used(), "321");
	send_replay(4);
	CHECK_TEXT(used(), "3214");
	answers("dd");
	CHECK_TEXT(used(), "3214");
	end();
}

TEST(all_entries_are_gone_in_the_middle)
{
	begin();
	for (int i = 1; i <= 3; i++)
		send_replay(i);
	answers("ddd");
	send_evict(2);
	send_evict(3);
	send_replay(3);
	send_replay(4);
	entries_gone(&world, has);
	CHECK_TEXT(entry_is(1), "");
	CHECK_TEXT(entry_is(2), "0/0");
	CHECK_TEXT(entry_is(3), "1/0");
	CHECK_TEXT(entry_is(4), "1/0");
	CHECK_TEXT(used(), "34");
	answers("dddu");
	CHECK_TEXT(entry_is(2), "");
	CHECK_TEXT(entry_is(3), "1/1");
	CHECK_TEXT(used(), "3");
	send_evict(3);
	entries_gone(&world, has);
	answers("u");
	CHECK_TEXT(entry_is(3), "");
	end();
}

/* ---- the journal ---- */

TEST(the_journal_grows_in_order)
{
	uint32_t capacity = 0, taken = 0, pushed = 0;
	struct prepared_op op;
	int grown = 0;

	begin();
	for (int round = 0; round < 60; round++) {
		for (int i = 0; i < 3; i++)
			CHECK(op_push(has, OP_USE, NULL, st[1 + pushed++ % STATEMENTS]));
		grown += has->op_capacity > capacity;
		capacity = has->op_capacity;
		CHECK(has->op_count <= capacity);
		for (uint32_t i = 0; i < has->op_count; i++)
			CHECK(op_at(has, i)->statement == st[1 + (taken + i) % STATEMENTS]);
		op = op_take(has);
		CHECK(op.statement == st[1 + taken++ % STATEMENTS]);
		CHECK_INT(has->op_count, pushed - taken);
		op_release(&world, &op);
		CHECK(!op.statement && !op.name);
	}
	CHECK_INT(grown, 5);			/* it doubles: 8 to 128, for 120 */
	for (; taken < pushed; taken++) {
		op = op_take(has);
		CHECK(op.statement == st[1 + taken % STATEMENTS]);
		op_release(&world, &op);
	}
	CHECK_INT(has->op_count, 0);
	CHECK_INT(has->op_capacity, capacity);
	end();
}

TEST(the_journal_says_what_it_was_told)
{
	begin();
	send_parse("a", 1);
	send_evict(1);
	send_use("a", 1);
	send_unnamed("one");
	CHECK_INT(op_at(has, 0)->what, OP_PARSE);
	CHECK(op_at(has, 0)->name == find("a") && op_at(has, 0)->statement == st[1]);
	CHECK_INT(op_at(has, 1)->what, OP_EVICT);
	CHECK(!op_at(has, 1)->name && op_at(has, 1)->statement == st[1]);
	CHECK_INT(op_at(has, 2)->what, OP_USE);
	CHECK(op_at(has, 2)->name == find("a"));
	CHECK_INT(op_at(has, 3)->what, OP_UNNAMED);
	CHECK(!op_at(has, 3)->name && !op_at(has, 3)->statement && !op_at(has, 3)->text);
	CHECK(op_at(has, 3)->kept && op_at(has, 3)->last);
	end();
}

/* ---- the unnamed statement ---- */

TEST(the_unnamed_statement_done_and_undone)
{
	begin();
	CHECK_TEXT(text_is(), "");
	send_unnamed("one");
	CHECK_TEXT(text_is(), "one");
	CHECK_INT(mine->in_flight, 1);
	CHECK_INT(mine->number, 1);
	answers("u");
	CHECK_TEXT(text_is(), "");
	send_unnamed("two");
	answers("d");
	CHECK_TEXT(text_is(), "two");
	CHECK_INT(mine->in_flight, 0);
	send_unnamed("three");
	CHECK_TEXT(text_is(), "three");
	answers("u");
	CHECK_TEXT(text_is(), "two");
	send_unnamed(NULL);
	CHECK_TEXT(text_is(), "");
	answers("u");
	CHECK_TEXT(text_is(), "two");
	send_unnamed(NULL);
	answers("d");
	CHECK_TEXT(text_is(), "");
	send_unnamed("four");
	answers("u");
	CHECK_TEXT(text_is(), "");
	CHECK_INT(mine->number, 6);
	end();
}

/* Of several in flight any may be the last that is done. */
TEST(unnamed_statements_that_supersede_others)
{
	static const struct { const char *texts[3], *fates, *is; } cases[] = {
		{ { "one", "two", "three" }, "ddd", "three" },
		{ { "one", "two", "three" }, "ddu", "two" },
		{ { "one", "two", "three" }, "duu", "one" },
		{ { "one", "two", "three" }, "uuu", "zero" },
		{ { "one", NULL, "three" }, "ddu", "" },
		{ { "one", NULL, "three" }, "duu", "one" },
		{ { NULL, "two", "three" }, "duu", "" },
		{ { NULL, "two", NULL }, "ddu", "two" },
		{ { "one", "two", NULL }, "ddd", "" },
		/* of several batches */
		{ { "one", "two", "three" }, "udu", "two" },
		{ { "one", "two", "three" }, "duu", "one" },
		{ { "one", "two", "three" }, "uud", "three" },
		{ { "one", NULL, "three" }, "udu", "" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int rest = 0; rest < 2; rest++) {
			begin();
			send_unnamed("zero");
			answers("d");
			for (int at = 0; at < 3; at++) {
				send_unnamed(cases[i].texts[at]);
				send_replay(1 + at);		/* others are in between */
			}
			CHECK_TEXT(text_is(), cases[i].texts[2] ? cases[i].texts[2] : "");
			for (int at = 0; at < 3; at++) {
				answer(cases[i].fates[at] == 'd');
				answer(cases[i].fates[at] == 'd');
			}
			CHECK_INT(mine->in_flight, 0);
			if (rest)
				prepared_client_rests(&client);
			CHECK_TEXT(text_is(), cases[i].is);
			end();
		}
}

/* A Query behind its batch ends it without a place in the journal, while its own answer is still to come. */
TEST(an_unnamed_statement_that_has_ended_is_not_certain)
{
	begin();
	send_unnamed("one");
	mine->kept = mine->certain_kept = false;
	answers("d");
	CHECK_TEXT(text_is(), "");
	send_unnamed("two");
	answers("u");
	CHECK_TEXT(text_is(), "");
	end();
}

TEST(superseded_texts_are_freed_with_the_journal)
{
	begin();
	send_unnamed("one");
	send_unnamed("two");
	send_unnamed("three");
	CHECK(op_at(has, 0)->text && op_at(has, 1)->text && !op_at(has, 2)->text);
	CHECK(!op_at(has, 0)->last && !op_at(has, 1)->last && op_at(has, 2)->last);
	CHECK_INT(bytes_size(op_at(has, 0)->text), 3);
	end();
}

/* A client at rest keeps little more than the text itself. */
TEST(memory_at_rest)
{
	static char large[20001];

	begin();
	memset(large, 'x', sizeof(large) - 1);
	for (int i = 0; i < 3; i++) {
		send_unnamed(large);
		answers("d");
	}
	CHECK(mine->certain.capacity >= 20000);
	prepared_client_rests(&client);
	CHECK_INT(mine->certain.capacity, 0);
	CHECK(mine->text.capacity <= 20000 + 512);
	CHECK_INT(bytes_size(&mine->text), 20000);
	CHECK(memcmp(bytes_front(&mine->text), large, 20000) == 0);
	send_unnamed("small");
	answers("d");
	send_unnamed("smaller");
	answers("d");
	CHECK(mine->text.capacity >= 20000 || mine->certain.capacity >= 20000);
	prepared_client_rests(&client);
	CHECK(mine->text.capacity <= 512 && mine->certain.capacity <= 512);
	CHECK_TEXT(text_is(), "smaller");
	send_unnamed(large);
	send_unnamed(NULL);
	answers("dd");
	prepared_client_rests(&client);
	CHECK(mine->text.capacity <= 512 && mine->certain.capacity <= 512);
	CHECK_TEXT(text_is(), "");
	end();
}

/* ---- everything, at random ---- */

#define NAMES  4
#define FLIGHT 40

static const char *const name_texts[NAMES] = { "a", "b", "a longer name", "ab" };

struct sent {
	enum prepared_what what;
	int name, statement;		/* statement 0: none; of the unnamed one, its text: 0 is closed */
	uint32_t batch;
};

/* The same, in arrays. A value is a statement or text; 0 is none. */
static struct {
	struct sent flight[FLIGHT];
	int count;
	int name_sent[NAMES], name_certain[NAMES], entry_sent[STATEMENTS + 1], entry_certain[STATEMENTS + 1];
	int text_sent, text_certain;
	int done, undone, gone, most;
} model;

static unsigned long long seed;

static int chance(int n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (int)((seed >> 33) % (unsigned)n);
}

/* What a message changes: the places of it, as sent and as certain. */
static bool changes_name(const struct sent *m)
{
	return m->what == OP_PARSE || m->what == OP_KNOWN || m->what == OP_CLOSE;
}

static bool changes_entry(const struct sent *m)
{
	return m->what == OP_PARSE || m->what == OP_REPLAY || m->what == OP_EVICT;
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
		flying += model.flight[i].what == OP_UNNAMED;
	return flying;
}

/* prepared.c waits for what is in doubt in another batch. */
static bool may_be_sent(const struct sent *m)
{
	for (int i = 0; i < model.count; i++) {
		const struct sent *f = &model.flight[i];

		if (f->batch != m->batch && ((changes_name(m) && changes_name(f) && f->name == m->name) ||
					     (changes_entry(m) && changes_entry(f) && f->statement == m->statement)))
			return false;
	}
	if (m->what == OP_EVICT)
		return model.entry_sent[m->statement];
	if (m->what == OP_CLOSE || m->what == OP_USE)
		return model.name_sent[m->name];
	return model.count < FLIGHT;
}

static void send_random(void)
{
	static const enum prepared_what kinds[] = { OP_PARSE, OP_PARSE, OP_REPLAY, OP_KNOWN, OP_CLOSE, OP_EVICT, OP_USE, OP_UNNAMED };
	struct sent m = { kinds[chance(8)], chance(NAMES), 1 + chance(STATEMENTS), batch };
	char text[8];

	if (m.what == OP_UNNAMED)
		m.statement = chance(4) ? 1 + chance(1000) : 0;
	if (model.count == FLIGHT || !may_be_sent(&m))
		return;
	snprintf(text, sizeof(text), "%d", m.statement);
	switch (m.what) {
	case OP_PARSE: send_parse(name_texts[m.name], m.statement); break;
	case OP_REPLAY: send_replay(m.statement); break;
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
		model.name_sent[m.name] = m.what == OP_CLOSE ? 0 : m.statement;
	if (changes_entry(&m))
		model.entry_sent[m.statement] = m.what != OP_EVICT;
	if (m.what == OP_UNNAMED)
		model.text_sent = m.statement;
}

/* With nothing in flight what is certain is all there is. */
static void model_settles(void)
{
	for (int i = 0; i < NAMES; i++)
		if (!name_flies(i))
			model.name_sent[i] = model.name_certain[i];
	for (int i = 1; i <= STATEMENTS; i++)
		if (!entry_flies(i))
			model.entry_sent[i] = model.entry_certain[i];
	if (!text_flies())
		model.text_sent = model.text_certain;
}

static void answer_one(bool done)
{
	struct sent m = model.flight[0];

	answer(done);
	memmove(model.flight, model.flight + 1, (size_t)--model.count * sizeof(m));
	if (done && changes_name(&m))
		model.name_certain[m.name] = m.what == OP_CLOSE ? 0 : m.statement;
	if (done && changes_entry(&m))
		model.entry_certain[m.statement] = m.what != OP_EVICT;
	if (done && m.what == OP_UNNAMED)
		model.text_certain = m.statement;
	model_settles();
	*(done ? &model.done : &model.undone) += 1;
}

/* An error undoes what is left of its batch; the rest of the batch that is being sent the server skips. */
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
	memset(model.name_certain, 0, sizeof(model.name_certain));
	memset(model.entry_certain, 0, sizeof(model.entry_certain));
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
			snprintf(want, sizeof(want), "%d/%d", model.name_sent[i], model.name_certain[i]);
		CHECK_TEXT(name_is(name_texts[i]), want);
		refs[model.name_sent[i]]++;
		refs[model.name_certain[i]]++;
		if (!n)
			continue;
		listed++;
		CHECK_INT(n->in_flight, name_flies(i));
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
			snprintf(want, sizeof(want), "%d/%d", model.entry_sent[i], model.entry_certain[i]);
		CHECK_TEXT(entry_is(i), want);
		CHECK(!!strchr(used(), '0' + i) == model.entry_sent[i]);
		sent += (size_t)model.entry_sent[i];
		refs[i] += e != NULL;
		if (e)
			CHECK_INT(e->in_flight, entry_flies(i));
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
	model.count = model.text_sent = model.text_certain = 0;
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
			prepared_client_rests(&client);
		compare();
	}
	/* half of the time with things under way, and either side may go first */
	while (turns % 2 && model.count > 0)
		answer_random();
	compare();
	if (turns % 4 < 2)
		prepared_server_free(&server);
	end();
}

TEST(everything_at_random)
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
