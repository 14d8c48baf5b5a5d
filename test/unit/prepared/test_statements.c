/*
 * The tables of prepared statements: a client's names and a server's statements, as sent and as confirmed; the texts of the unnamed statement; the
 * journal. Each test covers one feature; test_statements_tables.c covers memory and limits; test_statements_random.c combines all.
 */
#include "statement_tables.h"

/* ---- names ---- */

TEST(each_server_has_its_own_statement_names)
{
	struct statement_names first;
	struct server other = { .peer.world = &world };

	begin();
	first = has->names;
	CHECK(prepared_server_of(&server) == has && memcmp(&first, &has->names, sizeof(first)) == 0);
	CHECK(prepared_server_of(&other) && memcmp(&first, &other.prepared->names, sizeof(first)) != 0);
	prepared_server_free(&other);
	end();
}

TEST(tables_are_created_on_first_use)
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

TEST(name_lives_from_parse_to_close)
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

TEST(names_are_truncated_as_in_postgresql)
{
	char a[80], b[80];

	begin();
	memset(a, 'n', sizeof(a));
	memcpy(b, a, sizeof(b));
	a[70] = b[75] = 0;
	send_parse(a, 1);
	CHECK(find(a) && find(b) == find(a));
	b[63] = 0;
	CHECK(find(b) == find(a));
	b[62] = 0;
	CHECK(!find(b));
	b[62] = 'm';
	CHECK(!find(b));
	end();
}

TEST(skipped_parse_leaves_no_name)
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

/* Close and Parse of the same name in one batch, with the error at each position. */
TEST(name_changes_twice_in_a_batch)
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

TEST(name_moves_to_another_statement)
{
	begin();
	send_known("a", 1);
	answers("d");
	name_move(&world, mine, find("a"), st[2]);
	CHECK_TEXT(name_is("a"), "2/2");
	send_close("a");
	answers("u");
	CHECK_TEXT(name_is("a"), "2/2");
	/* the name is set back, replacing another statement */
	CHECK(find("a")->original == st[1]);
	name_move(&world, mine, find("a"), st[3]);
	CHECK(find("a")->original == st[1]);
	name_move(&world, mine, find("a"), st[1]);
	CHECK_TEXT(name_is("a"), "1/1");
	CHECK(!find("a")->original);
	/* the earlier statement of the name is forgotten with the name */
	name_move(&world, mine, find("a"), st[2]);
	send_close("a");
	send_known("a", 4);
	answers("dd");
	CHECK_TEXT(name_is("a"), "4/4");
	CHECK(!find("a")->original);
	name_move(&world, mine, find("a"), st[2]);
	all_gone();
	CHECK_TEXT(name_is("a"), "");
	end();
}

/* DEALLOCATE ALL is answered: later prepared statements are still in progress. */
TEST(deallocate_all_between_operations)
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
	all_gone();
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
	all_gone();
	answers("u");
	CHECK_TEXT(name_is("b"), "");
	end();
}

/* The journal may refer to a removed name while a new entry has taken its place. */
TEST(journal_refers_to_a_removed_name)
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
	CHECK(!old->in_table);
	CHECK_TEXT(old->text, "a");
	send_known("a", 2);
	CHECK(find("a") != old);
	CHECK(op_at(has, 0)->name == old);
	answers("dd");
	CHECK_TEXT(name_is("a"), "2/2");
	end();
}

TEST(name_referenced_only_by_the_journal)
{
	struct prepared_name *n;

	begin();
	n = name_new(NULL, "PGWEIR_7", 9);
	CHECK(!n->in_table && !find("PGWEIR_7"));
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

TEST(entry_lives_from_parse_to_close)
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

TEST(skipped_parse_leaves_no_entry)
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

/* A client's Parse of a statement that the server already has: the old one is closed first. */
TEST(entry_is_parsed_again)
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

TEST(entries_are_in_lru_order)
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

TEST(all_entries_are_removed_between_operations)
{
	begin();
	for (int i = 1; i <= 3; i++)
		send_replay(i);
	answers("ddd");
	send_evict(2);
	send_evict(3);
	send_replay(3);
	send_replay(4);
	prepared_deallocated(&server, NULL, true);
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
	prepared_deallocated(&server, NULL, true);
	answers("u");
	CHECK_TEXT(entry_is(3), "");
	end();
}

/* ---- validity of a Parse ---- */

static enum parse_validity validity_of(const struct statement *statement)
{
	const struct prepared_entry *e = entry_find(has, statement);

	CHECK(e && e->confirmed && !list_is_empty(&e->confirmed_link));
	return (enum parse_validity)e->validity;
}

static void send_uncertain_reparse(struct statement *statement)
{
	CHECK(entry_change_sent(has, statement, true, batch));
	CHECK(op_push(has, OP_REPARSE, NULL, statement));
	op_at(has, has->op_count - 1)->validity = PARSE_UNCERTAIN;
}

static void answer_reparse(struct statement *statement)
{
	struct prepared_op op = op_take(has);

	CHECK(op.statement == statement);
	op_change_ended(&world, has, mine, &op, true);
	op_release(&world, &op);
}

/* Checks the validity of a confirmed statement, of a statement with a Parse in flight, and of both with a literal; then another Parse is sent. */
static void check_event(enum parameter_event event, enum parse_validity confirmed, enum parse_validity in_flight, enum parse_validity literal,
			enum parse_validity literal_in_flight)
{
	const struct params *none;
	struct statement *with[2];

	begin();
	none = params_none(world.params);
	with[0] = statement_take(world.statements, 1, none, (const uint8_t *)"SELECT '1'\0\0", 13, false);
	with[1] = statement_take(world.statements, 1, none, (const uint8_t *)"SELECT '2'\0\0", 13, false);
	send_uncertain_reparse(st[1]);
	send_uncertain_reparse(with[0]);
	answer_reparse(st[1]);
	answer_reparse(with[0]);
	CHECK(has->has_uncertain && validity_of(st[1]) == PARSE_UNCERTAIN && validity_of(with[0]) == PARSE_UNCERTAIN);
	send_uncertain_reparse(st[2]);
	send_uncertain_reparse(with[1]);
	prepared_parameters_changed(&server, event);
	send_uncertain_reparse(st[3]);
	CHECK_INT(validity_of(st[1]), confirmed);
	CHECK_INT(validity_of(with[0]), literal);
	answer_reparse(st[2]);
	answer_reparse(with[1]);
	answer_reparse(st[3]);
	CHECK_INT(validity_of(st[2]), in_flight);
	CHECK_INT(validity_of(with[1]), literal_in_flight);
	CHECK_INT(validity_of(st[3]), PARSE_UNCERTAIN);
	prepared_parameters_changed(&server, PARAMETERS_UNCHANGED);
	CHECK(!has->has_uncertain && validity_of(st[3]) == PARSE_VALID);
	prepared_server_free(&server);
	for (int i = 0; i < 2; i++)
		statement_drop(world.statements, &with[i]);
	params_drop(world.params, &none);
	end();
}

TEST(events_that_change_validity)
{
	check_event(PARAMETERS_REPORTED, PARSE_INVALID, PARSE_INVALID, PARSE_INVALID, PARSE_INVALID);
	check_event(PARAMETERS_RESET, PARSE_INVALID, PARSE_UNCERTAIN, PARSE_INVALID, PARSE_UNCERTAIN);
	check_event(PARAMETERS_SET, PARSE_UNCERTAIN, PARSE_UNCERTAIN, PARSE_INVALID, PARSE_INVALID);
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
	CHECK_INT(grown, 5);			/* the journal doubles: 8 to 128, for 120 */
	for (; taken < pushed; taken++) {
		op = op_take(has);
		CHECK(op.statement == st[1 + taken % STATEMENTS]);
		op_release(&world, &op);
	}
	CHECK_INT(has->op_count, 0);
	CHECK_INT(has->op_capacity, capacity);
	end();
}

TEST(journal_returns_its_entries_in_order)
{
	begin();
	send_parse("a", 1);
	send_evict(1);
	send_use("a", 1);
	send_unnamed("one");
	CHECK_INT(op_at(has, 0)->kind, OP_PARSE);
	CHECK(op_at(has, 0)->name == find("a") && op_at(has, 0)->statement == st[1]);
	CHECK_INT(op_at(has, 1)->kind, OP_EVICT);
	CHECK(!op_at(has, 1)->name && op_at(has, 1)->statement == st[1]);
	CHECK_INT(op_at(has, 2)->kind, OP_USE);
	CHECK(op_at(has, 2)->name == find("a"));
	CHECK_INT(op_at(has, 3)->kind, OP_UNNAMED);
	CHECK(!op_at(has, 3)->name && !op_at(has, 3)->statement && !op_at(has, 3)->text);
	CHECK(op_at(has, 3)->has_text && op_at(has, 3)->is_last_change);
	end();
}

/* ---- the unnamed statement ---- */

TEST(unnamed_statement_succeeds_or_is_skipped)
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

/* Any of several Parse messages in flight may be the last that succeeds. */
TEST(unnamed_statements_supersede_earlier_ones)
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
		/* Parse messages of several batches */
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
				send_replay(1 + at);		/* other operations come between */
			}
			CHECK_TEXT(text_is(), cases[i].texts[2] ? cases[i].texts[2] : "");
			for (int at = 0; at < 3; at++) {
				answer(cases[i].fates[at] == 'd');
				answer(cases[i].fates[at] == 'd');
			}
			CHECK_INT(mine->in_flight, 0);
			if (rest)
				prepared_client_trim(&client);
			CHECK_TEXT(text_is(), cases[i].is);
			end();
		}
}

/* A Query after its batch ends the unnamed statement without an entry in the journal, while the answer to its Parse is still pending. */
TEST(ended_unnamed_statement_is_not_certain)
{
	begin();
	send_unnamed("one");
	mine->has_text = mine->has_confirmed_text = false;
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
	CHECK(!op_at(has, 0)->is_last_change && !op_at(has, 1)->is_last_change && op_at(has, 2)->is_last_change);
	CHECK_INT(bytes_size(op_at(has, 0)->text), 3);
	end();
}

/* The journal keeps as many of the large texts in flight as fit; if a Parse after a dropped text fails, the unnamed statement is unknown. */
TEST(journal_keeps_few_large_texts)
{
	static char large[100001];

	memset(large, 'x', sizeof(large) - 1);
	begin();
	for (int round = 0; round < 2; round++) {
		send_unnamed(large);
		send_unnamed(large);
		send_unnamed("three");
		send_unnamed("four");
		CHECK(op_at(has, 0)->text && !op_at(has, 1)->text && op_at(has, 2)->text);
		CHECK(op_at(has, 0)->has_text && !op_at(has, 1)->has_text && op_at(has, 2)->has_text);
		answers("du");
		answers(round == 0 ? "dd" : "uu");
		CHECK(mine->has_text);
		CHECK_INT(bytes_size(&mine->text), round == 0 ? 4 : sizeof(large) - 1);
	}
	/* the text that was not kept succeeds, and no later Parse does */
	send_unnamed("one");
	send_unnamed(large);
	send_unnamed(large);
	send_unnamed(large);
	answers("dd");
	CHECK(mine->has_confirmed_text);
	answers("du");
	CHECK_TEXT(text_is(), "");
	CHECK_INT(mine->journal_texts, 0);
	end();
}

/* An idle client keeps little more than the text itself. */
TEST(memory_of_an_idle_client)
{
	static char large[20001];

	begin();
	memset(large, 'x', sizeof(large) - 1);
	for (int i = 0; i < 3; i++) {
		send_unnamed(large);
		answers("d");
	}
	CHECK(mine->confirmed_text.capacity >= 20000);
	prepared_client_trim(&client);
	CHECK_INT(mine->confirmed_text.capacity, 0);
	CHECK(mine->text.capacity <= 20000 + 512);
	CHECK_INT(bytes_size(&mine->text), 20000);
	CHECK(memcmp(bytes_front(&mine->text), large, 20000) == 0);
	send_unnamed("small");
	answers("d");
	send_unnamed("smaller");
	answers("d");
	CHECK(mine->text.capacity >= 20000 || mine->confirmed_text.capacity >= 20000);
	prepared_client_trim(&client);
	CHECK(mine->text.capacity <= 512 && mine->confirmed_text.capacity <= 512);
	CHECK_TEXT(text_is(), "smaller");
	send_unnamed(large);
	send_unnamed(NULL);
	answers("dd");
	prepared_client_trim(&client);
	CHECK(mine->text.capacity <= 512 && mine->confirmed_text.capacity <= 512);
	CHECK_TEXT(text_is(), "");
	end();
}

UNIT_MAIN
