/*
 * struct world, which holds everything of a running pgweir: creating, reconfiguring, checking,
 * draining and freeing.
 */
#include "core/lifecycle.h"

#include "auth/auth.h"
#include "auth/client_address.h"
#include "auth/lookup.h"
#include "auth/unknown.h"
#include "auth/users.h"
#include "backend/derivation.h"
#include "backend/keys.h"
#include "backend/retire.h"
#include "base/assert.h"
#include "base/inline.h"
#include "base/log.h"
#include "base/text.h"
#include "cancel/cancel.h"
#include "cancel/predecessors.h"
#include "conf/value.h"
#include "core/alarm.h"
#include "core/tls_setup.h"
#include "handover/handover.h"
#include "login/handshake.h"
#include "prepared/prepared.h"
#include "relay/query_stats.h"
#include "relay/relay.h"
#include "relay/release.h"
#include "sql/statement.h"
#include "watch/watcher.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- creating and freeing ---- */

/* Sets the limits on processes for PAM and LDAP, and for key derivation. Key derivation is
   CPU-bound, so one processor is left for the event loop. */
static void process_limits(const struct settings *set, struct verify_limits *verifiers,
			   struct verify_limits *derivers)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	*verifiers = *derivers = (struct verify_limits){ (int)set->max_auth_processes,
							 lookup_queue_most(set) };
	if (processors <= derivers->processes)
		derivers->processes = processors > 1 ? (int)processors - 1 : 1;
}

static struct dns_config dns_config_of(struct world *w, const struct settings *set)
{
	return (struct dns_config){
		.resolv_conf = set->resolv_conf,
		.max_ttl = set->dns_max_ttl,
		.nxdomain_ttl = set->dns_nxdomain_ttl,
		.zone_check_period = set->dns_zone_check_period,
		.changed = retire_moved,
		.context = w,
	};
}

/* Which durations the relay passes to duration_log(). Without limits it only counts them. While
   clients are drained, each of them may end after its transaction. */
void world_set_durations(struct world *w)
{
	const struct settings *set = &w->conf->settings;
	bool texts;

	if (!set->query_stats)
		query_stats_free(&w->queries.stats);
	else if (!w->queries.stats)
		w->queries.stats = query_stats_new();
	texts = w->queries.stats || (set->log_query_text && set->log_min_duration_query >= 0);
	w->queries.durations = (struct durations_logged){
		/* with texts, duration_log() must forget each of them */
		.query = texts ? 0
			 : set->log_min_duration_query < 0
				 ? INT64_MAX
				 : set->log_min_duration_query * (USEC / 1000),
		.transaction = w->pools && !list_is_empty(&w->pools->drains) ? 0
			       : set->log_min_duration_transaction < 0
				       ? INT64_MAX
				       : set->log_min_duration_transaction * (USEC / 1000),
		.texts = texts,
	};
}

/* Creates the parts that other rooms define. False: no memory, or no randomness. */
static bool make_parts(struct world *w, struct conf *conf)
{
	struct verify_limits verifiers, derivers;

	process_limits(&conf->settings, &verifiers, &derivers);
	w->buffer = mem_try_hidden(READ_BUFFER);
	relay_share_turn(w);
	w->alarms = alarms_new();
	w->logins.addresses = client_addresses_new();
	w->logins.handshakes = mem_try(sizeof(*w->logins.handshakes));
	w->cancels = mem_try(sizeof(*w->cancels));
	if (w->cancels)
		list_init(&w->cancels->predecessors);
	w->logins.secrets = secrets_new();
	w->logins.unknown = unknown_new();
	w->logins.verifiers = verifiers_new(w->base, &verifiers);
	w->logins.derivations = derivations_new(w->base, &derivers);
	w->params = params_table_new(conf->settings.track_extra_parameters);
	if (!w->buffer || !w->alarms || !w->logins.addresses || !w->logins.handshakes ||
	    !w->cancels || !w->logins.secrets || !w->logins.unknown || !w->logins.verifiers ||
	    !w->logins.derivations || !w->params)
		return false;
	verify_queue_init(&w->logins.handshakes->waiting);
	w->statements = statements_new(w->params);
	w->pools = pools_new(&policy_ops, w->shared, conf, w->now);
	w->logins.lookups = w->pools ? lookups_new(w->pools) : NULL;
	w->watchers = watchers_new(w);
	if (!w->statements || !w->logins.lookups || !w->watchers)
		return false;
	w->pools->owner = w;
	return RAND_bytes(w->seed, sizeof(w->seed)) == 1;
}

/* Not inlined: in the caller, run(), the inlined code would take registers from the event loop,
   which costs 10 instructions in each turn. */
NEVER_INLINE struct world *world_new(struct event_base *base, struct shared *shared,
				     struct conf *conf, struct conf_problems *problems)
{
	struct world *w = mem_must(sizeof(*w));
	const struct settings *set = &conf->settings;
	struct dns_config dns = dns_config_of(w, set);
	struct userlist *users;
	char why[512];

	w->base = base;
	w->shared = shared;
	w->ops = &dispatch_ops;
	list_init(&w->peers.clients);
	list_init(&w->peers.servers);
	list_init(&w->peers.again);
	list_init(&w->notify.due);
	list_init(&w->notify.listeners);
	list_init(&w->peers.ending);
	w->loop.clock_is_old = true;
	w->wall_ahead = clock_wall() - clock_monotonic();
	world_wake(w);
	busy_poll_set(&w->loop.busy_poll, set->busy_poll, set->busy_poll_share, w->now);
	w->conf = conf_hold(conf);
	world_set_durations(w);
	if (!make_parts(w, conf))
		conf_problem_add(problems, false, conf->path, 0, "no memory or no randomness");
	else if (!(w->dns = dns_open(base, &dns, why, sizeof(why))))
		conf_problem_add(problems, false, conf->path, 0, "DNS: %s", why);
	if (problems->errors == 0)
		tls_contexts_make(&w->tls, &(struct tls_contexts){ .clients = NULL }, conf, false,
				  problems);
	users = problems->errors == 0 ? userlist_of_conf(conf, problems) : NULL;
	if (users)
		users_replace(w, users);
	if (problems->errors == 0)
		users_check(conf, w->logins.secrets->list, problems);
	if (problems->errors > 0)
		world_free(&w);
	return w;
}

void world_end_sessions(struct world *w, enum close_reason why, bool is_silent)
{
	while (!list_is_empty(&w->peers.clients)) {
		struct client *c = LIST_OBJECT(w->peers.clients.next, struct client, peer.node);

		if (is_silent)
			client_note_error_sent(c);
		client_end(c, why, NULL);
	}
	world_reap(w);
	while (!list_is_empty(&w->peers.servers))
		server_end(LIST_OBJECT(w->peers.servers.next, struct server, peer.node), why, NULL);
	world_reap(w);
}

void world_free(struct world **place)
{
	struct world *w = *place;

	if (!w)
		return;
	world_end_sessions(w, REASON_POOLER_SHUTTING_DOWN, false);
	lookups_free(&w->logins.lookups);
	world_stop_listen_sockets(w, STOP_ALL);
	predecessors_free(w);
	cancels_free(&w->cancels);
	if (w->pools) {
		/* before the resolver, in which they have requests */
		watchers_free(&w->watchers);
		world_reap(w);
	}
	if (w->dns)
		dns_close(&w->dns);
	if (w->pools)
		pools_free(&w->pools);
	tls_contexts_drop(&w->tls);
	mem_free(w->statements);
	query_stats_free(&w->queries.stats);
	if (w->params)
		params_table_free(&w->params);
	secrets_free(&w->logins.secrets);
	unknown_free(&w->logins.unknown);
	client_addresses_free(&w->logins.addresses);
	alarms_free(&w->alarms);
	mem_free(w->logins.handshakes);
	verifiers_free(&w->logins.verifiers);
	derivations_free(&w->logins.derivations);
	conf_drop(&w->conf);
	mem_free_hidden(w->buffer, READ_BUFFER);
	mem_free(w);
	*place = NULL;
}

static bool differ(const struct settings *a, const struct settings *b, enum setting_applies which)
{
	return value_rows_differ(&setting_table, which, a, b);
}

bool world_reconfigure(struct world *w, struct conf *conf, struct conf_problems *problems)
{
	struct tls_contexts tls = { .clients = NULL }, old_tls;
	struct dns_config dns = dns_config_of(w, &conf->settings);
	struct verify_limits verifiers, derivers;
	struct userlist *users = NULL;
	struct conf *old = w->conf;
	bool tls_changed, own_changed, logins_changed, timeout_changed;
	/* not after a SET of another setting, because TLS files may not fit together until the next
	   SET of one of them */
	bool is_about_tls = !conf->set || text_starts(conf->set, "client_tls") ||
			    text_starts(conf->set, "server_tls");

	process_limits(&conf->settings, &verifiers, &derivers);
	if (is_about_tls)
		tls_contexts_make(&tls, &w->tls, conf, conf->set && conf_is_tls_file(conf->set),
				  problems);
	users = userlist_of_conf(conf, problems);
	users_check(conf, users, problems);
	if (problems->errors > 0) {
		tls_contexts_drop(&tls);
		if (users)
			userlist_free(&users);
		return false;
	}
	old_tls = w->tls;
	if (is_about_tls)
		w->tls = tls;
	tls_changed = (w->tls.servers || old_tls.servers) &&
		      (w->tls.servers != old_tls.servers ||
		       differ(&old->settings, &conf->settings, APPLIES_TCP_SERVERS));
	logins_changed = differ(&old->settings, &conf->settings, APPLIES_SERVERS);
	timeout_changed = old->settings.server_connect_timeout !=
			  conf->settings.server_connect_timeout;
	users_replace(w, users);
	w->conf = conf_hold(conf);
	world_set_durations(w);
	world_set_listen_options(w);
	busy_poll_set(&w->loop.busy_poll, conf->settings.busy_poll, conf->settings.busy_poll_share,
		      w->now);
	dns_configure(w->dns, &dns);
	verifiers_renew(w->logins.verifiers, &verifiers);
	verifiers_renew(w->logins.derivations->derivers, &derivers);
	pools_reconfigure(w->pools, conf, w->now);
	LIST_EACH_SAFE(node, &w->peers.clients)
		client_prepare_request(LIST_OBJECT(node, struct client, peer.node));
	conf_drop(&old);
	own_changed = is_about_tls && tls_contexts_retire_changed(w, &old_tls);
	if (is_about_tls)
		tls_contexts_drop(&old_tls);
	if (tls_changed || own_changed || logins_changed)
		retire_servers(w, tls_changed || logins_changed, logins_changed);
	if (tls_changed || own_changed || logins_changed || timeout_changed)
		LIST_EACH(node, &w->pools->all)
			pool_login_forgiven(LIST_OBJECT(node, struct pool, node));
	return true;
}

/* ---- invariants ---- */

/* Input that is to be handled first must be on world->peers.again, or wait for something. */
static void check_held(const struct peer *peer, bool waits)
{
	ASSERT(peer->stream.phase != STREAM_OPEN || (peer->blocked == 0) == peer->stream.reading);
	ASSERT(peer->fate == PEER_STAYS);
	ASSERT(!peer->held_first || (bytes_size(&peer->held) > 0 &&
				     (waits || peer->blocked || !list_is_empty(&peer->again))));
}

static void world_check_server(const struct server *s)
{
	check_held(&s->peer, false);
	ASSERT(s->pooled.state != SERVER_DEAD);
	ASSERT(!s->task || s->task->states & 1u << s->pooled.state);
	ledger_check(&s->ledger);
	if (s->pooled.link) {
		ASSERT(s->pooled.state == SERVER_ACTIVE && s->pooled.link->link == &s->pooled);
		return;
	}
	ASSERT(s->pooled.state != SERVER_ACTIVE && !s->session.plain_set &&
	       (prepared_is_quiet(s) || s->pooled.state == SERVER_FINISHING));
	if (s->pooled.state == SERVER_IDLE || s->pooled.state == SERVER_USED)
		ASSERT(server_is_clean(s) ||
		       (ledger_is_empty(&s->ledger) && !s->task && s->status == 'I'));
}

void world_check(const struct world *w)
{
	ASSERT(list_is_empty(&w->peers.ending));
	LIST_EACH(node, &w->peers.servers)
		world_check_server(LIST_OBJECT(node, struct server, peer.node));
	LIST_EACH(node, &w->peers.clients) {
		const struct client *c = LIST_OBJECT(node, struct client, peer.node);

		ASSERT(c->pooled.state != CLIENT_DEAD);
		ASSERT((c->pooled.state == CLIENT_ACTIVE && !c->console.is_connected) ==
		       (c->pooled.link != NULL));
		check_held(&c->peer, c->pooled.link && server_of(c->pooled.link)->task != NULL);
	}
	pools_check(w->pools);
	client_addresses_check(w);
	peers_check(w);
}

/* ---- for the console ---- */

void world_suspend(struct world *w, bool on)
{
	LIST_EACH(node, &w->peers.clients) {
		struct client *c = LIST_OBJECT(node, struct client, peer.node);

		/* A client in its login may be the administrator with the RESUME, and needs no
		   server before its first query. */
		if (!on)
			flow_unblock(&c->peer, FLOW_SUSPENDED);
		else if (!c->console.is_connected && !c->login)
			flow_block(&c->peer, FLOW_SUSPENDED);
	}
	LIST_EACH(node, &w->peers.servers) {
		struct server *s = LIST_OBJECT(node, struct server, peer.node);

		if (on)
			flow_block(&s->peer, FLOW_SUSPENDED);
		else
			flow_unblock(&s->peer, FLOW_SUSPENDED);
	}
}

/* Whether nothing is unsent, and no input of the current or last turn remains to be passed on. */
static bool is_flushed(const struct peer *peer)
{
	return stream_unsent(&peer->stream) == 0 &&
	       !(peer->held_first && !list_is_empty(&peer->again));
}

size_t world_unflushed(struct world *w, bool drop)
{
	size_t count = 0;

	LIST_EACH_SAFE(node, &w->peers.clients) {
		struct client *c = LIST_OBJECT(node, struct client, peer.node);

		if (is_flushed(&c->peer))
			continue;
		/* the end of the server also ends its client */
		if (drop && c->pooled.link)
			server_end(server_of(c->pooled.link), REASON_SUSPEND_TIMEOUT, NULL);
		else if (drop)
			client_end(c, REASON_SUSPEND_TIMEOUT, NULL);
		count += !drop;
	}
	LIST_EACH_SAFE(node, &w->peers.servers) {
		struct server *s = LIST_OBJECT(node, struct server, peer.node);

		if (is_flushed(&s->peer))
			continue;
		if (drop)
			server_end(s, REASON_SUSPEND_TIMEOUT, NULL);
		count += !drop;
	}
	return count;
}

void world_drain(struct world *w, enum world_drain how)
{
	static const enum pool_drain policy[] = {
		[DRAIN_OFF] = POOL_DRAIN_NO,
		[DRAIN_WAIT_SERVERS] = POOL_DRAIN_SERVERS,
		[DRAIN_WAIT_CLIENTS] = POOL_DRAIN_CLIENTS,
		[DRAIN_NOW] = POOL_DRAIN_NO,
	};

	if ((int)how <= w->drain.step)
		return;
	if (w->drain.step == DRAIN_OFF)
		w->drain.since = w->now;
	w->drain.step = how;
	refusals_tick(w->logins.addresses, INT64_MAX);
	world_stop_listen_sockets(w, how == DRAIN_WAIT_CLIENTS ? STOP_TCP_GENTLY : STOP_TCP);
	w->pools->draining = policy[how];
	pools_mark_all(w->pools);
}

size_t world_drain_left(const struct world *w)
{
	size_t left = 0;

	/* not for console clients, and not for clients that came after the shutdown began */
	LIST_EACH(node, &w->peers.clients) {
		const struct client *c = LIST_OBJECT(node, struct client, peer.node);

		left += w->drain.step == DRAIN_WAIT_CLIENTS && !c->console.is_connected &&
			(c->pooled.pool || client_is_in_time(c));
	}
	for (const struct database *d = w->pools->databases;
	     w->drain.step == DRAIN_WAIT_SERVERS && d; d = d->hh.next)
		left += (size_t)d->servers->used;
	return left;
}

bool world_is_over(const struct world *w)
{
	bool is_deserted = w->successor != NULL;

	/* console clients do not count */
	LIST_EACH(node, &w->peers.clients)
		if (!LIST_OBJECT(node, struct client, peer.node)->console.is_connected) {
			is_deserted = false;
			break;
		}
	/* servers without their clients (FINISHING): their queries are to be cancelled */
	LIST_EACH(node, &w->peers.servers)
		is_deserted &= LIST_OBJECT(node, struct server, peer.node)->pooled.state !=
			       SERVER_FINISHING;
	if (is_deserted)
		return true;
	switch ((enum world_drain)w->drain.step) {
	case DRAIN_OFF:
		return false;
	case DRAIN_NOW:
		return true;
	case DRAIN_WAIT_SERVERS:
		return pools_is_without_servers(w->pools, NULL, false);
	case DRAIN_WAIT_CLIENTS:
		return w->listen_sockets.leave_until == 0 && world_drain_left(w) == 0;
	}
	return false;
}
