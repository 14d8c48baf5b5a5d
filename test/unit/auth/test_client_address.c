/* Connections and logins in progress, counted by address: which connections share an address, and the limits. */
#include "address_stage.h"

#include <unistd.h>

static struct address_key key_of(uint8_t family, const char *bytes, size_t size)
{
	struct brief_address address = { .family = family };
	struct address_key key;

	memcpy(address.u.ip, bytes, size);
	address_key_of(&key, &address);
	return key;
}

static bool is_same(const char *a, const char *b)
{
	struct address_key x = key_of(AF_INET6, a, 16), y = key_of(AF_INET6, b, 16);

	return memcmp(&x, &y, sizeof(x)) == 0;
}

TEST(connections_with_the_same_address)
{
	static const char net[16] = "\x20\x01\x0d\xb8" "aaaabbbbcccc", neighbour[16] = "\x20\x01\x0d\xb8" "aaaaddddeeee";
	static const char other[16] = "\x20\x01\x0d\xb8" "aaabbbbbcccc", local[16] = "\xfe\x80\0\0\0\0\0\0" "bbbbcccc";
	static const char local_neighbour[16] = "\xfe\x80\0\0\0\0\0\0" "ddddeeee";
	static const char mapped[16] = "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\1";
	struct address_key four = key_of(AF_INET, "\x0a\0\0\1", 4), six = key_of(AF_INET6, mapped, 16);
	char text[CLIENT_ADDRESS_TEXT];

	CHECK(is_same(net, neighbour));
	CHECK(!is_same(net, other));
	CHECK(!is_same(local, local_neighbour));
	CHECK(memcmp(&four, &six, sizeof(four)) == 0);
	CHECK_TEXT(client_address_text(&four, text, sizeof(text)), "10.0.0.1");
	six = key_of(AF_INET6, net, 16);
	CHECK_TEXT(client_address_text(&six, text, sizeof(text)), "2001:db8:6161:6161::/64");
}

static size_t site_of_uid(uint32_t uid)
{
	const struct brief_address address = { .family = AF_UNIX, .u.peer.uid = uid };
	struct address_key key;
	char text[CLIENT_ADDRESS_TEXT], wanted[CLIENT_ADDRESS_TEXT];

	address_key_of(&key, &address);
	snprintf(wanted, sizeof(wanted), "unix:%u", (unsigned)uid);
	CHECK_TEXT(client_address_text(&key, text, sizeof(text)), wanted);
	return address_site(&key);
}

TEST(addresses_of_the_same_site)
{
	static const char net[16] = "\x20\x01\x0d\xb8" "aaaabbbbcccc", local[16] = "\xfe\x80\0\0\0\0\0\0" "bbbbcccc";
	static const char loopback[16] = { [15] = 1 };
	struct address_key four = key_of(AF_INET, "\x0a\0\0\1", 4), six = key_of(AF_INET6, net, 16), alone = key_of(AF_INET6, loopback, 16);
	struct address_key of_link = key_of(AF_INET6, local, 16);

	CHECK_INT((int)address_site(&four), 0);
	CHECK_INT((int)address_site(&six), 6);
	CHECK_INT((int)address_site(&of_link), 8);
	CHECK_INT((int)address_site(&alone), 0);
	CHECK_INT((int)site_of_uid(0), 0);
	CHECK_INT((int)site_of_uid(1000), 0);
	CHECK_INT((int)site_of_uid(65535), 0);
	CHECK_INT((int)site_of_uid(65536), 2);
	CHECK_INT((int)site_of_uid(UINT32_MAX), 2);
}

TEST(uids_of_one_range_share_a_site)
{
	begin(100);
	for (uint32_t uid = 200000; uid < 200010; uid++)
		come_from(&(struct brief_address){ .family = AF_UNIX, .u.peer.uid = uid });
	come_from(&(struct brief_address){ .family = AF_UNIX, .u.peer.uid = 1000 });
	come_from(&(struct brief_address){ .family = AF_UNIX, .u.peer.uid = 1001 });
	CHECK_INT((int)HASH_COUNT(scene.world.addresses->sites), 3);
	CHECK_INT(client_address_of(&scene.clients[0])->site->login_count, 10);
	end();
}

TEST(counts_follow_the_clients)
{
	struct client *a, *b;

	begin(2);
	a = come(1);
	b = come(1);
	CHECK_INT(client_address_of(a)->clients, 2);
	CHECK(!client_address_is_crowded(&scene.world));
	come(2);
	CHECK(client_address_is_crowded(&scene.world));
	client_address_login_over(b);
	client_address_login_over(b);
	CHECK(!client_address_is_crowded(&scene.world));
	CHECK_INT(client_address_of(a)->clients, 2);
	leave(b);
	CHECK_INT(client_address_of(a)->clients, 1);
	end();
}

TEST(trusted_unix_socket_users_are_not_limited)
{
	struct client *c;

	begin(1);
	c = &scene.clients[scene.count];
	scene.logins[scene.count].client = c;
	c->peer.world = &scene.world;
	c->login = &scene.logins[scene.count++];
	c->peer.remote.family = AF_UNIX;
	c->peer.remote.u.peer.uid = geteuid();
	list_init(&c->login->address_node);
	list_init(&c->login->waited_for_node);
	list_append(&scene.world.clients, &c->peer.node);
	CHECK(client_address_enter(c));
	come(1);
	CHECK(!client_address_is_crowded(&scene.world));
	end();
}

TEST(max_client_conn_per_ip_reserves_a_connection_for_administrators)
{
	struct client *c;

	begin(100);
	scene.conf.settings.max_client_conn_per_ip = 2;
	come(1);
	come(1);
	c = come(1);
	CHECK(!client_address_may_have(c, false));
	CHECK(client_address_may_have(c, true));
	client_address_set_administrator(c);
	CHECK(!client_address_may_have(come(1), false));
	CHECK(client_address_may_have(c, true));
	end();
}

UNIT_MAIN
