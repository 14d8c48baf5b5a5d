/*
 * The verifiers and their questions: which verifier works on which question, which questions wait,
 * which question is removed.
 *
 * A question waits (queue.c) until a verifier is idle or may be started. pgweir's own questions
 * wait in a separate queue, which takes turns with the queue of the clients: their number is
 * limited elsewhere, and unauthenticated clients must not delay pgweir's logins at its servers.
 *
 * idle -> busy -> idle   question sent, answer received
 * idle, busy -> ended    socket closed and the process killed; reaped by a tick
 *
 * A process counts until it is reaped. Some processes cannot be killed at once, for example while
 * they wait for a hanging disk. They keep their places, so that logins in a loop cannot exceed the
 * limit of processes.
 *
 * Invariant: a check either is in the queue or displaced and has no process, or belongs to exactly
 * one busy process. While a check waits, the maximum number of processes exists and none is idle,
 * or the dispatch event is scheduled; while a check is displaced, the event is scheduled.
 */
#include "verify/verifier.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/list.h"
#include "base/log.h"
#include "verify/child.h"

/* an idle process is ended after this time: most of the time no client logs in */
#define IDLE_MOST (60 * USEC)
#define ANSWERS_MOST 1000		/* then it is replaced, because modules may leak memory */

struct verifiers {
	struct event_base *base;
	struct event *dispatch;
	struct list idle, busy, ended;	/* struct verifier */
	struct verify_queue clients, own;	/* struct verify_check */
	bool own_is_next;
	/* struct verify_check: removed from the queue, and not reported yet */
	struct list displaced;
	struct verify_limits limits;
	int processes;			/* not reaped yet */
	uint64_t last_ticket;
	usec_t now;
};

struct verifier {
	struct list node;
	struct verifiers *of;
	struct event *readable;
	struct verify_check *check;	/* the current question */
	pid_t pid;
	int fd;				/* -1: ended */
	usec_t since;			/* when it became idle */
	uint64_t answered;
	bool is_old;			/* ends after its answer */
	bool is_killed;			/* ended by pgweir: its exit status is not logged */
};

struct verify_check {
	struct verify_place place;	/* in the queue, or its node in `displaced` */
	struct verifier *by;		/* NULL: waits */
	struct bytes question;		/* empty after sending */
	uint64_t ticket;
	bool is_own;
	enum verify_method method;
	char *user;
	usec_t since;			/* when it was asked */
	verify_done *done;
	void *context;
};

static void check_free(struct verify_check *check)
{
	bytes_wipe(&check->question);
	mem_free(check->user);
	mem_free(check);
}

/* Reports the answer and frees the check. */
static void check_finish(struct verify_check *check, const struct verify_answer *answer)
{
	verify_done *done = check->done;
	void *context = check->context;

	check_free(check);
	done(context, answer);
}

static int count_waiting(const struct verifiers *v)
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
	struct verify_place *place = verify_queue_next(queue_of(v, v->own_is_next), NULL);

	if (!place)
		return verify_queue_next(queue_of(v, !v->own_is_next), NULL);
	v->own_is_next = !v->own_is_next;
	return place;
}

/* Schedules an attempt to give waiting questions to verifiers, from the event loop. */
static void want_dispatch(struct verifiers *v)
{
	event_active(v->dispatch, EV_TIMEOUT, 0);
}

/* ---- one verifier ---- */

/*
 * A verifier has one question at a time, and the answer contains the ticket of the question, so
 * that it cannot be taken for the answer to another question. Any other message ends the verifier,
 * which only affects the current login.
 */

/* Ends the verifier. The caller handles its check. `is_expected`: pgweir does not need it any
   longer, and its exit status is not logged. */
static void verifier_end(struct verifier *one, bool is_expected)
{
	one->is_killed = is_expected;
	if (one->readable)
		event_free(one->readable);
	one->readable = NULL;
	close(one->fd);
	one->fd = -1;
	one->check = NULL;
	list_remove(&one->node);
	list_append(&one->of->ended, &one->node);
	verify_process_kill(one->pid);
}

/* The verifier has failed or sent an invalid message: its current login fails. */
static void verifier_give_up(struct verifier *one, const char *what)
{
	struct verify_check *check = one->check;
	struct verify_answer answer;

	log_warning("verifier %d %s", (int)one->pid, what);
	verifier_end(one, false);
	if (!check)
		return;
	verify_answer_set(&answer, VERIFIED_UNKNOWN, "the verifier at work on it (process %d) %s",
			  (int)one->pid, what);
	check_finish(check, &answer);
}

/* Handles the answer. The verifier is idle or ended before the answer is reported, because the
   client may ask again. */
static void settle(struct verifier *one, const struct verify_answer *answer)
{
	struct verify_check *check = one->check;

	one->check = NULL;
	one->answered++;
	one->since = one->of->now;
	list_remove(&one->node);
	list_prepend(&one->of->idle, &one->node);
	if (one->is_old || one->answered >= ANSWERS_MOST ||
	    one->of->processes > one->of->limits.processes)
		verifier_end(one, true);
	else if (count_waiting(one->of) > 0)
		want_dispatch(one->of);
	check_finish(check, answer);
}

static void on_verifier_readable(evutil_socket_t fd, short what, void *context)
{
	struct verifier *one = context;
	uint8_t data[VERIFY_ANSWER_MOST];
	struct verify_answer answer;
	uint64_t ticket;
	ssize_t size = recv(fd, data, sizeof(data), MSG_TRUNC);

	(void)what;
	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (size <= 0)
		verifier_give_up(one, one->check ? "has ended without an answer" : "has ended");
	else if (size > (ssize_t)sizeof(data) ||
		 !verify_answer_read(data, (size_t)size, &ticket, &answer))
		verifier_give_up(one, "said what is no answer");
	else if (!one->check || ticket != one->check->ticket)
		verifier_give_up(one, "answered what was not asked");
	else if (answer.has_key !=
		 (one->check->method == VERIFY_SCRAM && answer.verdict == VERIFIED_YES))
		verifier_give_up(one, "answered something else than was asked");
	else
		settle(one, &answer);
	mem_wipe(data, sizeof(data));
	mem_wipe(&answer, sizeof(answer));
}

/* Starts an idle verifier. NULL with errno. */
static struct verifier *verifier_start(struct verifiers *v)
{
	struct verifier *one = mem_try(sizeof(*one));

	if (!one)
		return NULL;
	one->pid = verify_process_start(&one->fd);
	if (one->pid < 0) {
		mem_free(one);
		return NULL;
	}
	one->of = v;
	one->since = v->now;
	list_init(&one->node);
	list_append(&v->idle, &one->node);
	v->processes++;
	one->readable = event_new(v->base, one->fd, EV_READ | EV_PERSIST, on_verifier_readable,
				  one);
	if (!one->readable || event_add(one->readable, NULL) < 0) {
		verifier_end(one, true);
		errno = ENOMEM;
		return NULL;
	}
	log_debug("verifier %d was started", (int)one->pid);
	return one;
}

/* Sends a question, which must not be in the queue, to an idle verifier. */
static void verifier_give(struct verifier *one, struct verify_check *check)
{
	const struct bytes *question = &check->question;
	ssize_t sent = send(one->fd, bytes_front(question), bytes_size(question),
			    MSG_NOSIGNAL | MSG_DONTWAIT);

	check->by = one;
	one->check = check;
	list_remove(&one->node);
	list_append(&one->of->busy, &one->node);
	bytes_wipe(&check->question);
	if (sent < 0)
		verifier_give_up(one, "does not take questions");
}

/* Frees an ended verifier if its process has ended. */
static void verifier_reap(struct verifier *one)
{
	int status;

	if (!verify_process_reap(one->pid, &status))
		return;
	if (!one->is_killed && status >= 0) {
		if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
			log_warning("verifier %d was ended by signal %d (%s)", (int)one->pid,
				    WTERMSIG(status), strsignal(WTERMSIG(status)));
		else if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
			log_warning("verifier %d ended with status %d", (int)one->pid,
				    WEXITSTATUS(status));
	}
	one->of->processes--;
	list_remove(&one->node);
	mem_free(one);
}

/* ---- questions ---- */

static struct verify_check *check_at(struct verify_place *place)
{
	return LIST_OBJECT(place, struct verify_check, place);
}

/* Returns the verifier for the next question. NULL: the question must wait, or all waiting
   questions have failed. */
static struct verifier *next_verifier(struct verifiers *v)
{
	struct list *idle = list_first(&v->idle);
	struct verify_answer answer;
	struct verify_place *place;
	struct verifier *one;

	if (idle)
		return LIST_OBJECT(idle, struct verifier, node);
	if (v->processes >= v->limits.processes)
		return NULL;
	one = verifier_start(v);
	if (one || !list_is_empty(&v->busy))
		return one;
	/* no verifier works and none can be started: the questions would wait forever */
	verify_answer_set(&answer, VERIFIED_UNKNOWN, "no verifier can be started: %s",
			  strerror(errno));
	log_error("%s", answer.why);
	while ((place = next_place(v)) != NULL)
		check_finish(check_at(place), &answer);
	return NULL;
}

/* All answers are reported from the event loop, so that verifiers_ask does not call its caller. */
static void on_dispatch(evutil_socket_t fd, short what, void *context)
{
	struct verifiers *v = context;
	int processes = v->processes;
	struct verify_answer displaced;
	struct verifier *one;

	(void)fd;
	(void)what;
	verify_answer_set(&displaced, VERIFIED_DISPLACED,
			  "made room for a login from another address");
	while (!list_is_empty(&v->displaced)) {
		struct verify_check *check = LIST_OBJECT(v->displaced.next, struct verify_check,
							 place.node);

		list_remove(&check->place.node);
		check_finish(check, &displaced);
	}
	while (count_waiting(v) > 0 && v->processes == processes && (one = next_verifier(v)))
		verifier_give(one, check_at(next_place(v)));
	/* starting a process blocks the event loop: other events are handled before the next
	   start */
	if (count_waiting(v) > 0 && v->processes > processes)
		event_add(v->dispatch, &(struct timeval){ .tv_sec = 0 });
}

enum verify_refusal verifiers_ask(struct verifiers *v, const struct verify_question *question,
				  const struct verify_source *source, usec_t now, verify_done *done,
				  void *context, struct verify_check **out)
{
	enum verify_refusal why = VERIFIERS_ASKED;
	struct verify_check *check = mem_try(sizeof(*check));
	struct verify_place *displaced;

	*out = NULL;
	v->now = now;
	if (!check)
		return VERIFIERS_NO_MEMORY;
	*check = (struct verify_check){ .ticket = ++v->last_ticket,
					.is_own = question->is_own,
					.method = question->method,
					.user = mem_copy_string(question->user),
					.since = now,
					.done = done,
					.context = context };
	verify_place_init(&check->place);
	if (!verify_question_write(&check->question, check->ticket, question))
		why = VERIFIERS_TOO_LONG;
	else if (!check->user || check->question.failed)
		why = VERIFIERS_NO_MEMORY;
	if (why == VERIFIERS_ASKED && !check->is_own && v->clients.waiting >= v->limits.waiting) {
		displaced = verify_queue_displace(&v->clients, source);
		if (displaced)
			list_append(&v->displaced, &displaced->node);
		else
			why = VERIFIERS_TOO_MANY;
	}
	if (why == VERIFIERS_ASKED &&
	    !verify_queue_add(queue_of(v, check->is_own), &check->place, source))
		why = VERIFIERS_NO_MEMORY;
	want_dispatch(v);
	if (why != VERIFIERS_ASKED) {
		check_free(check);
		return why;
	}
	*out = check;
	return VERIFIERS_ASKED;
}

void verifiers_share(struct verifiers *v, struct verify_check *check,
		     const struct verify_source *source)
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
		verifier_end(check->by, true);
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

void verifiers_tick(struct verifiers *v, usec_t now)
{
	v->now = now;
	/* the process that is idle longest is last */
	while (!list_is_empty(&v->idle)) {
		struct verifier *one = LIST_OBJECT(v->idle.prev, struct verifier, node);

		if (now - one->since < IDLE_MOST)
			break;
		verifier_end(one, true);
	}
	LIST_EACH_SAFE(node, &v->ended)
		verifier_reap(LIST_OBJECT(node, struct verifier, node));
	if (count_waiting(v) > 0)
		want_dispatch(v);
}

static void end_idle(struct verifiers *v)
{
	while (!list_is_empty(&v->idle))
		verifier_end(LIST_OBJECT(v->idle.next, struct verifier, node), true);
}

void verifiers_renew(struct verifiers *v, const struct verify_limits *limits)
{
	v->limits = *limits;
	end_idle(v);
	LIST_EACH(node, &v->busy)
		LIST_OBJECT(node, struct verifier, node)->is_old = true;
	if (count_waiting(v) > 0)
		want_dispatch(v);
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
	ASSERT(count_waiting(v) == 0 && list_is_empty(&v->displaced) && list_is_empty(&v->busy));
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

static void verifier_show_waiting(void *context, struct verify_place *place)
{
	const struct visitor *to = context;
	const struct verify_check *check = check_at(place);

	to->visit(to->context,
		  &(struct verify_view){ 0, "waiting", verify_method_names[check->method],
					 check->user, check->since, 0 });
}

void verifiers_each(const struct verifiers *v,
		    void (*visit)(void *context, const struct verify_view *view), void *context)
{
	LIST_EACH(node, &v->busy) {
		const struct verifier *one = LIST_OBJECT(node, struct verifier, node);
		const struct verify_check *check = one->check;

		visit(context, &(struct verify_view){ (int)one->pid, "busy",
						      verify_method_names[check->method],
						      check->user, check->since, one->answered });
	}
	LIST_EACH(node, &v->idle) {
		const struct verifier *one = LIST_OBJECT(node, struct verifier, node);

		visit(context, &(struct verify_view){ (int)one->pid, "idle", NULL, NULL, one->since,
						      one->answered });
	}
	verify_queue_each(&v->own, verifier_show_waiting, &(struct visitor){ visit, context });
	verify_queue_each(&v->clients, verifier_show_waiting, &(struct visitor){ visit, context });
}
