/*
 * The tables of prepared statements: a client's names and a server's statements, as sent and as certain; the texts of the unnamed statement; the
 * journal. Each test covers one feature; test_prepared_random.c combines them.
 */
#include "prepared_ends.h"

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
	name_moves(&world, mine, find("a"), st[2]);
	CHECK_TEXT(name_is("a"), "2/2");
	send_close("a");
	answers("u");
	CHECK_TEXT(name_is("a"), "2/2");
	/* the name is set back, replacing another statement */
	CHECK(find("a")->first == st[1]);
	name_moves(&world, mine, find("a"), st[3]);
	CHECK(find("a")->first == st[1]);
	name_moves(&world, mine, find("a"), st[1]);
	CHECK_TEXT(name_is("a"), "1/1");
	CHECK(!find("a")->first);
	/* the earlier statement of the name is forgotten with the name */
	name_moves(&world, mine, find("a"), st[2]);
	send_close("a");
	send_known("a", 4);
	answers("dd");
	CHECK_TEXT(name_is("a"), "4/4");
	CHECK(!find("a")->first);
	name_moves(&world, mine, find("a"), st[2]);
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
	CHECK(!old->listed);
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

/* ---- how texts were read ---- */

static enum reading reading_is(const struct statement *statement)
{
	const struct prepared_entry *e = entry_find(has, statement);

	CHECK(e && e->certain && !list_is_empty(&e->held));
	return (enum reading)e->reading;
}

static void send_unsure_replay(struct statement *statement)
{
	CHECK(entry_parse_sent(has, statement, batch));
	CHECK(op_push(has, OP_REPLAY, NULL, statement));
	op_at(has, has->op_count - 1)->reading = READING_UNSURE;
}

static void answer_replay(struct statement *statement)
{
	struct prepared_op op = op_take(has);

	CHECK(op.statement == statement);
	entry_done(&world, has, statement, true);
	entry_was_read(has, entry_find(has, statement), (enum reading)op.reading);
	op_release(&world, &op);
}

/* Checks the readings of a confirmed statement, of a statement whose Parse is in progress, and of both with a literal; then another Parse is sent. */
static void news_of_readings(void (*news)(void), enum reading there, enum reading under_way, enum reading literal,
			     enum reading literal_under_way)
{
	const struct params *none;
	struct statement *with[2];

	begin();
	none = params_none(world.params);
	with[0] = statement_take(world.statements, 1, none, (const uint8_t *)"SELECT '1'\0\0", 13);
	with[1] = statement_take(world.statements, 1, none, (const uint8_t *)"SELECT '2'\0\0", 13);
	send_unsure_replay(st[1]);
	send_unsure_replay(with[0]);
	answer_replay(st[1]);
	answer_replay(with[0]);
	CHECK(has->unsure && reading_is(st[1]) == READING_UNSURE && reading_is(with[0]) == READING_UNSURE);
	send_unsure_replay(st[2]);
	send_unsure_replay(with[1]);
	news();
	send_unsure_replay(st[3]);
	CHECK_INT(reading_is(st[1]), there);
	CHECK_INT(reading_is(with[0]), literal);
	answer_replay(st[2]);
	answer_replay(with[1]);
	answer_replay(st[3]);
	CHECK_INT(reading_is(st[2]), under_way);
	CHECK_INT(reading_is(with[1]), literal_under_way);
	CHECK_INT(reading_is(st[3]), READING_UNSURE);
	readings_are(has, READING_OWN);
	CHECK(!has->unsure && reading_is(st[3]) == READING_OWN);
	prepared_server_free(&server);
	for (int i = 0; i < 2; i++)
		statement_drop(world.statements, &with[i]);
	params_drop(world.params, &none);
	end();
}

static void parameters_are_reported(void)
{
	prepared_parameters_changed(&server);
}

static void an_error_comes(void)
{
	prepared_changes_undone(&server);
}

static void set_is_heard(void)
{
	prepared_set_heard(&server);
}

TEST(events_that_change_a_reading)
{
	news_of_readings(parameters_are_reported, READING_OTHER, READING_OTHER, READING_OTHER, READING_OTHER);
	news_of_readings(an_error_comes, READING_OTHER, READING_UNSURE, READING_OTHER, READING_UNSURE);
	news_of_readings(set_is_heard, READING_UNSURE, READING_UNSURE, READING_OTHER, READING_OTHER);
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
				prepared_client_rests(&client);
			CHECK_TEXT(text_is(), cases[i].is);
			end();
		}
}

/* A Query after its batch ends the unnamed statement without an entry in the journal, while the answer to its Parse is still pending. */
TEST(ended_unnamed_statement_is_not_certain)
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
		CHECK(op_at(has, 0)->kept && !op_at(has, 1)->kept && op_at(has, 2)->kept);
		answers("du");
		answers(round == 0 ? "dd" : "uu");
		CHECK(mine->kept);
		CHECK_INT(bytes_size(&mine->text), round == 0 ? 4 : sizeof(large) - 1);
	}
	/* the text that was not kept succeeds, and no later Parse does */
	send_unnamed("one");
	send_unnamed(large);
	send_unnamed(large);
	send_unnamed(large);
	answers("dd");
	CHECK(mine->certain_kept);
	answers("du");
	CHECK_TEXT(text_is(), "");
	CHECK_INT(mine->put_by, 0);
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

UNIT_MAIN
