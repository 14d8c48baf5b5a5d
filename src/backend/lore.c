/*
 * What a pool has learned from its servers.
 *
 * A client is welcomed with the values that a real server of its pool has reported, and hears the words
 * with which a server refused the last login. All of it is of the servers that the pool's database names:
 * when a RELOAD names others, the generation of the pool has moved on, and what was learned before is void,
 * but for the last error, which stands until the next login.
 */
#include "backend/lore.h"

#include "backend/found.h"
#include "base/mem.h"
#include "pg/build.h"
#include "pg/frame.h"

#include <string.h>

struct pool_lore *pool_lore_get(struct pool *pool, struct world *w)
{
	struct pool_lore *lore = pool->session;

	if (lore && lore->generation != pool->generation) {
		/* a RELOAD leads to another server: what the old one said holds no more */
		params_drop(w->params, &lore->defaults);
		bytes_free(&lore->welcome);
		mem_free(lore->standby);
		lore->standby = NULL;
		lore->defaults = params_none(w->params);
		lore->known = 0;
		lore->welcomed = false;
		hosts_clear(&lore->hosts);
		lore->generation = pool->generation;
	}
	if (lore || !(lore = mem_try(sizeof(*lore))))
		return lore;
	lore->defaults = params_none(w->params);
	lore->generation = pool->generation;
	pool->session = lore;
	return lore;
}

void pool_lore_free(struct pool *pool, struct world *w)
{
	struct pool_lore *lore = pool->session;

	if (!lore)
		return;
	found_free(&lore->found);
	found_free(&lore->shown);
	params_drop(w->params, &lore->defaults);
	bytes_free(&lore->welcome);
	mem_free(lore->standby);
	hosts_clear(&lore->hosts);
	mem_free(lore->login_error);
	mem_free(lore);
	pool->session = NULL;
}

/* The one that no session can set: a standby has become the primary. */
static bool is_of_server(const char *name)
{
	return strcmp(name, "in_hot_standby") == 0;
}

void pool_lore_reported(struct pool *pool, const char *name, const char *value)
{
	struct pool_lore *lore = pool->session;
	char *copy;

	if (!lore || !lore->welcomed || lore->generation != pool->generation || !is_of_server(name))
		return;
	/* without memory clients are welcomed with what was true before */
	copy = mem_copy_string(value);
	if (!copy)
		return;
	mem_free(lore->standby);
	lore->standby = copy;
}

/* The messages of the welcome, with this value of what the server itself reports. */
static void build_welcome(const struct bytes *welcome, const char *value, struct bytes *fresh)
{
	const uint8_t *at = bytes_front(welcome);
	struct pg_frame f;

	for (size_t left = bytes_size(welcome); left > 0; left -= PG_HEADER + f.size, at += PG_HEADER + f.size) {
		struct pg_cursor body;
		const char *name;

		/* another process may have written them */
		if (pg_frame_look(at, left, PG_LENGTH_LIMIT, &f) != PG_OK || !pg_frame_is_whole(&f))
			break;
		body = pg_cursor_of(f.body, f.size);
		name = pg_read_string(&body);
		if (is_of_server(name))
			pg_build_parameter_status(fresh, name, value);
		else
			bytes_append(fresh, at, PG_HEADER + f.size);
	}
}

const struct bytes *pool_lore_welcome(struct pool_lore *lore)
{
	struct bytes fresh = BYTES_EMPTY;

	if (!lore->standby)
		return &lore->welcome;
	if (lore->welcome.data)
		build_welcome(&lore->welcome, lore->standby, &fresh);
	mem_free(lore->standby);
	lore->standby = NULL;
	if (fresh.failed) {
		bytes_free(&fresh);
		return &lore->welcome;
	}
	bytes_free(&lore->welcome);
	lore->welcome = fresh;
	return &lore->welcome;
}

void pool_lore_learned(struct pool_lore *lore, struct bytes *welcome)
{
	bytes_free(&lore->welcome);
	mem_free(lore->standby);
	lore->standby = NULL;
	lore->welcome = *welcome;
	*welcome = (struct bytes)BYTES_EMPTY;
	lore->welcomed = true;
}

/* A refusal of the server's, or an answer that cannot be accepted, is lasting. All else may pass by itself. */
static enum login_failure failure_of(const struct server *s, enum goodbye why)
{
	if (!s->dial)
		return FAILURE_LASTING;		/* it lets us in, and is of no use then */
	if (s->dial->away)
		return s->dial->full ? FAILURE_FULL : FAILURE_BUSY;
	switch (why) {
	case GOODBYE_CONNECT_FAILED:
	case GOODBYE_SERVER_CRASHED:
		return FAILURE_AWAY;
	case GOODBYE_CONNECT_TIMEOUT:
	case GOODBYE_DNS_FAILED:
	case GOODBYE_SERVER_TLS:
	case GOODBYE_NO_MEMORY:
		return FAILURE_PASSING;
	default:
		return FAILURE_LASTING;
	}
}

bool pool_lore_failed(struct server *s, enum goodbye why, const char *text, enum login_failure *failed)
{
	struct pool *pool = s->policy.pool;
	struct pool_lore *lore = pool_lore_get(pool, s->peer.world);
	enum login_failure failure;

	/* what policy or an administrator ended, or a client's wish, is no failure of the server's */
	if ((goodbye_row(why)->fault == FAULT_POLICY && why != GOODBYE_CONNECT_TIMEOUT) || goodbye_row(why)->fault == FAULT_CLIENT)
		return false;
	/* nor is it any of the new servers' when a RELOAD or the name server has meanwhile sent the pool elsewhere */
	if (s->policy.close_reason != GOODBYE_NONE || (s->dial && s->dial->generation != pool->generation))
		return false;
	failure = *failed = failure_of(s, why);
	if (lore && why != GOODBYE_SERVER_SAID)
		lore->sqlstate[0] = '\0';
	/* what the server refuses to one replication client it need not refuse to others */
	if (s->policy.alone && failure == FAILURE_LASTING && why == GOODBYE_SERVER_SAID)
		return true;
	if (lore) {
		mem_free(lore->login_error);
		lore->login_error = mem_copy_string(text);
		lore->refused = why == GOODBYE_SERVER_SAID;
	}
	if (s->dial)
		hosts_note(s, false);
	if (failure == FAILURE_LASTING)
		pool_server_refused(&s->policy);
	pool_login_failed(pool, failure, s->peer.world->now);
	return true;
}

bool pool_lore_covers(const struct pool_lore *lore, const struct params_table *table, const struct params *asked)
{
	if (!lore->welcomed)
		return false;
	for (int i = 0; i < params_count(table); i++)
		if (!(lore->known & (uint64_t)1 << i) && !params_get(asked, i))
			return false;
	return true;
}

const char *pool_login_error(const struct pool *pool)
{
	const struct pool_lore *lore = pool->session;

	return lore ? lore->login_error : NULL;
}
