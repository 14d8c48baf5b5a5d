/*
 * The login of a client: start-up packets (startup_packet.c), TLS (handshake.c), authentication
 * (room auth), the pool that the client joins, and the welcome.
 *
 * In the order of time, with the steps of tbl/login_step.tbl:
 *
 * 1. client_open() (core/dispatch.c) accepts the connection: PACKET, or HEADER if a load balancer
 *    names its clients (proxy.c), and then PACKET. login_read() reads each
 *    packet completely, and at most STARTUP_MOST or PASSWORD_MOST bytes, because the client is not
 *    authenticated; the first unexpected byte ends the connection.
 * 2. After an SSLRequest the handshake waits for its turn (TLS_HELLO, TLS_TURN, TLS), and the login
 *    is in PACKET again.
 * 3. The StartupMessage names user and database. auth_begin() (auth/auth.c) chooses the method. It
 *    may wait for auth_query (LOOKUP), for the client's proof (PASSWORD, SASL_FIRST, SASL_FINAL),
 *    and for processes that check it (VERIFY, DERIVE).
 * 4. A wrong proof ends in REFUSED: the error is sent after a delay (auth/refusal.c).
 * 5. After a right proof login_proven() checks database, drains and limits: PROVEN. The client
 *    joins its pool.
 * 6. login_welcome() sends AuthenticationOk, ParameterStatus..., BackendKeyData and ReadyForQuery
 *    with one call, and the client is IDLE. The parameters have the values of a real session of the
 *    pool. While these are unknown, the client waits (WAITING_LOGIN) and the pool opens a server;
 *    after the login of that server the welcome follows.
 *
 * What may be trusted: before 5 nothing that the client has sent. It cannot find out either whether
 * a user or a database exists: an unknown one takes the same steps and the same time.
 *
 * Some clients get a server before their welcome: for replication, and in session mode with
 * session_link = login. Such a client is authenticated first. Then it waits in the queue of its
 * pool as with a query, so all limits apply. When a server is lent to it, different parameters are
 * set there, and the welcome contains the parameters that this server has reported. With
 * session_link = login its BackendKeyData has the process id of the server, which serves no other
 * client until this one leaves; the secret of the key is pgweir's own.
 *
 * Replication ("Streaming Replication Protocol"), logical (replication=database) or physical
 * (replication=true): the server process is a walsender. It accepts replication commands as simple
 * queries; SQL only if it is logical; and SET, which would be needed to reuse the session for
 * another client, not in every version. Therefore nothing is shared: for each such client a server
 * is opened (pool_server.dedicated), with its own start-up parameters, and both end together in
 * every pool_mode. If the server refuses the login, only this client gets the error.
 *
 * Invariant: a client with a server has a struct login only until its parameters are set.
 */
#include "login/login.h"

#include "auth/auth.h"
#include "auth/client_address.h"
#include "auth/unknown.h"
#include "backend/proven_secret.h"
#include "backend/server_info.h"
#include "backend/welcome.h"
#include "base/assert.h"
#include "base/inline.h"
#include "cancel/cancel.h"
#include "login/handshake.h"
#include "login/proxy.h"
#include "login/startup_packet.h"
#include "net/tls.h"
#include "pg/build.h"
#include "pool/drain.h"
#include "pool/role.h"
#include "pg/message.h"
#include "pg/startup.h"
#include "pool/rows.h"

#include <stdio.h>
#include <string.h>

#define PASSWORD_MOST 65535		/* PostgreSQL's PG_MAX_AUTH_TOKEN_LENGTH */

bool login_begin(struct client *c)
{
	c->login = mem_try(sizeof(*c->login));
	if (c->login) {
		c->login->arena = arena_new(false);
		c->login->client = c;
		list_init(&c->login->address_node);
		list_init(&c->login->waited_for_node);
		list_init(&c->login->wait.node);
		lookup_asker_init(&c->login->wait.asker);
		list_init(&c->login->refusal_node);
		derivation_wait_init(&c->login->derivation, &c->peer);
		verify_place_init(&c->login->handshake);
	}
	return c->login && c->login->arena;
}

void login_free(struct client *c)
{
	struct login *l = c->login;

	if (!l)
		return;
	client_address_login_over(c);
	verify_queue_remove(&c->peer.world->logins.handshakes->waiting, &l->handshake);
	bytes_free(&l->hello);
	if (l->tls)
		tls_context_drop(&l->tls);
	verifiers_cancel(c->peer.world->logins.verifiers, &l->check);
	derivation_leave(&l->derivation);
	secret_free(&l->password);
	c->login = NULL;
	lookup_leave(&l->wait);
	if (l->question == QUESTION_SCRAM)
		scram_verifier_clear(&l->scram);
	if (l->asked)
		params_drop(c->peer.world->params, &l->asked);
	secret_free(&l->stored_copy);
	secret_free(&l->old);
	hba_drop(&l->hba);
	if (l->arena)
		arena_free(&l->arena);
	bytes_free(&l->kept);
	bytes_wipe(&l->out);
	mem_wipe(l, sizeof(*l));
	mem_free(l);
}

/* ---- reading ---- */

/* Handles a message of the password exchange at the front of n bytes. Returns its size, or 0. */
static size_t password_packet(struct client *c, const uint8_t *at, size_t n)
{
	struct pg_frame f;
	char type[8];

	/* the type is checked before the message is complete */
	switch (pg_frame_look(at, n, PASSWORD_MOST, &f)) {
	case PG_MORE:
		return 0;
	case PG_BAD:
		if (at[0] == PGC_PASSWORD && pg_u32_at(at + 1) > PASSWORD_MOST)
			/* longer than any password */
			refusal_begin(c, REASON_PASSWORD_FAILED);
		else
			client_end_bad_header(c, at, n);
		return 0;
	case PG_OK:
		break;
	}
	if (f.type == PGC_TERMINATE) {
		client_end(c, REASON_CLIENT_CLOSE, NULL);
		return 0;
	}
	if (f.type != PGC_PASSWORD) {
		snprintf(type, sizeof(type), "0x%02x", f.type);
		client_end(c, REASON_BAD_LOGIN_PACKET, type);
		return 0;
	}
	if (!pg_frame_is_whole(&f))
		return 0;
	auth_message(c, f.body, f.size);
	return PG_HEADER + f.size;
}

/* Whether the client is in one of the states of this file. */
static bool is_ours(const struct client *c)
{
	return c->pooled.state == CLIENT_STARTUP || c->pooled.state == CLIENT_AUTH ||
	       c->pooled.state == CLIENT_LOOKUP || c->pooled.state == CLIENT_WAITING_LOGIN;
}

/* Limits the memory for an unauthenticated client. */
static size_t room_for(const struct client *c)
{
	size_t most = c->login->step == LOGIN_PACKET || c->login->step == LOGIN_HEADER
			      ? STARTUP_MOST : PASSWORD_MOST + 1,
	       held = bytes_size(&c->peer.held);

	return held < most ? most - held : 0;
}

/* Reads from the socket as far as there is room, and appends to the client's input. False: the
   client ends. */
static bool receive(struct client *c, bool from_socket)
{
	uint8_t *buffer = c->peer.world->buffer;
	bool has_memory;
	ssize_t r = 0;

	if (from_socket && room_for(c) == 0)
		flow_block(&c->peer, FLOW_HELD);
	else if (from_socket)
		r = stream_read(&c->peer.stream, buffer, room_for(c));
	if (r < 0) {
		client_end(c, refusal_or(c, REASON_CLIENT_EOF), NULL);
		return false;
	}
	has_memory = peer_hold_more(&c->peer, buffer, (size_t)r);
	/* it may contain a password */
	mem_wipe(buffer, (size_t)r);
	if (!has_memory) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return false;
	}
	return true;
}

/* Handles the complete packets. They are read from the client's input, because the loop's buffer
   may be used meanwhile. */
static void take_packets(struct client *c)
{
	struct bytes *held = &c->peer.held;
	size_t n, at = 0, took;
	uint8_t *mine;

	if (c->login->step == LOGIN_REFUSED)
		bytes_wipe(held);
	n = bytes_size(held);
	mine = n > 0 ? held->data + held->start : NULL;
	for (took = 1; at < n && took > 0 && is_ours(c); at += took) {
		enum login_step step = c->login->step;

		if (step == LOGIN_HEADER)
			took = proxy_take(c, mine + at, n - at);
		else if (step == LOGIN_PACKET)
			took = startup_packet(c, mine + at, n - at);
		else if (step == LOGIN_PASSWORD || step == LOGIN_SASL_FIRST ||
			 step == LOGIN_SASL_FINAL)
			took = password_packet(c, mine + at, n - at);
		else
			took = 0;
	}
	if (at > 0)
		mem_wipe(mine, at);
	bytes_consume(held, at);
}

void login_read(struct client *c, bool from_socket)
{
	struct login *l = c->login;

	/* no more input is read in clear text */
	if (l->step == LOGIN_TLS_HELLO && from_socket)
		handshake_want(c, NULL, 0);
	if (l->step == LOGIN_TLS_HELLO || l->step == LOGIN_TLS_TURN || l->step == LOGIN_TLS)
		return;
	if (c->pooled.state == CLIENT_LOOKUP && lookup_continue(c)) {
		auth_looked_up(c);
		/* a trusted client may be authenticated already and have no struct login */
		if (!is_ours(c))
			return;
	}
	if (!receive(c, from_socket))
		return;
	take_packets(c);
	if (c->pooled.state == CLIENT_WAITING_LOGIN)
		login_welcome(c);
	else if (!is_ours(c) && bytes_size(&c->peer.held) > 0)
		peer_come_again(&c->peer);
	else if (!is_ours(c))
		peer_wipe_held(&c->peer);		/* an idle client has no buffer */
	/* Continues to read when there is room, for the rest of early input or the end of the
	   client. Without room no wake-up is requested: bytes that TLS has buffered would wake the
	   client in each turn. */
	if (!is_ours(c) || room_for(c) == 0 || c->login->step == LOGIN_TLS_TURN)
		return;
	if (c->peer.blocked & FLOW_HELD)
		flow_unblock(&c->peer, FLOW_HELD);
	else if (stream_has_buffered(&c->peer.stream))
		peer_come_again(&c->peer);
}

/* ---- the welcome ---- */

/* Appends the untracked parameters that a server reports, with the client's values for the
   parameters that it asked for. */
static void append_untracked(struct client *c, const struct bytes *untracked)
{
	struct bytes *out = &c->login->out;
	struct pg_frames in = pg_frames_of(untracked);
	struct pg_frame f;

	if (params_others(c->params) == 0 && !client_standby(c)) {
		bytes_append(out, bytes_front(untracked), bytes_size(untracked));
		return;
	}
	while (pg_frames_next(&in, PG_LENGTH_LIMIT, &f) == PG_OK) {
		struct pg_cursor body = pg_cursor_of(f.body, f.size);
		const char *name = pg_read_string(&body), *value = pg_read_string(&body);
		const char *mine = body.bad ? NULL : params_other_value(c->params, name);
		const char *standby = body.bad || strcmp(name, STANDBY_PARAMETER) != 0
					      ? NULL
					      : client_standby(c);
		const char *spelled = NULL;

		/* a server reports booleans as on and off */
		if (mine && (strcmp(value, "on") == 0 || strcmp(value, "off") == 0))
			spelled = pg_boolean_spelled(mine);
		if (standby)
			pg_build_parameter_status(out, name, standby);
		else if (mine)
			pg_build_parameter_status(out, name, spelled ? spelled : mine);
		else
			bytes_append(out, f.body - PG_HEADER, PG_HEADER + f.size);
	}
}

/* Sends the welcome, login->out, and ends the login. False: the client has ended. */
static bool login_finish(struct client *c)
{
	struct world *w = c->peer.world;

	if (!c->pooled.link)
		pool_client_become(w->pools, &c->pooled, CLIENT_IDLE, w->now);
	/* a standby may have welcomed it: see pool_for_client() */
	pool_client_seek(&c->pooled, false);
	login_step_took(c);
	c->pooled.pool->database->stats.total.client_login_count++;
	if (!c->pooled.pool->database->is_console)
		latency_add(c->pooled.pool, LATENCY_LOGIN, w->now - c->login_facts.since);
	if (!client_send(c, &c->login->out))
		return false;
	login_free(c);
	client_prepare_request(c);
	if (peer_is_stopped(&c->peer))
		return false;
	flow_unblock(&c->peer, FLOW_HELD);
	/* the client may have sent input before its welcome */
	if (bytes_size(&c->peer.held) > 0 || stream_has_buffered(&c->peer.stream))
		peer_come_again(&c->peer);
	return true;
}

/* The welcome says whether the transactions of the session are read-only. */
static void note_reading(struct client *c)
{
	struct pg_frames in = pg_frames_of(&c->login->out);
	struct pg_frame f;

	while (pg_frames_next(&in, PG_LENGTH_LIMIT, &f) == PG_OK) {
		struct pg_cursor body = pg_cursor_of(f.body, f.size);

		if (f.type == PGS_PARAMETER &&
		    strcmp(pg_read_string(&body), "default_transaction_read_only") == 0)
			client_set_reading(c, pg_read_string(&body));
	}
}

/* Sends the complete welcome: the client's parameters (client->params), the untracked ones (as
   ParameterStatus messages), the cancel key and ReadyForQuery. `pid` is the process id in the key;
   0: a random one. The client may end. */
static bool welcome(struct client *c, const struct bytes *untracked, uint32_t pid)
{
	struct world *w = c->peer.world;
	struct bytes *out = &c->login->out;
	const char *notice = w->conf->settings.login_notify_message;

	if (!c->params || !cancel_make_key(c, pid)) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return false;
	}
	pg_build_auth(out, 0, NULL, 0);
	for (int i = 0; i < params_count(w->params); i++)
		if (params_get(c->params, i))
			pg_build_parameter_status(out, params_name(w->params, i),
						  params_get(c->params, i));
	if (bytes_size(untracked) > 0)
		append_untracked(c, untracked);
	if (c->pooled.reads != READS_OFF)
		note_reading(c);
	pg_build_key(out, 'K', c->cancel_key.pid, c->cancel_key.secret, c->cancel_key.size);
	if (notice && *notice)
		pg_build_report(out, 'N', "NOTICE", "00000", notice, NULL, NULL);
	pg_build(out, 'Z', "I", 1);
	client_note_activity(c, w->now);
	if (!login_finish(c))
		return false;
	if (w->pools->suspended)
		flow_block(&c->peer, FLOW_SUSPENDED);
	return true;
}

/* Returns the parameters that the client asked for, merged over these defaults, with a reference.
   DateStyle has two parts: if the client sets only one, the other part comes from the defaults, not
   from the server's previous client. NULL: no memory. */
static const struct params *merged_params(const struct client *c, const struct params *defaults)
{
	struct params_table *table = c->peer.world->params;
	const struct params *set = params_overlay(table, defaults, c->login->asked), *whole;
	const char *before = params_get(defaults, PARAM_DATESTYLE),
		   *asked = params_get(c->login->asked, PARAM_DATESTYLE);
	char full[PG_DATESTYLE_MOST];

	if (!set || !before || !asked || !pg_datestyle_over(before, asked, full))
		return set;
	whole = params_with(table, set, PARAM_DATESTYLE, full);
	params_drop(table, &set);
	return whole;
}

void login_welcome(struct client *c)
{
	struct params_table *table = c->peer.world->params;
	struct pool *pool = c->pooled.pool;
	struct server_info *info = server_info_get(pool, table);
	bool is_known;

	if (!info) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
	/* the values of all parameters that the client did not ask for */
	is_known = info->reported.welcome != NULL;
	for (int i = 0; i < params_count(table); i++)
		is_known = is_known && (info->reported.known & (uint64_t)1 << i ||
					params_get(c->login->asked, i));
	if (!is_known) {
		pool_mark(pool);
		return;
	}
	c->params = merged_params(c, info->reported.defaults);
	welcome(c, welcome_messages(info->reported.welcome), 0);
}

/* ---- clients that get a server before their welcome ---- */

static void login_queue(struct client *c)
{
	c->pooled.is_login = true;
	pool_client_become(c->peer.world->pools, &c->pooled, CLIENT_WAITING, c->peer.world->now);
}

void login_link_again(struct client *c)
{
	params_drop(c->peer.world->params, &c->params);
	login_queue(c);
}

bool login_link_begin(struct server *s, struct client *c)
{
	ASSERT(c->login && !c->params && c->pooled.dedicated == s->pooled.dedicated);
	/* the session of another client may have left parameters that differ from those at
	   start-up */
	c->params = c->login_facts.replication ? params_hold(s->params)
					       : merged_params(c, s->first_params);
	if (c->params)
		return true;
	client_end(c, REASON_NO_MEMORY, NULL);
	return false;
}

bool login_link_welcome(struct server *s, struct client *c)
{
	bool is_own = !c->login_facts.replication && !c->link_facts.shares_server;

	c->pooled.is_login = false;
	return welcome(c, welcome_messages(s->welcome), is_own ? s->backend_pid : 0);
}

/* ---- the pool ---- */

/* Keeps the secret for logins at servers of the pool, if its user is the client's user: the secret
   that auth_query has found, or the password that PAM or LDAP has accepted; otherwise the stored
   secret is used. */
static void keep_proven(struct client *c, struct pool *pool)
{
	struct login *l = c->login;
	unsigned needs = auth_methods[l->method].needs;
	bool is_own = !pool->database->is_console && !pool->database->conf->user &&
		      strcmp(pool->user->name, l->user) == 0;

	if (l->sought == USER_FOUND && strcmp(pool->user->name, l->user) == 0)
		proven_secret_keep(pool, c->peer.world, l->stored, l->answer);
	if (needs & AUTH_NEEDS_VERIFIER && is_own)
		shown_keep(pool, c->peer.world, l->password);
	if (needs & AUTH_NEEDS_SECRET) {
		shown_keep(pool, c->peer.world, NULL);
		if (l->sought == USER_FOUND)
			unknown_user_proven(c->peer.world, l->source, l->user, l->stored);
	}
	secret_free(&l->password);
}

/* The client may not join the pool. */
static NEVER_INLINE void login_refuse(struct client *c, enum close_reason why,
				      const struct pool *pool, const struct user *user)
{
	char holding[HOLDING_TEXT];

	pool_holding_text(pool, user,
			  why == REASON_MAX_USER_CLIENTS ? HOLDING_USER_CLIENTS
							 : HOLDING_DATABASE_CLIENTS,
			  holding);
	client_end(c, why, holding);
}

void login_proven(struct client *c)
{
	struct world *w = c->peer.world;
	struct login *l = c->login;
	struct database *database;
	struct user *user = user_get(w->pools, l->user);
	const struct drain *drain;
	struct pool *pool;
	enum close_reason why;
	char text[DRAIN_TEXT];

	login_step_to(c, LOGIN_PROVEN);
	client_address_login_over(c);
	database = database_get(w->pools, l->database, true, w->now);
	if (!database || database->removed) {
		client_end(c, REASON_NO_DATABASE, l->database);
		return;
	}
	if (database->disabled) {
		client_end(c, REASON_DATABASE_DISABLED, l->database);
		return;
	}
	drain = drain_due(w->pools, database, l->user, NULL, 0, INT64_MAX);
	if (drain) {
		client_end(c, REASON_DRAINED, drain_text(drain, text, sizeof(text)));
		return;
	}
	pool = user ? pool_get(database, user, false, w->now) : NULL;
	if (!pool) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
	why = pool_may_join(pool, user, c->console.is_admin);
	if (why != REASON_NONE) {
		login_refuse(c, why, pool, user);
		return;
	}
	if (l->replication && !database->is_console) {
		c->login_facts.replication = l->replication;
		if (++w->pools->last_dedicated == 0)
			w->pools->last_dedicated = 1;
		c->pooled.dedicated = w->pools->last_dedicated;
	}
	/* The start-up parameters of the client's servers. In session mode these are the parameters
	   that the client asked for, so that RESET restores them. application_name is omitted,
	   otherwise each program would need separate servers. */
	if (c->login_facts.replication)
		c->pooled.startup = params_hold(l->asked);
	else if (pool->allowed.mode != MODE_SESSION)
		c->pooled.startup = params_none(w->params);
	else
		c->pooled.startup = params_with(w->params, l->asked, PARAM_APPLICATION_NAME, NULL);
	if (!c->pooled.startup) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
	pool_client_join(&c->pooled, pool, user);
	keep_proven(c, pool);
	if (!database->is_console &&
	    (!pool_client_set_target(&c->pooled, w->now) ||
	     !pool_client_route(&c->pooled, w->now))) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
	if (database->is_console) {
		if (!cancel_make_key(c, 0)) {
			client_end(c, REASON_NO_MEMORY, NULL);
			return;
		}
		pg_build_auth(&l->out, 0, NULL, 0);
		c->console.is_connected = true;
		c->params = params_hold(l->asked);
		if (login_finish(c))
			w->console.ops->welcome(w->console.context, c);
		return;
	}
	pool_client_become(w->pools, &c->pooled, CLIENT_WAITING_LOGIN, w->now);
	if (c->login_facts.replication ||
	    (pool->allowed.mode == MODE_SESSION && pool->allowed.link == LINK_LOGIN))
		login_queue(c);
	else
		login_welcome(c);
}

/* ---- the handover ---- */

void login_pack(struct bytes *out, const struct client *c)
{
	pack_i64(out, c->login_facts.since);
	pack_bool(out, c->login->ssl_asked);
	pack_bool(out, c->login->gss_asked);
}

void login_unpack(struct unpack *in, struct client *c)
{
	c->pooled.since = unpack_i64(in);
	client_login_begins(c, c->pooled.since);
	client_note_activity(c, c->pooled.since);
	in->bad |= !login_begin(c);
	if (in->bad)
		return;
	c->login->ssl_asked = unpack_bool(in);
	c->login->gss_asked = unpack_bool(in);
}
