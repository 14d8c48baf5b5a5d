/*
 * Authentication at a server: password in clear text, MD5, SCRAM-SHA-256 and SCRAM-SHA-256-PLUS
 * (Authentication messages, "SASL Authentication" in the documentation of the protocol; RFC 5802,
 * RFC 5929, RFC 7677).
 *
 * The secret comes from the database entry, from PAM or LDAP, from the user list or from
 * auth_query. A SCRAM secret can be used at a server only with the ClientKey that a login of its
 * user has revealed (keys.c). For a clear password a process derives the keys (derivation.c), and
 * they are stored. With SCRAM the server has to prove that it knows the secret, too:
 * AuthenticationOk before the proof is refused.
 *
 * SCRAM-SHA-256-PLUS binds the exchange to the certificate of the TLS connection: an attacker with
 * another certificate cannot continue the exchange. server_channel_binding says whether it is used.
 *
 * server_require_auth, and require_auth of a database, list the methods that a server may ask for,
 * like require_auth of libpq. A password in clear text can be read by any machine between pgweir
 * and a server without TLS. Such a machine can also answer in place of the server, and
 * sslmode=prefer continues without TLS after the answer N to SSLRequest. Clients that have proven
 * nothing cause such logins (auth_query logs in as auth_user). Without a list a clear password is
 * therefore sent only over TLS, Unix sockets and the loopback interface. A list that contains
 * `password` allows it everywhere.
 *
 * Invariant: a server asks for a password once. A second request, or a request after
 * AuthenticationOk, ends the server.
 */
#include "backend/server_auth.h"

#include "backend/dial.h"
#include "backend/keys.h"
#include "backend/proven_secret.h"
#include "backend/server_info.h"
#include "backend/server_login.h"
#include "base/log.h"
#include "net/address.h"
#include "net/tls.h"
#include "pg/build.h"
#include "pg/scram.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>

/* Whether auth_user of the general settings or of a database has this name. */
static bool is_auth_user(const struct conf *conf, const char *user)
{
	const char *name = conf->settings.auth_user;

	for (size_t i = 0; i <= conf->database_count; i++) {
		const struct conf_database *d = i < conf->database_count ? conf->databases[i]
									 : conf->fallback;

		if (name && strcmp(name, user) == 0)
			return true;
		name = d ? d->auth_user : NULL;
	}
	return name && strcmp(name, user) == 0;
}

/* The secret that the user of a pool logs in with at a server. */
struct login_secret {
	const char *text;		/* NULL: none */
	enum secret_kind kind;		/* SECRET_NONE: none */
	struct server_keys *keys;	/* where keys of this secret are stored */
	bool has_other;			/* the user list has two secrets */
};

/* Returns the password of the database, else the password that PAM or LDAP has accepted, else the
   secret of the user list (`is_old`: the old one, if there are two), else the secret that
   auth_query has found. */
static struct login_secret find_secret(const struct server *s, bool is_old)
{
	const struct pool *pool = s->pooled.pool;
	const struct conf_database *conf = pool->database->conf;
	const struct server_info *info = pool->parent->server_info;
	const struct proven_secret *found = info ? info->proven.found : NULL,
				   *shown = info ? info->proven.shown : NULL;
	const struct secrets *secrets = s->peer.world->logins.secrets;
	struct login_secret all = { .keys = secrets->keys };
	const struct secret *secret = NULL, *old;

	/* the password of a database with user= is not the password of auth_user */
	if (!conf->user || strcmp(conf->user, pool->user->name) == 0)
		secret = conf->password;
	/* An account in PAM or LDAP with the name of auth_user must not decide which password
	   look-ups log in with. The password is a clear password, even if it looks like a hash. */
	if (!secret && shown && !conf->user &&
	    !is_auth_user(s->peer.world->conf, pool->user->name)) {
		all.text = shown->secret->length > 0 ? shown->secret->bytes : NULL;
		all.kind = all.text ? SECRET_PLAIN : SECRET_NONE;
		all.keys = shown->keys;
		return all;
	}
	if (!secret) {
		secret = userlist_find(secrets->list, pool->user->name);
		old = userlist_find_old(secrets->list, pool->user->name);
		all.has_other = secret && old;
		if (all.has_other && is_old) {
			secret = old;
			all.keys = secrets->old_keys;
		}
	}
	if (!secret && found) {
		secret = found->secret;
		all.keys = found->keys;
	}
	all.text = secret && secret->length > 0 ? secret->bytes : NULL;
	all.kind = all.text ? secret_kind_of(all.text) : SECRET_NONE;
	return all;
}

static struct login_secret secret_of(const struct server *s)
{
	return find_secret(s, s->dial->uses_old);
}

bool server_auth_try_other(struct server *s)
{
	struct dial *d = s->dial;
	const struct login_secret other = find_secret(s, !d->uses_old);
	char who[256];

	if (d->has_tried_both || !other.has_other || other.kind == SECRET_NONE ||
	    (other.kind == SECRET_SCRAM &&
	     !keys_has(other.keys, s->pooled.pool->user->name, other.text)))
		return false;
	d->has_tried_both = true;
	d->uses_old = !d->uses_old;
	log_info("%s trying the %s secret of the user", server_text(s, who, sizeof(who)),
		 d->uses_old ? "old" : "new");
	dial_again(s);
	return true;
}

/* The stored secret cannot be used for the method that the server asks for. */
static void wrong_secret(struct server *s, const char *what)
{
	char who[256];

	if (server_auth_try_other(s))
		return;
	log_error("%s cannot do %s", server_text(s, who, sizeof(who)), what);
	server_end(s, REASON_SERVER_SECRET, NULL);
}

static void server_auth_answer(struct server *s, struct bytes *out)
{
	bool sent = !out->failed && stream_write_bytes(&s->peer.stream, out->data, bytes_size(out));

	bytes_wipe(out);
	if (!sent)
		dial_give_way(s, REASON_SERVER_CRASHED, NULL);
}

static void answer_md5(struct server *s, const uint8_t *salt)
{
	const struct login_secret secret = secret_of(s);
	char hashed[MD5_SECRET + 1], text[MD5_SECRET + 1];
	struct bytes out = BYTES_EMPTY;

	switch (secret.kind) {
	case SECRET_PLAIN:
		if (!md5_secret(secret.text, s->pooled.pool->user->name, hashed)) {
			server_end(s, REASON_SERVER_LOGIN_BROKEN, "OpenSSL has no MD5 here");
			return;
		}
		break;
	case SECRET_MD5:
		memcpy(hashed, secret.text, sizeof(hashed) - 1);
		hashed[MD5_SECRET] = 0;
		break;
	case SECRET_SCRAM:
		wrong_secret(s,
			     "MD5 authentication: wrong password type (a SCRAM secret is stored)");
		return;
	case SECRET_NONE:
		server_end(s, REASON_SERVER_LOGIN_BROKEN,
			   "server asks for a password, but none is stored for this user");
		return;
	}
	md5_answer(hashed, salt, text);
	pg_build(&out, 'p', text, MD5_SECRET + 1);
	mem_wipe(hashed, sizeof(hashed));
	server_auth_answer(s, &out);
}

static bool find_keys(void *context, const uint8_t *salt, size_t salt_size, uint32_t iterations,
		      uint8_t client_key[SCRAM_KEY], uint8_t server_key[SCRAM_KEY])
{
	struct server *s = context;
	const struct login_secret secret = secret_of(s);

	return secret.text && keys_find(secret.keys, s->pooled.pool->user->name, secret.text, salt,
					salt_size, iterations, client_key, server_key);
}

/* ---- methods and mechanisms ---- */

/* server_require_auth or require_auth must allow the method (METHOD_NONE: no authentication).
   False: it does not, and the server has ended. */
static bool accept_method(struct server *s, enum server_method method)
{
	static const char *const requests[SERVER_METHODS] = {
		[METHOD_PASSWORD] = "server asks for the password in clear text",
		[METHOD_MD5] = "server asks for an MD5 hash of the password",
		[METHOD_GSS] = "server asks for GSSAPI",
		[METHOD_SSPI] = "server asks for SSPI",
		[METHOD_SCRAM] = "server asks for SASL",
		[METHOD_NONE] = "server does not ask for a password",
	};
	const struct database *database = s->pooled.pool->database;
	bool is_of_database = database->conf->require_auth != CONF_UNSET;
	int list = (int)(is_of_database ? database->conf->require_auth
					: s->peer.world->conf->settings.server_require_auth);
	const struct brief_address *a = &s->peer.remote;
	/* no machine in between can read the bytes: TLS, a Unix socket, 127.0.0.0/8 or ::1 */
	bool is_private = s->peer.stream.ssl || a->family == AF_UNIX ||
			  (a->family == AF_INET && a->u.ip[0] == 127) ||
			  (a->family == AF_INET6 &&
			   memcmp(a->u.ip, &in6addr_loopback, sizeof(a->u.ip)) == 0);
	char called[128] = "server_require_auth", words[64], detail[384];

	if (is_of_database)
		snprintf(called, sizeof(called), "require_auth of database \"%.64s\"",
			 database->name);
	if (!methods_allow(list, method)) {
		snprintf(detail, sizeof(detail), "%s, but %s is \"%s\"", requests[method], called,
			 methods_text(list, words, sizeof(words)));
	} else if (method == METHOD_PASSWORD && !methods_name(list, method) && !is_private) {
		snprintf(detail, sizeof(detail),
			 "%s over a connection without TLS, and %s does not name \"password\"",
			 requests[method], called);
	} else {
		return true;
	}
	server_end(s, REASON_SERVER_AUTH, detail);
	return false;
}

static enum channel_binding binding_mode(const struct server *s)
{
	int of_database = s->pooled.pool->database->conf->channel_binding;

	return (enum channel_binding)(of_database == CONF_UNSET
					      ? s->peer.world->conf->settings.server_channel_binding
					      : of_database);
}

_Static_assert(TLS_END_POINT_MOST <= SCRAM_BINDING_MAX, "a channel binding fits");

/* Chooses between SCRAM-SHA-256 and SCRAM-SHA-256-PLUS by the list of AuthenticationSASL (names,
   and an empty name at the end), and sets the GS2 header. Returns the reason why none is possible,
   or NULL. A server may offer PLUS over a connection without TLS, if something between speaks TLS
   to it: PLUS is ignored then. Where an attacker can remove TLS, it can shorten the list, too. */
static const char *choose_mechanism(const struct server *s, const uint8_t *body, size_t size,
				    struct scram_prover *p)
{
	struct pg_cursor c = pg_cursor_of(body, size);
	enum channel_binding mode = binding_mode(s);
	SSL *ssl = s->peer.stream.ssl;
	bool can_bind = ssl && mode != CHANNEL_BINDING_DISABLE &&
			tls_server_end_point(ssl, p->binding.data, &p->binding.size);
	bool offers_scram = false, offers_plus = false;

	for (const char *name = pg_read_string(&c); !c.bad && *name; name = pg_read_string(&c)) {
		offers_scram |= strcmp(name, "SCRAM-SHA-256") == 0;
		offers_plus |= strcmp(name, "SCRAM-SHA-256-PLUS") == 0;
	}
	if (c.bad || c.at != c.end)
		offers_scram = offers_plus = false;
	if (can_bind && offers_plus) {
		p->gs2 = 'p';
		return NULL;
	}
	p->binding.size = 0;
	if (mode == CHANNEL_BINDING_REQUIRE && !ssl)
		return "channel binding is required, but the connection has no TLS";
	if (mode == CHANNEL_BINDING_REQUIRE && !offers_plus)
		return "channel binding is required, but the server offers none";
	if (mode == CHANNEL_BINDING_REQUIRE)
		return "channel binding is required, but it is not defined for the server's "
		       "certificate";
	/* 'y' says that the server has not offered PLUS. If it has, it knows that an attacker has
	   shortened its list */
	p->gs2 = can_bind ? 'y' : 'n';
	return offers_scram ? NULL : "server offers no SASL mechanism that is known";
}

/* ---- derived keys ---- */

static void sasl_step(struct server *s, const uint8_t *data, size_t size);

static struct derivation_question question_of(const struct server *s)
{
	const struct scram_prover *p = &s->dial->scram;

	return (struct derivation_question){
		.user = s->pooled.pool->user->name,
		.password = secret_of(s).text,
		.salt = p->salt,
		.salt_size = p->salt_size,
		.iterations = p->iterations,
	};
}

/* The derivation is over: sets the keys of the prover and continues the exchange. The keys are
   stored for the next connection, even if the server refuses them. */
static void derived(struct derivation_wait *wait, const struct verify_answer *answer)
{
	struct dial *d = LIST_OBJECT(wait, struct dial, derivation);
	struct server *s = d->server;
	struct scram_prover *p = &d->scram;
	struct bytes challenge = d->challenge;
	const struct derivation_question question = question_of(s);
	const struct login_secret secret = secret_of(s);
	uint8_t stored_key[SCRAM_KEY], salted[SCRAM_KEY], tag[SHA256_SIZE];
	bool ok = false;
	char who[256];

	d->challenge = (struct bytes)BYTES_EMPTY;
	dial_step_to(d, DIAL_SASL);
	flow_unblock(&s->peer, FLOW_KEY);
	/* bytes that are already buffered cause no event */
	peer_come_again(&s->peer);
	if (answer->verdict != VERIFIED_YES)
		log_error("%s %s: %s", server_text(s, who, sizeof(who)),
			  verify_method_names[VERIFY_SCRAM], answer->why);
	if (answer->verdict == VERIFIED_YES)
		ok = scram_keys_of_salted(answer->salted, p->client_key, stored_key, p->server_key);
	else if (question.password && derivation_in_loop(&question, salted))
		ok = scram_keys_of_salted(salted, p->client_key, stored_key, p->server_key);
	mem_wipe(salted, sizeof(salted));
	/* a RELOAD may have changed the password meanwhile: the keys do not belong to the new
	   one */
	if (ok && secret.text && digest_hmac_texts(s->peer.world->seed, secret.text, "", tag) &&
	    memcmp(tag, d->derived_of, sizeof(tag)) == 0)
		keys_keep(secret.keys, question.user, secret.text, p->salt, p->salt_size,
			  p->iterations, p->client_key, p->server_key, false);
	p->have_keys = ok;
	if (ok)
		sasl_step(s, bytes_front(&challenge), bytes_size(&challenge));
	else
		server_end(s, REASON_SERVER_LOGIN_BROKEN,
			   "no key could be derived from the password");
	bytes_wipe(&challenge);
}

/* The prover knows salt and count: asks for the keys. The server is not read until the answer. */
static void server_auth_derive(struct server *s, const uint8_t *data, size_t size)
{
	const struct derivation_question question = question_of(s);
	const struct derivation_login login = { s->address, s->pooled.pool->user };
	const struct login_secret secret = secret_of(s);
	struct dial *d = s->dial;
	enum verify_refusal refused;

	if (!question.password) {
		server_end(s, REASON_SERVER_LOGIN_BROKEN, "the password is not stored any more");
		return;
	}
	bytes_append(&d->challenge, data, size);
	d->challenge.failed |= !digest_hmac_texts(s->peer.world->seed, secret.text, "",
						  d->derived_of);
	d->derivation.done = derived;
	refused = d->challenge.failed
			  ? VERIFIERS_NO_MEMORY
			  : derivation_ask(s->peer.world, &question, NULL, &login, &d->derivation);
	if (refused == VERIFIERS_TOO_MANY) {
		server_end(s, REASON_SERVER_LOGIN_BROKEN,
			   "server asks for SCRAM with another salt each time");
		return;
	}
	if (refused == VERIFIERS_TOO_LONG) {
		server_end(s, REASON_SERVER_LOGIN_BROKEN, "the password is too long for SCRAM");
		return;
	}
	if (refused != VERIFIERS_ASKED) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return;
	}
	dial_step_to(d, DIAL_DERIVE);
	flow_block(&s->peer, FLOW_KEY);
}

static void sasl_step(struct server *s, const uint8_t *data, size_t size)
{
	struct dial *d = s->dial;
	struct bytes out = BYTES_EMPTY, message = BYTES_EMPTY;
	struct login_secret secret;
	const char *why = "SCRAM failed";
	char who[256];
	enum scram_result result = scram_prover_step(&d->scram, (const char *)data, size, find_keys,
						     s, &out, &why);

	switch (result) {
	case SCRAM_CONTINUE:
		if (!data)
			pg_build_sasl_initial(&message,
					      d->scram.gs2 == 'p' ? "SCRAM-SHA-256-PLUS"
								  : "SCRAM-SHA-256",
					      out.data, bytes_size(&out));
		else
			pg_build(&message, 'p', out.data, bytes_size(&out));
		message.failed |= out.failed;
		bytes_wipe(&out);
		server_auth_answer(s, &message);
		return;
	case SCRAM_PENDING:
		server_auth_derive(s, data, size);
		return;
	case SCRAM_DONE:
		dial_step_to(d, DIAL_SASL_DONE);
		secret = secret_of(s);
		if (d->scram.may_derive && secret.text)
			keys_keep(secret.keys, s->pooled.pool->user->name, secret.text,
				  d->scram.salt, d->scram.salt_size, d->scram.iterations,
				  d->scram.client_key, d->scram.server_key, true);
		bytes_wipe(&out);
		return;
	case SCRAM_NO_KEYS:
		bytes_wipe(&out);
		if (server_auth_try_other(s))
			return;
		/* The salt of the server is not the salt of the stored secret: the password has
		   changed, or the server has made up a salt, as it does for roles without a
		   password. A proof with the stored keys would be wrong in both cases. */
		log_error("%s cannot do SCRAM authentication: the stored SCRAM secret is not the "
			  "one of the server: the password has been changed, "
			  "or the role does not exist there, has no password or has expired (VALID "
			  "UNTIL)",
			  server_text(s, who, sizeof(who)));
		server_end(s, REASON_SERVER_SECRET_OLD, s->pooled.pool->user->name);
		return;
	case SCRAM_WRONG:
	case SCRAM_UNBOUND:
	case SCRAM_INVALID:
		bytes_wipe(&out);
		server_end(s, REASON_SERVER_LOGIN_BROKEN, why);
		return;
	}
}

/* Whether the server may ask for a password now, because it has not asked yet. */
static bool may_ask(const struct dial *d)
{
	return d->step == DIAL_STARTUP || d->step == DIAL_NEGOTIATED;
}

static void sasl_begin(struct server *s, const uint8_t *body, size_t size)
{
	const struct login_secret secret = secret_of(s);
	struct dial *d = s->dial;
	uint8_t nonce[SCRAM_NONCE_RAW];
	const char *fault;

	if (!may_ask(d)) {
		server_end(s, REASON_SERVER_LOGIN_BROKEN, "server asked for the password twice");
		return;
	}
	if (RAND_bytes(nonce, sizeof(nonce)) != 1) {
		server_end(s, REASON_SERVER_LOGIN_BROKEN, "no randomness");
		return;
	}
	scram_prover_init(&d->scram, nonce);
	dial_step_to(d, DIAL_SASL);
	fault = choose_mechanism(s, body, size, &d->scram);
	if (fault) {
		server_end(s, REASON_SERVER_LOGIN_BROKEN, fault);
		return;
	}
	switch (secret.kind) {
	case SECRET_PLAIN:
		d->scram.may_derive = true;
		break;
	case SECRET_SCRAM:
		if (keys_has(secret.keys, s->pooled.pool->user->name, secret.text))
			break;
		wrong_secret(s, "SCRAM authentication: password is SCRAM secret but client "
				"authentication did not provide SCRAM keys");
		return;
	case SECRET_MD5:
		wrong_secret(s,
			     "SCRAM authentication: wrong password type (an MD5 secret is stored)");
		return;
	case SECRET_NONE:
		server_end(s, REASON_SERVER_LOGIN_BROKEN,
			   "server asks for a password, but none is stored for this user");
		return;
	}
	sasl_step(s, NULL, 0);
}

/* AuthenticationCleartextPassword or AuthenticationMD5Password. A server asks once: repeated
   requests could fill the memory with answers that the server does not read. Without channel
   binding no password is sent if channel binding is required. */
static void password_request(struct server *s, enum server_method method, const uint8_t *salt)
{
	const struct login_secret secret = secret_of(s);
	struct bytes out = BYTES_EMPTY;

	if (binding_mode(s) == CHANNEL_BINDING_REQUIRE) {
		server_end(s, REASON_SERVER_LOGIN_BROKEN,
			   "channel binding is required, but the server asks for the password "
			   "without");
		return;
	}
	if (!may_ask(s->dial)) {
		server_end(s, REASON_SERVER_LOGIN_BROKEN, "server asked for the password twice");
		return;
	}
	dial_step_to(s->dial, DIAL_PASSWORD);
	if (!accept_method(s, method))
		return;
	if (method == METHOD_MD5) {
		answer_md5(s, salt);
		return;
	}
	if (secret.kind != SECRET_PLAIN) {
		server_end(s, REASON_SERVER_LOGIN_BROKEN,
			   secret.text ? "server wants the password in clear text, but only a hash "
					 "of it is stored"
				       : "server asks for a password, but none is stored for "
					 "this user");
		return;
	}
	pg_build(&out, 'p', secret.text, strlen(secret.text) + 1);
	server_auth_answer(s, &out);
}

void server_auth_request(struct server *s, const struct pg_frame *f)
{
	struct pg_cursor c = pg_cursor_of(f->body, f->size);
	uint32_t code = pg_read_u32(&c);
	size_t rest = (size_t)(c.end - c.at);
	struct dial *d = s->dial;
	char detail[64];

	if (c.bad || d->step == DIAL_PROVEN) {
		server_end(s, REASON_SERVER_LOGIN_BROKEN, "authentication message out of order");
		return;
	}
	if ((code == 0 || code == 3 || code == 5) && rest != (code == 5 ? 4 : 0)) {
		server_end(s, REASON_SERVER_LOGIN_BROKEN,
			   "authentication request of a wrong length");
		return;
	}
	switch (code) {
	case 0:
		/* AuthenticationOk */
		if (d->step == DIAL_SASL)
			server_end(s, REASON_SERVER_LOGIN_BROKEN,
				   "server ended SCRAM before its proof");
		else if (binding_mode(s) == CHANNEL_BINDING_REQUIRE &&
			 !(d->step == DIAL_SASL_DONE && d->scram.gs2 == 'p'))
			server_end(s, REASON_SERVER_LOGIN_BROKEN,
				   "channel binding is required, but the server lets us in "
				   "without");
		else if (!may_ask(d) || accept_method(s, METHOD_NONE))
			dial_step_to(d, DIAL_PROVEN);
		return;
	case 3:
		password_request(s, METHOD_PASSWORD, NULL);
		return;
	case 5:
		password_request(s, METHOD_MD5, c.at);
		return;
	case 10:
		if (accept_method(s, METHOD_SCRAM))
			sasl_begin(s, c.at, rest);
		return;
	case 11:
	case 12:
		if (d->step != DIAL_SASL && d->step != DIAL_SASL_DONE)
			server_end(s, REASON_SERVER_LOGIN_BROKEN, "SASL message out of order");
		else
			sasl_step(s, c.at, rest);
		return;
	default:
		snprintf(detail, sizeof(detail), "unknown authentication request %u", code);
		server_end(s, REASON_SERVER_LOGIN_BROKEN, detail);
	}
}
