/* Delays of refusals, and the grouping of addresses. */
#include "unit.h"

#include "auth/client_address.h"
#include "auth/refusal.h"

#include <arpa/inet.h>
#include <string.h>

TEST(first_refusals_are_not_delayed)
{
	CHECK_INT(refusal_delay(0, 2, 4 * USEC), 0);
	CHECK_INT(refusal_delay(1, 2, 4 * USEC), 0);
	CHECK_INT(refusal_delay(2, 2, 4 * USEC), 0);
	CHECK_INT(refusal_delay(3, 2, 4 * USEC), USEC / 10);
}

TEST(delay_doubles_up_to_the_maximum)
{
	CHECK_INT(refusal_delay(4, 2, 4 * USEC), USEC / 5);
	CHECK_INT(refusal_delay(8, 2, 4 * USEC), 32 * USEC / 10);
	CHECK_INT(refusal_delay(9, 2, 4 * USEC), 4 * USEC);
	CHECK_INT(refusal_delay(1000, 2, 4 * USEC), 4 * USEC);
	CHECK_INT(refusal_delay(UINT32_MAX, 0, 60 * USEC), 60 * USEC);
	/* shorter than the first step */
	CHECK_INT(refusal_delay(3, 2, USEC / 100), USEC / 100);
	CHECK_INT(refusal_delay(UINT32_MAX, 0, 0), 0);
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
