/*
 * The rows of pools, databases and users for SHOW. Only this file knows where each value is kept.
 */
#include "pool/rows.h"

#include "base/mem.h"
#include "pool/stats.h"

#include <stdlib.h>
#include <string.h>

/* ---- statistics ---- */

/*
 * Statistics of a database: totals that only grow, and their values at the ends of the last two periods.
 *
 * An average is the growth of a total since the start of the last full period, divided by the time since then, or, for times, by the number of
 * transactions, queries or assignments. The average covers one to two periods, as in PgBouncer. Before the first period has ended the average
 * covers the time since the creation of the history and one second more, so that the first moments do not divide by nearly zero.
 *
 * Invariant: newer >= older in every field, and newer_at > older_at as soon as one period has ended. A history begins with
 * newer_at = its creation and older_at = 0, which means that no period has ended yet.
 */

void stats_add(struct stats *sum, const struct stats *more)
{
#define X(name) sum->name += more->name;
	STATS_EACH(X)
#undef X
}

void stats_period_end(struct stats_history *history, usec_t now)
{
	history->older = history->newer;
	history->older_at = history->newer_at;
	history->newer = history->total;
	history->newer_at = now;
}

/* grown * USEC / duration, without the product that could overflow. */
static uint64_t per_second(uint64_t grown, uint64_t duration)
{
	return grown / duration * (uint64_t)USEC + grown % duration * (uint64_t)USEC / duration;
}

static uint64_t each(uint64_t time, uint64_t count)
{
	return count ? time / count : 0;
}

/* Returns the time at which the averages begin: the start of the last full period, or a second before the history began. */
static usec_t stats_since(const struct stats_history *history)
{
	return history->older_at > 0 ? history->older_at : history->newer_at - USEC;
}

void stats_average(const struct stats_history *history, usec_t now, struct stats *out)
{
	const struct stats *to = &history->total, *from = &history->older;
	uint64_t duration;

	*out = (struct stats){ 0 };
	if (now <= stats_since(history))
		return;
	duration = (uint64_t)(now - stats_since(history));
#define X(name) out->name = per_second(to->name - from->name, duration);
	STATS_EACH(X)
#undef X
	out->xact_time = each(to->xact_time - from->xact_time, to->xact_count - from->xact_count);
	out->query_time = each(to->query_time - from->query_time, to->query_count - from->query_count);
	out->wait_time = each(to->wait_time - from->wait_time, to->server_assignment_count - from->server_assignment_count);
}

/* ---- pools ---- */

/* load_balance_hosts has an effect only with a list of hosts. */
static const char *load_balance_of(const struct database *d)
{
	if (d->conf->host_count <= 1)
		return NULL;
	return setting_word(WORDS_LOAD_BALANCE, d->conf->load_balance_hosts);
}

/* Look-ups in the queue (CLIENT_STARTUP), queries and logins. */
static int count_waiting(const struct pool *pool)
{
	return pool->client_count[CLIENT_STARTUP] + pool->client_count[CLIENT_WAITING] + pool->client_count[CLIENT_WAITING_LOGIN];
}

/* Returns how long the first client of the queue has waited. */
static usec_t longest_wait(const struct pool *pool, usec_t now)
{
	static const enum client_state waiting[] = { CLIENT_STARTUP, CLIENT_WAITING, CLIENT_WAITING_LOGIN };
	usec_t longest = 0;

	for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++) {
		struct list *node = list_first(&pool->clients[waiting[i]]);
		usec_t waited = node ? now - LIST_OBJECT(node, struct pool_client, node)->since : 0;

		if (waited > longest)
			longest = waited;
	}
	return longest;
}

/* Returns the setting or condition that keeps the pool's clients waiting. */
static const char *limit_name(const struct pool *pool)
{
	switch (pool->held_by) {
	case LIMIT_POOL_SIZE:
		return "pool_size";
	case LIMIT_DATABASE:
		return "max_db_connections";
	case LIMIT_USER:
		return "max_user_connections";
	case LIMIT_INTERNAL:
		return "max_auth_query_connections";
	case LIMIT_ONE_LOGIN:
		return "server login";
	case LIMIT_LOGIN_RETRY:
		return "server_login_retry";
	case LIMIT_PAUSED:
		return "pause";
	case LIMIT_DRAINING:
		return "shutdown";
	case LIMIT_NONE:
		break;
	}
	return pool->client_count[CLIENT_STARTUP] > 0 ? "max_auth_query_connections" : NULL;
}

static void fill_pool(struct pool_row *row, const struct pool *pool, usec_t now)
{
	const int *clients = pool->client_count, *servers = pool->server_count;

	*row = (struct pool_row){
		.pool = pool,
		.database = pool->database->name,
		.user = pool->user->name,
		.clients = clients[CLIENT_ACTIVE] + clients[CLIENT_IDLE],
		.waiting = count_waiting(pool),
		.active_cancel_requests = clients[CLIENT_ACTIVE_CANCEL],
		.waiting_cancel_requests = clients[CLIENT_WAITING_CANCEL],
		.active = servers[SERVER_ACTIVE] + servers[SERVER_LOOKUP] + servers[SERVER_LISTENING],
		.active_cancel = servers[SERVER_ACTIVE_CANCEL] + pool->cancel_logins,
		.being_canceled = servers[SERVER_BEING_CANCELED],
		.idle = servers[SERVER_IDLE],
		.used = servers[SERVER_USED],
		.tested = servers[SERVER_TESTED],
		.login = servers[SERVER_LOGIN] - pool->cancel_logins,
		.longest_wait = longest_wait(pool, now),
		.mode = setting_word(WORDS_POOL_MODE, pool_mode_of(pool)),
		.load_balance = load_balance_of(pool->database),
		.link = pool_mode_of(pool) == MODE_SESSION ? setting_word(WORDS_SESSION_LINK, pool->allowed.link) : NULL,
		.state = pool_mode_of(pool) != MODE_SESSION ? setting_word(WORDS_SESSION_STATE, pool->allowed.state) : NULL,
		.size = pool->allowed.size,
		.min_size = pool->allowed.min_size,
		.reserve = pool->allowed.reserve,
		.pinned = pool->pinned,
		.listening = pool->listening,
		.notifications = pool->notifications,
		.state_asks = pool->state_asks,
		.state_restores = pool->state_restores,
		.held_by = count_waiting(pool) > 0 ? limit_name(pool) : NULL,
		.is_console = pool->database->is_console,
	};
}

static int count_of(const struct list *list)
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

	return order ? order : strcmp((*one)->user->name, (*other)->user->name);
}

bool pools_each_row(const struct pools *pools, usec_t now, void (*give)(void *context, const struct pool_row *row), void *context)
{
	const struct pool **sorted = mem_try(((size_t)count_of(&pools->all) + 1) * sizeof(*sorted));
	size_t count = 0;

	if (!sorted)
		return false;
	LIST_EACH(node, &pools->all)
		sorted[count++] = LIST_OBJECT(node, struct pool, node);
	qsort(sorted, count, sizeof(*sorted), compare_pools);
	for (size_t i = 0; i < count; i++) {
		struct pool_row row;

		fill_pool(&row, sorted[i], now);
		give(context, &row);
	}
	mem_free(sorted);
	return true;
}

/* ---- databases ---- */

static int64_t or_global(int64_t own, int64_t global)
{
	return own == CONF_UNSET ? global : own;
}

static void fill_database(struct database_row *row, const struct pools *pools, const struct database *d)
{
	const struct settings *set = &pools->conf->settings;
	const struct conf_database *conf = d->conf;

	*row = (struct database_row){
		.name = d->name,
		.host = conf->host,
		.port = (int)conf->port,
		.dbname = conf->dbname ? conf->dbname : d->name,
		.forced_user = conf->user,
		.size = or_global(conf->pool_size, set->default_pool_size),
		.min_size = or_global(conf->min_pool_size, set->min_pool_size),
		.reserve = or_global(conf->reserve_pool_size, set->reserve_pool_size),
		.server_lifetime = or_global(conf->server_lifetime, set->server_lifetime),
		.mode = setting_word(WORDS_POOL_MODE, conf->pool_mode),
		.link = setting_word(WORDS_SESSION_LINK, conf->session_link),
		.state = setting_word(WORDS_SESSION_STATE, conf->session_state),
		.load_balance = load_balance_of(d),
		.max_servers = database_max_servers(d),
		.max_clients = or_global(conf->max_db_client_connections, set->max_db_client_connections),
		.servers = d->servers,
		.clients = d->clients,
		.pools = count_of(&d->members),
		.is_paused = d->paused,
		.is_disabled = d->disabled,
		.is_automatic = d->automatic,
		.is_removed = d->removed,
		.stats = &d->stats,
	};
}

static int compare_databases(const void *a, const void *b)
{
	const struct database *const *one = a, *const *other = b;

	return strcmp((*one)->name, (*other)->name);
}

bool databases_each_row(const struct pools *pools, void (*give)(void *context, const struct database_row *row), void *context)
{
	const struct database **sorted = mem_try((HASH_COUNT(pools->databases) + 1) * sizeof(*sorted));
	size_t count = 0;

	if (!sorted)
		return false;
	for (const struct database *d = pools->databases; d; d = d->hh.next)
		sorted[count++] = d;
	qsort(sorted, count, sizeof(*sorted), compare_databases);
	for (size_t i = 0; i < count; i++) {
		struct database_row row;

		fill_database(&row, pools, sorted[i]);
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
		.max_servers = or_global(conf ? conf->max_user_connections : CONF_UNSET, set->max_user_connections),
		.max_clients = or_global(conf ? conf->max_user_client_connections : CONF_UNSET, set->max_user_client_connections),
		.servers = user ? user->servers : 0,
		.clients = user ? user->clients : 0,
	};
}

void pools_each_user_name(const struct pools *pools, void (*give)(void *context, const char *name), void *context)
{
	for (const struct user *user = pools->users; user; user = user->hh.next)
		give(context, user->name);
	for (size_t i = 0; i < pools->conf->user_count; i++)
		give(context, pools->conf->users[i]->name);
}

/* ---- totals ---- */

struct pools_counts pools_count(const struct pools *pools)
{
	const int *unauthenticated = pools->unauthenticated_count;
	struct pools_counts counts = {
		.databases = (int)HASH_COUNT(pools->databases),
		.users = (int)HASH_COUNT(pools->users),
		.clients_in_login = unauthenticated[CLIENT_STARTUP] + unauthenticated[CLIENT_AUTH] + unauthenticated[CLIENT_LOOKUP] +
				    unauthenticated[CLIENT_WAITING_LOGIN],
	};

	LIST_EACH(node, &pools->all) {
		const int *clients = LIST_OBJECT(node, struct pool, node)->client_count;

		counts.pools++;
		counts.clients_in_login += clients[CLIENT_AUTH] + clients[CLIENT_WAITING_LOGIN];
	}
	return counts;
}
