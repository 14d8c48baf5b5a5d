/*
 * Watchers. A watcher asks its host for role, position in the WAL, timeline and system identifier
 * in one query; the answer is evidence for pool/role_evidence.c, with the time before the query was
 * sent.
 *
 * A watcher logs in to one of the databases with the host in their lists, as host_check_user, as
 * the user of the database, as auth_user, or as an earlier user of the database, in this order. If
 * a login is refused, the next combination follows in the next attempt: a refused login shows that
 * the host lives. The server of a watcher is in no pool's limits, is not handed over in an online
 * restart, and stays during a PAUSE.
 *
 * Invariant: host->watcher->server is in SERVER_LOGIN or SERVER_WATCHING, or NULL.
 */
#include "watch/watcher.h"

#include "backend/dial.h"
#include "base/log.h"
#include "base/mem.h"
#include "pg/frame.h"
#include "pool/role.h"
#include "state/server_identity.h"
#include "state/task.h"
#include "watch/names.h"
#include "watch/source.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOUBT_PERIOD (USEC / 20)
#define READ_PERIOD (USEC / 10)		/* for databases with readers ... */
/* ... and while they wait for a fresh standby */
#define WAIT_PERIOD (USEC / 50)
#define LOOK_AGAIN USEC
/* a connection or an answer may take this long, also with a shorter period */
#define SILENT_LEAST USEC

/* The questions name the schema of each function and operator. A watcher can't set search_path at
   its login instead: PostgreSQL 18 reports it there, and clients take the parameters of the last
   login for their own defaults. */
#define EQUALS " operator(pg_catalog.=) "
/* default_transaction_read_only says nothing about the host if the owner of the database or of the
   role has chosen it. NULL for `off`. */
#define READ_ONLY \
	"case when pg_catalog.current_setting('default_transaction_read_only')" EQUALS \
	"'on' then (select case when source" EQUALS \
	"any('{database,user,database user}'::pg_catalog.text[]) then 'off' else 'on' end from " \
	"pg_catalog.pg_settings" \
	" where name" EQUALS "'default_transaction_read_only') end"
/* Keeps the session of the watcher. The owner of the database can set idle_session_timeout, by
   which PostgreSQL 14 and later end an idle session: it is set to 0 in a condition that is always
   true. */
#define KEEP_SESSION \
	" where pg_catalog.current_setting('idle_session_timeout',true) is null or " \
	"pg_catalog.set_config('idle_session_timeout','0',false)" EQUALS "'0'"
/* The process id, and, with the rights of pg_read_all_stats and since PostgreSQL 11, the server
   that feeds it: "4711 db1 5432". */
#define RECEIVER_PART(name) \
	"pg_catalog.jsonb_extract_path_text(pg_catalog.to_jsonb(receiver),'" name "')"
#define RECEIVER \
	"(select pg_catalog.concat_ws(' ',pid," RECEIVER_PART("sender_host") "," \
	RECEIVER_PART("sender_port") ") from pg_catalog.pg_stat_wal_receiver receiver)"
/* Each column is NULL or an error where the host has no answer, and an error only repeats the
   question: a promotion may happen within the query. */
#define QUESTION \
	"select pg_catalog.pg_is_in_recovery(),case when pg_catalog.pg_is_in_recovery() then " \
	"pg_catalog.pg_last_wal_replay_lsn() else pg_catalog.pg_current_wal_insert_lsn() " \
	"end,case when pg_catalog.pg_is_in_recovery() then greatest((select timeline_id from " \
	"pg_catalog.pg_control_checkpoint()),(select min_recovery_end_timeline from " \
	"pg_catalog.pg_control_recovery()),(select received_tli from " \
	"pg_catalog.pg_stat_wal_receiver))::pg_catalog.text else " \
	"pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()) end," \
	READ_ONLY "," \
	"(select system_identifier from pg_catalog.pg_control_system())," \
	RECEIVER "," SERVER_IDENTITY KEEP_SESSION
/* For servers that refuse the other query: services that imitate PostgreSQL have no WAL
   functions. */
#define SHORT_QUESTION \
	"select pg_catalog.pg_is_in_recovery(),null,null," READ_ONLY ",null,null,null"
enum column {
	COLUMN_RECOVERY,
	COLUMN_POSITION,
	COLUMN_TIMELINE,
	COLUMN_READ_ONLY,
	COLUMN_SYSTEM,
	COLUMN_RECEIVER,
	COLUMN_SERVER,
	COLUMNS
};

struct watcher {
	struct host *host;			/* a reference */
	struct server *server;			/* NULL: none */
	usec_t tried_at;			/* last dial or question */
	/* number of refused logins, which chooses the next database and user */
	unsigned attempt;
	bool is_short;				/* the server has refused QUESTION twice in a row */
	bool is_warned;				/* a refused login is logged once */
	/* of the question that is being answered; claim UNKNOWN: no row yet */
	struct host_evidence answer;
};

struct watchers {
	struct world *world;
	/* pending while a primary is in doubt, or a host has readers */
	struct event *timer;
	struct role_source *sources;			/* Patroni */
	struct role_name *names;		/* of hosts, with their addresses */
};

/* The pool of a watcher is at its host; after its end the server is at no host any more. */
static struct watcher *watcher_of(const struct server *s) { return s->pooled.pool->host->watcher; }

/* ---- the answer ---- */

/* Reads digits of this base after `text`, up to `size` characters. False: there are none, or too
   many for the type. */
static bool read_digits(const char *text, size_t size, int base, uint64_t most, uint64_t *value)
{
	*value = 0;
	for (size_t i = 0; i < size; i++) {
		const char *digits = "0123456789abcdef",
			   *digit = text[i] ? strchr(digits,
						     text[i] | ((text[i] >= 'A') ? 0x20 : 0))
					    : NULL;

		if (!digit || digit - digits >= base ||
		    *value > (most - (uint64_t)(digit - digits)) / (uint64_t)base)
			return false;
		*value = *value * (uint64_t)base + (uint64_t)(digit - digits);
	}
	return size > 0;
}

/* Reads a position such as 16/B374D848. */
static bool read_position(const char *text, size_t size, uint64_t *position)
{
	const char *slash = memchr(text, '/', size);
	uint64_t high, low;

	if (!slash || !read_digits(text, (size_t)(slash - text), 16, UINT32_MAX, &high) ||
	    !read_digits(slash + 1, size - (size_t)(slash + 1 - text), 16, UINT32_MAX, &low))
		return false;
	*position = high << 32 | low;
	return true;
}

/* Reads "4711" or "4711 db1 5432". The sender stays unknown if its name is too long for any
   host. */
static bool read_receiver(const char *text, size_t size, struct host_evidence *answer)
{
	const char *space = memchr(text, ' ', size);
	const char *last = space ? memrchr(text, ' ', size) : NULL;
	uint64_t number, port;
	int length = space ? (int)(last - space) - 1 : 0;

	if (!read_digits(text, space ? (size_t)(space - text) : size, 10, UINT32_MAX, &number))
		return false;
	answer->receiver = (uint32_t)number;
	if (!space)
		return true;
	if (length < 1 ||
	    !read_digits(last + 1, (size_t)(text + size - last - 1), 10, UINT16_MAX, &port))
		return false;
	if (length < SENDER_TEXT - 8)
		snprintf(answer->sender, SENDER_TEXT, "%.*s:%u", length, space + 1, (unsigned)port);
	return true;
}

bool watch_read_row(const uint8_t *body, size_t size, struct host_evidence *answer)
{
	struct pg_cursor c = pg_cursor_of(body, size);
	uint64_t number;

	if (pg_read_u16(&c) != COLUMNS)
		return false;
	for (enum column column = 0; column < COLUMNS; column++) {
		uint32_t length = pg_read_u32(&c);
		const char *text = (const char *)c.at;
		bool is_read = true;

		if (c.bad || (length != UINT32_MAX && length > (size_t)(c.end - c.at)))
			return false;
		if (length == UINT32_MAX) {
			if (column == COLUMN_RECOVERY)
				return false;
			continue;
		}
		c.at += length;
		switch (column) {
		case COLUMN_RECOVERY:
			is_read = length == 1 && (*text == 't' || *text == 'f');
			answer->claim = is_read && *text == 'f' ? CLAIM_PRIMARY : CLAIM_STANDBY;
			break;
		case COLUMN_POSITION:
			is_read = read_position(text, length, &answer->position);
			break;
		case COLUMN_TIMELINE:
			/* the name of a WAL file begins with the timeline; the answer of a standby
			   is a number */
			is_read = length == 24 ? read_digits(text, 8, 16, UINT32_MAX, &number)
					       : read_digits(text, length, 10, UINT32_MAX, &number);
			answer->timeline = is_read ? (uint32_t)number : 0;
			break;
		case COLUMN_READ_ONLY:
			answer->is_read_only = length == 2 && memcmp(text, "on", 2) == 0;
			break;
		case COLUMN_SYSTEM:
			is_read = read_digits(text, length, 10, UINT64_MAX, &answer->system_id);
			break;
		case COLUMN_RECEIVER:
			is_read = read_receiver(text, length, answer);
			break;
		case COLUMN_SERVER:
			is_read = read_digits(text, length, 10, UINT64_MAX, &answer->server_id);
			break;
		case COLUMNS:
			break;
		}
		if (!is_read)
			return false;
	}
	return c.at == c.end;
}

static void on_watcher_row(struct server *s, const struct pg_frame *row)
{
	struct watcher *watcher = watcher_of(s);
	struct host_evidence answer = { .at = watcher->answer.at };

	if (watch_read_row(row->body, row->here, &answer))
		watcher->answer = answer;
}

static enum task_end on_watcher_done(struct server *s, bool failed)
{
	struct watcher *watcher = watcher_of(s);
	struct world *w = s->peer.world;

	if (!failed && watcher->answer.claim != CLAIM_UNKNOWN) {
		watcher->attempt = 0;
		host_note(watcher->host, &watcher->answer, "asked", w->now);
	} else if (s->status != 'I') {
		server_end(s, REASON_WATCH_FAILED, "the session is in a transaction");
	} else if (!watcher->is_short && failed) {
		/* within a promotion the query fails once */
		watcher->is_short = watcher->attempt++ > 0;
	} else {
		server_end(s, REASON_WATCH_FAILED,
			   s->task_words ? s->task_words
					 : "the answer to the question for the role is malformed");
	}
	return TASK_END_NOTHING;
}

static const struct server_task task_watch = {
	.name = "watch",
	.description = "the question for the role of the host",
	.states = TASK_IN(WATCHING),
	.reads_rows = true,
	.keeps_error = true,
	.on_row = on_watcher_row,
	.on_done = on_watcher_done,
};

static void watcher_ask(struct watcher *watcher)
{
	struct server *s = watcher->server;

	watcher->tried_at = s->peer.world->now;
	watcher->answer = (struct host_evidence){ .at = s->peer.world->now };
	server_run(s, &task_watch, watcher->is_short ? SHORT_QUESTION : QUESTION);
}

void watch_begin(struct server *s)
{
	struct watcher *watcher = watcher_of(s);

	s->pooled.pool->host->accepted_at = s->pooled.since;
	pool_server_become(&s->pooled, SERVER_WATCHING, s->peer.world->now);
	if (!watcher || watcher->server != s) {
		server_end(s, REASON_WATCH_OVER, NULL);
		return;
	}
	watcher->attempt = 0;
	watcher->is_short = false;
	watcher->is_warned = false;
	watcher_ask(watcher);
}

/* ---- the connection ---- */

/* Returns the pool with the n-th combination of a database and a user, modulo their number, for
   databases with the host in their lists; NULL: there is none, or no memory. */
static struct pool *pool_for(struct world *w, struct host *host, unsigned n)
{
	const struct settings *set = &w->conf->settings;
	struct pool *found = NULL;
	unsigned count = 0;

	/* the first round counts */
	for (int round = 0; round < 2; round++) {
		unsigned at = 0;

		if (round == 1 && count == 0)
			return NULL;
		for (struct database *d = w->pools->databases; d; d = d->hh.next) {
			const char *names[] = { set->host_check_user, d->conf->user,
						d->conf->auth_user ? d->conf->auth_user
								   : set->auth_user };
			bool is_listed = false;

			for (unsigned i = 0; d->roles && i < d->roles->count; i++)
				is_listed |= d->roles->places[i].host == host;
			for (size_t i = 0; is_listed && i < sizeof(names) / sizeof(names[0]); i++) {
				struct user *user = round == 1 && names[i] && at == n % count
							    ? user_get(w->pools, names[i])
							    : NULL;
				struct pool *parent = user ? pool_get(d, user, true, w->now) : NULL;

				at += names[i] != NULL;
				if (parent)
					return pool_at_host(parent, host, w->now);
			}
			LIST_EACH(node, &d->members) {
				struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

				if (!is_listed || pool->host)
					continue;
				found = round == 1 && at == n % count ? pool : found;
				at++;
			}
		}
		count = at;
	}
	return found ? pool_at_host(found, host, w->now) : NULL;
}

static void watcher_connect_to(struct world *w, struct watcher *watcher)
{
	struct pool *pool = pool_for(w, watcher->host, watcher->attempt);

	watcher->tried_at = w->now;
	if (pool)
		watcher->server = dial_to_watch(pool, w);
}

void watch_end(struct server *s, enum close_reason why, const char *text)
{
	struct watcher *watcher = watcher_of(s);
	struct world *w = s->peer.world;
	struct host *host = s->pooled.pool->host;
	bool is_refused = s->dial && why == REASON_SERVER_SAID &&
			  s->dial->refusal != SERVER_REFUSAL_AWAY;

	if (!watcher || watcher->server != s)
		return;
	watcher->server = NULL;
	watcher->attempt += is_refused;
	if (s->peer.ended_in == SERVER_WATCHING)
		host_forget(host);
	if (close_reason_rows[why].fault == FAULT_POLICY && why != REASON_CONNECT_TIMEOUT &&
	    why != REASON_CONNECT_TIMED_OUT)
		return;
	if (is_refused || (s->dial && close_reason_rows[why].fault == FAULT_POOLER)) {
		host->errors++;
		host_note_alive(host, w->now);
		if (!watcher->is_warned)
			log_warning("host %s: the check of its role cannot log in: %s", host->key,
				    text);
		watcher->is_warned = true;
	} else if (s->peer.ended_in == SERVER_WATCHING) {
		/* an administrator may have ended this connection only: the next attempt shows
		   whether the host lives */
		host_doubt(host, w->now);
		watcher->tried_at = 0;
	} else if (why == REASON_CONNECT_FAILED || why == REASON_SERVER_CRASHED ||
		   why == REASON_SERVER_SAID) {
		host_note_failure(host, text, w->now);
	} else {
		/* no answer, or no address: the last claim becomes old. The next attempt is not due
		   at once, even if this attempt was short. */
		host->errors++;
		if (why != REASON_DNS_FAILED)
			host_doubt(host, w->now);
		watcher->tried_at = w->now;
	}
}

/* Ends the watcher of a host whose role no database asks for any more. */
static void watcher_free(struct host *host)
{
	struct watcher *watcher = host->watcher;

	host->watcher = NULL;
	if (watcher->server)
		server_end(watcher->server, REASON_WATCH_OVER, NULL);
	host_drop(host);
	mem_free(watcher);
}

/* When one of its databases has put the role of the host in doubt; 0: it is not in doubt.
   *readers_period: how often the host is asked for the readers of these databases. */
static usec_t doubted_since(const struct host *host, usec_t *readers_period)
{
	usec_t since = 0;

	*readers_period = INT64_MAX;

	for (const struct database *d = host->pools->databases; d; d = d->hh.next) {
		for (unsigned i = 0; d->roles && i < d->roles->count; i++) {
			if (d->roles->places[i].host != host)
				continue;
			if (d->roles->has_readers && *readers_period > READ_PERIOD)
				*readers_period = READ_PERIOD;
			if (d->roles->is_waited_for && d->roles->primary)
				*readers_period = WAIT_PERIOD;
			if (d->roles->doubt_since > since)
				since = d->roles->doubt_since;
		}
	}
	return since;
}

/* Whether the watcher logs in again, because the address may lead to another server now: after
   server_lifetime, and each second while a database without a primary lists this host only, or
   refuses it as a primary of the past. In a longer list a working connection to a standby is worth
   more: its readers go on. */
static bool is_to_look_again(const struct host *host, usec_t now)
{
	const struct watcher *watcher = host->watcher;
	usec_t lifetime = host->pools->conf->settings.server_lifetime;
	bool is_missed = false;

	if (!watcher->server || watcher->server->pooled.state != SERVER_WATCHING ||
	    host->login_wanted > host->accepted_at)
		return false;
	for (const struct database *d = host->pools->databases; d; d = d->hh.next) {
		for (unsigned i = 0; d->roles && !d->roles->primary && i < d->roles->count; i++) {
			const struct role_place *place = &d->roles->places[i];

			is_missed |= place->host == host &&
				     (d->roles->count == 1 || place->is_past);
		}
	}
	return (is_missed && now - host->accepted_at > LOOK_AGAIN) ||
	       (lifetime > 0 && now - watcher->server->pooled.opened > lifetime);
}

/* Takes the steps that are due for the host. Returns after which time the host must be visited
   again; the tick is soon enough for USEC. */
static usec_t watcher_visit(struct world *w, struct host *host)
{
	/* a second answer proves that its WAL receiver stays */
	bool is_unproven = host->evidence.receiver > 0 && !host->is_receiving, is_new;
	usec_t readers, doubt = doubted_since(host, &readers),
			period = w->conf->settings.host_check_period,
			silent = 2 * period > SILENT_LEAST ? 2 * period : SILENT_LEAST, again;
	struct watcher *watcher = host->watcher;
	struct server *s;

	if (!watcher) {
		watcher = mem_try(sizeof(*watcher));
		if (!watcher)
			return USEC;
		watcher->host = host;
		host->users++;
		host->watcher = watcher;
	}
	is_new = is_unproven && readers < INT64_MAX;
	if (is_to_look_again(host, w->now))
		host->login_wanted = w->now;
	s = watcher->server;
	if (s && s->pooled.close_reason != REASON_NONE)
		server_end(s, (enum close_reason)s->pooled.close_reason, NULL);
	else if (s && (s->dial || s->task) && w->now - watcher->tried_at >= silent)
		server_end(s, REASON_CONNECT_TIMEOUT, NULL);
	/* the connection may be older than the beginning of a shutdown */
	if (s && s->pooled.state == SERVER_WATCHING && host->login_wanted > host->accepted_at &&
	    !peer_is_ending(&s->peer)) {
		server_end(s, REASON_WATCH_OVER, NULL);
		watcher->server = s = NULL;
		watcher->tried_at = 0;
	}
	/* not more often while the host refuses the login */
	if (watcher->is_warned)
		doubt = 0;
	if (doubt > 0 && period > DOUBT_PERIOD)
		period = DOUBT_PERIOD;
	/* the timer is not exact */
	if (period > readers)
		period = readers - readers / 10;
	if (is_new && period > DOUBT_PERIOD)
		period = DOUBT_PERIOD;
	again = doubt > 0 || is_new ? DOUBT_PERIOD / 2 : USEC;
	if (again > readers)
		again = readers;
	if (w->now - watcher->tried_at < period && !(doubt > watcher->tried_at))
		return again;
	if (!watcher->server)
		watcher_connect_to(w, watcher);
	else if (!s->dial && !s->task && !peer_is_ending(&s->peer) &&
		 s->pooled.state == SERVER_WATCHING)
		watcher_ask(watcher);
	return again;
}

void watchers_tick(struct watchers *watchers)
{
	usec_t again = USEC, next_visit;
	struct world *w = watchers->world;
	struct host *host, *next;

	HASH_ITER(hh, w->pools->hosts, host, next) {
		if (host->role_users > 0) {
			next_visit = watcher_visit(w, host);
			again = next_visit < again ? next_visit : again;
		} else if (host->watcher) {
			watcher_free(host);
		}
	}
	sources_tick(&watchers->sources, w, again <= DOUBT_PERIOD);
	names_tick(&watchers->names, w);
	/* an earlier visit may have become necessary */
	if (again < USEC &&
	    (again < READ_PERIOD || !event_pending(watchers->timer, EV_TIMEOUT, NULL)))
		event_add(watchers->timer, &(struct timeval){ .tv_usec = (suseconds_t)again });
}

static void on_watcher_timer(evutil_socket_t fd, short what, void *context)
{
	struct watchers *watchers = context;

	(void)fd;
	(void)what;
	world_wake(watchers->world);
	if (!watchers->world->pools->suspended)
		watchers_tick(watchers);
}

struct watchers *watchers_new(struct world *w)
{
	struct watchers *watchers = mem_try(sizeof(*watchers));

	if (!watchers)
		return NULL;
	watchers->world = w;
	watchers->timer = event_new(w->base, -1, 0, on_watcher_timer, watchers);
	if (watchers->timer)
		return watchers;
	mem_free(watchers);
	return NULL;
}

void watchers_free(struct watchers **place)
{
	struct watchers *watchers = *place;
	struct host *host, *next;

	if (!watchers)
		return;
	HASH_ITER(hh, watchers->world->pools->hosts, host, next) {
		if (host->watcher)
			watcher_free(host);
	}
	sources_free(&watchers->sources);
	names_free(&watchers->names);
	event_free(watchers->timer);
	mem_free(watchers);
	*place = NULL;
}
