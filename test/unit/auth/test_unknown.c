/* Authentication requests to unknown users: constant for a name, and in the proportions of the known users. */
#include "auth/login_state.h"
#include "auth/unknown.h"
#include "backend/keys.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

#define NAMES 400

static struct {
	struct world world;
	struct conf conf;
	struct conf_database of_database[2];
	struct database database[2];
	struct pool pool[2];
	struct secrets secrets;
	struct client client;
	struct login login;
	char user[32];
} scene;

static void begin(void)
{
	static char hosts[2][8] = { "db1", "db2" };

	unknown_free(&scene.world.logins.unknown);
	memset(&scene, 0, sizeof(scene));
	scene.world.conf = &scene.conf;
	scene.world.logins.secrets = &scene.secrets;
	scene.world.logins.unknown = unknown_new();
	scene.client.peer.world = &scene.world;
	scene.client.login = &scene.login;
	for (int i = 0; i < 2; i++) {
		scene.of_database[i].host = hosts[i];
		scene.of_database[i].port = "5432";
		scene.database[i].conf = &scene.of_database[i];
		scene.pool[i].database = &scene.database[i];
	}
}

static void end(void)
{
	unknown_free(&scene.world.logins.unknown);
}

/* The client names this user in a database of that server. */
static const struct client *names(int server, int user)
{
	snprintf(scene.user, sizeof(scene.user), "user%d", user);
	memset(&scene.login, 0, sizeof(scene.login));
	scene.login.user = scene.user;
	scene.login.sought = USER_NOT_FOUND;
	scene.login.source = unknown_source_of(scene.world.logins.unknown, &scene.pool[server]);
	return &scene.client;
}

static void prove(int server, int user, const char *text)
{
	union { struct secret secret; char room[256]; } u;
	char name[32];

	u.secret.length = strlen(text);
	memcpy(u.secret.bytes, text, u.secret.length + 1);
	snprintf(name, sizeof(name), "known%d", user);
	unknown_user_proven(&scene.world, unknown_source_of(scene.world.logins.unknown, &scene.pool[server]), name, &u.secret);
}

#define SCRAM_OF(rounds) "SCRAM-SHA-256$" rounds ":AAECAwQFBgcICQoLDA0ODw==$" \
	"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define MD5 "md5" "0123456789abcdef0123456789abcdef"

static int count_scram(int server)
{
	int count = 0;

	for (int i = 0; i < NAMES; i++)
		count += unknown_is_scram(names(server, i));
	return count;
}

TEST(without_known_users_postgresql_defaults_are_used)
{
	begin();
	CHECK_INT(count_scram(0), NAMES);
	end();
}

TEST(secret_kinds_follow_the_server_that_answered)
{
	begin();
	for (int i = 0; i < 10; i++)
		prove(0, i, MD5);
	for (int i = 0; i < 10; i++)
		prove(1, i, i < 5 ? MD5 : SCRAM_OF("4096"));
	CHECK_INT(count_scram(0), 0);
	CHECK(count_scram(1) > NAMES / 3 && count_scram(1) < NAMES * 2 / 3);
	end();
}

TEST(each_user_counts_once_with_its_latest_secret)
{
	begin();
	for (int i = 0; i < 100; i++)
		prove(0, 1, MD5);
	prove(0, 2, SCRAM_OF("4096"));
	CHECK(count_scram(0) > NAMES / 3);
	prove(0, 1, SCRAM_OF("4096"));
	CHECK_INT(count_scram(0), NAMES);
	end();
}

TEST(unknown_user_gets_a_constant_request_per_server)
{
	struct scram_secret first, again, other;
	bool plain;

	begin();
	prove(0, 1, SCRAM_OF("10000"));
	prove(1, 1, SCRAM_OF("10000"));
	REQUIRE(unknown_secret(names(0, 7), 4096, &first, &plain, NULL) && unknown_secret(names(0, 7), 4096, &again, &plain, NULL));
	REQUIRE(unknown_secret(names(1, 7), 4096, &other, &plain, NULL));
	CHECK(first.salt_size > 0 && first.salt_size == again.salt_size && memcmp(first.salt, again.salt, first.salt_size) == 0);
	CHECK_INT(first.iterations, 10000);
	CHECK(memcmp(first.salt, other.salt, first.salt_size) != 0);
	end();
}

TEST(derived_keys_are_cached_by_name_and_iterations)
{
	begin();
	CHECK(!unknown_derived(names(0, 7), 4096, false));
	unknown_derived(names(0, 7), 4096, true);
	CHECK(unknown_derived(names(0, 7), 4096, false));
	CHECK(!unknown_derived(names(0, 7), 8192, false));
	CHECK(!unknown_derived(names(0, 8), 4096, false));
	CHECK(!unknown_derived(names(1, 7), 4096, false));
	end();
}

TEST(counts_are_handed_over)
{
	struct bytes packed = BYTES_EMPTY;
	struct unpack in;
	int before;

	begin();
	for (int i = 0; i < 9; i++)
		prove(0, i, i % 3 ? MD5 : SCRAM_OF("4096"));
	before = count_scram(0);
	unknown_pack(&packed, scene.world.logins.unknown);
	unknown_free(&scene.world.logins.unknown);
	scene.world.logins.unknown = unknown_new();
	in = unpack_of(bytes_front(&packed), bytes_size(&packed));
	unknown_unpack(&in, scene.world.logins.unknown);
	CHECK(!in.bad);
	CHECK_INT(count_scram(0), before);
	bytes_free(&packed);
	end();
}

UNIT_MAIN
