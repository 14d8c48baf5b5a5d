/* Connections and logins in progress, counted by address: which connections share an address, the limits, and which login ends. */
#include "address_stage.h"

#include <unistd.h>

/* The key of a client's address is in its source. */
static struct address_key key_of(const struct brief_address *address)
{
	const struct client client = { .peer.remote = *address };
	struct verify_source source = client_address_source(&client);
	struct address_key key;

	memcpy(&key, source.bytes, sizeof(key));
	return key;
}

static struct address_key key_of_ip(uint8_t family, const char *bytes, size_t size)
{
	struct brief_address address = { .family = family };

	memcpy(address.u.ip, bytes, size);
	return key_of(&address);
}

static bool is_same(const char *a, const char *b)
{
	struct address_key x = key_of_ip(AF_INET6, a, 16), y = key_of_ip(AF_INET6, b, 16);

	return memcmp(&x, &y, sizeof(x)) == 0;
}

TEST(connections_with_the_same_address)
{
	static const char net[16] = "\x20\x01\x0d\xb8" "aaaabbbbcccc", neighbour[16] = "\x20\x01\x0d\xb8" "aaaaddddeeee";
	static const char other[16] = "\x20\x01\x0d\xb8" "aaabbbbbcccc", local[16] = "\xfe\x80\0\0\0\0\0\0" "bbbbcccc";
	static const char local_neighbour[16] = "\xfe\x80\0\0\0\0\0\0" "ddddeeee";
	static const char mapped[16] = "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\1";
	struct address_key four = key_of_ip(AF_INET, "\x0a\0\0\1", 4), six = key_of_ip(AF_INET6, mapped, 16);

	CHECK(is_same(net, neighbour));
	CHECK(!is_same(net, other));
	CHECK(!is_same(local, local_neighbour));
	CHECK(memcmp(&four, &six, sizeof(four)) == 0);
}

static int group_of(uint8_t family, const char *bytes, size_t size)
{
	struct client c = { .peer.remote.family = family };

	memcpy(c.peer.remote.u.ip, bytes, size);
	return client_address_source(&c).group;
}

static int group_of_uid(uint32_t uid)
{
	struct client c = { .peer.remote = { .family = AF_UNIX, .u.peer.uid = uid } };

	return client_address_source(&c).group;
}

/* A source has the family in its first byte, so the prefix of a site is one byte longer. */
TEST(addresses_of_the_same_site)
{
	static const char net[16] = "\x20\x01\x0d\xb8" "aaaabbbbcccc", local[16] = "\xfe\x80\0\0\0\0\0\0" "bbbbcccc";
	static const char loopback[16] = { [15] = 1 };

	CHECK_INT(group_of(AF_INET, "\x0a\0\0\1", 4), 0);
	CHECK_INT(group_of(AF_INET6, net, 16), 7);
	CHECK_INT(group_of(AF_INET6, local, 16), 9);
	CHECK_INT(group_of(AF_INET6, loopback, 16), 0);
	CHECK_INT(group_of_uid(0), 0);
	CHECK_INT(group_of_uid(1000), 0);
	CHECK_INT(group_of_uid(65535), 0);
	CHECK_INT(group_of_uid(65536), 3);
	CHECK_INT(group_of_uid(UINT32_MAX), 3);
}

static void keep_row(void *context, const struct address_row *row)
{
	CHECK(row->clients == 1 && row->logins == 1 && row->refused == 0 && row->failures == 0);
	strcpy(context, row->text);
}

/* Returns the text of the row for a client with this address. */
static const char *text_of_brief(const struct brief_address *brief)
{
	static char text[CLIENT_ADDRESS_TEXT];

	begin(1);
	come_from(brief);
	client_addresses_each_row(&scene.world, keep_row, text);
	end();
	return text;
}

static const char *text_of(const char *ip, uint16_t port)
{
	struct address a;
	struct brief_address brief;

	address_from_ip(&a, ip, port);
	brief_address_of(&brief, &a, 0);
	return text_of_brief(&brief);
}

TEST(mapped_and_plain_addresses_are_equal)
{
	CHECK_TEXT(text_of("10.0.0.7", 1), "10.0.0.7");
	CHECK_TEXT(text_of("::ffff:10.0.0.7", 2), "10.0.0.7");
	CHECK_TEXT(text_of("::10.0.0.7", 3), "::10.0.0.7");
	CHECK_TEXT(text_of("::1", 3), "::1");
	CHECK_TEXT(text_of("fe80::1", 3), "fe80::1");
	CHECK_TEXT(text_of("2001:db8:0:1:2::3", 3), "2001:db8:0:1::/64");
	CHECK_TEXT(text_of("2001:db8::1", 4), "2001:db8::/64");
	CHECK_TEXT(text_of("2001:db8:6161:6161:6262::6363", 4), "2001:db8:6161:6161::/64");
}

TEST(unix_users_are_separate)
{
	struct brief_address one = { .family = AF_UNIX, .port = 6432, .u.peer = { .pid = 7, .uid = 1000 } }, other = one;
	struct address_key a, b;

	other.u.peer.pid = 8;
	a = key_of(&one);
	b = key_of(&other);
	CHECK_INT(memcmp(&a, &b, sizeof(a)), 0);
	CHECK_TEXT(text_of_brief(&one), "unix:1000");
	other.u.peer.uid = 1001;
	b = key_of(&other);
	CHECK(memcmp(&a, &b, sizeof(a)) != 0);
}

TEST(uids_of_one_range_share_a_site)
{
	begin(100);
	for (uint32_t uid = 200000; uid < 200010; uid++)
		come_from(&(struct brief_address){ .family = AF_UNIX, .u.peer.uid = uid });
	come_from(&(struct brief_address){ .family = AF_UNIX, .u.peer.uid = 1000 });
	come_from(&(struct brief_address){ .family = AF_UNIX, .u.peer.uid = 1001 });
	CHECK_INT((int)HASH_COUNT(scene.world.logins.addresses->sites), 3);
	CHECK_INT(scene.clients[0].login->address->site->login_count, 10);
	end();
}

TEST(counts_follow_the_clients)
{
	struct client *a, *b;

	begin(2);
	a = come(1);
	b = come(1);
	CHECK_INT(a->login->address->clients, 2);
	CHECK_INT(scene.world.logins.addresses->login_count, 2);
	come(2);
	CHECK_INT(scene.world.logins.addresses->login_count, 3);
	client_address_login_over(b);
	client_address_login_over(b);
	CHECK_INT(scene.world.logins.addresses->login_count, 2);
	CHECK_INT(a->login->address->clients, 2);
	leave(b);
	CHECK_INT(a->login->address->clients, 1);
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
	list_init(&c->login->refusal_node);
	list_append(&scene.world.peers.clients, &c->peer.node);
	CHECK(client_address_enter(c));
	come(1);
	CHECK_INT(scene.world.logins.addresses->login_count, 1);
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

/* ---- which login ends ---- */

static const struct client *ended;

void client_end(struct client *c, enum close_reason why, const char *detail)
{
	(void)why;
	(void)detail;
	ended = c;
	c->peer.fate = PEER_ENDS;
}

const char *client_text(const struct client *c, char *buf, size_t size)
{
	(void)c;
	(void)size;
	return buf;
}

/* Returns the client whose login ends in favour of this client; NULL: the new client is refused. */
static const struct client *displaced_by(struct client *fresh)
{
	ended = NULL;
	CHECK_INT(displace_login(fresh, REASON_LOGIN_TIMEOUT), ended != NULL);
	return ended;
}

TEST(youngest_login_of_the_fullest_address_ends)
{
	struct client *fresh, *youngest;

	begin(3);
	come(1);
	come(1);
	youngest = come(1);
	come(2);
	fresh = come(3);
	CHECK(displaced_by(fresh) == youngest);
	end();
}

TEST(silent_client_of_the_fullest_address_ends_first)
{
	struct client *silent;

	begin(3);
	silent = come(1);
	scene.world.now += 2 * USEC;
	come(1);
	come(1);
	CHECK(displaced_by(come(2)) == silent);
	end();
}

TEST(address_with_equal_count_is_displaced_only_if_silent)
{
	struct client *first, *fresh;

	begin(1);
	first = come(1);
	fresh = come(2);
	CHECK(!displaced_by(fresh));
	scene.world.now += 2 * USEC;
	CHECK(displaced_by(come(3)) == first);
	end();
}

TEST(slow_login_of_a_less_used_address_is_kept)
{
	begin(1);
	come(1);
	scene.world.now += 2 * USEC;
	come(2);
	CHECK(!displaced_by(come(2)));
	end();
}

TEST(login_that_waits_for_pgweir_is_not_silent)
{
	struct client *looked_up;

	begin(1);
	looked_up = come(1);
	login_step_to(looked_up, LOGIN_LOOKUP);
	scene.world.now += 10 * USEC;
	CHECK(!displaced_by(come(2)));
	end();
}

TEST(delayed_refusal_is_displaced_before_any_login)
{
	struct client *refused, *fresh;

	begin(1);
	come(1);
	come(1);
	refused = come(3);
	fresh = come(2);
	list_append(&scene.world.logins.addresses->refused, &refused->login->refusal_node);
	scene.world.logins.addresses->refused_count = refused->login->address->refused = 1;
	CHECK(displaced_by(fresh) == refused);
	CHECK(scene.world.logins.addresses->refused_count == 0 && refused->login->address->refused == 0);
	end();
}

TEST(addresses_of_a_site_count_together)
{
	struct client *youngest;

	begin(3);
	for (int i = 0; i < 3; i++)
		youngest = come_from_site(1, i);
	CHECK(displaced_by(come(1)) == youngest);
	CHECK(displaced_by(come_from_site(2, 0)) == &scene.clients[1]);
	end();
}

TEST(site_with_many_addresses_displaces_only_its_own_logins)
{
	begin(3);
	for (int i = 0; i < 4; i++)
		come_from_site(1, i);
	/* more logins than any address of the site has, and fewer than the site has */
	for (int i = 0; i < 3; i++)
		come(1);
	CHECK(!displaced_by(come_from_site(1, 4)));
	scene.world.now += 2 * USEC;
	/* now all logins are silent */
	for (int i = 5; i < 9; i++) {
		CHECK(displaced_by(come_from_site(1, i)) == &scene.clients[i - 5]);
		leave(&scene.clients[i - 5]);
	}
	end();
}

TEST(addresses_of_one_site_compete_with_each_other)
{
	struct client *youngest;

	begin(3);
	come_from_site(1, 0);
	come_from_site(1, 1);
	youngest = come_from_site(1, 1);
	come(1);
	CHECK(displaced_by(come_from_site(1, 2)) == youngest);
	leave(youngest);
	/* as many logins as any other address of the site */
	CHECK(!displaced_by(come_from_site(1, 3)));
	end();
}

TEST(ended_logins_are_skipped)
{
	begin(3);
	for (int i = 0; i < 40; i++)
		come_from_site(1, i);
	for (int i = 0; i < 20; i++)
		CHECK(displaced_by(come(i)) == &scene.clients[39 - i]);
	end();
}

UNIT_ALONE
