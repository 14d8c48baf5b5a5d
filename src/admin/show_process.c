/*
 * SHOW CONFIG, VERSION, STATE, LISTS, MEM, DNS_HOSTS, DNS_ZONES, VERIFIERS, ADDRESSES and REASONS: the process as a whole.
 */
#include "admin/show.h"

#include "auth/refusal.h"
#include "backend/derivation.h"
#include "pg/statement.h"
#include "pool/rows.h"
#include "session/connection_row.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void show_version(const struct show *s)
{
	result_text(s->to, s->control->version);
}

void show_config(const struct show *s)
{
	char value[4096];

	for (size_t i = 0; i < setting_rows(); i++) {
		const struct setting_row *row = setting_row(i);
		bool has_default = row->default_text && row->default_text[0] != '\0';

		result_text(s->to, row->name);
		result_text(s->to, setting_value_shown(&s->world->conf->settings, i, value, sizeof(value)));
		result_text(s->to, has_default ? row->default_text : NULL);
		result_text(s->to, row->applies != APPLIES_START ? "yes" : "no");
	}
}

void show_state(const struct show *s)
{
	const struct pools *pools = s->world->pools;
	const struct { const char *name; bool on; } states[] = {
		{ "active", !pools->paused && !pools->suspended },
		{ "paused", pools->paused },
		{ "suspended", pools->suspended },
	};
	static const char *const waits[] = {
		[DRAIN_WAIT_CLIENTS] = "wait_for_clients", [DRAIN_WAIT_SERVERS] = "wait_for_servers", [DRAIN_NOW] = "at once",
	};

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		result_text(s->to, states[i].name);
		result_text(s->to, states[i].on ? "yes" : "no");
	}
	/* rows of our own: on demand, or while they say something */
	if (s->world->conf->settings.show_extra_columns) {
		char polled[24];

		snprintf(polled, sizeof(polled), "%" PRIu64, s->world->busy_poll.polled_total);
		result_text(s->to, "busy_poll");
		result_text(s->to, busy_poll_name(&s->world->busy_poll));
		result_text(s->to, "busy_poll_time");
		result_text(s->to, polled);
	}
	if (s->world->drain != DRAIN_OFF) {
		char left[24];

		result_text(s->to, "shutdown");
		result_text(s->to, waits[s->world->drain]);
		snprintf(left, sizeof(left), "%zu", world_drain_left(s->world));
		result_text(s->to, "shutdown_waits_for");
		result_text(s->to, left);
	}
}

/* ---- LISTS ---- */

static void list_row(const struct show *s, const char *name, int64_t items)
{
	result_text(s->to, name);
	result_number(s->to, items);
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
	list_row(s, "free_clients", 0);		/* what is not in use has no memory */
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
	result_text(s->to, name);
	result_number(s->to, (int64_t)size);
	result_number(s->to, (int64_t)used);
	result_number(s->to, (int64_t)unused);
	result_number(s->to, (int64_t)(size * (used + unused)));
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
	struct result *r = context;
	struct bytes text = BYTES_EMPTY;
	struct brief_address address;
	char ip[64];

	/* the port, which no name has, is part of what monitors of PgBouncer's have always been given */
	for (int i = 0; i < answer->count; i++) {
		brief_address_of(&address, &answer->addresses[i], 0);
		bytes_append_format(&text, "%s%s", i > 0 ? "," : "",
				    brief_address_and_port(&address, ip, sizeof(ip)));
	}
	bytes_append_u8(&text, 0);
	result_text(r, name);
	result_number(r, ttl);
	result_text(r, bytes_text(&text));
	bytes_free(&text);
}

void show_dns_hosts(const struct show *s)
{
	dns_each_host(s->world->dns, s->world->now, host_row, s->to);
}

static void zone_row(void *context, const char *zone, int64_t serial, int hosts)
{
	result_text(context, zone);
	result_number(context, serial);
	result_number(context, hosts);
}

void show_dns_zones(const struct show *s)
{
	dns_each_zone(s->world->dns, zone_row, s->to);
}

/* ---- VERIFIERS ---- */

static void show_verifier(void *context, const struct verify_view *view)
{
	const struct show *s = context;

	if (view->pid > 0)
		result_number(s->to, view->pid);
	else
		result_null(s->to);
	result_text(s->to, view->state);
	result_text(s->to, view->method);
	result_text(s->to, view->user);
	result_number(s->to, s->world->now - view->since);
	if (view->pid > 0)
		result_count(s->to, view->answered);
	else
		result_null(s->to);
}

void show_verifiers(const struct show *s)
{
	struct show copy = *s;

	verifiers_each(s->world->verifiers, show_verifier, &copy);
	verifiers_each(s->world->derivations->derivers, show_verifier, &copy);
}

/* ---- ADDRESSES ---- */

static void address_row(const struct show *s, const char *text, const struct client_address *o, uint32_t failures)
{
	result_text(s->to, text);
	result_number(s->to, o ? o->clients : 0);
	result_number(s->to, o ? o->login_count : 0);
	result_number(s->to, o ? o->refused : 0);
	result_number(s->to, failures);
}

/* Addresses from which logins have failed, but no client is here. */
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
		result_text(s->to, row->name);
		result_text(s->to, faults[row->fault]);
		result_text(s->to, row->sqlstate);
		result_text(s->to, row->text);
		result_count(s->to, close_reason_counted((enum close_reason)i));
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
