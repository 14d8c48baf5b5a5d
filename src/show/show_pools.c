/*
 * SHOW POOLS, PEER_POOLS, DATABASES, USERS and PEERS: pools, databases and users, and the limits in force for it (pool/rows.h).
 */
#include "show/rows.h"

#include "backend/secrets.h"
#include "base/mem.h"
#include "conn/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void give_pool(void *context, const struct pool_row *row) { show_row(context, row); }
static void give_database(void *context, const struct database_row *row) { show_row(context, row); }

void show_pools(const struct show *s)
{
	struct show copy = *s;

	if (!pools_each_row(s->world->pools, s->world->now, give_pool, &copy))
		result_fail(s->to);
}

void show_databases(const struct show *s)
{
	struct show copy = *s;

	if (!databases_each_row(s->world->pools, give_database, &copy))
		result_fail(s->to);
}

/* A cancel request to another pooler has a connection of its own, which ends with the request. */
void show_peer_pools(const struct show *s)
{
	const struct conf *conf = s->world->conf;

	for (size_t i = 0; i < conf->peer_count; i++)
		show_row(s, &(struct peer_pool_row){ conf->peers[i]->id, peers_count(s->world->cancels, conf->peers[i]->id) });
}

void show_peers(const struct show *s)
{
	const struct conf *conf = s->world->conf;

	for (size_t i = 0; i < conf->peer_count; i++) {
		const struct conf_peer *peer = conf->peers[i];
		int64_t size = peer->pool_size == CONF_UNSET ? conf->settings.default_pool_size : peer->pool_size;

		show_row(s, &(struct peer_row){ .id = peer->id, .port = peer->port, .pool_size = size, .host = peer->host });
	}
}

/* ---- USERS ---- */

/* All names of users in the configuration, the user list and connections, without duplicates. */
struct user_names {
	const char **items;
	size_t count, capacity;
	bool failed;
};

static void add_name(void *context, const char *name)
{
	struct user_names *names = context;
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

/* Collects the names in alphabetical order. */
static void collect_names(const struct world *world, struct user_names *names)
{
	size_t kept = 0;

	pools_each_user_name(world->pools, add_name, names);
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
	struct user_names names = { NULL, 0, 0, false };

	collect_names(world, &names);
	*count = names.count;
	mem_free(names.items);
	return !names.failed;
}

static void give_user(const struct show *s, const char *name)
{
	struct named_user_row row = { .name = name };

	user_row_of(s->world->pools, name, &row.of);
	show_row(s, &row);
}

void show_users(const struct show *s)
{
	struct user_names names = { NULL, 0, 0, false };

	collect_names(s->world, &names);
	if (names.failed)
		result_fail(s->to);
	for (size_t i = 0; i < names.count; i++)
		give_user(s, names.items[i]);
	mem_free(names.items);
}

/* ---- STATS, TOTALS ---- */

/*
 * SHOW STATS, STATS_TOTALS, STATS_AVERAGES and TOTALS: counters of databases since the start, and averages of the last period
 * (pool/stats.h).
 */

static void give_stats(void *context, const struct database_row *database)
{
	const struct show *s = context;
	struct stats_row row = { .database = database->name, .total = database->stats->total };

	stats_average(database->stats, s->world->now, &row.average);
	show_row(context, &row);
}

void show_stats(const struct show *s)
{
	struct show copy = *s;

	if (!databases_each_row(s->world->pools, give_stats, &copy))
		result_fail(s->to);
}

/* ---- TOTALS ---- */

/* The names of the counters in SHOW TOTALS, in the order of STATS_EACH. */
static const char *const total_names[] = {
	"server_assignment_count", "xact_count", "query_count", "client_bytes", "server_bytes", "xact_time",
	"query_time", "wait_time", "ps_client_parse_count", "ps_server_parse_count", "ps_bind_count",
	"client_login_count",
};

static void named_rows(const struct show *s, const char *prefix, const struct stats *stats)
{
#define X(counter) stats->counter,
	const uint64_t values[] = { STATS_EACH(X) };
#undef X
	char name[64];

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		snprintf(name, sizeof(name), "%s_%s", prefix, total_names[i]);
		show_row(s, &(struct count_row){ name, values[i] });
	}
}

void show_totals(const struct show *s)
{
	struct stats_history sum;
	struct stats average;

	pools_sum_stats(s->world->pools, &sum);
	stats_average(&sum, s->world->now, &average);
	named_rows(s, "total", &sum.total);
	named_rows(s, "avg", &average);
}
