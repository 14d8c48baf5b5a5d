/* Logins in progress, counted by address: what counts as one address, and which login ends when there are too many. */
#include "auth/client_address.h"
#include "auth/login_state.h"
#include "auth/refusal.h"
#include "unit.h"

#include <string.h>
#include <unistd.h>

#define CLIENTS 64

static struct {
	struct world world;
	struct conf conf;
	struct client clients[CLIENTS];
	struct login logins[CLIENTS];
	int count;
	const struct client *ended;
	bool has_refusal;		/* a failed login waits for its refusal */
} scene;

void client_end(struct client *c, enum close_reason why, const char *detail)
{
	(void)why;
	(void)detail;
	scene.ended = c;
	c->peer.fate = PEER_ENDS;
}

bool refusals_hurry(struct refusals *refusals)
{
	(void)refusals;
	return scene.has_refusal;
}

static void begin(int max_login_clients)
{
	mem_free(scene.world.addresses);
	memset(&scene, 0, sizeof(scene));
	list_init(&scene.world.clients);
	scene.conf.settings.max_login_clients = max_login_clients;
	scene.world.conf = &scene.conf;
	scene.world.now = 100 * USEC;
	scene.world.addresses = client_addresses_new();
}

/* A client from 10.0.0.`host` that begins to log in. */
static struct client *come(int host)
{
	struct client *c = &scene.clients[scene.count];
	struct login *l = &scene.logins[scene.count++];

	c->peer.world = &scene.world;
	c->peer.remote.family = AF_INET;
	c->peer.remote.u.ip[0] = 10;
	c->peer.remote.u.ip[3] = (uint8_t)host;
	c->login = l;
	l->client = c;
	list_init(&l->address_node);
	list_init(&l->waited_for_node);
	list_append(&scene.world.clients, &c->peer.node);
	CHECK(client_address_enter(c));
	client_addresses_check(&scene.world);
	return c;
}

static void leave(struct client *c)
{
	client_address_leave(c);
	list_remove(&c->peer.node);
	client_addresses_check(&scene.world);
}

static void end(void)
{
	for (int i = 0; i < scene.count; i++)
		leave(&scene.clients[i]);
	CHECK(!scene.world.addresses->by_key);
}

/* The client of the login that ends in favour of this one; NULL: the newcomer is refused. */
static const struct client *displaced_by(struct client *newcomer)
{
	scene.ended = NULL;
	CHECK_INT(client_address_make_room(newcomer, REASON_LOGIN_TIMEOUT), scene.ended != NULL);
	return scene.ended;
}

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

TEST(what_counts_as_one_address)
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

TEST(the_youngest_of_the_fullest_address_ends)
{
	struct client *newcomer, *youngest;

	begin(3);
	come(1);
	come(1);
	youngest = come(1);
	come(2);
	newcomer = come(3);
	CHECK(displaced_by(newcomer) == youngest);
	end();
}

TEST(of_the_fullest_address_a_silent_client_ends_first)
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

TEST(equals_are_not_displaced_unless_they_are_silent)
{
	struct client *first, *newcomer;

	begin(1);
	first = come(1);
	newcomer = come(2);
	CHECK(!displaced_by(newcomer));
	scene.world.now += 2 * USEC;
	CHECK(displaced_by(come(3)) == first);
	end();
}

TEST(a_slow_login_stays_when_its_address_has_fewer_than_the_newcomers)
{
	begin(1);
	come(1);
	scene.world.now += 2 * USEC;
	come(2);
	CHECK(!displaced_by(come(2)));
	end();
}

TEST(a_login_that_waits_for_pgweir_is_not_silent)
{
	struct client *looked_up;

	begin(1);
	looked_up = come(1);
	looked_up->login->step = LOGIN_LOOKUP;
	client_address_login_stepped(looked_up);
	scene.world.now += 10 * USEC;
	CHECK(!displaced_by(come(2)));
	end();
}

TEST(a_waiting_refusal_goes_before_any_login)
{
	struct client *newcomer;

	begin(1);
	come(1);
	come(1);
	newcomer = come(2);
	scene.has_refusal = true;
	CHECK(client_address_make_room(newcomer, REASON_LOGIN_TIMEOUT));
	CHECK(!scene.ended);
	end();
}

TEST(trusted_users_of_the_unix_socket_are_not_bounded)
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

TEST(max_client_conn_per_ip_leaves_a_place_for_an_administrator)
{
	struct client *c;

	begin(100);
	scene.conf.settings.max_client_conn_per_ip = 2;
	come(1);
	come(1);
	c = come(1);
	CHECK(!client_address_may_have(c, false));
	CHECK(client_address_may_have(c, true));
	client_address_is_administrator(c);
	CHECK(!client_address_may_have(come(1), false));
	CHECK(client_address_may_have(c, true));
	end();
	mem_free(scene.world.addresses);
	scene.world.addresses = NULL;
}

UNIT_MAIN
