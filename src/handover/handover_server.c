/*
 * A server connection in a handover: its session (parameters, prepared statements), the answers it owes (the ledger), its
 * current task, and its link: the record of its client follows.
 *
 * The connection cannot be handed over with TLS, while it is being opened, while cancel requests for it are in progress (their connections
 * are in this process), or with a client that cannot be handed over.
 */
#include "handover/handover_parts.h"

#include "relay/link.h"
#include "state/notify_client.h"
#include "state/notify_server.h"
#include "state/role.h"
#include "state/session_functions.h"
#include "backend/server_info.h"
#include "state/session_params.h"
#include "state/session_question.h"
#include "state/session_restore.h"
#include "state/session_state.h"
#include "state/task.h"
#include "conn/client.h"
#include "prepared/prepared.h"

#include <string.h>
#include <unistd.h>

static bool may_stream_be_given(const struct stream *stream)
{
	return stream->phase == STREAM_OPEN && !stream->ssl && !stream->write_failed;
}

bool server_itself_may_be_given(const struct server *s)
{
	const struct pool_server *p = &s->pooled;
	const struct client *c;

	if (!may_stream_be_given(&s->peer.stream) || p->is_cancel || p->cancels > 0 || s->dial || s->lookup)
		return false;
	switch ((enum server_state)p->state) {
	case SERVER_IDLE: case SERVER_USED: case SERVER_TESTED: case SERVER_LISTENING:
		return true;
	case SERVER_ACTIVE:
		c = p->link->is_internal ? NULL : client_of(p->link);
		return c && !c->login && may_stream_be_given(&c->peer.stream);
	case SERVER_LOGIN: case SERVER_LOOKUP: case SERVER_BEING_CANCELED: case SERVER_ACTIVE_CANCEL: case SERVER_DEAD: case SERVER_STATES:
		return false;
	}
	return false;
}

bool server_may_be_given(const struct server *s)
{
	bool hears = s->pooled.link && !s->pooled.link->is_internal && client_of(s->pooled.link)->hears;

	return server_itself_may_be_given(s) && !((hears || s->pooled.state == SERVER_LISTENING) && listener_stays(s->pooled.pool));
}

/* ---- packing ---- */

static void policy_pack(struct bytes *out, const struct pool_server *p)
{
	pack_i64(out, p->since);
	pack_i64(out, p->opened);
	bytes_append_u32(out, p->dedicated);
	pack_bool(out, p->lent);
	/* by name: the numbers differ between versions */
	pack_text(out, p->close_reason != REASON_NONE ? close_reason_row((enum close_reason)p->close_reason)->name : NULL);
}

/* The tasks by their numbers in the record; new ones are added at the end. Look-ups (4) are not handed over. */
static const struct server_task *const tasks[] = {
	NULL, &task_connect_query, &task_reset, &task_check, NULL, &task_params, &task_barrier, &task_leave, &task_note, &task_encoding, &task_state,
	&task_functions, &task_listen, &task_mark, &task_unlisten, &task_hear, &task_relisten, &task_drawn, &task_discard,
};
#define TASKS (sizeof(tasks) / sizeof(*tasks))

static uint8_t task_number(const struct server_task *task)
{
	uint8_t number = 0;

	while (task && number < TASKS && tasks[number] != task)
		number++;
	return number;
}

/* It owes nothing. The new process lends it at once. */
static bool waits_for_listeners(const struct server *s)
{
	return s->pooled.state == SERVER_TESTED && s->task == &task_hear;
}

static void session_pack(struct bytes *out, const struct server *s)
{
	const struct world *w = s->peer.world;

	ledger_pack(out, &s->ledger);
	bytes_append_u32(out, s->batch);
	params_pack(out, w->params, s->params);
	params_pack(out, w->params, s->first_params);
	handover_pack_welcome(out, s->welcome);
	params_pack(out, w->params, s->pooled.startup);
	params_pack_bits(out, w->params, s->reported);
	/* client ids differ in the new process */
	bytes_append_u8(out, (uint8_t)(s->unknown & ~UNKNOWN_SOURCES) | (s->doubted_by ? UNKNOWN_SESSION : 0));
	pack_bool(out, s->values_of == 0);
	pack_bool(out, s->pooled.link && (s->values_of == VALUES_OF_LINK || s->values_of == client_of(s->pooled.link)->peer.id));
	bytes_append_u16(out, s->state_doubts);
	pack_bool(out, s->state_was_reset);
	pack_bool(out, s->state_text_was_cut);
	pack_bool(out, s->channels_restored);
	bytes_append_u8(out, s->plain_set);
	pack_bool(out, s->meaning_in_doubt);
	pack_bool(out, s->meanings_prepared);
	bytes_append_u8(out, s->changes);
	pack_bool(out, s->roles_prepared);
	pack_text(out, s->role);
	pack_text(out, s->search_path);
	bytes_append_u8(out, task_number(waits_for_listeners(s) ? NULL : s->task));
	pack_bool(out, s->task_failed);
	pack_bool(out, s->task_answered);
	pack_bool(out, s->needs_reset);
	pack_i64(out, s->task_since);
	pack_bool(out, s->said_fatal);
	bytes_append_u8(out, (uint8_t)s->status);
	bytes_append_u8(out, s->minor);
	bytes_append_u8(out, s->replication);
}

static void client_address_pack(struct bytes *out, const struct server *s)
{
	bytes_append_u32(out, s->backend_pid);
	bytes_append_u32(out, s->told_pid);
	pack_blob(out, s->cancel_key, s->cancel_key ? s->cancel_key_size : 0);
	pack_text(out, s->host);
	pack_blob(out, s->address ? &s->address->u : NULL, s->address ? s->address->size : 0);
}

void server_pack(struct bytes *out, const struct server *s)
{
	bytes_append_u8(out, waits_for_listeners(s) ? SERVER_IDLE : s->pooled.state);
	pack_u64(out, s->peer.id);
	peer_pack(out, &s->peer);
	policy_pack(out, &s->pooled);
	session_pack(out, s);
	client_address_pack(out, s);
	prepared_server_pack(out, s);
	listener_pack(out, s);
}

/* ---- unpacking ---- */

static enum close_reason reason_of(const char *name)
{
	for (int why = REASON_NONE + 1; name && why < REASONS; why++)
		if (strcmp(close_reason_row((enum close_reason)why)->name, name) == 0)
			return (enum close_reason)why;
	return name ? REASON_CLOSE_NEEDED : REASON_NONE;
}

static void use(struct params_table *table, const struct params **place, const struct params *fresh, struct unpack *in)
{
	in->bad |= !fresh;
	if (!fresh)
		return;
	params_drop(table, place);
	*place = fresh;
}

static void session_unpack(struct unpack *in, struct server *s)
{
	struct world *w = s->peer.world;
	const struct server_info *info = s->pooled.pool->server_cache;
	const char *role, *search_path;
	uint8_t task;

	if (!ledger_unpack(in, &s->ledger))
		return;
	s->batch = unpack_u32(in);
	use(w->params, &s->params, params_unpack(in, w->params), in);
	s->first_params = params_unpack(in, w->params);
	s->welcome = handover_unpack_welcome(in, info ? info->reported.welcome : NULL);
	in->bad |= !s->first_params || !s->welcome;
	use(w->params, &s->pooled.startup, params_unpack(in, w->params), in);
	s->reported = params_unpack_bits(in, w->params);
	s->unknown = unpack_u8(in);
	in->bad |= s->unknown > (UNKNOWN_PARAMS | UNKNOWN_ROLE | UNKNOWN_SEQUENCES | UNKNOWN_FUNCTIONS | UNKNOWN_SESSION | UNKNOWN_CHANNELS);
	s->has_failed = true;
	s->values_of = unpack_bool(in) ? 0 : VALUES_MIXED;
	if (unpack_bool(in))
		s->values_of = VALUES_OF_LINK;
	s->state_doubts = unpack_u16(in);
	s->state_was_reset = unpack_bool(in);
	s->state_text_was_cut = unpack_bool(in);
	s->channels_restored = unpack_bool(in);
	s->plain_set = unpack_u8(in);
	s->meaning_in_doubt = unpack_bool(in);
	s->meanings_prepared = unpack_bool(in);
	s->changes = unpack_u8(in);
	s->roles_prepared = unpack_bool(in);
	role = unpack_text(in);
	in->bad |= !in->bad && role && !role_restore(s, role);
	search_path = unpack_text(in);
	in->bad |= !in->bad && search_path && !server_restore_search_path(s, search_path);
	task = unpack_u8(in);
	in->bad |= task >= TASKS || (task > 0 && !tasks[task]);
	if (!in->bad && task > 0)
		server_task_to(s, tasks[task]);
	in->bad |= !in->bad && s->task == &task_state && !session_question_is_elsewhere(s);
	s->task_failed = unpack_bool(in);
	s->task_answered = unpack_bool(in);
	s->needs_reset = unpack_bool(in);
	s->task_since = unpack_i64(in);
	s->said_fatal = unpack_bool(in);
	s->status = (char)unpack_u8(in);
	s->minor = unpack_u8(in);
	s->replication = unpack_u8(in);
	in->bad |= s->status != 'I' && s->status != 'T' && s->status != 'E';
}

static void client_address_unpack(struct unpack *in, struct server *s)
{
	const uint8_t *key, *address;
	size_t key_size, address_size;
	const char *host;

	s->backend_pid = unpack_u32(in);
	s->told_pid = unpack_u32(in);
	key = unpack_blob(in, &key_size);
	host = unpack_text(in);
	address = unpack_blob(in, &address_size);
	in->bad |= address_size > sizeof(s->address->u);
	if (in->bad)
		return;
	s->cancel_key = key_size > 0 ? mem_try(key_size) : NULL;
	s->host = mem_copy_string(host);
	s->address = address_size > 0 ? mem_try(sizeof(*s->address)) : NULL;
	in->bad |= (key_size > 0 && !s->cancel_key) || (host && !s->host) || (address_size > 0 && !s->address);
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

/* Puts the server into its pool. A linked server is idle until the next record, its client, is unpacked. */
static void take_place(struct handover *h, struct server *s, uint8_t state, usec_t since, usec_t opened)
{
	struct pool_server *p = &s->pooled;

	pool_server_become(p, state == SERVER_TESTED || state == SERVER_LISTENING ? (enum server_state)state : SERVER_IDLE, since);
	if (state == SERVER_USED)
		pool_server_become(p, SERVER_USED, since);
	p->opened = opened;
	h->server = state == SERVER_ACTIVE ? s : NULL;
}

/* Whether the server is in the state of a server without a client that is not being tested. */
static bool is_at_rest(const struct server *s)
{
	return ledger_is_empty(&s->ledger) && !s->task && s->status == 'I';
}

static void unpack_into(struct unpack *in, struct handover *h, struct server *s, uint8_t state)
{
	usec_t since, opened;
	uint32_t dedicated;
	bool lent;

	peer_unpack(in, h, &s->peer);
	since = unpack_i64(in);
	opened = unpack_i64(in);
	dedicated = unpack_u32(in);
	lent = unpack_bool(in);
	in->bad |= opened == 0;
	s->pooled.close_reason = (uint8_t)reason_of(unpack_text(in));
	if (h->mode_differs && s->pooled.close_reason == REASON_NONE)
		s->pooled.close_reason = REASON_OBSOLETE;
	session_unpack(in, s);
	client_address_unpack(in, s);
	prepared_server_unpack(in, h, s);
	in->bad = in->bad || (state != SERVER_TESTED && state != SERVER_ACTIVE && !is_at_rest(s));
	if (in->bad)
		return;
	s->pooled.lent = lent;
	if (dedicated != 0)
		pool_server_dedicate(&s->pooled, dedicated);
	take_place(h, s, state, since, opened);
	listener_unpack_server(in, s);
}

void server_unpack(struct unpack *in, struct handover *h, int fd)
{
	uint8_t state = unpack_u8(in);
	uint64_t id = unpack_u64(in);
	struct server *s;

	if (h->no_place != REASON_NONE) {
		h->in_message = peer_is_in_message(*in);
		handover_reject(h, fd, state == SERVER_IDLE || state == SERVER_USED ? REJECT_TERMINATE : REJECT_CLOSE);
		in->at = in->end;
		return;
	}
	in->bad |= !h->pool || h->pool->database->is_console ||
		   (state != SERVER_IDLE && state != SERVER_USED && state != SERVER_TESTED && state != SERVER_ACTIVE &&
		    state != SERVER_LISTENING);
	s = in->bad ? NULL : server_new(h->pool, h->world, false, NULL);
	if (!s || !stream_open(&s->peer.stream, h->world->base, fd, h->world->ops->server_stream)) {
		close(fd);
		in->bad = true;
		return;
	}
	s->peer.id = id;
	unpack_into(in, h, s, state);
}
