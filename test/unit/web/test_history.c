/* The samples of the last hour: room web. */
#include "whole.h"
#include "unit.h"
#include "web/history.h"

#include "base/mem.h"

static struct history h;

static void add(uint64_t from, uint64_t to)
{
	for (uint64_t second = from; second < to; second++)
		history_add(&h, whole.world->pools, (usec_t)second * USEC, (usec_t)second * USEC);
}

TEST(the_ring_keeps_an_hour)
{
	struct bytes out = BYTES_EMPTY;

	whole_open(WHOLE_INI("", ""));
	add(1000, 1003);
	CHECK_INT(h.count, 3);
	CHECK_INT(h.due, 1003 * USEC);
	CHECK_INT(history_find(&h, 0), 0);
	CHECK_INT(history_find(&h, 1001), 2);
	CHECK_INT(history_find(&h, 5000), 3);
	CHECK_INT(history_write(&h, 1, 1, &out), 2);
	bytes_append_u8(&out, 0);
	CHECK_TEXT((const char *)bytes_front(&out), "[1001,0,0,0,0,0,0,0,0,0,0,0,0,0],\n");
	bytes_free(&out);
	add(1003, 1000 + HISTORY_SECONDS + 100);
	/* the oldest samples are gone, and an old position begins with the first that is left */
	CHECK_INT(history_find(&h, 0), 100);
	CHECK_INT(history_write(&h, 0, 10, &out), 110);
	CHECK(memcmp(bytes_front(&out), "[1100,", 6) == 0);
	CHECK_INT(history_write(&h, h.count, 10, &out), h.count);
	bytes_free(&out);
	history_free(&h);
	whole_close();
}

TEST(without_memory_there_are_no_samples)
{
	whole_open(WHOLE_INI("", ""));
	whole_memory_ends(0);
	add(1, 2);
	CHECK_INT(whole_memory_is_back(), 1);
	CHECK_INT(h.count, 0);
	CHECK_INT(history_find(&h, 0), 0);
	add(2, 3);
	CHECK_INT(h.count, 1);
	history_free(&h);
	whole_close();
}

UNIT_MAIN
