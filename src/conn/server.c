/*
 * A server connection: creating it, sending messages of pgweir, and marking its end. Room backend
 * opens the connection, room state runs the queries of pgweir, and room relay uses the connection
 * for clients.
 *
 * Each message of pgweir is entered in the ledger, so that the relay removes its answers from the
 * answers to the client, and passes them to the feature with this mark.
 *
 * Invariants: a server ends once (server_end), and its client ends with it, because no other server
 * knows the session. After a Query, or a Parse without a name, of pgweir the unnamed statement of
 * the server belongs to no client; each Sync ends a batch.
 */
#include "conn/server.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/log.h"
#include "conn/world.h"
#include "pg/frame.h"

#include <string.h>

struct server *server_new(struct pool *pool, struct world *w, bool is_cancel,
			  const struct client *client)
{
	struct server *s = mem_try(sizeof(*s));

	if (!s)
		return NULL;
	peer_init(&s->peer, w, false);
	peer_number(&s->peer);
	peer_connected(&s->peer);
	stream_init(&s->peer.stream);
	server_status_received(s, 'I');
	s->params = params_none(w->params);
	/* In a pool that does not select servers by start-up parameters, the next client would get
	   the parameters of this client. A server for session mode may be used by others later. */
	s->pooled.startup = client && pool_minds_startup(pool, client->pooled.dedicated)
				    ? params_hold(client->pooled.startup)
				    : params_none(w->params);
	s->pooled.dedicated = client ? client->pooled.dedicated : 0;
	s->replication = client ? client->login_facts.replication : 0;
	ledger_clear(&s->ledger);
	peer_enter(&s->peer);
	pool_server_init(&s->pooled, pool, is_cancel, w->now);
	return s;
}

/* The hash of the process id needs a key, because a hostile server could choose ids with equal
   hashes. */
bool server_enlist(struct server *s)
{
	HASH_ADD(by_backend_pid, s->peer.world->peers.by_backend_pid, backend_pid,
		 sizeof(s->backend_pid), s);
	return HASH_HAS(by_backend_pid, s);
}

bool server_key_received(struct server *s, uint32_t pid, const uint8_t *key, size_t size)
{
	s->backend_pid = pid;
	mem_free(s->cancel_key);
	s->cancel_key_size = size;
	s->cancel_key = mem_try(size);
	if (s->cancel_key)
		memcpy(s->cancel_key, key, size);
	return s->cancel_key != NULL;
}

void server_forget_login(struct server *s)
{
	s->session.reported = 0;
	mem_free(s->cancel_key);
	s->cancel_key = NULL;
	s->cancel_key_size = 0;
	s->backend_pid = 0;
}

void server_parameter(struct server *s, const char *name, const char *value)
{
	struct world *w = s->peer.world;
	int index = params_index(w->params, name);
	const struct params *set;

	if (index < 0)
		return;
	s->session.reported |= (uint64_t)1 << index;
	s->session.set_there &= ~((uint64_t)1 << index);
	set = params_with(w->params, s->params, index, value);
	if (set)
		params_replace(w->params, &s->params, set);
	else
		pool_server_close_later(&s->pooled, REASON_NO_MEMORY);
}

bool server_send(struct server *s, enum ledger_mark mark, const struct bytes *messages)
{
	struct pg_frames all = pg_frames_of(messages);
	struct pg_frame f;

	ASSERT(ledger_enters(&s->ledger));
	if (messages->failed)
		return false;
	while (pg_frames_next(&all, PG_LENGTH_LIMIT, &f) == PG_OK) {
		if (f.type == PGC_QUERY || (f.type == PGC_PARSE && f.body[0] == 0))
			server_unnamed_to(s, 0);
		if (f.type == PGC_SYNC)
			server_sync_sent(s);
		if (!ledger_sent_marked(&s->ledger, f.type, f.size > 0 ? f.body[0] : 0,
					OWED_TO_POOLER, mark))
			return false;
	}
	ASSERT(all.left == 0);
	return stream_write_bytes(&s->peer.stream, bytes_front(messages), bytes_size(messages));
}

void server_task_to(struct server *s, const struct server_task *task)
{
	ASSERT(!s->task != !task);
	s->task = task;
	if (!task)
		return;
	s->task_failed = false;
	mem_free(s->task_words);
	s->task_words = NULL;
	s->task_sqlstate[0] = '\0';
	s->task_since = s->peer.world->now;
}

enum task_end server_task_end(struct server *s)
{
	const struct server_task *task = s->task;
	bool failed = s->task_failed || s->status != 'I';

	server_task_to(s, NULL);
	if (failed && task->failure != REASON_NONE) {
		server_end(s, task->failure, NULL);
		return TASK_END_NOTHING;
	}
	return task->on_done ? task->on_done(s, failed) : TASK_END_RELEASE;
}

const char *server_text(const struct server *s, char *buf, size_t size)
{
	char where[80], pool[POOL_TEXT];

	snprintf(buf, size, "S-0x%llx: %s@%s", (unsigned long long)s->peer.id,
		 pool_text(s->pooled.pool, pool, sizeof(pool)),
		 brief_address_and_port(&s->peer.remote, where, sizeof(where)));
	log_subject(LOG_SERVER, &(struct log_subject){ .text = buf,
						       .database = s->pooled.pool->database->name,
						       .user = s->pooled.pool->user->name,
						       .address = where });
	return buf;
}

static void server_mark(struct server *s, enum peer_fate fate, enum close_reason why,
			const char *detail)
{
	s->peer.ended_in = s->pooled.state;
	peer_end(&s->peer, fate, why, detail);
	if (!s->pooled.link)
		pool_server_become(&s->pooled, SERVER_DEAD, s->peer.world->now);
}

void server_end(struct server *s, enum close_reason why, const char *detail)
{
	if (peer_is_ending(&s->peer))
		return;
	if (why == REASON_SERVER_CRASHED && stream_abuse(&s->peer.stream)) {
		why = REASON_SERVER_TLS;
		detail = stream_abuse(&s->peer.stream);
	}
	server_mark(s, PEER_ENDS, why, detail);
	/* the client ends too, because no other server knows its session */
	if (s->pooled.link)
		client_end(client_of(s->pooled.link), why, detail);
}

void server_end_leaving(struct server *s, enum close_reason why, bool client_dies)
{
	pool_unlink(&s->pooled, SERVER_DEAD, client_dies, s->peer.world->now);
	s->peer.ended_in = SERVER_ACTIVE;
	peer_end(&s->peer, PEER_ENDS, why, NULL);
}

void server_hand_over(struct server *s)
{
	server_mark(s, PEER_HANDED_OVER, REASON_NONE, NULL);
	if (s->pooled.link)
		client_hand_over(client_of(s->pooled.link));
}
