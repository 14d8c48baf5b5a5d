/* A server's statements and the journal: memory accounting, order of use, and validity of readings. */
#include "prepared_ends.h"

/* ---- the set ---- */

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
	entry_was_read(has, entry_find(has, st[2]), READING_UNSURE);
	send_replay(3);
	entries_gone(&world, has);
	CHECK_TEXT(entry_is(1), "");
	CHECK_TEXT(entry_is(2), "");
	/* the statement is in flight: prepared after the removal */
	CHECK_TEXT(entry_is(3), "1/0");
	answers("d");
	CHECK_TEXT(entry_is(3), "1/1");
	end();
}

/* ---- readings ---- */

TEST(uncertain_readings)
{
	begin();
	send_replay(1);
	send_replay(2);
	answers("dd");
	CHECK(!has->unsure);
	entry_was_read(has, entry_find(has, st[1]), READING_UNSURE);
	CHECK(has->unsure);
	readings_are(has, READING_OWN);
	CHECK(!has->unsure);
	CHECK_INT(entry_find(has, st[1])->reading, READING_OWN);
	entry_was_read(has, entry_find(has, st[1]), READING_UNSURE);
	readings_differ(has);
	CHECK_INT(entry_find(has, st[1])->reading, READING_OTHER);
	CHECK_INT(entry_find(has, st[2])->reading, READING_OWN);
	end();
}

/* Statements in flight have the reading that was reported before their answers; later ones do not. */
TEST(readings_of_statements_in_flight)
{
	begin();
	send_replay(1);
	op_at(has, 0)->reading = READING_UNSURE;
	send_replay(2);
	CHECK_INT(op_reading(has, 0), READING_UNSURE);
	readings_differ(has);
	send_replay(3);
	op_at(has, 2)->reading = READING_UNSURE;
	CHECK_INT(op_reading(has, 0), READING_OTHER);
	CHECK_INT(op_reading(has, 1), READING_OWN);
	CHECK_INT(op_reading(has, 2), READING_UNSURE);
	/* when entries are removed, the others keep their numbers */
	answers("d");
	CHECK_INT(op_reading(has, 0), READING_OWN);
	CHECK_INT(op_reading(has, 1), READING_UNSURE);
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
TEST(operations_in_progress_hold_references)
{
	struct prepared_name *n;

	begin();
	send_replay(1);
	CHECK_INT(has->under_way, 0);
	send_parse("a", 2);
	CHECK_INT(has->under_way, sizeof(*st[2]) + st[2]->size);
	answers("dd");
	CHECK_INT(has->under_way, 0);
	n = name_new(NULL, "abc", sizeof("abc"));
	CHECK(op_push(has, OP_USE, n, NULL));
	name_drop(&world, &n);
	CHECK_INT(has->under_way, sizeof(*n) + 3);
	answers("d");
	CHECK_INT(has->under_way, 0);
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

UNIT_MAIN
