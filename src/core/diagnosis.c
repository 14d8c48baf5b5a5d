/*
 * Waits and lives of clients in words. A wait has its cause (a setting or a condition) and the
 * connection that ends it.
 *
 * Invariant: the words name connections, settings, databases and users, never secrets or texts of
 * queries, because they are part of errors for clients and of SHOW for stats_users. The program and
 * address of a client are in words for clients of the same user only.
 */
#include "core/diagnosis.h"

#include "auth/login_state.h"
#include "backend/server_info.h"
#include "core/alarm.h"
#include "pool/host.h"
#include "pool/role.h"
#include "pool/rows.h"
#include "prepared/prepared.h"
#include "state/session_state.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TIME_TEXT 24

/* Writes "12.3 ms". Returns buf. */
static const char *time_text(usec_t time, char buf[TIME_TEXT])
{
	if (time < USEC)
		snprintf(buf, TIME_TEXT, "%.1f ms", (double)time / 1000);
	else
		snprintf(buf, TIME_TEXT, "%.1f s", (double)time / USEC);
	return buf;
}

/* The client waits for this server, and for the client that it serves. */
static void diagnosis_hold(struct client_wait *wait, struct pool_server *ps, usec_t now)
{
	const struct server *s = server_of(ps);

	wait->server = s->peer.id;
	wait->client = ps->link && !ps->link->is_internal ? client_of(ps->link)->peer.id : 0;
	wait->held = now - ps->since;
}

/* Writes the activity of a client with a server: "idle in transaction for 4.1 s", ... Returns
   buf. */
static const char *doing_text(const struct client *c, usec_t now, char *buf, size_t size)
{
	char time[TIME_TEXT], pins[PIN_TEXT];

	if (stream_unsent(&c->peer.stream) > 0)
		snprintf(buf, size, "it does not read its result");
	else if (c->activity.query_started > 0)
		snprintf(buf, size, "its query runs for %s",
			 time_text(now - c->activity.query_started, time));
	else if (c->activity.in_transaction)
		snprintf(buf, size, "idle in transaction for %s",
			 time_text(now - c->activity.last, time));
	else if (c->pooled.pins)
		snprintf(buf, size, "pinned: %s", pins_text(c->pooled.pins, pins));
	else
		snprintf(buf, size, "idle in its session for %s",
			 time_text(now - c->activity.last, time));
	return buf;
}

/* Appends the client that has had its server for the longest time: application, address, process of
   the server, and activity. */
static void add_longest(struct client_wait *wait, const struct pool *pool, usec_t now)
{
	struct pool_server *longest = pool_longest_in_use(pool, pool->held_by);
	size_t used = strlen(wait->text);
	char held[TIME_TEXT], name[PRINTABLE_NAME], from[80], doing[PIN_TEXT + 64];
	const struct client *c;
	const char *application;

	if (!longest)
		return;
	diagnosis_hold(wait, longest, now);
	snprintf(wait->text + used, WAIT_TEXT - used,
		 "; the longest in use: %s, by client C-0x%" PRIx64 " on S-0x%" PRIx64,
		 time_text(wait->held, held), wait->client, wait->server);
	/* a client of another user must not learn addresses */
	if (wait->client == 0 || longest->pool->user != pool->user)
		return;
	used = strlen(wait->text);
	c = client_of(longest->link);
	application = c->params ? params_get(c->params, PARAM_APPLICATION_NAME) : NULL;
	snprintf(wait->text + used, WAIT_TEXT - used,
		 " (%s%s%s, backend process %" PRIu32 "): %s",
		 application && *application ? printable_name(application, name, sizeof(name))
					     : "",
		 application && *application ? " at " : "",
		 brief_address_and_port(&c->peer.remote, from, sizeof(from)),
		 server_of(longest)->backend_pid, doing_text(c, now, doing, sizeof(doing)));
}

/* Returns the setting that limits the servers of the pool: "default_pool_size" or "pool_size of the
   database". */
static const char *size_setting(const struct pool *pool)
{
	if (pool->user->conf && pool->user->conf->pool_size != CONF_UNSET)
		return "pool_size of the user";
	return pool->database->conf->pool_size != CONF_UNSET ? "pool_size of the database"
							     : "default_pool_size";
}

/* All servers of the pool are in use. */
static void explain_size(struct client_wait *wait, const struct pool *pool, usec_t now)
{
	int64_t reserve = pool->allowed.reserve, size = pool->allowed.size;
	bool is_reserve_used = pool->budget->used > size && reserve > 0;
	char pins[PIN_TEXT];
	size_t used;

	snprintf(wait->text, WAIT_TEXT,
		 "%" PRId64 " of %" PRId64 " server connections are in use (%s%s)",
		 pool->budget->used, is_reserve_used ? size + reserve : size, size_setting(pool),
		 is_reserve_used ? " and reserve_pool_size" : "");
	if (pool_pins_text(pool, pins)) {
		used = strlen(wait->text);
		snprintf(wait->text + used, WAIT_TEXT - used, ", %s", pins);
	}
	add_longest(wait, pool, now);
	snprintf(wait->hint, WAIT_HINT, "End long transactions, or raise %s.", size_setting(pool));
}

/* No limit holds the client back: a server is being opened or prepared, or the client gets the next
   free server. */
static void explain_soon(struct client_wait *wait, const struct pool *pool, usec_t now)
{
	const char *error = pool->login_failed ? pool_login_error(pool) : NULL;

	LIST_EACH(node, &pool->servers[SERVER_LOGIN]) {
		struct pool_server *ps = LIST_OBJECT(node, struct pool_server, node);

		if (ps->is_cancel)
			continue;
		diagnosis_hold(wait, ps, now);
		wait->on = pool_limit_names[LIMIT_ONE_LOGIN];
		snprintf(wait->text, WAIT_TEXT,
			 "the server connection S-0x%" PRIx64 " is being opened%s%s", wait->server,
			 error ? "; the last login at the server failed: " : "",
			 error ? error : "");
		return;
	}
	if (!list_is_empty(&pool->servers[SERVER_TESTED])) {
		struct pool_server *ps = LIST_OBJECT(pool->servers[SERVER_TESTED].next,
						     struct pool_server, node);
		const struct server *s = server_of(ps);

		diagnosis_hold(wait, ps, now);
		wait->on = s->task ? s->task->name : "listen";
		snprintf(wait->text, WAIT_TEXT,
			 "the server connection S-0x%" PRIx64
			 " is prepared for its next client: %s",
			 wait->server,
			 s->task ? s->task->description : "listeners get its notifications first");
		return;
	}
	wait->on = "server";
	snprintf(wait->text, WAIT_TEXT,
		 "the client gets the next server connection that becomes free");
}

/* Appends the hosts of the pool that are failing. Returns the failure of the first host; NULL:
   there is none. */
static const struct host_failure *add_failing_hosts(struct client_wait *wait,
						    const struct pool *pool, usec_t now)
{
	const struct host_failure *first = NULL;
	char time[TIME_TEXT];

	for (unsigned i = 0; i < pool->place_count; i++) {
		const struct host *host = pool->places[i].host;
		size_t used = strlen(wait->text);

		if (!host_is_failing(host, now))
			continue;
		snprintf(wait->text + used, WAIT_TEXT - used, "%s%s: %s, %s ago",
			 first ? "; " : "", host->key, host->failure.text,
			 time_text(now - host->failure.at, time));
		first = first ? first : &host->failure;
	}
	return first;
}

bool pool_failure_of(const struct pool *pool, usec_t now, struct client_wait *wait)
{
	const char *error = pool_login_error(pool);
	const struct host_failure *f;
	char time[TIME_TEXT];

	wait->text[0] = wait->hint[0] = '\0';
	if (!pool->login_failed || !error)
		return false;
	f = add_failing_hosts(wait, pool, now);
	if (!f)
		snprintf(wait->text, WAIT_TEXT, "%s%s%s, %s ago",
			 pool->host ? pool->host->key : "", pool->host ? ": " : "", error,
			 time_text(now - pool->login_failed_at, time));
	snprintf(wait->hint, WAIT_HINT, "%s",
		 alarm_rows[f ? alarm_of_failure(f) : ALARM_LOGIN_REFUSED].action);
	return true;
}

/* Opening a server has failed. PostgreSQL that is down, starting or full is tried twice a
   second. */
static void explain_retry(struct client_wait *wait, const struct pool *pool, usec_t now)
{
	struct client_wait failure;
	bool is_known = pool_failure_of(pool, now, &failure);
	bool is_often = pool->login_failure == FAILURE_AWAY ||
			pool->login_failure == FAILURE_BUSY ||
			pool->login_failure == FAILURE_FULL;

	snprintf(wait->text, WAIT_TEXT,
		 "opening a server connection has failed: %.800s; it is tried again %s",
		 is_known ? failure.text : "see the log",
		 is_often ? "twice a second" : "after server_login_retry");
	snprintf(wait->hint, WAIT_HINT, "%s", failure.hint);
}

void pool_wait_of(const struct pool *pool, usec_t now, struct client_wait *wait)
{
	*wait = (struct client_wait){ .on = pool_limit_names[pool->held_by] };
	switch (pool->held_by) {
	case LIMIT_POOL_SIZE:
		explain_size(wait, pool, now);
		break;
	case LIMIT_DATABASE:
	case LIMIT_USER:
		pool_holding_text(pool, pool->user,
				  pool->held_by == LIMIT_USER ? HOLDING_USER_SERVERS
							      : HOLDING_DATABASE_SERVERS,
				  wait->text);
		add_longest(wait, pool, now);
		snprintf(wait->hint, WAIT_HINT, "End long transactions, or raise %s.", wait->on);
		break;
	case LIMIT_HOST:
		pool_hosts_text(pool, wait->text, WAIT_TEXT);
		add_longest(wait, pool, now);
		snprintf(wait->hint, WAIT_HINT,
			 "End long transactions, or raise max_host_connections.");
		break;
	case LIMIT_INTERNAL:
		snprintf(wait->text, WAIT_TEXT,
			 "look-ups with auth_query have %" PRId64 " of %" PRId64
			 " server connections (max_auth_query_connections)",
			 pool->pools->shared->lookup_servers.used,
			 pool->pools->shared->lookup_servers.limit);
		snprintf(wait->hint, WAIT_HINT, "Raise max_auth_query_connections.");
		break;
	case LIMIT_LOGIN_RETRY:
		explain_retry(wait, pool, now);
		break;
	case LIMIT_PAUSED:
		snprintf(wait->text, WAIT_TEXT, "%s",
			 pool->database->paused	  ? "the database is paused"
			 : pool->pools->paused	  ? "all databases are paused"
			 : pool->pools->suspended ? "the pooler is suspended"
						  : "the pooler is shutting down");
		snprintf(wait->hint, WAIT_HINT, "RESUME ends it.");
		break;
	case LIMIT_ROLE:
		roles_text(pool->database, now, wait->text, WAIT_TEXT);
		snprintf(wait->hint, WAIT_HINT, "See SHOW HOSTS.");
		break;
	case LIMIT_DRAINING:
		snprintf(wait->text, WAIT_TEXT, "the pooler is shutting down");
		break;
	case LIMIT_NONE:
	case LIMIT_ONE_LOGIN:
	case POOL_LIMITS:
		explain_soon(wait, pool, now);
		break;
	}
}

/* A login waits for its look-up. */
static void explain_lookup(struct client_wait *wait, const struct client *c)
{
	const struct lookup *l = c->login->wait.lookup;

	if (l && l->phase == LOOKUP_QUEUED) {
		pool_wait_of(l->pool, c->peer.world->now, wait);
		return;
	}
	*wait = (struct client_wait){ .on = pool_limit_names[LIMIT_INTERNAL] };
	if (l && l->server) {
		wait->on = "auth_query";
		diagnosis_hold(wait, &l->server->pooled, c->peer.world->now);
		snprintf(wait->text, WAIT_TEXT,
			 "auth_query runs on the server connection S-0x%" PRIx64, wait->server);
	} else {
		snprintf(wait->text, WAIT_TEXT, "the login waits for its turn to run auth_query");
		snprintf(wait->hint, WAIT_HINT, "Raise max_auth_query_connections.");
	}
}

/* Another part of the pooler delays the login. Returns whether this is the case. */
static bool explain_login(struct client_wait *wait, const struct login *l)
{
	const char *on = NULL, *words = NULL;

	switch (l->step) {
	case LOGIN_TLS_TURN:
		on = "TLS handshakes";
		words = "the handshakes of other clients come first";
		break;
	case LOGIN_VERIFY:
		on = "verifier";
		words = "a process checks the password with PAM or LDAP (SHOW VERIFIERS)";
		break;
	case LOGIN_DERIVE:
		on = "verifier";
		words = "a key is derived from the password (SHOW VERIFIERS)";
		break;
	case LOGIN_REFUSED:
		on = "login_failure_delay";
		words = "the login has failed, and its error is delayed";
		break;
	case LOGIN_PACKET:
	case LOGIN_HEADER:
	case LOGIN_TLS_HELLO:
	case LOGIN_TLS:
	case LOGIN_LOOKUP:
	case LOGIN_PASSWORD:
	case LOGIN_SASL_FIRST:
	case LOGIN_SASL_FINAL:
	case LOGIN_PROVEN:
		return false;
	}
	*wait = (struct client_wait){ .on = on, .since = l->step_since };
	snprintf(wait->text, WAIT_TEXT, "%s", words);
	return true;
}

bool client_wait_of(const struct client *c, struct client_wait *wait)
{
	const struct server *s = c->pooled.link ? server_of(c->pooled.link) : NULL;

	switch ((enum client_state)c->pooled.state) {
	case CLIENT_WAITING:
	case CLIENT_WAITING_LOGIN:
		pool_wait_of(c->pooled.pool, c->peer.world->now, wait);
		break;
	case CLIENT_LOOKUP:
		explain_lookup(wait, c);
		break;
	case CLIENT_WAITING_CANCEL:
		*wait = (struct client_wait){ .on = "cancel requests" };
		snprintf(wait->text, WAIT_TEXT,
			 "other cancel requests of the pool come first, twice pool_size at a time");
		break;
	case CLIENT_ACTIVE:
		if (!s || !s->task || s->task->serves_client)
			return false;
		*wait = (struct client_wait){ .on = s->task->name,
					      .since = s->task_since,
					      .server = s->peer.id,
					      .held = c->peer.world->now - s->task_since };
		snprintf(wait->text, WAIT_TEXT,
			 "pgweir runs a query of its own on S-0x%" PRIx64 ": %s", wait->server,
			 s->task->description);
		return true;
	case CLIENT_STARTUP:
	case CLIENT_AUTH:
		return c->login && explain_login(wait, c->login);
	case CLIENT_IDLE: case CLIENT_ACTIVE_CANCEL: case CLIENT_DEAD: case CLIENT_STATES:
		return false;
	}
	wait->since = c->pooled.since;
	return true;
}

/* ---- EXPLAIN CLIENT ---- */

struct lines {
	void (*line)(void *context, const char *text);
	void *context;
};

__attribute__((format(printf, 2, 3))) static void add_line(const struct lines *to,
							   const char *format, ...)
{
	char text[WAIT_TEXT + 512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	to->line(to->context, text);
}

/* "Login: 3.2 ms (client 1.1 ms, server 2.1 ms)". */
static void add_login(const struct lines *to, const struct client *c)
{
	static const char *const names[LOGIN_PARTS] = {
		[PART_CLIENT] = "client",     [PART_TLS] = "TLS",
		[PART_LOOKUP] = "auth_query", [PART_CHECK] = "password check",
		[PART_SERVER] = "server",
	};
	char parts[256] = "", time[TIME_TEXT];
	usec_t sum = 0;

	for (enum login_part part = 0; part < LOGIN_PARTS; part++) {
		usec_t took = (usec_t)latency_bucket_value(c->login_facts.took[part]);
		size_t used = strlen(parts);

		if (c->login && login_step_part(c->login->step) == part)
			took += c->peer.world->now - c->login->step_since;
		sum += took;
		if (took > 0)
			snprintf(parts + used, sizeof(parts) - used, "%s%s %s",
				 used > 0 ? ", " : "", names[part], time_text(took, time));
	}
	time_text(sum, time);
	if (c->login)
		add_line(to, "  Login: in progress for %s (%s), waits for: %s", time, parts,
			 names[login_step_part(c->login->step)]);
	else
		add_line(to, "  Login: %s%s%s%s", time, *parts ? " (" : "", parts,
			 *parts ? ")" : "");
}

static void add_server(const struct lines *to, const struct client *c, usec_t now)
{
	const struct server *s = server_of(c->pooled.link);
	char text[256], time[TIME_TEXT], pins[PIN_TEXT];

	add_line(to, "  Server: %s, process %" PRIu32 ", for %s",
		 server_text(s, text, sizeof(text)), s->backend_pid,
		 time_text(now - s->pooled.since, time));
	if (c->pooled.pins)
		add_line(to, "  Pins: %s, for %s", pins_text(c->pooled.pins, pins),
			 time_text(c->session ? now - c->session->pinned_since : 0, time));
}

void client_explain(const struct client *c, void (*line)(void *context, const char *text),
		    void *context)
{
	const struct lines to = { line, context };
	const char *name = c->params ? params_get(c->params, PARAM_APPLICATION_NAME) : NULL;
	usec_t now = c->peer.world->now;
	char text[256], time[TIME_TEXT], shown[PRINTABLE_NAME];
	struct client_wait wait;
	bool waits = client_wait_of(c, &wait);

	add_line(&to, "Client %s", client_text(c, text, sizeof(text)));
	if (name && *name)
		add_line(&to, "  Application: %s", printable_name(name, shown, sizeof(shown)));
	add_line(&to, "  Connected: %s, %s ago",
		 clock_format(c->peer.connected_at, 0, text, sizeof(text)),
		 time_text(c->peer.world->now_wall - c->peer.connected_at, time));
	add_login(&to, c);
	add_line(&to, "  State: %s, for %s", client_state_rows[c->pooled.state].name,
		 time_text(now - c->pooled.since, time));
	if (c->pooled.link)
		add_server(&to, c, now);
	if (c->activity.in_transaction && c->activity.transaction_started > 0)
		add_line(&to, "  Transaction: for %s%s",
			 time_text(now - c->activity.transaction_started, time),
			 c->activity.query_started > 0 ? "" : ", waiting for the client");
	if (c->activity.query_started > 0)
		add_line(&to, "  Query: for %s", time_text(now - c->activity.query_started, time));
	if (prepared_client_count(c) > 0)
		add_line(&to, "  Prepared statements: %u", prepared_client_count(c));
	if (waits)
		add_line(&to, "  Wait: for %s, for %s: %s.%s%s", wait.on,
			 time_text(now - wait.since, time), wait.text, *wait.hint ? " " : "",
			 wait.hint);
	if (c->last_wait.took > 0)
		add_line(&to, "  Last wait: %s, for %s, ended %s ago",
			 time_text((usec_t)latency_bucket_value(c->last_wait.took), time),
			 c->last_wait.limit != LIMIT_NONE && c->last_wait.limit < POOL_LIMITS
				 ? pool_limit_names[c->last_wait.limit]
				 : "server",
			 time_text(now - c->last_wait.ended_at * USEC, text));
}
