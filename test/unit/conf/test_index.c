/* Names to objects. */
#include "conf/index.h"

#include "unit.h"

TEST(objects_are_found_in_insertion_order)
{
	enum { MANY = 3000 };
	static int objects[MANY];
	struct arena *arena = arena_new();
	struct index index = { NULL };
	const struct index_node *node = NULL;
	char name[16];
	int *object, i = 0;

	CHECK(!index_get(&index, "n1"));
	CHECK(!index_next(&index, &node));
	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		CHECK(index_put(&index, arena, arena_copy(arena, name, strlen(name)), &objects[i]));
	}
	CHECK_INT(index_count(&index), MANY);
	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		CHECK(index_get(&index, name) == &objects[i]);
	}
	CHECK(!index_get(&index, "n"));
	CHECK(!index_get(&index, "n3000"));
	i = 0;
	node = NULL;
	while ((object = index_next(&index, &node)))
		CHECK(object == &objects[i++]);
	CHECK_INT(i, MANY);
	index_clear(&index);
	CHECK_INT(index_count(&index), 0);
	arena_free(&arena);
}

TEST(repeated_name_keeps_its_position)
{
	struct arena *arena = arena_new();
	struct index index = { NULL };
	const struct index_node *node = NULL;
	int a, b, c;

	CHECK(index_put(&index, arena, "x", &a));
	CHECK(index_put(&index, arena, "y", &b));
	CHECK(index_put(&index, arena, "x", &c));
	CHECK_INT(index_count(&index), 2);
	CHECK(index_next(&index, &node) == &c);
	CHECK(index_next(&index, &node) == &b);
	CHECK(!index_next(&index, &node));
	index_clear(&index);
	arena_free(&arena);
}

UNIT_MAIN
