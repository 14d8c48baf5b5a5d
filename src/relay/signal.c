/*
 * pg_terminate_backend and pg_cancel_backend of a client's number.
 *
 * BackendKeyData tells a client a process number that pgweir has drawn, which no server knows.
 * Applications and drivers end sessions by it, their own, to see whether they notice, or others:
 * SELECT pg_terminate_backend(1234567890). pgweir carries that out, if the text has this shape
 * (sql/signal_text.h):
 *
 *	the client's own number		the server gets its own number in its place, and ends or
 *					cancels the session as usual
 *	another client's, terminate	pgweir ends that client, with PostgreSQL's error, and the
 *					server answers true
 *	anything else			unchanged: PostgreSQL warns that there is no such process,
 *					and answers false
 *
 * Rights: PostgreSQL lets a role end its own sessions. pgweir ends a client of the same pool only,
 * or of a pool of the same database and user at another host. Members of pg_signal_backend and
 * superusers get false for other clients: pgweir does not know their rights. In a failed
 * transaction nothing is done.
 *
 * A Query has the number in its text. In the extended protocol it may be $1: then the text of the
 * Parse is replaced so that it returns true for SIGNAL_DONE, and a Bind of that statement has the
 * number. A number in the text of a Parse takes effect with the Parse.
 *
 *	SELECT CASE $1::int WHEN -2147483647 THEN true ELSE pg_terminate_backend($1) END AS
 *	pg_terminate_backend
 *
 * Not done: to cancel the query of another client, which needs that client's key; and $1, or a
 * number in a Parse, of clients in session mode and with max_prepared_statements = 0, whose
 * statements pgweir does not know.
 */
#include "relay/signal.h"

#include "base/log.h"
#include "base/text.h"
#include "cancel/cancel.h"
#include "conn/server.h"
#include "conn/world.h"

#include <stdio.h>

enum meant { MEANS_NOTHING, MEANS_ITSELF, MEANS_DONE };

static const char *signal_name_of(enum signal_of of)
{
	return of == SIGNAL_TERMINATE ? "pg_terminate_backend" : "pg_cancel_backend";
}

/* Whether PostgreSQL would let the client end the session of `target`. */
static bool may_end(const struct client *c, const struct client *target)
{
	const struct pool *own = c->pooled.pool, *other = target->pooled.pool;

	return other && !target->login && !target->console.is_connected &&
	       !c->console.is_connected && own->user == other->user &&
	       own->database == other->database && !peer_is_ending(&target->peer);
}

static enum meant mean(struct client *c, const struct server *s, enum signal_of of, uint32_t pid)
{
	struct client *target = pid > SERVER_PID_MOST ? cancel_find_pid(c->peer.world, pid) : NULL;
	char who[256], whom[256];

	/* done before, when this message arrived first; since then it has waited for the server */
	if (c->prepared && pid > 0 && c->prepared->signal_done == pid)
		return MEANS_DONE;
	if (!target || s->status == 'E' || s->ledger.skipping)
		return MEANS_NOTHING;
	if (target == c)
		return MEANS_ITSELF;
	if (of != SIGNAL_TERMINATE || !may_end(c, target))
		return MEANS_NOTHING;
	log_info("%s pg_terminate_backend of %s", client_text(c, who, sizeof(who)),
		 client_text(target, whom, sizeof(whom)));
	client_end(target, REASON_TERMINATED, NULL);
	if (c->prepared)
		c->prepared->signal_done = pid;
	return MEANS_DONE;
}

/* ---- texts ---- */

/* Appends the text that replaces this one, without its end. False: nothing replaces it. */
static bool replace_text(struct client *c, struct server *s, bool is_parse, const uint8_t *text,
			 size_t size, struct bytes *out)
{
	struct signal_text t;
	enum meant meant;

	if (!signal_text_read(text, size, &t))
		return false;
	if (t.pid == 0) {
		if (!is_parse)
			return false;
		bytes_append_text(out, SIGNAL_PREPARED);
		bytes_append(out, text + t.name_at, t.name_size);
		bytes_append_format(out, "($1) END AS %s", signal_name_of(t.of));
		return true;
	}
	meant = mean(c, s, t.of, t.pid);
	if (meant == MEANS_NOTHING)
		return false;
	if (meant == MEANS_DONE) {
		bytes_append_format(out, "SELECT true AS %s", signal_name_of(t.of));
		return true;
	}
	bytes_append(out, text, t.at);
	bytes_append_text(out, "pg_catalog.pg_backend_pid()");
	bytes_append(out, text + t.at + t.size, strlen((const char *)text + t.at + t.size));
	return true;
}

/* ---- Bind ---- */

/* The only parameter of a Bind: where its length is, its value, and whether it is binary. */
struct bound { size_t at, end; uint32_t size; bool is_binary; };

static bool signal_read_bind(const struct pg_frame *f, struct bound *b)
{
	struct pg_cursor cursor = pg_cursor_of(f->body, f->size);
	unsigned formats;

	pg_read_string(&cursor);
	pg_read_string(&cursor);
	formats = pg_read_u16(&cursor);
	b->is_binary = formats == 1 && pg_read_u16(&cursor) == 1;
	if (cursor.bad || formats > 1 || pg_read_u16(&cursor) != 1)
		return false;
	b->at = (size_t)(cursor.at - f->body);
	b->size = pg_read_u32(&cursor);
	if (cursor.bad || b->size == 0 || b->size > 10 || !pg_read_bytes(&cursor, b->size))
		return false;
	b->end = (size_t)(cursor.at - f->body);
	return !cursor.bad && (!b->is_binary || b->size == sizeof(uint32_t));
}

/* Returns the number in the parameter; 0: none. */
static uint32_t number_of(const struct pg_frame *f, const struct bound *b)
{
	const uint8_t *value = f->body + b->at + sizeof(uint32_t);
	uint64_t pid = 0;

	if (b->is_binary)
		return pg_u32_at(value);
	for (uint32_t i = 0; i < b->size; i++) {
		if (value[i] < '0' || value[i] > '9')
			return 0;
		pid = pid * 10 + (value[i] - '0');
	}
	return pid <= INT32_MAX ? (uint32_t)pid : 0;
}

static bool replace_bind(struct client *c, struct server *s, const struct pg_frame *f,
			 struct bytes *out)
{
	const char *text;
	struct request_text of;
	struct bound b;
	enum meant meant;
	char value[16];
	int length;

	prepared_request_text(c, f, &of);
	text = (const char *)of.at;
	if (!text || of.size < sizeof(SIGNAL_PREPARED) || !text_starts(text, SIGNAL_PREPARED) ||
	    !signal_read_bind(f, &b))
		return false;
	meant = mean(c, s,
		     strstr(text, "AS pg_terminate_backend") ? SIGNAL_TERMINATE : SIGNAL_CANCEL,
		     number_of(f, &b));
	if (meant == MEANS_NOTHING)
		return false;
	length = meant == MEANS_DONE ? SIGNAL_DONE : (int)s->backend_pid;
	bytes_append(out, f->body, b.at);
	if (b.is_binary) {
		bytes_append_u32(out, sizeof(uint32_t));
		bytes_append_u32(out, (uint32_t)length);
	} else {
		length = snprintf(value, sizeof(value), "%d", length);
		bytes_append_u32(out, (uint32_t)length);
		bytes_append(out, value, (size_t)length);
	}
	bytes_append(out, f->body + b.end, f->size - b.end);
	return true;
}

/* ---- all messages ---- */

bool signal_replace(struct client *c, struct server *s, const struct pg_frame *f, struct bytes *out)
{
	struct request_text text;

	if (!pg_frame_is_whole(f))
		return false;
	if (f->type == PGC_BIND)
		return replace_bind(c, s, f, out);
	if (!prepared_request_text(c, f, &text) || text.size == 0 || text.at[text.size - 1] != 0)
		return false;
	bytes_append(out, f->body, (size_t)(text.at - f->body));
	if (!replace_text(c, s, f->type == PGC_PARSE, text.at, text.size, out))
		return false;
	if (f->type == PGC_PARSE)
		prepared_note_signals(c);
	bytes_append(out, text.types - 1, text.types_size + 1);
	return true;
}
