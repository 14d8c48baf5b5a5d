/*
 * The turn: one iteration of the event loop. All work of pgweir is done by these steps, which
 * doc/architecture.md names in the same order. For each step: its work, why it is in this place,
 * and the fault that appears if it is moved.
 *
 *	share        Computes the share of each connection from the number of streams in the last
 *		     turn. First, because the handlers of the next steps read within the share:
 *		     after `events`, the connections that epoll reports first would read most.
 *	events       Runs the handlers of sockets, DNS and signals; a handler acts on its own
 *		     connection and marks others. The only step that sleeps, and all later steps use
 *		     the clock that its first handler reads. It does not sleep if an earlier turn
 *		     has left work (world_has_again(), a handshake).
 *	again        Reads connections with input that no event announces, such as decrypted bytes
 *		     or the input beyond a share; continues console clients; sends notifications.
 *		     After `events`, whose handlers put connections on the list: before it, these
 *		     would wait for another turn, and each notification would be a write of its own.
 *		     Before `reap`, because a last message may end its client or release its server.
 *	handshakes   Continues the next TLS handshake of a client, which takes 1 to 2 ms. After the
 *		     handlers, so that the answers of this turn do not wait for it. It knows whether
 *		     `events` found the loop idle, and may then take more time.
 *	tick         Ten times a second: timeouts, lifetimes, statistics. After `events` and
 *		     `again`, because input that has arrived comes before a timeout: if the process
 *		     was stopped for a minute, a tick before them would end clients that are not
 *		     late. Before `reap`, which closes the connections that it ends.
 *	reap         Ends marked connections (core/reap.c); their servers become free. After all
 *		     handlers, because the stack of a handler has pointers to its connection:
 *		     earlier, memory in use would be freed. Before `schedule`: later, a free server
 *		     would wait for a turn, and closed connections would count for the limits.
 *	schedule     Lends, opens and closes servers of marked pools; repeats reap and schedule
 *		     until nothing is left. Lending reads the held messages of a client, so it must
 *		     not run in the handler of another connection. After all steps that mark pools,
 *		     so that one decision sees all clients and servers of the turn.
 *	console      Runs commands that wait for a condition, such as PAUSE. After `schedule`, which
 *		     closes the servers that the condition counts: earlier, the answer would come
 *		     one turn late.
 *	settle       Reaps and schedules again: no connection that the console has ended is handed
 *		     over.
 *	give         In a tick: hands connections over to a process that replaces this one. Here no
 *		     connection is ending, no handler is on the stack, and nothing else happens
 *		     until the other process has answered: in the middle of a turn, records that
 *		     were sent first would be outdated before the last.
 *	settle       Reaps and schedules again: closes the sockets that were handed over, before
 *		     `events` could report input that belongs to the other process.
 *	check        Test builds: checks every invariant of the world. Last, because invariants may
 *		     be broken between a mark and the step that acts on it.
 *
 * Writing has no step: bytes are sent while they are in the buffer. The clock is read once a turn,
 * by the first event (world_wake).
 */
#include "main/turn.h"

#include "base/inline.h"
#include "login/handshake.h"
#include "relay/relay.h"
#include "core/lifecycle.h"

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

/* A server returned by the reap is lent in the same turn. */
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
