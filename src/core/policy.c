/*
 * The callbacks by which room pool acts on connections (struct pool_ops).
 *
 * They are called only while the turn schedules or ticks, never within an event handler, so they
 * end no object that is in use on the stack.
 */
#include "core/lifecycle.h"

#include "auth/lookup.h"
#include "backend/dial.h"
#include "backend/server_info.h"
#include "state/server_session.h"
#include "state/notify.h"
#include "state/session_state.h"
#include "state/session_values.h"
#include "state/task.h"
#include "base/log.h"
#include "cancel/cancel.h"
#include "login/login.h"
#include "pg/build.h"
#include "relay/duration.h"
#include "relay/link.h"
#include "relay/release.h"
#include "relay/retry.h"
#include "relay/relay.h"
#include "watch/watcher.h"

#include <stdio.h>
#include <string.h>

static void lend(struct pool_server *ps, struct pool_client *pc, usec_t waited)
{
	struct server *s = server_of(ps);
	struct client *c = client_of(pc);

	if (pc->is_internal) {
		lookup_lent(s, pc);
		return;
	}
	duration_log(c, DURATION_WAIT, waited);
	if (waited > 0) {
		bool was_opened = pc->pool->held_by == LIMIT_NONE &&
				  c->peer.world->now - ps->opened < waited;

		c->last_wait.took = (uint8_t)latency_bucket(waited);
		c->last_wait.limit = was_opened ? LIMIT_ONE_LOGIN : pc->pool->held_by;
		c->last_wait.ended_at = (uint32_t)(c->peer.world->now / USEC);
	}
	if (!link_begin(s, c))
		return;
	flow_unblock(&c->peer, FLOW_HELD);
	relay_from_client(c, stream_has_buffered(&c->peer.stream));
}

static void dial(struct pool *pool, struct pool_client *whom)
{
	const struct client *c = whom && !whom->is_internal ? client_of(whom) : NULL;

	/* a replication client has its login until it has a server */
	dial_begin(pool, pool->pools->owner, c, c && c->login ? &c->login->kept : NULL);
}

static void take_reserve(struct pool *pool, struct pool_client *pc)
{
	char text[256];

	/* an internal request has no client */
	if (pc && !pc->is_internal)
		client_text(client_of(pc), text, sizeof(text));
	else
		pool_text(pool, text, sizeof(text));
	log_warning("%s taking connection from reserve_pool", text);
}

static void test(struct pool_server *ps)
{
	struct server *s = server_of(ps);
	const char *query = s->peer.world->conf->settings.server_check_query;

	server_run(s, &task_check, query && strcmp(query, "<empty>") != 0 ? query : "");
}

static void policy_drop(struct pool_server *ps, enum close_reason why)
{
	/* the next primary gets the read, because the old one has not answered it */
	if (why == REASON_HOST_ROLE && ps->link && !ps->link->is_internal &&
	    retry_recall(server_of(ps), why))
		return;
	server_end(server_of(ps), why, NULL);
}

static void policy_refuse(struct pool_client *pc, enum close_reason why)
{
	struct client *c = client_of(pc);
	const char *cached = pc->pool ? pool_login_error(pc->pool) : NULL;
	char pins[PIN_TEXT];

	if (pc->is_internal) {
		lookup_refused(pc, why, cached);
		return;
	}
	/* clients that waited for this login get the server's error, later clients get it as a
	   cached error */
	if (why == REASON_LOGIN_FAILING && pc->pool->login_failed_at == c->peer.world->now)
		why = REASON_SERVER_SAID;
	/* its last server may have executed the statement */
	if (request_step_in(c, REQUEST_IN(DOUBTED)))
		why = REASON_OUTCOME_UNKNOWN;
	if (why == REASON_QUERY_WAIT_TIMEOUT && pool_pins_text(pc->pool, pins)) {
		client_end(c, REASON_QUERY_WAIT_PINNED, pins);
		return;
	}
	client_end(c, why, cached ? cached : "server login failed");
}

static void notify(struct pool_client *pc, usec_t waited)
{
	struct bytes out = BYTES_EMPTY;
	char detail[80];

	/* a client does not expect notices during its login */
	if (pc->is_internal || client_of(pc)->login)
		return;
	snprintf(detail, sizeof(detail), "The client has waited for %lld s.",
		 (long long)(waited / USEC));
	pg_build_report(&out, 'N', "NOTICE", "00000",
			"No server connection available in postgres backend, client being queued",
			detail, NULL);
	client_send(client_of(pc), &out);
	bytes_free(&out);
}

/* Takes the server of the first client that can yield it. Not if enough servers are about to return
   already, because they are being asked for the values of their clients: each waiting client needs
   one server. */
static bool yield(struct pool *pool)
{
	bool is_for_clients = !pools_is_paused(pool->pools, pool->database) &&
			      !pools_is_paused(pool->pools, NULL) &&
			      pool->pools->draining != POOL_DRAIN_SERVERS;
	int returning = 0;

	LIST_EACH(node, &pool->clients[CLIENT_ACTIVE])
		returning += server_of(LIST_OBJECT(node, struct pool_client, node)->link)->task ==
			     &task_values;
	if (is_for_clients && returning >= pool->client_count[CLIENT_WAITING])
		return false;
	LIST_EACH(node, &pool->clients[CLIENT_ACTIVE]) {
		struct pool_client *pc = LIST_OBJECT(node, struct pool_client, node);

		if (pc->pins && session_values_may_yield(client_of(pc)) &&
		    release_yielded(server_of(pc->link)))
			return true;
	}
	return false;
}

/* The welcome is tried at once, because otherwise the scheduler would open a server for the waiting
   login, and in a full pool close an idle server for that. */
static void moved(struct pool_client *pc)
{
	login_welcome(client_of(pc));
}

static void policy_judge(struct pool_client *pc)
{
	retry_judge(client_of(pc));
}

static bool recall(struct pool_server *ps)
{
	return retry_recall(server_of(ps), REASON_READ_RECALLED);
}

static void ask_hosts(struct pools *pools)
{
	const struct world *w = pools->owner;

	if (!pools->suspended)
		watchers_tick(w->watchers);
}

static void pool_end(struct pool *pool)
{
	struct server_info *info = pool->server_info;
	struct world *w = pool->pools->owner;

	if (info)
		notify_server_free(&info->notify_server);
	server_info_free(pool, w->params);
}

const struct pool_ops policy_ops = {
	.lend = lend,
	.dial = dial,
	.take_reserve = take_reserve,
	.test = test,
	.drop = policy_drop,
	.refuse = policy_refuse,
	.notify = notify,
	.dial_cancel = cancel_dial,
	.yield = yield,
	.moved = moved,
	.judge = policy_judge,
	.recall = recall,
	.ask_hosts = ask_hosts,
	.pool_end = pool_end,
};
