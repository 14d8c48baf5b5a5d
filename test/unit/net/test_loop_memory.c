/*
 * The memory pool for small blocks of the event loop: libevent allocates from the pool, falls back to malloc when the pool is full, and frees all
 * blocks. The sanitizers would report a block that was freed to the wrong allocator.
 */
#include "net/loop_memory.h"

#include "unit.h"

#include <event2/event.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAIRS 100
#define PLACE ((size_t)150)

static void nothing(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	(void)context;
}

TEST(small_blocks_come_from_the_pool)
{
	static struct event *events[2 * PAIRS];
	struct event_base *base;
	int fds[2 * PAIRS];
	size_t at_first;

	loop_memory_begin(PLACE);
	base = event_base_new();
	REQUIRE(base);
	at_first = loop_memory_used();
	for (int i = 0; i < 2 * PAIRS; i += 2)
		REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds + i) == 0);
	for (int i = 0; i < 2 * PAIRS; i++) {
		events[i] = event_new(base, fds[i], EV_READ | EV_PERSIST, nothing, NULL);
		REQUIRE(events[i] && event_add(events[i], NULL) == 0);
		if (i == 0)
			CHECK_INT(loop_memory_used(), at_first + 1);
	}
	CHECK_INT(loop_memory_used(), PLACE);
	for (int i = 0; i < 2 * PAIRS; i++) {
		event_free(events[i]);
		close(fds[i]);
	}
	CHECK_INT(loop_memory_used(), PLACE);
	event_base_free(base);
	CHECK_INT(loop_memory_used(), 0);
}

TEST(freed_blocks_are_reused_first)
{
	struct event_base *base;
	int fds[2];

	for (int turn = 0; turn < 2 * (int)PLACE; turn++) {
		base = event_base_new();
		REQUIRE(base && socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
		REQUIRE(event_base_once(base, fds[0], EV_WRITE, nothing, NULL, NULL) == 0 && event_base_loop(base, EVLOOP_ONCE) == 0);
		CHECK(loop_memory_used() > 0);
		event_base_free(base);
		CHECK_INT(loop_memory_used(), 0);
		close(fds[0]);
		close(fds[1]);
	}
}

UNIT_MAIN
