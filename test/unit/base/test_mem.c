/* Blocks, secrets and arenas. Tests of wiping look at the memory just before it is freed. */
#include "base/mem.h"

#include "unit.h"

#include <stddef.h>
#include <stdint.h>

TEST(memory_begins_zeroed)
{
	unsigned char *memory = mem_try(512);
	unsigned sum = 0;

	REQUIRE(memory);
	for (size_t i = 0; i < 512; i++)
		sum |= memory[i];
	CHECK_INT(sum, 0);
	mem_free(memory);
	memory = mem_try(0);
	CHECK(memory);
	mem_free(memory);
	mem_free(NULL);
}

TEST(resize_keeps_what_was_there)
{
	char *memory = mem_resize(NULL, 4);

	REQUIRE(memory);
	memcpy(memory, "abc", 4);
	memory = mem_resize(memory, 1000);
	REQUIRE(memory);
	CHECK_TEXT(memory, "abc");
	mem_free(memory);
}

TEST(strings_are_copied)
{
	char text[] = "weir";
	char *copy = mem_copy_string(text);

	text[0] = 'X';
	CHECK_TEXT(copy, "weir");
	CHECK(!mem_copy_string(NULL));
	mem_free(copy);
}

TEST(wipe_leaves_zeros_and_touches_nothing_else)
{
	char text[] = "secret";

	mem_wipe(text + 1, 4);
	CHECK(memcmp(text, "s\0\0\0\0t", 7) == 0);
	mem_wipe(NULL, 0);
}

TEST(constant_time_comparison_sees_every_byte)
{
	unsigned char a[32] = { 0 }, b[32] = { 0 };

	CHECK(mem_equal_constant_time(a, b, sizeof(a)));
	for (size_t i = 0; i < sizeof(a); i++) {
		b[i] = 0x80;
		CHECK(!mem_equal_constant_time(a, b, sizeof(a)));
		CHECK(mem_equal_constant_time(a, b, i));
		b[i] = 0;
	}
	CHECK(mem_equal_constant_time(a, b, 0));
}

TEST(secret_holds_any_bytes_and_a_terminator)
{
	struct secret *secret = secret_new("a\0b", 3);

	REQUIRE(secret);
	CHECK_INT(secret->length, 3);
	CHECK(memcmp(secret->bytes, "a\0b", 4) == 0);
	secret_free(&secret);
	CHECK(!secret);
	secret_free(&secret);
	secret = secret_new(NULL, 5);
	REQUIRE(secret);
	CHECK(memcmp(secret->bytes, "\0\0\0\0\0", 6) == 0);
	secret_free(&secret);
	CHECK(!secret_new(NULL, SIZE_MAX));
	CHECK(!secret_new(NULL, SIZE_MAX - 8));
}

TEST(secrets_are_compared_by_bytes)
{
	struct secret *a = secret_new("a\0b", 3), *same = secret_new("a\0b", 3), *other = secret_new("a\0c", 3), *longer = secret_new("a\0bc", 4);

	CHECK(secret_is_same(a, same) && secret_is_same(NULL, NULL));
	CHECK(!secret_is_same(a, other) && !secret_is_same(a, longer) && !secret_is_same(a, NULL) && !secret_is_same(NULL, a));
	secret_free(&a);
	secret_free(&same);
	secret_free(&other);
	secret_free(&longer);
}

TEST(arena_gives_aligned_zeroed_memory_that_does_not_overlap)
{
	enum { MANY = 2000 };
	struct arena *arena = arena_new(false);
	unsigned char *all[MANY];

	REQUIRE(arena);
	for (int i = 0; i < MANY; i++) {
		size_t size = (size_t)(i * 7 % 97);

		all[i] = arena_take(arena, size);
		REQUIRE(all[i]);
		CHECK_INT((uintptr_t)all[i] % _Alignof(max_align_t), 0);
		for (size_t k = 0; k < size; k++)
			CHECK_INT(all[i][k], 0);
		memset(all[i], i & 0xff, size);
	}
	for (int i = 0; i < MANY; i++) {
		for (int k = 0; k < i * 7 % 97; k++)
			CHECK_INT(all[i][k], i & 0xff);
	}
	arena_free(&arena);
	CHECK(!arena);
	arena_free(&arena);
}

TEST(hidden_memory_is_usable)
{
	struct arena *arena = arena_new(true);
	unsigned char *memory = mem_try_hidden(100000);

	REQUIRE(arena && memory);
	for (size_t i = 0; i < 100000; i++)
		CHECK_INT(memory[i], 0);
	memset(memory, 'x', 100000);
	mem_free_hidden(memory, 100000);
	mem_free_hidden(NULL, 100000);
	for (size_t size = 1; size < 200000; size *= 3)
		CHECK_TEXT(arena_copy(arena, "pool", 4), "pool");
	memory = arena_take(arena, 200000);
	REQUIRE(memory);
	memset(memory, 'x', 200000);
	arena_free(&arena);
	CHECK(!arena);
}

TEST(arena_serves_large_requests_and_refuses_absurd_ones)
{
	struct arena *arena = arena_new(false);
	char *large, *copy;

	REQUIRE(arena);
	large = arena_take(arena, 1000000);
	REQUIRE(large);
	memset(large, 'x', 1000000);
	copy = arena_copy(arena, "pool\0weir", 9);
	REQUIRE(copy);
	CHECK(memcmp(copy, "pool\0weir", 10) == 0);
	CHECK_TEXT(arena_copy(arena, NULL, 0), "");
	CHECK_TEXT(arena_copy(arena, "xy", 1), "x");
	CHECK(!arena_take(arena, SIZE_MAX));
	CHECK(!arena_copy(arena, "x", SIZE_MAX));
	arena_free(&arena);
}

UNIT_MAIN
