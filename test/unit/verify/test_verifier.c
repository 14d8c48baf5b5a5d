/* Verifiers from the outside: queue, limits, and number of processes. */
#include "verifier_stage.h"

TEST(an_answer_comes_from_the_loop_and_the_process_is_used_again)
{
	struct stage s = open_stage(2, 10);
	struct login l;
	int pid;

	CHECK_INT(ask(&s, &l, "yes"), VERIFIERS_ASKED);
	CHECK_INT(l.answers, 0);
	TURN_UNTIL(&s, l.answers > 0);
	CHECK_INT(l.answer.verdict, VERIFIED_YES);
	pid = atoi(l.answer.why);
	ask(&s, &l, "no");
	TURN_UNTIL(&s, l.answers > 0);
	CHECK_INT(l.answer.verdict, VERIFIED_NO);
	CHECK_INT(atoi(l.answer.why), pid);
	CHECK_INT(count(&s).idle, 1);
	close_stage(&s);
}

TEST(limits_of_processes_and_queue)
{
	struct stage s = open_stage(2, 3);
	struct login l[6];
	struct count c;

	for (int i = 0; i < 2; i++)
		CHECK_INT(ask(&s, &l[i], "hang"), VERIFIERS_ASKED);
	TURN_UNTIL(&s, count(&s).busy == 2);
	for (int i = 2; i < 5; i++)
		CHECK_INT(ask(&s, &l[i], "yes"), VERIFIERS_ASKED);
	CHECK_INT(ask(&s, &l[5], "yes"), VERIFIERS_TOO_MANY);
	CHECK(!l[5].check);
	c = count(&s);
	CHECK_INT(c.busy, 2);
	CHECK_INT(c.waiting, 3);
	CHECK(verify_check_process(l[0].check) > 0);
	CHECK_INT(verify_check_process(l[2].check), 0);
	/* a queued login that is cancelled gets no answer; a cancelled login in verification makes room */
	verifiers_cancel(s.v, &l[3].check);
	CHECK(!l[3].check);
	verifiers_cancel(s.v, &l[0].check);
	TURN_UNTIL(&s, l[2].answers > 0 && l[4].answers > 0);
	CHECK_INT(l[0].answers + l[1].answers + l[3].answers, 0);
	verifiers_cancel(s.v, &l[1].check);
	close_stage(&s);
}

TEST(one_process_is_started_in_a_turn)
{
	struct stage s = open_stage(3, 3);
	struct login l[3];

	for (int i = 0; i < 3; i++)
		CHECK_INT(ask(&s, &l[i], "hang"), VERIFIERS_ASKED);
	for (int i = 0; i < 3; i++) {
		event_base_loop(s.base, EVLOOP_ONCE);
		CHECK_INT(count(&s).busy, i + 1);
	}
	for (int i = 0; i < 3; i++)
		verifiers_cancel(s.v, &l[i].check);
	close_stage(&s);
}

TEST(one_address_does_not_block_others)
{
	struct stage s = open_stage(1, 3);
	struct login l[4], late[2];

	CHECK_INT(ask(&s, &l[0], "hang"), VERIFIERS_ASKED);
	TURN_UNTIL(&s, count(&s).busy == 1);
	for (int i = 1; i < 4; i++)
		CHECK_INT(ask(&s, &l[i], "hang"), VERIFIERS_ASKED);
	CHECK_INT(ask_from(&s, &late[0], 2, "yes"), VERIFIERS_ASKED);
	/* a displaced login gets its verdict from the loop */
	CHECK_INT(l[3].answers, 0);
	CHECK_INT(count(&s).waiting, 3);
	TURN_UNTIL(&s, l[3].answers > 0);
	CHECK_INT(l[3].answer.verdict, VERIFIED_DISPLACED);
	CHECK_INT(ask_from(&s, &late[1], 2, "yes"), VERIFIERS_TOO_MANY);
	/* at most one login of the other address comes first */
	verifiers_cancel(s.v, &l[0].check);
	TURN_UNTIL(&s, count(&s).busy == 1);
	verifiers_cancel(s.v, &l[1].check);
	TURN_UNTIL(&s, late[0].answers > 0);
	CHECK_INT(late[0].answer.verdict, VERIFIED_YES);
	CHECK_INT(l[2].answers, 0);
	verifiers_cancel(s.v, &l[2].check);
	close_stage(&s);
}

TEST(displaced_login_may_be_cancelled_first)
{
	struct stage s = open_stage(1, 2);
	struct login l[3], late;

	CHECK_INT(ask(&s, &l[0], "hang"), VERIFIERS_ASKED);
	TURN_UNTIL(&s, count(&s).busy == 1);
	CHECK_INT(ask(&s, &l[1], "hang"), VERIFIERS_ASKED);
	CHECK_INT(ask(&s, &l[2], "hang"), VERIFIERS_ASKED);
	CHECK_INT(ask_from(&s, &late, 2, "yes"), VERIFIERS_ASKED);
	verifiers_cancel(s.v, &l[2].check);
	verifiers_cancel(s.v, &l[1].check);
	verifiers_cancel(s.v, &l[0].check);
	TURN_UNTIL(&s, late.answers > 0);
	CHECK_INT(l[2].answers, 0);
	close_stage(&s);
}

TEST(cancelled_process_is_killed_and_reaped)
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

/* Without descriptors no process can be started: waiting logins get an error, and later logins wait. */
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
	CHECK_INT(first.answer.verdict, VERIFIED_UNKNOWN);
	CHECK_TEXT(first.answer.why, "no verifier can be started: Too many open files");
	CHECK_INT(second.answer.verdict, VERIFIED_UNKNOWN);
	ask(&s, &first, "yes");
	TURN_UNTIL(&s, first.answers > 0);
	CHECK_INT(first.answer.verdict, VERIFIED_YES);
	close_stage(&s);
}

TEST(idle_process_ends_after_a_timeout)
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

TEST(renewed_processes_are_new)
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
	/* the busy process completes its request, and no other */
	verifiers_renew(s.v, &limits);
	TURN_UNTIL(&s, busy.answers > 0);
	CHECK_INT(busy.answer.verdict, VERIFIED_YES);
	TURN_UNTIL(&s, is_gone(second));
	close_stage(&s);
}

TEST(no_process_is_left_at_the_end)
{
	struct stage s = open_stage(1, 10);
	struct login l;
	int pid;

	ask(&s, &l, "yes");
	TURN_UNTIL(&s, l.answers > 0);
	pid = atoi(l.answer.why);
	close_stage(&s);
	/* a process that ended late may not have been reaped; it is reaped here */
	CHECK(waitpid(pid, NULL, 0) == pid || errno == ECHILD);
}

/* ---- one process: it answers, dies, violates the protocol, or reaches its maximum number of answers ---- */

TEST(protocol_violation_fails_only_its_own_login)
{
	static const char *const users[] = { "die", "noise", "long", "stale", "key" };
	struct stage s = open_stage(1, 10);
	struct login bad, good;

	for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
		ask(&s, &bad, users[i]);
		ask(&s, &good, "yes");
		TURN_UNTIL(&s, good.answers > 0);
		CHECK_INT(bad.answers, 1);
		CHECK_INT(bad.answer.verdict, VERIFIED_UNKNOWN);
		CHECK(strstr(bad.answer.why, "the verifier at work on it (process "));
		CHECK_INT(good.answer.verdict, VERIFIED_YES);
	}
	close_stage(&s);
}

/* The second answer must not authenticate the next login. */
TEST(two_answers)
{
	struct stage s = open_stage(1, 10);
	struct login first, second;

	ask(&s, &first, "twice");
	ask(&s, &second, "no");
	TURN_UNTIL(&s, second.answers > 0);
	CHECK_INT(first.answer.verdict, VERIFIED_YES);
	CHECK(second.answer.verdict != VERIFIED_YES);
	CHECK_INT(second.answers, 1);
	close_stage(&s);
}

TEST(dead_idle_process_is_replaced)
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
	CHECK_INT(l.answer.verdict, VERIFIED_YES);
	CHECK(atoi(l.answer.why) != pid);
	close_stage(&s);
}

TEST(process_with_many_answers_is_replaced)
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

UNIT_MAIN
