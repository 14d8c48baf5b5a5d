/*
 * The state of sessions in a handover record: the session of a client, the known state of the
 * session of a server, and the channels for which the listener of a pool LISTENs.
 *
 * The new process trusts facts that the old process had proven (first_params, values_of,
 * tainted_by), and asks for dirty facts with the same questions. Other facts have the careful
 * value: the sources of functions are read again (STALE_SOURCES is not sent), a session has had
 * errors (has_failed), and each client may draw values of sequences (draws_now).
 */
#include "state/session_record.h"

#include "conn/connection_record.h"
#include "state/notify.h"
#include "state/server_session.h"
#include "state/session_functions.h"
#include "state/session_state.h"
#include "state/session_values.h"

/* ---- clients ---- */

void session_client_pack(struct bytes *out, const struct client *c)
{
	const struct client_session *session = c->session;

	params_or_none_pack(out, c->peer.world->params, session ? session->first : NULL);
	if (!session)
		return;
	bytes_append_u16(out, session->calls);
	bytes_append_u16(out, session->unnamed_calls);
	bytes_append_u8(out, session->pins_logged);
	pack_bool(out, session->pin_is_granted);
	pack_i64(out, session->pinned_since);
	pack_i64(out, session->asked_at);
	pack_bool(out, session->has_prepared);
	pack_u64(out, session->prepared_as_of);
	pack_bool(out, session->unlistens);
	bytes_append_u8(out, session->notifies);
	pack_bool(out, session->draws);
	pack_bool(out, session->sets_values);
	pack_bool(out, session->fills);
	pack_bool(out, session->unnamed_fills);
	pack_bool(out, session->prepared_reads);
	pack_bool(out, session->asks_values_first);
	session_values_pack(out, session->values);
	pack_bool(out, c->has_lost_values);
	pack_blob(out, session->names.data ? bytes_front(&session->names) : NULL,
		  bytes_size(&session->names));
}

void session_client_unpack(struct unpack *in, struct client *c)
{
	const struct params *first = params_or_none_unpack(in, c->peer.world->params);
	struct client_session read = { .count = 0 };
	const uint8_t *names;
	size_t size;

	in->bad |= c->link_facts.keeps_state && !first;
	if (!first)
		return;
	read.calls = unpack_u16(in);
	read.unnamed_calls = unpack_u16(in);
	read.pins_logged = unpack_u8(in);
	read.pin_is_granted = unpack_bool(in);
	read.pinned_since = unpack_i64(in);
	read.asked_at = unpack_i64(in);
	read.has_prepared = unpack_bool(in);
	read.prepared_as_of = unpack_u64(in);
	read.unlistens = unpack_bool(in);
	read.notifies = unpack_u8(in);
	read.draws = unpack_bool(in);
	read.sets_values = unpack_bool(in);
	read.draws_now = true;
	read.fills = unpack_bool(in);
	read.unnamed_fills = unpack_bool(in);
	read.prepared_reads = unpack_bool(in);
	read.asks_values_first = unpack_bool(in);
	in->bad |= !session_values_unpack(in, &read.values);
	c->has_lost_values = unpack_bool(in);
	names = unpack_blob(in, &size);
	if (!session_state_unpack(c, &read, first, (const char *)names, size))
		in->bad = true;
	if (!c->session)
		session_values_free(&read.values);
	params_drop(c->peer.world->params, &first);
}

/* ---- servers ---- */

void session_server_pack(struct bytes *out, const struct server *s)
{
	const struct server_session *session = &s->session;

	params_pack_bits(out, s->peer.world->params, session->reported);
	bytes_append_u8(out, (uint8_t)(session->stale & ~STALE_SOURCES));
	pack_u64(out, session->tainted_by);
	pack_u64(out, session->values_of);
	bytes_append_u16(out, session->dirty);
	pack_bool(out, session->was_reset);
	pack_bool(out, session->text_was_cut);
	pack_bool(out, session->channels_restored);
	bytes_append_u8(out, session->plain_set);
	pack_bool(out, session->meaning_in_doubt);
	pack_bool(out, session->meanings_prepared);
	bytes_append_u8(out, session->changes);
	pack_bool(out, session->roles_prepared);
	pack_text(out, session->role);
	pack_text(out, session->search_path);
}

void session_server_unpack(struct unpack *in, struct server *s)
{
	struct server_session *session = &s->session;
	const char *role, *search_path;

	session->reported = params_unpack_bits(in, s->peer.world->params);
	session_set_stale(s, unpack_u8(in));
	in->bad |= session->stale > (STALE_PARAMS | STALE_ROLE | STALE_SEQUENCES |
				       STALE_FUNCTIONS | STALE_SESSION | STALE_CHANNELS);
	session->has_failed = true;
	session->tainted_by = unpack_u64(in);
	session->values_of = unpack_u64(in);
	session_set_dirty(s, unpack_u16(in));
	session->was_reset = unpack_bool(in);
	session->text_was_cut = unpack_bool(in);
	session->channels_restored = unpack_bool(in);
	session->plain_set = unpack_u8(in);
	session->meaning_in_doubt = unpack_bool(in);
	session->meanings_prepared = unpack_bool(in);
	session->changes = unpack_u8(in);
	session->roles_prepared = unpack_bool(in);
	role = unpack_text(in);
	search_path = unpack_text(in);
	in->bad |= !in->bad && !server_restore_notes(s, role, search_path);
}

/* ---- channels ---- */

void notify_client_pack(struct bytes *out, const struct client *c)
{
	const struct notify_client *h = c->pooled.listens ? c->session->notify_client : NULL;

	pack_bool(out, h != NULL);
	if (!h)
		return;
	LIST_EACH(node, &h->subscriptions) {
		const struct subscription *s = LIST_OBJECT(node, struct subscription, of_client);

		pack_text(out, s->channel->name);
		pack_bool(out, s->from_server);
		pack_bool(out, s->from_listener);
	}
	pack_text(out, NULL);
	bytes_append_u8(out, h->step);
	pack_blob(out, h->pending.data ? bytes_front(&h->pending) : NULL, bytes_size(&h->pending));
}

void notify_client_unpack(struct unpack *in, struct client *c)
{
	const uint8_t *pending;
	const char *name;
	size_t size;
	struct notify_client *h;
	uint8_t step;

	if (!unpack_bool(in) || in->bad)
		return;
	in->bad |= !c->session;
	while (!in->bad && (name = unpack_text(in)) != NULL) {
		bool from_server = unpack_bool(in), from_listener = unpack_bool(in);

		in->bad = in->bad || !*name ||
			  !notify_client_restore(c, name, from_server, from_listener);
	}
	step = unpack_u8(in);
	h = in->bad ? NULL : c->session->notify_client;
	in->bad |= !h || step > NOTIFY_LEAVES;
	if (in->bad)
		return;
	h->step = step;
	pending = unpack_blob(in, &size);
	if (in->bad)
		return;
	bytes_append(&h->pending, pending, size);
	in->bad |= h->pending.failed;
}

void notify_server_pack(struct bytes *out, const struct server *s)
{
	const struct notify_server *listener =
		s->pooled.state == SERVER_LISTENING ? notify_server_of(s->pooled.pool) : NULL;

	pack_text(out, listener ? listener->marker : NULL);
}

void notify_server_unpack(struct unpack *in, struct server *s)
{
	const char *marker = unpack_text(in);

	in->bad = in->bad || (s->pooled.state == SERVER_LISTENING) != (marker != NULL) ||
		  (marker && !notify_server_restore_server(s, marker));
}
