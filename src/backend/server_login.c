/*
 * Logging in at a server: StartupMessage, the version of the protocol, authentication, parameters, BackendKeyData,
 * ReadyForQuery ("Start-up" in the documentation of the protocol). What authentication asks for is answered in server_auth.c.
 *
 * Everything a server may say here fits in WHOLE_MOST bytes and is read as a whole; a server that sends more, or
 * something else, or out of order, is refused with a precise reason. An ErrorResponse is passed on word for word to those that wait.
 */
#include "backend/server_login.h"

#include "backend/dial.h"
#include "backend/server_auth.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text.h"
#include "pg/build.h"
#include "pg/frame.h"
#include "pg/message.h"
#include "pg/startup.h"

#include <string.h>

#define WHOLE_MOST 65536

/* ---- StartupMessage ---- */

#define PAIRS_OWN 8		/* user, database, replication, and what the database's entry sets */

struct pairs {
	const char **at;
	size_t count, most;
};

static void add(struct pairs *p, const char *name, const char *value)
{
	if (!value)
		return;
	ASSERT(p->count + 2 <= p->most);
	p->at[p->count++] = name;
	p->at[p->count++] = value;
}

void server_login_broken(struct server *s, const char *detail)
{
	server_end(s, REASON_SERVER_LOGIN_BROKEN, detail);
}

/* The minor version to ask for. */
static uint8_t wanted_minor(const struct server *s)
{
	int of_database = s->pooled.pool->database->conf->max_protocol_version;
	int newest = of_database == CONF_UNSET ? s->peer.world->conf->settings.server_max_protocol_version : of_database;

	switch ((enum protocol_version)newest) {
	case PROTOCOL_3_2:
		return PG_MINOR_LONG_KEYS;
	case PROTOCOL_LATEST:
		return PG_MINOR_NEWEST;
	case PROTOCOL_3_0:
		break;
	}
	return 0;
}

static void add_kept(struct pairs *p, const struct bytes *kept)
{
	struct pg_cursor c;

	/* mostly there is nothing, not even memory */
	if (bytes_size(kept) == 0)
		return;
	c = pg_cursor_of(bytes_front(kept), bytes_size(kept));
	while (c.at < c.end) {
		const char *name = pg_read_string(&c), *value = pg_read_string(&c);

		add(p, name, value);
	}
}

/* A name that the server would cut to another one, which rules and limits here know nothing of. NULL: there is none. The user in
   the database's entry, and its dbname, are what the configuration says. */
static const char *name_fault(const struct pool *pool)
{
	const struct conf_database *conf = pool->database->conf;

	if (strlen(pool->user->name) > CONF_NAME_MOST && !(conf->user && strcmp(conf->user, pool->user->name) == 0))
		return "the name of the user is longer than 63 bytes, and PostgreSQL would cut it";
	if (strlen(pool->database->name) > CONF_NAME_MOST && !conf->dbname)
		return "the name of the database is longer than 63 bytes, and PostgreSQL would cut it (dbname= is not set)";
	return NULL;
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
	struct pairs pairs = {
		.most = 2 * (PAIRS_OWN + (size_t)params_count(w->params) + params_others(startup) + REPLICATION_PAIRS)
	};
	struct bytes out = BYTES_EMPTY;
	bool sent;

	if (name_fault(pool)) {
		server_login_broken(s, name_fault(pool));
		return;
	}
	pairs.at = mem_try(pairs.most * sizeof(*pairs.at));
	if (!pairs.at) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return;
	}
	add(&pairs, "user", pool->user->name);
	/* a walsender that streams all databases belongs to none */
	if (s->replication != REPLICATION_PHYSICAL)
		add(&pairs, "database", conf->dbname ? conf->dbname : pool->database->name);
	if (s->replication != REPLICATION_NONE)
		add(&pairs, "replication", pg_replication_word(s->replication));
	for (size_t i = 0; i < sizeof(of_database) / sizeof(of_database[0]); i++)
		if (!params_get(startup, of_database[i].index))
			add(&pairs, of_database[i].name, of_database[i].value);
	for (int i = 0; i < params_count(w->params); i++)
		add(&pairs, params_name(w->params, i), params_get(startup, i));
	for (size_t i = 0; i < params_others(startup); i++)
		add(&pairs, params_other(startup, i).name, params_other(startup, i).value);
	add_kept(&pairs, &s->dial->kept);
	s->minor = wanted_minor(s);
	pg_build_startup(&out, 3 << 16 | s->minor, pairs.at, pairs.count);
	mem_free(pairs.at);
	sent = !out.failed && stream_write_bytes(&s->peer.stream, out.data, bytes_size(&out));
	bytes_free(&out);
	if (!sent)
		dial_give_way(s, REASON_SERVER_CRASHED, NULL);
}

/* ---- the version of the protocol ---- */

/* NegotiateProtocolVersion, which comes before anything else: the server speaks an older version than was asked for. Options
   were not asked for, so it cannot lack any. */
static void negotiated(struct server *s, const struct pg_frame *f)
{
	struct pg_cursor c = pg_cursor_of(f->body, f->size);
	uint32_t version = pg_read_u32(&c), options = pg_read_u32(&c), minor = version & 0xffff;
	char detail[64];

	if (c.bad || c.at != c.end || options > 0) {
		server_login_broken(s, "malformed NegotiateProtocolVersion");
		return;
	}
	if (s->dial->step != DIAL_STARTUP) {
		server_login_broken(s, "NegotiateProtocolVersion out of order");
		return;
	}
	/* the message is described as holding the minor version alone; PostgreSQL puts the major one before it */
	if ((version >> 16 != 3 && version >> 16 != 0) || minor > s->minor || minor != pg_minor_served((uint16_t)minor)) {
		snprintf(detail, sizeof(detail), "server wants to speak protocol %u.%u", version >> 16, minor);
		server_login_broken(s, detail);
		return;
	}
	dial_step_to(s->dial, DIAL_NEGOTIATED);
	s->minor = (uint8_t)minor;
}

/* ---- what follows AuthenticationOk ---- */

static void parameter(struct server *s, const struct pg_frame *f)
{
	struct pg_cursor c = pg_cursor_of(f->body, f->size);
	const char *name = pg_read_string(&c), *value = pg_read_string(&c);

	if (c.bad) {
		server_login_broken(s, "malformed ParameterStatus");
		return;
	}
	if (params_index(s->peer.world->params, name) >= 0)
		server_parameter(s, name, value);
	else if (bytes_size(&s->dial->welcome) > WHOLE_MOST)
		server_login_broken(s, "too many parameters");
	else
		pg_build_parameter_status(&s->dial->welcome, name, value);
}

static void backend_key(struct server *s, const struct pg_frame *f)
{
	struct pg_cursor c = pg_cursor_of(f->body, f->size);

	s->backend_pid = pg_read_u32(&c);
	/* of the size that the server likes, whatever the version: it is the one that has to know the key again */
	if (c.bad || c.end - c.at < PG_KEY_LEAST || c.end - c.at > PG_KEY_MOST) {
		server_login_broken(s, "malformed BackendKeyData");
		return;
	}
	mem_free(s->cancel_key);
	s->cancel_key_size = (size_t)(c.end - c.at);
	s->cancel_key = mem_try(s->cancel_key_size);
	if (!s->cancel_key) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return;
	}
	memcpy(s->cancel_key, c.at, s->cancel_key_size);
}

/*
 * Whether the server minds what the client asked for at its start-up. Which SQLSTATE it has for that is up to each parameter, and to each
 * extension (an encoding that cannot be converted is 0A000, one that only superusers may set 42501), so those are told apart that are
 * surely not about it: connection, password, database, resources, the server's own state, its system, its bugs. To take such a one for
 * the client's would cost others of the pool a login more; the other way round its login would be tried again and again, in front of them.
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
	/* parameters are looked at behind AuthenticationOk */
	return asked && s->dial->step == DIAL_PROVEN;
}

/* Those that asked for it are told what a direct connection would have told them. It is no failure of the server's, and
   others of the pool have nothing to do with it. */
static void refuse_askers(struct server *s, const char *words)
{
	static const enum client_state waiting[] = { CLIENT_WAITING_LOGIN, CLIENT_WAITING };

	for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++) {
		LIST_EACH_SAFE(node, &s->pooled.pool->clients[waiting[i]]) {
			struct client *c = client_of(LIST_OBJECT(node, struct pool_client, node));

			if (c->pooled.startup == s->pooled.startup)
				client_end(c, REASON_SERVER_SAID, words);
		}
	}
	server_end(s, REASON_STARTUP_VALUE, words);
}

static void refused_by_server(struct server *s, const struct pg_frame *f)
{
	struct server_info *info = server_info_get(s->pooled.pool, s->peer.world->params);
	char who[256], text[PRINTABLE_TEXT];
	struct pg_error e;

	if (pg_error_read(f->body, f->size, &e) != PG_OK) {
		server_login_broken(s, "malformed ErrorResponse");
		return;
	}
	/* PgBouncer's line has no connection in front of it */
	log_warning("server login failed: %.20s %s (%s)", *e.severity ? e.severity : "ERROR", printable_text(e.message, text, sizeof(text)),
		    server_text(s, who, sizeof(who)));
	if (info && strlen(e.sqlstate) < sizeof(info->failure.sqlstate))
		text_copy(info->failure.sqlstate, sizeof(info->failure.sqlstate), e.sqlstate);
	if (strcmp(e.sqlstate, "53300") == 0)
		s->dial->refusal = SERVER_REFUSAL_FULL;
	else if (text_starts(e.sqlstate, "57P0"))
		s->dial->refusal = SERVER_REFUSAL_AWAY;
	else
		s->dial->refusal = SERVER_REFUSAL_OTHER;
	if (!s->pooled.dedicated && minds_parameters(s, &e))
		refuse_askers(s, e.message);
	else if (s->dial->refusal != SERVER_REFUSAL_OTHER)
		dial_give_way(s, REASON_SERVER_SAID, *e.message ? e.message : "server is not ready");
	else
		server_end(s, REASON_SERVER_SAID, *e.message ? e.message : "server login failed");
}

/* What this login has taught about sessions of this pool. */
static bool learn(struct server *s)
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
	info->reported.welcome = welcome_hold(s->welcome);
	mem_free(info->failure.text);
	info->failure.text = NULL;
	return true;
}

/* What its clients are welcomed with. */
static bool keep_welcome(struct server *s)
{
	struct server_info *info = server_info_get(s->pooled.pool, s->peer.world->params);

	s->welcome = welcome_of(&s->dial->welcome, info ? info->reported.welcome : NULL);
	return s->welcome != NULL;
}

/* Parameters of the start-up message that the server did not report have their values all the same. */
static bool assume_unreported(struct server *s)
{
	struct world *w = s->peer.world;
	const struct params *set = params_overlay(w->params, s->pooled.startup, s->params);

	if (!set)
		return false;
	params_drop(w->params, &s->params);
	s->params = set;
	s->first_params = params_hold(set);
	return true;
}

static void logged_in(struct server *s)
{
	struct world *w = s->peer.world;
	struct pool *pool = s->pooled.pool;
	/* what is to be closed at once may come from where the pool's servers came from before a RELOAD */
	bool is_current = s->pooled.close_reason == REASON_NONE;
	bool learned = keep_welcome(s) && (!is_current || s->pooled.dedicated || learn(s)) && assume_unreported(s) && server_enlist(s);

	hosts_note(s, true);
	hosts_note_address(s, true);
	if (learned && s->dial->host[0] && s->peer.remote.family != AF_UNIX)
		s->host = mem_copy_string(s->dial->host);
	dial_free(s);
	if (!learned) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return;
	}
	s->pooled.opened = w->now;
	pool_login_succeeded(pool);
	pool_mark(pool);
	LIST_EACH(node, &pool->clients[CLIENT_WAITING_LOGIN]) {
		struct client *c = client_of(LIST_OBJECT(node, struct pool_client, node));

		peer_come_again(&c->peer);
	}
}

static void ready(struct server *s, const struct pg_frame *f)
{
	if (s->dial->step != DIAL_PROVEN || f->size != 1 || f->body[0] != 'I') {
		server_login_broken(s, "ReadyForQuery out of order");
		return;
	}
	s->status = 'I';
	dial_step_to(s->dial, DIAL_READY);
}

/* What may come behind ReadyForQuery, unasked: a last word, a parameter, a notice. */
static bool may_be_unasked(uint8_t type)
{
	return type == PGS_ERROR || type == PGS_PARAMETER || type == PGS_NOTICE;
}

static void frame(struct server *s, const struct pg_frame *f)
{
	char detail[64];

	if (s->dial->step == DIAL_READY && !may_be_unasked(f->type)) {
		snprintf(detail, sizeof(detail), "message type 0x%02x behind ReadyForQuery", f->type);
		server_login_broken(s, detail);
		return;
	}
	switch (f->type) {
	case PGS_AUTHENTICATION:
		server_auth_request(s, f);
		return;
	case PGS_PARAMETER:
		parameter(s, f);
		return;
	case PGS_KEY:
		backend_key(s, f);
		return;
	case PGS_ERROR:
		refused_by_server(s, f);
		return;
	case PGS_READY:
		ready(s, f);
		return;
	case PGS_NEGOTIATION:
		negotiated(s, f);
		return;
	case PGS_NOTICE:		/* a notice at login belongs to no client */
		return;
	default:
		snprintf(detail, sizeof(detail), "unexpected message type 0x%02x", f->type);
		server_login_broken(s, detail);
	}
}

/* A server that lets us in, and breaks off in the middle of what it says behind that, would do so again. */
static void login_breaks_off(struct server *s)
{
	if (s->dial->step == DIAL_READY)
		server_login_broken(s, "end of the connection within a message behind ReadyForQuery");
	else
		dial_give_way(s, REASON_SERVER_CRASHED, NULL);
}

void server_login_read(struct server *s, bool from_socket)
{
	struct world *w = s->peer.world;
	enum pg_verdict verdict = PG_MORE;
	size_t n = bytes_size(&s->peer.held);
	struct pg_frames in;
	struct pg_frame f;
	ssize_t r = 0;

	if (n > 0)
		memcpy(w->buffer, bytes_front(&s->peer.held), n);
	bytes_wipe(&s->peer.held);
	if (from_socket) {
		r = stream_read(&s->peer.stream, w->buffer + n, READ_BUFFER - n);
		if (r < 0) {
			login_breaks_off(s);
			return;
		}
	}
	in = (struct pg_frames){ w->buffer, n + (size_t)r };
	/* a server that is done with may have left something in the buffer, but is not read any more */
	while (s->pooled.state == SERVER_LOGIN && dial_step_reads_messages(s->dial->step) &&
	       (verdict = pg_frames_next(&in, WHOLE_MOST, &f)) == PG_OK)
		frame(s, &f);
	if (verdict == PG_BAD) {
		server_login_broken(s, "malformed message");
		return;
	}
	/* what came with it was said to no client: the server is lent to none before that has been looked at */
	if (s->pooled.state == SERVER_LOGIN && s->dial->step == DIAL_READY && in.left == 0)
		logged_in(s);
	if (s->pooled.state == SERVER_DEAD || (s->dial && s->dial->step == DIAL_NEXT))
		return;
	bytes_append(&s->peer.held, in.at, in.left);
	if (s->peer.held.failed) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return;
	}
	if (stream_has_buffered(&s->peer.stream))
		peer_come_again(&s->peer);
}
