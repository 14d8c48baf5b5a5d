/* Named statements and portals, and their memory accounting. test_extended.c tests the limits over the protocol. */
#include "admin/held.h"

#include "unit.h"

static struct sql_span span(const char *text) { return (struct sql_span){ text, strlen(text) }; }

TEST(statements_are_found_by_name)
{
	struct held held;
	struct held_statement *s;

	held_init(&held);
	CHECK(held_statement_find(&held, "") == NULL);
	CHECK_INT(held_statement_add(&held, "", span("show pools")), HELD_OK);
	CHECK_INT(held_statement_add(&held, "a", (struct sql_span){ "show mem; pause", 8 }), HELD_OK);
	CHECK_INT(held.count, 2);
	CHECK_INT(held.bytes, 10 + 1 + 8);
	s = held_statement_find(&held, "a");
	REQUIRE(s != NULL);
	CHECK_TEXT(s->name, "a");
	CHECK_TEXT(s->text, "show mem");
	held_statement_drop(&held, s);
	CHECK(held_statement_find(&held, "a") == NULL && held_statement_find(&held, "") != NULL);
	CHECK_INT(held.bytes, 10);
	held_free(&held);
	CHECK_INT(held.count, 0);
	CHECK_INT(held.bytes, 0);
}

TEST(portals_count_their_rows)
{
	struct held held;
	struct portal *p;

	held_init(&held);
	CHECK_INT(held_statement_add(&held, "s", span("show pools")), HELD_OK);
	CHECK_INT(held_portal_add(&held, "p", held_statement_find(&held, "s"), &p), HELD_OK);
	REQUIRE(p != NULL && held_portal_find(&held, "p") == p);
	CHECK_INT(p->state, PORTAL_READY);
	CHECK_INT(p->command.id, COMMAND_SHOW);
	CHECK_INT(held.bytes, 11 + 12);
	bytes_append(&p->result.rows, "12345", 5);
	held_count_rows(&held, p);
	CHECK_INT(held.bytes, 11 + 12 + 5);
	bytes_consume(&p->result.rows, 3);
	held_count_rows(&held, p);
	CHECK_INT(held.bytes, 11 + 12 + 2);
	/* the statement may be closed first */
	held_statement_drop(&held, held_statement_find(&held, "s"));
	held_end_portals(&held);
	CHECK_INT(held.count, 0);
	CHECK_INT(held.bytes, 0);
	held_free(&held);
}

TEST(objects_beyond_the_limit_are_refused)
{
	static char text[1024 * 1024 + 1];
	struct held held;
	struct portal *p;

	held_init(&held);
	memset(text, ' ', sizeof(text));
	CHECK_INT(held_statement_add(&held, "", (struct sql_span){ text, sizeof(text) }), HELD_TOO_MUCH);
	CHECK_INT(held_statement_add(&held, "", (struct sql_span){ text, sizeof(text) / 2 }), HELD_OK);
	CHECK_INT(held_statement_add(&held, "", (struct sql_span){ text, sizeof(text) / 2 }), HELD_OK);
	CHECK_INT(held_portal_add(&held, "p", held_statement_find(&held, ""), &p), HELD_TOO_MUCH);
	CHECK(p == NULL);
	held_end_portals(&held);
	held_statement_drop(&held, held_statement_find(&held, ""));
	CHECK_INT(held_portal_add(&held, "", held_statement_find(&held, ""), &p), HELD_OK);
	bytes_append(&p->result.rows, text, sizeof(text));
	CHECK(!held_is_full(&held));
	held_count_rows(&held, p);
	CHECK(held_is_full(&held));
	held_free(&held);
	held_init(&held);
	for (int i = 0; i < 1000; i++)
		CHECK_INT(held_statement_add(&held, "x", span("")), HELD_OK);
	CHECK_INT(held_statement_add(&held, "x", span("")), HELD_TOO_MUCH);
	held_free(&held);
}

UNIT_MAIN
