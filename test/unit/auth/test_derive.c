/*
 * Logins that need a derived key: a password in clear checked against a SCRAM secret, and a SCRAM login of a user with a password in clear. The test
 * world replaces the derivation processes and answers in the next turn.
 */
#include "auth/derive.h"

#include "auth/auth.h"
#include "backend/keys.h"
#include "backend/secrets.h"
#include "login/login.h"
#include "logins.h"
#include "whole.h"

#define PLAIN_INI WHOLE_INI("", "auth_type=plain\n")
#define SCRAM_INI WHOLE_INI("", "auth_type=scram-sha-256\nscram_iterations=10\n")
#define PLAIN_USERS "\"c\" \"pass\"\n"

static struct house_end *client;
static char stored[SCRAM_SECRET_TEXT], users[SCRAM_SECRET_TEXT + 20];

/* Stores the SCRAM secret of user s for this password and number of iterations. */
static void secret_of(const char *password, uint32_t iterations)
{
	struct scram_secret secret = { .iterations = iterations, .salt_size = 4, .salt = "salt" };
	uint8_t salted[SCRAM_KEY], client_key[SCRAM_KEY];

	/* a higher number of iterations would take too long, and its secret need not be correct */
	CHECK(scram_salted_derive(password, secret.salt, 4, iterations <= 1000 ? iterations : 1, salted));
	CHECK(scram_keys_of_salted(salted, client_key, secret.stored_key, secret.server_key));
	CHECK(scram_secret_write(&secret, stored, sizeof(stored)));
	snprintf(users, sizeof(users), "\"s\" \"%s\"\n", stored);
}

static void begin(const char *user)
{
	login_open(PLAIN_INI, users);
	client = login_name(user, "d");
	CHECK_INT(login_asked(client), 3);
	login_told(client);
}

/* The message is read, and the derivation has not finished. */
static void password_comes(const char *password)
{
	auth_message(whole_last_client(), (const uint8_t *)password, strlen(password) + 1);
}

/* ---- a password in clear, and a SCRAM secret ---- */

TEST(correct_password)
{
	secret_of("pass", 10);
	begin("s");
	password_comes("pass");
	CHECK_INT(whole_last_client()->login->step, LOGIN_DERIVE);
	CHECK(whole_last_client()->login->derivation.derivation);
	house_settle(&whole);
	CHECK(login_is_welcome(login_told(client)));
	CHECK(!whole_last_client()->login);
	/* the key is cached: the next login of the user derives nothing, and the key works for server logins */
	CHECK(keys_password_is_proven(whole.world->secrets->keys, "pass", "s", stored));
	CHECK(keys_has(whole.world->secrets->keys, "s", stored));
	client = login_name("s", "d");
	password_comes("pass");
	CHECK(!whole_last_client()->login || whole_last_client()->login->step == LOGIN_PROVEN);
	CHECK(!whole.world->derivations->under_way);
	whole_close();
}

TEST(wrong_password)
{
	secret_of("pass", 10);
	begin("s");
	CHECK_TEXT(login_password(client, "Pass"), "E(28P01 password authentication failed)");
	CHECK(!keys_password_is_proven(whole.world->secrets->keys, "Pass", "s", stored));
	CHECK(!keys_has(whole.world->secrets->keys, "s", stored));
	whole_close();
}

/* An unknown user causes the same work and gets the same error message as a known user. */
TEST(unknown_user)
{
	secret_of("pass", 10);
	begin("nobody");
	password_comes("pass");
	CHECK_INT(whole_last_client()->login->step, LOGIN_DERIVE);
	house_settle(&whole);
	CHECK_TEXT(login_told(client), "E(28P01 password authentication failed)");
	whole_close();
}

TEST(too_many_iterations)
{
	secret_of("pass", SCRAM_ITERATIONS_MAX + 1);
	begin("s");
	password_comes("pass");
	CHECK(!whole.world->derivations->under_way);
	house_settle(&whole);
	CHECK_TEXT(login_told(client), "E(28P01 password authentication failed)");
	whole_close();
}

/* A message that arrives during the derivation is kept. */
TEST(query_during_derivation_is_kept)
{
	struct bytes out = BYTES_EMPTY;
	const char *told;

	secret_of("pass", 10);
	begin("s");
	pg_build_password(&out, "pass", 5);
	pg_build_query(&out, "SELECT 1");
	login_send(client, &out);
	told = login_told(client);
	CHECK(login_is_welcome(told) && strstr(told, " T D C(SELECT 1) Z(I)"));
	whole_close();
}

TEST(client_disconnects_during_derivation)
{
	secret_of("pass", 10);
	begin("s");
	password_comes("pass");
	CHECK(whole.world->derivations->under_way);
	client_end(whole_last_client(), REASON_CLIENT_EOF, NULL);
	house_hang_up(client);
	house_settle(&whole);
	CHECK(!whole.world->derivations->under_way);
	whole_close();
}

TEST(out_of_memory)
{
	int ended = 0, failed = 1;

	secret_of("pass", 10);
	for (int more = 0; failed > 0; more++) {
		begin("s");
		whole_memory_ends(more);
		password_comes("pass");
		failed = whole_memory_is_back();
		house_settle(&whole);
		if (client->is_gone) {
			ended++;
			CHECK_TEXT(login_told(client), "E(53200 out of memory)");
		} else {
			CHECK(login_is_welcome(login_told(client)));
		}
		whole_close();
	}
	CHECK(ended > 0);
}

/* ---- SCRAM, and a password in clear ---- */

TEST(key_is_derived_before_the_challenge)
{
	static const uint8_t salt[MOCK_SALT];
	struct client *c;

	login_open(SCRAM_INI, PLAIN_USERS);
	client = login_name("c", "d");
	c = whole_last_client();
	CHECK_INT(login_asked(client), 10);
	CHECK_INT(c->login->step, LOGIN_SASL_FIRST);
	CHECK(!c->login->scram.mock && !c->login->password);
	CHECK_INT(c->login->scram.secret.iterations, 10);
	CHECK(c->login->derived_for == whole.world->secrets->keys);
	CHECK(keys_plain_secret(whole.world->secrets->keys, "c", "pass", c->login->derived_salt, 10));
	CHECK(!keys_plain_secret(whole.world->secrets->keys, "c", "pass", salt, 10));
	/* the next login uses the cached key */
	client = login_name("c", "d");
	CHECK_INT(login_asked(client), 10);
	CHECK(!whole_last_client()->login->derived_for && !whole_last_client()->login->derived_iterations);
	whole_close();
}

/* An unknown user that is treated like a user with a password in clear: its key is derived once although the login cannot succeed. */
TEST(unknown_user_with_scram)
{
	login_open(SCRAM_INI, PLAIN_USERS);
	client = login_name("nobody", "d");
	CHECK_INT(login_asked(client), 10);
	CHECK(whole_last_client()->login->scram.mock);
	CHECK(!whole_last_client()->login->derived_for);
	CHECK_INT(whole_last_client()->login->derived_iterations, 10);
	client = login_name("nobody", "d");
	CHECK_INT(login_asked(client), 10);
	CHECK_INT(whole_last_client()->login->derived_iterations, 0);
	whole_close();
}

/* ---- results of the derivation ---- */

/* Delivers this result in place of the running derivation's. */
static void answered(enum verify_verdict verdict)
{
	struct derivation_wait *wait = &whole_last_client()->login->derivation;
	struct verify_answer answer = { 0 };

	verify_answer_set(&answer, verdict, "%s", "no process");
	derivation_leave(wait);
	wait->done(wait, &answer);
	house_settle(&whole);
}

TEST(derivation_process_is_unavailable)
{
	secret_of("pass", 10);
	begin("s");
	password_comes("pass");
	answered(VERIFIED_UNKNOWN);
	CHECK_TEXT(login_told(client), "E(28P01 password authentication failed)");
	whole_close();
	begin("s");
	password_comes("pass");
	answered(VERIFIED_DISPLACED);
	CHECK_TEXT(login_told(client), "E(53300 too many logins wait for a look-up or verifier (max_auth_queue))");
	whole_close();
}

/* If no process can derive, a challenge with few iterations is derived in the event loop, for known and unknown users. */
static void derived_in_the_loop(const char *user, enum verify_verdict verdict, uint32_t iterations, bool is_asked)
{
	struct client *c;

	login_open(SCRAM_INI, PLAIN_USERS);
	whole.world->conf->settings.scram_iterations = iterations;
	/* the login is stopped before the derivation, because the test runs no turn */
	client = house_connect(&whole);
	c = whole_last_client();
	{
		const char *const pairs[] = { "user", user, "database", "d" };
		struct bytes out = BYTES_EMPTY;

		pg_build_startup(&out, 3u << 16, pairs, 4);
		bytes_append(&c->peer.held, bytes_front(&out), bytes_size(&out));
		bytes_free(&out);
		login_read(c, false);
	}
	CHECK_INT(c->login->step, LOGIN_DERIVE);
	answered(verdict);
	CHECK_INT(login_asked(client), is_asked ? 10 : -1);
	if (!is_asked)
		CHECK_TEXT(login_told(client), "E(28P01 password authentication failed)");
	whole.world->conf->settings.scram_iterations = 10;
	whole_close();
}

TEST(few_iterations_are_derived_in_the_event_loop)
{
	derived_in_the_loop("c", VERIFIED_UNKNOWN, 10, true);
	derived_in_the_loop("nobody", VERIFIED_UNKNOWN, 10, true);
	derived_in_the_loop("c", VERIFIED_UNKNOWN, DERIVATION_IN_LOOP + 1, false);
	derived_in_the_loop("c", VERIFIED_NO, 10, false);
}

UNIT_MAIN
