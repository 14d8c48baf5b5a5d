/*
 * Proof by a secret: the plain password, MD5, SCRAM-SHA-256 and, over TLS, SCRAM-SHA-256-PLUS. Questions and the checking of
 * the answers.
 *
 * The user's secret, login->stored, is known or there is none. An unknown user is asked the same question as a known one and fails at the
 * end of the exchange with the same words: a made-up SCRAM secret that is the same at every attempt (pg/mock.c), or a password that cannot
 * match. Secrets that need a key derivation are in derive.c.
 *
 * A SCRAM login proves the ClientKey; it is kept, because with it pgweir can log in at the server (keys.c).
 *
 * AuthenticationCleartextPassword, AuthenticationMD5Password, AuthenticationSASL..., PasswordMessage, SASLInitialResponse,
 * SASLResponse; RFC 5802, RFC 5929, RFC 7677.
 */
#include "auth/auth.h"

#include "auth/derive.h"
#include "auth/login_state.h"
#include "auth/unknown.h"
#include "backend/keys.h"
#include "backend/secrets.h"
#include "base/log.h"
#include "base/text.h"
#include "net/tls.h"
#include "pg/build.h"
#include "pg/frame.h"

#include <openssl/rand.h>
#include <string.h>

#define NO_INITIAL_RESPONSE UINT32_MAX	/* in place of its length: -1 on the wire */

struct server_keys *auth_keys_of(const struct client *c)
{
	return c->login->sought == USER_FOUND ? c->peer.world->secrets->found_keys : c->peer.world->secrets->keys;
}

/* ---- the questions ---- */

void auth_ask_plain(struct client *c)
{
	c->login->question = QUESTION_PASSWORD;
	pg_build_auth(&c->login->out, 3, NULL, 0);
	auth_wait_for(c, LOGIN_PASSWORD);
}

void auth_ask_md5(struct client *c)
{
	struct login *l = c->login;

	if (RAND_bytes(l->md5_salt, sizeof(l->md5_salt)) != 1) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
	l->question = QUESTION_MD5;
	pg_build_auth(&l->out, 5, l->md5_salt, sizeof(l->md5_salt));
	auth_wait_for(c, LOGIN_PASSWORD);
}

/* Makes the SCRAM secret of a user with a password stored in clear. PENDING: it has to be derived, and the question waits for that. */
enum found { FOUND, PENDING, NO_MEMORY };

static enum found secret_of_plain(struct client *c, const char *password, struct scram_secret *secret)
{
	uint32_t iterations = (uint32_t)c->peer.world->conf->settings.scram_iterations;
	const struct scram_secret *derived;
	uint8_t salt[MOCK_SALT];

	/* so that an unknown user, which has no kept key, shows the same salt each time, every user does it this way */
	if (!unknown_salt(c, salt))
		return NO_MEMORY;
	derived = keys_plain_secret(auth_keys_of(c), c->login->user, password, salt, iterations);
	if (derived) {
		*secret = *derived;
		return FOUND;
	}
	derive_for_question(c, auth_keys_of(c), password, salt, iterations);
	return PENDING;
}

/* Uses the made-up secret of this name: the user is unknown, or its stored secret cannot be used for SCRAM. If the made-up secret imitates
   a password in clear, a key is derived at the user's first login, as for a known user with such a password. */
static enum found take_made_up(struct client *c, const struct scram_secret *made_up, bool is_plain)
{
	uint32_t iterations = (uint32_t)c->peer.world->conf->settings.scram_iterations;
	char password[2 * SCRAM_KEY + 1];
	uint8_t salt[MOCK_SALT];

	if (!is_plain)
		return FOUND;
	/* as much work as for known ones, and the salt that is made up is the same one */
	if (!unknown_salt(c, salt))
		return NO_MEMORY;
	if (unknown_was_derived(c, iterations))
		return FOUND;
	text_hex(password, made_up->stored_key, SCRAM_KEY);
	derive_for_question(c, NULL, password, salt, iterations);
	return PENDING;
}

/* The SCRAM secret to check against; a made-up one (and *mock) for users that have none. It is made up for every user, so that the time
   does not tell which ones exist. */
static enum found scram_secret_for(struct client *c, struct scram_secret *secret, bool *mock)
{
	const struct secret *stored = c->login->stored;
	struct scram_secret made_up;
	bool is_plain;

	*mock = false;
	if (!unknown_secret(c, (uint32_t)c->peer.world->conf->settings.scram_iterations, &made_up, &is_plain))
		return NO_MEMORY;
	if (stored && scram_secret_read(stored->bytes, secret))
		return FOUND;
	if (stored && secret_kind_of(stored->bytes) == SECRET_PLAIN)
		return secret_of_plain(c, stored->bytes, secret);
	*mock = true;
	*secret = made_up;
	return take_made_up(c, &made_up, is_plain);
}

_Static_assert(TLS_END_POINT_MOST <= SCRAM_BINDING_MAX, "a channel binding fits");

/* With TLS, and a certificate that tells how it is to be hashed, the exchange can be bound to this connection. */
static bool read_channel_binding(struct client *c, struct scram_binding *binding)
{
	if (c->peer.stream.ssl && c->peer.world->conf->settings.client_channel_binding != CHANNEL_BINDING_DISABLE &&
	    tls_server_end_point(c->peer.stream.ssl, binding->data, &binding->size))
		return true;
	binding->size = 0;
	return false;
}

void auth_ask_scram(struct client *c)
{
	static const char mechanisms[] = "SCRAM-SHA-256\0", with_plus[] = "SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0";
	struct login *l = c->login;
	struct scram_secret secret;
	uint8_t nonce[SCRAM_NONCE_RAW];
	bool mock;
	enum found found = scram_secret_for(c, &secret, &mock);

	/* the client may have ended, and is called again otherwise */
	if (found == PENDING)
		return;
	if (found == NO_MEMORY || RAND_bytes(nonce, sizeof(nonce)) != 1) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
	scram_verifier_init(&l->scram, &secret, mock, nonce);
	mem_wipe(&secret, sizeof(secret));
	l->question = QUESTION_SCRAM;
	if (read_channel_binding(c, &l->scram.binding))
		pg_build_auth(&l->out, 10, with_plus, sizeof(with_plus));
	else
		pg_build_auth(&l->out, 10, mechanisms, sizeof(mechanisms));
	auth_wait_for(c, LOGIN_SASL_FIRST);
}

/* ---- the answers ---- */

static bool md5_matches(const struct login *l, const char *answer)
{
	char stored[MD5_SECRET + 1], wanted[MD5_SECRET + 1];
	enum secret_kind kind = l->stored ? secret_kind_of(l->stored->bytes) : SECRET_NONE;
	bool right, known = false;

	if (kind == SECRET_SCRAM || kind == SECRET_NONE)
		md5_secret("", l->user, stored);
	else if (kind == SECRET_MD5)
		known = text_copy(stored, sizeof(stored), l->stored->bytes);
	else
		known = md5_secret(l->stored->bytes, l->user, stored);
	right = md5_answer(stored, l->md5_salt, wanted) && strlen(answer) == MD5_SECRET && mem_equal_constant_time(answer, wanted, MD5_SECRET);
	mem_wipe(stored, sizeof(stored));
	mem_wipe(wanted, sizeof(wanted));
	return right && known;
}

/* Returns the secret to compare a password in clear with: the user's secret, or a made-up SCRAM secret (written to `text`) if this name
   would have a SCRAM secret. NULL: nothing. */
static const char *secret_for_clear(const struct client *c, char text[SCRAM_SECRET_TEXT])
{
	const struct login *l = c->login;
	struct scram_secret made_up;
	bool is_plain;

	bool is_scram = unknown_is_scram(c),
	     is_made = unknown_secret(c, 0, &made_up, &is_plain) && scram_secret_write(&made_up, text, SCRAM_SECRET_TEXT);

	/* made up for every user, as above */
	if (l->stored && secret_kind_of(l->stored->bytes) != SECRET_NONE)
		return l->stored->bytes;
	return is_scram && is_made ? text : NULL;
}

/* A password in clear, not empty. */
static void clear_answer(struct client *c, const char *answer)
{
	char made_up[SCRAM_SECRET_TEXT];
	const char *stored = secret_for_clear(c, made_up);
	bool is_scram = stored && secret_kind_of(stored) == SECRET_SCRAM;
	bool right = stored && (is_scram ? keys_password_is_proven(auth_keys_of(c), answer, c->login->user, stored) :
					   password_matches(answer, c->login->user, stored));

	if (right)
		auth_accept(c);
	else if (is_scram)
		derive_and_compare(c, answer, stored);
	else
		auth_refuse(c);
}

static void password_answer(struct client *c, const uint8_t *body, size_t size)
{
	struct login *l = c->login;
	struct pg_cursor cursor = pg_cursor_of(body, size);
	const char *answer = pg_read_string(&cursor);

	if (cursor.bad || cursor.at != cursor.end) {
		client_end(c, REASON_BAD_LOGIN_PACKET, "malformed password");
		return;
	}
	if (l->question == QUESTION_PASSWORD && *answer)
		clear_answer(c, answer);
	else if (l->question == QUESTION_MD5 && md5_matches(l, answer))
		auth_accept(c);
	else
		auth_refuse(c);
}

static void scram_answer(struct client *c, const char *message, size_t size)
{
	struct login *l = c->login;
	struct bytes data = BYTES_EMPTY;
	const char *why = "";
	char who[256];

	switch (scram_verifier_step(&l->scram, message, size, &data, &why)) {
	case SCRAM_CONTINUE:
		pg_build_auth(&l->out, 11, data.data, bytes_size(&data));
		l->out.failed |= data.failed;
		bytes_wipe(&data);
		auth_wait_for(c, LOGIN_SASL_FINAL);
		return;
	case SCRAM_DONE:
		pg_build_auth(&l->out, 12, data.data, bytes_size(&data));
		l->out.failed |= data.failed;
		bytes_wipe(&data);
		/* keys for a secret of our own making would be of no use at a server */
		if (secret_kind_of(l->stored->bytes) == SECRET_SCRAM)
			keys_keep(auth_keys_of(c), l->user, l->stored->bytes, l->scram.secret.salt, l->scram.secret.salt_size,
				  l->scram.secret.iterations, l->scram.client_key, l->scram.secret.server_key);
		auth_accept(c);
		return;
	case SCRAM_WRONG:
		bytes_wipe(&data);
		auth_refuse(c);
		return;
	case SCRAM_UNBOUND:
		/* said aloud: either a proxy ends TLS on the way, or an attacker does */
		bytes_wipe(&data);
		log_warning("%s channel binding: %s", client_text(c, who, sizeof(who)), why);
		auth_refuse(c);
		return;
	case SCRAM_PENDING:		/* never, as the next: it is the side that proves that needs keys */
	case SCRAM_NO_KEYS:
	case SCRAM_INVALID:
		bytes_wipe(&data);
		log_debug("SCRAM from a client: %s", why);
		auth_refuse(c);
		return;
	}
}

/* SASLInitialResponse: the mechanism, the length of the data, the data. A client that sends none is asked for them by an empty
   challenge. */
static void sasl_first(struct client *c, const uint8_t *body, size_t size)
{
	struct scram_verifier *scram = &c->login->scram;
	struct pg_cursor cursor = pg_cursor_of(body, size);
	const char *mechanism = pg_read_string(&cursor);
	uint32_t length = pg_read_u32(&cursor);
	const uint8_t *data = length == NO_INITIAL_RESPONSE ? NULL : pg_read_bytes(&cursor, length);
	bool known = strcmp(mechanism, "SCRAM-SHA-256") == 0;

	if (scram->binding.size > 0 && strcmp(mechanism, "SCRAM-SHA-256-PLUS") == 0)
		known = scram->plus = true;
	if (cursor.bad || cursor.at != cursor.end || !known) {
		auth_refuse(c);
		return;
	}
	scram_answer(c, (const char *)data, data ? length : 0);
}

void auth_secret_message(struct client *c, const uint8_t *body, size_t size)
{
	switch (c->login->step) {
	case LOGIN_PASSWORD:
		password_answer(c, body, size);
		return;
	case LOGIN_SASL_FIRST:
		sasl_first(c, body, size);
		return;
	case LOGIN_SASL_FINAL:
		scram_answer(c, (const char *)body, size);
		return;
	case LOGIN_PACKET:
	case LOGIN_TLS_HELLO:
	case LOGIN_TLS_TURN:
	case LOGIN_TLS:
	case LOGIN_LOOKUP:
	case LOGIN_VERIFY:
	case LOGIN_DERIVE:
	case LOGIN_REFUSED:
	case LOGIN_PROVEN:
		return;
	}
}
