/*
 * Budgets: the limit is never exceeded, an object of the same name shares its budget, and waiting objects are woken in their order.
 */
#include "base/mem.h"
#include "shared/shared.h"
#include "unit.h"

#include <string.h>

static struct shared *shared;
static char rung[32], first[] = "1", second[] = "2";

static void on_ring(void *owner, void *context)
{
	CHECK(!context);
	strcat(rung, owner);
}

TEST(a_budget_is_taken_up_to_its_limit)
{
	struct budget b;

	budget_init(&b, 2);
	CHECK(budget_take(&b) && budget_take(&b) && !budget_take(&b));
	CHECK_INT(b.used, 2);
	CHECK_INT(budget_excess(&b), 1);
	CHECK(!budget_has_room(&b) && !budget_is_exceeded(&b));
	budget_give(&b);
	CHECK(budget_has_room(&b) && budget_excess(&b) == 0 && budget_take(&b));
}

TEST(a_reserve_and_a_minimum_are_other_ends_of_the_same_budget)
{
	struct budget b;

	budget_init(&b, 2);
	CHECK(budget_take_up_to(&b, 1) && !budget_take_up_to(&b, 1));
	CHECK(budget_take(&b) && !budget_take(&b));
	CHECK(budget_take_up_to(&b, 3) && !budget_take_up_to(&b, 3));
	CHECK(budget_is_exceeded(&b));
	CHECK_INT(budget_excess(&b), 2);
}

TEST(a_limit_of_zero_is_no_limit)
{
	struct budget b;

	budget_init(&b, 0);
	for (int i = 0; i < 100; i++)
		CHECK(budget_take(&b));
	CHECK(budget_has_room(&b) && !budget_is_exceeded(&b) && budget_excess(&b) == 0);
}

TEST(a_lower_limit_keeps_what_is_taken)
{
	struct budget b;

	budget_init(&b, 5);
	for (int i = 0; i < 4; i++)
		budget_take(&b);
	budget_set_limit(&b, 2);
	CHECK(budget_is_exceeded(&b) && !budget_take(&b));
	CHECK_INT(budget_excess(&b), 3);
	for (int i = 0; i < 3; i++)
		budget_give(&b);
	CHECK(budget_take(&b) && !budget_take(&b));
	/* an existing connection counts in any case */
	budget_add(&b);
	CHECK_INT(b.used, 3);
}

TEST(objects_of_one_name_share_a_budget)
{
	struct budget *one, *other, *third;

	shared = shared_new();
	one = budget_hold(shared, BUDGET_POOL, "app", "ann", NULL);
	other = budget_hold(shared, BUDGET_POOL, "app", "ann", NULL);
	CHECK(one && one == other);
	budget_set_limit(one, 1);
	CHECK(budget_take(one) && !budget_take(other));
	/* neither another kind nor another division into parts is the same name */
	third = budget_hold(shared, BUDGET_USER, "app", "ann", NULL);
	CHECK(third != one && third->limit == 0);
	budget_drop(shared, &third);
	third = budget_hold(shared, BUDGET_POOL, "appann", NULL, NULL);
	CHECK(third != one);
	budget_drop(shared, &third);
	third = budget_hold(shared, BUDGET_POOL, "app", "ann", "h:5432");
	CHECK(third != one);
	budget_drop(shared, &third);
	CHECK(!third);
	budget_drop(shared, &one);
	CHECK_INT(other->used, 1);
	budget_give(other);
	budget_drop(shared, &other);
	budget_drop(shared, &other);
	shared_free(&shared);
	CHECK(!shared);
}

TEST(waiting_objects_are_woken_longest_waiting_first)
{
	struct budget b;
	struct budget_wait one, two;
	struct bell bell, other;

	shared = shared_new();
	shared_join(shared, &bell);
	budget_init(&b, 1);
	budget_wait_init(&one, first);
	budget_wait_init(&two, second);
	CHECK(!budget_is_awaited(&one));
	budget_wait(shared, &b.waiting, &two, true);
	budget_wait(shared, &b.waiting, &one, true);
	budget_wait(shared, &b.waiting, &two, true);
	CHECK(budget_is_awaited(&one));
	CHECK_INT(bell.shortages, 2);
	/* a world that comes later has the same count */
	shared_join(shared, &other);
	CHECK_INT(other.shortages, 2);
	shared_leave(shared, &other);
	budget_wake(&b.waiting, on_ring, NULL);
	CHECK_TEXT(rung, "21");
	budget_wait(shared, &b.waiting, &two, false);
	budget_wait(shared, &b.waiting, &two, false);
	rung[0] = '\0';
	budget_wake(&b.waiting, on_ring, NULL);
	CHECK_TEXT(rung, "1");
	budget_wait(shared, &b.waiting, &one, false);
	CHECK_INT(bell.shortages, 0);
	shared_leave(shared, &bell);
	shared_free(&shared);
}

UNIT_MAIN
