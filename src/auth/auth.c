/*
 * Authentication of a client: which method applies and which secret, the methods without a
 * password, the methods that check the user's secret (password in clear text, MD5, SCRAM-SHA-256
 * and, over TLS, SCRAM-SHA-256-PLUS). PAM and LDAP: see auth_verify.c.
 *
 * auth_begin chooses the method (auth_type, or the matching line of auth_hba_file), finds the
 * user's secret, if necessary with a look-up, and begins the method. tbl/auth_method.tbl lists the
 * methods.
 *
 * login->stored is the secret; NULL: the user is unknown. An unknown user gets the same request as
 * a known user, and fails after the same steps with the same message: a made-up SCRAM secret
 * (unknown.c), or an MD5 hash that no response matches. Every value that is made up is computed for
 * known users too, because the time of an answer would show which users exist.
 *
 * A key derivation (SaltedPassword) takes milliseconds on purpose, so a process of the room verify
 * executes it and the client waits in step LOGIN_DERIVE. It is needed to compare a password in
 * clear text with a SCRAM secret, and to make the SCRAM secret of a user with a password in clear
 * text. The results are kept (backend/keys.c). Where an unknown user imitates such a user, a key is
 * derived for it too, once. A SCRAM login proves the ClientKey, which is kept because pgweir can
 * log in at a server with it.
 *
 * Invariant: before its proof an unknown user takes the same steps as a known user, so that a
 * client cannot find out which names exist.
 *
 * AuthenticationCleartextPassword, AuthenticationMD5Password, AuthenticationSASL...,
 * PasswordMessage, SASLInitialResponse, SASLResponse; RFC 5802, RFC 5929, RFC 7677.
 */
#include "auth/auth.h"

#include "auth/auth_rule.h"
#include "auth/client_address.h"
#include "auth/auth_inside.h"
#include "auth/unknown.h"
#include "auth/users.h"
#include "backend/keys.h"
#include "base/assert.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text.h"
#include "net/tls.h"
#include "pg/build.h"
#include "pg/frame.h"
#include "pg/scram.h"

#include <openssl/rand.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NO_INITIAL_RESPONSE UINT32_MAX	/* length in SASLInitialResponse: -1 */
_Static_assert(TLS_END_POINT_MOST <= SCRAM_BINDING_MAX, "a channel binding fits");
_Static_assert(SCRAM_ITERATIONS_MAX == 1000000, "the limit in the log message");

/* ---- for all methods ---- */

/* Sends login->out, the request of the method, and waits in this step. The client may end. */
static void auth_wait_for(struct client *c, enum login_step step)
{
	struct bytes out;

	if (c->pooled.state != CLIENT_AUTH)
		pool_client_become(c->peer.world->pools, &c->pooled, CLIENT_AUTH,
				   c->peer.world->now);
	login_step_to(c, step);
	/* sending may end the login */
	out = c->login->out;
	c->login->out = (struct bytes)BYTES_EMPTY;
	client_send(c, &out);
	bytes_wipe(&out);
}

void auth_accept_client(struct client *c)
{
	const struct settings *set = &c->peer.world->conf->settings;
	const struct login *l = c->login;

	if (name_is_console(l->database) && !c->console.is_admin) {
		if (text_list_has(set->admin_users, l->user, false))
			client_address_set_administrator(c);
		c->console.may_show = c->console.is_admin ||
				      text_list_has(set->stats_users, l->user, false) ||
				      set->auth_type == AUTH_ANY;
		if (!c->console.may_show) {
			client_end(c, REASON_NOT_ALLOWED, NULL);
			return;
		}
		/* the place that is reserved for administrators does not count for other users of
		   the console */
		if (!c->console.is_admin && !client_address_may_have(c, false)) {
			client_end(c, REASON_MAX_CLIENT_CONN_PER_IP, NULL);
			return;
		}
	}
	c->peer.world->ops->proven(c);
}

/* The response to a password request was wrong: logs the cause and refuses the client, which does
   not learn the cause. */
static void auth_refuse(struct client *c)
{
	const struct login *l = c->login;
	/* with auth_type md5, the error message must not reveal that this user was asked for
	   SCRAM */
	bool is_sasl = l->question == QUESTION_SCRAM && l->method != AUTH_MD5;
	enum secret_kind kind = l->stored ? secret_kind_of(l->stored->bytes) : SECRET_NONE;
	/* no response of the client can be checked with the stored secret */
	bool is_unfit = kind == SECRET_NONE ||
			(l->question == QUESTION_SCRAM && kind == SECRET_MD5);
	char who[256];

	client_text(c, who, sizeof(who));
	if (l->stored && kind == SECRET_NONE)
		log_error("%s password authentication failed (the user's secret is empty or "
			  "malformed)",
			  who);
	else if (l->stored && is_unfit)
		log_error("%s SCRAM authentication failed: user has MD5 secret", who);
	else if (l->question == QUESTION_SCRAM)
		log_error("%s password authentication failed", who);
	if (!l->stored)
		refusal_begin(c, is_sasl ? REASON_SASL_NO_USER : REASON_PASSWORD_NO_USER);
	else if (is_unfit)
		refusal_begin(c, is_sasl ? REASON_SASL_SECRET : REASON_PASSWORD_SECRET);
	else
		refusal_begin(c, is_sasl ? REASON_SASL_FAILED : REASON_PASSWORD_FAILED);
}

/* ---- methods without a password ---- */

static void begin_trust(struct client *c)
{
	if (c->login->stored)
		auth_accept_client(c);
	else
		refusal_begin(c, login_user_was_looked_up(c->login) ? REASON_NO_USER
								    : REASON_TRUST_FAILED);
}

/* Any user name is accepted. The entry of the database must name the user for its servers. */
static void begin_any(struct client *c)
{
	const struct conf_database *conf = database_conf_find(c->peer.world->pools,
							      c->login->database);

	if (conf && !name_is_console(c->login->database) && !conf->user)
		client_end(c, REASON_CONFIG_ERROR, NULL);
	else
		auth_accept_client(c);
}

static void begin_reject(struct client *c)
{
	client_end(c, REASON_LOGIN_REJECTED, NULL);
}

static void begin_certificate(struct client *c)
{
	bool is_of_user = auth_certificate_fits(c);
	char who[256];

	if (is_of_user && c->login->stored) {
		auth_accept_client(c);
		return;
	}
	if (!is_of_user && c->peer.stream.ssl && tls_peer_is_verified(c->peer.stream.ssl))
		log_error("%s TLS certificate name mismatch", client_text(c, who, sizeof(who)));
	client_end(c, REASON_CERT_FAILED, NULL);
}

/* peer: the operating system names the user of the process at the other end of a Unix socket. The
   call blocks if the system gets its users from a directory server; use a password there. */
static void begin_peer(struct client *c)
{
	const struct login *l = c->login;
	struct passwd entry, *found = NULL;
	char space[4096];

	if (c->peer.remote.family == AF_UNIX &&
	    getpwuid_r(c->peer.remote.u.peer.uid, &entry, space, sizeof(space), &found) == 0 &&
	    found && hba_map_allows(l->hba, l->rule->map, entry.pw_name, l->user) && l->stored)
		auth_accept_client(c);
	else
		client_end(c, REASON_UNIX_LOGIN_REJECTED, NULL);
}

/* The cache of keys for a secret of the client's user: by its origin. */
static struct server_keys *keys_of(const struct client *c, bool is_old)
{
	if (is_old)
		return c->peer.world->logins.secrets->old_keys;
	return c->login->sought == USER_FOUND ? c->peer.world->logins.secrets->found_keys
					      : c->peer.world->logins.secrets->keys;
}

/* ---- methods with a password: key derivation ---- */

/* Ends a client for which no key was derived. */
static void fail_derivation(struct client *c, const struct verify_answer *answer)
{
	char who[256];

	if (answer->verdict != VERIFIED_DISPLACED)
		log_error("%s SCRAM: %s", client_text(c, who, sizeof(who)), answer->why);
	client_end(c,
		   answer->verdict == VERIFIED_DISPLACED ? REASON_AUTH_QUEUE
							 : REASON_PASSWORD_FAILED,
		   NULL);
}

/* Begins a derivation for the login and keeps the password; `done` is called with the result. The
   client may end. */
static void auth_derive(struct client *c, const char *password, const uint8_t *salt,
			size_t salt_size, uint32_t iterations,
			void (*done)(struct derivation_wait *wait,
				     const struct verify_answer *answer))
{
	struct login *l = c->login;
	const struct verify_source source = client_address_source(c);
	const struct derivation_question question = {
		.user = l->user,
		.password = password,
		.salt = salt,
		.salt_size = salt_size,
		.iterations = iterations,
	};
	enum verify_refusal why;

	secret_free(&l->password);
	l->password = secret_new(password, strlen(password));
	if (!l->password) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
	/* the look-up is over: input of the client during the derivation must not begin the method
	   again */
	if (c->pooled.state != CLIENT_AUTH)
		pool_client_become(c->peer.world->pools, &c->pooled, CLIENT_AUTH,
				   c->peer.world->now);
	login_step_to(c, LOGIN_DERIVE);
	l->derivation.done = done;
	why = derivation_ask(c->peer.world, &question, &source, NULL, &l->derivation);
	if (why == VERIFIERS_TOO_LONG)
		auth_refuse(c);
	else if (why != VERIFIERS_ASKED)
		client_end(c, why == VERIFIERS_TOO_MANY ? REASON_AUTH_QUEUE : REASON_NO_MEMORY,
			   NULL);
}

static void ask_scram(struct client *c);

/* The client has proven a secret of its user. */
static void accept_secret(struct client *c, bool is_old)
{
	char who[256], user[PRINTABLE_NAME];

	if (is_old)
		log_repeatable(LEVEL_LOG, (int64_t)hash_of(c->login->user, strlen(c->login->user)),
			       "%s user \"%s\" has logged in with its old secret",
			       client_text(c, who, sizeof(who)),
			       printable_inside(c->login->user, user, sizeof(user)));
	auth_accept_client(c);
}

/* The key of a password in clear text was derived: compares it with the stored SCRAM secret. */
static void on_password_derived(struct derivation_wait *wait, const struct verify_answer *answer)
{
	struct login *l = LIST_OBJECT(wait, struct login, derivation);
	struct client *c = l->client;
	bool is_right, is_old;

	if (answer->verdict != VERIFIED_YES) {
		fail_derivation(c, answer);
		return;
	}
	is_right = l->stored && keys_password_prove(keys_of(c, false), l->password->bytes, l->user,
						    l->stored->bytes, answer->salted);
	is_old = !is_right && l->old &&
		 keys_password_prove(keys_of(c, true), l->password->bytes, l->user, l->old->bytes,
				     answer->salted);
	secret_free(&l->password);
	if (!is_right && !is_old) {
		auth_refuse(c);
		return;
	}
	accept_secret(c, is_old);
	/* no event announces messages that the client has sent during the derivation */
	peer_come_again(&c->peer);
}

/* The key of a stored password, or of a made-up one, was derived: sends the SCRAM request. */
static void on_secret_derived(struct derivation_wait *wait, const struct verify_answer *answer)
{
	struct login *l = LIST_OBJECT(wait, struct login, derivation);
	struct client *c = l->client;
	const struct derivation_question question = {
		.password = l->password->bytes,
		.salt = l->derived_salt,
		.salt_size = MOCK_SALT,
		.iterations = l->derived_iterations,
	};
	uint8_t salted[SCRAM_KEY];
	bool is_kept = true, is_derived_here;

	is_derived_here = answer->verdict == VERIFIED_UNKNOWN &&
			  derivation_in_loop(&question, salted);
	if (answer->verdict != VERIFIED_YES && !is_derived_here) {
		fail_derivation(c, answer);
		return;
	}
	if (!l->derived_for)
		unknown_derived(c, l->derived_iterations, true);
	else
		is_kept = keys_keep_plain(l->derived_for, l->user, l->password->bytes,
					  l->derived_salt, l->derived_iterations,
					  is_derived_here ? salted : answer->salted);
	mem_wipe(salted, sizeof(salted));
	secret_free(&l->password);
	if (!is_kept) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
	ask_scram(c);
	peer_come_again(&c->peer);
}

/* ---- methods with a password: requests ---- */

void auth_ask_password(struct client *c)
{
	c->login->question = QUESTION_PASSWORD;
	pg_build_auth(&c->login->out, 3, NULL, 0);
	auth_wait_for(c, LOGIN_PASSWORD);
}

static void ask_md5(struct client *c)
{
	struct login *l = c->login;
	enum secret_kind kind = l->stored ? secret_kind_of(l->stored->bytes) : SECRET_NONE;
	/* as many of the unknown users get a SCRAM request as of the known ones */
	bool unknown_gets_scram = unknown_is_scram(c);

	/* a response to MD5 cannot be checked with a SCRAM secret */
	if (kind == SECRET_SCRAM || (l->old && secret_kind_of(l->old->bytes) == SECRET_SCRAM) ||
	    (kind == SECRET_NONE && unknown_gets_scram)) {
		ask_scram(c);
		return;
	}
	if (RAND_bytes(l->md5_salt, sizeof(l->md5_salt)) != 1) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
	l->question = QUESTION_MD5;
	pg_build_auth(&l->out, 5, l->md5_salt, sizeof(l->md5_salt));
	auth_wait_for(c, LOGIN_PASSWORD);
}

/* PENDING: a key is being derived, after which the request is made, or the client has ended. */
enum found { FOUND, PENDING, NO_MEMORY };

/* Finds the SCRAM secret of a password with this salt and count. */
static enum found find_derived(struct client *c, bool is_old, const uint8_t salt[MOCK_SALT],
			       uint32_t iterations, struct scram_secret *secret)
{
	struct login *l = c->login;
	const char *password = is_old ? l->old->bytes : l->stored->bytes;
	const struct scram_secret *derived = keys_plain_secret(keys_of(c, is_old), l->user,
							       password, salt, iterations);

	if (derived) {
		*secret = *derived;
		return FOUND;
	}
	l->derived_for = keys_of(c, is_old);
	l->derived_iterations = iterations;
	memcpy(l->derived_salt, salt, MOCK_SALT);
	auth_derive(c, password, salt, MOCK_SALT, iterations, on_secret_derived);
	return PENDING;
}

/* Finds both secrets of a user with two of them, for one salt and count (users_old_secret). *old is
   allocated. */
static enum found find_two_secrets(struct client *c, struct scram_secret *secret,
				   struct scram_secret **old, const uint8_t mock_salt[MOCK_SALT],
				   uint32_t iterations)
{
	struct login *l = c->login;
	struct scram_secret *other = *old = mem_try(sizeof(*other));
	bool is_scram = scram_secret_read(l->stored->bytes, secret),
	     old_is_scram = other && scram_secret_read(l->old->bytes, other);
	enum found found = other ? FOUND : NO_MEMORY;

	if (other && !is_scram)
		found = find_derived(c, false, old_is_scram ? other->salt : mock_salt,
				     old_is_scram ? other->iterations : iterations, secret);
	if (found == FOUND && !old_is_scram)
		found = find_derived(c, true, secret->salt, secret->iterations, other);
	return found;
}

/* Finds the SCRAM secret for the exchange, and a second one, *other, which is allocated.
   *is_made_up: the user has no secret that SCRAM can use. */
static enum found find_scram_secret(struct client *c, struct scram_secret *secret,
				    struct scram_secret **other, bool *is_made_up)
{
	uint32_t iterations = (uint32_t)c->peer.world->conf->settings.scram_iterations;
	struct login *l = c->login;
	char random[2 * SCRAM_KEY + 1];
	struct scram_secret made_up;
	uint8_t salt[MOCK_SALT];
	bool is_plain;

	*is_made_up = false;
	/* the salt depends on the name, so that an unknown user has the same one at each attempt */
	if (!unknown_secret(c, iterations, &made_up, &is_plain, salt))
		return NO_MEMORY;
	/* of two MD5 secrets, or an MD5 secret and a password, SCRAM can use none or one */
	if (l->old && secret_kind_of(l->old->bytes) != SECRET_MD5 &&
	    secret_kind_of(l->stored->bytes) != SECRET_MD5)
		return find_two_secrets(c, secret, other, salt, iterations);
	if (l->stored && scram_secret_read(l->stored->bytes, secret))
		return FOUND;
	if (l->stored && secret_kind_of(l->stored->bytes) == SECRET_PLAIN)
		return find_derived(c, false, salt, iterations, secret);
	*is_made_up = true;
	*secret = made_up;
	/* the imitation of a password in clear text is derived too, once */
	if (!is_plain || unknown_derived(c, iterations, false))
		return FOUND;
	text_hex(random, made_up.stored_key, SCRAM_KEY);
	l->derived_for = NULL;
	l->derived_iterations = iterations;
	memcpy(l->derived_salt, salt, MOCK_SALT);
	auth_derive(c, random, salt, MOCK_SALT, iterations, on_secret_derived);
	return PENDING;
}

static void ask_scram(struct client *c)
{
	static const char mechanisms[] = "SCRAM-SHA-256\0",
			  with_plus[] = "SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0";
	struct login *l = c->login;
	struct scram_binding *binding = &l->scram.binding;
	SSL *ssl = c->peer.stream.ssl;
	struct scram_secret secret, *other = NULL;
	uint8_t nonce[SCRAM_NONCE_RAW];
	bool is_made_up;
	enum found found = find_scram_secret(c, &secret, &other, &is_made_up);

	if (found != FOUND || RAND_bytes(nonce, sizeof(nonce)) != 1) {
		mem_free(other);
		if (found != PENDING)
			client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
	scram_verifier_init(&l->scram, &secret, is_made_up, nonce);
	l->scram.other = other;
	mem_wipe(&secret, sizeof(secret));
	l->question = QUESTION_SCRAM;
	/* the exchange can be bound to a TLS connection, if the certificate names a hash for
	   that */
	if (ssl &&
	    c->peer.world->conf->settings.client_channel_binding != CHANNEL_BINDING_DISABLE &&
	    tls_server_end_point(ssl, binding->data, &binding->size)) {
		pg_build_auth(&l->out, 10, with_plus, sizeof(with_plus));
	} else {
		binding->size = 0;
		pg_build_auth(&l->out, 10, mechanisms, sizeof(mechanisms));
	}
	auth_wait_for(c, LOGIN_SASL_FIRST);
}

/* ---- methods with a password: responses ---- */

/* `secret` NULL: an unknown user; takes as long, and does not match. */
static bool md5_matches(const struct login *l, const struct secret *secret, const char *answer)
{
	char stored[MD5_SECRET + 1], wanted[MD5_SECRET + 1];
	enum secret_kind kind = secret ? secret_kind_of(secret->bytes) : SECRET_NONE;
	bool right, known = false;

	if (kind == SECRET_SCRAM || kind == SECRET_NONE)
		md5_secret("", l->user, stored);
	else if (kind == SECRET_MD5)
		known = text_copy(stored, sizeof(stored), secret->bytes);
	else
		known = md5_secret(secret->bytes, l->user, stored);
	right = md5_answer(stored, l->md5_salt, wanted) && strlen(answer) == MD5_SECRET &&
		mem_equal_constant_time(answer, wanted, MD5_SECRET);
	mem_wipe(stored, sizeof(stored));
	mem_wipe(wanted, sizeof(wanted));
	return right && known;
}

static void check_md5(struct client *c, const char *answer)
{
	const struct login *l = c->login;
	bool is_right = md5_matches(l, l->stored, answer),
	     is_old = !is_right && l->old && md5_matches(l, l->old, answer);

	if (is_right || is_old)
		accept_secret(c, !is_right);
	else
		auth_refuse(c);
}

/* Checks a password in clear text, not empty. A SCRAM secret needs a derivation, unless this
   password was proven before. */
static void auth_check_password(struct client *c, const char *password)
{
	const struct login *l = c->login;
	char made_up_text[SCRAM_SECRET_TEXT], who[256];
	struct scram_secret secret;
	const char *stored = NULL;
	bool is_plain, is_old;
	bool gets_scram = unknown_is_scram(c),
	     is_made = unknown_secret(c, 0, &secret, &is_plain, NULL) &&
		       scram_secret_write(&secret, made_up_text, sizeof(made_up_text));

	if (l->stored && secret_kind_of(l->stored->bytes) != SECRET_NONE)
		stored = l->stored->bytes;
	else if (gets_scram && is_made)
		stored = made_up_text;
	is_old = l->old &&
		 (password_matches(password, l->user, l->old->bytes) ||
		  keys_password_check(keys_of(c, true), password, l->user, l->old->bytes));
	/* a SCRAM secret of the two is compared with a derived key, the other one need not be */
	if (l->old && secret_kind_of(stored) != SECRET_SCRAM &&
	    secret_kind_of(l->old->bytes) == SECRET_SCRAM &&
	    !password_matches(password, l->user, stored))
		stored = l->old->bytes;
	if (is_old) {
		accept_secret(c, true);
	} else if (!stored || secret_kind_of(stored) != SECRET_SCRAM) {
		if (stored && password_matches(password, l->user, stored))
			auth_accept_client(c);
		else
			auth_refuse(c);
	} else if (keys_password_check(keys_of(c, false), password, l->user, stored)) {
		auth_accept_client(c);
	} else if (scram_secret_read(stored, &secret) &&
		   secret.iterations <= SCRAM_ITERATIONS_MAX) {
		auth_derive(c, password, secret.salt, secret.salt_size, secret.iterations,
			    on_password_derived);
	} else {
		log_error("%s SCRAM: the secret has more than 1000000 iterations, too many for a "
			  "password in clear",
			  client_text(c, who, sizeof(who)));
		auth_refuse(c);
	}
	mem_wipe(&secret, sizeof(secret));
}

static void scram_message(struct client *c, const char *message, size_t size)
{
	struct login *l = c->login;
	struct bytes data = BYTES_EMPTY;
	const char *why = "";
	char who[256];
	enum scram_result verdict = scram_verifier_step(&l->scram, message, size, &data, &why);
	bool is_old = l->scram.is_other;
	const struct scram_secret *secret = is_old ? l->scram.other : &l->scram.secret;
	const char *stored = is_old ? l->old->bytes : l->stored ? l->stored->bytes : "";

	if (verdict == SCRAM_CONTINUE || verdict == SCRAM_DONE) {
		pg_build_auth(&l->out, verdict == SCRAM_CONTINUE ? 11 : 12, data.data,
			      bytes_size(&data));
		l->out.failed |= data.failed;
	}
	bytes_wipe(&data);
	switch (verdict) {
	case SCRAM_CONTINUE:
		auth_wait_for(c, LOGIN_SASL_FINAL);
		return;
	case SCRAM_DONE:
		/* pgweir has made this secret from a password, so its keys fit no server */
		if (secret_kind_of(stored) == SECRET_SCRAM)
			keys_keep(keys_of(c, is_old), l->user, stored, secret->salt,
				  secret->salt_size, secret->iterations, l->scram.client_key,
				  secret->server_key, true);
		accept_secret(c, is_old);
		return;
	case SCRAM_UNBOUND:
		/* a proxy or an attacker ends the TLS connection */
		log_warning("%s channel binding: %s", client_text(c, who, sizeof(who)), why);
		break;
	case SCRAM_WRONG:
		break;
	case SCRAM_PENDING:
	case SCRAM_NO_KEYS:
	case SCRAM_INVALID:
		log_debug("SCRAM from a client: %s", why);
		break;
	}
	auth_refuse(c);
}

static void secret_message(struct client *c, const uint8_t *body, size_t size)
{
	struct login *l = c->login;
	struct scram_verifier *scram = &l->scram;
	struct pg_cursor cursor = pg_cursor_of(body, size);
	const char *mechanism, *answer;
	const uint8_t *data;
	uint32_t length;
	bool is_offered;

	if (l->step == LOGIN_PASSWORD) {
		answer = pg_read_string(&cursor);
		if (cursor.bad || cursor.at != cursor.end)
			client_end(c, REASON_BAD_LOGIN_PACKET, "malformed password");
		else if (l->question == QUESTION_PASSWORD && *answer)
			auth_check_password(c, answer);
		else if (l->question == QUESTION_MD5)
			check_md5(c, answer);
		else
			auth_refuse(c);
		return;
	}
	if (l->step == LOGIN_SASL_FINAL) {
		scram_message(c, (const char *)body, size);
		return;
	}
	/* SASLInitialResponse: mechanism, length, data. Without data the client gets an empty
	   challenge. */
	mechanism = pg_read_string(&cursor);
	length = pg_read_u32(&cursor);
	data = length == NO_INITIAL_RESPONSE ? NULL : pg_read_bytes(&cursor, length);
	is_offered = strcmp(mechanism, "SCRAM-SHA-256") == 0;
	if (scram->binding.size > 0 && strcmp(mechanism, "SCRAM-SHA-256-PLUS") == 0)
		is_offered = scram->plus = true;
	if (cursor.bad || cursor.at != cursor.end || !is_offered)
		auth_refuse(c);
	else
		scram_message(c, (const char *)data, data ? length : 0);
}

/* ---- the method and the secret ---- */

static const struct {
	void (*begin)(struct client *c);
	void (*message)(struct client *c, const uint8_t *body, size_t size);
} actions[AUTH_METHODS] = {
#define AUTH_METHOD(id, word, keyword, needs, library, begin, message) \
	[AUTH_##id] = { begin, message },
#include "tbl/auth_method.tbl"
#undef AUTH_METHOD
};

void auth_begin(struct client *c)
{
	const struct settings *set = &c->peer.world->conf->settings;
	const struct brief_address *remote = &c->peer.remote;
	struct world *w = c->peer.world;
	struct login *l = c->login;
	const struct secret *listed, *old;
	enum lookup_begun begun;
	char who[256];

	/* the user that runs the process has access to the console over a Unix socket, without a
	   password */
	if (name_is_console(l->database) && name_is_console(l->user) && remote->family == AF_UNIX &&
	    remote->u.peer.uid == (uint32_t)geteuid()) {
		log_info("%s pgbouncer access from unix socket", client_text(c, who, sizeof(who)));
		client_address_set_administrator(c);
		c->console.may_show = true;
		auth_accept_client(c);
		return;
	}
	l->method = (enum auth_type)set->auth_type;
	if (l->method == AUTH_HBA && !auth_rule_choose(c))
		return;
	if (auth_methods[l->method].needs & AUTH_NEEDS_VERIFIER) {
		actions[l->method].begin(c);
		return;
	}
	users_refresh(w);
	listed = userlist_find(w->logins.secrets->list, l->user);
	if (listed) {
		l->sought = USER_LISTED;
		l->stored = l->stored_copy = secret_new(listed->bytes, listed->length);
		old = users_old_secret(w->logins.secrets->list, l->user);
		l->old = old ? secret_new(old->bytes, old->length) : NULL;
		if (!l->stored || (old && !l->old)) {
			client_end(c, REASON_NO_MEMORY, NULL);
			return;
		}
	} else if (auth_methods[l->method].needs & AUTH_NEEDS_USER) {
		begun = lookup_begin(c);
		if (begun == LOOKUP_BEGUN_WAITS)
			l->sought = USER_LOOKED_UP;
		if (begun != LOOKUP_BEGUN_NONE)
			return;
		l->sought = USER_NOT_LISTED;
	}
	actions[l->method].begin(c);
}

void auth_looked_up(struct client *c)
{
	struct login *l = c->login;

	if (l->wait.refused != REASON_NONE) {
		client_end(c, l->wait.refused, NULL);
		return;
	}
	l->stored = l->stored_copy = l->wait.found;
	l->wait.found = NULL;
	l->sought = l->stored ? USER_FOUND : USER_NOT_FOUND;
	l->answer = l->wait.answer;
	l->source = l->wait.source;
	actions[l->method].begin(c);
}

void auth_message(struct client *c, const uint8_t *body, size_t size)
{
	actions[c->login->method].message(c, body, size);
}
