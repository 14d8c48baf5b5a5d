/* Verifiers from the outside: queue, limits, and processes that die, lie or hang. */
#include "verify/verifier.h"

#include "unit.h"
#include "verify/child.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the inside: this program again, whose answer is what the user's name says ---- */

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
		say(ticket - 1, VERIFY_YES, false);
	else if (strcmp(user, "key") == 0)
		say(ticket, VERIFY_YES, true);
	else
		say(ticket, strcmp(user, "yes") == 0 || strcmp(user, "twice") == 0 ? VERIFY_YES : VERIFY_NO, false);
	if (strcmp(user, "twice") == 0)
		say(ticket, VERIFY_YES, false);
}

__attribute__((constructor)) static void be_a_verifier(int argc, char **argv)
{
	static uint8_t data[VERIFY_QUESTION_MOST];
	struct verify_question q;
	struct ldap_options ldap;
	uint64_t ticket;
	ssize_t size;

	if (!verify_child_is_wanted(argc, argv))
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

static struct stage open_stage(int processes, int waiting)
{
	struct stage s = { .base = event_base_new(), .now = 1000 * USEC };

	s.v = verifiers_new(s.base, &(struct verify_limits){ processes, waiting });
	return s;
}

static void close_stage(struct stage *s)
{
	verifiers_free(&s->v);
	event_base_free(s->base);
}

static void on_done(void *context, const struct verify_answer *answer)
{
	struct login *l = context;

	l->answer = *answer;
	l->answers++;
	l->check = NULL;
	event_base_loopbreak(l->base);
}

static enum verify_refusal ask_from(struct stage *s, struct login *l, uint8_t address, const char *user)
{
	const struct verify_question q = { .method = VERIFY_PAM, .user = user, .password = "x", .service = "s" };
	const struct verify_source source = { { address } };

	*l = (struct login){ .base = s->base };
	return verifiers_ask(s->v, &q, &source, s->now, on_done, l, &l->check);
}

static enum verify_refusal ask(struct stage *s, struct login *l, const char *user)
{
	return ask_from(s, l, 1, user);
}

/* Turns the loop, with a tick, until the condition holds; fails the test when it never does. */
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

static void count_one(void *context, const struct verify_view *view)
{
	struct count *c = context;

	c->busy += strcmp(view->state, "busy") == 0;
	c->idle += strcmp(view->state, "idle") == 0;
	c->waiting += strcmp(view->state, "waiting") == 0;
}

static struct count count(const struct stage *s)
{
	struct count c = { 0, 0, 0 };

	verifiers_each(s->v, count_one, &c);
	return c;
}

TEST(an_answer_comes_from_the_loop_and_the_process_is_used_again)
{
	struct stage s = open_stage(2, 10);
	struct login l;
	int pid;

	CHECK_INT(ask(&s, &l, "yes"), VERIFY_ASKED);
	CHECK_INT(l.answers, 0);
	TURN_UNTIL(&s, l.answers > 0);
	CHECK_INT(l.answer.verdict, VERIFY_YES);
	pid = atoi(l.answer.why);
	ask(&s, &l, "no");
	TURN_UNTIL(&s, l.answers > 0);
	CHECK_INT(l.answer.verdict, VERIFY_NO);
	CHECK_INT(atoi(l.answer.why), pid);
	CHECK_INT(count(&s).idle, 1);
	close_stage(&s);
}

TEST(what_breaks_the_rules_fails_its_own_login_only)
{
	static const char *const users[] = { "die", "noise", "long", "stale", "key" };
	struct stage s = open_stage(1, 10);
	struct login bad, good;

	for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
		ask(&s, &bad, users[i]);
		ask(&s, &good, "yes");
		TURN_UNTIL(&s, good.answers > 0);
		CHECK_INT(bad.answers, 1);
		CHECK_INT(bad.answer.verdict, VERIFY_UNKNOWN);
		CHECK(strstr(bad.answer.why, "the verifier at work on it (process "));
		CHECK_INT(good.answer.verdict, VERIFY_YES);
	}
	close_stage(&s);
}

/* The second answer must not let the next one in. */
TEST(two_answers)
{
	struct stage s = open_stage(1, 10);
	struct login first, second;

	ask(&s, &first, "twice");
	ask(&s, &second, "no");
	TURN_UNTIL(&s, second.answers > 0);
	CHECK_INT(first.answer.verdict, VERIFY_YES);
	CHECK(second.answer.verdict != VERIFY_YES);
	CHECK_INT(second.answers, 1);
	close_stage(&s);
}

TEST(the_limits)
{
	struct stage s = open_stage(2, 3);
	struct login l[6];
	struct count c;

	for (int i = 0; i < 2; i++)
		CHECK_INT(ask(&s, &l[i], "hang"), VERIFY_ASKED);
	TURN_UNTIL(&s, count(&s).busy == 2);
	for (int i = 2; i < 5; i++)
		CHECK_INT(ask(&s, &l[i], "yes"), VERIFY_ASKED);
	CHECK_INT(ask(&s, &l[5], "yes"), VERIFY_TOO_MANY);
	CHECK(!l[5].check);
	c = count(&s);
	CHECK_INT(c.busy, 2);
	CHECK_INT(c.waiting, 3);
	CHECK(verify_check_process(l[0].check) > 0);
	CHECK_INT(verify_check_process(l[2].check), 0);
	/* whoever waited and leaves is not answered; whoever is at work and leaves makes room */
	verifiers_cancel(s.v, &l[3].check);
	CHECK(!l[3].check);
	verifiers_cancel(s.v, &l[0].check);
	TURN_UNTIL(&s, l[2].answers > 0 && l[4].answers > 0);
	CHECK_INT(l[0].answers + l[1].answers + l[3].answers, 0);
	verifiers_cancel(s.v, &l[1].check);
	close_stage(&s);
}

TEST(one_address_keeps_no_other_out)
{
	struct stage s = open_stage(1, 3);
	struct login l[4], late[2];

	CHECK_INT(ask(&s, &l[0], "hang"), VERIFY_ASKED);
	TURN_UNTIL(&s, count(&s).busy == 1);
	for (int i = 1; i < 4; i++)
		CHECK_INT(ask(&s, &l[i], "hang"), VERIFY_ASKED);
	CHECK_INT(ask_from(&s, &late[0], 2, "yes"), VERIFY_ASKED);
	/* whoever has to go hears so from the loop */
	CHECK_INT(l[3].answers, 0);
	CHECK_INT(count(&s).waiting, 3);
	TURN_UNTIL(&s, l[3].answers > 0);
	CHECK_INT(l[3].answer.verdict, VERIFY_DISPLACED);
	CHECK_INT(ask_from(&s, &late[1], 2, "yes"), VERIFY_TOO_MANY);
	/* at most one of the other address is before it */
	verifiers_cancel(s.v, &l[0].check);
	TURN_UNTIL(&s, count(&s).busy == 1);
	verifiers_cancel(s.v, &l[1].check);
	TURN_UNTIL(&s, late[0].answers > 0);
	CHECK_INT(late[0].answer.verdict, VERIFY_YES);
	CHECK_INT(l[2].answers, 0);
	verifiers_cancel(s.v, &l[2].check);
	close_stage(&s);
}

TEST(who_was_displaced_may_leave_before_it_hears)
{
	struct stage s = open_stage(1, 2);
	struct login l[3], late;

	CHECK_INT(ask(&s, &l[0], "hang"), VERIFY_ASKED);
	TURN_UNTIL(&s, count(&s).busy == 1);
	CHECK_INT(ask(&s, &l[1], "hang"), VERIFY_ASKED);
	CHECK_INT(ask(&s, &l[2], "hang"), VERIFY_ASKED);
	CHECK_INT(ask_from(&s, &late, 2, "yes"), VERIFY_ASKED);
	verifiers_cancel(s.v, &l[2].check);
	verifiers_cancel(s.v, &l[1].check);
	verifiers_cancel(s.v, &l[0].check);
	TURN_UNTIL(&s, late.answers > 0);
	CHECK_INT(l[2].answers, 0);
	close_stage(&s);
}

static bool is_gone(int pid)
{
	return kill(pid, 0) < 0 && errno == ESRCH;
}

TEST(a_cancelled_one_is_killed_and_reaped)
{
	struct stage s = open_stage(1, 10);
	struct login l;
	int pid;

	ask(&s, &l, "hang");
	TURN_UNTIL(&s, verify_check_process(l.check) > 0);
	pid = verify_check_process(l.check);
	CHECK(!is_gone(pid));
	verifiers_cancel(s.v, &l.check);
	TURN_UNTIL(&s, is_gone(pid));
	CHECK_INT(l.answers, 0);
	close_stage(&s);
}

/* Without descriptors no process can be started: those who wait are told, and later ones are not. */
TEST(no_process_can_be_started)
{
	struct stage s = open_stage(2, 10);
	struct login first, second;
	struct rlimit limit, none;

	REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	none = (struct rlimit){ 3, limit.rlim_max };
	ask(&s, &first, "yes");
	ask(&s, &second, "yes");
	setrlimit(RLIMIT_NOFILE, &none);
	TURN_UNTIL(&s, first.answers > 0 && second.answers > 0);
	setrlimit(RLIMIT_NOFILE, &limit);
	CHECK_INT(first.answer.verdict, VERIFY_UNKNOWN);
	CHECK_TEXT(first.answer.why, "no verifier can be started: Too many open files");
	CHECK_INT(second.answer.verdict, VERIFY_UNKNOWN);
	ask(&s, &first, "yes");
	TURN_UNTIL(&s, first.answers > 0);
	CHECK_INT(first.answer.verdict, VERIFY_YES);
	close_stage(&s);
}

TEST(an_idle_one_that_dies_is_replaced)
{
	struct stage s = open_stage(1, 10);
	struct login l;
	int pid;

	ask(&s, &l, "yes");
	TURN_UNTIL(&s, l.answers > 0);
	pid = atoi(l.answer.why);
	kill(pid, SIGKILL);
	TURN_UNTIL(&s, is_gone(pid));
	ask(&s, &l, "yes");
	TURN_UNTIL(&s, l.answers > 0);
	CHECK_INT(l.answer.verdict, VERIFY_YES);
	CHECK(atoi(l.answer.why) != pid);
	close_stage(&s);
}

TEST(an_idle_one_ends_after_a_while)
{
	struct stage s = open_stage(1, 10);
	struct login l;
	int pid;

	ask(&s, &l, "yes");
	TURN_UNTIL(&s, l.answers > 0);
	pid = atoi(l.answer.why);
	s.now += 59 * USEC;
	verifiers_tick(s.v, s.now);
	CHECK_INT(count(&s).idle, 1);
	s.now += 2 * USEC;
	TURN_UNTIL(&s, is_gone(pid));
	CHECK_INT(count(&s).idle, 0);
	close_stage(&s);
}

TEST(renewed_ones_are_other_processes)
{
	const struct verify_limits limits = { 1, 10 };
	struct stage s = open_stage(1, 10);
	struct login l, busy;
	int first, second;

	ask(&s, &l, "yes");
	TURN_UNTIL(&s, l.answers > 0);
	first = atoi(l.answer.why);
	verifiers_renew(s.v, &limits);
	ask(&s, &busy, "yes");
	TURN_UNTIL(&s, busy.answers > 0 || verify_check_process(busy.check) > 0);
	second = busy.answers > 0 ? atoi(busy.answer.why) : verify_check_process(busy.check);
	CHECK(second != first);
	/* the one at work finishes it, and nothing else */
	verifiers_renew(s.v, &limits);
	TURN_UNTIL(&s, busy.answers > 0);
	CHECK_INT(busy.answer.verdict, VERIFY_YES);
	TURN_UNTIL(&s, is_gone(second));
	close_stage(&s);
}

TEST(one_that_has_answered_much_is_replaced)
{
	struct stage s = open_stage(1, 10);
	struct login l;
	int first = 0;

	for (int i = 0; i < 1001; i++) {
		ask(&s, &l, "yes");
		TURN_UNTIL(&s, l.answers > 0);
		if (i == 0)
			first = atoi(l.answer.why);
		if (i == 999)
			CHECK_INT(atoi(l.answer.why), first);
	}
	CHECK(atoi(l.answer.why) != first);
	close_stage(&s);
}

TEST(the_end_leaves_no_process)
{
	struct stage s = open_stage(1, 10);
	struct login l;
	int pid;

	ask(&s, &l, "yes");
	TURN_UNTIL(&s, l.answers > 0);
	pid = atoi(l.answer.why);
	close_stage(&s);
	/* nobody reaped it, if it took its time; then it is there to be reaped now */
	CHECK(waitpid(pid, NULL, 0) == pid || errno == ECHILD);
}

UNIT_MAIN
