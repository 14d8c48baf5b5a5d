/*
 * The records of a handover, as far as this room knows their members: the old process packs its
 * pools, databases, hosts, and the places of clients and servers; the new process unpacks them into
 * the objects that its own configuration has made.
 *
 * In the order of time: the counters and hosts of the process (pools_pack()), each database, and
 * each pool, followed by its servers and clients. A linked client follows its server.
 *
 * Times are on the monotonic clock, which both processes share. Verdicts on hosts are not trusted
 * without evidence: the new process decides about each host again (hosts_admit_anew(),
 * roles_restore()).
 */
#include "pool/pool_record.h"

#include "base/text.h"
#include "pool/admit.h"
#include "pool/drain.h"
#include "pool/role.h"

#include <string.h>

/* ---- hosts ---- */

static void host_pack(struct bytes *out, const struct host *host)
{
	pack_text(out, host->key);
	pack_bool(out, host->is_disabled);
	bytes_append_u8(out, (uint8_t)host->evidence.claim);
	pack_i64(out, host->evidence.at);
	bytes_append_u32(out, host->evidence.timeline);
	pack_u64(out, host->evidence.position);
	pack_i64(out, host->evidence.position_at);
	pack_i64(out, host->evidence.position_heard);
	bytes_append_u32(out, host->evidence.receiver);
	bytes_append_u8(out, (uint8_t)host->following);
	pack_u64(out, host->evidence.server_id);
	pack_u64(out, host->evidence.system_id);
	pack_i64(out, host->identified_at);
	pack_bool(out, host->evidence.is_read_only);
	pack_i64(out, host->changed_at);
	pack_u64(out, host->errors);
	pack_u64(out, host->changes);
	pack_text(out, host->why);
}

static void host_unpack(struct unpack *in, struct pools *pools)
{
	const char *key = unpack_text(in), *why;
	struct host *host = key && strrchr(key, ':') ? host_hold(pools, key) : NULL;
	bool is_disabled = unpack_bool(in);

	in->bad |= !host;
	if (!host)
		return;
	host->evidence.claim = unpack_u8(in);
	host->evidence.at = unpack_i64(in);
	host->evidence.timeline = unpack_u32(in);
	host->evidence.position = unpack_u64(in);
	host->evidence.position_at = unpack_i64(in);
	host->evidence.position_heard = unpack_i64(in);
	host->evidence.receiver = unpack_u32(in);
	host->followed = unpack_u8(in);
	host->evidence.server_id = unpack_u64(in);
	host->evidence.system_id = unpack_u64(in);
	host->identified_at = unpack_i64(in);
	host->evidence.is_read_only = unpack_bool(in);
	host->changed_at = unpack_i64(in);
	host->errors = unpack_u64(in);
	host->changes = unpack_u64(in);
	why = unpack_text(in);
	text_copy(host->why, HOST_WHY, why ? why : "");
	in->bad |= host->evidence.claim > CLAIM_PRIMARY || host->evidence.at < 0 ||
		   host->followed > FOLLOWING_DIVERGED ||
		   (is_disabled && !host_restore_disabled(pools, key));
	/* without an entry of this process for the host, its evidence is lost */
	host_drop(host);
}

/* ---- the process ---- */

static void drain_pack(struct bytes *out, const struct drain *d)
{
	bytes_append_u8(out, (uint8_t)d->of);
	pack_text(out, d->name);
	pack_i64(out, d->since);
	pack_i64(out, d->until);
	pack_u64(out, d->ended);
	pack_bool(out, d->is_over);
}

static void drain_unpack(struct unpack *in, struct pools *pools)
{
	enum drain_of of = unpack_u8(in);
	const char *name = unpack_text(in);
	usec_t since = unpack_i64(in), until = unpack_i64(in);
	struct drain *d = NULL;

	in->bad |= of > DRAIN_OF_HOST || !name || since < 0 || until < since ||
		   until - since > DRAIN_SECONDS_MOST * USEC;
	if (!in->bad)
		d = drain_begin(pools, of, name, since, until);
	in->bad |= !d;
	if (!d)
		return;
	d->ended = unpack_u64(in);
	d->is_over = unpack_bool(in);
	d->is_logged = true;
}

void pools_pack(struct bytes *out, const struct pools *pools)
{
	pack_i64(out, pools->stats_at);
	bytes_append_u32(out, pools->last_dedicated);
	LIST_EACH(node, &pools->drains) {
		pack_bool(out, true);
		drain_pack(out, LIST_OBJECT(node, struct drain, node));
	}
	pack_bool(out, false);
	for (const struct host *host = pools->hosts; host; host = host->hh.next) {
		if (!host->is_disabled && host->role_users == 0)
			continue;
		pack_bool(out, true);
		host_pack(out, host);
	}
	pack_bool(out, false);
}

void pools_unpack(struct unpack *in, struct pools *pools, usec_t now)
{
	pools->stats_at = unpack_i64(in);
	pools->last_dedicated = unpack_u32(in);
	while (unpack_bool(in) && !in->bad)
		drain_unpack(in, pools);
	while (unpack_bool(in) && !in->bad)
		host_unpack(in, pools);
	hosts_admit_anew(pools, now);
}

/* ---- databases ---- */

/* The last primary of a database. The new process needs it, because it must refuse a host that was
   the primary earlier and comes back. */
static void roles_pack(struct bytes *out, const struct roles *roles)
{
	pack_text(out, roles && roles->last ? roles->last->key : NULL);
	if (!roles || !roles->last)
		return;
	bytes_append_u32(out, roles->timeline);
	pack_u64(out, roles->system);
	pack_i64(out, roles->last_seen);
	pack_i64(out, roles->changed_at);
}

static void roles_unpack(struct unpack *in, struct database *d, usec_t now)
{
	const char *key = unpack_text(in);
	struct roles *roles = NULL;
	uint32_t timeline;
	uint64_t system;
	usec_t last_seen, changed_at;

	if (!key)
		return;
	timeline = unpack_u32(in);
	system = unpack_u64(in);
	last_seen = unpack_i64(in);
	changed_at = unpack_i64(in);
	in->bad |= !strrchr(key, ':') || last_seen < 0 || changed_at < 0;
	if (!in->bad && d && roles_begin(d, now))
		roles = d->roles;
	if (!roles || !roles_restore(roles, key, timeline, system, last_seen, changed_at, now))
		in->bad |= d != NULL;
}

void database_pack(struct bytes *out, const struct database *d)
{
	pack_bool(out, d->disabled);
	pack_bool(out, d->served);
#define X(name) \
	pack_u64(out, d->stats.total.name); \
	pack_u64(out, d->stats.newer.name); \
	pack_u64(out, d->stats.older.name);
	STATS_EACH(X)
#undef X
	pack_i64(out, d->stats.newer_at);
	pack_i64(out, d->stats.older_at);
	pack_u64(out, d->statements);
	roles_pack(out, d->roles);
}

void database_unpack(struct unpack *in, struct database *d, usec_t now)
{
	bool disabled = unpack_bool(in), served = unpack_bool(in);
	struct stats_history stats;
	uint64_t statements;

#define X(name) \
	stats.total.name = unpack_u64(in); \
	stats.newer.name = unpack_u64(in); \
	stats.older.name = unpack_u64(in);
	STATS_EACH(X)
#undef X
	stats.newer_at = unpack_i64(in);
	stats.older_at = unpack_i64(in);
	statements = unpack_u64(in);
	roles_unpack(in, in->bad ? NULL : d, now);
	if (in->bad || !d)
		return;
	d->disabled = disabled;
	d->served = served;
	d->stats = stats;
	d->statements = statements;
}

/* ---- pools ---- */

void pool_pack(struct bytes *out, const struct pool *pool)
{
	pack_bool(out, pool->login_failed);
	pack_i64(out, pool->login_failed_at);
	pack_i64(out, pool->login_failing_since);
	bytes_append_u8(out, pool->login_failure);
	pack_bool(out, pool->logins_succeeded > 0);
	pack_i64(out, pool->last_lifetime_close);
	pack_i64(out, pool->stopped_until);
	pack_bool(out, pool->reads_sequences);
}

void pool_unpack(struct unpack *in, struct pool *pool)
{
	pool->login_failed = unpack_bool(in);
	pool->login_failed_at = unpack_i64(in);
	pool->login_failing_since = unpack_i64(in);
	pool->login_failure = unpack_u8(in);
	pool->logins_succeeded = unpack_bool(in);
	pool->last_lifetime_close = unpack_i64(in);
	pool->stopped_until = unpack_i64(in);
	if (unpack_bool(in))
		pool_reads_sequences(pool);
}

/* ---- clients ---- */

void pool_client_pack(struct bytes *out, const struct pool_client *c)
{
	pack_i64(out, c->since);
	pack_bool(out, c->notified);
	bytes_append_u8(out, c->pins);
	bytes_append_u8(out, c->own_target);
	bytes_append_u32(out, c->dedicated);
}

struct pool_client_record pool_client_unpack(struct unpack *in, struct pool_client *c)
{
	struct pool_client_record record = { .since = unpack_i64(in) };

	record.is_notified = unpack_bool(in);
	record.pins = unpack_u8(in);
	c->own_target = unpack_u8(in);
	c->dedicated = unpack_u32(in);
	in->bad |= record.pins >= 1u << PINS || c->own_target > TARGET_PREFER_STANDBY;
	return record;
}

bool pool_client_restore(struct pool_client *c, enum client_state state, struct pool_server *server,
			 const struct pool_client_record *record, usec_t now)
{
	pool_client_become(c->pool->pools, c, CLIENT_IDLE, record->since);
	if (state == CLIENT_WAITING)
		pool_client_become(c->pool->pools, c, CLIENT_WAITING, record->since);
	if (state == CLIENT_ACTIVE) {
		struct stats *total = &c->pool->database->stats.total, before = *total;
		usec_t since = server->since;

		pool_link(server, c, record->since);
		/* the previous process has counted this assignment */
		*total = before;
		server->since = since;
	}
	c->notified = record->is_notified;
	if ((record->pins && !c->link) || !pool_client_set_target(c, now))
		return false;
	if (record->pins)
		pool_client_pin(c, record->pins);
	return true;
}

/* ---- servers ---- */

void pool_server_pack(struct bytes *out, const struct pool_server *s)
{
	pack_i64(out, s->since);
	pack_i64(out, s->opened);
	pack_u64(out, s->server_id);
	bytes_append_u32(out, s->dedicated);
	pack_bool(out, s->lent);
	/* by name: the numbers differ between versions */
	pack_text(out, s->close_reason != REASON_NONE ? close_reason_rows[s->close_reason].name
						      : NULL);
	pack_text(out, s->host ? s->host->key : NULL);
}

/* The reason is unknown here if a later version has sent it. */
static enum close_reason reason_of(const char *name)
{
	for (int why = REASON_NONE + 1; name && why < REASONS; why++)
		if (strcmp(close_reason_rows[why].name, name) == 0)
			return (enum close_reason)why;
	return name ? REASON_CLOSE_NEEDED : REASON_NONE;
}

void pool_server_unpack(struct unpack *in, struct pool_server *s, enum server_state state)
{
	usec_t since = unpack_i64(in), opened = unpack_i64(in);
	uint64_t server_id = unpack_u64(in);
	uint32_t dedicated = unpack_u32(in);
	bool lent = unpack_bool(in);
	const char *reason = unpack_text(in), *host = unpack_text(in);

	in->bad = in->bad || opened == 0 || !pool_server_restore_host(s, host);
	if (in->bad)
		return;
	s->server_id = server_id;
	s->close_reason = (uint8_t)reason_of(reason);
	s->lent = lent;
	if (dedicated != 0)
		pool_server_dedicate(s, dedicated);
	pool_server_become(s,
			   state == SERVER_TESTED || state == SERVER_LISTENING ? state
									       : SERVER_IDLE,
			   since);
	if (state == SERVER_USED)
		pool_server_become(s, SERVER_USED, since);
	s->opened = opened;
}
