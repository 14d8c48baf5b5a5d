/*
 * The clock and the event loop of a simulated world: the functions of libevent that pgweir calls, over a clock that advances only when nothing is
 * left to do at the present time.
 *
 * As in libevent, events are level-triggered, and all ready events make one pass, in which an event deleted by another callback does not run, and an
 * activated event runs. Deliberate differences: the order within a pass and the number of events per pass are random (epoll returns as many as fit),
 * and a timer may be late, as on a busy machine, because pgweir must not rely on them.
 *
 * Invariant: `candidates` contains each descriptor with an event that may be ready, once; every other descriptor is not ready.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "chance.h"
#include "machine.h"
#include "sim.h"

#include <event2/event_struct.h>
#include <string.h>

#define START (1000 * USEC)
#define WALL_AHEAD ((usec_t)1790000000 * USEC)
#define CALL_TIME 2			/* duration of a call without a result: the loop may poll until its time is over */
#define IDLE_TURNS_MOST 4000		/* without a byte, an actor or a tick */
#define EVENTS_MOST 4096
#define FLAG_ADDED 1
#define FLAG_ACTIVE 2

struct event_base { int unused; };

static struct {
	usec_t now, lateness;
	uint64_t turns;
	uint32_t idle_turns;
	struct actor *actors[EVENTS_MOST];
	int actor_count;
	struct event *by_fd[EVENTS_MOST];	/* see fd_index */
	int candidates[EVENTS_MOST];
	bool is_candidate[EVENTS_MOST];
	int candidate_count;
	struct event *timers[64];
	usec_t due[64], late[64];	/* when each is due, and when it comes if nothing else wakes the loop before */
	usec_t every[64];
	int timer_count;
	struct event *active[EVENTS_MOST];
	int active_count;
	int event_count;
	struct event_base base;
} loop;

/* ---- the clock ---- */

usec_t loop_now(void)
{
	return loop.now;
}

usec_t __wrap_clock_monotonic(void);
usec_t __wrap_clock_monotonic(void)
{
	return loop.now;
}

usec_t __wrap_clock_wall(void);
usec_t __wrap_clock_wall(void)
{
	return loop.now + WALL_AHEAD;
}

uint64_t loop_turns(void)
{
	return loop.turns;
}

void loop_progress(void)
{
	loop.idle_turns = 0;
}

/* ---- actors: a heap by their moments ---- */

static void put_at(int place, struct actor *a)
{
	loop.actors[place] = a;
	a->place = place;
}

static void sift_up(struct actor *a)
{
	int place = a->place;

	while (place > 0 && loop.actors[(place - 1) / 2]->moment > a->moment) {
		put_at(place, loop.actors[(place - 1) / 2]);
		place = (place - 1) / 2;
	}
	put_at(place, a);
}

static void sift_down(struct actor *a)
{
	int place = a->place;

	for (;;) {
		int child = 2 * place + 1;

		if (child >= loop.actor_count)
			break;
		if (child + 1 < loop.actor_count && loop.actors[child + 1]->moment < loop.actors[child]->moment)
			child++;
		if (loop.actors[child]->moment >= a->moment)
			break;
		put_at(place, loop.actors[child]);
		place = child;
	}
	put_at(place, a);
}

void actor_init(struct actor *actor, void (*act)(struct actor *actor), usec_t slowness)
{
	*actor = (struct actor){ .place = -1, .act = act, .slowness = slowness };
}

void actor_at(struct actor *actor, usec_t moment)
{
	if (actor->place >= 0 && actor->moment <= moment)
		return;
	actor->moment = moment > loop.now ? moment : loop.now;
	if (actor->place < 0) {
		SIM_CHECK(loop.actor_count < EVENTS_MOST, "too many actors");
		actor->place = loop.actor_count++;
	}
	sift_up(actor);
}

void actor_notice(struct actor *actor)
{
	if (actor)
		actor_at(actor, loop.now + chance_spread(0, actor->slowness));
}

void actor_rest(struct actor *actor)
{
	int place = actor->place;
	struct actor *last;

	if (place < 0)
		return;
	actor->place = -1;
	last = loop.actors[--loop.actor_count];
	if (last == actor)
		return;
	put_at(place, last);
	sift_up(last);
	sift_down(last);
}

static void let_actors_act(void)
{
	while (loop.actor_count > 0 && loop.actors[0]->moment <= loop.now) {
		struct actor *a = loop.actors[0];

		actor_rest(a);
		loop_progress();
		a->act(a);
	}
}

/* ---- events ---- */

static bool is_fake(int fd)
{
	return fd >= SIM_FD && fd < SIM_FD + EVENTS_MOST;
}

void loop_may_be_ready(int fd)
{
	int index = fd - SIM_FD;

	if (!is_fake(fd) || loop.is_candidate[index] || !loop.by_fd[index])
		return;
	loop.is_candidate[index] = true;
	loop.candidates[loop.candidate_count++] = index;
}

int event_assign(struct event *ev, struct event_base *base, evutil_socket_t fd, short events, event_callback_fn callback, void *arg)
{
	memset(ev, 0, sizeof(*ev));
	ev->ev_base = base;
	ev->ev_fd = fd;
	ev->ev_events = events;
	ev->ev_evcallback.evcb_cb_union.evcb_callback = callback;
	ev->ev_evcallback.evcb_arg = arg;
	return 0;
}

int event_initialized(const struct event *ev)
{
	return ev->ev_evcallback.evcb_cb_union.evcb_callback != NULL;
}

struct event *event_new(struct event_base *base, evutil_socket_t fd, short events, event_callback_fn callback, void *arg)
{
	struct event *ev = mem_must(sizeof(*ev));

	event_assign(ev, base, fd, events, callback, arg);
	return ev;
}

struct event_base *event_get_base(const struct event *ev)
{
	return ev->ev_base;
}

static void set_timer(int i, usec_t due)
{
	loop.due[i] = due;
	loop.late[i] = due + (loop.lateness ? chance_spread(0, loop.lateness) : 0);
}

static usec_t usec_of(const struct timeval *t)
{
	return (usec_t)t->tv_sec * USEC + t->tv_usec;
}

static bool is_set_again(const struct event *ev, const struct timeval *after)
{
	for (int i = 0; ev->ev_fd < 0 && after && i < loop.timer_count; i++) {
		if (loop.timers[i] == ev) {
			set_timer(i, loop.now + usec_of(after));
			return true;
		}
	}
	return false;
}

int event_add(struct event *ev, const struct timeval *after)
{
	if (is_set_again(ev, after))
		return 0;
	SIM_CHECK(!(ev->ev_evcallback.evcb_flags & FLAG_ADDED), "an event was added twice");
	ev->ev_evcallback.evcb_flags |= FLAG_ADDED;
	loop.event_count++;
	if (ev->ev_fd < 0) {
		int i = loop.timer_count++;

		SIM_CHECK(after && i < 64, "a timer without a time, or too many");
		loop.timers[i] = ev;
		loop.every[i] = ev->ev_events & EV_PERSIST ? usec_of(after) : 0;
		set_timer(i, loop.now + usec_of(after));
		return 0;
	}
	SIM_CHECK(is_fake(ev->ev_fd) && !loop.by_fd[ev->ev_fd - SIM_FD], "two events, or one for a descriptor that is none");
	loop.by_fd[ev->ev_fd - SIM_FD] = ev;
	loop_may_be_ready(ev->ev_fd);
	return 0;
}

static void forget_timer(int i)
{
	loop.timer_count--;
	loop.timers[i] = loop.timers[loop.timer_count];
	loop.due[i] = loop.due[loop.timer_count];
	loop.late[i] = loop.late[loop.timer_count];
	loop.every[i] = loop.every[loop.timer_count];
}

int event_del(struct event *ev)
{
	for (int i = 0; (ev->ev_evcallback.evcb_flags & FLAG_ACTIVE) && i < loop.active_count; i++)
		if (loop.active[i] == ev)
			loop.active[i] = NULL;
	if (ev->ev_evcallback.evcb_flags & FLAG_ADDED) {
		loop.event_count--;
		if (ev->ev_fd >= 0)
			loop.by_fd[ev->ev_fd - SIM_FD] = NULL;
		else
			for (int i = 0; i < loop.timer_count; i++)
				if (loop.timers[i] == ev)
					forget_timer(i);
	}
	ev->ev_evcallback.evcb_flags = 0;
	return 0;
}

int event_pending(const struct event *ev, short events, struct timeval *when)
{
	SIM_CHECK(events == EV_TIMEOUT && !when, "an unknown question to an event");
	return ev->ev_evcallback.evcb_flags & FLAG_ADDED ? EV_TIMEOUT : 0;
}

void event_free(struct event *ev)
{
	event_del(ev);
	mem_free(ev);
}

void event_active(struct event *ev, int what, short count)
{
	(void)count;
	if (ev->ev_evcallback.evcb_flags & FLAG_ACTIVE) {
		ev->ev_res |= (short)what;
		return;
	}
	SIM_CHECK(loop.active_count < EVENTS_MOST, "too many active events");
	ev->ev_evcallback.evcb_flags |= FLAG_ACTIVE;
	ev->ev_res = (short)what;
	loop.active[loop.active_count++] = ev;
}

/* The name of the method, as libevent would report it in the log. */
const char *event_base_get_method(const struct event_base *base)
{
	(void)base;
	return "chance";
}

const char *event_get_version(void)
{
	return "simulated";
}

struct event_base *sim_event_base(void)
{
	return &loop.base;
}

/* ---- a pass ---- */

/* False: there are some, but none that this pass knows of. */
static bool collect_ready(void)
{
	int kept = 0, count = loop.candidate_count, known = 0;

	for (int i = 0; i < count; i++) {
		int index = loop.candidates[i];
		struct event *ev = loop.by_fd[index];
		short ready = ev ? wire_ready(index + SIM_FD, ev->ev_events) : 0;

		if (!ready) {
			loop.is_candidate[index] = false;
			continue;
		}
		loop.candidates[kept++] = index;
		/* occasionally epoll's result array has no room for this event */
		if (chance_one_in(16))
			continue;
		event_active(ev, ready, 0);
		known++;
	}
	loop.candidate_count = kept;
	return known > 0 || kept == 0;
}

static void collect_timers(void)
{
	for (int i = loop.timer_count - 1; i >= 0; i--) {
		struct event *ev = loop.timers[i];

		if (loop.due[i] > loop.now)
			continue;
		if (loop.every[i] > 0) {
			set_timer(i, loop.now + loop.every[i]);
		} else {
			forget_timer(i);
			ev->ev_evcallback.evcb_flags &= ~FLAG_ADDED;
			loop.event_count--;
		}
		event_active(ev, EV_TIMEOUT, 0);
		loop_progress();
	}
}

/* Nothing is left to do now: on to the moment of the next. */
static void advance(void)
{
	usec_t next = INT64_MAX;

	if (loop.actor_count > 0)
		next = loop.actors[0]->moment;
	for (int i = 0; i < loop.timer_count; i++)
		if (loop.late[i] < next)
			next = loop.late[i];
	SIM_CHECK(next < INT64_MAX, "nothing will ever happen again");
	if (next > loop.now)
		loop.now = next;
}

static void run_active(void)
{
	while (loop.active_count > 0) {
		int i = (int)chance_below((uint32_t)loop.active_count);
		struct event *ev = loop.active[i];

		loop.active[i] = loop.active[--loop.active_count];
		if (!ev)
			continue;
		ev->ev_evcallback.evcb_flags &= ~FLAG_ACTIVE;
		ev->ev_evcallback.evcb_cb_union.evcb_callback(ev->ev_fd, ev->ev_res, ev->ev_evcallback.evcb_arg);
	}
}

int event_base_loop(struct event_base *base, int flags)
{
	bool some = false, knows;

	(void)base;
	loop.turns++;
	SIM_CHECK(++loop.idle_turns < IDLE_TURNS_MOST, "the loop turns and turns, and nothing moves");
	loop.now += chance_below(20);
	for (;;) {
		let_actors_act();
		knows = collect_ready();
		collect_timers();
		some = listeners_accept() || loop.active_count > 0;
		run_active();
		if (!some && (flags & EVLOOP_NONBLOCK))
			loop.now += CALL_TIME;
		if (some || (flags & EVLOOP_NONBLOCK))
			return 0;
		/* epoll does not sleep while events are ready */
		if (knows)
			advance();
	}
}

void loop_begin(usec_t lateness)
{
	memset(&loop, 0, sizeof(loop));
	loop.now = START;
	loop.lateness = lateness;
}

bool loop_end(void)
{
	return loop.event_count == 0;
}
