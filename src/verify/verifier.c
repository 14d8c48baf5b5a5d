/*
 * The verifiers and their questions: which verifier works on which question, which questions wait, which question is removed.
 * The life of one verifier is in verifier_process.c.
 *
 * A question waits (queue.c) until a verifier is idle or another one may be started. pgweir's own questions wait in a separate
 * queue, which takes turns with the queue of the clients: their number is limited elsewhere, and unauthenticated clients must
 * not delay pgweir's logins at its servers.
 *
 * idle -> busy -> idle   question sent, answer received
 * idle, busy -> ended    socket closed and the process killed; reaped by a tick
 *
 * A process counts until it is reaped. A process that cannot be killed (it waits for a disk that does not answer) therefore
 * keeps its place, and a client that logs in and leaves in a loop cannot exceed the limit of processes.
 *
 * Invariant: a check either is in the queue or displaced and has no process, or belongs to exactly one busy process. While a
 * check waits, the maximum number of processes exists and none is idle, or the dispatch event is scheduled; while a check is
 * displaced, the event is scheduled.
 */
#include "verify/verifier.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/log.h"
#include "verify/verifier_parts.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>

#define IDLE_MOST (60 * USEC)		/* an idle process is ended after this time: most of the time no client logs in */

static void check_free(struct verify_check *check)
{
	bytes_wipe(&check->question);
	mem_free(check->user);
	mem_free(check);
}

void verify_check_finish(struct verify_check *check, const struct verify_answer *answer)
{
	verify_done *done = check->done;
	void *context = check->context;

	check_free(check);
	done(context, answer);
}

int verifiers_waiting(const struct verifiers *v)
{
	return v->clients.waiting + v->own.waiting;
}

static struct verify_queue *queue_of(struct verifiers *v, bool is_own)
{
	return is_own ? &v->own : &v->clients;
}

/* Returns the next check of the two queues, in turns. NULL: both are empty. */
static struct verify_place *next_place(struct verifiers *v)
{
	struct verify_place *place = verify_queue_next(queue_of(v, v->own_is_next));

	if (!place)
		return verify_queue_next(queue_of(v, !v->own_is_next));
	v->own_is_next = !v->own_is_next;
	return place;
}

void verifiers_want_dispatch(struct verifiers *v)
{
	event_active(v->dispatch, EV_TIMEOUT, 0);
}

/* ---- questions ---- */

static struct verify_check *check_at(struct verify_place *place)
{
	return LIST_OBJECT(place, struct verify_check, place);
}

/* Fails all waiting questions: no verifier works, and none can be started, so they would wait forever. */
static void fail_all(struct verifiers *v, const char *why)
{
	struct verify_answer answer;
	struct verify_place *place;

	log_error("no verifier can be started: %s", why);
	verify_answer_set(&answer, VERIFIED_UNKNOWN, "no verifier can be started: %s", why);
	while ((place = next_place(v)) != NULL)
		verify_check_finish(check_at(place), &answer);
}

/* Displaced checks are reported from the event loop, like all answers. */
static void tell_displaced(struct verifiers *v)
{
	struct verify_answer answer;

	verify_answer_set(&answer, VERIFIED_DISPLACED, "made room for a login from another address");
	while (!list_is_empty(&v->displaced)) {
		struct verify_check *check = LIST_OBJECT(v->displaced.next, struct verify_check, place.node);

		list_remove(&check->place.node);
		verify_check_finish(check, &answer);
	}
}

/* Returns the verifier for the next question. NULL: the question must wait. */
static struct verifier *next_verifier(struct verifiers *v)
{
	struct list *idle = list_first(&v->idle);
	struct verifier *one;

	if (idle)
		return LIST_OBJECT(idle, struct verifier, node);
	if (v->processes >= v->limits.processes)
		return NULL;
	one = verifier_start(v);
	if (!one && list_is_empty(&v->busy))
		fail_all(v, strerror(errno));
	return one;
}

static void on_dispatch(evutil_socket_t fd, short what, void *context)
{
	struct verifiers *v = context;
	int processes = v->processes;
	struct verifier *one;

	(void)fd;
	(void)what;
	tell_displaced(v);
	while (verifiers_waiting(v) > 0 && v->processes == processes && (one = next_verifier(v)))
		verifier_give(one, check_at(next_place(v)));
	/* starting a process blocks the event loop: other events are handled before the next start */
	if (verifiers_waiting(v) > 0 && v->processes > processes)
		event_add(v->dispatch, &(struct timeval){ .tv_sec = 0 });
}

/* Makes room in the queue for a question of this source. */
static bool make_room(struct verifiers *v, bool is_own, const struct verify_source *source)
{
	struct verify_place *place;

	if (is_own || v->clients.waiting < v->limits.waiting)
		return true;
	place = verify_queue_displace(&v->clients, source);
	if (!place)
		return false;
	list_append(&v->displaced, &place->node);
	verifiers_want_dispatch(v);
	return true;
}

/* Creates a check that is not in the queue. NULL with the reason. */
static struct verify_check *check_new(struct verifiers *v, const struct verify_question *question, enum verify_refusal *why)
{
	struct verify_check *check = mem_try(sizeof(*check));
	bool fits;

	*why = VERIFIERS_NO_MEMORY;
	if (!check)
		return NULL;
	*check = (struct verify_check){ .ticket = ++v->last_ticket, .is_own = question->is_own, .method = question->method,
					 .user = mem_copy_string(question->user) };
	verify_place_init(&check->place);
	fits = verify_question_write(&check->question, check->ticket, question);
	if (fits && check->user && !check->question.failed)
		return check;
	check_free(check);
	if (!fits)
		*why = VERIFIERS_TOO_LONG;
	return NULL;
}

enum verify_refusal verifiers_ask(struct verifiers *v, const struct verify_question *question, const struct verify_source *source,
				  usec_t now, verify_done *done, void *context, struct verify_check **out)
{
	enum verify_refusal why;
	struct verify_check *check = check_new(v, question, &why);

	*out = NULL;
	v->now = now;
	if (!check)
		return why;
	check->since = now;
	check->done = done;
	check->context = context;
	why = !make_room(v, check->is_own, source) ? VERIFIERS_TOO_MANY :
	      !verify_queue_add(queue_of(v, check->is_own), &check->place, source) ? VERIFIERS_NO_MEMORY : VERIFIERS_ASKED;
	if (why != VERIFIERS_ASKED) {
		check_free(check);
		return why;
	}
	verifiers_want_dispatch(v);
	*out = check;
	return VERIFIERS_ASKED;
}

void verifiers_share(struct verifiers *v, struct verify_check *check, const struct verify_source *source)
{
	if (!check->is_own)
		verify_queue_share(&v->clients, &check->place, source);
}

void verifiers_cancel(struct verifiers *v, struct verify_check **place)
{
	struct verify_check *check = *place;

	*place = NULL;
	if (!check)
		return;
	if (check->by)
		verifier_end(check->by);
	verify_queue_remove(queue_of(v, check->is_own), &check->place);
	/* it may have been displaced and not reported yet */
	list_remove(&check->place.node);
	check_free(check);
}

int verify_check_process(const struct verify_check *check)
{
	return check->by ? (int)check->by->pid : 0;
}

/* ---- all verifiers ---- */

static void end_long_idle(struct verifiers *v)
{
	/* the process that is idle longest is last */
	while (!list_is_empty(&v->idle)) {
		struct verifier *one = LIST_OBJECT(v->idle.prev, struct verifier, node);

		if (v->now - one->since < IDLE_MOST)
			return;
		verifier_end(one);
	}
}

void verifiers_tick(struct verifiers *v, usec_t now)
{
	v->now = now;
	end_long_idle(v);
	LIST_EACH_SAFE(node, &v->ended)
		verifier_reap(LIST_OBJECT(node, struct verifier, node));
	if (verifiers_waiting(v) > 0)
		verifiers_want_dispatch(v);
}

static void end_idle(struct verifiers *v)
{
	while (!list_is_empty(&v->idle))
		verifier_end(LIST_OBJECT(v->idle.next, struct verifier, node));
}

void verifiers_renew(struct verifiers *v, const struct verify_limits *limits)
{
	v->limits = *limits;
	end_idle(v);
	LIST_EACH(node, &v->busy)
		LIST_OBJECT(node, struct verifier, node)->is_old = true;
	if (verifiers_waiting(v) > 0)
		verifiers_want_dispatch(v);
}

struct verifiers *verifiers_new(struct event_base *base, const struct verify_limits *limits)
{
	struct verifiers *v = mem_try(sizeof(*v));

	if (!v)
		return NULL;
	v->base = base;
	v->limits = *limits;
	list_init(&v->idle);
	list_init(&v->busy);
	list_init(&v->ended);
	list_init(&v->displaced);
	verify_queue_init(&v->clients);
	verify_queue_init(&v->own);
	v->dispatch = event_new(base, -1, 0, on_dispatch, v);
	if (!v->dispatch) {
		mem_free(v);
		return NULL;
	}
	return v;
}

void verifiers_free(struct verifiers **place)
{
	struct verifiers *v = *place;

	*place = NULL;
	if (!v)
		return;
	ASSERT(verifiers_waiting(v) == 0 && list_is_empty(&v->displaced) && list_is_empty(&v->busy));
	end_idle(v);
	/* processes that have not ended yet are reaped by init */
	LIST_EACH_SAFE(node, &v->ended)
		verifier_reap(LIST_OBJECT(node, struct verifier, node));
	LIST_EACH_SAFE(node, &v->ended)
		mem_free(LIST_OBJECT(node, struct verifier, node));
	event_free(v->dispatch);
	mem_free(v);
}

struct visitor {
	void (*visit)(void *context, const struct verify_view *view);
	void *context;
};

static void show_waiting(void *context, struct verify_place *place)
{
	const struct visitor *to = context;
	const struct verify_check *check = check_at(place);

	to->visit(to->context, &(struct verify_view){ 0, "waiting", verify_method_name(check->method), check->user, check->since, 0 });
}

void verifiers_each(const struct verifiers *v, void (*visit)(void *context, const struct verify_view *view), void *context)
{
	LIST_EACH(node, &v->busy) {
		const struct verifier *one = LIST_OBJECT(node, struct verifier, node);
		const struct verify_check *check = one->check;

		visit(context, &(struct verify_view){ (int)one->pid, "busy", verify_method_name(check->method), check->user, check->since,
						      one->answered });
	}
	LIST_EACH(node, &v->idle) {
		const struct verifier *one = LIST_OBJECT(node, struct verifier, node);

		visit(context, &(struct verify_view){ (int)one->pid, "idle", NULL, NULL, one->since, one->answered });
	}
	verify_queue_each(&v->own, show_waiting, &(struct visitor){ visit, context });
	verify_queue_each(&v->clients, show_waiting, &(struct visitor){ visit, context });
}
