/*
 * SHOW POOLS, PEER_POOLS, DATABASES, USERS and PEERS: what connections belong to, and the limits in
 * force for it (pool/rows.h).
 */
#include "admin/show.h"

#include "backend/secrets.h"
#include "backend/server_info.h"
#include "base/mem.h"
#include "cancel/peers.h"
#include "pool/rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void give_pool(void *context, const struct pool_row *row)
{
	const struct show *s = context;
	struct result *r = s->to;

	result_text(r, row->database);
	result_text(r, row->user);
	result_number(r, row->clients);
	result_number(r, row->waiting);
	result_number(r, row->active_cancel_requests);
	result_number(r, row->waiting_cancel_requests);
	result_number(r, row->active);
	result_number(r, row->active_cancel);
	result_number(r, row->being_canceled);
	result_number(r, row->idle);
	result_number(r, row->used);
	result_number(r, row->tested);
	result_number(r, row->login);
	result_number(r, row->longest_wait / USEC);
	result_number(r, row->longest_wait % USEC);
	result_text(r, row->mode);
	result_text(r, row->load_balance);
	if (!s->extra)
		return;
	result_number(r, row->size);
	result_number(r, row->min_size);
	result_number(r, row->reserve);
	result_text(r, row->held_by);
	result_text(r, row->is_console ? NULL : pool_login_error(row->pool));
	result_text(r, row->link);
	result_text(r, row->state);
	result_number(r, row->pinned);
	result_number(r, (int64_t)row->state_asks);
	result_number(r, (int64_t)row->state_restores);
	result_number(r, row->listening);
	result_number(r, (int64_t)row->notifications);
}

void show_pools(const struct show *s)
{
	struct show copy = *s;

	if (!pools_each_row(s->world->pools, s->world->now, give_pool, &copy))
		result_fail(s->to);
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

static void give_database(void *context, const struct database_row *row)
{
	const struct show *s = context;
	struct result *r = s->to;

	result_text(r, row->name);
	result_text(r, row->host);
	result_number(r, row->port);
	result_text(r, row->dbname);
	result_text(r, row->forced_user);
	result_number(r, row->size);
	result_number(r, row->min_size);
	result_number(r, row->reserve);
	result_number(r, row->server_lifetime / USEC);
	result_text(r, row->mode);
	result_text(r, row->load_balance);
	result_number(r, row->max_servers);
	result_number(r, row->servers);
	result_number(r, row->max_clients);
	result_number(r, row->clients);
	result_number(r, row->is_paused);
	result_number(r, row->is_disabled);
	if (s->extra) {
		result_number(r, row->is_automatic);
		result_number(r, row->is_removed);
		result_number(r, row->pools);
		result_text(r, row->link);
		result_text(r, row->state);
	}
}

void show_databases(const struct show *s)
{
	struct show copy = *s;

	if (!databases_each_row(s->world->pools, give_database, &copy))
		result_fail(s->to);
}

/* ---- USERS ---- */

/* All users that the configuration, the user list or a connection names, once each. */
struct names {
	const char **items;
	size_t count, capacity;
	bool failed;
};

static void add_name(void *context, const char *name)
{
	struct names *names = context;
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

static void user_cells(const struct show *s, const char *name)
{
	struct result *r = s->to;
	struct user_row row;

	user_row_of(s->world->pools, name, &row);
	result_text(r, name);
	size_cell(r, row.size);
	size_cell(r, row.reserve);
	result_text(r, row.mode);
	result_number(r, row.max_servers);
	result_number(r, row.servers);
	result_number(r, row.max_clients);
	result_number(r, row.clients);
	if (s->extra) {
		result_text(r, row.link);
		result_text(r, row.state);
	}
}

void show_users(const struct show *s)
{
	struct names names = { NULL, 0, 0, false };

	collect_names(s->world, &names);
	if (names.failed)
		result_fail(s->to);
	for (size_t i = 0; i < names.count; i++)
		user_cells(s, names.items[i]);
	mem_free(names.items);
}
