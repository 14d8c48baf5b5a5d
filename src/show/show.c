/*
 * The SHOW commands: items from show.tbl, columns from figure.tbl. The grammar of the console,
 * Describe, the rows and doc/show.md read the columns here. A function show_... walks over the
 * shown objects and calls show_row() with a struct for each row.
 */
#include "show/figure.h"

#include "backend/derivation.h"
#include "backend/keys.h"
#include "backend/server_info.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "core/lifecycle.h"
#include "sql/statement.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define ADDRESS_TEXT 64
#define ROWS_MOST 500			/* connections per turn */
#define PARTS_MOST 8			/* of a SHOW in parts, roughly */

/* ---- rows ---- */

/* Whether show_row() would write the next row: the row is in this part of the SHOW. */
static bool row_is_due(const struct show *s)
{
	const struct result *r = s->to;

	return r->most == 0 || (r->index >= r->first && r->index - r->first < r->most);
}

/* Writes one row. `row`: the struct that the figures of the item read. */
static void show_row(const struct show *s, const void *row)
{
	bool is_due = row_is_due(s);

	s->to->index++;
	for (size_t i = 0; is_due && i < s->to->column_count; i++)
		s->item->figures[i]->cell(s, row);
}

/* ---- connections, in the order in which they came ---- */

static void walk(const struct show *s, enum connection_kinds kinds,
		 void (*give)(void *context, const struct connection_row *c), void *context)
{
	s->to->index = 0;
	connections_walk(s->world, &s->to->walk, kinds,
			 s->to->most > 0 ? (int)s->to->most : ROWS_MOST, give, context);
}

enum wanted { WANTED_ALL, WANTED_SHOWN, WANTED_ACTIVE, WANTED_PINNED };

struct connection_show {
	struct show show;
	enum wanted wanted;
};

static bool is_of_pool(const struct show *s, const char *database, const char *user)
{
	return (!s->only_database || (database && strcmp(database, s->only_database) == 0)) &&
	       (!s->only_user || (user && strcmp(user, s->only_user) == 0));
}

static void give_connection(void *context, const struct connection_row *c)
{
	const struct connection_show *to = context;
	bool is_wanted = true;

	if (to->wanted == WANTED_SHOWN)
		is_wanted = c->is_shown;
	else if (to->wanted ==
		 WANTED_ACTIVE) /* a client is being served, or bytes are to be processed or sent */
		is_wanted = c->link_id || c->is_asking || c->held > 0 || c->unsent > 0;
	else if (to->wanted == WANTED_PINNED)
		is_wanted = c->pins != 0;
	if (is_wanted && is_of_pool(&to->show, c->database, c->pool_user))
		show_row(&to->show, c);
}

static void show_connections(const struct show *s, enum connection_kinds kinds, enum wanted wanted)
{
	struct connection_show to = { *s, wanted };

	if (s->pool) {
		connections_of_pool(s->pool, kinds, s->pool_most, give_connection, &to);
		return;
	}
	walk(s, kinds, give_connection, &to);
}

static void show_clients(const struct show *s)
{
	show_connections(s, CONNECTION_CLIENTS, WANTED_SHOWN);
}
static void show_servers(const struct show *s)
{
	show_connections(s, CONNECTION_SERVERS, WANTED_SHOWN);
}
static void show_sockets(const struct show *s) { show_connections(s, CONNECTION_ALL, WANTED_ALL); }
static void show_active_sockets(const struct show *s)
{
	show_connections(s, CONNECTION_ALL, WANTED_ACTIVE);
}
static void show_pins(const struct show *s)
{
	show_connections(s, CONNECTION_CLIENTS, WANTED_PINNED);
}

/* ---- WAITS ---- */

static void give_wait(void *context, const struct connection_row *c)
{
	const struct show *s = context;
	struct wait_row row = { .client = c };

	if (is_of_pool(s, c->database, c->pool_user) && client_wait_of(c->client, &row.wait))
		show_row(s, &row);
}

static void show_waiting(const struct show *s)
{
	struct show copy = *s;

	walk(s, CONNECTION_CLIENTS, give_wait, &copy);
}

/* ---- STATEMENTS ---- */

/* Whether object number *place is in this part; *place counts it. Sets walk.goes_on at the first
   object that is not. */
static bool take_due_statement(const struct show *s, uint64_t *place)
{
	struct connection_walk *walk = &s->to->walk;
	size_t most = s->to->most > 0 ? s->to->most : ROWS_MOST;

	if ((*place)++ < walk->behind || walk->goes_on)
		return false;
	walk->goes_on = s->to->index == most;
	walk->behind += !walk->goes_on;
	return !walk->goes_on;
}

static void show_statements(const struct show *s)
{
	const struct query_stats *stats = s->world->queries.stats;
	const struct statement *st = s->world->statements->table;
	uint64_t place = 0;

	s->to->index = 0;
	if (!s->to->walk.goes_on)
		s->to->walk.behind = 0;
	s->to->walk.goes_on = false;
	for (; st && !s->to->walk.goes_on; st = st->hh.next)
		if (take_due_statement(s, &place))
			show_row(s,
				 &(struct statement_row){
					 st, stats ? query_stats_find(stats, st->number) : NULL });
	for (const struct query_entry *e = stats ? stats->table : NULL; e && !s->to->walk.goes_on;
	     e = e->hh.next)
		if (e->statement == 0 && take_due_statement(s, &place))
			show_row(s, &(struct statement_row){ NULL, e });
}

/* ---- FDS ---- */

/*
 * SHOW FDS has the data that a process needs to take the sockets over, including secrets; these
 * only for the daemon's own user at the other end of a Unix socket.
 */

static void give_fd(void *context, const struct connection_row *c)
{
	const struct show *s = context;
	const struct secret *password = NULL;
	char address[ADDRESS_TEXT];
	uint64_t cancel = 0;
	struct fd_row row;

	if (!c->is_authenticated || c->is_console)
		return;
	if (s->with_secrets && s->world->logins.secrets->list)
		password = userlist_find(s->world->logins.secrets->list, c->user);
	/* process id and key as the 64-bit number that a cancel request of protocol 3.0 contains;
	   0: no key, or a longer key */
	if (s->with_secrets && c->cancel_key_size == CANCEL_KEY) {
		cancel = c->cancel_pid;
		for (int i = 0; i < CANCEL_KEY; i++)
			cancel = cancel << 8 | c->cancel_key[i];
	}
	row = (struct fd_row){
		.fd = c->fd,
		.task = c->is_client ? "client" : "server",
		.user = c->user,
		.database = c->database,
		.address = brief_address_text(&c->remote, address, sizeof(address)),
		.port = c->remote.port,
		.cancel = (int64_t)cancel,
		.link = c->link_fd,
		.params = c->params,
		.password = password ? password->bytes : NULL,
	};
	show_row(s, &row);
}

static void show_fds(const struct show *s)
{
	struct show copy = *s;

	s->to->is_secret = true;
	for (int i = 0; i < s->world->listen_sockets.count && !s->to->walk.goes_on; i++) {
		const struct listen_socket *l = s->world->listen_sockets.all[i];
		const char *from = l->text, *to = strrchr(from, ':');
		char address[ADDRESS_TEXT] = "unix";

		/* the address of "127.0.0.1:6432" or "[::]:6432" without the port */
		if (!listen_socket_is_unix(l) && to) {
			bool has_brackets = *from == '[';

			from += has_brackets;
			to -= has_brackets;
			snprintf(address, sizeof(address), "%.*s", (int)(to - from), from);
		}
		show_row(s, &(struct fd_row){ .fd = l->fd,
					      .task = "pooler",
					      .address = address,
					      .port = l->port });
	}
	walk(s, CONNECTION_ALL, give_fd, &copy);
}

/* ---- pools, databases and users, and the limits in force (pool/rows.h) ---- */

static void give_pool(void *context, const struct pool_row *row)
{
	if (is_of_pool(context, row->database, row->user))
		show_row(context, row);
}

static void give_database(void *context, const struct database_row *row) { show_row(context, row); }
static void give_host(void *context, const struct host_row *row) { show_row(context, row); }

static void show_pools(const struct show *s)
{
	struct show copy = *s;

	if (!pools_each_row(s->world->pools, s->world->now, give_pool, &copy))
		result_fail(s->to);
}

static void show_databases(const struct show *s)
{
	struct show copy = *s;

	if (!databases_each_row(s->world->pools, give_database, &copy))
		result_fail(s->to);
}

static void show_hosts(const struct show *s)
{
	struct show copy = *s;

	if (!hosts_each_row(s->world->pools, s->world->now, give_host, &copy))
		result_fail(s->to);
}

/* A cancel request to another pooler has a connection of its own, which ends with the request. */
static void show_peer_pools(const struct show *s)
{
	const struct conf *conf = s->world->conf;

	for (size_t i = 0; i < conf->peer_count; i++)
		show_row(s, &(struct peer_pool_row){
				    conf->peers[i]->id,
				    peers_count(s->world->cancels, conf->peers[i]->id) });
}

static void show_peers(const struct show *s)
{
	const struct conf *conf = s->world->conf;

	for (size_t i = 0; i < conf->peer_count; i++) {
		const struct conf_peer *peer = conf->peers[i];
		int64_t size = peer->pool_size == CONF_UNSET ? conf->settings.default_pool_size
							     : peer->pool_size;

		show_row(s, &(struct peer_row){ .id = peer->id,
						.port = peer->port,
						.pool_size = size,
						.host = peer->host });
	}
}

/* ---- USERS ---- */

/* All names of users in the configuration, the user list and connections, without duplicates. */
struct user_names {
	const char **items;
	size_t count, capacity;
	bool failed;
};

static void show_add_name(struct user_names *names, const char *name)
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

static int compare_texts(const void *a, const void *b)
{
	const char *const *one = a, *const *other = b;

	return strcmp(*one, *other);
}

/* Collects the names in alphabetical order. */
static void collect_names(const struct world *world, struct user_names *names)
{
	const struct userlist *list = world->logins.secrets->list;
	size_t kept = 0;

	for (const struct user *user = world->pools->users; user; user = user->hh.next)
		show_add_name(names, user->name);
	for (size_t i = 0; i < world->conf->user_count; i++)
		show_add_name(names, world->conf->users[i]->name);
	for (size_t i = 0; list && i < list->count; i++)
		show_add_name(names, list->entries[i]->user);
	if (names->count > 0)
		qsort(names->items, names->count, sizeof(*names->items), compare_texts);
	for (size_t i = 0; i < names->count; i++)
		if (i == 0 || strcmp(names->items[i], names->items[kept - 1]) != 0)
			names->items[kept++] = names->items[i];
	names->count = kept;
}

static void show_users(const struct show *s)
{
	struct user_names names = { NULL, 0, 0, false };

	collect_names(s->world, &names);
	if (names.failed)
		result_fail(s->to);
	for (size_t i = 0; i < names.count; i++) {
		struct named_user_row row = { .name = names.items[i] };

		user_row_of(s->world->pools, row.name, &row.of);
		show_row(s, &row);
	}
	mem_free(names.items);
}

/* ---- STATS, TOTALS ---- */

/*
 * SHOW STATS, STATS_TOTALS, STATS_AVERAGES and TOTALS: counters of databases since the start, and
 * averages of the last period (pool/stats.h).
 */

static void give_stats(void *context, const struct database_row *database)
{
	const struct show *s = context;
	struct stats_row row = { .database = database->name, .total = database->stats->total };

	stats_average(database->stats, s->world->now, &row.average);
	show_row(context, &row);
}

static void show_stats(const struct show *s)
{
	struct show copy = *s;

	if (!databases_each_row(s->world->pools, give_stats, &copy))
		result_fail(s->to);
}

/* ---- LATENCIES ---- */

static void give_latencies(void *context, const struct pool_row *of)
{
	const struct show *s = context;
	struct latency_row row = { .database = of->database, .user = of->user };

	for (row.which = 0; row.which < SHOWN_LATENCIES; row.which++) {
		if (!latency_read(s->world->pools, of->pool, row.which, false, NULL))
			continue;
		if (row_is_due(s)) {
			latency_read(s->world->pools, of->pool, row.which, true, &row.minute);
			latency_read(s->world->pools, of->pool, row.which, false, &row.total);
		}
		show_row(s, &row);
	}
}

static void show_latencies(const struct show *s)
{
	struct show copy = *s;
	struct latency_row row = { .database = NULL };

	for (row.which = 0; row.which < SHOWN_LATENCIES; row.which++) {
		if (row_is_due(s)) {
			latency_read(s->world->pools, NULL, row.which, true, &row.minute);
			latency_read(s->world->pools, NULL, row.which, false, &row.total);
		}
		show_row(s, &row);
	}
	if (!pools_each_row(s->world->pools, s->world->now, give_latencies, &copy))
		result_fail(s->to);
}

/* ---- TOTALS ---- */

/* The names of the counters in SHOW TOTALS, in the order of STATS_EACH. */
static const char *const total_names[] = {
	"server_assignment_count",
	"xact_count",
	"query_count",
	"client_bytes",
	"server_bytes",
	"xact_time",
	"query_time",
	"wait_time",
	"ps_client_parse_count",
	"ps_server_parse_count",
	"ps_bind_count",
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

static void show_totals(const struct show *s)
{
	struct stats_history sum;
	struct stats average;

	pools_sum_stats(s->world->pools, &sum);
	stats_average(&sum, s->world->now, &average);
	named_rows(s, "total", &sum.total);
	named_rows(s, "avg", &average);
}

/* ---- the process as a whole ---- */

static void show_version(const struct show *s)
{
	show_row(s, s->version);
}

static void show_config(const struct show *s)
{
	char value[4096];

	for (size_t i = 0; i < setting_table.count; i++) {
		const struct setting_row *setting = &setting_table.rows[i].row;
		bool has_default = setting->default_text && setting->default_text[0] != '\0';
		struct config_row row = {
			.name = setting->name,
			.value = setting_value_shown(&s->world->conf->settings, i, value,
						     sizeof(value)),
			.default_text = has_default ? setting->default_text : NULL,
			.is_changeable = setting->applies != APPLIES_START,
		};

		show_row(s, &row);
	}
}

static void text_row(const struct show *s, const char *name, const char *value)
{
	show_row(s, &(struct text_row){ name, value });
}

static void show_drain_state(void *context, const struct drain *d)
{
	const struct show *s = context;
	char target[DRAIN_TEXT], since[64], until[64], text[DRAIN_TEXT + 200];

	drain_text(d, target, sizeof(target));
	clock_format(d->since + s->world->wall_ahead, 0, since, sizeof(since));
	clock_format(d->until + s->world->wall_ahead, 0, until, sizeof(until));
	snprintf(text, sizeof(text), "%s, %zu clients left, since %s, until %s", target, d->left,
		 since, until);
	text_row(s, "drain", text);
}

static void show_state(const struct show *s)
{
	const struct world *w = s->world;
	const struct pools *pools = w->pools;
	static const char *const waits[] = {
		[DRAIN_WAIT_CLIENTS] = "wait_for_clients",
		[DRAIN_WAIT_SERVERS] = "wait_for_servers",
		[DRAIN_NOW] = "at once",
	};
	struct show copy = *s;
	char number[24], time[64];

	text_row(s, "active", !pools->paused && !pools->suspended ? "yes" : "no");
	text_row(s, "paused", pools->paused ? "yes" : "no");
	text_row(s, "suspended", pools->suspended ? "yes" : "no");
	/* rows that PgBouncer does not have: on demand, or while they say something */
	if (w->conf->settings.show_extra_columns) {
		text_row(s, "busy_poll", busy_poll_names[w->loop.busy_poll.state]);
		snprintf(number, sizeof(number), "%" PRIu64, w->loop.busy_poll.polled_total);
		text_row(s, "busy_poll_time", number);
	}
	if (w->reload.at > 0) {
		text_row(s, "last_reload", clock_format(w->reload.at, 0, time, sizeof(time)));
		text_row(s, "last_reload_result", w->reload.has_failed ? "failed" : "in force");
	}
	drains_each(pools, show_drain_state, &copy);
	if (w->drain.step != DRAIN_OFF) {
		text_row(s, "shutdown", waits[w->drain.step]);
		snprintf(number, sizeof(number), "%zu", world_drain_left(w));
		text_row(s, "shutdown_waits_for", number);
	}
}

/* ---- LISTS ---- */

static void show_lists(const struct show *s)
{
	const struct world *w = s->world;
	struct pools_counts counts = pools_count(w->pools);
	struct connection_totals connections = connections_total(w);
	struct user_names names = { NULL, 0, 0, false };

	collect_names(w, &names);
	mem_free(names.items);
	if (names.failed)
		result_fail(s->to);

	const struct count_row rows[] = {
		{ "databases", (uint64_t)counts.databases },
		{ "users", names.count },
		{ "peers", w->conf->peer_count },
		{ "pools", (uint64_t)counts.pools },
		{ "peer_pools", w->conf->peer_count },
		{ "free_clients", 0 },		/* unused objects are freed */
		{ "used_clients", (uint64_t)connections.clients },
		{ "login_clients", (uint64_t)counts.clients_in_login },
		{ "free_servers", 0 },
		{ "used_servers", (uint64_t)connections.servers },
		{ "dns_names", (uint64_t)dns_count(w->dns).hosts },
		{ "dns_zones", (uint64_t)dns_count(w->dns).zones },
		{ "dns_queries", (uint64_t)dns_count(w->dns).queries },
		{ "dns_pending", 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		show_row(s, &rows[i]);
}

/* ---- MEM ---- */

static void show_mem(const struct show *s)
{
	const struct world *w = s->world;
	struct pools_counts counts = pools_count(w->pools);
	struct connection_totals connections = connections_total(w);
	const struct memory_row rows[] = {
		{ "user_cache", sizeof(struct user), (size_t)counts.users, 0 },
		{ "db_cache", sizeof(struct database), (size_t)counts.databases, 0 },
		{ "peer_cache", sizeof(struct conf_peer), w->conf->peer_count, 0 },
		{ "pool_cache", sizeof(struct pool), (size_t)counts.pools, 0 },
		{ "server_cache", sizeof(struct server), (size_t)connections.servers, 0 },
		{ "client_cache", sizeof(struct client), (size_t)connections.clients, 0 },
		{ "prepared_statement_cache", 1, w->statements->bytes, 0 },
		{ "iobuf_cache", 1, connections.buffered,
		  connections.buffers - connections.buffered },
		{ "query_stats_cache", sizeof(struct query_entry),
		  query_stats_count(w->queries.stats), 0 },
	};

	/* the last row is not PgBouncer's */
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) - !w->queries.stats; i++)
		show_row(s, &rows[i]);
}

/* ---- DNS ---- */

static void host_row(void *context, const char *name, int64_t ttl, const struct dns_answer *answer)
{
	struct bytes text = BYTES_EMPTY;
	struct brief_address address;
	char ip[64];

	/* a port, which names do not have, because monitoring tools for PgBouncer expect it */
	for (int i = 0; i < answer->count; i++) {
		brief_address_of(&address, &answer->addresses[i], 0);
		bytes_append_format(&text, "%s%s", i > 0 ? "," : "",
				    brief_address_and_port(&address, ip, sizeof(ip)));
	}
	bytes_append_u8(&text, 0);
	show_row(context,
		 &(struct dns_host_row){
			 name, text.failed ? NULL : (const char *)bytes_front(&text), ttl });
	bytes_free(&text);
}

static void show_dns_hosts(const struct show *s)
{
	struct show copy = *s;

	dns_each(s->world->dns, s->world->now, host_row, NULL, &copy);
}

static void zone_row(void *context, const char *zone, int64_t serial, int hosts)
{
	show_row(context, &(struct dns_zone_row){ zone, serial, hosts });
}

static void show_dns_zones(const struct show *s)
{
	struct show copy = *s;

	dns_each(s->world->dns, s->world->now, NULL, zone_row, &copy);
}

/* ---- VERIFIERS ---- */

static void show_verifier(void *context, const struct verify_view *view)
{
	show_row(context, view);
}

static void show_verifiers(const struct show *s)
{
	struct show copy = *s;

	verifiers_each(s->world->logins.verifiers, show_verifier, &copy);
	verifiers_each(s->world->logins.derivations->derivers, show_verifier, &copy);
}

/* ---- ADDRESSES ---- */

static void show_address(void *context, const struct address_row *row) { show_row(context, row); }

static void show_addresses(const struct show *s)
{
	struct show copy = *s;

	client_addresses_each_row(s->world, show_address, &copy);
}

/* ---- REASONS ---- */

/* SHOW REASONS has the reasons with a count, SHOW REASONS ALL all of them. */
static void show_reasons(const struct show *s)
{
	static const char *const faults[] = {
		[FAULT_NOBODY] = "nobody", [FAULT_CLIENT] = "client", [FAULT_SERVER] = "server",
		[FAULT_POLICY] = "policy", [FAULT_POOLER] = "pooler",
	};
	bool all = strcmp(s->item->name, "REASONS_ALL") == 0;

	for (int i = REASON_NONE + 1; i < REASONS; i++) {
		const struct close_reason_row *row = &close_reason_rows[i];
		uint64_t count = s->world->pools->ended[i];

		if (all || count > 0)
			show_row(s, &(struct reason_row){ row, faults[row->fault], count });
	}
}

/* ---- DRAINS ---- */

static void show_drain(void *context, const struct drain *drain) { show_row(context, drain); }

static void show_drains(const struct show *s)
{
	struct show copy = *s;

	drains_each(s->world->pools, show_drain, &copy);
}

/* ---- ALARMS ---- */

static void show_alarm(void *context, const struct alarm *alarm) { show_row(context, alarm); }

static void show_alarms(const struct show *s)
{
	struct show copy = *s;

	alarms_each(s->world, show_alarm, &copy);
}

/* ---- items ---- */

static struct show_item items[] = {
#define MONITOR true
#define ADMIN false
#define SHOW(name, access, fill, standard, extra, sentence) \
	{ #name, access, fill, standard, extra, sentence, 0, 0, { NULL }, { NULL } },
#include "tbl/show.tbl"
#undef SHOW
#undef MONITOR
#undef ADMIN
};
#define ITEMS (sizeof(items) / sizeof(items[0]))

/* The columns of an item are found at its first use: they depend only on the tables. The extra
   columns follow the others. */
const struct show_item *show_at(size_t index)
{
	const size_t count = show_figure_count;
	struct show_item *item = index < ITEMS ? &items[index] : NULL;
	size_t n = 0;

	if (!item || item->all_columns > 0)
		return item;
	for (size_t i = 0; i < 2 * count; i++) {
		const struct figure *f = &show_figures[i % count];

		if (!(f->group & (i < count ? item->standard : item->extra)))
			continue;
		ASSERT(n < RESULT_COLUMNS);
		item->figures[n] = f;
		item->columns[n++] = f->column;
		if (i < count)
			item->standard_columns = n;
	}
	item->all_columns = n;
	return item;
}

const struct show_item *show_find(const char *name)
{
	const struct show_item *item;

	for (size_t i = 0; (item = show_at(i)) != NULL; i++)
		if (text_equal_fold(item->name, name))
			return item;
	return NULL;
}

void show_part(const struct show *s)
{
	struct result *r = s->to;

	r->index = 0;
	s->item->fill(s);
	ASSERT(r->cell == 0);
	/* rows of connections are never more than `most`: the walk has its own position */
	if (r->most > 0 && r->index > r->first + r->most) {
		r->first += r->most;
		r->walk.goes_on = true;
		/* each part walks over all objects */
		if (r->index / PARTS_MOST > r->most)
			r->most = r->index / PARTS_MOST;
	} else if (r->first > 0) {
		r->walk.goes_on = false;
	}
}
