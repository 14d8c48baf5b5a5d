/*
 * What a pool has learned from its servers.
 *
 * A client is welcomed with the values that a real server of its pool has reported, and hears the words
 * with which a server refused the last login. All of it is of the servers that the pool's database names:
 * when a RELOAD names others, the generation of the pool has moved on, and what was learned before is void,
 * but for the last error, which stands until the next login.
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
		/* a RELOAD leads to another server: what the old one said holds no more */
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

/* A refusal of the server's, or an answer that cannot be accepted, is lasting. All else may pass by itself. */
static enum login_failure failure_of(const struct server *s, enum close_reason why)
{
	if (!s->dial)
		return FAILURE_LASTING;		/* it lets us in, and is of no use then */
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

/* The client may have mistyped the name; or it is created next (invalid_catalog_name). */
static bool is_database_missing(const struct pool *pool, const struct server_info *info)
{
	return pool->database->automatic && info && strcmp(info->failure.sqlstate, "3D000") == 0;
}

bool server_info_failed(struct server *s, enum close_reason why, const char *text, enum login_failure *failed)
{
	struct pool *pool = s->pooled.pool;
	struct server_info *info = server_info_get(pool, s->peer.world->params);
	enum login_failure failure;

	/* what policy or an administrator ended, or a client's wish, is no failure of the server's */
	if ((close_reason_row(why)->fault == FAULT_POLICY && why != REASON_CONNECT_TIMEOUT) || close_reason_row(why)->fault == FAULT_CLIENT)
		return false;
	/* nor is it any of the new servers' when a RELOAD or the name server has meanwhile sent the pool elsewhere */
	if (s->pooled.close_reason != REASON_NONE || (s->dial && s->dial->generation != pool->generation))
		return false;
	failure = *failed = failure_of(s, why);
	/* that of a secret that is not the server's is what the server itself would have said */
	if (info && why != REASON_SERVER_SAID)
		text_copy(info->failure.sqlstate, sizeof(info->failure.sqlstate), why == REASON_SERVER_SECRET_OLD ? close_reason_row(why)->sqlstate : "");
	/* what the server refuses to one replication client it need not refuse to others */
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
	pool_login_failed(pool, is_database_missing(pool, info) ? FAILURE_MISSING : failure, s->peer.world->now);
	return true;
}

bool server_info_covers(const struct server_info *info, const struct params_table *table, const struct params *asked)
{
	if (!info->reported.welcome)
		return false;
	for (int i = 0; i < params_count(table); i++)
		if (!(info->reported.known & (uint64_t)1 << i) && !params_get(asked, i))
			return false;
	return true;
}

const char *pool_login_error(const struct pool *pool)
{
	const struct server_info *info = pool->server_cache;

	return info ? info->failure.text : NULL;
}
