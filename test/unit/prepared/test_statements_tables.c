/* The tables of prepared statements: memory accounting, truncated names, order of use, validity, references and idle clients. */
#include "statement_tables.h"

/* ---- entries ---- */

TEST(memory_of_an_entry)
{
	size_t cost;

	begin();
	cost = entry_cost(st[1]);
	CHECK(cost > st[1]->size);
	send_parse("a", 1);
	CHECK_INT(has->bytes, cost);
	CHECK_INT(has->count, 1);
	/* the same statement makes no second entry */
	send_replay(1);
	CHECK_INT(has->bytes, cost);
	send_replay(2);
	CHECK_INT(has->bytes, 2 * cost);
	answers("ddu");
	CHECK_INT(has->bytes, cost);
	CHECK_INT(has->count, 1);
	send_evict(1);
	/* as sent, the entry is removed */
	CHECK_INT(has->bytes, 0);
	CHECK_INT(prepared_server_count(&server), 0);
	answers("u");
	CHECK_INT(has->bytes, cost);
	CHECK_TEXT(entry_is(1), "1/1");
	send_evict(1);
	answers("d");
	CHECK_TEXT(entry_is(1), "");
	end();
}

TEST(order_of_use)
{
	begin();
	for (int i = 1; i <= 3; i++)
		send_replay(i);
	CHECK_TEXT(used(), "123");
	entry_used(has, entry_find(has, st[1]));
	CHECK_TEXT(used(), "231");
	answers("ddd");
	CHECK_TEXT(used(), "231");
	send_evict(3);
	CHECK_TEXT(used(), "21");
	/* a statement that is used again becomes the last */
	answers("u");
	CHECK_TEXT(used(), "213");
	end();
}

TEST(batches)
{
	begin();
	batch = 4;
	send_replay(1);
	CHECK_INT(entry_find(has, st[1])->batch, 4);
	CHECK_INT(entry_find(has, st[1])->in_flight, 1);
	answers("d");
	batch = 5;
	send_evict(1);
	CHECK_INT(entry_find(has, st[1])->batch, 5);
	answers("u");
	CHECK_INT(entry_find(has, st[1])->in_flight, 0);
	end();
}

TEST(all_entries_are_removed)
{
	begin();
	send_replay(1);
	send_replay(2);
	answers("dd");
	entry_confirm(has, entry_find(has, st[2]), true, PARSE_UNCERTAIN);
	send_replay(3);
	prepared_deallocated(&server, NULL, true);
	CHECK_TEXT(entry_is(1), "");
	CHECK_TEXT(entry_is(2), "");
	/* the statement is in flight: prepared after the removal */
	CHECK_TEXT(entry_is(3), "1/0");
	answers("d");
	CHECK_TEXT(entry_is(3), "1/1");
	end();
}

/* ---- validity of a Parse ---- */

TEST(uncertain_entries)
{
	begin();
	send_replay(1);
	send_replay(2);
	answers("dd");
	CHECK(!has->has_uncertain);
	entry_confirm(has, entry_find(has, st[1]), true, PARSE_UNCERTAIN);
	CHECK(has->has_uncertain);
	prepared_parameters_changed(&server, PARAMETERS_UNCHANGED);
	CHECK(!has->has_uncertain);
	CHECK_INT(entry_find(has, st[1])->validity, PARSE_VALID);
	entry_confirm(has, entry_find(has, st[1]), true, PARSE_UNCERTAIN);
	prepared_parameters_changed(&server, PARAMETERS_REPORTED);
	CHECK_INT(entry_find(has, st[1])->validity, PARSE_INVALID);
	CHECK_INT(entry_find(has, st[2])->validity, PARSE_VALID);
	end();
}

/* A report changes statements in flight that were sent before it. */
TEST(validity_of_statements_in_flight)
{
	begin();
	send_replay(1);
	op_at(has, 0)->validity = PARSE_UNCERTAIN;
	send_replay(2);
	CHECK_INT(op_validity(has, 0), PARSE_UNCERTAIN);
	prepared_parameters_changed(&server, PARAMETERS_REPORTED);
	send_replay(3);
	op_at(has, 2)->validity = PARSE_UNCERTAIN;
	CHECK_INT(op_validity(has, 0), PARSE_INVALID);
	CHECK_INT(op_validity(has, 1), PARSE_VALID);
	CHECK_INT(op_validity(has, 2), PARSE_UNCERTAIN);
	/* when entries are removed, the others keep their numbers */
	answers("d");
	CHECK_INT(op_validity(has, 0), PARSE_VALID);
	CHECK_INT(op_validity(has, 1), PARSE_UNCERTAIN);
	answers("dd");
	end();
}

/* ---- the journal ---- */

TEST(journal_ring_buffer)
{
	begin();
	for (int round = 0; round < 5; round++) {
		for (int i = 1; i <= STATEMENTS; i++)
			send_replay(i);
		for (int i = 0; i < STATEMENTS; i++)
			CHECK(op_at(has, (uint32_t)i)->statement == st[i + 1]);
		CHECK_INT(has->op_count, STATEMENTS);
		answers("dddddd");
	}
	CHECK_INT(has->op_capacity, 8);
	CHECK_INT(has->op_first, 5 * STATEMENTS);
	end();
}

/* The journal may hold the last reference to an entry. */
TEST(memory_of_operations_in_flight)
{
	struct prepared_name *n;

	begin();
	send_replay(1);
	CHECK_INT(has->journal_bytes, 0);
	send_parse("a", 2);
	CHECK_INT(has->journal_bytes, sizeof(*st[2]) + st[2]->size);
	answers("dd");
	CHECK_INT(has->journal_bytes, 0);
	n = name_new(NULL, "abc", sizeof("abc"));
	CHECK(op_push(has, OP_USE, n, NULL));
	name_drop(&world, &n);
	CHECK_INT(has->journal_bytes, sizeof(*n) + 3);
	answers("d");
	CHECK_INT(has->journal_bytes, 0);
	end();
}

TEST(quiet_server)
{
	begin();
	CHECK(prepared_is_quiet(&server));
	send_replay(1);
	CHECK(!prepared_is_quiet(&server));
	answers("d");
	CHECK(prepared_is_quiet(&server));
	has->unnamed_in_flight = 1;
	CHECK(!prepared_is_quiet(&server));
	has->unnamed_in_flight = 0;
	end();
	CHECK(prepared_is_quiet(&server));
}

/* ---- memory of names ---- */

TEST(memory_of_a_name)
{
	size_t cost;

	begin();
	cost = name_cost(sizeof("a"), st[1]->size);
	CHECK(cost > st[1]->size + sizeof("a"));
	CHECK_INT(name_cost(sizeof("abc"), st[1]->size), cost + 2);
	send_parse("a", 1);
	CHECK_INT(mine->bytes, cost);
	answers("d");
	CHECK_INT(mine->bytes, cost);
	send_parse("abc", 2);
	CHECK_INT(mine->bytes, 2 * cost + 2);
	/* a skipped name costs nothing any more */
	answers("u");
	CHECK_INT(mine->bytes, cost);
	send_close("a");
	CHECK_INT(mine->bytes, cost);
	answers("d");
	CHECK_INT(mine->bytes, 0);
	end();
}

TEST(a_name_is_counted_once)
{
	size_t cost;

	begin();
	send_parse("a", 1);
	cost = mine->bytes;
	send_close("a");
	send_parse("a", 2);
	CHECK_INT(mine->bytes, cost);
	answers("ddd");
	CHECK_INT(mine->bytes, cost);
	CHECK_TEXT(name_is("a"), "2/2");
	end();
}

/* ---- comparison of names ---- */

TEST(comparison_of_names)
{
	char a[NAME_SIGNIFICANT + 3], b[NAME_SIGNIFICANT + 3];
	struct prepared_name *n;

	begin();
	memset(a, 'n', sizeof(a));
	a[sizeof(a) - 1] = '\0';
	memcpy(b, a, sizeof(b));
	b[NAME_SIGNIFICANT] = 'x';
	n = name_new(mine, a, sizeof(a));
	REQUIRE(n);
	CHECK(name_find(mine, b, sizeof(b)) == n && name_is_same(n, b));
	b[NAME_SIGNIFICANT - 1] = 'x';
	CHECK(!name_find(mine, b, sizeof(b)) && !name_is_same(n, b));
	/* errors contain the name as the client sent it */
	CHECK_TEXT(n->text, a);
	end();
}

TEST(name_referenced_only_by_the_journal)
{
	struct prepared_name *n;

	begin();
	n = name_new(NULL, "a", sizeof("a"));
	REQUIRE(n);
	CHECK(!n->in_table && !find("a"));
	CHECK_INT(prepared_client_count(&client), 0);
	CHECK(op_push(has, OP_USE, n, NULL));
	name_drop(&world, &n);
	CHECK(!n);
	CHECK_TEXT(op_at(has, 0)->name->text, "a");
	end();
}

/* ---- statements of a name ---- */

TEST(name_moves_and_comes_back)
{
	struct prepared_name *n;

	begin();
	send_parse("a", 1);
	answers("d");
	n = find("a");
	name_move(&world, mine, n, st[2]);
	CHECK_TEXT(name_is("a"), "2/2");
	CHECK(n->original == st[1]);
	name_move(&world, mine, n, st[3]);
	/* the first statement is remembered, intermediate statements are not */
	CHECK(n->original == st[1]);
	name_move(&world, mine, n, st[1]);
	CHECK(!n->original);
	CHECK_TEXT(name_is("a"), "1/1");
	end();
}

TEST(forgotten_name)
{
	struct prepared_name *n;

	begin();
	send_parse("a", 1);
	answers("d");
	send_close("a");
	n = find("a");
	name_forget(&world, mine, n);
	/* an operation in flight may set the name again: the entry is kept */
	CHECK_TEXT(name_is("a"), "0/0");
	answers("u");
	CHECK_TEXT(name_is("a"), "");
	end();
}

TEST(all_names_are_cleared)
{
	begin();
	send_parse("a", 1);
	send_parse("b", 2);
	answers("dd");
	send_parse("c", 3);
	all_gone();
	CHECK_TEXT(name_is("a"), "");
	CHECK_TEXT(name_is("b"), "");
	CHECK_TEXT(name_is("c"), "3/0");
	answers("d");
	CHECK_TEXT(name_is("c"), "3/3");
	end();
}

/* ---- the unnamed statement ---- */

TEST(forgotten_text)
{
	begin();
	send_unnamed("one");
	answers("d");
	CHECK_TEXT(text_is(), "one");
	send_unnamed("two");
	unnamed_forget(mine);
	/* the next operation may succeed */
	CHECK_TEXT(text_is(), "two");
	answers("u");
	CHECK_TEXT(text_is(), "");
	end();
}

TEST(large_text_of_an_idle_client)
{
	char text[3000];
	size_t capacity;

	begin();
	memset(text, 't', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	send_unnamed(text);
	answers("d");
	send_unnamed("one");
	answers("d");
	mine->deallocates = true;
	CHECK(mine->confirmed_text.capacity >= sizeof(text) - 1);
	prepared_client_trim(&client);
	CHECK(mine->confirmed_text.capacity == 0 && !mine->deallocates);
	CHECK_TEXT(text_is(), "one");
	/* the buffer of a large text is freed */
	bytes_append(&mine->text, text, sizeof(text));
	capacity = mine->text.capacity;
	mine->text.end -= sizeof(text);
	prepared_client_trim(&client);
	CHECK(mine->text.capacity < capacity);
	CHECK_TEXT(text_is(), "one");
	end();
}

UNIT_MAIN
