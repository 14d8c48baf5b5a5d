/* Delays of refusals, and the grouping of addresses. */
#include "unit.h"

#include "auth/client_address.h"
#include "auth/refusal.h"
#include "logins.h"
#include "whole.h"

#include <arpa/inet.h>
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

static const char *text_of(const char *ip, uint16_t port, char *buf, size_t size)
{
	struct address a;
	struct brief_address brief;
	struct address_key key;

	address_from_ip(&a, ip, port);
	brief_address_of(&brief, &a, 0);
	address_key_of(&key, &brief);
	return client_address_text(&key, buf, size);
}

TEST(mapped_and_plain_addresses_are_equal)
{
	char buf[CLIENT_ADDRESS_TEXT];

	CHECK_TEXT(text_of("10.0.0.7", 1, buf, sizeof(buf)), "10.0.0.7");
	CHECK_TEXT(text_of("::ffff:10.0.0.7", 2, buf, sizeof(buf)), "10.0.0.7");
	CHECK_TEXT(text_of("::10.0.0.7", 3, buf, sizeof(buf)), "::10.0.0.7");
	CHECK_TEXT(text_of("::1", 3, buf, sizeof(buf)), "::1");
	CHECK_TEXT(text_of("fe80::1", 3, buf, sizeof(buf)), "fe80::1");
	CHECK_TEXT(text_of("2001:db8:0:1:2::3", 3, buf, sizeof(buf)), "2001:db8:0:1::/64");
	CHECK_TEXT(text_of("2001:db8::1", 4, buf, sizeof(buf)), "2001:db8::/64");
}

TEST(unix_users_are_separate)
{
	struct brief_address one = { .family = AF_UNIX, .port = 6432, .u.peer = { .pid = 7, .uid = 1000 } }, other = one;
	struct address_key a, b;
	char buf[CLIENT_ADDRESS_TEXT];

	other.u.peer.pid = 8;
	address_key_of(&a, &one);
	address_key_of(&b, &other);
	CHECK_INT(memcmp(&a, &b, sizeof(a)), 0);
	CHECK_TEXT(client_address_text(&a, buf, sizeof(buf)), "unix:1000");
	other.u.peer.uid = 1001;
	address_key_of(&b, &other);
	CHECK(memcmp(&a, &b, sizeof(a)) != 0);
}

UNIT_MAIN
