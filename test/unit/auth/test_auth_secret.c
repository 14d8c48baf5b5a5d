/*
 * Authentication with a secret: the authentication request, and correct, wrong and malformed responses, for users with each kind of secret and for
 * users without a secret.
 */
#include "auth/auth.h"

#include "backend/keys.h"
#include "backend/secrets.h"
#include "logins.h"
#include "pg/scram.h"
#include "whole.h"

#define PLAIN_INI WHOLE_INI("", "auth_type=plain\nlogin_failure_delay=0\n")
#define MD5_INI WHOLE_INI("", "auth_type=md5\nlogin_failure_delay=0\n")
#define SCRAM_INI WHOLE_INI("", "auth_type=scram-sha-256\nscram_iterations=10\nlogin_failure_delay=0\n")
#define REFUSED "E(28P01 password authentication failed)"
#define SASL_REFUSED "E(28P01 SASL authentication failed)"

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

/* ---- the password in clear ---- */

/* Logs in with this password and returns the messages to the client after the authentication request. */
static const char *clear(const char *user, const char *password)
{
	next(user);
	CHECK_INT(login_asked(client), 3);
	login_told(client);
	return login_password(client, password);
}

TEST(cleartext_password)
{
	begin(PLAIN_INI, "c");
	CHECK_INT(whole_last_client()->login->step, LOGIN_PASSWORD);
	CHECK_INT(whole_last_client()->login->question, QUESTION_PASSWORD);
	CHECK(login_is_welcome(clear("c", "pass")));
	CHECK(login_is_welcome(clear("m", "pass")));
	CHECK(login_is_welcome(clear("s", "pass")));
	CHECK_TEXT(clear("c", "pasS"), REFUSED);
	CHECK_TEXT(clear("m", "pasS"), REFUSED);
	CHECK_TEXT(clear("s", "pasS"), REFUSED);
	CHECK_TEXT(clear("n", "pass"), REFUSED);
	CHECK_TEXT(clear("nobody", "pass"), REFUSED);
	whole_close();
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

TEST(md5)
{
	char secret[MD5_SECRET + 1];

	begin(MD5_INI, "m");
	CHECK_INT(whole_last_client()->login->question, QUESTION_MD5);
	CHECK(login_is_welcome(md5_of(md5_text)));
	/* a password stored in clear works as well */
	next("c");
	CHECK(md5_secret("pass", "c", secret));
	CHECK(login_is_welcome(md5_of(secret)));
	next("m");
	CHECK_TEXT(md5_of(secret), REFUSED);
	whole_close();
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

/* MD5 cannot check a SCRAM secret: the user gets a SCRAM request. */
TEST(scram_is_used_for_scram_secrets_with_auth_type_md5)
{
	begin(MD5_INI, "s");
	CHECK_INT(login_asked(client), 10);
	CHECK_INT(whole_last_client()->login->question, QUESTION_SCRAM);
	whole_close();
}

/* ---- SCRAM ---- */

static struct scram_prover prover;

/* Returns the data of the last AuthenticationRequest. */
static const char *data_of(const struct house_end *end, size_t *size)
{
	struct pg_frames in = pg_frames_of(&end->got);
	const char *data = "";
	struct pg_frame f;

	*size = 0;
	while (pg_frames_next(&in, PG_LENGTH_LIMIT, &f) == PG_OK)
		if (f.type == 'R' && f.size >= 4) {
			data = (const char *)f.body + 4;
			*size = f.size - 4;
		}
	return data;
}

static void prover_begin(const char *password, const char *salt, size_t salt_size)
{
	static const uint8_t nonce[SCRAM_NONCE_RAW] = "client's nonce 18";
	uint8_t stored_key[SCRAM_KEY];

	scram_prover_init(&prover, nonce);
	prover.have_keys = scram_keys_derive(password, (const uint8_t *)salt, salt_size, 10, prover.client_key, stored_key, prover.server_key);
}

/* Sends the SASLInitialResponse with this mechanism. */
static void say_first(const char *mechanism)
{
	struct bytes data = BYTES_EMPTY, out = BYTES_EMPTY;
	const char *why;

	CHECK_INT(scram_prover_step(&prover, NULL, 0, NULL, NULL, &data, &why), SCRAM_CONTINUE);
	pg_build_sasl_initial(&out, mechanism, bytes_front(&data), bytes_size(&data));
	bytes_free(&data);
	login_send(client, &out);
}

static void say_final(void)
{
	struct bytes data = BYTES_EMPTY;
	const char *challenge, *why;
	size_t size;

	challenge = data_of(client, &size);
	CHECK_INT(scram_prover_step(&prover, challenge, size, NULL, NULL, &data, &why), SCRAM_CONTINUE);
	login_told(client);
	whole_say(client, 'p', bytes_front(&data), bytes_size(&data));
	bytes_free(&data);
}

TEST(scram_mechanisms_without_tls)
{
	static const char mechanisms[] = "SCRAM-SHA-256\0";
	const char *data;
	size_t size;

	begin(SCRAM_INI, "s");
	CHECK_INT(login_asked(client), 10);
	data = data_of(client, &size);
	CHECK(size == sizeof(mechanisms) && memcmp(data, mechanisms, size) == 0);
	CHECK_INT(whole_last_client()->login->step, LOGIN_SASL_FIRST);
	whole_close();
}

TEST(scram)
{
	uint8_t client_key[SCRAM_KEY], server_key[SCRAM_KEY];
	struct server_keys *keys;

	begin(SCRAM_INI, "s");
	keys = whole.world->secrets->keys;
	prover_begin("pass", "salt", 4);
	say_first("SCRAM-SHA-256");
	CHECK_INT(login_asked(client), 11);
	CHECK_INT(whole_last_client()->login->step, LOGIN_SASL_FINAL);
	CHECK(!keys_has(keys, "s", scram_text));
	say_final();
	CHECK(login_is_welcome(login_told(client)));
	/* the recovered client key is valid for servers with the same secret */
	CHECK(keys_find(keys, "s", scram_text, (const uint8_t *)"salt", 4, 10, client_key, server_key));
	CHECK(memcmp(client_key, prover.client_key, SCRAM_KEY) == 0 && memcmp(server_key, prover.server_key, SCRAM_KEY) == 0);
	scram_prover_clear(&prover);
	whole_close();
}

TEST(scram_with_a_wrong_password)
{
	begin(SCRAM_INI, "s");
	prover_begin("pasS", "salt", 4);
	say_first("SCRAM-SHA-256");
	say_final();
	CHECK_TEXT(login_told(client), SASL_REFUSED);
	CHECK(!keys_has(whole.world->secrets->keys, "s", scram_text));
	scram_prover_clear(&prover);
	whole_close();
}

/* An unknown user gets a challenge, and so does a user with an MD5 secret; each challenge is the same every time. */
static void is_made_up(const char *user)
{
	uint8_t salt[SCRAM_SALT_MAX];
	size_t size;

	next(user);
	CHECK_INT(login_asked(client), 10);
	CHECK(whole_last_client()->login->scram.mock);
	size = whole_last_client()->login->scram.secret.salt_size;
	memcpy(salt, whole_last_client()->login->scram.secret.salt, size);
	next(user);
	CHECK(memcmp(whole_last_client()->login->scram.secret.salt, salt, size) == 0);
	prover_begin("pass", (const char *)salt, size);
	say_first("SCRAM-SHA-256");
	CHECK_INT(login_asked(client), 11);
	say_final();
	CHECK_TEXT(login_told(client), SASL_REFUSED);
	scram_prover_clear(&prover);
}

TEST(scram_login_of_users_without_a_scram_secret)
{
	begin(SCRAM_INI, "s");
	is_made_up("nobody");
	is_made_up("m");
	is_made_up("n");
	whole_close();
}

TEST(mechanisms_that_are_not_offered)
{
	begin(SCRAM_INI, "s");
	prover_begin("pass", "salt", 4);
	login_told(client);
	say_first("SCRAM-SHA-256-PLUS");
	CHECK_TEXT(login_told(client), SASL_REFUSED);
	scram_prover_clear(&prover);
	next("s");
	prover_begin("pass", "salt", 4);
	login_told(client);
	say_first("SCRAM-SHA-1");
	CHECK_TEXT(login_told(client), SASL_REFUSED);
	scram_prover_clear(&prover);
	whole_close();
}

/* pgweir requests the missing initial data with an empty challenge. */
TEST(initial_response_without_data)
{
	static const char body[] = "SCRAM-SHA-256\0\377\377\377\377";
	size_t size;

	begin(SCRAM_INI, "s");
	whole_say(client, 'p', body, sizeof(body) - 1);
	CHECK_INT(login_asked(client), 11);
	data_of(client, &size);
	CHECK_INT(size, 0);
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
	next("s");
	prover_begin("pass", "salt", 4);
	say_first("SCRAM-SHA-256");
	login_told(client);
	whole_say(client, 'p', "nonsense", 8);
	CHECK_TEXT(login_told(client), SASL_REFUSED);
	scram_prover_clear(&prover);
	whole_close();
}

/* With auth_type md5, the error message must not reveal that the exchange was SCRAM. */
TEST(error_message_of_md5_with_a_scram_secret)
{
	begin(MD5_INI, "s");
	prover_begin("pasS", "salt", 4);
	say_first("SCRAM-SHA-256");
	say_final();
	CHECK_TEXT(login_told(client), REFUSED);
	scram_prover_clear(&prover);
	whole_close();
}

UNIT_MAIN
