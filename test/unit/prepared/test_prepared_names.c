/* A client's statement names in the table: memory accounting, comparison, out of memory, and memory of idle clients. */
#include "prepared_ends.h"

#define CUT 63				/* significant bytes of a name */

/* ---- costs ---- */

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

/* ---- which is which ---- */

TEST(comparison_of_names)
{
	char a[CUT + 3], b[CUT + 3];
	struct prepared_name *n;

	begin();
	memset(a, 'n', sizeof(a));
	a[sizeof(a) - 1] = '\0';
	memcpy(b, a, sizeof(b));
	b[CUT] = 'x';
	n = name_new(mine, a, sizeof(a));
	REQUIRE(n);
	CHECK(name_find(mine, b, sizeof(b)) == n && name_is_same(n, b));
	b[CUT - 1] = 'x';
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
	CHECK(!n->listed && !find("a"));
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
	name_moves(&world, mine, n, st[2]);
	CHECK_TEXT(name_is("a"), "2/2");
	CHECK(n->first == st[1]);
	name_moves(&world, mine, n, st[3]);
	/* the first statement is remembered, intermediate statements are not */
	CHECK(n->first == st[1]);
	name_moves(&world, mine, n, st[1]);
	CHECK(!n->first);
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
	name_forgotten(&world, mine, n);
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
	names_gone(&world, mine);
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
	unnamed_forgotten(mine);
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
	CHECK(mine->certain.capacity >= sizeof(text) - 1);
	prepared_client_rests(&client);
	CHECK(mine->certain.capacity == 0 && !mine->deallocates);
	CHECK_TEXT(text_is(), "one");
	/* the buffer of a large text is freed */
	bytes_append(&mine->text, text, sizeof(text));
	capacity = mine->text.capacity;
	mine->text.end -= sizeof(text);
	prepared_client_rests(&client);
	CHECK(mine->text.capacity < capacity);
	CHECK_TEXT(text_is(), "one");
	end();
}

UNIT_MAIN
