/*
 * A client's login: start-up packets, TLS, who it is (auth.c), which pool it joins, and the welcome.
 *
 * Before it has proven who it is a client is a stranger: everything it may send is small (STARTUP_MOST,
 * PASSWORD_MOST), is read as a whole, and is refused at the first byte that is out of order. Whether a user or a database
 * exists is not told before the proof: an unknown one takes the same steps and the same time.
 *
 * TLS begins after an SSLRequest, or with the first byte of the connection, as PostgreSQL has it since version 17; by ALPN the
 * two sides then agree that they mean PostgreSQL.
 *
 * The welcome (AuthenticationOk, ParameterStatus..., BackendKeyData, ReadyForQuery) is one send. The parameter
 * values are those of a real session of the pool; while they are not known the client waits (WAITING_LOGIN) and
 * the pool opens a server.
 */
#include "session/login.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/text.h"
#include "pg/build.h"
#include "pg/startup.h"
#include "session/auth.h"
#include "session/cancel.h"
#include "session/dial.h"
#include "session/found.h"
#include "session/relay.h"
#include "session/replication.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TLS_HANDSHAKE 0x16		/* first byte of a TLS record that begins a handshake; as a length it would be far too much */
#define STARTUP_MOST 10000		/* PostgreSQL's MAX_STARTUP_PACKET_LENGTH */
#define PASSWORD_MOST 65535		/* PostgreSQL's PG_MAX_AUTH_TOKEN_LENGTH */
#define NAME_MOST 1024			/* longest user or database name that is looked up at all */

bool login_begin(struct client *c)
{
	c->login = mem_try(sizeof(*c->login));
	if (c->login) {
		c->login->arena = arena_new();
		list_init(&c->login->wait.node);
	}
	return c->login && c->login->arena;
}

void login_free(struct client *c)
{
	struct login *l = c->login;

	if (!l)
		return;
	auth_verify_forget(c);
	c->login = NULL;
	lookup_leave(&l->wait);
	if (l->scram_begun)
		scram_verifier_clear(&l->scram);
	if (l->asked)
		params_drop(c->peer.world->params, &l->asked);
	secret_free(&l->stored_copy);
	hba_drop(&l->hba);
	if (l->arena)
		arena_free(&l->arena);
	bytes_free(&l->kept);
	bytes_free(&l->untracked);
	bytes_wipe(&l->out);
	mem_wipe(l, sizeof(*l));
	mem_free(l);
}

/* ---- the start-up packet ---- */

/* Takes a parameter that is to follow the client. False: refused. */
static bool ask(struct client *c, const char *name, const char *value, enum goodbye otherwise)
{
	struct world *w = c->peer.world;
	int index = params_index(w->params, name);
	const struct params *set;

	if (text_list_has(w->conf->settings.ignore_startup_parameters, name, true))
		return true;
	if (index < 0 && c->login->replication)
		return replication_keep(c, name, value);
	if (index < 0) {
		client_end(c, otherwise, name);
		return false;
	}
	set = params_with(w->params, c->login->asked, index, value);
	if (!set) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return false;
	}
	params_drop(w->params, &c->login->asked);
	c->login->asked = set;
	return true;
}

static bool ask_options(struct client *c, const char *text)
{
	char name[128], value[1024];

	if (text_list_has(c->peer.world->conf->settings.ignore_startup_parameters, "options", true))
		return true;
	for (;;) {
		switch (pg_options_next(&text, name, sizeof(name), value, sizeof(value))) {
		case PG_MORE:
			return true;
		case PG_BAD:
			client_end(c, GOODBYE_STARTUP_OPTIONS_FORM, NULL);
			return false;
		case PG_OK:
			if (!ask(c, name, value, GOODBYE_STARTUP_OPTION))
				return false;
		}
	}
}

static bool ask_application_name(struct client *c, const char *value)
{
	char with_host[1024], where[80];

	if (!c->peer.world->conf->settings.application_name_add_host)
		return ask(c, "application_name", value, GOODBYE_STARTUP_PARAMETER);
	snprintf(with_host, sizeof(with_host), "%.512s - %s", value, brief_address_and_port(&c->peer.remote, where, sizeof(where)));
	return ask(c, "application_name", with_host, GOODBYE_STARTUP_PARAMETER);
}

static bool keep_name(struct client *c, char **place, const char *value)
{
	if (strlen(value) > NAME_MOST) {
		client_end(c, GOODBYE_STARTUP_VALUE, place == &c->login->user ? "user" : "database");
		return false;
	}
	*place = arena_copy(c->login->arena, value, strlen(value));
	if (*place)
		return true;
	client_end(c, GOODBYE_NO_MEMORY, NULL);
	return false;
}

static bool take_pair(struct client *c, const char *name, const char *value)
{
	if (strcmp(name, "user") == 0)
		return keep_name(c, &c->login->user, value);
	if (strcmp(name, "database") == 0)
		return keep_name(c, &c->login->database, value);
	if (strcmp(name, "options") == 0)
		return c->login->replication ? replication_keep(c, name, value) : ask_options(c, value);
	if (strcmp(name, "application_name") == 0)
		return ask_application_name(c, value);
	if (strcmp(name, "replication") == 0)
		return true;		/* replication_ask has seen it */
	return ask(c, name, value, GOODBYE_STARTUP_PARAMETER);
}

static bool is_protocol_option(const char *name)
{
	return text_starts(name, "_pq_.");
}

/* A minor version that is not served, and options of the protocol, of which none is known, are answered by what is served
   (NegotiateProtocolVersion). All `count` options have to be named: one that is not would pass for known. False: no memory. */
static bool negotiate(struct client *c, const struct pg_startup *packet, size_t count)
{
	const char **unknown, *name, *value;
	size_t at = 0, named = 0;

	if (packet->minor == c->minor && count == 0)
		return true;
	unknown = arena_take(c->login->arena, (count + 1) * sizeof(*unknown));
	if (!unknown)
		return false;
	while (named < count && pg_startup_pair(packet, &at, &name, &value))
		if (is_protocol_option(name))
			unknown[named++] = name;
	pg_build_negotiate(&c->login->out, 3 << 16 | c->minor, unknown, named);
	return true;
}

/* Whether there is room for one more; administrators always find the console open. */
static bool may_come_in(struct client *c, const struct database *database)
{
	if (pools_may_accept(c->peer.world->pools) || (database && database->is_console))
		return true;
	client_end(c, GOODBYE_MAX_CLIENT_CONN, NULL);
	return false;
}

static void log_attempt(const struct client *c)
{
	char who[256], tls[96], more[48] = "";

	if (!c->peer.world->conf->settings.log_connections)
		return;
	/* what used to be the only way is not said, so that those who read logs find the line they know */
	if (c->minor > 0)
		snprintf(more, sizeof(more), " protocol=3.%u", c->minor);
	if (c->login->direct)
		snprintf(more + strlen(more), sizeof(more) - strlen(more), " sslnegotiation=direct");
	log_info("%s login attempt: db=%s user=%s tls=%s replication=%s%s", client_text(c, who, sizeof(who)), c->login->database,
		 c->login->user, c->peer.stream.ssl ? stream_tls_text(&c->peer.stream, tls, sizeof(tls)) : "no",
		 replication_word(c->login->replication), more);
}

/* While clients are waited for, one that had connected before is one of them. */
static bool comes_too_late(const struct client *c)
{
	const struct world *w = c->peer.world;

	return w->drain != DRAIN_OFF && !(w->drain == DRAIN_WAIT_CLIENTS && client_is_in_time(c));
}

static void session_packet(struct client *c, const struct pg_startup *packet)
{
	struct login *l = c->login;
	struct world *w = c->peer.world;
	const struct database *known;
	const char *name, *value;
	size_t at = 0, options = 0;

	c->minor = (uint8_t)pg_minor_served(packet->minor);
	l->asked = params_none(w->params);
	if (!replication_ask(c, packet))
		return;
	while (pg_startup_pair(packet, &at, &name, &value)) {
		if (is_protocol_option(name))
			options++;
		else if (!take_pair(c, name, value))
			return;
	}
	if (!l->user || !*l->user) {
		client_end(c, GOODBYE_NO_USERNAME, NULL);
		return;
	}
	if (w->conf->settings.application_name_add_host && !params_get(l->asked, PARAM_APPLICATION_NAME) && !ask_application_name(c, "app"))
		return;
	if (!l->database || !*l->database)
		l->database = l->user;
	known = database_find(w->pools, l->database);
	if (comes_too_late(c) && !(known && known->is_console)) {
		client_end(c, GOODBYE_POOLER_SHUTTING_DOWN, NULL);
		return;
	}
	if (!may_come_in(c, known))
		return;
	log_attempt(c);
	if (negotiate(c, packet, options))
		auth_begin(c);
	else
		client_end(c, GOODBYE_NO_MEMORY, NULL);
}

static bool say_byte(struct client *c, char answer)
{
	if (stream_write_bytes(&c->peer.stream, &answer, 1))
		return true;
	client_end(c, GOODBYE_CLIENT_EOF, NULL);
	return false;
}

static bool offers_tls(const struct client *c)
{
	return c->peer.world->client_tls && c->peer.remote.family != AF_UNIX;
}

/* The first byte is TLS's: the handshake begins with the n bytes that are here. What else they are is TLS's to say. */
static size_t begin_direct(struct client *c, const uint8_t *at, size_t n)
{
	if (!offers_tls(c)) {
		client_end(c, GOODBYE_TLS_HANDSHAKE, "direct TLS, which is not offered here");
		return 0;
	}
	c->login->direct = true;
	c->login->step = LOGIN_TLS;
	if (!stream_secure_accept_begun(&c->peer.stream, c->peer.world->client_tls, at, n)) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return 0;
	}
	return n;
}

/* SSLRequest: TLS begins, or another start-up packet may follow in the clear. */
static void ssl_packet(struct client *c, bool more_has_come)
{
	struct world *w = c->peer.world;
	bool tls = offers_tls(c);

	if (more_has_come) {
		client_end(c, GOODBYE_CLEAR_AFTER_SSL, NULL);
		return;
	}
	if (c->login->ssl_asked || c->peer.stream.ssl) {
		client_end(c, GOODBYE_BAD_LOGIN_PACKET, "SSLRequest");
		return;
	}
	c->login->ssl_asked = true;
	if (!say_byte(c, tls ? 'S' : 'N') || !tls)
		return;
	c->login->step = LOGIN_TLS;
	if (!stream_secure_accept(&c->peer.stream, w->client_tls))
		client_end(c, GOODBYE_NO_MEMORY, NULL);
}

void login_secured(struct client *c, const char *error)
{
	if (error) {
		client_end(c, GOODBYE_TLS_HANDSHAKE, error);
		return;
	}
	c->login->step = LOGIN_PACKET;
	login_read(c, true);
}

/* One start-up packet from the front of n bytes; how many it took. 0: none, or the client is past this step or gone. */
static size_t startup_packet(struct client *c, const uint8_t *at, size_t n)
{
	int sslmode = c->peer.world->conf->settings.client_tls_sslmode;
	struct pg_startup packet;

	/* not behind a request of either kind, as if it could be changed that way */
	if (*at == TLS_HANDSHAKE && !c->peer.stream.ssl && !c->login->ssl_asked && !c->login->gss_asked)
		return begin_direct(c, at, n);
	switch (pg_startup_read(at, n, STARTUP_MOST, &packet)) {
	case PG_MORE:
		return 0;
	case PG_BAD:
		if (packet.fault == STARTUP_FAULT_LAYOUT)
			client_end(c, GOODBYE_BAD_STARTUP, NULL);
		else
			client_end_bad_header(c, at, n);
		return 0;
	case PG_OK:
		break;
	}
	switch (packet.kind) {
	case STARTUP_SSL:
		ssl_packet(c, n > packet.size);
		return packet.size;
	case STARTUP_GSS:
		if (c->login->gss_asked) {
			client_end(c, GOODBYE_BAD_LOGIN_PACKET, "GSSENCRequest");
			return 0;
		}
		c->login->gss_asked = true;
		return say_byte(c, 'N') ? packet.size : 0;
	case STARTUP_CANCEL:
		cancel_request(c, &packet);
		return 0;
	case STARTUP_VERSION_2:
		client_end(c, GOODBYE_PROTOCOL_2, NULL);
		return 0;
	case STARTUP_UNKNOWN: {
		char version[24];

		snprintf(version, sizeof(version), "%u.%u", packet.major, packet.minor);
		client_end(c, GOODBYE_PROTOCOL_UNKNOWN, version);
		return 0;
	}
	case STARTUP_SESSION:
		break;
	}
	if (sslmode >= SSLMODE_REQUIRE && !c->peer.stream.ssl && c->peer.remote.family != AF_UNIX) {
		client_end(c, GOODBYE_SSL_REQUIRED, NULL);
		return 0;
	}
	session_packet(c, &packet);
	return packet.size;
}

/* ---- reading ---- */

/* A message of the password exchange from the front of n bytes; how many it took. */
static size_t password_packet(struct client *c, const uint8_t *at, size_t n)
{
	struct pg_frame f;
	char type[8];

	switch (pg_frame_look(at, n, PASSWORD_MOST, &f)) {
	case PG_MORE:
		return 0;
	case PG_BAD:
		client_end_bad_header(c, at, n);
		return 0;
	case PG_OK:
		break;
	}
	if (f.type == 'X') {
		client_end(c, GOODBYE_CLIENT_CLOSE, NULL);
		return 0;
	}
	if (f.type != 'p') {
		snprintf(type, sizeof(type), "0x%02x", f.type);
		client_end(c, GOODBYE_BAD_LOGIN_PACKET, type);
		return 0;
	}
	if (!pg_frame_is_whole(&f))
		return 0;
	auth_message(c, f.body, f.size);
	return PG_HEADER + f.size;
}

static size_t take(struct client *c, const uint8_t *at, size_t n)
{
	switch (c->login->step) {
	case LOGIN_PACKET:
		return startup_packet(c, at, n);
	case LOGIN_PASSWORD:
	case LOGIN_SASL_FIRST:
	case LOGIN_SASL_FINAL:
		return password_packet(c, at, n);
	case LOGIN_TLS:
	case LOGIN_LOOKUP:
	case LOGIN_VERIFY:
	case LOGIN_PROVEN:
		return 0;
	}
	return 0;
}

/* True while the client is one that this file looks after. */
static bool is_ours(const struct client *c)
{
	return c->policy.state == CLIENT_STARTUP || c->policy.state == CLIENT_AUTH || c->policy.state == CLIENT_LOOKUP ||
	       c->policy.state == CLIENT_WAITING_LOGIN;
}

/* Bounds what a stranger can make us keep. */
static size_t room_for(const struct client *c)
{
	size_t most = c->login->step == LOGIN_PACKET ? STARTUP_MOST : PASSWORD_MOST + 1, held = bytes_size(&c->peer.held);

	return held < most ? most - held : 0;
}

static void welcome_if_known(struct client *c);

void login_read(struct client *c, bool from_socket)
{
	struct world *w = c->peer.world;
	size_t n, at = 0, took;
	uint8_t *mine;
	ssize_t r = 0;

	if (c->policy.state == CLIENT_LOOKUP && lookup_is_over(c)) {
		auth_looked_up(c);
		if (c->policy.state == CLIENT_DEAD)
			return;
	}
	if (from_socket && room_for(c) == 0) {
		stream_set_reading(&c->peer.stream, false);
		from_socket = false;
	}
	if (from_socket)
		r = stream_read(&c->peer.stream, w->buffer, room_for(c));
	if (r < 0) {
		client_end(c, GOODBYE_CLIENT_EOF, NULL);
		return;
	}
	bytes_append(&c->peer.held, w->buffer, (size_t)r);
	/* a password may be among them */
	mem_wipe(w->buffer, (size_t)r);
	if (c->peer.held.failed) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return;
	}
	/* the packets are looked at in a buffer of their own: what they start may use the loop's */
	n = bytes_size(&c->peer.held);
	mine = c->peer.held.data;
	if (n > 0)
		mine += c->peer.held.start;
	for (took = 1; at < n && took > 0 && is_ours(c); at += took)
		took = take(c, mine + at, n - at);
	if (c->policy.state == CLIENT_DEAD)
		return;
	if (at > 0)
		mem_wipe(mine, at);
	bytes_consume(&c->peer.held, at);
	if (c->policy.state == CLIENT_WAITING_LOGIN)
		welcome_if_known(c);
	else if (!is_ours(c) && bytes_size(&c->peer.held) > 0)
		client_readable(c, false);
	else if (!is_ours(c))
		bytes_free(&c->peer.held);		/* an idle client is a struct and nothing more */
	else if (stream_has_buffered(&c->peer.stream))
		peer_come_again(&c->peer);
}

/* ---- the pool and the welcome ---- */

/* In session mode a server is opened with what its client asked for, so that RESET gives that back; the
   application's name is left out, or each program would need servers of its own. */
static const struct params *startup_of(struct client *c, const struct pool *pool)
{
	struct world *w = c->peer.world;

	if (c->replication)
		return params_hold(c->login->asked);
	if (pool_mode_of(pool) != MODE_SESSION)
		return params_none(w->params);
	return params_with(w->params, c->login->asked, PARAM_APPLICATION_NAME, NULL);
}

void login_welcome(struct client *c, const struct bytes *untracked)
{
	struct world *w = c->peer.world;
	struct bytes *out = &c->login->out;
	const char *notice = w->conf->settings.login_notify_message;

	if (!c->params || untracked->failed || !cancel_make_key(c)) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return;
	}
	pg_build_auth(out, 0, NULL, 0);
	for (int i = 0; i < params_count(w->params); i++)
		if (params_get(c->params, i))
			pg_build_parameter_status(out, params_name(w->params, i), params_get(c->params, i));
	bytes_append(out, untracked->data + untracked->start, bytes_size(untracked));
	pg_build_backend_key(out, c->cancel_pid, c->cancel_key, c->cancel_key_size);
	if (notice && *notice)
		pg_build_notice(out, "NOTICE", "00000", notice, NULL);
	pg_build_ready(out, 'I');
	if (!c->policy.link)
		pool_client_become(w->pools, &c->policy, CLIENT_IDLE, w->now);
	c->last_active = w->now;
	c->policy.pool->database->stats.total.client_login_count++;
	if (!client_send(c, out))
		return;
	login_free(c);
	peer_read_on(&c->peer);
	/* what it has sent meanwhile */
	if (bytes_size(&c->peer.held) > 0 || stream_has_buffered(&c->peer.stream)) {
		peer_come_again(&c->peer);
	}
}

static void welcome_if_known(struct client *c)
{
	struct pool *pool = c->policy.pool;
	const struct pool_lore *lore = pool_lore_get(pool, c->peer.world);

	if (!lore) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return;
	}
	if (!pool_lore_covers(lore, c->peer.world->params, c->login->asked)) {
		pool_mark(pool);
		return;
	}
	c->params = params_overlay(c->peer.world->params, lore->defaults, c->login->asked);
	login_welcome(c, &lore->welcome);
}

static void enter_console(struct client *c)
{
	struct world *w = c->peer.world;

	if (!cancel_make_key(c)) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return;
	}
	pg_build_auth(&c->login->out, 0, NULL, 0);
	c->is_console = true;
	c->params = params_hold(c->login->asked);
	pool_client_become(w->pools, &c->policy, CLIENT_IDLE, w->now);
	if (!client_send(c, &c->login->out))
		return;
	login_free(c);
	w->console->welcome(w->console_context, c);
	if (c->policy.state != CLIENT_DEAD && bytes_size(&c->peer.held) > 0) {
		peer_come_again(&c->peer);
	}
}

void login_proven(struct client *c)
{
	struct world *w = c->peer.world;
	struct login *l = c->login;
	struct database *database;
	struct user *user = user_get(w->pools, l->user);
	struct pool *pool;
	enum goodbye why;

	l->step = LOGIN_PROVEN;
	database = database_get(w->pools, l->database, w->now);
	if (!database || database->removed) {
		client_end(c, GOODBYE_NO_DATABASE, l->database);
		return;
	}
	if (database->disabled) {
		client_end(c, GOODBYE_DATABASE_DISABLED, l->database);
		return;
	}
	pool = user ? pool_get(database, user, w->now) : NULL;
	if (!pool) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return;
	}
	why = database->is_console ? GOODBYE_NONE : pool_may_join(pool, user);
	if (why != GOODBYE_NONE) {
		client_end(c, why, NULL);
		return;
	}
	if (l->replication && !database->is_console)
		replication_mark(c);
	c->policy.startup = startup_of(c, pool);
	if (!c->policy.startup) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return;
	}
	pool_client_join(&c->policy, pool, user);
	if (l->found && strcmp(pool->user->name, l->user) == 0)
		found_keep(pool, w, l->stored);
	if (database->is_console) {
		enter_console(c);
		return;
	}
	pool_client_become(w->pools, &c->policy, CLIENT_WAITING_LOGIN, w->now);
	if (c->replication)
		replication_queue(c);
	else
		welcome_if_known(c);
}
