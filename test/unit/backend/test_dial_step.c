/* The table of a dial's steps. */
#include "backend/server_login.h"
#include "child.h"

TEST(a_dial_can_try_another_way_in_every_step)
{
	for (int step = 0; step < DIAL_STEPS; step++)
		CHECK(dial_step_may_follow((enum dial_step)step, DIAL_NEXT));
}

TEST(a_server_asks_once)
{
	static const enum dial_step asked[] = { DIAL_PASSWORD, DIAL_SASL_DONE, DIAL_PROVEN };

	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		CHECK(!dial_step_may_follow(asked[i], DIAL_PASSWORD));
		CHECK(!dial_step_may_follow(asked[i], DIAL_SASL));
		CHECK(!dial_step_may_follow(asked[i], DIAL_NEGOTIATED));
	}
}

/* A server that lets the pooler in before it has shown that it knows the secret is not the one that was meant. */
TEST(sasl_ends_with_the_proof_of_the_server)
{
	CHECK(!dial_step_may_follow(DIAL_SASL, DIAL_PROVEN));
	CHECK(!dial_step_may_follow(DIAL_DERIVE, DIAL_PROVEN));
	CHECK(dial_step_may_follow(DIAL_SASL_DONE, DIAL_PROVEN));
}

TEST(messages_are_read_in_the_login_only)
{
	CHECK(!dial_step_reads_messages(DIAL_NEXT));
	CHECK(!dial_step_reads_messages(DIAL_TLS));
	CHECK(dial_step_reads_messages(DIAL_STARTUP));
	CHECK(!dial_step_reads_messages(DIAL_DERIVE));
	CHECK(dial_step_reads_messages(DIAL_PROVEN));
	for (int step = 0; step < DIAL_STEPS; step++)
		CHECK(*dial_step_words((enum dial_step)step));
}

TEST(a_move_that_the_table_does_not_allow_is_a_fault_of_ours)
{
	static struct dial dial = { .step = DIAL_SASL };
	struct child child;
	int report = 0;

	if (child_fork(&child)) {
		child_report(&child, &report, sizeof(report));
		dial_step_to(&dial, DIAL_PROVEN);
		_exit(0);
	}
	CHECK(child_end(&child, &report, sizeof(report)) != 0);
}

UNIT_MAIN
