/*
 * SHOW CONFIG, VERSION, STATE, LISTS, MEM, DNS_HOSTS, DNS_ZONES, VERIFIERS, ADDRESSES and REASONS: the process as a whole.
 */
#include "show/rows.h"

#include "auth/refusal.h"
#include "backend/derivation.h"
#include "pg/statement.h"
#include "core/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void show_version(const struct show *s)
{
	show_row(s, s->version);
}

void show_config(const struct show *s)
{
	char value[4096];

	for (size_t i = 0; i < setting_rows(); i++) {
		const struct setting_row *setting = setting_row(i);
		bool has_default = setting->default_text && setting->default_text[0] != '\0';
		struct config_row row = {
			.name = setting->name, .value = setting_value_shown(&s->world->conf->settings, i, value, sizeof(value)),
			.default_text = has_default ? setting->default_text : NULL, .is_changeable = setting->applies != APPLIES_START,
		};

		show_row(s, &row);
	}
}

static void text_row(const struct show *s, const char *name, const char *value)
{
	show_row(s, &(struct text_row){ name, value });
}

void show_state(const struct show *s)
{
	const struct world *w = s->world;
	const struct pools *pools = w->pools;
	static const char *const waits[] = {
		[DRAIN_WAIT_CLIENTS] = "wait_for_clients", [DRAIN_WAIT_SERVERS] = "wait_for_servers", [DRAIN_NOW] = "at once",
	};
	char number[24];

	text_row(s, "active", !pools->paused && !pools->suspended ? "yes" : "no");
	text_row(s, "paused", pools->paused ? "yes" : "no");
	text_row(s, "suspended", pools->suspended ? "yes" : "no");
	/* rows that PgBouncer does not have: on demand, or while they say something */
	if (w->conf->settings.show_extra_columns) {
		text_row(s, "busy_poll", busy_poll_name(&w->busy_poll));
		snprintf(number, sizeof(number), "%" PRIu64, w->busy_poll.polled_total);
		text_row(s, "busy_poll_time", number);
	}
	if (w->drain != DRAIN_OFF) {
		text_row(s, "shutdown", waits[w->drain]);
		snprintf(number, sizeof(number), "%zu", world_drain_left(w));
		text_row(s, "shutdown_waits_for", number);
	}
}

/* ---- LISTS ---- */

static void list_row(const struct show *s, const char *name, int64_t items)
{
	show_row(s, &(struct count_row){ name, (uint64_t)items });
}

void show_lists(const struct show *s)
{
	const struct world *w = s->world;
	struct pools_counts counts = pools_count(w->pools);
	struct connection_totals connections = connections_total(w);
	size_t users;

	if (!show_users_count(w, &users))
		result_fail(s->to);
	list_row(s, "databases", counts.databases);
	list_row(s, "users", (int64_t)users);
	list_row(s, "peers", (int64_t)w->conf->peer_count);
	list_row(s, "pools", counts.pools);
	list_row(s, "peer_pools", (int64_t)w->conf->peer_count);
	list_row(s, "free_clients", 0);		/* unused objects are freed */
	list_row(s, "used_clients", connections.clients);
	list_row(s, "login_clients", counts.clients_in_login);
	list_row(s, "free_servers", 0);
	list_row(s, "used_servers", connections.servers);
	list_row(s, "dns_names", dns_hosts(w->dns));
	list_row(s, "dns_zones", dns_zones(w->dns));
	list_row(s, "dns_queries", dns_queries(w->dns));
	list_row(s, "dns_pending", 0);
}

/* ---- MEM ---- */

static void memory_row(const struct show *s, const char *name, size_t size, size_t used, size_t unused)
{
	show_row(s, &(struct memory_row){ name, size, used, unused });
}

void show_mem(const struct show *s)
{
	const struct world *w = s->world;
	struct pools_counts counts = pools_count(w->pools);
	struct connection_totals connections = connections_total(w);

	memory_row(s, "user_cache", sizeof(struct user), (size_t)counts.users, 0);
	memory_row(s, "db_cache", sizeof(struct database), (size_t)counts.databases, 0);
	memory_row(s, "peer_cache", sizeof(struct conf_peer), w->conf->peer_count, 0);
	memory_row(s, "pool_cache", sizeof(struct pool), (size_t)counts.pools, 0);
	memory_row(s, "server_cache", world_server_struct_size(), (size_t)connections.servers, 0);
	memory_row(s, "client_cache", world_client_struct_size(), (size_t)connections.clients, 0);
	memory_row(s, "prepared_statement_cache", 1, statements_bytes(w->statements), 0);
	memory_row(s, "iobuf_cache", 1, connections.buffered, connections.buffers - connections.buffered);
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
	show_row(context, &(struct dns_host_row){ name, text.failed ? NULL : (const char *)bytes_front(&text), ttl });
	bytes_free(&text);
}

void show_dns_hosts(const struct show *s)
{
	struct show copy = *s;

	dns_each_host(s->world->dns, s->world->now, host_row, &copy);
}

static void zone_row(void *context, const char *zone, int64_t serial, int hosts)
{
	show_row(context, &(struct dns_zone_row){ zone, serial, hosts });
}

void show_dns_zones(const struct show *s)
{
	struct show copy = *s;

	dns_each_zone(s->world->dns, zone_row, &copy);
}

/* ---- VERIFIERS ---- */

static void show_verifier(void *context, const struct verify_view *view) { show_row(context, view); }

void show_verifiers(const struct show *s)
{
	struct show copy = *s;

	verifiers_each(s->world->verifiers, show_verifier, &copy);
	verifiers_each(s->world->derivations->derivers, show_verifier, &copy);
}

/* ---- ADDRESSES ---- */

static void address_row(const struct show *s, const char *text, const struct client_address *o, uint32_t failures)
{
	struct address_row row = { .text = text, .failures = failures };

	if (o) {
		row.clients = o->clients;
		row.logins = o->login_count;
		row.refused = o->refused;
	}
	show_row(s, &row);
}

/* Adds a row for an address with failed logins and without clients. */
static void show_failure(void *context, const struct address_key *key, uint32_t count)
{
	const struct show *s = context;
	char text[CLIENT_ADDRESS_TEXT];

	if (client_addresses_has(s->world->addresses, key))
		return;
	client_address_text(key, text, sizeof(text));
	address_row(s, text, NULL, count);
}

static void give_address(void *context, const struct client_address *o)
{
	const struct show *s = context;
	char text[CLIENT_ADDRESS_TEXT];

	address_row(s, client_address_text(&o->key, text, sizeof(text)), o, failures_of(s->world, &o->key));
}

void show_addresses(const struct show *s)
{
	struct show copy = *s;

	client_addresses_each(s->world->addresses, give_address, &copy);
	failures_each(s->world, show_failure, &copy);
}

/* ---- REASONS ---- */

static void reasons(const struct show *s, uint64_t least)
{
	static const char *const faults[] = {
		[FAULT_NOBODY] = "nobody", [FAULT_CLIENT] = "client", [FAULT_SERVER] = "server",
		[FAULT_POLICY] = "policy", [FAULT_POOLER] = "pooler",
	};

	for (int i = REASON_NONE + 1; i < REASONS; i++) {
		const struct close_reason_row *row = close_reason_row((enum close_reason)i);

		if (close_reason_counted((enum close_reason)i) < least)
			continue;
		show_row(s, &(struct reason_row){ row, faults[row->fault], close_reason_counted((enum close_reason)i) });
	}
}

void show_reasons(const struct show *s)
{
	reasons(s, 1);
}

void show_reasons_all(const struct show *s)
{
	reasons(s, 0);
}
