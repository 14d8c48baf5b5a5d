/*
 * The facts that a pool has learned from its servers: the parameters of a new session, with which clients are welcomed, and the text of the last
 * failed login.
 *
 * Invariant: the facts are about the servers that the pool's database names now. When a RELOAD names other servers, the generation of the pool
 * changes, and older facts are dropped, except for the text of the last failed login, which is valid until the next login.
 */
#include "backend/server_info.h"

#include "backend/proven_secret.h"
#include "base/assert.h"
#include "base/mem.h"
#include "base/text.h"
#include "pg/state_functions.h"

struct server_info *server_info_get(struct pool *pool, struct params_table *table)
{
	struct server_info *info = pool->server_cache;

	if (info && info->generation != pool->generation) {
		/* after a RELOAD the pool has other servers */
		params_drop(table, &info->reported.defaults);
		welcome_drop(&info->reported.welcome);
		info->reported.defaults = params_none(table);
		info->reported.known = 0;
		hosts_clear(&info->hosts);
		database_functions_drop(&info->functions);
		info->generation = pool->generation;
	}
	if (info || !(info = mem_try(sizeof(*info))))
		return info;
	info->reported.defaults = params_none(table);
	info->generation = pool->generation;
	pool->server_cache = info;
	return info;
}

void server_info_free(struct pool *pool, struct params_table *table)
{
	struct server_info *info = pool->server_cache;

	if (!info)
		return;
	proven_secret_free(&info->proven.found);
	proven_secret_free(&info->proven.shown);
	params_drop(table, &info->reported.defaults);
	welcome_drop(&info->reported.welcome);
	hosts_clear(&info->hosts);
	database_functions_drop(&info->functions);
	ASSERT(!info->notify_server);
	mem_free(info->failure.text);
	mem_free(info);
	pool->server_cache = NULL;
}

void database_functions_drop(struct database_functions **place)
{
	struct database_functions *f = *place;

	*place = NULL;
	if (!f || --f->pools > 0)
		return;
	state_functions_free(&f->all);
	mem_free(f);
}

/* A refusal by the server and an invalid answer are lasting failures. Other failures may end without a change of the configuration. */
static enum login_failure failure_of(const struct server *s, enum close_reason why)
{
	if (!s->dial)
		return FAILURE_LASTING;		/* the login was successful, but the server cannot be used */
	if (s->dial->refusal != SERVER_REFUSAL_OTHER)
		return s->dial->refusal == SERVER_REFUSAL_FULL ? FAILURE_FULL : FAILURE_BUSY;
	switch (why) {
	case REASON_CONNECT_FAILED:
	case REASON_SERVER_CRASHED:
		return FAILURE_AWAY;
	case REASON_CONNECT_TIMED_OUT:
	case REASON_CONNECT_TIMEOUT:
	case REASON_DNS_FAILED:
	case REASON_SERVER_TLS:
	case REASON_NO_MEMORY:
		return FAILURE_PASSING;
	default:
		return FAILURE_LASTING;
	}
}

bool server_info_failed(struct server *s, enum close_reason why, const char *text, enum login_failure *failed)
{
	struct pool *pool = s->pooled.pool;
	struct server_info *info = server_info_get(pool, s->peer.world->params);
	enum login_failure failure;

	/* a login that policy, an administrator or a client has ended says nothing about the server */
	if ((close_reason_row(why)->fault == FAULT_POLICY && why != REASON_CONNECT_TIMEOUT) || close_reason_row(why)->fault == FAULT_CLIENT)
		return false;
	/* a RELOAD or a changed address has given the pool other servers meanwhile */
	if (s->pooled.close_reason != REASON_NONE || (s->dial && s->dial->generation != pool->generation))
		return false;
	failure = *failed = failure_of(s, why);
	/* for an outdated secret the server would have answered with this SQLSTATE */
	if (info && why != REASON_SERVER_SAID)
		text_copy(info->failure.sqlstate, sizeof(info->failure.sqlstate), why == REASON_SERVER_SECRET_OLD ? close_reason_row(why)->sqlstate : "");
	/* the server may accept other clients than this replication client */
	if (s->pooled.dedicated && failure == FAILURE_LASTING && why == REASON_SERVER_SAID)
		return true;
	if (info) {
		mem_free(info->failure.text);
		info->failure.text = mem_copy_string(text);
		info->failure.refused = why == REASON_SERVER_SAID;
	}
	if (s->dial)
		hosts_note(s, false);
	if (failure == FAILURE_LASTING)
		pool_server_refused(&s->pooled);
	/* invalid_catalog_name: a client has mistyped the name, or the database is created later */
	if (pool->database->automatic && info && strcmp(info->failure.sqlstate, "3D000") == 0)
		failure = FAILURE_MISSING;
	pool_login_failed(pool, failure, s->peer.world->now);
	return true;
}

const char *pool_login_error(const struct pool *pool)
{
	const struct server_info *info = pool->server_cache;

	return info ? info->failure.text : NULL;
}
