/* The table of login steps. */
#include "auth/login_state.h"
#include "child.h"

#define LOGIN_STEP(id, waits_for, moves) +1
enum { STEPS = 0
#include "tbl/login_step.tbl"
};
#undef LOGIN_STEP

#define L(id) (1u << LOGIN_##id)
static bool may_follow(enum login_step from, enum login_step to)
{
	static const unsigned moves[] = {
#define LOGIN_STEP(id, waits_for, moves) [LOGIN_##id] = moves,
#include "tbl/login_step.tbl"
#undef LOGIN_STEP
	};

	return moves[from] >> to & 1;
}

/* Bit i: step i is reachable. */
static unsigned reachable_from(enum login_step first)
{
	unsigned found = 1u << first, before;

	do {
		before = found;
		for (int from = 0; from < STEPS; from++)
			for (int to = 0; to < STEPS; to++)
				if (found & 1u << from && may_follow((enum login_step)from, (enum login_step)to))
					found |= 1u << to;
	} while (found != before);
	return found;
}

TEST(every_step_is_reached_from_the_first)
{
	CHECK_INT(reachable_from(LOGIN_PACKET), (1u << STEPS) - 1);
}

TEST(every_login_can_end_as_proven_or_refused)
{
	unsigned ends = 1u << LOGIN_PROVEN | 1u << LOGIN_REFUSED;

	for (int step = 0; step < STEPS; step++)
		CHECK(reachable_from((enum login_step)step) & ends);
	CHECK_INT(reachable_from(LOGIN_PROVEN), 1u << LOGIN_PROVEN);
	CHECK_INT(reachable_from(LOGIN_REFUSED), 1u << LOGIN_REFUSED);
}

/* After the server has agreed to TLS, no cleartext message is read; without a response, no login is proven. */
TEST(no_login_step_is_skipped)
{
	CHECK(!may_follow(LOGIN_TLS_HELLO, LOGIN_PACKET));
	CHECK(!may_follow(LOGIN_TLS_TURN, LOGIN_PACKET));
	CHECK(!may_follow(LOGIN_SASL_FIRST, LOGIN_PROVEN));
	CHECK(!may_follow(LOGIN_REFUSED, LOGIN_PROVEN));
}

TEST(each_login_step_has_one_kind_of_wait)
{
	CHECK(login_step_waits_for_client(LOGIN_PACKET));
	CHECK(login_step_waits_for_client(LOGIN_SASL_FINAL));
	CHECK(!login_step_waits_for_client(LOGIN_TLS_TURN));
	CHECK(!login_step_waits_for_client(LOGIN_DERIVE));
	CHECK(!login_step_waits_for_client(LOGIN_PROVEN));
}

/* The process ends at the assertion and sends no report; the test checks that the child did not pass the assertion. */
TEST(invalid_login_step_fails_the_assertion)
{
	static struct world world;
	static struct login login = { .step = LOGIN_REFUSED };
	static struct client client = { .login = &login, .peer.world = &world };
	struct child child;
	int report = 0;

	list_init(&login.waited_for_node);
	if (child_fork(&child)) {
		child_report(&child, &report, sizeof(report));
		login_step_to(&client, LOGIN_PROVEN);
		_exit(0);
	}
	CHECK(child_end(&child, &report, sizeof(report)) != 0);
}

UNIT_MAIN
