/*
 * Who a client is: auth_type trust, any, plain, md5, scram-sha-256 and cert.
 *
 * The user list decides. An unknown user is asked the same question as a known one and fails at the end of
 * the exchange with the same words: a made-up SCRAM secret that is the same at every attempt (scram_mock_secret), or a
 * password that cannot match. md5 becomes SCRAM where the stored secret is a SCRAM one, because an
 * MD5 answer cannot be checked against it.
 *
 * A SCRAM login proves the ClientKey; it is kept, because with it pgweir can log in at the server (keys.c).
 */
#include "base/text.h"
#include "net/tls.h"
#include "pg/build.h"
#include "pg/frame.h"
#include "session/keys.h"
#include "session/login.h"

#include <openssl/rand.h>
#include <string.h>
#include <unistd.h>

static void send_out(struct client *c)
{
	struct bytes out = c->login->out;

	c->login->out = (struct bytes)BYTES_EMPTY;
	client_send(c, &out);
	bytes_wipe(&out);
}

static void wait_for(struct client *c, enum login_step step)
{
	if (c->policy.state == CLIENT_STARTUP)
		pool_client_become(c->peer.world->pools, &c->policy, CLIENT_AUTH, c->peer.world->now);
	c->login->step = step;
	send_out(c);
}

static bool is_console(const struct login *l)
{
	return strcmp(l->database, "pgbouncer") == 0 || strcmp(l->database, "pgweir") == 0;
}

/* The console: who may do what there. False: it ended. */
static bool console_role(struct client *c)
{
	const struct settings *set = &c->peer.world->conf->settings;
	struct login *l = c->login;

	c->is_admin = text_list_has(set->admin_users, l->user, false);
	c->may_show = c->is_admin || text_list_has(set->stats_users, l->user, false) || set->auth_type == AUTH_ANY;
	if (c->may_show)
		return true;
	client_end(c, GOODBYE_NOT_ALLOWED, NULL);
	return false;
}

/* Whoever runs the daemon may look after it, over a Unix socket, without a password. */
static bool is_own_user(struct client *c)
{
	const struct login *l = c->login;

	return is_console(l) && c->peer.remote.family == AF_UNIX && c->peer.remote.u.peer.uid == (uint32_t)geteuid() &&
	       (strcmp(l->user, "pgbouncer") == 0 || strcmp(l->user, "pgweir") == 0);
}

static void accept_user(struct client *c)
{
	if (is_console(c->login) && !c->is_admin && !console_role(c))
		return;
	login_proven(c);
}

/* ---- the methods ---- */

static void begin_plain(struct client *c)
{
	pg_build_auth(&c->login->out, 3, NULL, 0);
	wait_for(c, LOGIN_PASSWORD);
}

static void begin_md5(struct client *c)
{
	struct login *l = c->login;

	if (RAND_bytes(l->md5_salt, sizeof(l->md5_salt)) != 1) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return;
	}
	l->md5 = true;
	pg_build_auth(&l->out, 5, l->md5_salt, sizeof(l->md5_salt));
	wait_for(c, LOGIN_PASSWORD);
}

/* The SCRAM secret to check against; a made-up one (and *mock) for users who have none. False: no memory. */
static bool scram_secret_for(struct client *c, struct scram_secret *secret, bool *mock)
{
	struct world *w = c->peer.world;
	struct login *l = c->login;
	uint32_t iterations = (uint32_t)w->conf->settings.scram_iterations;
	const struct scram_secret *derived;
	struct secret *prepared;

	*mock = false;
	if (l->stored && secret_kind_of(l->stored->bytes) == SECRET_SCRAM && scram_secret_read(l->stored->bytes, secret))
		return true;
	if (!l->stored || l->stored->length == 0 || secret_kind_of(l->stored->bytes) != SECRET_PLAIN) {
		*mock = true;
		return scram_mock_secret(l->user, w->seed, iterations, secret);
	}
	prepared = saslprep(l->stored->bytes);
	derived = prepared ? keys_secret_of_plain(w->keys, l->user, prepared->bytes, iterations) : NULL;
	secret_free(&prepared);
	if (derived)
		*secret = *derived;
	return derived != NULL;
}

static void begin_scram(struct client *c)
{
	static const char mechanisms[] = "SCRAM-SHA-256\0";
	struct login *l = c->login;
	struct scram_secret secret;
	uint8_t nonce[SCRAM_NONCE_RAW];
	bool mock;

	if (!scram_secret_for(c, &secret, &mock) || RAND_bytes(nonce, sizeof(nonce)) != 1) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return;
	}
	scram_verifier_init(&l->scram, &secret, mock, nonce);
	mem_wipe(&secret, sizeof(secret));
	l->scram_begun = true;
	pg_build_auth(&l->out, 10, mechanisms, sizeof(mechanisms));
	wait_for(c, LOGIN_SASL_FIRST);
}

static void begin_trust(struct client *c)
{
	if (!c->login->stored) {
		client_end(c, GOODBYE_TRUST_FAILED, NULL);
		return;
	}
	accept_user(c);
}

static void begin_cert(struct client *c)
{
	char name[256];

	if (!c->peer.stream.ssl || !tls_peer_is_verified(c->peer.stream.ssl) ||
	    !tls_peer_common_name(c->peer.stream.ssl, name, sizeof(name)) || strcmp(name, c->login->user) != 0 || !c->login->stored) {
		client_end(c, GOODBYE_CERT_FAILED, NULL);
		return;
	}
	accept_user(c);
}

/* auth_type any: the name does not matter, the database brings its own user. */
static void begin_any(struct client *c)
{
	struct database *database = database_get(c->peer.world->pools, c->login->database, c->peer.world->now);

	if (database && !database->is_console && !database->conf->user) {
		client_end(c, GOODBYE_CONFIG_ERROR, NULL);
		return;
	}
	accept_user(c);
}

void auth_begin(struct client *c)
{
	struct world *w = c->peer.world;
	struct login *l = c->login;
	enum secret_kind kind;

	world_refresh_userlist(w);
	l->stored = w->userlist ? userlist_find(w->userlist, l->user) : NULL;
	if (l->stored && !(l->stored = l->stored_copy = secret_new(l->stored->bytes, l->stored->length))) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return;
	}
	kind = l->stored ? secret_kind_of(l->stored->bytes) : SECRET_NONE;
	if (is_own_user(c)) {
		c->is_admin = c->may_show = true;
		accept_user(c);
		return;
	}
	switch ((enum auth_type)w->conf->settings.auth_type) {
	case AUTH_TRUST:
		begin_trust(c);
		return;
	case AUTH_ANY:
		begin_any(c);
		return;
	case AUTH_PLAIN:
		begin_plain(c);
		return;
	case AUTH_MD5:
		/* the kind of question must not tell whether a user exists: the unknown are asked what most of the known are */
		if (kind == SECRET_SCRAM || (kind == SECRET_NONE && w->users_mostly_scram))
			begin_scram(c);
		else
			begin_md5(c);
		return;
	case AUTH_SCRAM:
		begin_scram(c);
		return;
	case AUTH_CERT:
		begin_cert(c);
		return;
	case AUTH_HBA:
	case AUTH_PAM:
	case AUTH_LDAP:
		client_end(c, GOODBYE_NO_AUTH_METHOD, NULL);
		return;
	}
}

/* ---- the answers ---- */

static bool md5_matches(const struct login *l, const char *answer)
{
	char stored[MD5_SECRET + 1], wanted[MD5_SECRET + 1];
	bool right, known = false;

	if (!l->stored || secret_kind_of(l->stored->bytes) == SECRET_SCRAM || l->stored->length == 0)
		md5_secret("", l->user, stored);
	else if (secret_kind_of(l->stored->bytes) == SECRET_MD5)
		known = text_copy(stored, sizeof(stored), l->stored->bytes);
	else
		known = md5_secret(l->stored->bytes, l->user, stored);
	right = md5_answer(stored, l->md5_salt, wanted) && strlen(answer) == MD5_SECRET && mem_equal_constant_time(answer, wanted, MD5_SECRET);
	mem_wipe(stored, sizeof(stored));
	mem_wipe(wanted, sizeof(wanted));
	return right && known;
}

/* Takes the time that a user with a SCRAM secret would have taken, where most users have one. */
static void match_in_vain(const struct world *w, const char *user, const char *answer)
{
	struct scram_secret made_up;
	char text[SCRAM_SECRET_TEXT];

	if (w->users_mostly_scram && scram_mock_secret(user, w->seed, (uint32_t)w->conf->settings.scram_iterations, &made_up) &&
	    scram_secret_write(&made_up, text, sizeof(text)))
		password_matches(answer, user, text);
}

static void password_answer(struct client *c, const uint8_t *body, size_t size)
{
	struct login *l = c->login;
	struct pg_cursor cursor = pg_cursor_of(body, size);
	const char *answer = pg_read_string(&cursor);
	bool right = false;

	if (cursor.bad || cursor.at != cursor.end) {
		client_end(c, GOODBYE_BAD_LOGIN_PACKET, "malformed password");
		return;
	}
	if (l->md5)
		right = md5_matches(l, answer);
	else if (l->stored && l->stored->length > 0)
		right = *answer && keys_password_matches(c->peer.world->keys, answer, l->user, l->stored->bytes);
	else
		match_in_vain(c->peer.world, l->user, answer);
	if (right)
		accept_user(c);
	else
		client_end(c, GOODBYE_PASSWORD_FAILED, NULL);
}

static void scram_answer(struct client *c, const char *message, size_t size)
{
	struct login *l = c->login;
	struct bytes data = BYTES_EMPTY;
	const char *why = "";

	switch (scram_verifier_step(&l->scram, message, size, &data, &why)) {
	case SCRAM_CONTINUE:
		pg_build_auth(&l->out, 11, data.data, bytes_size(&data));
		l->out.failed |= data.failed;
		bytes_wipe(&data);
		wait_for(c, LOGIN_SASL_FINAL);
		return;
	case SCRAM_DONE:
		pg_build_auth(&l->out, 12, data.data, bytes_size(&data));
		l->out.failed |= data.failed;
		bytes_wipe(&data);
		/* keys for a secret of our own making would be of no use at a server */
		if (secret_kind_of(l->stored->bytes) == SECRET_SCRAM)
			keys_keep(c->peer.world->keys, l->user, l->stored->bytes, l->scram.secret.salt, l->scram.secret.salt_size,
				  l->scram.secret.iterations, l->scram.client_key, l->scram.secret.server_key);
		accept_user(c);
		return;
	case SCRAM_WRONG:
		bytes_wipe(&data);
		client_end(c, GOODBYE_SASL_FAILED, NULL);
		return;
	case SCRAM_INVALID:
		bytes_wipe(&data);
		log_debug("SCRAM from a client: %s", why);
		client_end(c, GOODBYE_SASL_FAILED, NULL);
		return;
	}
}

/* SASLInitialResponse: the mechanism, the length of the data (-1: none), the data. */
static void sasl_first(struct client *c, const uint8_t *body, size_t size)
{
	struct pg_cursor cursor = pg_cursor_of(body, size);
	const char *mechanism = pg_read_string(&cursor);
	uint32_t length = pg_read_u32(&cursor);
	const uint8_t *data = pg_read_bytes(&cursor, length);

	if (cursor.bad || cursor.at != cursor.end || strcmp(mechanism, "SCRAM-SHA-256") != 0) {
		client_end(c, GOODBYE_SASL_FAILED, NULL);
		return;
	}
	scram_answer(c, (const char *)data, length);
}

void auth_message(struct client *c, const uint8_t *body, size_t size)
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
	case LOGIN_TLS:
	case LOGIN_PROVEN:
		return;
	}
}
