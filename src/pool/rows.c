/*
 * The rows of pools, databases and users for SHOW. Only this file knows where each value is kept.
 */
#include "pool/rows.h"

#include "base/mem.h"
#include "pool/host.h"
#include "pool/inside.h"
#include "pool/role.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLDERS_NAMED 3			/* pools that a text names */

/* ---- statistics ---- */

/*
 * Statistics of a database: totals that only grow, and their values at the ends of the last two
 * periods.
 *
 * An average is the growth of a total since the start of the last full period, divided by the time
 * since then, or, for times, by the number of transactions, queries or assignments. The average
 * covers one to two periods, as in PgBouncer. Before the first period has ended the average covers
 * the time since the creation of the history and one second more, so that the first moments do not
 * divide by nearly zero.
 *
 * Invariant: newer >= older in every field, and newer_at > older_at as soon as one period has
 * ended. A history begins with newer_at = its creation and older_at = 0, which means that no period
 * has ended yet.
 */

static uint64_t each(uint64_t time, uint64_t count)
{
	return count ? time / count : 0;
}

/* Returns the time at which the averages begin: the start of the last full period, or a second
   before the history began. */
static usec_t stats_since(const struct stats_history *history)
{
	return history->older_at > 0 ? history->older_at : history->newer_at - USEC;
}

void stats_average(const struct stats_history *history, usec_t now, struct stats *out)
{
	const struct stats *to = &history->total, *from = &history->older;
	uint64_t duration, grown;

	*out = (struct stats){ 0 };
	if (now <= stats_since(history))
		return;
	duration = (uint64_t)(now - stats_since(history));
/* grown * USEC / duration, without a product that could overflow */
#define X(name) \
	grown = to->name - from->name; \
	out->name = grown / duration * (uint64_t)USEC + \
		    grown % duration * (uint64_t)USEC / duration;
	STATS_EACH(X)
#undef X
	out->xact_time = each(to->xact_time - from->xact_time, to->xact_count - from->xact_count);
	out->query_time = each(to->query_time - from->query_time,
			       to->query_count - from->query_count);
	out->wait_time = each(to->wait_time - from->wait_time,
			      to->server_assignment_count - from->server_assignment_count);
}

/* ---- pools ---- */

/* load_balance_hosts has an effect only with a list of hosts. */
static const char *load_balance_of(const struct database *d)
{
	if (d->conf->host_count <= 1)
		return NULL;
	return setting_word(WORDS_LOAD_BALANCE,
			    d->conf->load_balance_hosts == CONF_UNSET && !d->roles
				    ? BALANCE_ROUND_ROBIN
				    : d->conf->load_balance_hosts);
}

static int rows_count_of(const struct list *list)
{
	int count = 0;

	LIST_EACH(node, list)
		count++;
	return count;
}

static int compare_pools(const void *a, const void *b)
{
	const struct pool *const *one = a, *const *other = b;
	int order = strcmp((*one)->database->name, (*other)->database->name);

	order = order ? order : strcmp((*one)->user->name, (*other)->user->name);
	return order ? order
		     : strcmp((*one)->host ? (*one)->host->key : "",
			      (*other)->host ? (*other)->host->key : "");
}

/* The setting or condition that keeps the clients of a pool waiting. */
const char *const pool_limit_names[POOL_LIMITS] = {
	[LIMIT_POOL_SIZE] = "pool_size",
	[LIMIT_DATABASE] = "max_db_connections",
	[LIMIT_USER] = "max_user_connections",
	[LIMIT_HOST] = "max_host_connections",
	[LIMIT_INTERNAL] = "max_auth_query_connections",
	[LIMIT_ONE_LOGIN] = "server login",
	[LIMIT_LOGIN_RETRY] = "server_login_retry",
	[LIMIT_PAUSED] = "pause",
	[LIMIT_DRAINING] = "shutdown",
	[LIMIT_ROLE] = "target_session_attrs",
};
/* The queues: look-ups, queries and logins. */
static const enum client_state queues[] = { CLIENT_STARTUP, CLIENT_WAITING, CLIENT_WAITING_LOGIN };

/* The role of a host for clients of one database. */
static const char *role_at(const struct roles *roles, const struct host *host)
{
	if (roles && roles->primary == host)
		return "primary";
	for (unsigned i = 0; roles && i < roles->count; i++) {
		if (roles->places[i].host == host && host->is_fresh &&
		    host->evidence.claim == CLAIM_STANDBY &&
		    role_place_follows(roles, &roles->places[i]))
			return "standby";
	}
	return "unknown";
}

/* The hosts' servers divided by the pools that use them, rounded up. hosts_count() was called. */
static int64_t host_share_of(const struct pool *pool)
{
	int64_t limit = pool->pools->conf->settings.max_host_connections, share = 0;

	for (unsigned i = 0; limit > 0 && i < pool->place_count; i++) {
		int64_t sharers = pool->places[i].host->sharers > 0 ? pool->places[i].host->sharers
								    : 1;

		share += (limit + sharers - 1) / sharers;
	}
	return share;
}

void pool_row_of(const struct pool *pool, usec_t now, struct pool_row *row)
{
	const int *clients = pool->client_count, *servers = pool->server_count;
	int waiting = clients[CLIENT_STARTUP] + clients[CLIENT_WAITING] +
		      clients[CLIENT_WAITING_LOGIN];
	const char *held_by = NULL;
	usec_t longest = 0;

	for (size_t w = 0; w < sizeof(queues) / sizeof(queues[0]); w++) {
		const struct pool_client *first = client_first(pool, queues[w]);

		if (first && now - first->since > longest)
			longest = now - first->since;
	}
	if (waiting > 0 && pool->held_by != LIMIT_NONE)
		held_by = pool_limit_names[pool->held_by];
	else if (clients[CLIENT_STARTUP] > 0)
		held_by = pool_limit_names[LIMIT_INTERNAL];
	*row = (struct pool_row){
		.pool = pool,
		.database = pool->database->name,
		.user = pool->user->name,
		.clients = clients[CLIENT_ACTIVE] + clients[CLIENT_IDLE],
		.waiting = waiting,
		.active_cancel_requests = clients[CLIENT_ACTIVE_CANCEL],
		.waiting_cancel_requests = clients[CLIENT_WAITING_CANCEL],
		.active = servers[SERVER_ACTIVE] + servers[SERVER_LOOKUP] +
			  servers[SERVER_LISTENING] + servers[SERVER_FINISHING],
		.active_cancel = servers[SERVER_ACTIVE_CANCEL] + pool->apart_logins,
		.being_canceled = servers[SERVER_BEING_CANCELED],
		.idle = servers[SERVER_IDLE],
		.used = servers[SERVER_USED],
		.tested = servers[SERVER_TESTED],
		.login = servers[SERVER_LOGIN] - pool->apart_logins,
		.longest_wait = longest,
		.mode = setting_word(WORDS_POOL_MODE, pool->allowed.mode),
		.load_balance = load_balance_of(pool->database),
		.link = pool->allowed.mode == MODE_SESSION
				? setting_word(WORDS_SESSION_LINK, pool->allowed.link)
				: NULL,
		.state = pool->allowed.mode != MODE_SESSION
				 ? setting_word(WORDS_SESSION_STATE, pool->allowed.state)
				 : NULL,
		.size = pool->allowed.size,
		.min_size = pool->allowed.min_size,
		.reserve = pool->allowed.reserve,
		.host_share = host_share_of(pool),
		.pinned = pool->pinned,
		.listening = pool->listening,
		.notifications = pool->notifications,
		.gone_cancels = pool->gone_cancels,
		.gone_kept = pool->gone_kept,
		.read_asks = pool->read_asks,
		.state_asks = pool->state_asks,
		.state_restores = pool->state_restores,
		.held_by = held_by,
		.is_console = pool->database->is_console,
	};
	if (pool->host && pool->host != pool->pools->no_host)
		row->role = role_at(pool->database->roles, pool->host);
	if (pool->host)
		row->host = row->role ? pool->host->key : POOL_NO_HOST;
}

bool pools_each_row(const struct pools *pools, usec_t now,
		    void (*give)(void *context, const struct pool_row *row), void *context)
{
	const struct pool **sorted = mem_try(((size_t)rows_count_of(&pools->all) + 1) *
					     sizeof(*sorted));
	struct pool_row row;
	size_t count = 0;

	if (!sorted)
		return false;
	LIST_EACH(node, &pools->all) {
		const struct pool *pool = pool_at(node);

		/* at many hosts a pool has only the connection that asks for the role of the
		   host */
		if (!pool->host || pool->live > 0 || pool_clients(pool) > 0)
			sorted[count++] = pool;
	}
	if (count > 0)
		qsort(sorted, count, sizeof(*sorted), compare_pools);
	hosts_count(pools);
	for (size_t i = 0; i < count; i++) {
		pool_row_of(sorted[i], now, &row);
		give(context, &row);
	}
	mem_free(sorted);
	return true;
}

void pools_sum_row(const struct pools *pools, usec_t now, struct pool_row *sum)
{
	struct pool_row row;

	*sum = (struct pool_row){ .pool = NULL };
	LIST_EACH(node, &pools->all) {
		pool_row_of(pool_at(node), now, &row);
		if (row.is_console)
			continue;
		sum->clients += row.clients;
		sum->waiting += row.waiting;
		sum->active += row.active;
		sum->idle += row.idle;
		sum->used += row.used;
		sum->tested += row.tested;
		sum->login += row.login;
		sum->pinned += row.pinned;
		if (row.longest_wait > sum->longest_wait)
			sum->longest_wait = row.longest_wait;
	}
}

/* ---- what a limit is used up by ---- */

static int64_t pool_takes(const struct pool *pool, bool of_clients)
{
	const int *clients = pool->client_count;

	if (!of_clients)
		return pool->live;
	return clients[CLIENT_IDLE] + clients[CLIENT_ACTIVE] + clients[CLIENT_WAITING] +
	       clients[CLIENT_WAITING_LOGIN];
}

const char *pool_holding_text(const struct pool *pool, const struct user *user,
			      enum pool_holding what, char buf[HOLDING_TEXT])
{
	const struct database *database = pool->database;
	bool of_user = what == HOLDING_USER_SERVERS || what == HOLDING_USER_CLIENTS;
	bool of_clients = what == HOLDING_DATABASE_CLIENTS || what == HOLDING_USER_CLIENTS;
	const struct list *members = of_user ? &user->members : &database->members;
	const struct pool *most[HOLDERS_NAMED] = { NULL };
	const struct budget *budget;
	char name[PRINTABLE_NAME];
	size_t used;
	const struct { const char *setting; const struct budget *budget;
	} limits[] = {
		[HOLDING_DATABASE_SERVERS] = { "max_db_connections", database->servers },
		[HOLDING_USER_SERVERS] = { "max_user_connections", user ? user->servers : NULL },
		[HOLDING_DATABASE_CLIENTS] = { "max_db_client_connections", database->clients },
		[HOLDING_USER_CLIENTS] = { "max_user_client_connections",
					   user ? user->clients : NULL },
	};

	LIST_EACH(node, members) {
		const struct pool *each = of_user ? LIST_OBJECT(node, struct pool, of_user)
						  : LIST_OBJECT(node, struct pool, of_database);

		for (int i = 0; i < HOLDERS_NAMED && pool_takes(each, of_clients) > 0; i++) {
			const struct pool *other = most[i];

			if (other && pool_takes(other, of_clients) >= pool_takes(each, of_clients))
				continue;
			most[i] = each;
			each = other;
			if (!each)
				break;
		}
	}
	budget = limits[what].budget;
	snprintf(buf, HOLDING_TEXT, "the %s has %" PRId64 " of %" PRId64 " %s connections (%s)",
		 of_user ? "user" : "database", budget ? budget->used : 0,
		 budget ? budget->limit : 0, of_clients ? "client" : "server",
		 limits[what].setting);
	for (int i = 0; i < HOLDERS_NAMED && most[i]; i++) {
		used = strlen(buf);
		snprintf(buf + used, HOLDING_TEXT - used, "%s%" PRId64 " of %s",
			 i > 0 ? ", " : ": ", pool_takes(most[i], of_clients),
			 printable_name(of_user ? most[i]->database->name : most[i]->user->name,
					name, sizeof(name)));
	}
	return buf;
}

struct pool_server *pool_longest_in_use(const struct pool *pool, enum pool_limit limit)
{
	const struct list *members = limit == LIMIT_USER ? &pool->user->members
							 : &pool->database->members;
	struct pool_server *longest = NULL;

	if (limit == LIMIT_HOST)
		return pool_hosts_longest_in_use(pool);
	/* the list of a state is in the order of its beginning */
	if (limit != LIMIT_DATABASE && limit != LIMIT_USER) {
		struct list *first = list_first(&pool->servers[SERVER_ACTIVE]);

		return first ? server_at(first) : NULL;
	}
	LIST_EACH(node, members) {
		const struct pool *each = limit == LIMIT_USER
						  ? LIST_OBJECT(node, struct pool, of_user)
						  : LIST_OBJECT(node, struct pool, of_database);
		struct list *first = list_first(&each->servers[SERVER_ACTIVE]);

		if (first && (!longest || server_at(first)->since < longest->since))
			longest = server_at(first);
	}
	return longest;
}

/* ---- databases ---- */

static int compare_databases(const void *a, const void *b)
{
	const struct database *const *one = a, *const *other = b;

	return strcmp((*one)->name, (*other)->name);
}

bool databases_each_row(const struct pools *pools,
			void (*give)(void *context, const struct database_row *row), void *context)
{
	const struct settings *set = &pools->conf->settings;
	const struct database **sorted = mem_try((HASH_COUNT(pools->databases) + 1) *
						 sizeof(*sorted));
	size_t count = 0;

	if (!sorted)
		return false;
	for (const struct database *d = pools->databases; d; d = d->hh.next)
		sorted[count++] = d;
	qsort(sorted, count, sizeof(*sorted), compare_databases);
	for (size_t i = 0; i < count; i++) {
		const struct database *d = sorted[i];
		const struct conf_database *conf = d->conf;
		struct database_row row;

		row = (struct database_row){
			.name = d->name,
			.host = conf->host,
			.port = conf->hosts[0].port,
			.dbname = conf->dbname ? conf->dbname : d->name,
			.forced_user = conf->user,
			.size = first_set(CONF_UNSET, conf->pool_size, set->default_pool_size),
			.min_size = first_set(CONF_UNSET, conf->min_pool_size, set->min_pool_size),
			.reserve = first_set(CONF_UNSET, conf->reserve_pool_size,
					     set->reserve_pool_size),
			.server_lifetime = first_set(CONF_UNSET, conf->server_lifetime,
						     set->server_lifetime),
			.mode = setting_word(WORDS_POOL_MODE, conf->pool_mode),
			.link = setting_word(WORDS_SESSION_LINK, conf->session_link),
			.state = setting_word(WORDS_SESSION_STATE, conf->session_state),
			.sslmode = setting_word(WORDS_SSLMODE, conf->sslmode),
			.load_balance = load_balance_of(d),
			.max_servers = d->servers->limit,
			.max_clients = d->clients->limit,
			.servers = d->servers->used,
			.clients = d->clients->used,
			.pools = rows_count_of(&d->members),
			.is_paused = d->paused,
			.is_disabled = d->disabled,
			.is_automatic = d->automatic,
			.is_removed = d->removed,
			.stats = &d->stats,
		};
		give(context, &row);
	}
	mem_free(sorted);
	return true;
}

void pools_sum_stats(const struct pools *pools, struct stats_history *sum)
{
	*sum = (struct stats_history){ .older_at = 0 };
	for (const struct database *d = pools->databases; d; d = d->hh.next) {
		const struct stats_history *one = &d->stats;

		stats_add(&sum->total, &one->total);
		stats_add(&sum->older, &one->older);
		if (sum->older_at == 0 || stats_since(one) < sum->older_at)
			sum->older_at = stats_since(one);
	}
}

/* ---- hosts ---- */

static int compare_hosts(const void *a, const void *b)
{
	const struct host *const *one = a, *const *other = b;

	return strcmp((*one)->key, (*other)->key);
}

/* Returns a pool whose logins the host refuses until a setting changes (FAILURE_LASTING), or
   NULL. */
static const struct pool *refused_at(const struct host *host)
{
	LIST_EACH(node, &host->pools->all) {
		const struct pool *pool = pool_at(node);

		if (pool->host == host && pool->login_failed &&
		    (pool->login_failure == FAILURE_LASTING ||
		     pool->login_failure == FAILURE_MISSING))
			return pool;
	}
	return NULL;
}

/* The role and the state of a host, over all databases that list it. */
static void host_words(const struct host *host, usec_t now, struct host_row *row)
{
	bool is_doubtful = host->evidence.claim == CLAIM_UNKNOWN && !*host->why;

	for (const struct database *d = host->pools->databases; d; d = d->hh.next) {
		const struct roles *roles = d->roles;

		for (unsigned i = 0; roles && i < roles->count; i++) {
			if (roles->places[i].host != host)
				continue;
			if (!row->role || roles->primary == host)
				row->role = role_at(roles, host);
			is_doubtful |= roles->doubt_since > 0 && roles->primary == host;
		}
	}
	if (host->is_disabled || host->is_drained)
		row->state = host->is_disabled ? "disabled" : "draining";
	else if (!row->role)
		row->state = host_is_failing(host, now) ? host_failure_word(&host->failure) : "up";
	else if (host->is_of_another)
		row->state = "other cluster";
	else if (host->rivals > 0)
		row->state = "second primary";
	else if (is_doubtful)
		row->state = "in doubt";
	else if (host->evidence.claim == CLAIM_UNKNOWN)
		row->state = "down";
	else if (now - host->evidence.at > roles_fresh_for(host->pools))
		row->state = "stale";
	else if ((row->refused = refused_at(host)) != NULL)
		row->state = "refuses";
	else
		row->state = "up";
	row->why = *host->why ? host->why : NULL;
	if (!row->role && host_is_failing(host, now))
		row->why = host->failure.text;
	if (row->state && host->evidence.claim == CLAIM_STANDBY &&
	    following_word(host->following) && strcmp(row->state, "up") == 0) {
		row->state = following_word(host->following);
		row->why = host->follows_why;
	}
}

bool hosts_each_row(const struct pools *pools, usec_t now,
		    void (*give)(void *context, const struct host_row *row), void *context)
{
	const struct host **sorted = mem_try((HASH_COUNT(pools->hosts) + 1) * sizeof(*sorted));
	const struct settings *set = &pools->conf->settings;
	size_t count = 0;

	if (!sorted)
		return false;
	hosts_count(pools);
	for (const struct host *host = pools->hosts; host; host = host->hh.next)
		sorted[count++] = host;
	if (count > 0)
		qsort(sorted, count, sizeof(*sorted), compare_hosts);
	for (size_t i = 0; i < count; i++) {
		const struct host *host = sorted[i];
		struct host_row row = {
			.host = host,
			.name = host->key,
			.servers = host->servers->used,
			.used = host->used,
			.pools = host->sharers,
			.waiting_pools = host->waiting,
			.max_servers = set->max_host_connections,
			.is_unreachable = host->unreachable_since > 0 &&
					  now - host->unreachable_since < set->server_login_retry,
		};

		host_words(host, now, &row);
		give(context, &row);
	}
	mem_free(sorted);
	return true;
}

/* ---- users ---- */

void user_row_of(const struct pools *pools, const char *name, struct user_row *row)
{
	const struct settings *set = &pools->conf->settings;
	const struct conf_user *conf = conf_user_find(pools->conf, name);
	const struct user *user;

	HASH_FIND_STR(pools->users, name, user);
	*row = (struct user_row){
		.size = conf ? conf->pool_size : CONF_UNSET,
		.reserve = conf ? conf->reserve_pool_size : CONF_UNSET,
		.mode = conf ? setting_word(WORDS_POOL_MODE, conf->pool_mode) : NULL,
		.link = conf ? setting_word(WORDS_SESSION_LINK, conf->session_link) : NULL,
		.state = conf ? setting_word(WORDS_SESSION_STATE, conf->session_state) : NULL,
		.max_servers = first_set(CONF_UNSET, conf ? conf->max_user_connections : CONF_UNSET,
					 set->max_user_connections),
		.max_clients = first_set(CONF_UNSET,
					 conf ? conf->max_user_client_connections : CONF_UNSET,
					 set->max_user_client_connections),
		.servers = user ? user->servers->used : 0,
		.clients = user ? user->clients->used : 0,
	};
}

/* ---- totals ---- */

struct pools_counts pools_count(const struct pools *pools)
{
	const int *unauthenticated = pools->unauthenticated_count;
	struct pools_counts counts = {
		.databases = (int)HASH_COUNT(pools->databases),
		.users = (int)HASH_COUNT(pools->users),
		.clients_in_login = unauthenticated[CLIENT_STARTUP] + unauthenticated[CLIENT_AUTH] +
				    unauthenticated[CLIENT_LOOKUP] +
				    unauthenticated[CLIENT_WAITING_LOGIN],
	};

	LIST_EACH(node, &pools->all) {
		const int *clients = pool_at(node)->client_count;

		counts.pools++;
		counts.clients_in_login += clients[CLIENT_AUTH] + clients[CLIENT_WAITING_LOGIN];
	}
	return counts;
}
