/*
 * Headers of the PROXY protocol: the client's address and its counts, lack of memory. test/wire/test_proxy_protocol.py plays clients, and
 * test/unit/net/test_proxy_header.c parses headers.
 */
#include "login/proxy.h"

#include "auth/client_address.h"
#include "auth/login_state.h"
#include "conn/world.h"
#include "unit.h"
#include "whole.h"

#include <arpa/inet.h>

#define INI WHOLE_INI("", "proxy_protocol_networks=127.0.0.0/8\n")
#define HEADER "PROXY TCP4 192.0.2.7 10.0.0.1 51244 6432\r\n"

static struct house_end *end;

/* Connects and sends the bytes. */
static struct client *say_first(const char *bytes, size_t size)
{
	end = house_connect(&whole);
	CHECK(end);
	house_send(&whole, end, bytes, size);
	house_settle(&whole);
	return end->is_gone ? NULL : whole_last_client();
}

static bool is_at(const struct client *c, const char *ip)
{
	char text[INET6_ADDRSTRLEN];

	return strcmp(brief_address_text(&c->peer.remote, text, sizeof(text)), ip) == 0;
}

static int addresses(void)
{
	return (int)HASH_COUNT(whole.world->logins.addresses->by_key);
}

TEST(client_counts_for_its_own_address)
{
	struct client *c;

	whole_open(INI);
	c = say_first(HEADER, 10);
	REQUIRE(c);
	CHECK_INT(c->login->step, LOGIN_HEADER);
	CHECK(is_at(c, "127.0.0.1"));
	house_send(&whole, end, HEADER + 10, sizeof(HEADER) - 11);
	house_settle(&whole);
	CHECK_INT(c->login->step, LOGIN_PACKET);
	CHECK(is_at(c, "192.0.2.7"));
	CHECK_INT(c->peer.remote.port, 51244);
	CHECK_INT(addresses(), 1);
	client_addresses_check(whole.world);
	whole_close();
}

TEST(rest_of_a_header_is_skipped)
{
	static const char bytes[] = "\r\n\r\n\0\r\nQUIT\n" "\x21\x11\x00\x10" "\xc0\x00\x02\x07" "\x0a\x00\x00\x01" "\xc8\x2c" "\x19\x20" "ab";
	struct client *c;

	whole_open(INI);
	c = say_first(bytes, sizeof(bytes) - 1);
	REQUIRE(c);
	CHECK_INT(c->login->step, LOGIN_HEADER);
	CHECK(is_at(c, "192.0.2.7"));
	house_send(&whole, end, "cd", 2);
	house_settle(&whole);
	CHECK_INT(c->login->step, LOGIN_PACKET);
	whole_close();
}

TEST(other_networks_have_no_header)
{
	struct client *c;

	whole_open(WHOLE_INI("", "proxy_protocol_networks=10.0.0.0/8, unix\n"));
	c = say_first("\0", 1);
	REQUIRE(c);
	CHECK_INT(c->login->step, LOGIN_PACKET);
	whole_close();
}

/* Each allocation fails once: the client has its address, or gets an error message. */
TEST(out_of_memory)
{
	int failed = 1, ended = 0;

	for (int more = 0; failed > 0; more++) {
		struct client *c;
		size_t took;

		whole_open(INI);
		c = say_first(HEADER, 1);
		REQUIRE(c);
		whole_memory_ends(more);
		took = proxy_take(c, (const uint8_t *)HEADER, sizeof(HEADER) - 1);
		failed = whole_memory_is_back();
		house_settle(&whole);
		CHECK_INT(took, end->is_gone ? 0 : sizeof(HEADER) - 1);
		ended += end->is_gone;
		CHECK(end->is_gone || is_at(c, "192.0.2.7"));
		whole_close();
	}
	CHECK(ended >= 1);
}

UNIT_MAIN
