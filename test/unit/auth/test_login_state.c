/* The steps of a login: an invalid one fails an assertion, and the others say which side acts next and how long that takes. */
#include "address_stage.h"
#include "child.h"

#include <unistd.h>

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

/* A login at a step of the client's can be displaced; the time of each step counts for its part of the login. */
TEST(step_says_whether_the_client_is_awaited)
{
	struct client *c;

	begin(100);
	c = come(1);
	CHECK(!list_is_empty(&c->login->waited_for_node));
	scene.world.now += USEC;
	login_step_to(c, LOGIN_LOOKUP);
	CHECK(list_is_empty(&c->login->waited_for_node));
	CHECK_INT(c->login_facts.took[PART_CLIENT], latency_bucket(USEC));
	scene.world.now += USEC;
	login_step_to(c, LOGIN_PASSWORD);
	CHECK(!list_is_empty(&c->login->waited_for_node));
	CHECK_INT(c->login_facts.took[PART_LOOKUP], latency_bucket(USEC));
	CHECK_INT(c->login->step_since, scene.world.now);
	end();
}

UNIT_MAIN
