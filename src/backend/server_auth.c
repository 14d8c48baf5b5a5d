/*
 * Authenticating to a server: the password in clear, MD5, SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (Authentication... messages,
 * "SASL Authentication" in the documentation of the protocol; RFC 5802, RFC 5929, RFC 7677).
 *
 * The secret is the database's password or what the user list has. A SCRAM secret alone is of no use at a server; with the
 * ClientKey that its user's own login has revealed it is (keys.c). From a password in clear keys are derived, by a process of
 * its own (derivation.c), and kept. With SCRAM the server has to prove that it knows the
 * secret, too: one that lets us in before that is not the server we know.
 *
 * PLUS binds the exchange to the TLS connection, by the certificate that the server has shown on it: an attacker in between with
 * a certificate of its own cannot carry the exchange on. server_channel_binding says whether it is wanted.
 *
 * Invariant: a server asks once. Whatever it asks for afterwards, or after AuthenticationOk, ends it.
 */
#include "backend/server_auth.h"

#include "backend/dial.h"
#include "backend/keys.h"
#include "backend/proven_secret.h"
#include "backend/require_auth.h"
#include "backend/secrets.h"
#include "backend/server_info.h"
#include "backend/server_login.h"
#include "base/log.h"
#include "net/tls.h"
#include "pg/build.h"
#include "pg/digest.h"
#include "pg/password.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>

/* The password in the database's entry; it is that of the user there, not of auth_user, when it names one. */
static const struct secret *password_of(const struct pool *pool)
{
	const struct conf_database *conf = pool->database->conf;

	return !conf->user || strcmp(conf->user, pool->user->name) == 0 ? conf->password : NULL;
}

/* Whether auth_user of the general settings or of a database has this name. */
static bool is_auth_user(const struct conf *conf, const char *user)
{
	const char *name = conf->settings.auth_user;

	for (size_t i = 0; i <= conf->database_count; i++) {
		const struct conf_database *d = i < conf->database_count ? conf->databases[i] : conf->fallback;

		if (name && strcmp(name, user) == 0)
			return true;
		name = d ? d->auth_user : NULL;
	}
	return name && strcmp(name, user) == 0;
}

/* A password that PAM or LDAP has found right for the pool's user, in the pool's database. It does not count for the user that look-ups
   log in as: an account of that name must not decide with which password they do. */
static const struct proven_secret *shown_by(const struct server *s)
{
	const struct pool *pool = s->pooled.pool;
	const struct proven_secret *shown = pool->database->conf->user ? NULL : shown_of(pool);

	return shown && !is_auth_user(s->peer.world->conf, pool->user->name) ? shown : NULL;
}

/* The secret that the pool's user logs in with, and where keys for it are kept: the database's password, else what its user has
   shown to PAM or LDAP, else what the user list has, else what auth_query has found. NULL: none. */
static const char *secret_and_keys_of(const struct server *s, struct server_keys **keys)
{
	const struct pool *pool = s->pooled.pool;
	const struct proven_secret *found = proven_secret_of(pool), *shown = shown_by(s);
	const struct secret *secret = password_of(pool);

	*keys = s->peer.world->secrets->keys;
	if (!secret && shown) {
		secret = shown->secret;
		*keys = shown->keys;
	}
	if (!secret)
		secret = secrets_listed(s->peer.world->secrets, pool->user->name);
	if (!secret && found) {
		secret = found->secret;
		*keys = found->keys;
	}
	return secret && secret->length > 0 ? secret->bytes : NULL;
}

static const char *secret_of(const struct server *s)
{
	struct server_keys *keys;

	return secret_and_keys_of(s, &keys);
}

/* A password that PAM or LDAP knows is one, whatever it looks like. */
static enum secret_kind kind_of(const struct server *s, const char *secret)
{
	const struct proven_secret *shown = shown_by(s);

	return shown && secret == shown->secret->bytes ? SECRET_PLAIN : secret_kind_of(secret);
}

/* The secret that is stored is of no use for the method that the server asks for. */
static void wrong_secret(struct server *s, const char *what)
{
	char who[256];

	log_error("%s cannot do %s", server_text(s, who, sizeof(who)), what);
	server_end(s, REASON_SERVER_SECRET, NULL);
}

static void answer(struct server *s, struct bytes *out)
{
	bool sent = !out->failed && stream_write_bytes(&s->peer.stream, out->data, bytes_size(out));

	bytes_wipe(out);
	if (!sent)
		dial_give_way(s, REASON_SERVER_CRASHED, NULL);
}

static void answer_cleartext(struct server *s)
{
	const char *secret = secret_of(s);
	struct bytes out = BYTES_EMPTY;

	if (!secret || kind_of(s, secret) != SECRET_PLAIN) {
		server_login_broken(s, secret ? "server wants the password in clear text, but only a hash of it is stored" :
				   "server asks for a password, but none is stored for this user");
		return;
	}
	pg_build_password(&out, secret, strlen(secret) + 1);
	answer(s, &out);
}

static void answer_md5(struct server *s, const uint8_t *salt)
{
	const char *secret = secret_of(s), *user = s->pooled.pool->user->name;
	char hashed[MD5_SECRET + 1], text[MD5_SECRET + 1];
	struct bytes out = BYTES_EMPTY;

	switch (secret ? kind_of(s, secret) : SECRET_NONE) {
	case SECRET_PLAIN:
		if (!md5_secret(secret, user, hashed)) {
			server_login_broken(s, "OpenSSL has no MD5 here");
			return;
		}
		break;
	case SECRET_MD5:
		memcpy(hashed, secret, sizeof(hashed) - 1);
		hashed[MD5_SECRET] = 0;
		break;
	case SECRET_SCRAM:
		wrong_secret(s, "MD5 authentication: wrong password type (a SCRAM secret is stored)");
		return;
	case SECRET_NONE:
		server_login_broken(s, "server asks for a password, but none is stored for this user");
		return;
	}
	md5_answer(hashed, salt, text);
	pg_build_password(&out, text, MD5_SECRET + 1);
	mem_wipe(hashed, sizeof(hashed));
	answer(s, &out);
}

static bool find_keys(void *context, const uint8_t *salt, size_t salt_size, uint32_t iterations,
		      uint8_t client_key[SCRAM_KEY], uint8_t server_key[SCRAM_KEY])
{
	struct server *s = context;
	struct server_keys *keys;
	const char *secret = secret_and_keys_of(s, &keys);

	return secret && keys_find(keys, s->pooled.pool->user->name, secret, salt, salt_size, iterations, client_key, server_key);
}

/* ---- which mechanism ---- */

enum { OFFERS_SCRAM = 1, OFFERS_PLUS = 2 };

/* The list of AuthenticationSASL: names, and an empty one at the end. */
static unsigned mechanisms_of(const uint8_t *body, size_t size)
{
	struct pg_cursor c = pg_cursor_of(body, size);
	unsigned offers = 0;

	for (const char *name = pg_read_string(&c); !c.bad && *name; name = pg_read_string(&c)) {
		if (strcmp(name, "SCRAM-SHA-256") == 0)
			offers |= OFFERS_SCRAM;
		else if (strcmp(name, "SCRAM-SHA-256-PLUS") == 0)
			offers |= OFFERS_PLUS;
	}
	return c.bad || c.at != c.end ? 0 : offers;
}

static enum channel_binding binding_mode(const struct server *s)
{
	int of_database = s->pooled.pool->database->conf->channel_binding;

	return (enum channel_binding)(of_database == CONF_UNSET ? s->peer.world->conf->settings.server_channel_binding : of_database);
}

_Static_assert(TLS_END_POINT_MOST <= SCRAM_BINDING_MAX, "a channel binding fits");

/* Why there is no channel binding, where it is required. */
static const char *binding_fault(const struct server *s, unsigned offers)
{
	if (!s->peer.stream.ssl)
		return "channel binding is required, but the connection has no TLS";
	if (!(offers & OFFERS_PLUS))
		return "channel binding is required, but the server offers none";
	return "channel binding is required, but it is not defined for the server's certificate";
}

/* Chooses between the two, and what to say of channel binding. What stands in the way, or NULL. A server may offer PLUS over a
   connection in clear: then there is something on the way that speaks TLS to it, and it is passed over. An attacker
   that could have stripped TLS could have shortened the list, too. */
static const char *choose_mechanism(const struct server *s, unsigned offers, struct scram_prover *p)
{
	enum channel_binding mode = binding_mode(s);
	SSL *ssl = s->peer.stream.ssl;
	bool can_bind = ssl && mode != CHANNEL_BINDING_DISABLE && tls_server_end_point(ssl, p->binding.data, &p->binding.size);

	if (can_bind && (offers & OFFERS_PLUS)) {
		p->gs2 = 'p';
		return NULL;
	}
	p->binding.size = 0;
	if (mode == CHANNEL_BINDING_REQUIRE)
		return binding_fault(s, offers);
	/* a server that did offer it sees by this that an attacker has shortened its list */
	p->gs2 = can_bind ? 'y' : 'n';
	return offers & OFFERS_SCRAM ? NULL : "server offers no SASL mechanism that is known";
}

/* Sets whether the keys may be derived from a password. False: there is neither a password nor are there keys; said why. */
static bool choose_proof(struct server *s)
{
	struct server_keys *keys;
	const char *secret = secret_and_keys_of(s, &keys);

	switch (secret ? kind_of(s, secret) : SECRET_NONE) {
	case SECRET_PLAIN:
		s->dial->scram.may_derive = true;
		return true;
	case SECRET_SCRAM:
		if (keys_has(keys, s->pooled.pool->user->name, secret))
			return true;
		wrong_secret(s, "SCRAM authentication: password is SCRAM secret but client authentication did not provide SCRAM keys");
		return false;
	case SECRET_MD5:
		wrong_secret(s, "SCRAM authentication: wrong password type (an MD5 secret is stored)");
		return false;
	case SECRET_NONE:
		server_login_broken(s, "server asks for a password, but none is stored for this user");
		return false;
	}
	return false;
}

/* ---- keys that are derived ---- */

static void sasl_step(struct server *s, const uint8_t *data, size_t size);

static struct derivation_question question_of(const struct server *s)
{
	const struct scram_prover *p = &s->dial->scram;

	return (struct derivation_question){
		.user = s->pooled.pool->user->name, .password = secret_of(s), .salt = p->salt, .salt_size = p->salt_size, .iterations = p->iterations,
	};
}

/* Sets the keys of the prover. They are kept for the next connection, also if the server refuses them. */
static bool take_key(struct server *s, const struct verify_answer *answer)
{
	const struct derivation_question question = question_of(s);
	struct scram_prover *p = &s->dial->scram;
	struct server_keys *keys;
	const char *secret = secret_and_keys_of(s, &keys);
	uint8_t stored_key[SCRAM_KEY], salted[SCRAM_KEY], tag[SHA256_SIZE];
	bool ok = false;

	if (answer->verdict == VERIFIED_YES)
		ok = scram_keys_of_salted(answer->salted, p->client_key, stored_key, p->server_key);
	else if (question.password && derivation_in_loop(&question, salted))
		ok = scram_keys_of_salted(salted, p->client_key, stored_key, p->server_key);
	mem_wipe(salted, sizeof(salted));
	/* a RELOAD may have brought another password meanwhile, of which these are no keys */
	if (ok && secret && keys_tag(keys, secret, "", tag) && memcmp(tag, s->dial->derived_of, sizeof(tag)) == 0)
		keys_keep_untested(keys, question.user, secret, p->salt, p->salt_size, p->iterations, p->client_key, p->server_key);
	return ok;
}

static void derived(struct derivation_wait *wait, const struct verify_answer *answer)
{
	struct dial *d = LIST_OBJECT(wait, struct dial, derivation);
	struct server *s = d->server;
	struct bytes challenge = d->challenge;
	char who[256];

	d->challenge = (struct bytes)BYTES_EMPTY;
	dial_step_to(d, DIAL_SASL);
	flow_unblock(&s->peer, FLOW_KEY);
	/* no event announces what is here already */
	peer_come_again(&s->peer);
	if (answer->verdict != VERIFIED_YES)
		log_error("%s %s: %s", server_text(s, who, sizeof(who)), verify_method_name(VERIFY_SCRAM), answer->why);
	d->scram.have_keys = take_key(s, answer);
	if (d->scram.have_keys)
		sasl_step(s, bytes_front(&challenge), bytes_size(&challenge));
	else
		server_login_broken(s, "no key could be derived from the password");
	bytes_wipe(&challenge);
}

/* The prover knows salt and count. The server is not read until the key is here. */
static void derive(struct server *s, const uint8_t *data, size_t size)
{
	const struct derivation_question question = question_of(s);
	struct dial *d = s->dial;
	struct server_keys *keys;
	const char *secret = secret_and_keys_of(s, &keys);
	enum verify_refusal refused;

	if (!question.password || !derivation_may_ask(s->peer.world, &question, s->address, s->pooled.pool->user)) {
		server_login_broken(s, question.password ? "server asks for SCRAM with another salt each time" : "the password is not stored any more");
		return;
	}
	bytes_append(&d->challenge, data, size);
	d->challenge.failed |= !keys_tag(keys, secret, "", d->derived_of);
	d->derivation.done = derived;
	refused = d->challenge.failed ? VERIFIERS_NO_MEMORY :
				       derivation_ask(s->peer.world, &question, NULL, s->address, &d->derivation);
	if (refused == VERIFIERS_TOO_LONG) {
		server_login_broken(s, "the password is too long for SCRAM");
		return;
	}
	if (refused != VERIFIERS_ASKED) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return;
	}
	dial_step_to(d, DIAL_DERIVE);
	flow_block(&s->peer, FLOW_KEY);
}

/* The server has another salt than the SCRAM secret that is stored: the password has been changed there. Or it has made one up, as it
   does for roles that may not log in with a password. A proof of the keys that are known would be wrong in both cases. */
static void outdated_secret(struct server *s)
{
	char who[256];

	log_error("%s cannot do SCRAM authentication: the stored SCRAM secret is not the one of the server: the password has been changed, "
		  "or the role does not exist there, has no password or has expired (VALID UNTIL)", server_text(s, who, sizeof(who)));
	server_end(s, REASON_SERVER_SECRET_OLD, s->pooled.pool->user->name);
}

static void sasl_step(struct server *s, const uint8_t *data, size_t size)
{
	struct dial *d = s->dial;
	struct bytes out = BYTES_EMPTY, message = BYTES_EMPTY;
	struct server_keys *keys;
	const char *why = "SCRAM failed", *secret;
	enum scram_result result = scram_prover_step(&d->scram, (const char *)data, size, find_keys, s, &out, &why);

	switch (result) {
	case SCRAM_CONTINUE:
		if (!data)
			pg_build_sasl_initial(&message, d->scram.gs2 == 'p' ? "SCRAM-SHA-256-PLUS" : "SCRAM-SHA-256", out.data,
					      bytes_size(&out));
		else
			pg_build_password(&message, out.data, bytes_size(&out));
		message.failed |= out.failed;
		bytes_wipe(&out);
		answer(s, &message);
		return;
	case SCRAM_PENDING:
		derive(s, data, size);
		return;
	case SCRAM_DONE:
		dial_step_to(d, DIAL_SASL_DONE);
		secret = secret_and_keys_of(s, &keys);
		if (d->scram.may_derive && secret)
			keys_keep(keys, s->pooled.pool->user->name, secret, d->scram.salt, d->scram.salt_size, d->scram.iterations,
				  d->scram.client_key, d->scram.server_key);
		bytes_wipe(&out);
		return;
	case SCRAM_NO_KEYS:
		bytes_wipe(&out);
		outdated_secret(s);
		return;
	case SCRAM_WRONG:
	case SCRAM_UNBOUND:
	case SCRAM_INVALID:
		bytes_wipe(&out);
		server_login_broken(s, why);
		return;
	}
}

/* It has not asked for anything yet. */
static bool may_ask(const struct dial *d)
{
	return d->step == DIAL_STARTUP || d->step == DIAL_NEGOTIATED;
}

static void sasl_begin(struct server *s, const uint8_t *body, size_t size)
{
	struct dial *d = s->dial;
	uint8_t nonce[SCRAM_NONCE_RAW];
	const char *fault;

	if (!may_ask(d)) {
		server_login_broken(s, "server asked for the password twice");
		return;
	}
	if (RAND_bytes(nonce, sizeof(nonce)) != 1) {
		server_login_broken(s, "no randomness");
		return;
	}
	scram_prover_init(&d->scram, nonce);
	dial_step_to(d, DIAL_SASL);
	fault = choose_mechanism(s, mechanisms_of(body, size), &d->scram);
	if (fault) {
		server_login_broken(s, fault);
		return;
	}
	if (choose_proof(s))
		sasl_step(s, NULL, 0);
}

/* No server asks twice; one that did could have us pile up answers that it does not fetch. And where channel binding is
   required, no password goes out without. */
static bool may_ask_password(struct server *s, enum server_method method)
{
	if (binding_mode(s) == CHANNEL_BINDING_REQUIRE) {
		server_login_broken(s, "channel binding is required, but the server asks for the password without");
		return false;
	}
	if (!may_ask(s->dial)) {
		server_login_broken(s, "server asked for the password twice");
		return false;
	}
	dial_step_to(s->dial, DIAL_PASSWORD);
	return require_auth_allows(s, method);
}

/* Those requests have one length in the protocol; a server that sends another does not speak it. */
static bool is_length(struct server *s, size_t rest, size_t right)
{
	if (rest != right)
		server_login_broken(s, "authentication request of a wrong length");
	return rest == right;
}

/* AuthenticationOk. A server that lets pgweir in before it has proven its own knowledge of the password is not the server that the
   password belongs to. */
static void authentication_ok(struct server *s)
{
	const struct dial *dial = s->dial;

	if (dial->step == DIAL_SASL)
		server_login_broken(s, "server ended SCRAM before its proof");
	else if (binding_mode(s) == CHANNEL_BINDING_REQUIRE && !(dial->step == DIAL_SASL_DONE && dial->scram.gs2 == 'p'))
		server_login_broken(s, "channel binding is required, but the server lets us in without");
	else if (!may_ask(dial) || require_auth_allows(s, METHOD_NONE))
		dial_step_to(s->dial, DIAL_PROVEN);
}

void server_auth_request(struct server *s, const struct pg_frame *f)
{
	struct pg_cursor c = pg_cursor_of(f->body, f->size);
	uint32_t code = pg_read_u32(&c);
	size_t rest = (size_t)(c.end - c.at);
	char detail[64];

	if (c.bad || s->dial->step == DIAL_PROVEN) {
		server_login_broken(s, "authentication message out of order");
		return;
	}
	switch (code) {
	case 0:
		if (is_length(s, rest, 0))
			authentication_ok(s);
		return;
	case 3:
		if (is_length(s, rest, 0) && may_ask_password(s, METHOD_PASSWORD))
			answer_cleartext(s);
		return;
	case 5:
		if (is_length(s, rest, 4) && may_ask_password(s, METHOD_MD5))
			answer_md5(s, c.at);
		return;
	case 10:
		if (require_auth_allows(s, METHOD_SCRAM))
			sasl_begin(s, c.at, rest);
		return;
	case 11:
	case 12:
		if (s->dial->step != DIAL_SASL && s->dial->step != DIAL_SASL_DONE)
			server_login_broken(s, "SASL message out of order");
		else
			sasl_step(s, c.at, rest);
		return;
	default:
		snprintf(detail, sizeof(detail), "unknown authentication request %u", code);
		server_login_broken(s, detail);
	}
}
