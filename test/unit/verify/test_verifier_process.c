/* One verifier process: it answers, dies, violates the protocol, or reaches its maximum number of answers. */
#include "verifier_stage.h"

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
