/* Delays of refusals. */
#include "unit.h"

#include "auth/client_address.h"
#include "logins.h"
#include "whole.h"

#include <string.h>

#define INI(delay) "[databases]\nd = " HOUSE_SERVER HOUSE_SETTINGS "auth_type=plain\nmax_client_conn=100\n" delay

/* Returns the delay of the next refusal of this user, in milliseconds. */
static int64_t fail(const char *user)
{
	struct house_end *end = login_name(user, "d");
	const struct client *c = whole_last_client();
	int64_t delay = 0;

	login_told(end);
	whole_say(end, 'p', "wrong", 6);
	if (!end->is_gone) {
		CHECK_INT(c->login->step, LOGIN_REFUSED);
		delay = (c->login->refused_at - whole.world->now) / 1000;
	}
	house_hang_up(end);
	house_settle(&whole);
	/* the world has a limited number of ends */
	bytes_free(&end->got);
	bytes_free(&end->wire);
	whole.end_count--;
	return delay;
}

TEST(delay_doubles_up_to_the_maximum)
{
	static const int64_t delays[] = { 0, 0, 100, 200, 400, 800, 1600, 3200, 4000, 4000 };

	login_open(INI("login_failure_delay=4\n"), "");
	for (size_t i = 0; i < sizeof(delays) / sizeof(delays[0]); i++)
		CHECK_INT(fail("v"), delays[i]);
	whole_close();
}

/* The address is counted over all users; its first twenty failures are not delayed. */
TEST(failures_of_many_users_are_delayed)
{
	char user[8];

	login_open(INI("login_failure_delay=4\n"), "");
	for (int i = 1; i <= 22; i++) {
		snprintf(user, sizeof(user), "u%d", i);
		CHECK_INT(fail(user), i <= 20 ? 0 : i == 21 ? 100 : 200);
	}
	whole_close();
}

TEST(without_login_failure_delay_refusals_are_immediate)
{
	login_open(INI("login_failure_delay=0\n"), "");
	for (int i = 0; i < 4; i++)
		CHECK_INT(fail("v"), 0);
	whole_close();
}

UNIT_MAIN
