/*
 * The login at a server: StartupMessage, version of the protocol, authentication, parameters,
 * BackendKeyData, ReadyForQuery ("Start-up" in the documentation of the protocol). server_auth.c
 * answers the Authentication messages.
 *
 * A message of a server has at most WHOLE_MOST bytes here and is read as a whole. After a longer,
 * unexpected or misplaced message the server is refused with a precise reason. The text of an
 * ErrorResponse is passed on to the waiting clients.
 */
#include "backend/server_login.h"

#include "backend/dial.h"
#include "backend/server_auth.h"
#include "base/assert.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text.h"
#include "pg/build.h"
#include "pg/frame.h"
#include "pg/message.h"
#include "pg/startup.h"
#include "pool/host_identity.h"

#include <string.h>

#define WHOLE_MOST 65536
#define STANDBY "in_hot_standby"

/* ---- StartupMessage ---- */

/* user, database, replication, and parameters of the database entry */
#define PAIRS_OWN 8

/*
 * A watcher logs in to any database that lists the host, and its question must not depend on
 * settings of the owner of the database, or of the role itself (ALTER DATABASE, ALTER ROLE ...
 * SET): a standby answers nothing in a serializable transaction. Parameters that not all versions
 * of PostgreSQL know are set by the question. No parameter that any version reports may be among
 * these, because server_login_learn() gives reported values to clients.
 */
static const char *const of_watcher[] = {
	"role",
	"none",
	"default_transaction_isolation",
	"read committed",
	"default_transaction_deferrable",
	"off",
	"statement_timeout",
	"0",
	"lock_timeout",
	"0",
};
#define WATCHER_PAIRS (sizeof(of_watcher) / sizeof(of_watcher[0]) / 2)

struct pairs {
	const char **at;
	size_t count, most;
};

static void server_login_add(struct pairs *p, const char *name, const char *value)
{
	if (!value)
		return;
	ASSERT(p->count + 2 <= p->most);
	p->at[p->count++] = name;
	p->at[p->count++] = value;
}

void server_login_begin(struct server *s)
{
	struct world *w = s->peer.world;
	const struct pool *pool = s->pooled.pool;
	const struct conf_database *conf = pool->database->conf;
	const struct { const char *name, *value; int index; } of_database[] = {
		{ "client_encoding", conf->client_encoding, PARAM_CLIENT_ENCODING },
		{ "datestyle", conf->datestyle, PARAM_DATESTYLE },
		{ "timezone", conf->timezone, PARAM_TIMEZONE },
		{ "application_name", conf->application_name, PARAM_APPLICATION_NAME },
	};
	const struct params *startup = s->pooled.startup;
	struct pairs pairs = { .most = 2 * (PAIRS_OWN + (size_t)params_count(w->params) +
					    params_others(startup) + REPLICATION_PAIRS +
					    WATCHER_PAIRS) };
	int newest = conf->max_protocol_version == CONF_UNSET
			     ? (int)w->conf->settings.server_max_protocol_version
			     : (int)conf->max_protocol_version;
	struct bytes out = BYTES_EMPTY;
	struct pg_cursor kept;
	bool sent;

	/* The server would cut a long name to another name, for which the rules and limits here do
	   not apply. Names in the database entry come from the configuration and are sent
	   unchanged. */
	if (strlen(pool->user->name) > CONF_NAME_MOST &&
	    !(conf->user && strcmp(conf->user, pool->user->name) == 0)) {
		server_end(s, REASON_SERVER_LOGIN_BROKEN,
			   "the name of the user is longer than 63 bytes, and PostgreSQL would "
			   "cut it");
		return;
	}
	if (strlen(pool->database->name) > CONF_NAME_MOST && !conf->dbname) {
		server_end(s, REASON_SERVER_LOGIN_BROKEN,
			   "the name of the database is longer than 63 bytes, and PostgreSQL "
			   "would cut it (dbname= is not set)");
		return;
	}
	pairs.at = mem_try(pairs.most * sizeof(*pairs.at));
	if (!pairs.at) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return;
	}
	server_login_add(&pairs, "user", pool->user->name);
	/* physical replication has no database */
	if (s->replication != REPLICATION_PHYSICAL)
		server_login_add(&pairs, "database",
				 conf->dbname ? conf->dbname : pool->database->name);
	if (s->replication != REPLICATION_NONE)
		server_login_add(&pairs, "replication", pg_replication_word(s->replication));
	for (size_t i = 0; s->pooled.is_watcher && i < WATCHER_PAIRS; i++)
		server_login_add(&pairs, of_watcher[2 * i], of_watcher[2 * i + 1]);
	for (size_t i = 0; i < sizeof(of_database) / sizeof(of_database[0]); i++)
		if (!params_get(startup, of_database[i].index))
			server_login_add(&pairs, of_database[i].name, of_database[i].value);
	for (int i = 0; i < params_count(w->params); i++)
		server_login_add(&pairs, params_name(w->params, i), params_get(startup, i));
	for (size_t i = 0; i < params_others(startup); i++)
		server_login_add(&pairs, params_other(startup, i).name,
				 params_other(startup, i).value);
	if (bytes_size(&s->dial->kept) > 0) {
		kept = pg_cursor_of(bytes_front(&s->dial->kept), bytes_size(&s->dial->kept));
		while (kept.at < kept.end) {
			const char *name = pg_read_string(&kept), *value = pg_read_string(&kept);

			server_login_add(&pairs, name, value);
		}
	}
	s->minor = newest == PROTOCOL_LATEST ? PG_MINOR_NEWEST
		   : newest == PROTOCOL_3_2  ? PG_MINOR_LONG_KEYS
					     : 0;
	pg_build_startup(&out, 3 << 16 | s->minor, pairs.at, pairs.count);
	mem_free(pairs.at);
	s->dial->begun_at = w->now;
	sent = !out.failed && stream_write_bytes(&s->peer.stream, out.data, bytes_size(&out));
	bytes_free(&out);
	if (!sent)
		dial_give_way(s, REASON_SERVER_CRASHED, NULL);
}

/* ---- the version of the protocol ---- */

/* NegotiateProtocolVersion, the first message: the server speaks an older version than requested.
   No protocol options were requested, so the list of unknown options is empty. */
static void negotiated(struct server *s, const struct pg_frame *f)
{
	struct pg_cursor c = pg_cursor_of(f->body, f->size);
	uint32_t version = pg_read_u32(&c), options = pg_read_u32(&c), minor = version & 0xffff;
	char detail[64];

	if (c.bad || c.at != c.end || options > 0) {
		server_end(s, REASON_SERVER_LOGIN_BROKEN, "malformed NegotiateProtocolVersion");
		return;
	}
	if (s->dial->step != DIAL_STARTUP) {
		server_end(s, REASON_SERVER_LOGIN_BROKEN, "NegotiateProtocolVersion out of order");
		return;
	}
	/* the documentation says that the message has the minor version; PostgreSQL sends the major
	   version, too */
	if ((version >> 16 != 3 && version >> 16 != 0) || minor > s->minor ||
	    minor != pg_minor_served((uint16_t)minor)) {
		snprintf(detail, sizeof(detail), "server wants to speak protocol %u.%u",
			 version >> 16, minor);
		server_end(s, REASON_SERVER_LOGIN_BROKEN, detail);
		return;
	}
	dial_step_to(s->dial, DIAL_NEGOTIATED);
	s->minor = (uint8_t)minor;
}

/* ---- after AuthenticationOk ---- */

static void backend_key(struct server *s, const struct pg_frame *f)
{
	struct pg_cursor c = pg_cursor_of(f->body, f->size);
	uint32_t pid = pg_read_u32(&c);

	/* the server chooses the size, in every version of the protocol */
	if (c.bad || c.end - c.at < PG_KEY_LEAST || c.end - c.at > PG_KEY_MOST) {
		server_end(s, REASON_SERVER_LOGIN_BROKEN, "malformed BackendKeyData");
		return;
	}
	if (!server_key_received(s, pid, c.at, (size_t)(c.end - c.at)))
		server_end(s, REASON_NO_MEMORY, NULL);
}

/*
 * Whether the server has refused the start-up parameters of the client. Each parameter and each
 * extension chooses its own SQLSTATE (0A000 for an encoding that cannot be converted, 42501 for a
 * parameter of superusers), so the class of an error is only compared with the classes that are
 * certainly not about parameters: connection, password, database, resources, state of the server,
 * system, internal errors. A wrong yes costs the other clients of the pool one more login; a wrong
 * no would repeat the login of this client again and again, while the other clients wait.
 */
static bool minds_parameters(const struct server *s, const struct pg_error *e)
{
	static const char *const others[] = { "08", "28", "3D", "53", "55000", "57", "58", "XX" };
	bool asked = params_others(s->pooled.startup) > 0;

	for (int i = 0; i < params_count(s->peer.world->params); i++)
		asked |= params_get(s->pooled.startup, i) != NULL;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (text_starts(e->sqlstate, others[i]))
			return false;
	/* the server examines parameters after AuthenticationOk */
	return asked && s->dial->step == DIAL_PROVEN;
}

static void refused_by_server(struct server *s, const struct pg_frame *f)
{
	struct server_info *info = server_info_get(s->pooled.pool, s->peer.world->params);
	static const enum client_state waiting[] = { CLIENT_WAITING_LOGIN, CLIENT_WAITING };
	char who[256], text[PRINTABLE_TEXT];
	struct pg_error e;

	if (pg_error_read(f->body, f->size, &e) != PG_OK) {
		server_end(s, REASON_SERVER_LOGIN_BROKEN, "malformed ErrorResponse");
		return;
	}
	/* PgBouncer's log line does not begin with the connection */
	log_repeatable(dial_failed_alike(s, e.message) ? LEVEL_DEBUG : LEVEL_WARNING,
		       hash_of(e.sqlstate, strlen(e.sqlstate)),
		       "server login failed: %.20s %s (%s)", *e.severity ? e.severity : "ERROR",
		       printable_text(e.message, text, sizeof(text)),
		       server_text(s, who, sizeof(who)));
	if (strcmp(e.sqlstate, "28P01") == 0 &&
	    (s->dial->step == DIAL_PASSWORD || s->dial->step == DIAL_SASL) &&
	    server_auth_try_other(s))
		return;
	if (info && strlen(e.sqlstate) < sizeof(info->failure.sqlstate))
		text_copy(info->failure.sqlstate, sizeof(info->failure.sqlstate), e.sqlstate);
	if (strcmp(e.sqlstate, "53300") == 0)
		s->dial->refusal = SERVER_REFUSAL_FULL;
	else if (text_starts(e.sqlstate, "57P0"))
		s->dial->refusal = SERVER_REFUSAL_AWAY;
	else
		s->dial->refusal = SERVER_REFUSAL_OTHER;
	if (!s->pooled.dedicated && minds_parameters(s, &e)) {
		/* only clients with these parameters get the error; for the other clients of the
		   pool the server has not failed */
		for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++) {
			LIST_EACH_SAFE(node, &s->pooled.pool->clients[waiting[i]]) {
				struct client *c = client_of(
					LIST_OBJECT(node, struct pool_client, node));

				if (c->pooled.startup == s->pooled.startup)
					client_end(c, REASON_SERVER_SAID, e.message);
			}
		}
		server_end(s, REASON_STARTUP_VALUE, e.message);
		return;
	}
	if (s->dial->refusal != SERVER_REFUSAL_OTHER)
		dial_give_way(s, REASON_SERVER_SAID,
			      *e.message ? e.message : "server is not ready");
	else
		server_end(s, REASON_SERVER_SAID, *e.message ? e.message : "server login failed");
}

/* Stores the parameters of a new session of this pool. False: no memory. */
static bool server_login_learn(struct server *s)
{
	struct world *w = s->peer.world;
	struct server_info *info = server_info_get(s->pooled.pool, w->params);

	if (!info)
		return false;
	for (int i = 0; i < params_count(w->params); i++) {
		const struct params *set;

		if (params_get(s->pooled.startup, i))
			continue;
		set = params_with(w->params, info->reported.defaults, i, params_get(s->params, i));
		if (!set)
			return false;
		params_drop(w->params, &info->reported.defaults);
		info->reported.defaults = set;
		info->reported.known |= (uint64_t)1 << i;
	}
	welcome_drop(&info->reported.welcome);
	info->reported.welcome = s->welcome;
	s->welcome->users++;
	mem_free(info->failure.text);
	info->failure.text = NULL;
	return true;
}

static void logged_in(struct server *s)
{
	struct world *w = s->peer.world;
	struct pool *pool = s->pooled.pool;
	struct server_info *info = server_info_get(pool, w->params);
	/* parameters of the start-up message that the server has not reported have the requested
	   values */
	const struct params *set = params_overlay(w->params, s->pooled.startup, s->params);
	bool learned;

	if (set) {
		params_drop(w->params, &s->params);
		s->params = set;
		s->first_params = params_hold(set);
	}
	s->welcome = welcome_of(&s->dial->welcome, info ? info->reported.welcome : NULL);
	learned = s->welcome && set;
	/* not from a server that must close, because after a RELOAD it may belong to the old
	   configuration */
	if (learned && s->pooled.close_reason == REASON_NONE && !s->pooled.dedicated)
		learned = server_login_learn(s);
	learned = learned && server_enlist(s);
	if (s->dial->has_tried_both && info)
		info->proven.prefers_old = s->dial->uses_old;
	hosts_note(s, HOST_WORKS);
	hosts_note_address(s, true);
	if (learned && s->dial->host[0] && s->peer.remote.family != AF_UNIX)
		s->host = mem_copy_string(s->pooled.host && s->pooled.host->name
						  ? s->pooled.host->name
						  : s->dial->host);
	dial_free(s);
	if (!learned) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return;
	}
	s->pooled.opened = w->now;
	latency_add(pool, LATENCY_CONNECT, w->now - s->pooled.since);
	pool_login_succeeded(pool);
	LIST_EACH(node, &pool->clients[CLIENT_WAITING_LOGIN]) {
		struct client *c = client_of(LIST_OBJECT(node, struct pool_client, node));

		peer_come_again(&c->peer);
	}
}

/* The server reports whether it is a standby. The report may be as old as StartupMessage. */
static void note_standby(struct server *s, const char *name, const char *value)
{
	const struct host *host = s->pooled.host;

	pg_build_parameter_status(&s->dial->welcome, name, value);
	if (host && host->role_users > 0)
		host_note_login(&s->pooled, value, s->dial->begun_at, s->peer.world->now);
}

static void frame(struct server *s, const struct pg_frame *f)
{
	struct pg_cursor c = pg_cursor_of(f->body, f->size);
	const char *name, *value;
	char detail[64];

	/* after ReadyForQuery a server may only send an error, a parameter or a notice */
	if (s->dial->step == DIAL_READY && f->type != PGS_ERROR && f->type != PGS_PARAMETER &&
	    f->type != PGS_NOTICE) {
		snprintf(detail, sizeof(detail), "message type 0x%02x behind ReadyForQuery",
			 f->type);
		server_end(s, REASON_SERVER_LOGIN_BROKEN, detail);
		return;
	}
	switch (f->type) {
	case PGS_AUTHENTICATION:
		server_auth_request(s, f);
		return;
	case PGS_PARAMETER:
		name = pg_read_string(&c);
		value = pg_read_string(&c);
		if (c.bad)
			server_end(s, REASON_SERVER_LOGIN_BROKEN, "malformed ParameterStatus");
		else if (strcmp(name, STANDBY) == 0)
			note_standby(s, name, value);
		else if (params_index(s->peer.world->params, name) >= 0)
			server_parameter(s, name, value);
		else if (bytes_size(&s->dial->welcome) > WHOLE_MOST)
			server_end(s, REASON_SERVER_LOGIN_BROKEN, "too many parameters");
		else
			pg_build_parameter_status(&s->dial->welcome, name, value);
		return;
	case PGS_KEY:
		backend_key(s, f);
		return;
	case PGS_ERROR:
		refused_by_server(s, f);
		return;
	case PGS_READY:
		if (s->dial->step != DIAL_PROVEN || f->size != 1 || f->body[0] != 'I') {
			server_end(s, REASON_SERVER_LOGIN_BROKEN, "ReadyForQuery out of order");
			return;
		}
		server_status_received(s, 'I');
		dial_step_to(s->dial, DIAL_READY);
		return;
	case PGS_NEGOTIATION:
		negotiated(s, f);
		return;
	case PGS_NOTICE:		/* a notice at login belongs to no client */
		return;
	default:
		snprintf(detail, sizeof(detail), "unexpected message type 0x%02x", f->type);
		server_end(s, REASON_SERVER_LOGIN_BROKEN, detail);
	}
}

void server_login_read(struct server *s, bool from_socket)
{
	struct world *w = s->peer.world;
	enum pg_verdict verdict = PG_MORE;
	size_t n = peer_unhold_wiped(&s->peer);
	struct pg_frames in;
	struct pg_frame f;
	ssize_t r = 0;

	if (from_socket) {
		r = stream_read(&s->peer.stream, w->buffer + n, READ_BUFFER - n);
		if (r < 0) {
			/* after ReadyForQuery the server would fail again in the same way; a host
			   with a role has crashed */
			if (s->dial->step == DIAL_READY && s->pooled.pool->host)
				server_end(s, REASON_SERVER_CRASHED, NULL);
			else if (s->dial->step == DIAL_READY)
				server_end(s, REASON_SERVER_LOGIN_BROKEN,
					   "end of the connection within a message behind "
					   "ReadyForQuery");
			else
				dial_give_way(s, REASON_SERVER_CRASHED, NULL);
			return;
		}
	}
	in = (struct pg_frames){ w->buffer, n + (size_t)r };
	/* the server has ended: the rest of its input is not read */
	while (s->pooled.state == SERVER_LOGIN && dial_step_reads_messages(s->dial->step) &&
	       (verdict = pg_frames_next(&in, WHOLE_MOST, &f)) == PG_OK)
		frame(s, &f);
	if (verdict == PG_BAD) {
		server_end(s, REASON_SERVER_LOGIN_BROKEN, "malformed message");
		return;
	}
	/* messages after ReadyForQuery are for no client: they are processed before the server is
	   assigned to a client */
	if (s->pooled.state == SERVER_LOGIN && s->dial->step == DIAL_READY && in.left == 0)
		logged_in(s);
	if (s->pooled.state == SERVER_DEAD || (s->dial && s->dial->step == DIAL_NEXT))
		return;
	if (!peer_hold_more(&s->peer, in.at, in.left)) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return;
	}
	if (stream_has_buffered(&s->peer.stream))
		peer_come_again(&s->peer);
}
