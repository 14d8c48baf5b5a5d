/*
 * The conditions of the alarms.
 *
 * Once a second, alarms_look() compares the world with each condition and raises the alarm of each
 * true condition; alarm.c begins and ends them. The rooms below only keep the facts that they need
 * themselves, and know nothing of alarms: a host its last failures (struct host_failure), a pool
 * its failed login and the limit that holds its queue, roles the primary, the log its lost lines.
 *
 * A look walks over the hosts, pools and databases, so it costs about as much as one SHOW POOLS,
 * and nothing for each query. Conditions that come and go in normal operation count only after
 * some time: a wait after WAIT_LONG, a login at a server after OPENING_LONG, a database without a
 * primary after PRIMARY_LONG.
 */
#include "core/alarm_list.h"

#include "auth/client_address.h"
#include "backend/server_info.h"
#include "base/log.h"
#include "core/diagnosis.h"
#include "pool/host.h"
#include "pool/role.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LOOK_EVERY USEC
#define WAIT_LONG (2 * USEC)
#define OPENING_LONG (3 * USEC)
#define PRIMARY_LONG (2 * USEC)
/* a refused login says nothing about the server after this time without an attempt */
#define REFUSAL_OLD (600 * USEC)
#define LAG_LONG (60 * USEC)		/* without max_lag */
#define LOGINS_FAILED 5			/* failed logins of an address ... */
#define LOGINS_RECENT (30 * USEC)	/* ... the last one within this time */

/* ---- hosts ---- */

enum alarm_kind alarm_of_failure(const struct host_failure *f)
{
	if (f->kind == FAILURE_FULL)
		return ALARM_HOST_FULL;
	if (f->kind == FAILURE_BUSY)
		return ALARM_HOST_STARTING;
	if (f->why == REASON_DNS_FAILED)
		return ALARM_HOST_NAME;
	return f->why == REASON_SERVER_TLS ? ALARM_HOST_TLS : ALARM_HOST_UNREACHABLE;
}

/* Returns the lowest max_lag of the databases that list the host, or LAG_LONG. */
static usec_t lag_allowed(const struct host *host)
{
	usec_t least = 0;

	for (const struct database *d = host->pools->databases; d; d = d->hh.next) {
		usec_t most = first_set(CONF_UNSET, d->conf->max_lag,
					host->pools->conf->settings.max_lag);

		if (most > 0 && (least == 0 || most < least) && roles_list(d, host))
			least = most;
	}
	return least > 0 ? least : LAG_LONG;
}

/* A host with a role: databases ask for it. */
static void look_at_role(struct world *w, const struct host *host)
{
	const struct host_evidence *e = &host->evidence;
	usec_t allowed, silent = w->now - e->at;

	if (host->rivals > 0)
		alarm_raise(w, ALARM_SECOND_PRIMARY, host->key,
			    "it says that it is a primary, beside the primary in use; its timeline "
			    "is %" PRIu32,
			    e->timeline);
	if (host->is_of_another)
		alarm_raise(w, ALARM_OTHER_CLUSTER, host->key,
			    "its system identifier is %" PRIu64 ", not the last primary's",
			    e->system_id);
	if (host->is_warned)
		alarm_raise(w, ALARM_NOT_FOLLOWING, host->key, "%s", host->follows_why);
	if (host->is_disabled || host->is_drained || host_is_failing(host, w->now))
		return;
	if (e->at > 0 && silent > roles_fresh_for(host->pools) && silent > OPENING_LONG)
		alarm_raise(w, ALARM_HOST_UNREACHABLE, host->key,
			    "it has not answered for %" PRId64 " s", silent / USEC);
	if (e->claim != CLAIM_STANDBY || host->fresh_to == 0 || host->lag < USEC)
		return;
	allowed = lag_allowed(host);
	if (host->lag > allowed)
		alarm_raise(w, ALARM_LAG, host->key,
			    "it is %.1f s behind the primary, more than %.1f s",
			    (double)host->lag / USEC, (double)allowed / USEC);
}

static void look_at_hosts(struct world *w)
{
	for (const struct host *host = w->pools->hosts; host; host = host->hh.next) {
		const struct host_failure *f = &host->failure;

		if (host_is_failing(host, w->now))
			alarm_raise(w, alarm_of_failure(f), host->key,
				    "%s; attempts without success: %u in %" PRId64 " s", f->text,
				    f->count, (w->now - f->since) / USEC);
		if (host->role_users > 0)
			look_at_role(w, host);
	}
}

/* ---- databases with roles ---- */

static void look_at_roles(struct world *w, const struct roles *roles)
{
	usec_t since = roles->changed_at > roles->began_at ? roles->changed_at : roles->began_at;

	if (!roles->primary && w->now - since > PRIMARY_LONG)
		alarm_raise(w, ALARM_NO_PRIMARY, roles->database->name, "%s",
			    *roles->why ? roles->why : "no host says that it is the primary");
	for (unsigned i = 0; !roles->has_source && i < roles->count; i++) {
		const struct host *host = roles->places[i].host;

		if (roles->places[i].is_past && host->is_fresh)
			alarm_raise(w, ALARM_FORMER_PRIMARY, host->key,
				    "it says that it is the primary, with timeline %" PRIu32
				    ", but the last primary had timeline %" PRIu32,
				    host->evidence.timeline, roles->timeline);
	}
}

static void look_at_databases(struct world *w)
{
	for (const struct database *d = w->pools->databases; d; d = d->hh.next) {
		if (d->roles && !d->removed)
			look_at_roles(w, d->roles);
	}
}

/* ---- pools ---- */

/* Returns how long the first client of the queue has waited, and counts the queue. */
static usec_t longest_wait(const struct pool *pool, usec_t now, int *count)
{
	static const enum client_state queues[] = { CLIENT_WAITING, CLIENT_WAITING_LOGIN };
	usec_t longest = 0;

	*count = 0;
	for (size_t i = 0; i < sizeof(queues) / sizeof(queues[0]); i++) {
		struct list *first = list_first(&pool->clients[queues[i]]);
		const struct pool_client *c =
			first ? LIST_OBJECT(first, const struct pool_client, node) : NULL;

		*count += pool->client_count[queues[i]];
		if (c && now - c->since > longest)
			longest = now - c->since;
	}
	return longest;
}

/* Clients wait because of a limit. */
static void look_at_queue(struct world *w, const struct pool *pool)
{
	struct client_wait wait;
	char name[POOL_TEXT];
	int count;
	usec_t longest = longest_wait(pool, w->now, &count);

	if (longest < WAIT_LONG ||
	    (pool->held_by != LIMIT_POOL_SIZE && pool->held_by != LIMIT_DATABASE &&
	     pool->held_by != LIMIT_USER && pool->held_by != LIMIT_HOST))
		return;
	pool_wait_of(pool, w->now, &wait);
	alarm_raise(w, ALARM_POOL_USED_UP, pool_text(pool, name, sizeof(name)),
		    "clients that wait: %d, the first for %.1f s: %s", count,
		    (double)longest / USEC, wait.text);
}

/* The first server of the list has been in its login for the longest time. */
static void look_at_logins(struct world *w, const struct pool *pool)
{
	char name[POOL_TEXT];

	LIST_EACH(node, &pool->servers[SERVER_LOGIN]) {
		const struct pool_server *ps = LIST_OBJECT(node, const struct pool_server, node);

		if (w->now - ps->since < OPENING_LONG)
			return;
		if (ps->is_cancel || (ps->host && host_is_failing(ps->host, w->now)))
			continue;
		alarm_raise(w, ALARM_HOST_SLOW,
			    ps->host ? ps->host->key : pool_text(pool, name, sizeof(name)),
			    "a server connection is being opened for %.1f s",
			    (double)(w->now - ps->since) / USEC);
		return;
	}
}

static void look_at_pool(struct world *w, const struct pool *pool)
{
	const char *error = pool_login_error(pool);
	char name[POOL_TEXT];

	if (pool->login_failed && pool->login_failure == FAILURE_LASTING && error &&
	    w->now - pool->login_failed_at < REFUSAL_OLD)
		alarm_raise(w, ALARM_LOGIN_REFUSED, pool_text(pool, name, sizeof(name)), "%s%s%s",
			    pool->host ? pool->host->key : "", pool->host ? ": " : "", error);
	if (pool->client_count[CLIENT_WAITING] + pool->client_count[CLIENT_WAITING_LOGIN] > 0)
		look_at_queue(w, pool);
	if (pool->server_count[SERVER_LOGIN] > 0)
		look_at_logins(w, pool);
}

static void look_at_pools(struct world *w)
{
	LIST_EACH(node, &w->pools->all) {
		const struct pool *pool = LIST_OBJECT(node, const struct pool, node);

		if (!pool->database->is_console && !w->pools->suspended)
			look_at_pool(w, pool);
	}
}

/* ---- limits ---- */

/* Returns how many connections the reason has ended since the last look. */
static uint64_t ended_lately(const struct world *w, enum close_reason why)
{
	return w->pools->ended[why] - w->alarms->ended_by[why];
}

static void look_at_limits(struct world *w)
{
	static const enum close_reason limits[] = {
		REASON_MAX_DB_CLIENTS,	  REASON_MAX_USER_CLIENTS, REASON_MAX_CLIENT_CONN_PER_IP,
		REASON_MAX_LOGIN_CLIENTS, REASON_AUTH_QUEUE,	   REASON_NO_MEMORY,
	};
	int64_t most = w->conf->settings.max_client_conn;
	uint64_t refused = ended_lately(w, REASON_MAX_CLIENT_CONN);

	if (w->pools->clients >= most || refused > 0)
		alarm_raise(w, ALARM_MAX_CLIENT_CONN, "",
			    "%d of %" PRId64 " client connections are in use (max_client_conn); "
			    "clients refused since the start: %" PRIu64,
			    w->pools->clients, most, w->pools->ended[REASON_MAX_CLIENT_CONN]);
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		if (ended_lately(w, limits[i]) > 0)
			alarm_raise(w, ALARM_CLIENTS_REFUSED, close_reason_rows[limits[i]].name,
				    "%s; clients refused since the start: %" PRIu64,
				    close_reason_rows[limits[i]].text, w->pools->ended[limits[i]]);
	}
}

/* ---- addresses with failed logins ---- */

static void look_at_address(void *context, const char *address, const struct failure *f)
{
	struct world *w = context;

	if (f->count >= LOGINS_FAILED && w->now - f->last < LOGINS_RECENT)
		alarm_raise(w, ALARM_FAILED_LOGINS, address,
			    "logins from this address that have failed: %" PRIu32, f->count);
}

/* ---- certificates ---- */

static void look_at_certificate(struct world *w, const struct tls_context *context)
{
	struct tls_certificate own;
	char when[64];

	if (!tls_context_certificate(context, w->now_wall, &own) || !own.expires_soon)
		return;
	alarm_raise(w,
		    own.to <= w->now_wall ? ALARM_CERTIFICATE_EXPIRED : ALARM_CERTIFICATE_EXPIRES,
		    own.file, "it %s at %s", own.to <= w->now_wall ? "has expired" : "expires",
		    clock_format(own.to, 0, when, sizeof(when)));
}

static void look_at_certificates(struct world *w)
{
	look_at_certificate(w, w->tls.clients);
	look_at_certificate(w, w->tls.servers);
	for (size_t i = 0; i < w->tls.own_count; i++)
		look_at_certificate(w, w->tls.own[i].context);
}

/* ---- all ---- */

static void alarms_look(struct world *w)
{
	unsigned long long lost = log_lines_lost();

	look_at_hosts(w);
	look_at_databases(w);
	look_at_pools(w);
	look_at_limits(w);
	client_addresses_each_failure(w, look_at_address, w);
	look_at_certificates(w);
	if (w->reload.has_failed)
		alarm_raise(w, ALARM_RELOAD_REFUSED, "", "%s",
			    *w->reload.why ? w->reload.why : "see the log");
	if (lost > 0)
		alarm_raise(w, ALARM_LOG_LOST, "", "lines that could not be written: %llu", lost);
}

void alarms_tick(struct world *w)
{
	struct alarms *all = w->alarms;

	if (all->looked_at > 0 && w->now - all->looked_at < LOOK_EVERY)
		return;
	alarms_look(w);
	alarms_expire(w);
	all->looked_at = w->now;
	memcpy(all->ended_by, w->pools->ended, sizeof(all->ended_by));
}
