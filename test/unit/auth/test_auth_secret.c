/*
 * Methods that check a secret: responses that are always wrong or malformed, and failures of the key derivation. test/live/test_login_client.py and
 * test/wire/test_clear_passwords.py have the exchanges.
 */
#include "auth/auth.h"

#include "backend/keys.h"
#include "derive.h"
#include "login/login.h"
#include "logins.h"
#include "pg/scram.h"
#include "whole.h"

#define PLAIN_INI WHOLE_INI("", "auth_type=plain\nlogin_failure_delay=0\n")
#define MD5_INI WHOLE_INI("", "auth_type=md5\nlogin_failure_delay=0\n")
#define SCRAM_INI WHOLE_INI("", "auth_type=scram-sha-256\nscram_iterations=10\nlogin_failure_delay=0\n")
#define REFUSED "E(28P01 password authentication failed)"
#define SASL_REFUSED "E(28P01 SASL authentication failed)"

#define DERIVES_INI WHOLE_INI("", "auth_type=plain\n")
#define SCRAM_DERIVES_INI WHOLE_INI("", "auth_type=scram-sha-256\nscram_iterations=10\n")

static struct house_end *client;
static char users[1000], scram_text[SCRAM_SECRET_TEXT], md5_text[MD5_SECRET + 1];

/* Users c, m, s, n with the password "pass" in clear, as MD5, as SCRAM, and with none. */
static void begin(const char *ini, const char *user)
{
	struct scram_secret secret = { .iterations = 10, .salt_size = 4, .salt = "salt" };
	uint8_t client_key[SCRAM_KEY];

	CHECK(scram_keys_derive("pass", secret.salt, 4, 10, client_key, secret.stored_key, secret.server_key));
	CHECK(scram_secret_write(&secret, scram_text, sizeof(scram_text)));
	CHECK(md5_secret("pass", "m", md5_text));
	snprintf(users, sizeof(users), "\"c\" \"pass\"\n\"m\" \"%s\"\n\"s\" \"%s\"\n\"n\" \"\"\n", md5_text, scram_text);
	login_open(ini, users);
	client = login_name(user, "d");
}

static void next(const char *user)
{
	client = login_name(user, "d");
}

/* ---- the password in clear text ---- */

/* Logs in with this password and returns the messages to the client after the authentication request. */
static const char *clear(const char *user, const char *password)
{
	next(user);
	CHECK_INT(login_asked(client), 3);
	login_told(client);
	return login_password(client, password);
}

/* An empty password is always wrong, even for a user whose secret is empty. A stored hash is not accepted as a password. */
TEST(passwords_that_are_always_wrong)
{
	begin(PLAIN_INI, "c");
	CHECK_TEXT(clear("c", ""), REFUSED);
	CHECK_TEXT(clear("n", ""), REFUSED);
	CHECK_TEXT(clear("nobody", ""), REFUSED);
	CHECK_TEXT(clear("m", md5_text), REFUSED);
	CHECK_TEXT(clear("s", scram_text), REFUSED);
	whole_close();
}

TEST(message_other_than_password)
{
	begin(PLAIN_INI, "c");
	login_told(client);
	whole_say(client, 'p', "pass", 4);
	CHECK_TEXT(login_told(client), "E(08P01 unexpected packet type during login: malformed password)");
	next("c");
	login_told(client);
	whole_say(client, 'p', "pass\0x", 7);
	CHECK_TEXT(login_told(client), "E(08P01 unexpected packet type during login: malformed password)");
	whole_close();
}

/* ---- MD5 ---- */

/* Returns the response to the client's MD5 request, computed from this secret. */
static const char *md5_of(const char *secret)
{
	char answer[MD5_SECRET + 1];

	CHECK_INT(login_asked(client), 5);
	login_told(client);
	CHECK(md5_answer(secret, whole_last_client()->login->md5_salt, answer));
	return login_password(client, answer);
}

/* Each request has a new salt, so a response is valid once. */
TEST(md5_response_to_an_earlier_salt)
{
	char answer[MD5_SECRET + 1];

	begin(MD5_INI, "m");
	CHECK(md5_answer(md5_text, whole_last_client()->login->md5_salt, answer));
	next("m");
	login_told(client);
	CHECK_TEXT(login_password(client, answer), REFUSED);
	whole_close();
}

TEST(malformed_md5_responses)
{
	char answer[MD5_SECRET + 2];

	begin(MD5_INI, "m");
	login_told(client);
	CHECK_TEXT(login_password(client, ""), REFUSED);
	next("m");
	login_told(client);
	CHECK_TEXT(login_password(client, "pass"), REFUSED);
	next("m");
	CHECK(md5_answer(md5_text, whole_last_client()->login->md5_salt, answer));
	strcat(answer, "x");
	login_told(client);
	CHECK_TEXT(login_password(client, answer), REFUSED);
	whole_close();
}

/* The made-up secret of users without a secret (the hash of the empty password) is not accepted. */
TEST(md5_login_of_users_without_a_secret)
{
	static const char *const names[] = { "n", "nobody" };
	char secret[MD5_SECRET + 1];

	/* if all known users have MD5 secrets, unknown users get an MD5 request */
	login_open(MD5_INI, "\"m\" \"md50123456789abcdef0123456789abcdef\"\n\"n\" \"\"\n");
	for (int i = 0; i < 2; i++) {
		next(names[i]);
		CHECK(md5_secret("", names[i], secret));
		CHECK_TEXT(md5_of(secret), REFUSED);
	}
	whole_close();
}

/* ---- SCRAM ---- */

/* pgweir requests the missing initial data with an empty challenge. */
TEST(initial_response_without_data)
{
	static const char body[] = "SCRAM-SHA-256\0\377\377\377\377";

	begin(SCRAM_INI, "s");
	whole_say(client, 'p', body, sizeof(body) - 1);
	CHECK_INT(login_asked(client), 11);
	CHECK_INT(whole_last_client()->login->step, LOGIN_SASL_FINAL);
	whole_close();
}

TEST(malformed_scram_messages)
{
	static const char longer[] = "SCRAM-SHA-256\0\0\0\0\2nn,", shorter[] = "SCRAM-SHA-256\0\0\0\0\x7fn,,";

	begin(SCRAM_INI, "s");
	login_told(client);
	whole_say(client, 'p', longer, sizeof(longer) - 1);
	CHECK_TEXT(login_told(client), SASL_REFUSED);
	next("s");
	login_told(client);
	whole_say(client, 'p', shorter, sizeof(shorter) - 1);
	CHECK_TEXT(login_told(client), SASL_REFUSED);
	whole_close();
}

/* ---- key derivation ---- */

/* Stores the SCRAM secret of user s for this password and number of iterations. */
static void secret_of(const char *password, uint32_t iterations)
{
	struct scram_secret secret = { .iterations = iterations, .salt_size = 4, .salt = "salt" };
	uint8_t salted[SCRAM_KEY], client_key[SCRAM_KEY];

	/* a higher number of iterations would take too long, and its secret need not be correct */
	CHECK(scram_salted_derive(password, secret.salt, 4, iterations <= 1000 ? iterations : 1, salted));
	CHECK(scram_keys_of_salted(salted, client_key, secret.stored_key, secret.server_key));
	CHECK(scram_secret_write(&secret, scram_text, sizeof(scram_text)));
	snprintf(users, sizeof(users), "\"s\" \"%s\"\n", scram_text);
}

static void begin_derivation(const char *user)
{
	login_open(DERIVES_INI, users);
	client = login_name(user, "d");
	CHECK_INT(login_asked(client), 3);
	login_told(client);
}

/* The message is read, and the derivation has not finished. */
static void password_comes(const char *password)
{
	auth_message(whole_last_client(), (const uint8_t *)password, strlen(password) + 1);
}

TEST(out_of_memory_in_a_derivation)
{
	int ended = 0, failed = 1;

	secret_of("pass", 10);
	for (int more = 0; failed > 0; more++) {
		begin_derivation("s");
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
	begin_derivation("s");
	password_comes("pass");
	answered(VERIFIED_UNKNOWN);
	CHECK_TEXT(login_told(client), "E(28P01 password authentication failed)");
	whole_close();
	begin_derivation("s");
	password_comes("pass");
	answered(VERIFIED_DISPLACED);
	CHECK_TEXT(login_told(client), "E(53300 too many logins wait for a look-up or verifier (max_auth_queue))");
	whole_close();
}

/* If no process can derive, a challenge with few iterations is derived in the event loop, for known and unknown users. */
static void derived_in_the_loop(const char *user, enum verify_verdict verdict, uint32_t iterations, bool is_asked)
{
	struct client *c;

	login_open(SCRAM_DERIVES_INI, "\"c\" \"pass\"\n");
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
