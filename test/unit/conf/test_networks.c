/* Lists of networks, the type NETWORKS of settings. */
#include "conf/networks.h"

#include <arpa/inet.h>
#include <string.h>

#include "unit.h"

TEST(lists_are_checked)
{
	static const char *const good[] = {
		"", " ", "10.0.0.0/8", "192.0.2.7", "::1", "2001:db8::/32,10.0.0.0/8", "unix", "unix, 10.1.2.3 fe80::/10", "0.0.0.0/0", "::/0",
	};
	static const char *const bad[] = {
		"localhost", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8x", "/8", "10.0.0", "::1/129", "fe80::1%lo", "10.0.0.0/8/8", "unix/8",
		"10.0.0.0/99999999999999999999", "all", "2001:0db8:0000:0000:0000:0000:0000:0007:0008:0009:0010:0011:0012:0013/128",
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		if (!networks_are_valid(good[i]))
			UNIT_FAIL("\"%s\" is refused", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (networks_are_valid(bad[i]))
			UNIT_FAIL("\"%s\" is accepted", bad[i]);
}

static bool has(const char *list, const char *text)
{
	uint8_t ip[16];
	size_t size = *text == '\0' ? 0 : inet_pton(AF_INET, text, ip) == 1 ? 4 : inet_pton(AF_INET6, text, ip) == 1 ? 16 : 99;

	if (size == 99)
		UNIT_FAIL("no address: %s", text);
	return networks_have(list, ip, size);
}

TEST(addresses_are_found_in_their_networks)
{
	CHECK(has("10.0.0.0/8", "10.255.1.2"));
	CHECK(!has("10.0.0.0/8", "11.0.0.0"));
	CHECK(has("10.0.0.0/9", "10.127.255.255"));
	CHECK(!has("10.0.0.0/9", "10.128.0.0"));
	/* bits of the address outside of the network are ignored */
	CHECK(has("10.9.9.9/8", "10.1.1.1"));
	CHECK(has("192.0.2.7", "192.0.2.7"));
	CHECK(!has("192.0.2.7", "192.0.2.6"));
	CHECK(has("0.0.0.0/0", "255.255.255.255"));
	CHECK(!has("0.0.0.0/0", "::1"));
	CHECK(has("2001:db8::/32", "2001:db8:1::2"));
	CHECK(!has("2001:db8::/32", "2001:db9::"));
	CHECK(has("1.1.1.1, ::1\t2.2.2.2", "2.2.2.2"));
	CHECK(has("10.0.0.0/8", "::ffff:10.1.2.3"));
	CHECK(!has("::/0", "::ffff:10.1.2.3"));
	CHECK(has("10.0.0.0/8 unix", ""));
	CHECK(!has("10.0.0.0/8", ""));
	CHECK(!has("", "10.0.0.1"));
}

UNIT_MAIN
