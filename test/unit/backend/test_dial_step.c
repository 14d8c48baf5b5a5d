/* The table of dial steps. */
#include "backend/dial.h"
#include "backend/server_login.h"
#include "child.h"

#define D(id) (1u << DIAL_##id)
static bool may_follow(enum dial_step from, enum dial_step to)
{
	static const unsigned moves[] = {
#define DIAL_STEP(id, words, moves) [DIAL_##id] = moves,
#include "tbl/dial_step.tbl"
#undef DIAL_STEP
	};

	return moves[from] >> to & 1;
}

TEST(a_dial_can_try_another_way_in_every_step)
{
	for (int step = 0; step < DIAL_STEPS; step++)
		CHECK(may_follow((enum dial_step)step, DIAL_NEXT));
}

TEST(server_requests_authentication_once)
{
	static const enum dial_step asked[] = { DIAL_PASSWORD, DIAL_SASL_DONE, DIAL_PROVEN };

	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		CHECK(!may_follow(asked[i], DIAL_PASSWORD));
		CHECK(!may_follow(asked[i], DIAL_SASL));
		CHECK(!may_follow(asked[i], DIAL_NEGOTIATED));
	}
}

/* A server that sends AuthenticationOk before its SCRAM signature may be an impostor. */
TEST(sasl_requires_the_server_signature)
{
	CHECK(!may_follow(DIAL_SASL, DIAL_PROVEN));
	CHECK(!may_follow(DIAL_DERIVE, DIAL_PROVEN));
	CHECK(may_follow(DIAL_SASL_DONE, DIAL_PROVEN));
}

TEST(messages_are_read_during_login_only)
{
	CHECK(!dial_step_reads_messages(DIAL_NEXT));
	CHECK(!dial_step_reads_messages(DIAL_TLS));
	CHECK(dial_step_reads_messages(DIAL_STARTUP));
	CHECK(!dial_step_reads_messages(DIAL_DERIVE));
	CHECK(dial_step_reads_messages(DIAL_PROVEN));
}

TEST(invalid_dial_step_fails_the_assertion)
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
