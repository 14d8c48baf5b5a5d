/*
 * Timeouts. About ten times a second, every connection that waits is compared with its limit;
 * connections have no timers.
 *
 * The lists of room pool are in the order in which a state began. If the limit is the same for the
 * whole list, only the head is checked. For limits that users can override, and for clients with a
 * server, the whole list is walked.
 */
#include "core/lifecycle.h"

#include "auth/auth.h"
#include "auth/lookup.h"
#include "auth/client_address.h"
#include "backend/derivation.h"
#include "backend/dial.h"
#include "state/notifiers.h"
#include "state/notify.h"
#include "state/server_session.h"
#include "backend/retire.h"
#include "state/session_values.h"
#include "base/assert.h"
#include "base/inline.h"
#include "base/log.h"
#include "base/mem.h"
#include "cancel/cancel.h"
#include "core/alarm.h"
#include "pool/drain.h"
#include "relay/release.h"
#include "relay/request.h"
#include "watch/watcher.h"

#include <stdio.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

/* from this number of clients on, their freed memory is worth returning to the system */
#define TRIM_FIRST 1000
#define TRIM_LAST 10				/* memory of fewer clients is not worth returning */

/* Whether `limit` is set (above 0) and has passed since `since`; `since` 0: not running. */
static bool tick_is_over(const struct world *w, usec_t since, usec_t limit)
{
	return limit > 0 && since > 0 && w->now - since >= limit;
}

static usec_t of_user(usec_t users, usec_t general)
{
	return users != CONF_UNSET ? users : general;
}

struct limits {
	usec_t client_idle, idle_transaction, query, transaction;
};

static struct limits limits_of(const struct client *c)
{
	const struct settings *set = &c->peer.world->conf->settings;
	const struct conf_user *u = c->pooled.login_user ? c->pooled.login_user->conf : NULL;

	if (!u)
		return (struct limits){ set->client_idle_timeout, set->idle_transaction_timeout,
					set->query_timeout, set->transaction_timeout };
	return (struct limits){
		of_user(u->client_idle_timeout, set->client_idle_timeout),
		of_user(u->idle_transaction_timeout, set->idle_transaction_timeout),
		of_user(u->query_timeout, set->query_timeout),
		of_user(u->transaction_timeout, set->transaction_timeout),
	};
}

/* Returns why a client with a server must end: its query, its transaction or its idle time is too
   long. */
static enum close_reason overdue_active(const struct client *c)
{
	const struct world *w = c->peer.world;
	const struct server *s = server_of(c->pooled.link);
	struct limits limits = limits_of(c);
	usec_t query_since = c->activity.query_started;

	/* The query includes setting the client's parameters on the server. The client may have all
	   answers, and have sent the beginning of a CopyData message: the server waits for its
	   rest. */
	if (s->task)
		query_since = s->task_since;
	else if (query_since == 0 && c->peer.passing > 0 && !c->peer.passing_dropped)
		query_since = c->activity.last;
	/* a replication stream is a query without an end */
	if (!c->login_facts.replication && tick_is_over(w, query_since, limits.query))
		return REASON_QUERY_TIMEOUT;
	if (c->activity.in_transaction &&
	    tick_is_over(w, c->activity.transaction_started, limits.transaction))
		return REASON_TRANSACTION_TIMEOUT;
	if (c->activity.query_started != 0 || s->task)
		return REASON_NONE;
	if (c->activity.in_transaction)
		return tick_is_over(w, c->activity.last, limits.idle_transaction)
			       ? REASON_IDLE_TRANSACTION
			       : REASON_NONE;
	if (c->pooled.pins &&
	    tick_is_over(w, c->activity.last, c->pooled.pool->allowed.pinned_idle_timeout) &&
	    !session_values_may_yield(c))
		return REASON_PINNED_IDLE;
	return tick_is_over(w, c->activity.last, limits.client_idle) ? REASON_CLIENT_IDLE
								   : REASON_NONE;
}

/* Whether the client is in a transaction, and no server knows of it yet (a BEGIN is held). */
static void end_overdue_begin(struct client *c)
{
	struct limits limits = limits_of(c);

	if (tick_is_over(c->peer.world, c->activity.transaction_started, limits.transaction))
		client_end(c, REASON_TRANSACTION_TIMEOUT, NULL);
	else if (tick_is_over(c->peer.world, c->activity.last, limits.idle_transaction))
		client_end(c, REASON_IDLE_TRANSACTION, NULL);
}

/* `walk`: the list of idle clients is not in the order of deadlines. */
static void tick_clients(struct pool *pool, bool walk)
{
	LIST_EACH_SAFE(node, &pool->clients[CLIENT_ACTIVE]) {
		struct client *c = client_of(LIST_OBJECT(node, struct pool_client, node));
		enum close_reason why = overdue_active(c);
		char text[PIN_TEXT];

		if (why == REASON_CLIENT_IDLE || why == REASON_PINNED_IDLE)
			client_end(c, why, pins_text(c->pooled.pins, text));
		else if (why != REASON_NONE)
			server_end(server_of(c->pooled.link), why, NULL);
	}
	LIST_EACH_SAFE(node, &pool->clients[CLIENT_IDLE]) {
		struct client *c = client_of(LIST_OBJECT(node, struct pool_client, node));

		if (c->console.is_connected)
			continue;
		if (request_holds_begin(c))
			end_overdue_begin(c);
		else if (tick_is_over(c->peer.world, c->pooled.since, limits_of(c).client_idle))
			client_end(c, REASON_CLIENT_IDLE, NULL);
		else if (!walk)
			return;
	}
}

/* client_login_timeout has passed: logs it if the login waits for a verifier or a derivation. */
static void log_overdue_login(const struct client *c)
{
	const struct login *l = c->login;
	int process = l && l->check ? verify_check_process(l->check) : 0;
	char who[256];

	client_text(c, who, sizeof(who));
	if (l && l->derivation.derivation)
		log_error("%s SCRAM: %s", who,
			  l->question == QUESTION_PASSWORD
				  ? "the password could not be compared with the secret in "
				    "client_login_timeout"
				  : "the secret for SCRAM could not be derived in "
				    "client_login_timeout");
	else if (process > 0)
		log_error("%s %s: no answer in client_login_timeout; the verifier at work on it "
			  "(process %d) is ended",
			  who, l->method == AUTH_LDAP ? "LDAP" : "PAM", process);
	else if (l && l->check)
		log_error(
			"%s %s: no verifier was free in client_login_timeout (max_auth_processes)",
			who, l->method == AUTH_LDAP ? "LDAP" : "PAM");
}

/* Clients without a pool. */
static void tick_unauthenticated(struct world *w)
{
	const struct settings *set = &w->conf->settings;

	for (int state = CLIENT_STARTUP; state <= CLIENT_LOOKUP; state++)
		LIST_EACH_SAFE(node, &w->pools->unauthenticated[state]) {
			struct client *c = client_of(LIST_OBJECT(node, struct pool_client, node));

			if (!tick_is_over(w, c->login_facts.since, set->client_login_timeout))
				continue;
			log_overdue_login(c);
			client_end(c,
				   refusal_or(c, state == CLIENT_LOOKUP
							 ? REASON_LOGIN_TIMEOUT_SERVER
							 : REASON_LOGIN_TIMEOUT),
				   NULL);
		}
	/* cancel requests on their way to a peer, or waiting for the parameters of their target */
	LIST_EACH_SAFE(node, &w->pools->unauthenticated[CLIENT_WAITING_CANCEL]) {
		struct client *c = client_of(LIST_OBJECT(node, struct pool_client, node));

		if (!tick_is_over(w, c->pooled.since, set->cancel_wait_timeout))
			break;
		client_end(c, REASON_CANCEL_WAIT_TIMEOUT, NULL);
	}
}

static void tick_logins(const struct pool *pool, enum client_state state, const struct world *w)
{
	LIST_EACH_SAFE(node, &pool->clients[state]) {
		struct client *c = client_of(LIST_OBJECT(node, struct pool_client, node));

		/* an internal request has no struct client */
		if (!c->pooled.is_internal && c->login &&
		    (state == CLIENT_WAITING_LOGIN || c->login_facts.replication) &&
		    tick_is_over(w, c->login_facts.since, w->conf->settings.client_login_timeout))
			client_end(c, REASON_LOGIN_TIMEOUT_SERVER, NULL);
	}
}

static void tick_servers(struct pool *pool, const struct world *w)
{
	const struct settings *set = &w->conf->settings;

	LIST_EACH_SAFE(node, &pool->servers[SERVER_LOGIN]) {
		struct server *s = server_of(LIST_OBJECT(node, struct pool_server, node));

		if (s->carries_for &&
		    tick_is_over(w, s->carries_for->pooled.since, set->cancel_wait_timeout))
			client_end(s->carries_for, REASON_CANCEL_WAIT_TIMEOUT, NULL);
		else
			dial_tick(s);
	}
	LIST_EACH_SAFE(node, &pool->servers[SERVER_TESTED]) {
		struct server *s = server_of(LIST_OBJECT(node, struct pool_server, node));

		if (tick_is_over(w, s->task_since, set->server_connect_timeout))
			server_end(s,
				   s->task && s->task->failure != REASON_NONE ? s->task->failure
									      : REASON_TEST_FAILED,
				   NULL);
	}
	LIST_EACH_SAFE(node, &pool->servers[SERVER_FINISHING])
		finish_tick(server_of(LIST_OBJECT(node, struct pool_server, node)));
	LIST_EACH_SAFE(node, &pool->servers[SERVER_LOOKUP]) {
		struct server *s = server_of(LIST_OBJECT(node, struct pool_server, node));
		enum close_reason why = lookup_overdue(s);

		if (why != REASON_NONE)
			server_end(s, why, NULL);
	}
	/* If the listener's server ends, its clients must reconnect and LISTEN again, possibly on
	   another host. */
	LIST_EACH_SAFE(node, &pool->servers[SERVER_LISTENING]) {
		struct server *s = server_of(LIST_OBJECT(node, struct pool_server, node));

		if (s->pooled.close_reason != REASON_NONE)
			server_end(s, (enum close_reason)s->pooled.close_reason, NULL);
		else if (s->task && tick_is_over(w, s->task_since, set->server_connect_timeout))
			server_end(s, REASON_TEST_FAILED, NULL);
		else if (!notify_server_has_room(pool, 0))
			server_end(s, REASON_OBSOLETE, NULL);
		else
			notify_server_tick(notify_server_of(pool));
	}
	LIST_EACH_SAFE(node, &pool->servers[SERVER_ACTIVE_CANCEL]) {
		struct server *s = server_of(LIST_OBJECT(node, struct pool_server, node));
		struct server *target = s->carries_for ? cancel_target_of(s->carries_for)
						       : s->own_cancel;

		if (!tick_is_over(w, s->pooled.since, set->server_connect_timeout))
			continue;
		/* it is unknown whether the signal will still be sent, so the target is closed when
		   it is released */
		if (target)
			pool_server_close_later(&target->pooled, REASON_CONNECT_TIMEOUT);
		server_end(s, REASON_CONNECT_TIMEOUT, NULL);
	}
	if (!set->server_fast_close)
		return;
	/* Servers marked for closing are closed without waiting for the end of the session. The
	   client gets the same error for every reason, as in PgBouncer. */
	LIST_EACH_SAFE(node, &pool->servers[SERVER_ACTIVE]) {
		struct server *s = server_of(LIST_OBJECT(node, struct pool_server, node));
		const struct client *c = client_of(s->pooled.link);

		if (s->pooled.close_reason != REASON_NONE &&
		    (!c->link_facts.shares_server || c->pooled.pins) && server_is_clean(s))
			server_end(s, REASON_DATABASE_CHANGED, NULL);
	}
}

/* At the end of a period. */
static void log_stats(const struct pools *pools, usec_t now)
{
	struct stats_history all = { .older_at = 0 };
	struct stats sum;

	for (const struct database *d = pools->databases; d; d = d->hh.next) {
		if (d->is_console || d->stats.older_at == 0)
			continue;
		stats_add(&all.total, &d->stats.total);
		stats_add(&all.older, &d->stats.older);
		if (all.older_at == 0 || d->stats.older_at < all.older_at)
			all.older_at = d->stats.older_at;
	}
	stats_average(&all, now, &sum);
	log_info("stats: %llu xacts/s, %llu queries/s, %llu client parses/s, %llu server parses/s, "
		 "%llu binds/s, %llu client logins/s, "
		 "in %llu B/s, out %llu B/s, xact %llu us, query %llu us, wait %llu us",
		 (unsigned long long)sum.xact_count, (unsigned long long)sum.query_count,
		 (unsigned long long)sum.client_parse_count,
		 (unsigned long long)sum.server_parse_count, (unsigned long long)sum.bind_count,
		 (unsigned long long)sum.client_login_count, (unsigned long long)sum.received,
		 (unsigned long long)sum.sent, (unsigned long long)sum.xact_time,
		 (unsigned long long)sum.query_time, (unsigned long long)sum.wait_time);
}

/*
 * Returns freed memory to the system. The allocator keeps free memory below blocks in use, so the
 * blocks of remaining clients prevent this. Therefore it is repeated each time half of the
 * remaining clients have left: about a dozen times for the largest crowd.
 */
static void give_back_memory(struct world *w)
{
	int here = w->pools->clients;
	struct last_tick *last = &w->last_tick;

	if (here > last->peak_clients)
		last->peak_clients = here;
	if (last->peak_clients < (last->peak_leaves ? TRIM_LAST : TRIM_FIRST) ||
	    here > last->peak_clients / 2)
		return;
#ifdef __GLIBC__
	/* also returns free pages between pages in use; about a millisecond per 10 MB */
	malloc_trim(0);
#endif
	last->peak_clients = here;
	last->peak_leaves = here >= TRIM_LAST;
}

/* ---- DRAIN ---- */

/*
 * Idle clients are ended by the tick. If the client is busy in every tick, it is ended at the end
 * of a transaction: while there is a drain, duration_log() is called then (world_set_durations),
 * and posts POST_LEAVE.
 */

/* Returns the host that the client cannot leave before it ends a transaction or a session; NULL:
   none. */
static const struct host *client_kept_host(const struct pool_client *client)
{
	return client->link ? client->link->host : client->listens ? client->pool->host : NULL;
}

bool client_leave(struct client *c)
{
	const struct server *s = c->pooled.link ? server_of(c->pooled.link) : NULL;
	usec_t now = c->peer.world->now;
	struct drain *drain;
	bool may_leave = c->pooled.state == CLIENT_IDLE;

	if (!c->pooled.login_user || c->login || c->console.is_connected)
		return false;
	drain = drain_due(c->peer.world->pools, c->pooled.pool->database,
			  c->pooled.login_user->name, client_kept_host(&c->pooled), c->peer.id,
			  now);
	if (!drain || c->peer.held_first || stream_unsent(&c->peer.stream) > 0)
		return false;
	/* a stream of replication has no transactions: it ends with the time */
	if (s && c->login_facts.replication && s->ledger.copy_in)
		may_leave = now >= drain->until && s->peer.passing == 0;
	else if (s)
		may_leave = server_is_clean(s);
	if (!may_leave)
		return false;
	drain->ended++;
	client_end(c, REASON_DRAIN, NULL);
	return true;
}

void world_drain_clients(struct world *w)
{
	char text[DRAIN_TEXT];

	LIST_EACH(of, &w->pools->drains)
		LIST_OBJECT(of, struct drain, node)->left = 0;
	LIST_EACH_SAFE(node, &w->peers.clients) {
		struct client *c = LIST_OBJECT(node, struct client, peer.node);

		if (!c->pooled.login_user)
			continue;
		LIST_EACH(of, &w->pools->drains) {
			struct drain *drain = LIST_OBJECT(of, struct drain, node);

			drain->left += drain_applies(drain, c->pooled.pool->database,
						     c->pooled.login_user->name,
						     client_kept_host(&c->pooled));
		}
	}
	LIST_EACH(of, &w->pools->drains) {
		struct drain *drain = LIST_OBJECT(of, struct drain, node);

		if (!drain->is_logged)
			log_info("DRAIN of %s begins: %zu clients, %lld s",
				 drain_text(drain, text, sizeof(text)), drain->left,
				 (long long)((drain->until - drain->since) / USEC));
		else if (drain->left == 0 && !drain->is_over)
			log_info("DRAIN of %s: no client is left, %llu were ended",
				 drain_text(drain, text, sizeof(text)),
				 (unsigned long long)drain->ended);
		drain->is_over |= drain->left == 0 && drain->is_logged;
		drain->is_logged = true;
	}
	/* no connection is read, and none is ended, while everything is suspended */
	LIST_EACH_SAFE(node, &w->peers.clients)
		if (!w->pools->suspended && !list_is_empty(&w->pools->drains))
			client_leave(LIST_OBJECT(node, struct client, peer.node));
	w->last_tick.had_drains = !list_is_empty(&w->pools->drains);
	world_set_durations(w);
}

NEVER_INLINE void world_tick(struct world *w)
{
	bool limits_hold = !w->last_tick.was_suspended && !w->pools->suspended,
	     idle_limits_differ = false, period_ended;

	w->wall_ahead = clock_wall() - clock_monotonic();
	w->now_wall = w->now + w->wall_ahead;
	for (size_t i = 0; i < w->conf->user_count; i++)
		idle_limits_differ |= w->conf->users[i]->client_idle_timeout != CONF_UNSET;
	if ((w->drain.step == DRAIN_WAIT_CLIENTS || w->drain.step == DRAIN_WAIT_SERVERS) &&
	    tick_is_over(w, w->drain.since, w->conf->settings.shutdown_timeout)) {
		log_warning("shutdown_timeout: the shutdown waits for %zu %s no longer",
			    world_drain_left(w),
			    w->drain.step == DRAIN_WAIT_CLIENTS ? "clients" : "servers");
		world_drain(w, DRAIN_NOW);
	}
	if (w->listen_sockets.leave_until > 0 && w->now >= w->listen_sockets.leave_until)
		world_stop_listen_sockets(w, STOP_TCP);
	lookups_tick(w->logins.lookups);
	if (!w->pools->suspended)
		watchers_tick(w->watchers);
	verifiers_tick(w->logins.verifiers, w->now);
	derivations_tick(w->logins.derivations, w->now);
	retire_tick(w);
	refusals_tick(w->logins.addresses, w->now);
	tick_unauthenticated(w);
	peers_tick(w);
	if (w->last_tick.had_drains || !list_is_empty(&w->pools->drains))
		world_drain_clients(w);
	if (w->notify.servers_wait)
		notifiers_continue(w);
	/* No connection is read while everything is suspended. Input that arrived meanwhile is read
	   after RESUME, before the limits apply again in the second tick after it. */
	w->last_tick.was_suspended = w->pools->suspended;
	LIST_EACH(node, &w->pools->all) {
		struct pool *pool = LIST_OBJECT(node, struct pool, node);

		if (!limits_hold)
			break;
		tick_clients(pool, idle_limits_differ || pool->database->conf->reads != READS_OFF);
		tick_logins(pool, CLIENT_WAITING_LOGIN, w);
		/* replication clients */
		if (pool->dedicated > 0)
			tick_logins(pool, CLIENT_WAITING, w);
		tick_servers(pool, w);
	}
	period_ended = pools_maintain(w->pools, w->now);
	if (period_ended && w->conf->settings.log_stats)
		log_stats(w->pools, w->now);
	alarms_tick(w);
	log_tick(w->now);
	give_back_memory(w);
}
