/*
 * Everything a running pgweir has, and what a turn does with it.
 *
 * The pool room decides; here its decisions are carried out (struct pool_ops). They are made only while the turn
 * schedules or ticks, never from inside an event handler, so nothing here ends an object that is on the stack above.
 */
#include "pg/statement.h"
#include "session/world.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/text.h"
#include "pg/build.h"
#include "session/auth.h"
#include "session/cancel.h"
#include "session/derivation.h"
#include "session/dial.h"
#include "session/handover.h"
#include "session/keys.h"
#include "session/link.h"
#include "session/lookup.h"
#include "session/peers.h"
#include "session/prepared.h"
#include "session/reap.h"
#include "session/refusal.h"
#include "session/relay.h"
#include "session/retire.h"
#include "session/secrets_check.h"
#include "session/tls_setup.h"
#include "session/unknown.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FOUND_KEYS_MOST 1024		/* users found by auth_query whose derivations are kept */

/* ---- what the pool room asks for ---- */

static struct world *world_of(const struct pool *pool)
{
	return pool->pools->owner;
}

static void lend(struct pool_server *ps, struct pool_client *pc)
{
	struct server *s = server_of(ps);
	struct client *c = client_of(pc);

	if (pc->errand) {
		lookup_lent(s, pc);
		return;
	}
	if (!link_begin(s, c))
		return;
	peer_read_on(&c->peer);
	relay_from_client(c, stream_has_buffered(&c->peer.stream));
}

static void dial(struct pool *pool, struct pool_client *whom)
{
	dial_begin(pool, world_of(pool), whom && !whom->errand ? client_of(whom) : NULL);
}

static void take_reserve(struct pool *pool, struct pool_client *pc)
{
	char text[256];

	/* a look-up has no client of its own */
	if (pc && !pc->errand)
		client_text(client_of(pc), text, sizeof(text));
	else
		pool_text(pool, text, sizeof(text));
	log_warning("%s taking connection from reserve_pool", text);
}

static void test(struct pool_server *ps)
{
	struct server *s = server_of(ps);
	const char *query = s->peer.world->conf->settings.server_check_query;

	server_run(s, TASK_CHECK, query && strcmp(query, "<empty>") != 0 ? query : "");
}

static void drop(struct pool_server *ps, enum goodbye why)
{
	server_end(server_of(ps), why, NULL);
}

static void refuse(struct pool_client *pc, enum goodbye why)
{
	struct client *c = client_of(pc);
	const char *cached = pc->pool ? pool_login_error(pc->pool) : NULL;

	if (pc->errand) {
		lookup_refused(pc, why, cached);
		return;
	}
	/* those who waited for this very login hear the server's own words, later ones that they are cached */
	if (why == GOODBYE_LOGIN_FAILING && pc->pool->login_failed_at == c->peer.world->now)
		why = GOODBYE_SERVER_SAID;
	client_end(c, why, cached ? cached : "server login failed");
}

static void notify(struct pool_client *pc, usec_t waited)
{
	struct bytes out = BYTES_EMPTY;
	char detail[80];

	/* in the middle of a login nobody expects one */
	if (pc->errand || client_of(pc)->login)
		return;
	snprintf(detail, sizeof(detail), "The client has waited for %lld s.", (long long)(waited / USEC));
	pg_build_notice(&out, "NOTICE", "00000", "No server connection available in postgres backend, client being queued", detail);
	client_send(client_of(pc), &out);
	bytes_free(&out);
}

static void dial_cancel_op(struct pool *pool, struct pool_client *canceller)
{
	(void)pool;
	cancel_dial(client_of(canceller));
}

static void pool_end(struct pool *pool)
{
	pool_lore_free(pool, world_of(pool));
}

static const struct pool_ops pool_ops = {
	.lend = lend,
	.dial = dial,
	.take_reserve = take_reserve,
	.test = test,
	.drop = drop,
	.refuse = refuse,
	.notify = notify,
	.dial_cancel = dial_cancel_op,
	.pool_end = pool_end,
};

/* ---- the user list ---- */

static void count_kinds(void *context, const char *user, const struct secret *secret)
{
	(void)user;
	secret_kinds_add(context, secret);
}

static const struct secret *listed(const struct userlist *list, const char *user)
{
	return list ? userlist_find(list, user) : NULL;
}

/* A server login that failed with the secret of before may succeed with another one. */
static void forgive_logins(struct world *w, const struct userlist *fresh)
{
	LIST_EACH(node, &w->pools->all) {
		struct pool *pool = LIST_OBJECT(node, struct pool, node);

		if (pool->login_failed && !secret_is_same(listed(w->userlist, pool->user->name), listed(fresh, pool->user->name)))
			pool_login_forgiven(pool);
	}
}

static void use_userlist(struct world *w, struct userlist *fresh)
{
	forgive_logins(w, fresh);
	if (w->userlist)
		userlist_free(&w->userlist);
	w->userlist = fresh;
	w->listed = (struct secret_kinds){ .all = 0 };
	if (fresh)
		userlist_each(fresh, count_kinds, &w->listed);
}

void world_refresh_userlist(struct world *w)
{
	struct conf_problems problems = { .count = 0 };
	struct userlist *fresh;

	if (!w->conf->settings.auth_file || w->now - w->userlist_checked < USEC)
		return;
	w->userlist_checked = w->now;
	if (w->userlist && !userlist_is_stale(w->userlist))
		return;
	fresh = userlist_load(w->conf->settings.auth_file, &problems);
	if (fresh)
		secrets_check(w->conf, fresh, &problems);
	for (size_t i = 0; i < problems.count; i++)
		log_warning("%s:%d: %s", problems.items[i].file, problems.items[i].line, problems.items[i].text);
	conf_problems_free(&problems);
	if (!fresh)
		return;
	use_userlist(w, fresh);
	log_info("auth_file was read again: %zu users", userlist_count(fresh));
}

/* ---- beginning, end ---- */

int world_auth_queue_most(const struct settings *set)
{
	int64_t most = set->max_auth_queue > 0 ? set->max_auth_queue : set->max_client_conn * 3 / 4;

	return most > 0 ? (int)most : 1;
}

static struct verify_limits verify_limits_of(const struct settings *set)
{
	return (struct verify_limits){ (int)set->max_auth_processes, world_auth_queue_most(set) };
}

/* To derive takes a processor, and one should be left for us. */
static struct verify_limits derive_limits_of(const struct settings *set)
{
	struct verify_limits limits = verify_limits_of(set);
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	if (processors <= limits.processes)
		limits.processes = processors > 1 ? (int)processors - 1 : 1;
	return limits;
}

static struct dns_config dns_config_of(const struct settings *set)
{
	return (struct dns_config){
		.resolv_conf = set->resolv_conf, .max_ttl = set->dns_max_ttl, .nxdomain_ttl = set->dns_nxdomain_ttl,
		.zone_check_period = set->dns_zone_check_period,
	};
}

struct world *world_new(struct event_base *base, struct conf *conf, struct conf_problems *problems)
{
	struct world *w = mem_must(sizeof(*w));
	struct dns_config dns = dns_config_of(&conf->settings);
	struct verify_limits verifiers = verify_limits_of(&conf->settings), derivers = derive_limits_of(&conf->settings);
	char why[512];

	w->base = base;
	w->buffer = mem_try_hidden(RELAY_BUFFER);
	w->piece = RELAY_BUFFER;
	list_init(&w->clients);
	list_init(&w->servers);
	list_init(&w->again);
	list_init(&w->ending);
	list_init(&w->dead_lookups);
	list_init(&w->refusals);
	origins_init(&w->origins);
	handshakes_init(&w->handshakes);
	w->clock_is_old = true;
	world_wake(w);
	world_set_wall_clock(w);
	w->conf = conf_hold(conf);
	w->keys = keys_new(0);
	w->found_keys = keys_new(FOUND_KEYS_MOST);
	w->unknown = unknown_new();
	w->verifiers = verifiers_new(base, &verifiers);
	w->derivers = verifiers_new(base, &derivers);
	w->params = params_table_new(conf->settings.track_extra_parameters);
	w->statements = w->params ? statements_new(w->params) : NULL;
	w->pools = pools_new(&pool_ops, conf, w->now);
	w->dns = dns_open(base, &dns, why, sizeof(why));
	if (w->dns)
		dns_on_change(w->dns, retire_moved, w);
	else
		conf_problem_add(problems, false, conf->path, 0, "DNS: %s", why);
	if (!w->buffer || !w->keys || !w->found_keys || !w->unknown || !w->verifiers || !w->derivers || !w->params || !w->statements ||
	    !w->pools || RAND_bytes(w->seed, sizeof(w->seed)) != 1)
		conf_problem_add(problems, false, conf->path, 0, "no memory or no randomness");
	if (problems->errors == 0) {
		w->pools->owner = w;
		lookup_turns_init(&w->lookup_turns, w->pools, lookup_granted);
		tls_setup_both(&w->client_tls, &w->server_tls, &conf->settings, false, problems);
	}
	if (problems->errors == 0 && conf->settings.auth_file) {
		struct userlist *list = userlist_load(conf->settings.auth_file, problems);

		if (list)
			use_userlist(w, list);
	}
	if (problems->errors == 0)
		secrets_check(conf, w->userlist, problems);
	if (problems->errors > 0)
		world_free(&w);
	return w;
}

void world_end_sessions(struct world *w, enum goodbye why, bool is_silent)
{
	while (!list_is_empty(&w->clients)) {
		struct client *c = LIST_OBJECT(w->clients.next, struct client, peer.node);

		c->told |= is_silent;
		client_end(c, why, NULL);
	}
	world_reap(w);
	while (!list_is_empty(&w->servers))
		server_end(LIST_OBJECT(w->servers.next, struct server, peer.node), why, NULL);
	world_reap(w);
}

void world_free(struct world **place)
{
	struct world *w = *place;

	if (!w)
		return;
	world_end_sessions(w, GOODBYE_POOLER_SHUTTING_DOWN, false);
	lookups_reap(w);
	ASSERT(!w->lookups);
	peers_free(w);
	world_stop_listening(w, true);
	elders_free(w);
	if (w->dns)
		dns_close(&w->dns);
	if (w->pools)
		pools_free(&w->pools);
	if (w->userlist)
		userlist_free(&w->userlist);
	if (w->client_tls)
		tls_context_drop(&w->client_tls);
	if (w->server_tls)
		tls_context_drop(&w->server_tls);
	statements_free(&w->statements);
	if (w->params)
		params_table_free(&w->params);
	keys_free(&w->keys);
	keys_free(&w->found_keys);
	unknown_free(&w->unknown);
	verifiers_free(&w->verifiers);
	derivations_free(w);
	verifiers_free(&w->derivers);
	failures_free(&w->failures);
	conf_drop(&w->conf);
	mem_free_hidden(w->buffer, RELAY_BUFFER);
	mem_free(w);
	*place = NULL;
}

#define DIFFERS(name) || a->name != b->name

/* Whether servers have to be dialled anew, because what holds for all of them has changed. */
static bool logs_in_differently(const struct settings *a, const struct settings *b)
{
	return false RETIRE_FOR_ALL(DIFFERS);
}

/* Not all of it is in the context: "prefer" and "require" have the same, and only one of them leaves a connection in clear. */
static bool secures_differently(const struct settings *a, const struct settings *b)
{
	return false RETIRE_FOR_TLS(DIFFERS);
}

/* A SET of anything else leaves TLS alone: files that do not fit together yet are a matter of the next SET of one of them. */
static bool changes_tls(const struct conf *conf)
{
	return !conf->set || text_starts(conf->set, "client_tls_") || text_starts(conf->set, "server_tls_");
}

bool world_reconfigure(struct world *w, struct conf *conf, struct conf_problems *problems)
{
	struct tls_context *client_tls = w->client_tls ? tls_context_hold(w->client_tls) : NULL;
	struct tls_context *server_tls = w->server_tls ? tls_context_hold(w->server_tls) : NULL;
	struct dns_config dns = dns_config_of(&conf->settings);
	struct verify_limits verifiers = verify_limits_of(&conf->settings), derivers = derive_limits_of(&conf->settings);
	struct userlist *users = NULL;
	struct conf *old = w->conf;
	bool tls_changed, logins_changed, timeout_changed;

	if (changes_tls(conf))
		tls_setup_both(&client_tls, &server_tls, &conf->settings, conf->set && conf_is_tls_file(conf->set), problems);
	if (conf->settings.auth_file)
		users = userlist_load(conf->settings.auth_file, problems);
	secrets_check(conf, users, problems);
	if (problems->errors > 0) {
		if (client_tls)
			tls_context_drop(&client_tls);
		if (server_tls)
			tls_context_drop(&server_tls);
		if (users)
			userlist_free(&users);
		return false;
	}
	tls_changed = server_tls != w->server_tls || secures_differently(&old->settings, &conf->settings);
	logins_changed = logs_in_differently(&old->settings, &conf->settings);
	timeout_changed = old->settings.server_connect_timeout != conf->settings.server_connect_timeout;
	if (w->client_tls)
		tls_context_drop(&w->client_tls);
	if (w->server_tls)
		tls_context_drop(&w->server_tls);
	w->client_tls = client_tls;
	w->server_tls = server_tls;
	use_userlist(w, users);
	w->conf = conf_hold(conf);
	world_set_listen_options(w);
	dns_configure(w->dns, &dns);
	verifiers_renew(w->verifiers, &verifiers);
	verifiers_renew(w->derivers, &derivers);
	pools_reconfigure(w->pools, conf, w->now);
	conf_drop(&old);
	if (tls_changed || logins_changed)
		retire_all(w, logins_changed);
	if (tls_changed || logins_changed || timeout_changed)
		pools_forgive_logins(w->pools);
	return true;
}

/* ---- a turn ---- */

void world_read_clock(struct world *w)
{
	w->clock_is_old = false;
	w->now = clock_monotonic();
	w->now_wall = w->now + w->wall_ahead;
}

void world_set_wall_clock(struct world *w)
{
	w->wall_ahead = clock_wall() - clock_monotonic();
	w->now_wall = w->now + w->wall_ahead;
}

void world_again(struct world *w)
{
	struct list now;

	if (list_is_empty(&w->again))
		return;
	/* what is put on the list meanwhile has its turn in the next turn */
	list_init(&now);
	while (!list_is_empty(&w->again)) {
		struct list *node = w->again.next;

		list_remove(node);
		list_append(&now, node);
	}
	while (!list_is_empty(&now)) {
		struct peer *peer = LIST_OBJECT(now.next, struct peer, again);

		list_remove(&peer->again);
		if (peer->is_client)
			client_readable(LIST_OBJECT(peer, struct client, peer), stream_has_buffered(&peer->stream));
		else
			server_readable(LIST_OBJECT(peer, struct server, peer), stream_has_buffered(&peer->stream));
	}
}

static void check_server(const struct server *s)
{
	ASSERT(s->policy.state != SERVER_DEAD && !s->peer.stopped);
	ledger_check(&s->ledger);
	if (s->policy.link) {
		ASSERT(s->policy.state == SERVER_ACTIVE && s->policy.link->link == &s->policy);
		return;
	}
	ASSERT(s->policy.state != SERVER_ACTIVE && prepared_is_quiet(s) && !s->plain_set);
	if (s->policy.state == SERVER_IDLE || s->policy.state == SERVER_USED)
		ASSERT(server_is_clean(s) || (ledger_is_empty(&s->ledger) && s->task == TASK_NONE && s->status == 'I'));
}

void world_check(const struct world *w)
{
	ASSERT(list_is_empty(&w->ending));
	LIST_EACH(node, &w->servers)
		check_server(LIST_OBJECT(node, struct server, peer.node));
	LIST_EACH(node, &w->clients) {
		const struct client *c = LIST_OBJECT(node, struct client, peer.node);

		ASSERT(c->policy.state != CLIENT_DEAD && !c->peer.stopped);
		ASSERT((c->policy.state == CLIENT_ACTIVE && !c->is_console) == (c->policy.link != NULL));
	}
	pools_check(w->pools);
	origins_check(w);
	peers_check(w);
}

/* ---- for the console ---- */

struct client *world_client_by_id(struct world *w, uint64_t id)
{
	LIST_EACH(node, &w->clients) {
		struct client *c = LIST_OBJECT(node, struct client, peer.node);

		if (c->peer.id == id && c->policy.state != CLIENT_WAITING_CANCEL && c->policy.state != CLIENT_ACTIVE_CANCEL)
			return c;
	}
	return NULL;
}

void world_kill_client(struct world *w, struct client *c)
{
	struct server *s = c->policy.link ? server_of(c->policy.link) : NULL;

	(void)w;
	if (s)
		server_end(s, GOODBYE_ADMIN_KILL, NULL);
	else
		client_end(c, GOODBYE_ADMIN_KILL, NULL);
}

void world_suspend(struct world *w, bool on)
{
	LIST_EACH(node, &w->clients) {
		struct client *c = LIST_OBJECT(node, struct client, peer.node);

		if (!c->is_console && (on || !c->peer.waits_for_room))
			stream_set_reading(&c->peer.stream, !on);
	}
	LIST_EACH(node, &w->servers) {
		struct server *s = LIST_OBJECT(node, struct server, peer.node);

		if (on || !s->peer.waits_for_room)
			stream_set_reading(&s->peer.stream, !on);
	}
}

static bool is_flushed(const struct peer *peer)
{
	return stream_unsent(&peer->stream) == 0;
}

bool world_is_flushed(const struct world *w)
{
	LIST_EACH(node, &w->clients)
		if (!is_flushed(&LIST_OBJECT(node, struct client, peer.node)->peer))
			return false;
	LIST_EACH(node, &w->servers)
		if (!is_flushed(&LIST_OBJECT(node, struct server, peer.node)->peer))
			return false;
	return true;
}

void world_drop_unflushed(struct world *w)
{
	LIST_EACH_SAFE(node, &w->clients) {
		struct client *c = LIST_OBJECT(node, struct client, peer.node);

		if (is_flushed(&c->peer))
			continue;
		/* a server that ends takes its client with it */
		if (c->policy.link)
			server_end(server_of(c->policy.link), GOODBYE_SUSPEND_TIMEOUT, NULL);
		else
			client_end(c, GOODBYE_SUSPEND_TIMEOUT, NULL);
	}
	LIST_EACH_SAFE(node, &w->servers) {
		struct server *s = LIST_OBJECT(node, struct server, peer.node);

		if (!is_flushed(&s->peer))
			server_end(s, GOODBYE_SUSPEND_TIMEOUT, NULL);
	}
}

void world_drain(struct world *w, enum world_drain how)
{
	static const enum drain policy[] = {
		[DRAIN_OFF] = DRAIN_NO, [DRAIN_WAIT_SERVERS] = DRAIN_SERVERS, [DRAIN_WAIT_CLIENTS] = DRAIN_CLIENTS, [DRAIN_NOW] = DRAIN_NO,
	};

	if ((int)how <= w->drain)
		return;
	if (w->drain == DRAIN_OFF)
		w->drain_since = w->now;
	w->drain = how;
	refusals_end(w);
	if (how == DRAIN_WAIT_CLIENTS)
		world_leave(w);
	else
		world_stop_listening(w, false);
	pools_drain(w->pools, policy[how]);
	pools_mark_all(w->pools);
}

/* Only the Unix socket stays open. */
bool client_is_in_time(const struct client *c)
{
	return c->peer.remote.family != AF_UNIX || c->login_since <= c->peer.world->drain_since;
}

/* Clients that a shutdown waits for: all but those of the console and those that come too late. */
static bool is_waited_for(const struct client *c)
{
	return !c->is_console && (c->policy.pool || client_is_in_time(c));
}

static bool has_clients(const struct world *w)
{
	LIST_EACH(node, &w->clients)
		if (is_waited_for(LIST_OBJECT(node, struct client, peer.node)))
			return true;
	return false;
}

size_t world_drain_left(const struct world *w)
{
	size_t left = 0;

	LIST_EACH(node, &w->clients)
		left += w->drain == DRAIN_WAIT_CLIENTS && is_waited_for(LIST_OBJECT(node, struct client, peer.node));
	for (const struct database *d = w->pools->databases; w->drain == DRAIN_WAIT_SERVERS && d; d = d->hh.next)
		left += (size_t)d->servers;
	return left;
}

bool world_is_deserted(const struct world *w)
{
	if (!w->successor)
		return false;
	/* who looks at the console does not hold it up */
	LIST_EACH(node, &w->clients)
		if (!LIST_OBJECT(node, struct client, peer.node)->is_console)
			return false;
	return true;
}

bool world_has_drained(const struct world *w)
{
	switch ((enum world_drain)w->drain) {
	case DRAIN_OFF:
		return false;
	case DRAIN_NOW:
		return true;
	case DRAIN_WAIT_SERVERS:
		return pools_is_without_servers(w->pools, NULL);
	case DRAIN_WAIT_CLIENTS:
		return w->leave_until == 0 && !has_clients(w);
	}
	return false;
}

size_t world_client_struct_size(void)
{
	return sizeof(struct client);
}

size_t world_server_struct_size(void)
{
	return sizeof(struct server);
}
