/*
 * SHOW POOLS, PEER_POOLS, DATABASES, USERS and PEERS: what connections belong to, and the limits in
 * force for it. A number shown is the one that is acted upon: it comes from the same accessors of
 * the pool room.
 */
#include "admin/show.h"

#include "backend/secrets.h"
#include "backend/server_info.h"
#include "base/mem.h"
#include "cancel/peers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Only a list of hosts is balanced. */
static const char *load_balance_of(const struct database *d)
{
	if (!d->conf->host || !strchr(d->conf->host, ','))
		return NULL;
	return load_balance_name(d->conf->load_balance_hosts);
}

/* Look-ups that have no turn yet (CLIENT_STARTUP), queries and logins. */
static int count_waiting(const struct pool *pool)
{
	return pool->client_count[CLIENT_STARTUP] + pool->client_count[CLIENT_WAITING] + pool->client_count[CLIENT_WAITING_LOGIN];
}

/* How long the first one in the queue has been there. */
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

/* The setting that keeps its clients waiting, or what else does. */
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

static void own_pool_cells(struct result *r, const struct pool *pool)
{
	bool has_queue = count_waiting(pool) > 0;

	result_number(r, pool_size_of(pool));
	result_number(r, pool_min_size_of(pool));
	result_number(r, pool_reserve_of(pool));
	result_text(r, has_queue ? limit_name(pool) : NULL);
	result_text(r, pool->database->is_console ? NULL : pool_login_error(pool));
}

static void pool_row(const struct show *s, const struct pool *pool)
{
	usec_t wait = longest_wait(pool, s->world->now);
	const int *clients = pool->client_count, *servers = pool->server_count;
	struct result *r = s->to;

	result_text(r, pool->database->name);
	result_text(r, pool->user->name);
	result_number(r, clients[CLIENT_ACTIVE] + clients[CLIENT_IDLE]);
	result_number(r, count_waiting(pool));
	result_number(r, clients[CLIENT_ACTIVE_CANCEL]);
	result_number(r, clients[CLIENT_WAITING_CANCEL]);
	result_number(r, servers[SERVER_ACTIVE] + servers[SERVER_LOOKUP]);
	result_number(r, servers[SERVER_ACTIVE_CANCEL] + pool->cancel_logins);
	result_number(r, servers[SERVER_BEING_CANCELED]);
	result_number(r, servers[SERVER_IDLE]);
	result_number(r, servers[SERVER_USED]);
	result_number(r, servers[SERVER_TESTED]);
	result_number(r, servers[SERVER_LOGIN] - pool->cancel_logins);
	result_number(r, wait / USEC);
	result_number(r, wait % USEC);
	result_text(r, pool_mode_name(pool_mode_of(pool)));
	result_text(r, load_balance_of(pool->database));
	if (s->extra)
		own_pool_cells(r, pool);
}

static int compare_pools(const void *a, const void *b)
{
	const struct pool *const *one = a, *const *other = b;
	int order = strcmp((*one)->database->name, (*other)->database->name);

	return order ? order : strcmp((*one)->user->name, (*other)->user->name);
}

/* By database and user, whichever came first. */
void show_pools(const struct show *s)
{
	struct list *all = &s->world->pools->all;
	const struct pool **sorted;
	size_t count = 0, i = 0;

	LIST_EACH(node, all)
		count++;
	sorted = mem_try((count + 1) * sizeof(*sorted));
	if (!sorted) {
		result_fail(s->to);
		return;
	}
	LIST_EACH(node, all)
		sorted[i++] = LIST_OBJECT(node, struct pool, node);
	qsort(sorted, count, sizeof(*sorted), compare_pools);
	for (i = 0; i < count; i++)
		pool_row(s, sorted[i]);
	mem_free(sorted);
}

/* A cancel request that goes on to another pooler is carried by a connection of its own, which ends with it. */
void show_peer_pools(const struct show *s)
{
	const struct conf *conf = s->world->conf;

	for (size_t i = 0; i < conf->peer_count; i++) {
		struct peer_count count = peers_count(s->world->cancels, conf->peers[i]->id);

		result_number(s->to, conf->peers[i]->id);
		result_number(s->to, count.handed_over);
		result_number(s->to, count.queued + count.connecting);
		result_number(s->to, count.handed_over);
		result_number(s->to, count.connecting);
	}
}

void show_peers(const struct show *s)
{
	const struct conf *conf = s->world->conf;

	for (size_t i = 0; i < conf->peer_count; i++) {
		const struct conf_peer *peer = conf->peers[i];
		int64_t size = peer->pool_size;

		result_number(s->to, peer->id);
		result_text(s->to, peer->host);
		result_number(s->to, peer->port);
		result_number(s->to, size == CONF_UNSET ? conf->settings.default_pool_size : size);
	}
}

static int64_t or_global(int64_t own, int64_t global)
{
	return own == CONF_UNSET ? global : own;
}

static int count_pools(const struct database *d)
{
	int count = 0;

	LIST_EACH(node, &d->members)
		count++;
	return count;
}

static void database_row(const struct show *s, const struct database *d)
{
	const struct settings *set = &s->world->conf->settings;
	const struct conf_database *conf = d->conf;
	struct result *r = s->to;

	result_text(r, d->name);
	result_text(r, conf->host);
	result_number(r, conf->port);
	result_text(r, conf->dbname ? conf->dbname : d->name);
	result_text(r, conf->user);
	result_number(r, or_global(conf->pool_size, set->default_pool_size));
	result_number(r, or_global(conf->min_pool_size, set->min_pool_size));
	result_number(r, or_global(conf->reserve_pool_size, set->reserve_pool_size));
	result_number(r, or_global(conf->server_lifetime, set->server_lifetime) / USEC);
	result_text(r, pool_mode_name(conf->pool_mode));
	result_text(r, load_balance_of(d));
	result_number(r, database_max_servers(d));
	result_number(r, d->servers);
	result_number(r, database_max_clients(d));
	result_number(r, d->clients);
	result_number(r, d->paused);
	result_number(r, d->disabled);
	if (s->extra) {
		result_number(r, d->automatic);
		result_number(r, d->removed);
		result_number(r, count_pools(d));
	}
}

void show_databases(const struct show *s)
{
	size_t count;
	struct database **sorted = show_databases_sorted(s->world, &count);

	if (!sorted)
		result_fail(s->to);
	for (size_t i = 0; i < count; i++)
		database_row(s, sorted[i]);
	mem_free(sorted);
}

/* ---- USERS ---- */

/* All users that the configuration, the user list or a connection names, once each. */
struct names {
	const char **items;
	size_t count, capacity;
	bool failed;
};

static void add_name(struct names *names, const char *name)
{
	const char **items = names->items;

	if (names->count == names->capacity) {
		size_t capacity = names->capacity ? names->capacity * 2 : 64;

		items = mem_resize(items, capacity * sizeof(*items));
		if (!items) {
			names->failed = true;
			return;
		}
		names->items = items;
		names->capacity = capacity;
	}
	items[names->count++] = name;
}

static void add_listed_name(void *context, const char *user, const struct secret *secret)
{
	(void)secret;
	add_name(context, user);
}

static int compare_texts(const void *a, const void *b)
{
	const char *const *one = a, *const *other = b;

	return strcmp(*one, *other);
}

/* In their order. */
static void collect_names(const struct world *world, struct names *names)
{
	size_t kept = 0;

	for (const struct user *user = world->pools->users; user; user = user->hh.next)
		add_name(names, user->name);
	for (size_t i = 0; i < world->conf->user_count; i++)
		add_name(names, world->conf->users[i]->name);
	if (world->secrets->list)
		userlist_each(world->secrets->list, add_listed_name, names);
	if (names->count > 0)
		qsort(names->items, names->count, sizeof(*names->items), compare_texts);
	for (size_t i = 0; i < names->count; i++)
		if (i == 0 || strcmp(names->items[i], names->items[kept - 1]) != 0)
			names->items[kept++] = names->items[i];
	names->count = kept;
}

bool show_users_count(const struct world *world, size_t *count)
{
	struct names names = { NULL, 0, 0, false };

	collect_names(world, &names);
	*count = names.count;
	mem_free(names.items);
	return !names.failed;
}

static void size_cell(struct result *r, int64_t size)
{
	char text[24] = "";

	if (size != CONF_UNSET)
		snprintf(text, sizeof(text), "%" PRId64, size);
	result_text(r, text);
}

static void user_row(const struct show *s, const char *name)
{
	const struct settings *set = &s->world->conf->settings;
	const struct conf_user *conf = conf_user_find(s->world->conf, name);
	const struct user *user;
	struct result *r = s->to;

	HASH_FIND_STR(s->world->pools->users, name, user);
	result_text(r, name);
	size_cell(r, conf ? conf->pool_size : CONF_UNSET);
	size_cell(r, conf ? conf->reserve_pool_size : CONF_UNSET);
	result_text(r, conf ? pool_mode_name(conf->pool_mode) : NULL);
	result_number(r, or_global(conf ? conf->max_user_connections : CONF_UNSET,
				   set->max_user_connections));
	result_number(r, user ? user->servers : 0);
	result_number(r, or_global(conf ? conf->max_user_client_connections : CONF_UNSET,
				   set->max_user_client_connections));
	result_number(r, user ? user->clients : 0);
}

void show_users(const struct show *s)
{
	struct names names = { NULL, 0, 0, false };

	collect_names(s->world, &names);
	if (names.failed)
		result_fail(s->to);
	for (size_t i = 0; i < names.count; i++)
		user_row(s, names.items[i]);
	mem_free(names.items);
}
