/*
 * Logins of clients that wait for a key.
 *
 * A password in clear (auth_type plain, `password` in an HBA file) is compared with a SCRAM secret by deriving SaltedPassword from it
 * and looking whether that gives the StoredKey of the secret. The password that was right last is known again without that (keys.c).
 * The time it takes does not tell whether a user exists: for a made-up secret a key is derived as well.
 *
 * A SCRAM login of a user with a password stored in clear is checked with a secret that is made of it once, before the first
 * question. For unknown users that are to look like this one, a secret is made of a made-up password (auth_secret.c).
 */
#include "auth/derive.h"

#include "auth/auth.h"
#include "auth/unknown.h"
#include "backend/keys.h"
#include "base/log.h"

#include <string.h>

static void log_failure(const struct client *c, const char *why)
{
	char who[256];

	log_error("%s %s: %s", client_text(c, who, sizeof(who)), verify_method_name(VERIFY_SCRAM), why);
}

static struct client *client_of_wait(struct derivation_wait *wait)
{
	return LIST_OBJECT(wait, struct login, derivation)->client;
}

/* Ends a client for which no key was derived. */
static void fail(struct client *c, const struct verify_answer *answer)
{
	if (answer->verdict == VERIFIED_DISPLACED) {
		client_end(c, REASON_AUTH_QUEUE, NULL);
		return;
	}
	log_failure(c, answer->why);
	client_end(c, REASON_PASSWORD_FAILED, NULL);
}

/* Asks; ends the client where that is refused. */
static void ask(struct client *c, const char *password, const uint8_t *salt, size_t salt_size, uint32_t iterations)
{
	const struct verify_source source = auth_verify_source(c);
	const struct derivation_question question = {
		.user = c->login->user, .password = password, .salt = salt, .salt_size = salt_size, .iterations = iterations,
	};

	/* the look-up is over: bytes that the client sends during the derivation must not trigger the question again */
	if (c->pooled.state != CLIENT_AUTH)
		pool_client_become(c->peer.world->pools, &c->pooled, CLIENT_AUTH, c->peer.world->now);
	login_step_to(c, LOGIN_DERIVE);
	switch (derivation_ask(c->peer.world, &question, &source, NULL, &c->login->derivation)) {
	case VERIFIERS_ASKED:
		return;
	case VERIFIERS_TOO_LONG:
		auth_refuse(c);
		return;
	case VERIFIERS_TOO_MANY:
		client_end(c, REASON_AUTH_QUEUE, NULL);
		return;
	case VERIFIERS_NO_MEMORY:
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
}

/* A copy of the password that is asked about, for when the answer has come. */
static bool keep_password(struct client *c, const char *password)
{
	secret_free(&c->login->password);
	c->login->password = secret_new(password, strlen(password));
	if (c->login->password)
		return true;
	client_end(c, REASON_NO_MEMORY, NULL);
	return false;
}

/* ---- a password in clear ---- */

static void compare(struct derivation_wait *wait, const struct verify_answer *answer)
{
	struct client *c = client_of_wait(wait);
	struct login *l = c->login;
	bool right;

	if (peer_is_stopped(&c->peer))
		return;
	if (answer->verdict != VERIFIED_YES) {
		fail(c, answer);
		return;
	}
	right = l->stored && keys_password_prove(auth_keys_of(c), l->password->bytes, l->user, l->stored->bytes, answer->salted);
	secret_free(&l->password);
	if (!right) {
		auth_refuse(c);
		return;
	}
	auth_accept(c);
	/* the client may have sent messages during the derivation, and no event announces them */
	peer_come_again(&c->peer);
}

_Static_assert(SCRAM_ITERATIONS_MAX == 1000000, "the log says something else");

void derive_and_compare(struct client *c, const char *password, const char *stored)
{
	struct scram_secret secret;

	if (!scram_secret_read(stored, &secret) || secret.iterations > SCRAM_ITERATIONS_MAX) {
		log_failure(c, "the secret has more than 1000000 iterations, too many for a password in clear");
		auth_refuse(c);
		return;
	}
	c->login->derivation.done = compare;
	if (keep_password(c, password))
		ask(c, password, secret.salt, secret.salt_size, secret.iterations);
	mem_wipe(&secret, sizeof(secret));
}

/* ---- a password that is stored in clear ---- */

static void ask_question(struct derivation_wait *wait, const struct verify_answer *answer)
{
	struct client *c = client_of_wait(wait);
	struct login *l = c->login;
	const struct derivation_question question = {
		.password = l->password->bytes, .salt = l->derived_salt, .salt_size = MOCK_SALT, .iterations = l->derived_iterations,
	};
	uint8_t salted[SCRAM_KEY];
	bool kept = true, derived;

	if (peer_is_stopped(&c->peer))
		return;
	derived = answer->verdict == VERIFIED_UNKNOWN && derivation_in_loop(&question, salted);
	if (answer->verdict != VERIFIED_YES && !derived) {
		fail(c, answer);
		return;
	}
	if (!l->derived_for)
		unknown_derived(c, l->derived_iterations);
	else
		kept = keys_keep_plain(l->derived_for, l->user, l->password->bytes, l->derived_salt, l->derived_iterations,
				       derived ? salted : answer->salted);
	mem_wipe(salted, sizeof(salted));
	secret_free(&l->password);
	if (!kept) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
	auth_question(c);
	peer_come_again(&c->peer);
}

void derive_for_question(struct client *c, struct server_keys *keys, const char *password, const uint8_t salt[MOCK_SALT],
			 uint32_t iterations)
{
	struct login *l = c->login;

	l->derivation.done = ask_question;
	l->derived_for = keys;
	l->derived_iterations = iterations;
	memcpy(l->derived_salt, salt, MOCK_SALT);
	if (keep_password(c, password))
		ask(c, password, salt, MOCK_SALT, iterations);
}

/* ---- the end of waiting ---- */

void derive_overdue(const struct client *c)
{
	if (!c->login || !c->login->derivation.derivation)
		return;
	log_failure(c, c->login->derivation.done == compare ? "the password could not be compared with the secret in client_login_timeout" :
							      "the secret for SCRAM could not be derived in client_login_timeout");
}

void derive_forget(struct client *c)
{
	derivation_leave(&c->login->derivation);
}
