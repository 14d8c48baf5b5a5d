/* Made-up secrets of unknown users: similar to the known users' secrets, in the same proportions, and constant for a name. */
#include "auth/login_state.h"
#include "auth/unknown.h"
#include "pg/scram.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

#define NAMES 4000

static struct conf conf;
static struct secrets secrets;
static struct world world = { .conf = &conf, .logins.secrets = &secrets, .seed = { 1, 2, 3 } };
static struct login login;
static struct client client = { .peer.world = &world, .login = &login };
static char user_name[64];

/* The client names this user, and the known users have secrets of these kinds. */
static const struct client *names(const struct secret_kinds *kinds, const char *user)
{
	secrets.kinds = *kinds;
	snprintf(user_name, sizeof(user_name), "%s", user);
	memset(&login, 0, sizeof(login));
	login.user = user_name;
	return &client;
}

/* Counts `count` SCRAM secrets of this shape. */
static void add_scram(struct secret_kinds *kinds, uint32_t iterations, uint8_t salt_size, int count)
{
	struct scram_secret secret = { .iterations = iterations, .salt_size = salt_size };
	char text[SCRAM_SECRET_TEXT];
	struct secret *one;

	CHECK(scram_secret_write(&secret, text, sizeof(text)));
	one = secret_new(text, strlen(text));
	while (count-- > 0)
		unknown_count_secret(kinds, one);
	secret_free(&one);
}

static void add(struct secret_kinds *kinds, const char *text, int count)
{
	struct secret *one = secret_new(text, strlen(text));

	while (count-- > 0)
		unknown_count_secret(kinds, one);
	secret_free(&one);
}

static const char *name(int i)
{
	static char text[24];

	snprintf(text, sizeof(text), "user%d", i);
	return text;
}

static struct scram_secret secret_for(const struct secret_kinds *kinds, const char *user, uint32_t plain_iterations)
{
	struct scram_secret secret;
	bool is_plain;

	CHECK(unknown_secret(names(kinds, user), plain_iterations, &secret, &is_plain, NULL));
	CHECK(!is_plain || (secret.iterations == plain_iterations && secret.salt_size == MOCK_SALT));
	return secret;
}

TEST(secret_is_constant_for_a_name)
{
	struct secret_kinds kinds = { .all = 0 };
	struct scram_secret one, again, other;

	add_scram(&kinds, 4096, 16, 3);
	add_scram(&kinds, 100000, 16, 3);
	one = secret_for(&kinds, "alice", 5000);
	again = secret_for(&kinds, "alice", 5000);
	CHECK(memcmp(&one, &again, sizeof(one)) == 0);
	other = secret_for(&kinds, "alicf", 5000);
	CHECK(memcmp(one.salt, other.salt, 16) != 0);
	world.seed[31] = 1;
	other = secret_for(&kinds, "alice", 5000);
	CHECK(memcmp(one.salt, other.salt, 16) != 0);
	world.seed[31] = 0;
}

/* The salt of a name in the databases of this server. */
static struct scram_secret secret_at(const char *host, const char *port, const char *user)
{
	struct secret_kinds none = { .all = 0 };
	struct conf_database of_database = { .host = host, .port = port };
	struct database database = { .conf = &of_database };
	struct pool pool = { .database = &database };
	struct scram_secret secret = { .iterations = 0 };
	bool is_plain;

	names(&none, user);
	login.source = unknown_source_of(world.logins.unknown, &pool);
	CHECK(login.source && unknown_secret(&client, 0, &secret, &is_plain, NULL));
	return secret;
}

TEST(secret_depends_on_the_place)
{
	const char *a = "a", *b = "b";
	struct scram_secret here, there, end;

	world.logins.unknown = unknown_new();
	here = secret_at(a, "1", "1lice");
	there = secret_at(b, "1", "1lice");
	/* source and name are not confused */
	end = secret_at(a, "11", "lice");
	CHECK(memcmp(here.salt, there.salt, 16) != 0 && memcmp(here.salt, end.salt, 16) != 0);
	unknown_free(&world.logins.unknown);
}

TEST(salt_equals_the_salt_of_the_derived_secret)
{
	struct secret_kinds kinds = { .all = 0 };
	struct scram_secret secret;
	uint8_t salt[MOCK_SALT];
	bool is_plain;

	REQUIRE(unknown_secret(names(&kinds, "alice"), 0, &secret, &is_plain, salt));
	CHECK(memcmp(secret.salt, salt, MOCK_SALT) == 0);
}

TEST(kinds_have_the_proportions_of_real_secrets)
{
	struct secret_kinds none = { .all = 0 }, all_scram = none, no_scram = none, quarter = none;
	int scram = 0, by_salt = 0;

	add_scram(&all_scram, 4096, 16, 5);
	add(&no_scram, "md5" "0123456789abcdef0123456789abcdef", 5);
	add_scram(&quarter, 4096, 16, 1);
	add(&quarter, "plain", 3);
	for (int i = 0; i < NAMES; i++) {
		const char *user = name(i);
		struct scram_secret mock = secret_for(&quarter, user, 4096);
		bool is_scram = unknown_is_scram(names(&quarter, user));
		uint32_t salt;

		CHECK(!unknown_is_scram(names(&none, user)));
		CHECK(unknown_is_scram(names(&all_scram, user)));
		CHECK(!unknown_is_scram(names(&no_scram, user)));
		scram += is_scram;
		/* the salt, which is sent to the client, is independent of the kind */
		memcpy(&salt, mock.salt, sizeof(salt));
		by_salt += salt < UINT32_MAX / 4 && is_scram;
	}
	CHECK(scram > NAMES / 5 && scram < NAMES * 3 / 10);
	CHECK(by_salt > NAMES / 27 && by_salt < NAMES / 11);
}

TEST(shapes_have_the_proportions_of_real_secrets)
{
	struct secret_kinds kinds = { .all = 0 };
	int few = 0, many = 0, long_salt = 0, plain = 0;

	add_scram(&kinds, 4096, 16, 4);
	add_scram(&kinds, 600000, 16, 2);
	add_scram(&kinds, 4096, 33, 1);
	add(&kinds, "plain", 1);
	for (int i = 0; i < NAMES; i++) {
		struct scram_secret mock = secret_for(&kinds, name(i), 7777);

		few += mock.iterations == 4096 && mock.salt_size == 16;
		many += mock.iterations == 600000 && mock.salt_size == 16;
		long_salt += mock.iterations == 4096 && mock.salt_size == 33;
		plain += mock.iterations == 7777;
		/* if users with other secrets get other requests, no unknown user looks like them */
		CHECK(secret_for(&kinds, name(i), 0).iterations != 7777);
	}
	CHECK_INT(few + many + long_salt + plain, NAMES);
	CHECK(few > NAMES * 9 / 20 && few < NAMES * 11 / 20);
	CHECK(many > NAMES / 5 && many < NAMES * 3 / 10);
	CHECK(long_salt > NAMES / 10 && long_salt < NAMES * 3 / 20);
	CHECK(plain > NAMES / 10 && plain < NAMES * 3 / 20);
}

TEST(changed_list_keeps_most_secrets)
{
	struct secret_kinds before = { .all = 0 }, after;
	int changed = 0;

	add_scram(&before, 4096, 16, 50);
	add_scram(&before, 100000, 16, 50);
	after = before;
	add_scram(&after, 4096, 16, 1);
	for (int i = 0; i < NAMES; i++)
		changed += secret_for(&before, name(i), 0).iterations != secret_for(&after, name(i), 0).iterations;
	CHECK(changed < NAMES / 50);
}

TEST(without_known_users_postgresql_defaults_are_used)
{
	struct secret_kinds kinds = { .all = 0 };
	struct scram_secret mock = secret_for(&kinds, "alice", 100000);

	CHECK_INT(mock.iterations, 4096);
	CHECK_INT(mock.salt_size, 16);
	add(&kinds, "", 3);
	CHECK_INT(kinds.all, 0);
}

TEST(number_of_shapes_is_limited)
{
	struct secret_kinds kinds = { .all = 0 };
	uint32_t sum = 0;

	for (uint32_t i = 20; i > 0; i--)
		add_scram(&kinds, 4096 + i, 16, 2);
	CHECK_INT(kinds.scram, 40);
	for (int i = 0; i < SECRET_SHAPES; i++) {
		sum += kinds.shapes[i].count;
		CHECK(i == 0 || kinds.shapes[i - 1].iterations < kinds.shapes[i].iterations);
	}
	CHECK_INT(sum, 40);
	for (int i = 0; i < NAMES; i++)
		CHECK(secret_for(&kinds, name(i), 0).iterations > 4096);
}

UNIT_MAIN
