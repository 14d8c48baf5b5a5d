/*
 * Logging in at a server: StartupMessage, authentication, parameters, BackendKeyData, ReadyForQuery ("Start-up" and "SASL
 * Authentication" in the documentation of the protocol).
 *
 * Everything a server may say here fits in WHOLE_MOST bytes and is read as a whole; a server that sends more, or
 * something else, or out of order, is refused with a precise reason. An ErrorResponse is passed on word for word to those who wait.
 */
#include "session/server_login.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/text.h"
#include "pg/build.h"
#include "pg/error.h"
#include "pg/frame.h"
#include "pg/password.h"
#include "session/dial.h"
#include "session/keys.h"
#include "session/link.h"
#include "session/relay.h"

#include <openssl/rand.h>
#include <string.h>

#define WHOLE_MOST 65536
#define CANCEL_KEY_MOST 256

/* ---- StartupMessage ---- */

struct pairs {
	const char *at[64];
	size_t count;
};

static void add(struct pairs *p, const char *name, const char *value)
{
	if (!value || p->count + 2 > sizeof(p->at) / sizeof(p->at[0]))
		return;
	p->at[p->count++] = name;
	p->at[p->count++] = value;
}

void server_login_begin(struct server *s)
{
	struct world *w = s->peer.world;
	const struct pool *pool = s->policy.pool;
	const struct conf_database *conf = pool->database->conf;
	const struct { const char *name, *value; int index; } of_database[] = {
		{ "client_encoding", conf->client_encoding, PARAM_CLIENT_ENCODING },
		{ "datestyle", conf->datestyle, PARAM_DATESTYLE },
		{ "timezone", conf->timezone, PARAM_TIMEZONE },
		{ "application_name", conf->application_name, PARAM_APPLICATION_NAME },
	};
	struct pairs pairs = { .count = 0 };
	struct bytes out = BYTES_EMPTY;
	bool sent;

	add(&pairs, "user", pool->user->name);
	add(&pairs, "database", conf->dbname ? conf->dbname : pool->database->name);
	for (size_t i = 0; i < sizeof(of_database) / sizeof(of_database[0]); i++)
		if (!params_get(s->policy.startup, of_database[i].index))
			add(&pairs, of_database[i].name, of_database[i].value);
	for (int i = 0; i < params_count(w->params); i++)
		add(&pairs, params_name(w->params, i), params_get(s->policy.startup, i));
	pg_build_startup(&out, 3 << 16, pairs.at, pairs.count);
	sent = !out.failed && stream_write_bytes(&s->peer.stream, out.data, bytes_size(&out));
	bytes_free(&out);
	if (!sent)
		server_end(s, GOODBYE_SERVER_CRASHED, NULL);
}

/* ---- passwords ---- */

/* The secret that the pool's user logs in with: the database's password, else what the user list has. NULL: none. */
static const char *secret_of(const struct server *s)
{
	const struct pool *pool = s->policy.pool;
	const struct secret *secret = pool->database->conf->password;

	if (!secret && s->peer.world->userlist)
		secret = userlist_find(s->peer.world->userlist, pool->user->name);
	return secret && secret->length > 0 ? secret->bytes : NULL;
}

static void answer(struct server *s, struct bytes *out)
{
	bool sent = !out->failed && stream_write_bytes(&s->peer.stream, out->data, bytes_size(out));

	bytes_wipe(out);
	if (!sent)
		server_end(s, GOODBYE_SERVER_CRASHED, NULL);
}

static void broken(struct server *s, const char *detail)
{
	server_end(s, GOODBYE_SERVER_LOGIN_BROKEN, detail);
}

static void answer_cleartext(struct server *s)
{
	const char *secret = secret_of(s);
	struct bytes out = BYTES_EMPTY;

	if (!secret || secret_kind_of(secret) != SECRET_PLAIN) {
		broken(s, secret ? "server wants the password in clear text, but only a hash of it is stored" :
				   "server asks for a password, but none is stored for this user");
		return;
	}
	pg_build_password(&out, secret, strlen(secret) + 1);
	answer(s, &out);
}

static void answer_md5(struct server *s, const uint8_t *salt)
{
	const char *secret = secret_of(s), *user = s->policy.pool->user->name;
	char hashed[MD5_SECRET + 1], text[MD5_SECRET + 1];
	struct bytes out = BYTES_EMPTY;

	switch (secret ? secret_kind_of(secret) : SECRET_NONE) {
	case SECRET_PLAIN:
		if (!md5_secret(secret, user, hashed)) {
			broken(s, "OpenSSL has no MD5 here");
			return;
		}
		break;
	case SECRET_MD5:
		memcpy(hashed, secret, sizeof(hashed) - 1);
		hashed[MD5_SECRET] = 0;
		break;
	case SECRET_SCRAM:
		broken(s, "server wants an MD5 password, but a SCRAM secret is stored");
		return;
	case SECRET_NONE:
		broken(s, "server asks for a password, but none is stored for this user");
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
	const char *secret = secret_of(s);

	return secret && keys_find(s->peer.world->keys, s->policy.pool->user->name, secret, salt, salt_size, iterations, client_key, server_key);
}

static bool offers_scram(const uint8_t *body, size_t size)
{
	struct pg_cursor c = pg_cursor_of(body, size);

	for (const char *name = pg_read_string(&c); !c.bad && *name; name = pg_read_string(&c))
		if (strcmp(name, "SCRAM-SHA-256") == 0)
			return true;
	return false;
}

/* The password to prove, or none when keys are to be used. False: there is neither; said why. */
static bool choose_proof(struct server *s)
{
	const char *secret = secret_of(s);
	struct dial *d = s->dial;

	switch (secret ? secret_kind_of(secret) : SECRET_NONE) {
	case SECRET_PLAIN:
		d->password = saslprep(secret);
		if (!d->password) {
			server_end(s, GOODBYE_NO_MEMORY, NULL);
			return false;
		}
		d->scram.password = d->password->bytes;
		return true;
	case SECRET_SCRAM:
		if (keys_has(s->peer.world->keys, s->policy.pool->user->name, secret))
			return true;
		broken(s, "server wants SCRAM, but the stored SCRAM secret is of no use before its user has logged in with it");
		return false;
	case SECRET_MD5:
		broken(s, "server wants SCRAM, but only an MD5 hash of the password is stored");
		return false;
	case SECRET_NONE:
		broken(s, "server asks for a password, but none is stored for this user");
		return false;
	}
	return false;
}

static void sasl_step(struct server *s, const uint8_t *data, size_t size)
{
	struct dial *d = s->dial;
	struct bytes out = BYTES_EMPTY, message = BYTES_EMPTY;
	const char *why = "SCRAM failed";
	enum scram_result result = scram_prover_step(&d->scram, (const char *)data, size, find_keys, s, &out, &why);

	switch (result) {
	case SCRAM_CONTINUE:
		if (!data)
			pg_build_sasl_initial(&message, "SCRAM-SHA-256", out.data, bytes_size(&out));
		else
			pg_build_password(&message, out.data, bytes_size(&out));
		message.failed |= out.failed;
		bytes_wipe(&out);
		answer(s, &message);
		return;
	case SCRAM_DONE:
		d->scram_done = true;
		if (d->password && secret_of(s))
			keys_keep(s->peer.world->keys, s->policy.pool->user->name, secret_of(s), d->scram.salt, d->scram.salt_size, d->scram.iterations,
				  d->scram.client_key, d->scram.server_key);
		bytes_wipe(&out);
		return;
	case SCRAM_WRONG:
	case SCRAM_INVALID:
		bytes_wipe(&out);
		broken(s, why);
		return;
	}
}

static void sasl_begin(struct server *s, const uint8_t *body, size_t size)
{
	struct dial *d = s->dial;
	uint8_t nonce[SCRAM_NONCE_RAW];

	if (d->asked || d->scram_begun || !offers_scram(body, size)) {
		broken(s, d->asked || d->scram_begun ? "server asked for the password twice" : "server offers no SASL mechanism that is known");
		return;
	}
	if (RAND_bytes(nonce, sizeof(nonce)) != 1) {
		broken(s, "no randomness");
		return;
	}
	scram_prover_init(&d->scram, nonce);
	d->scram_begun = true;
	if (choose_proof(s))
		sasl_step(s, NULL, 0);
}

/* No server asks twice; one that did could have us pile up answers that it does not fetch. */
static bool may_ask_password(struct server *s)
{
	if (s->dial->asked || s->dial->scram_begun) {
		broken(s, "server asked for the password twice");
		return false;
	}
	s->dial->asked = true;
	return true;
}

static void authentication(struct server *s, const struct pg_frame *f)
{
	struct pg_cursor c = pg_cursor_of(f->body, f->size);
	uint32_t code = pg_read_u32(&c);
	size_t rest = (size_t)(c.end - c.at);
	char detail[64];

	if (c.bad || s->dial->proven) {
		broken(s, "authentication message out of order");
		return;
	}
	switch (code) {
	case 0:
		/* a server that lets us in before it has proven its own knowledge of the password is not the server we know */
		if (s->dial->scram_begun && !s->dial->scram_done) {
			broken(s, "server ended SCRAM before its proof");
			return;
		}
		s->dial->proven = true;
		return;
	case 3:
		if (may_ask_password(s))
			answer_cleartext(s);
		return;
	case 5:
		if (rest < 4)
			broken(s, "MD5 salt is missing");
		else if (may_ask_password(s))
			answer_md5(s, c.at);
		return;
	case 10:
		sasl_begin(s, c.at, rest);
		return;
	case 11:
	case 12:
		if (!s->dial->scram_begun)
			broken(s, "SASL message out of order");
		else
			sasl_step(s, c.at, rest);
		return;
	default:
		snprintf(detail, sizeof(detail), "unknown authentication request %u", code);
		broken(s, detail);
	}
}

/* ---- what follows AuthenticationOk ---- */

static void parameter(struct server *s, const struct pg_frame *f)
{
	struct pg_cursor c = pg_cursor_of(f->body, f->size);
	const char *name = pg_read_string(&c), *value = pg_read_string(&c);

	if (c.bad) {
		broken(s, "malformed ParameterStatus");
		return;
	}
	if (params_index(s->peer.world->params, name) >= 0)
		server_parameter(s, name, value, false);
	else if (bytes_size(&s->dial->welcome) > WHOLE_MOST)
		broken(s, "too many parameters");
	else
		pg_build_parameter_status(&s->dial->welcome, name, value);
}

static void backend_key(struct server *s, const struct pg_frame *f)
{
	struct pg_cursor c = pg_cursor_of(f->body, f->size);

	s->backend_pid = pg_read_u32(&c);
	if (c.bad || c.at == c.end || c.end - c.at > CANCEL_KEY_MOST) {
		broken(s, "malformed BackendKeyData");
		return;
	}
	mem_free(s->cancel_key);
	s->cancel_key_size = (size_t)(c.end - c.at);
	s->cancel_key = mem_try(s->cancel_key_size);
	if (!s->cancel_key) {
		server_end(s, GOODBYE_NO_MEMORY, NULL);
		return;
	}
	memcpy(s->cancel_key, c.at, s->cancel_key_size);
}

/* Whether the server minds what the client asked for at its start-up: data exception, undefined object, parameter that
   cannot be changed now. */
static bool minds_parameters(const struct server *s, const struct pg_error *e)
{
	static const char *const codes[] = { "22", "42704", "55P02" };
	bool asked = false;

	for (int i = 0; i < params_count(s->peer.world->params); i++)
		asked |= params_get(s->policy.startup, i) != NULL;
	for (size_t i = 0; asked && i < sizeof(codes) / sizeof(codes[0]); i++)
		if (text_starts(e->sqlstate, codes[i]))
			return true;
	return false;
}

/* Those who asked for it are told what a direct connection would have told them. It is no failure of the server's, and
   others of the pool have nothing to do with it. */
static void refuse_askers(struct server *s, const char *words)
{
	static const enum client_state waiting[] = { CLIENT_WAITING_LOGIN, CLIENT_WAITING };

	for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++) {
		LIST_EACH_SAFE(node, &s->policy.pool->clients[waiting[i]]) {
			struct client *c = client_of(LIST_OBJECT(node, struct pool_client, node));

			if (c->policy.startup == s->policy.startup)
				client_end(c, GOODBYE_SERVER_SAID, words);
		}
	}
	server_end(s, GOODBYE_STARTUP_VALUE, words);
}

static void refused_by_server(struct server *s, const struct pg_frame *f)
{
	struct pg_error e;
	char who[256];

	if (pg_error_read(f->body, f->size, &e) != PG_OK) {
		broken(s, "malformed ErrorResponse");
		return;
	}
	log_warning("%s server login failed: %s %s", server_text(s, who, sizeof(who)), *e.severity ? e.severity : "ERROR", e.message);
	s->dial->away = text_starts(e.sqlstate, "57P0") || strcmp(e.sqlstate, "53300") == 0;
	if (minds_parameters(s, &e))
		refuse_askers(s, e.message);
	else
		server_end(s, GOODBYE_SERVER_SAID, *e.message ? e.message : "server login failed");
}

/* What this login has taught about sessions of this pool. */
static bool learn(struct server *s)
{
	struct world *w = s->peer.world;
	struct pool_lore *lore = pool_lore_get(s->policy.pool, w);

	if (!lore || s->dial->welcome.failed)
		return false;
	for (int i = 0; i < params_count(w->params); i++) {
		const struct params *set;

		if (params_get(s->policy.startup, i))
			continue;
		set = params_with(w->params, lore->defaults, i, params_get(s->params, i));
		if (!set)
			return false;
		params_drop(w->params, &lore->defaults);
		lore->defaults = set;
		lore->known |= (uint64_t)1 << i;
	}
	bytes_free(&lore->welcome);
	lore->welcome = s->dial->welcome;
	s->dial->welcome = (struct bytes)BYTES_EMPTY;
	lore->welcomed = true;
	mem_free(lore->login_error);
	lore->login_error = NULL;
	return true;
}

/* Parameters of the start-up message that the server did not report have their values all the same. */
static bool assume_unreported(struct server *s)
{
	struct world *w = s->peer.world;
	const struct params *set = params_overlay(w->params, s->policy.startup, s->params);

	if (!set)
		return false;
	params_drop(w->params, &s->params);
	s->params = set;
	return true;
}

static void logged_in(struct server *s)
{
	struct world *w = s->peer.world;
	struct pool *pool = s->policy.pool;
	const char *query = pool->database->conf->connect_query;
	/* what is to be closed at once may come from where the pool's servers came from before a RELOAD */
	bool is_current = s->policy.close_reason == GOODBYE_NONE;
	bool learned = (!is_current || learn(s)) && assume_unreported(s);

	if (learned && s->dial->host[0] && s->peer.remote.family != AF_UNIX)
		s->host = mem_copy_string(s->dial->host);
	dial_free(s);
	if (!learned) {
		server_end(s, GOODBYE_NO_MEMORY, NULL);
		return;
	}
	s->policy.opened = w->now;
	pool_login_succeeded(pool);
	pool_mark(pool);
	LIST_EACH(node, &pool->clients[CLIENT_WAITING_LOGIN]) {
		struct client *c = client_of(LIST_OBJECT(node, struct pool_client, node));

		peer_come_again(&c->peer);
	}
	if (query && *query) {
		pool_server_become(&s->policy, SERVER_TESTED, w->now);
		server_run(s, TASK_CONNECT_QUERY, query);
		return;
	}
	server_settle(s);
}

static void ready(struct server *s, const struct pg_frame *f)
{
	if (!s->dial->proven || f->size != 1 || f->body[0] != 'I') {
		broken(s, "ReadyForQuery out of order");
		return;
	}
	s->status = 'I';
	logged_in(s);
}

static void frame(struct server *s, const struct pg_frame *f)
{
	char detail[64];

	switch (f->type) {
	case 'R':
		authentication(s, f);
		return;
	case 'S':
		parameter(s, f);
		return;
	case 'K':
		backend_key(s, f);
		return;
	case 'E':
		refused_by_server(s, f);
		return;
	case 'Z':
		ready(s, f);
		return;
	case 'N':		/* a notice at login is nobody's */
	case 'v':		/* asked for 3.0 without options: nothing to negotiate */
		return;
	default:
		snprintf(detail, sizeof(detail), "unexpected message type 0x%02x", f->type);
		broken(s, detail);
	}
}

void server_login_read(struct server *s, bool from_socket)
{
	struct world *w = s->peer.world;
	size_t n = bytes_size(&s->peer.held), at = 0;
	ssize_t r = 0;

	if (n > 0)
		memcpy(w->buffer, bytes_front(&s->peer.held), n);
	bytes_wipe(&s->peer.held);
	if (from_socket) {
		r = stream_read(&s->peer.stream, w->buffer + n, RELAY_BUFFER - n);
		if (r < 0) {
			server_end(s, GOODBYE_SERVER_CRASHED, NULL);
			return;
		}
	}
	n += (size_t)r;
	while (at < n && s->policy.state == SERVER_LOGIN) {
		struct pg_frame f;
		enum pg_verdict verdict = pg_frame_look(w->buffer + at, n - at, WHOLE_MOST, &f);

		if (verdict == PG_BAD) {
			broken(s, "malformed message");
			return;
		}
		if (verdict == PG_MORE || !pg_frame_is_whole(&f))
			break;
		at += PG_HEADER + f.size;
		frame(s, &f);
	}
	if (s->policy.state == SERVER_DEAD)
		return;
	bytes_append(&s->peer.held, w->buffer + at, n - at);
	if (s->peer.held.failed) {
		server_end(s, GOODBYE_NO_MEMORY, NULL);
		return;
	}
	if (stream_has_buffered(&s->peer.stream))
		peer_come_again(&s->peer);
	if (n > at && s->policy.state != SERVER_LOGIN)
		server_readable(s, false);
}
