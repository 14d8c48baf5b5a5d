/*
 * A server connection: its stream, its end, the text that its log lines begin with. How it is opened lies in dial.c,
 * what it does for a client in relay_server.c, what it does between two clients in link.c.
 *
 * Invariant: it dies once (server_end), and its client, when it has one, dies with it, because nobody can take over
 * a session in the middle.
 */
#include "session/server.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text.h"
#include "pg/build.h"
#include "session/cancel.h"
#include "session/dial.h"
#include "session/link.h"
#include "session/lookup.h"
#include "session/prepared.h"
#include "session/relay.h"

#include <string.h>

static void on_readable(struct stream *stream)
{
	struct server *s = LIST_OBJECT(stream, struct server, peer.stream);

	world_wake(s->peer.world);
	/* mostly it works for a client */
	if (s->policy.state == SERVER_ACTIVE)
		relay_from_server(s, true);
	else
		server_readable(s, true);
}

void server_readable(struct server *s, bool from_socket)
{
	switch ((enum server_state)s->policy.state) {
	case SERVER_LOGIN:
		dial_read(s, from_socket);
		return;
	case SERVER_ACTIVE_CANCEL:
		cancel_server_read(s);
		return;
	case SERVER_LOOKUP:
		lookup_read(s, from_socket);
		return;
	case SERVER_IDLE: case SERVER_USED: case SERVER_TESTED: case SERVER_ACTIVE: case SERVER_BEING_CANCELED:
		relay_from_server(s, from_socket);
		return;
	case SERVER_DEAD:
	case SERVER_STATES:
		return;
	}
}

static void on_drained(struct stream *stream)
{
	struct server *s = LIST_OBJECT(stream, struct server, peer.stream);

	world_wake(s->peer.world);
	relay_server_drained(s);
}

static void on_connected(struct stream *stream, const char *error)
{
	struct server *s = LIST_OBJECT(stream, struct server, peer.stream);

	world_wake(s->peer.world);
	dial_connected(s, error);
}

static void on_secured(struct stream *stream, const char *error)
{
	struct server *s = LIST_OBJECT(stream, struct server, peer.stream);

	world_wake(s->peer.world);
	dial_secured(s, error);
}

const struct stream_ops server_stream_ops = {
	.on_readable = on_readable,
	.on_drained = on_drained,
	.on_connected = on_connected,
	.on_secured = on_secured,
};

struct server *server_new(struct pool *pool, struct world *w, bool is_cancel, const struct client *whom)
{
	struct server *s = mem_try(sizeof(*s));

	if (!s)
		return NULL;
	s->peer.world = w;
	s->peer.id = ++w->last_id;
	s->peer.connected_at = s->peer.request_at = w->now_wall;
	s->peer.stream.fd = -1;
	s->status = 'I';
	s->params = params_none(w->params);
	/* where they do not decide whoever comes next would have to live with them; one that came in session mode may outlast it */
	s->policy.startup = whom && pool_minds_startup(pool, whom->policy.alone) ? params_hold(whom->policy.startup) : params_none(w->params);
	s->policy.alone = whom ? whom->policy.alone : 0;
	s->replication = whom ? whom->replication : 0;
	ledger_init(&s->ledger);
	list_init(&s->peer.again);
	list_init(&s->peer.node);
	list_append(&w->servers, &s->peer.node);
	pool_server_init(&s->policy, pool, is_cancel, w->now);
	return s;
}

const char *server_text(const struct server *s, char *buf, size_t size)
{
	char where[80], pool[POOL_TEXT];

	snprintf(buf, size, "S-0x%llx: %s@%s", (unsigned long long)s->peer.id, pool_text(s->policy.pool, pool, sizeof(pool)),
		 brief_address_and_port(&s->peer.remote, where, sizeof(where)));
	return buf;
}

void server_log_error(const struct server *s, const char *what, const struct pg_error *e)
{
	char who[256], text[PRINTABLE_TEXT];

	log_warning("%s %s: %.20s %s", server_text(s, who, sizeof(who)), what, *e->severity ? e->severity : "ERROR",
		    printable_text(e->message, text, sizeof(text)));
}

static void log_end(const struct server *s, enum goodbye why, const char *detail)
{
	const struct goodbye_row *row = goodbye_row(why);
	const struct settings *set = &s->peer.world->conf->settings;
	long long age = (s->peer.world->now_wall - s->peer.connected_at) / USEC;
	char who[256], text[GOODBYE_LOG_TEXT];

	if (s->policy.is_cancel && !log_is_on(LEVEL_NOISE))
		return;
	server_text(s, who, sizeof(who));
	goodbye_log_text(why, detail, text, sizeof(text));
	if (set->log_disconnections)
		log_info("%s closing because: %s (age=%llds)", who, text, age);
	if (row->fault == FAULT_SERVER && set->log_pooler_errors && s->policy.state != SERVER_LOGIN)
		log_warning("%s server trouble: %s", who, text);
}

/* A server that is between two messages is told goodbye; one that is in the middle just loses its connection. */
static void part_politely(struct server *s)
{
	struct bytes out = BYTES_EMPTY;

	if (s->peer.stream.phase != STREAM_OPEN || s->dial || s->policy.is_cancel || stream_unsent(&s->peer.stream) > 0 ||
	    !ledger_is_empty(&s->ledger))
		return;
	pg_build_terminate(&out);
	if (!out.failed)
		stream_write_bytes(&s->peer.stream, out.data, bytes_size(&out));
	bytes_free(&out);
}

/* Its own fault, before it was of any use to anybody: dialled again at once, it would only do the same again. */
static bool is_stillborn(const struct server *s, enum goodbye why)
{
	return !s->was_ended && !s->policy.lent && s->policy.opened > 0 && s->peer.world->now - s->policy.opened < USEC &&
	       goodbye_row(why)->fault == FAULT_SERVER;
}

static void bury(struct server *s)
{
	struct world *w = s->peer.world;
	struct pool *pool = s->policy.pool;

	if (s->policy.state != SERVER_DEAD)
		pool_server_become(&s->policy, SERVER_DEAD, w->now);
	stream_close(&s->peer.stream);
	dial_free(s);
	ledger_clear(&s->ledger);
	prepared_server_free(s);
	bytes_free(&s->peer.held);
	params_drop(w->params, &s->params);
	params_drop(w->params, &s->policy.startup);
	mem_free(s->cancel_key);
	mem_free(s->address);
	mem_free(s->host);
	mem_free(s->role);
	s->role = NULL;
	s->cancel_key = NULL;
	s->address = NULL;
	s->host = NULL;
	list_remove(&s->peer.again);
	list_remove(&s->peer.node);
	list_append(&w->dead_servers, &s->peer.node);
	pool_mark(pool);
}

/* The end of a server that has no client (any more). */
static void end_alone(struct server *s, enum goodbye why, const char *text)
{
	ASSERT(!s->policy.link);
	if (s->lookup)
		lookup_server_gone(s, why, text);
	part_politely(s);
	if (!s->policy.is_cancel && (s->policy.state == SERVER_LOGIN || is_stillborn(s, why)))
		dial_failed(s, why, text);
	cancel_forget_server(s);
	bury(s);
}

void server_let_go(struct server *s)
{
	struct client *c = s->policy.link ? client_of(s->policy.link) : NULL;

	if (c)
		pool_unlink(&s->policy, SERVER_DEAD, true, s->peer.world->now);
	cancel_forget_server(s);
	bury(s);
	if (c)
		client_let_go(c);
}

void server_name_abuse(const struct server *s, enum goodbye *why, const char **detail)
{
	if (*why != GOODBYE_SERVER_CRASHED || !stream_abuse(&s->peer.stream))
		return;
	*why = GOODBYE_SERVER_TLS;
	*detail = stream_abuse(&s->peer.stream);
}

void server_end(struct server *s, enum goodbye why, const char *detail)
{
	struct client *c = s->policy.link ? client_of(s->policy.link) : NULL;
	char text[1024];

	if (s->policy.state == SERVER_DEAD)
		return;
	server_name_abuse(s, &why, &detail);
	goodbye_text(why, detail, text, sizeof(text));
	goodbye_count(why);
	log_end(s, why, detail);
	if (c) {
		c->told = s->said_fatal || (s->peer.passing > 0 && !s->peer.passing_dropped);
		pool_unlink(&s->policy, SERVER_DEAD, true, s->peer.world->now);
	}
	end_alone(s, why, text);
	if (c)
		client_end(c, why, detail);
}

void server_end_leaving(struct server *s, enum goodbye why, bool client_dies)
{
	char text[1024];

	goodbye_text(why, NULL, text, sizeof(text));
	goodbye_count(why);
	log_end(s, why, NULL);
	pool_unlink(&s->policy, SERVER_DEAD, client_dies, s->peer.world->now);
	end_alone(s, why, text);
}

void server_end_with_words(struct server *s, enum goodbye why, const uint8_t *error, size_t size)
{
	struct pg_error e;

	if (pg_error_read(error, size, &e) == PG_OK) {
		server_log_error(s, "server said", &e);
		s->was_ended = text_starts(e.sqlstate, "57P0");
	}
	if (s->policy.link)
		server_end_leaving(s, why, false);
	else
		server_end(s, why, NULL);
}
