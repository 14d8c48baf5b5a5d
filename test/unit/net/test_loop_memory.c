/*
 * The memory pool for small blocks of the event loop: small blocks come from one area, other blocks and the blocks after the area is full from
 * malloc. The sanitizers would report a block that was freed to the wrong allocator.
 */
#include "net/loop_memory.h"

#include "unit.h"

#include <event2/event.h>
#include <stdbool.h>
#include <string.h>

#define PLACE 150

static void *(*take)(size_t size);
static void *(*resize)(void *block, size_t size);
static void (*give)(void *block);
static char *area;

/* In place of the function of libevent: the tests call the allocator themselves. */
void event_set_mem_functions(void *(*malloc_fn)(size_t size), void *(*realloc_fn)(void *block, size_t size), void (*free_fn)(void *block))
{
	take = malloc_fn;
	resize = realloc_fn;
	give = free_fn;
}

static bool is_in_area(const char *block)
{
	return block >= area && block < area + PLACE * LOOP_BLOCK;
}

TEST(small_blocks_come_from_the_pool)
{
	char *blocks[PLACE], *more;

	loop_memory_begin(PLACE);
	REQUIRE(take && resize && give);
	area = take(1);
	for (int i = 1; i < PLACE; i++) {
		blocks[i] = take(i % 2 ? LOOP_BLOCK : 8);
		CHECK(is_in_area(blocks[i]));
		memset(blocks[i], i, 8);
	}
	for (int i = 1; i < PLACE; i++)
		CHECK(blocks[i][0] == (char)i && blocks[i][7] == (char)i);
	more = take(8);
	CHECK(!is_in_area(more));
	give(more);
	more = take(LOOP_BLOCK + 1);
	CHECK(!is_in_area(more));
	give(more);
	for (int i = 1; i < PLACE; i++)
		give(blocks[i]);
}

TEST(freed_blocks_are_reused_first)
{
	char *block = take(8);

	for (int turn = 0; turn < 2 * PLACE; turn++) {
		CHECK(is_in_area(block));
		give(block);
		CHECK(take(8) == block);
	}
	give(block);
}

TEST(a_block_that_grows_leaves_the_pool)
{
	char *block = resize(NULL, 8), *larger;

	CHECK(is_in_area(block));
	strcpy(block, "kept");
	CHECK(resize(block, LOOP_BLOCK) == block);
	larger = resize(block, 3 * LOOP_BLOCK);
	CHECK(!is_in_area(larger));
	CHECK_TEXT(larger, "kept");
	CHECK(take(8) == block);
	larger = resize(larger, 9 * LOOP_BLOCK);
	CHECK_TEXT(larger, "kept");
	give(larger);
	give(block);
}

UNIT_ALONE
