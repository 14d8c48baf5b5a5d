#ifndef VERIFIER_STAGE_H
#define VERIFIER_STAGE_H

/* Verifier processes that run this program again, and their client logins. */
#include "unit.h"
#include "verify/child.h"
#include "verify/verifier.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the verifier process: this program again, with the answer that the user's name says ---- */

static void say(uint64_t ticket, enum verify_verdict verdict, bool has_key)
{
	struct verify_answer answer;
	struct bytes out = BYTES_EMPTY;

	verify_answer_set(&answer, verdict, "%d", (int)getpid());
	answer.has_key = has_key;
	verify_answer_write(&out, ticket, &answer);
	send(STDIN_FILENO, bytes_front(&out), bytes_size(&out), MSG_NOSIGNAL);
	bytes_free(&out);
}

static void act(const char *user, uint64_t ticket)
{
	static const char noise[VERIFY_ANSWER_MOST + 1] = "noise";

	if (strcmp(user, "hang") == 0)
		while (recv(STDIN_FILENO, (char[]){ 0 }, 1, 0) > 0)
			;
	else if (strcmp(user, "die") == 0)
		raise(SIGKILL);
	else if (strcmp(user, "noise") == 0)
		send(STDIN_FILENO, noise, 5, MSG_NOSIGNAL);
	else if (strcmp(user, "long") == 0)
		send(STDIN_FILENO, noise, sizeof(noise), MSG_NOSIGNAL);
	else if (strcmp(user, "stale") == 0)
		say(ticket - 1, VERIFIED_YES, false);
	else if (strcmp(user, "key") == 0)
		say(ticket, VERIFIED_YES, true);
	else
		say(ticket, strcmp(user, "yes") == 0 || strcmp(user, "twice") == 0 ? VERIFIED_YES : VERIFIED_NO, false);
	if (strcmp(user, "twice") == 0)
		say(ticket, VERIFIED_YES, false);
}

__attribute__((constructor)) static void be_a_verifier(int argc, char **argv)
{
	static uint8_t data[VERIFY_QUESTION_MOST];
	struct verify_question q;
	struct ldap_options ldap;
	uint64_t ticket;
	ssize_t size;

	if (argc != 3 || strcmp(argv[1], VERIFY_CHILD_OPTION) != 0)
		return;
	while ((size = recv(STDIN_FILENO, data, sizeof(data), 0)) > 0)
		if (verify_question_read(data, (size_t)size, &ticket, &q, &ldap))
			act(q.user, ticket);
	_exit(0);
}

/* ---- the outside ---- */

struct stage {
	struct event_base *base;
	struct verifiers *v;
	usec_t now;
};

struct login {
	struct verify_check *check;
	struct verify_answer answer;
	int answers;
	struct event_base *base;
};

static inline struct stage open_stage(int processes, int waiting)
{
	struct stage s = { .base = event_base_new(), .now = 1000 * USEC };

	s.v = verifiers_new(s.base, &(struct verify_limits){ processes, waiting });
	return s;
}

static inline void close_stage(struct stage *s)
{
	verifiers_free(&s->v);
	event_base_free(s->base);
}

static inline void on_done(void *context, const struct verify_answer *answer)
{
	struct login *l = context;

	l->answer = *answer;
	l->answers++;
	l->check = NULL;
	event_base_loopbreak(l->base);
}

static inline enum verify_refusal ask_from(struct stage *s, struct login *l, uint8_t address, const char *user)
{
	const struct verify_question q = { .method = VERIFY_PAM, .user = user, .password = "x", .service = "s" };
	const struct verify_source source = { .bytes = { address } };

	*l = (struct login){ .base = s->base };
	return verifiers_ask(s->v, &q, &source, s->now, on_done, l, &l->check);
}

static inline enum verify_refusal ask(struct stage *s, struct login *l, const char *user)
{
	return ask_from(s, l, 1, user);
}

/* Runs the loop, with a tick, until the condition holds; fails the test if it never holds. */
#define TURN_UNTIL(s, condition)                                                    \
	do {                                                                        \
		const struct timeval unit_wait = { .tv_usec = 10000 };              \
		int unit_left = 2000;                                               \
		while (!(condition) && unit_left-- > 0) {                           \
			event_base_loopexit((s)->base, &unit_wait);                 \
			event_base_dispatch((s)->base);                             \
			verifiers_tick((s)->v, (s)->now);                           \
		}                                                                   \
		CHECK(condition);                                                   \
	} while (0)

struct count {
	int busy, idle, waiting;
};

static inline void count_one(void *context, const struct verify_view *view)
{
	struct count *c = context;

	c->busy += strcmp(view->state, "busy") == 0;
	c->idle += strcmp(view->state, "idle") == 0;
	c->waiting += strcmp(view->state, "waiting") == 0;
}

static inline struct count count(const struct stage *s)
{
	struct count c = { 0, 0, 0 };

	verifiers_each(s->v, count_one, &c);
	return c;
}

static inline bool is_gone(int pid)
{
	return kill(pid, 0) < 0 && errno == ESRCH;
}

#endif
