/*
 * Authentication requests of a server: the secret for the response, refused requests, and requests that violate the exchange. The test plays the
 * server.
 */
#include "backend/server_auth.h"

#include "backend/dial.h"
#include "backend/keys.h"
#include "backend/server_login.h"
#include "derive.h"
#include "logins.h"
#include "whole.h"

#define ANY_METHOD "server_require_auth=none,password,md5,scram-sha-256\n"
#define PASSWORD_INI WHOLE_INI("password=pass", ANY_METHOD)
#define LISTED_INI WHOLE_INI("", ANY_METHOD)
#define BINDING_INI "[databases]\nd = " HOUSE_SERVER "user=u password=pass channel_binding=require" HOUSE_SETTINGS_SSL \
	"server_tls_sslmode=prefer\nauth_type=any\n" ANY_METHOD
#define SCRAM_INI WHOLE_INI("password=pass", "server_require_auth=scram-sha-256\n")
#define MD5_LISTED "\"u\" \"md50123456789abcdef0123456789abcdef\"\n"
#define SCRAM_LISTED "\"u\" \"SCRAM-SHA-256$10:AAECAwQFBgcICQoLDA0ODw==$AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=:" \
	"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"\n"
#define SASL "SCRAM-SHA-256\0"

static struct house_end *server;
static struct server *s;

static void begin(const char *ini, const char *users)
{
	login_open(ini, users);
	whole.servers_answer = false;
	login_name("v", "d");
	server = house_server(&whole);
	s = whole_last_server();
	/* the server has no TLS */
	if (s->dial->step == DIAL_SSL_ANSWER) {
		house_send(&whole, server, "N", 1);
		house_settle(&whole);
	}
	CHECK_INT(s->dial->step, DIAL_STARTUP);
	server->seen = bytes_size(&server->got);
}

static void asks(uint32_t code, const void *data, size_t size)
{
	struct bytes out = BYTES_EMPTY;

	pg_build_auth(&out, code, data, size);
	house_send(&whole, server, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	dial_read(s, true);
}

static void ended(enum close_reason why, const char *detail)
{
	CHECK(peer_is_ending(&s->peer));
	CHECK_INT(s->peer.end_reason, why);
	if (detail)
		CHECK_TEXT(s->peer.end_detail, detail);
	whole_close();
}

static void broken(const char *detail)
{
	ended(REASON_SERVER_LOGIN_BROKEN, detail);
}

/* Returns pgweir's response of this message type. */
static struct pg_frame answer(uint8_t type)
{
	struct pg_frame f = { .type = 0 };
	struct bytes news;

	house_settle(&whole);
	news = house_news(server);
	CHECK(pg_frame_look(bytes_front(&news), bytes_size(&news), INT32_MAX, &f) == PG_OK && pg_frame_is_whole(&f));
	CHECK_INT(f.type, type);
	return f;
}

/* ---- passwords ---- */

TEST(cleartext_password)
{
	begin(PASSWORD_INI, "");
	asks(3, NULL, 0);
	CHECK_INT(s->dial->step, DIAL_PASSWORD);
	CHECK_TEXT((const char *)answer('p').body, "pass");
	asks(0, NULL, 0);
	CHECK_INT(s->dial->step, DIAL_PROVEN);
	asks(0, NULL, 0);
	broken("authentication message out of order");
	/* without a password in the entry, the user list is used */
	begin(LISTED_INI, "\"u\" \"listed\"\n");
	asks(3, NULL, 0);
	CHECK_TEXT((const char *)answer('p').body, "listed");
	whole_close();
}

TEST(md5)
{
	char secret[MD5_SECRET + 1], want[MD5_SECRET + 1];

	begin(PASSWORD_INI, "");
	asks(5, "salt", 4);
	CHECK(md5_secret("pass", "u", secret) && md5_answer(secret, (const uint8_t *)"salt", want));
	CHECK_TEXT((const char *)answer('p').body, want);
	whole_close();
	begin(LISTED_INI, MD5_LISTED);
	asks(5, "salt", 4);
	CHECK(md5_answer("md50123456789abcdef0123456789abcdef", (const uint8_t *)"salt", want));
	CHECK_TEXT((const char *)answer('p').body, want);
	whole_close();
}

TEST(unsuitable_secrets)
{
	begin(LISTED_INI, MD5_LISTED);
	asks(3, NULL, 0);
	broken("server wants the password in clear text, but only a hash of it is stored");
	begin(LISTED_INI, "");
	asks(3, NULL, 0);
	broken("server asks for a password, but none is stored for this user");
	begin(LISTED_INI, "");
	asks(5, "salt", 4);
	broken("server asks for a password, but none is stored for this user");
	begin(LISTED_INI, SCRAM_LISTED);
	asks(5, "salt", 4);
	ended(REASON_SERVER_SECRET, NULL);
	begin(LISTED_INI, MD5_LISTED);
	asks(10, SASL, sizeof(SASL));
	ended(REASON_SERVER_SECRET, NULL);
	/* the client has not revealed its key */
	begin(LISTED_INI, SCRAM_LISTED);
	asks(10, SASL, sizeof(SASL));
	ended(REASON_SERVER_SECRET, NULL);
	begin(LISTED_INI, "");
	asks(10, SASL, sizeof(SASL));
	broken("server asks for a password, but none is stored for this user");
}

/* ---- SCRAM ---- */

/* The server's side, with a secret derived from this password. */
static struct scram_verifier verifier;

static void verifier_begin(const char *password)
{
	struct scram_secret secret = { .iterations = 10 };
	static const uint8_t nonce[SCRAM_NONCE_RAW] = "server's nonce 18";

	CHECK(scram_secret_derive(password, (const uint8_t *)"salt", 4, 10, &secret));
	scram_verifier_init(&verifier, &secret, false, nonce);
}

/* The verifier's answer to this message is sent to pgweir with this code. */
static void verify(const uint8_t *message, size_t size, uint32_t code, enum scram_result want)
{
	struct bytes data = BYTES_EMPTY;
	const char *why;

	CHECK_INT(scram_verifier_step(&verifier, (const char *)message, size, &data, &why), want);
	asks(code, bytes_front(&data), bytes_size(&data));
	bytes_free(&data);
}

/* Runs the exchange up to the client's proof. */
static void scram_to_proof(const char *password)
{
	struct pg_frame f;
	size_t skip = sizeof("SCRAM-SHA-256") + 4;

	verifier_begin(password);
	asks(10, SASL, sizeof(SASL));
	CHECK_INT(s->dial->step, DIAL_SASL);
	f = answer('p');
	CHECK_TEXT((const char *)f.body, "SCRAM-SHA-256");
	verify(f.body + skip, f.size - skip, 11, SCRAM_CONTINUE);
	CHECK_INT(s->dial->step, DIAL_DERIVE);
	CHECK(!s->peer.stream.reading);
}

TEST(scram)
{
	uint8_t client_key[SCRAM_KEY], server_key[SCRAM_KEY];
	struct pg_frame f;

	begin(PASSWORD_INI, "");
	scram_to_proof("pass");
	f = answer('p');
	CHECK_INT(s->dial->step, DIAL_SASL);
	CHECK(s->peer.stream.reading);
	verify(f.body, f.size, 12, SCRAM_DONE);
	CHECK_INT(s->dial->step, DIAL_SASL_DONE);
	CHECK(keys_has(whole.world->logins.secrets->keys, "u", "pass"));
	CHECK(keys_find(whole.world->logins.secrets->keys, "u", "pass", (const uint8_t *)"salt", 4, 10, client_key, server_key));
	asks(0, NULL, 0);
	CHECK_INT(s->dial->step, DIAL_PROVEN);
	scram_verifier_clear(&verifier);
	whole_close();
}

/* A server that omits its SCRAM signature may be an impostor. */
TEST(scram_without_the_server_signature)
{
	begin(PASSWORD_INI, "");
	scram_to_proof("pass");
	answer('p');
	asks(0, NULL, 0);
	broken("server ended SCRAM before its proof");
	scram_verifier_clear(&verifier);
	begin(PASSWORD_INI, "");
	scram_to_proof("pass");
	answer('p');
	asks(12, "v=AAAA", 6);
	CHECK_INT(s->peer.end_reason, REASON_SERVER_LOGIN_BROKEN);
	CHECK(!keys_has(whole.world->logins.secrets->keys, "u", "pass"));
	scram_verifier_clear(&verifier);
	whole_close();
}

TEST(mechanisms)
{
	begin(PASSWORD_INI, "");
	asks(10, "OTHER\0", 7);
	broken("server offers no SASL mechanism that is known");
	/* without TLS, SCRAM-SHA-256-PLUS is skipped */
	begin(PASSWORD_INI, "");
	asks(10, "SCRAM-SHA-256-PLUS\0", 20);
	broken("server offers no SASL mechanism that is known");
	begin(PASSWORD_INI, "");
	asks(10, "SCRAM-SHA-256", 14);
	broken("server offers no SASL mechanism that is known");
}

/* ---- refused methods ---- */

TEST(required_channel_binding)
{
	begin(BINDING_INI, "");
	asks(10, SASL, sizeof(SASL));
	broken("channel binding is required, but the connection has no TLS");
	begin(BINDING_INI, "");
	asks(3, NULL, 0);
	broken("channel binding is required, but the server asks for the password without");
	begin(BINDING_INI, "");
	asks(0, NULL, 0);
	broken("channel binding is required, but the server lets us in without");
}

TEST(disallowed_methods)
{
	begin(SCRAM_INI, "");
	asks(3, NULL, 0);
	ended(REASON_SERVER_AUTH, NULL);
	begin(SCRAM_INI, "");
	asks(5, "salt", 4);
	ended(REASON_SERVER_AUTH, NULL);
	begin(SCRAM_INI, "");
	asks(0, NULL, 0);
	ended(REASON_SERVER_AUTH, NULL);
}

TEST(requests_that_violate_the_exchange)
{
	begin(PASSWORD_INI, "");
	asks(3, NULL, 0);
	asks(5, "salt", 4);
	broken("server asked for the password twice");
	begin(PASSWORD_INI, "");
	asks(3, NULL, 0);
	asks(10, SASL, sizeof(SASL));
	broken("server asked for the password twice");
	begin(PASSWORD_INI, "");
	asks(5, "sal", 3);
	broken("authentication request of a wrong length");
	begin(PASSWORD_INI, "");
	asks(0, "x", 1);
	broken("authentication request of a wrong length");
	begin(PASSWORD_INI, "");
	asks(11, "r=x", 3);
	broken("SASL message out of order");
	begin(PASSWORD_INI, "");
	asks(7, NULL, 0);
	broken("unknown authentication request 7");
}

UNIT_MAIN
