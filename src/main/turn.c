/*
 * The turn: one iteration of the event loop. All work of pgweir is done by these steps, which
 * doc/architecture.md explains:
 *
 *	share        compute the share of each connection in this turn from the number of streams in
 *		     the last one
 *	events       run the handlers of sockets, DNS and signals; a handler acts on its own
 *		     connection and marks others
 *	again        read connections with input that no event announces; continue console clients
 *	handshakes   continue the next TLS handshake of a client
 *	tick         ten times a second: timeouts, lifetimes, statistics
 *	reap         end marked connections (core/reap.c); their servers become free
 *	schedule     lend, open and close servers; repeat reap and schedule until nothing is left
 *	console      run commands that wait for a condition
 *	settle       reap and schedule again: no connection that the console ended is handed over
 *	give         in a tick: hand connections over to a process that replaces this one
 *	settle       reap and schedule again, for connections that were handed over
 *	check        test builds: check every invariant of the world
 *
 * Writing has no step: bytes are sent while they are in the buffer. The clock is read once a turn,
 * by the first event (world_wake).
 */
#include "main/turn.h"

#include "base/inline.h"
#include "login/handshake.h"
#include "relay/relay.h"
#include "core/world.h"

#include <event2/event.h>

/* rounds of scheduling and reaping per turn; the rest waits for the next turn */
#define ROUNDS_MOST 64

static void on_turn_tick(evutil_socket_t fd, short what, void *context)
{
	struct pooler *p = context;

	(void)fd;
	(void)what;
	world_wake(p->world);
	p->tick_due = true;
}

bool turn_begin(struct pooler *p)
{
	const struct timeval every = { .tv_usec = TICK_MILLISECONDS * 1000 };

	p->tick = event_new(p->base, -1, EV_PERSIST, on_turn_tick, p);
	return p->tick && event_add(p->tick, &every) == 0;
}

/* A server that the reap returns to its pool is lent in the same turn. */
static NEVER_INLINE void reap_and_schedule(struct world *w)
{
	world_reap(w);
	for (int rounds = 0; rounds < ROUNDS_MOST && !list_is_empty(&w->pools->dirty); rounds++) {
		pools_schedule(w->pools, w->now);
		world_reap(w);
	}
}

static void reap_ending(struct world *w)
{
	if (!list_is_empty(&w->peers.ending))
		reap_and_schedule(w);
}

/* Waits for events and handles them: polls for some time (conn/busy_poll.h), then sleeps. */
static void wait_for_events(struct pooler *p)
{
	struct world *w = p->world;
	usec_t began, longest, polled = 0;

	if (!busy_poll_is_on(&w->loop.busy_poll)) {
		event_base_loop(p->base, EVLOOP_ONCE);
		return;
	}
	began = clock_monotonic();
	w->loop.has_traffic = false;
	longest = busy_poll_begin(&w->loop.busy_poll, began, w->queries.count);
	while (w->loop.clock_is_old && polled < longest) {
		event_base_loop(p->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
		polled = (w->loop.clock_is_old ? clock_monotonic() : w->now) - began;
	}
	if (w->loop.clock_is_old)
		event_base_loop(p->base, EVLOOP_ONCE);
	world_wake(w);
	busy_poll_end(&w->loop.busy_poll, w->now - began, polled, w->loop.has_traffic);
}

ALWAYS_INLINE bool turn(struct pooler *p)
{
	struct world *w = p->world;
	bool idle;

	relay_begin_turn(w);
	w->loop.clock_is_old = true;
	if (world_has_again(w) || w->logins.handshakes->is_busy)
		event_base_loop(p->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	else
		wait_for_events(p);
	idle = w->loop.clock_is_old;
	world_wake(w);
	world_again(w);
	if (w->logins.handshakes->is_busy)
		handshakes_turn(w, idle);
	if (p->tick_due) {
		busy_poll_tick(&w->loop.busy_poll, w->now, w->queries.count);
		world_tick(w);
	}
	if (!list_is_empty(&w->peers.ending) || !list_is_empty(&w->pools->dirty))
		reap_and_schedule(w);
	console_turn(p->console);
	reap_ending(w);
	if (p->tick_due) {
		p->tick_due = false;
		giver_turn(p->giver);
	}
	reap_ending(w);
#ifdef PGWEIR_TEST_BUILD
	world_check(w);
#endif
	return (w->drain.step == DRAIN_OFF && !w->successor) || !world_is_over(w);
}
