/*
 * pgweir with an oracle: the program test/oracle/pgweir, which tests run in place of pgweir.
 *
 * With session_state = full a server returns to its pool when pgweir has judged that its session has
 * no state of the client, mostly from words of the client's texts and without asking the server. The
 * oracle asks, before another client can get the server: it stands in for pool_unlink(), moves the
 * server to SERVER_TESTED instead of SERVER_IDLE, and sends a query that returns a row for each fact
 * in which the session differs from what pgweir believes. A row ends the process, with the fact in
 * its log. Without a row the server becomes idle, as after each task.
 *
 * The query compares:
 *
 *	what the table of session facts asks with ASK_EXISTS	there is none
 *	channels						there is none
 *	parameters that are set in the session			server->params has the value
 *	parameters of server->params				the session has the value
 *	parameters with a dot that the client has named		no value, unless server->params has one
 *	session_user and role					the ones of server->params, or of the login
 *
 * Not asked: a server that pgweir resets before its next client (tainted_by, server_reset_query), one
 * with a connect_query that sets, and values of sequences, which the server tells only by an error.
 *
 * A query that fails proves nothing; the log has a line for it ("oracle has no answer"). The number of
 * queries is logged whenever it has doubled ("oracle has asked").
 */
#include "conn/client.h"
#include "conn/server.h"
#include "conn/world.h"
#include "base/log.h"
#include "pg/frame.h"
#include "state/server_session.h"
#include "state/session_question.h"
#include "state/session_state.h"
#include "state/task.h"

#include <string.h>
#include <strings.h>

void __real_pool_unlink(struct pool_server *server, enum server_state next, bool client_dies, usec_t now);
void __wrap_pool_unlink(struct pool_server *server, enum server_state next, bool client_dies, usec_t now);

/* ---- the question ---- */

#define IS " OPERATOR(pg_catalog.=) "

/* The session may have any encoding. */
static bool is_ascii(const char *text)
{
	while (*text && !(*text & 0x80))
		text++;
	return !*text;
}

static void literal(struct bytes *sql, const char *value)
{
	bytes_append_text(sql, "E'");
	for (const char *at = value; *at; at++) {
		if (*at == '\'' || *at == '\\')
			bytes_append_u8(sql, (uint8_t)*at);
		bytes_append_u8(sql, (uint8_t)*at);
	}
	bytes_append_text(sql, "'");
}

/* The session must have the value. set_config() brings the believed value into the server's spelling; the change ends with the query. The oracle's own
   first statement has changed statement_timeout, and a timeout that set_config() sets would end the query. */
static void ask_value(struct bytes *sql, const char *name, const char *value)
{
	if (strcasestr(name, "timeout") || strcmp(name, PARAMS_ROLE) == 0 || !is_ascii(name) || !is_ascii(value))
		return;
	bytes_append_text(sql, ";SELECT 'parameter',pg_catalog.concat(n,' is ',a,', and pgweir knows ',b) FROM (SELECT n,"
			  "pg_catalog.current_setting(n,true) a,pg_catalog.set_config(n,");
	literal(sql, value);
	bytes_append_text(sql, ",true) b FROM (SELECT ");
	literal(sql, name);
	bytes_append_text(sql, " n OFFSET 0) x OFFSET 0) y WHERE a IS DISTINCT FROM b");
}

/* Whether pgweir does not know the tracked parameter, and sets it for the next client. */
static bool is_tracked_unknown(const struct server *s, int index)
{
	return !(s->session.reported & (uint64_t)1 << index) && s->session.stale & STALE_PARAMS;
}

static void ask_known_values(struct bytes *sql, const struct server *s)
{
	const struct params_table *table = s->peer.world->params;

	for (int i = 0; i < params_count(table); i++)
		if (params_get(s->params, i) && !is_tracked_unknown(s, i))
			ask_value(sql, params_name(table, i), params_get(s->params, i));
	for (size_t i = 0; i < params_others(s->params); i++)
		ask_value(sql, params_other(s->params, i).name, params_other(s->params, i).value);
}

/* Parameters that the session has set, and pgweir does not know. Before the values above are set. */
static void ask_set_values(struct bytes *sql, const struct server *s)
{
	const struct params_table *table = s->peer.world->params;

	bytes_append_text(sql, ";SELECT 'parameter',pg_catalog.concat(name,' is set to ',setting) FROM (SELECT name,CASE name" IS "'statement_timeout' WHEN true "
			  "THEN pg_catalog.current_setting('pgweir.ms') ELSE setting END setting,reset_val FROM pg_catalog.pg_settings WHERE source" IS
			  "'session' AND name OPERATOR(pg_catalog.!~) '^(transaction_|pgweir[.])') x WHERE setting IS DISTINCT FROM reset_val AND "
			  "pg_catalog.lower(name) OPERATOR(pg_catalog.<>) ALL (ARRAY['',");
	for (int i = 0; i < params_count(table); i++)
		if (params_get(s->params, i) || is_tracked_unknown(s, i))
			bytes_append_format(sql, "pg_catalog.lower('%s'),", params_name(table, i));
	for (size_t i = 0; i < params_others(s->params); i++) {
		bytes_append_text(sql, "pg_catalog.lower(");
		literal(sql, params_other(s->params, i).name);
		bytes_append_text(sql, "),");
	}
	bytes_append_text(sql, "''])");
}

static void ask_named_values(struct bytes *sql, const struct server *s, const struct client *c)
{
	const char *names = bytes_size(&c->session->names) > 0 ? (const char *)bytes_front(&c->session->names) : "";

	for (const char *at = names, *end = at + bytes_size(&c->session->names); at < end; at += strlen(at) + 1)
		if (!params_other_value(s->params, at))
			bytes_append_format(sql, ";SELECT 'parameter',pg_catalog.concat('%s is ',v) FROM (SELECT pg_catalog.current_setting('%s',true) v) x "
					    "WHERE v OPERATOR(pg_catalog.<>) '' AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_settings WHERE "
					    "pg_catalog.lower(name)" IS "pg_catalog.lower('%s'))", at, at, at);
}

static void ask_role(struct bytes *sql, const struct server *s)
{
	const char *role = params_other_value(s->params, PARAMS_ROLE);

	if (s->session.stale & STALE_ROLE)
		return;
	if (!role)
		role = s->session.role;
	bytes_append_text(sql, ";SELECT 'role',pg_catalog.concat(session_user,':',pg_catalog.current_setting('role')) WHERE ");
	if (role)
		bytes_append_format(sql, ROLE_NOTE " OPERATOR(pg_catalog.<>) '%s'", role);
	else
		bytes_append_text(sql, "pg_catalog.current_setting('role') OPERATOR(pg_catalog.<>) 'none' OR session_user OPERATOR(pg_catalog.<>) "
				  "(SELECT usename FROM pg_catalog.pg_stat_activity WHERE pid" IS "pg_catalog.pg_backend_pid())");
}

static void ask_facts(struct bytes *sql)
{
	static const struct { const char *label; enum session_ask ask; const char *where; } facts[] = {
#define SESSION_PIN(id, label, texts, set_by, ended_by, ask, where) { label, ask, where },
#include "tbl/session_fact.tbl"
	};

	for (size_t i = 0; i < sizeof(facts) / sizeof(*facts); i++)
		if (facts[i].ask == ASK_EXISTS)
			bytes_append_format(sql, ";SELECT '%s','' WHERE EXISTS (SELECT 1 FROM %s)", facts[i].label, facts[i].where);
	bytes_append_text(sql, ";SELECT 'channel',c FROM pg_catalog.pg_listening_channels() c");
}

/* ---- the answer ---- */

/* A row of two columns: a difference. Rows of other statements have more. */
static void oracle_row(struct server *s, const struct pg_frame *f)
{
	struct pg_cursor row = pg_cursor_of(f->body, f->here);
	unsigned columns = pg_read_u16(&row);
	uint32_t size = pg_read_u32(&row), more;
	const uint8_t *what = pg_read_bytes(&row, size), *which;

	if (columns != 2 || row.bad)
		return;
	more = pg_read_u32(&row);
	which = pg_read_bytes(&row, more == UINT32_MAX ? 0 : more);
	log_error("oracle: a server without a client (process %u) has what pgweir does not know: %.*s %.*s", s->backend_pid, (int)size, (const char *)what,
		  row.bad ? 0 : (int)more, row.bad ? "" : (const char *)which);
	ASSERT(!"the session is as pgweir believes");
}

static enum task_end oracle_done(struct server *s, bool failed)
{
	if (failed)
		log_warning("oracle has no answer: %s", s->task_words ? s->task_words : "?");
	return TASK_END_RELEASE;
}

static const struct server_task task_oracle = {
	.name = "oracle", .description = "asking for differences", .states = TASK_IN(TESTED), .reads_rows = true, .keeps_error = true, .ends_alone = true,
	.on_row = oracle_row, .on_done = oracle_done,
};

/* ---- when ---- */

/* The server goes to its next client as it is, unless a text of this client was unproven. */
static bool is_believed_clean(const struct server *s, const struct client *c)
{
	return c->link_facts.keeps_state && c->session && !server_has_lasting_query(s) && s->session.tainted_by == 0 && !(s->session.stale & STALE_SESSION) && !s->needs_reset &&
	       s->pooled.close_reason == REASON_NONE && !peer_is_stopped(&s->peer);
}

void __wrap_pool_unlink(struct pool_server *pooled, enum server_state next, bool client_dies, usec_t now)
{
	struct server *s = server_of(pooled);
	const struct client *c = client_of(pooled->link);
	bool asks = next == SERVER_IDLE && is_believed_clean(s, c) && pool_server_is_spent(pooled, now) == REASON_NONE;
	struct bytes sql = BYTES_EMPTY;
	static unsigned long asked;

	asked += asks;
	if (asks && (asked & (asked - 1)) == 0)
		log_info("oracle has asked %lu", asked);
	if (asks) {
		bytes_append_text(&sql, "SELECT pg_catalog.set_config('pgweir.ms',(SELECT setting FROM pg_catalog.pg_settings WHERE name" IS "'statement_timeout'),"
				  "true),pg_catalog.set_config('statement_timeout','0',true),1");
		ask_facts(&sql);
		ask_role(&sql, s);
		ask_named_values(&sql, s, c);
		ask_set_values(&sql, s);
		ask_known_values(&sql, s);
	}
	__real_pool_unlink(pooled, asks ? SERVER_TESTED : next, client_dies, now);
	if (asks)
		server_run_and_free(s, &task_oracle, &sql);
}
