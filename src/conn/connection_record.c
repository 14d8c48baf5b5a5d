/*
 * A client or server in a handover record: the members of struct peer, client and server that are
 * written in this room, or that several rooms write. Members that point to the data of a higher
 * room, such as client->session, are packed by that room.
 *
 * The old process packs a connection, perhaps in the middle of a message, and does not touch the
 * socket any more. The new process unpacks it into an object that it has made for the received
 * descriptor. Nothing is trusted before the whole record was read: the caller then checks that the
 * members of all rooms fit together, and ends the connection if not.
 *
 * Other members have the values of a new connection in the new process. A new member is added to
 * both functions, and HANDOVER_VERSION is incremented.
 */
#include "conn/connection_record.h"

#include "base/mem.h"
#include "conn/world.h"
#include "pg/startup.h"

#include <string.h>

/* ---- clients and servers ---- */

void peer_pack(struct bytes *out, const struct peer *peer)
{
	bytes_append_u8(out, peer->remote.family);
	bytes_append_u16(out, peer->remote.port);
	pack_blob(out, &peer->remote.u, sizeof(peer->remote.u));
	pack_i64(out, peer->connected_at);
	pack_i64(out, peer->request_at);
	bytes_append_u32(out, peer->passing);
	pack_bool(out, peer->passing_dropped);
	pack_blob(out, peer->held.data ? bytes_front(&peer->held) : NULL, bytes_size(&peer->held));
	pack_blob(out, peer->stream.out.data ? bytes_front(&peer->stream.out) : NULL,
		  stream_unsent(&peer->stream));
}

void peer_unpack(struct unpack *in, struct peer *peer, struct bytes *unsent)
{
	const uint8_t *held, *out;
	size_t held_size, out_size;

	peer->remote.family = unpack_u8(in);
	peer->remote.port = unpack_u16(in);
	unpack_exactly(in, &peer->remote.u, sizeof(peer->remote.u));
	peer->connected_at = unpack_i64(in);
	peer->request_at = unpack_i64(in);
	peer->passing = unpack_u32(in);
	peer->passing_dropped = unpack_bool(in);
	held = unpack_blob(in, &held_size);
	out = unpack_blob(in, &out_size);
	if (in->bad)
		return;
	bytes_append(&peer->held, held, held_size);
	bytes_append(unsent, out, out_size);
	in->bad |= peer->held.failed || unsent->failed;
}

void peer_skim(struct unpack in, bool *has_unsent, bool *is_in_message)
{
	uint32_t passing;
	size_t size;

	unpack_u8(&in);
	unpack_u16(&in);
	unpack_blob(&in, &size);
	unpack_i64(&in);
	unpack_i64(&in);
	passing = unpack_u32(&in);
	*is_in_message = !unpack_bool(&in) && passing > 0;
	unpack_blob(&in, &size);
	unpack_blob(&in, &size);
	*has_unsent = in.bad || size > 0;
	*is_in_message |= in.bad;
}

/* ---- clients ---- */

void client_pack(struct bytes *out, const struct client *c)
{
	const struct params_table *params = c->peer.world->params;

	pack_i64(out, c->login_facts.since);
	pack_i64(out, c->activity.last);
	pack_i64(out, c->activity.query_started);
	pack_i64(out, c->activity.transaction_started);
	pack_blob(out, c->login_facts.took, sizeof(c->login_facts.took));
	bytes_append_u8(out, c->last_wait.took);
	bytes_append_u8(out, c->last_wait.limit);
	bytes_append_u32(out, c->last_wait.ended_at);
	bytes_append_u8(out, c->login_facts.replication);
	pack_bool(out, c->link_facts.shares_server);
	pack_bool(out, c->link_facts.shares_names);
	pack_bool(out, c->link_facts.keeps_state);
	pack_bool(out, c->activity.in_transaction);
	bytes_append_u8(out, c->minds.refused_until);
	bytes_append_u32(out, c->collects);
	bytes_append_u8(out, c->login_facts.minor);
	pack_bool(out, c->console.is_connected);
	pack_bool(out, c->console.may_show);
	params_or_none_pack(out, params, c->params);
	params_or_none_pack(out, params, c->pooled.startup);
}

void client_unpack(struct unpack *in, struct client *c)
{
	struct params_table *params = c->peer.world->params;

	c->login_facts.since = unpack_i64(in);
	c->activity.last = unpack_i64(in);
	c->activity.query_started = unpack_i64(in);
	c->activity.transaction_started = unpack_i64(in);
	unpack_exactly(in, c->login_facts.took, sizeof(c->login_facts.took));
	for (int i = 0; i < LOGIN_PARTS; i++)
		in->bad |= c->login_facts.took[i] >= LATENCY_BUCKETS;
	c->last_wait.took = unpack_u8(in);
	c->last_wait.limit = unpack_u8(in);
	c->last_wait.ended_at = unpack_u32(in);
	in->bad |= c->last_wait.took >= LATENCY_BUCKETS || c->last_wait.limit >= POOL_LIMITS;
	c->login_facts.replication = unpack_u8(in);
	in->bad |= c->login_facts.replication > REPLICATION_PHYSICAL;
	c->link_facts.shares_server = unpack_bool(in);
	c->link_facts.shares_names = unpack_bool(in);
	c->link_facts.keeps_state = unpack_bool(in);
	c->activity.in_transaction = unpack_bool(in);
	c->minds.refused_until = unpack_u8(in);
	c->collects = unpack_u32(in);
	c->login_facts.minor = unpack_u8(in);
	c->console.is_connected = unpack_bool(in);
	c->console.may_show = unpack_bool(in);
	c->params = params_or_none_unpack(in, params);
	c->pooled.startup = params_or_none_unpack(in, params);
}

/* ---- servers ---- */

void server_pack(struct bytes *out, const struct server *s)
{
	const struct params_table *params = s->peer.world->params;

	ledger_pack(out, &s->ledger);
	bytes_append_u32(out, s->batch);
	params_pack(out, params, s->params);
	params_pack(out, params, s->first_params);
	params_pack(out, params, s->pooled.startup);
	pack_bool(out, s->task_failed);
	pack_bool(out, s->task_answered);
	pack_bool(out, s->needs_reset);
	pack_i64(out, s->task_since);
	pack_bool(out, s->said_fatal);
	bytes_append_u8(out, (uint8_t)s->status);
	bytes_append_u8(out, s->minor);
	bytes_append_u8(out, s->replication);
	bytes_append_u32(out, s->backend_pid);
	bytes_append_u32(out, s->last_client_pid);
	pack_blob(out, s->cancel_key, s->cancel_key ? s->cancel_key_size : 0);
	pack_text(out, s->host);
	pack_blob(out, s->address ? &s->address->u : NULL, s->address ? s->address->size : 0);
}

/* Replaces the set that a new server has. */
static void params_take(struct unpack *in, struct params_table *table, const struct params **place)
{
	const struct params *fresh = params_unpack(in, table);

	in->bad |= !fresh;
	if (fresh)
		params_replace(table, place, fresh);
}

/* Where the server is connected to, and how a cancel request reaches it. */
static void server_address_unpack(struct unpack *in, struct server *s)
{
	const uint8_t *key, *address;
	size_t key_size, address_size;
	const char *host;

	s->backend_pid = unpack_u32(in);
	s->last_client_pid = unpack_u32(in);
	key = unpack_blob(in, &key_size);
	host = unpack_text(in);
	address = unpack_blob(in, &address_size);
	in->bad |= address_size > sizeof(s->address->u);
	if (in->bad)
		return;
	s->cancel_key = key_size > 0 ? mem_try(key_size) : NULL;
	s->host = mem_copy_string(host);
	s->address = address_size > 0 ? mem_try(sizeof(*s->address)) : NULL;
	in->bad |= (key_size > 0 && !s->cancel_key) || (host && !s->host) ||
		   (address_size > 0 && !s->address);
	if (in->bad)
		return;
	s->cancel_key_size = key_size;
	if (key_size > 0)
		memcpy(s->cancel_key, key, key_size);
	if (address_size > 0) {
		s->address->size = (socklen_t)address_size;
		memcpy(&s->address->u, address, address_size);
	}
	in->bad |= !server_enlist(s);
}

void server_unpack(struct unpack *in, struct server *s)
{
	struct params_table *params = s->peer.world->params;

	if (!ledger_unpack(in, &s->ledger))
		return;
	s->batch = unpack_u32(in);
	params_take(in, params, &s->params);
	s->first_params = params_unpack(in, params);
	in->bad |= !s->first_params;
	params_take(in, params, &s->pooled.startup);
	s->task_failed = unpack_bool(in);
	s->task_answered = unpack_bool(in);
	s->needs_reset = unpack_bool(in);
	s->task_since = unpack_i64(in);
	s->said_fatal = unpack_bool(in);
	s->status = (char)unpack_u8(in);
	s->minor = unpack_u8(in);
	s->replication = unpack_u8(in);
	in->bad |= s->status != 'I' && s->status != 'T' && s->status != 'E';
	server_address_unpack(in, s);
}
