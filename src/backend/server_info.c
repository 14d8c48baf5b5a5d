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
#include "base/mem.h"
#include "pg/build.h"
#include "pg/frame.h"

#include <string.h>

struct server_info *server_info_get(struct pool *pool, struct params_table *table)
{
	struct server_info *info = pool->session;

	if (info && info->generation != pool->generation) {
		/* a RELOAD leads to another server: what the old one said holds no more */
		params_drop(table, &info->defaults);
		bytes_free(&info->welcome);
		mem_free(info->standby);
		info->standby = NULL;
		info->defaults = params_none(table);
		info->known = 0;
		info->welcomed = false;
		hosts_clear(&info->hosts);
		info->generation = pool->generation;
	}
	if (info || !(info = mem_try(sizeof(*info))))
		return info;
	info->defaults = params_none(table);
	info->generation = pool->generation;
	pool->session = info;
	return info;
}

void server_info_free(struct pool *pool, struct params_table *table)
{
	struct server_info *info = pool->session;

	if (!info)
		return;
	proven_secret_free(&info->found);
	proven_secret_free(&info->shown);
	params_drop(table, &info->defaults);
	bytes_free(&info->welcome);
	mem_free(info->standby);
	hosts_clear(&info->hosts);
	mem_free(info->login_error);
	mem_free(info);
	pool->session = NULL;
}

/* The one that no session can set: a standby has become the primary. */
static bool is_of_server(const char *name)
{
	return strcmp(name, "in_hot_standby") == 0;
}

void server_info_reported(struct pool *pool, const char *name, const char *value)
{
	struct server_info *info = pool->session;
	char *copy;

	if (!info || !info->welcomed || info->generation != pool->generation || !is_of_server(name))
		return;
	/* without memory clients are welcomed with what was true before */
	copy = mem_copy_string(value);
	if (!copy)
		return;
	mem_free(info->standby);
	info->standby = copy;
}

/* The messages of the welcome, with this value of what the server itself reports. */
static void build_welcome(const struct bytes *welcome, const char *value, struct bytes *fresh)
{
	struct pg_frames in = pg_frames_of(welcome);
	struct pg_frame f;

	/* another process may have written them */
	while (pg_frames_next(&in, PG_LENGTH_LIMIT, &f) == PG_OK) {
		struct pg_cursor body = pg_cursor_of(f.body, f.size);
		const char *name = pg_read_string(&body);

		if (is_of_server(name))
			pg_build_parameter_status(fresh, name, value);
		else
			bytes_append(fresh, f.body - PG_HEADER, PG_HEADER + f.size);
	}
}

const struct bytes *server_info_welcome(struct server_info *info)
{
	struct bytes fresh = BYTES_EMPTY;

	if (!info->standby)
		return &info->welcome;
	if (info->welcome.data)
		build_welcome(&info->welcome, info->standby, &fresh);
	mem_free(info->standby);
	info->standby = NULL;
	if (fresh.failed) {
		bytes_free(&fresh);
		return &info->welcome;
	}
	bytes_free(&info->welcome);
	info->welcome = fresh;
	return &info->welcome;
}

void server_info_learned(struct server_info *info, struct bytes *welcome)
{
	bytes_free(&info->welcome);
	mem_free(info->standby);
	info->standby = NULL;
	info->welcome = *welcome;
	*welcome = (struct bytes)BYTES_EMPTY;
	info->welcomed = true;
}

/* A refusal of the server's, or an answer that cannot be accepted, is lasting. All else may pass by itself. */
static enum login_failure failure_of(const struct server *s, enum close_reason why)
{
	if (!s->dial)
		return FAILURE_LASTING;		/* it lets us in, and is of no use then */
	if (s->dial->refusal != REFUSAL_OTHER)
		return s->dial->refusal == REFUSAL_FULL ? FAILURE_FULL : FAILURE_BUSY;
	switch (why) {
	case REASON_CONNECT_FAILED:
	case REASON_SERVER_CRASHED:
		return FAILURE_AWAY;
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
	struct pool *pool = s->policy.pool;
	struct server_info *info = server_info_get(pool, s->peer.world->params);
	enum login_failure failure;

	/* what policy or an administrator ended, or a client's wish, is no failure of the server's */
	if ((close_reason_row(why)->fault == FAULT_POLICY && why != REASON_CONNECT_TIMEOUT) || close_reason_row(why)->fault == FAULT_CLIENT)
		return false;
	/* nor is it any of the new servers' when a RELOAD or the name server has meanwhile sent the pool elsewhere */
	if (s->policy.close_reason != REASON_NONE || (s->dial && s->dial->generation != pool->generation))
		return false;
	failure = *failed = failure_of(s, why);
	if (info && why != REASON_SERVER_SAID)
		info->sqlstate[0] = '\0';
	/* what the server refuses to one replication client it need not refuse to others */
	if (s->policy.dedicated && failure == FAILURE_LASTING && why == REASON_SERVER_SAID)
		return true;
	if (info) {
		mem_free(info->login_error);
		info->login_error = mem_copy_string(text);
		info->refused = why == REASON_SERVER_SAID;
	}
	if (s->dial)
		hosts_note(s, false);
	if (failure == FAILURE_LASTING)
		pool_server_refused(&s->policy);
	pool_login_failed(pool, failure, s->peer.world->now);
	return true;
}

bool server_info_covers(const struct server_info *info, const struct params_table *table, const struct params *asked)
{
	if (!info->welcomed)
		return false;
	for (int i = 0; i < params_count(table); i++)
		if (!(info->known & (uint64_t)1 << i) && !params_get(asked, i))
			return false;
	return true;
}

const char *pool_login_error(const struct pool *pool)
{
	const struct server_info *info = pool->session;

	return info ? info->login_error : NULL;
}
