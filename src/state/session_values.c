/*
 * The last values that clients have drawn from sequences, for currval and lastval.
 *
 * PostgreSQL keeps these values in the session, and no query sets them. If no client of a pool asks
 * for them, the clients of a server share its session, and pgweir does not know whose values the
 * session has (values_of). The rest of this file is for pools in which a client has asked
 * (pool->reads_sequences):
 *
 *	- A server discards the values of other clients when it is assigned (STALE_SEQUENCES). The
 *	  first client may ask in a transaction in which it has drawn a value. It gets the value if
 *	  the server proves that the client has drawn it (session.drawn); otherwise all values are
 *	  discarded before the client's text, which then gets error 55000.
 *	- A client that may have drawn values keeps its server (PIN_SEQUENCE) until another client
 *	  needs the server.
 *	- Then the server is asked for all values (task_values), and pgweir keeps them
 *	  (client_session.values). From now on the client keeps no server for its values: the server
 *	  is asked at the end of each transaction that may have drawn values.
 *	- A text that is one call of currval or lastval (sql/values_text.h) is sent with the value
 *	  in its place, and any other text as it is: the session has the values that the client has
 *	  drawn since the link began, or answers with error 55000, which gets a hint.
 *
 * A newly drawn value replaces the kept value. Therefore the server is asked before such a text,
 * too, if the client may have drawn values since the last time: in its transaction only for the
 * sequences that are locked by it, or have a kept value. A sequence with neither is in the session,
 * which the expression asks last:
 *
 *	SELECT currval('s')	->	SELECT CASE WHEN ('s')::regclass::oid = 16400 THEN 7 ...
 *					ELSE currval('s') END AS currval
 *
 * A prepared statement is parsed again in this form before each Bind (prepared/send.c), because
 * the value changes.
 *
 * lastval has no OID. pgweir notes all sequences with the same value (is_last), and the answer is
 * known as long as they are equal. setval and nextval in a later link then change lastval as they
 * do in one session.
 *
 * Invariant: while a client has kept values and no PIN_SEQUENCE, the session of its server has no
 * value that is newer.
 */
#include "state/session_values.h"

#include "base/assert.h"
#include "base/mem.h"
#include "pg/build.h"
#include "pg/message.h"
#include "sql/state_text.h"
#include "sql/values_text.h"
#include "state/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* of a database: if the role may use more of them, no values are kept */
#define SEQUENCES_MOST 1000
#define SEQUENCES_MORE "1001"
#define LOCK_TIMEOUT "10ms"		/* a sequence may be locked by ALTER SEQUENCE or TRUNCATE */
#define HINT \
	"Another client has got the server connection since this value was drawn. pgweir then " \
	"answers only SELECT lastval() and SELECT currval('name') " \
	"alone in a text; INSERT ... RETURNING needs no such answer."

void session_values_keep(struct client *c)
{
	if (c->session->values)
		c->session->values->are_fresh = false;
	c->session->draws_now = true;
	session_pin(c, c->pooled.pins | PIN_SEQUENCE);
}

void session_values_begin(struct server *s, struct client *c, bool keeps_state)
{
	const struct client_session *state = c->session;
	bool reads = c->pooled.pool->reads_sequences && keeps_state;
	/* the client has drawn newer values on another server */
	bool is_old = keeps_state && state->values && state->values->at != s->peer.id;

	if (s->session.values_of != c->peer.id || is_old) {
		if (s->session.drawn) {
			mem_free(s->session.drawn);
			s->session.drawn = NULL;
		}
		if (reads && s->session.values_of != 0)
			session_set_stale(s, STALE_SEQUENCES);
		server_values_to(s, s->session.values_of == 0 && keeps_state ? c->peer.id
									     : VALUES_MIXED);
	}
	if (keeps_state &&
	    (state->draws || (reads && state->fills) || (state->values && state->unnamed_fills)))
		session_values_keep(c);
	/* nothing has been executed yet */
	if (keeps_state && state->values) {
		state->values->are_fresh = true;
		state->values->batch = s->batch;
	}
}

/* ---- kept values ---- */

void session_values_free(struct sequence_values **values)
{
	if (*values)
		mem_free((*values)->all);
	mem_free(*values);
	*values = NULL;
}

/* Removes a value. */
static void drop_value(struct sequence_values *v, unsigned i)
{
	v->count--;
	memmove(&v->all[i], &v->all[i + 1], (v->count - i) * sizeof(*v->all));
}

/* The values are not known any more, so texts that ask for them get error 55000. */
static void lose_values(struct client *c)
{
	if (c->session->values)
		c->session->values->count = 0;
	session_values_lost(c);
}

/* Adds the value as the newest, and drops the oldest if there are too many. False: no memory. */
static bool add_value(struct sequence_values *v, uint32_t oid, int64_t value, bool is_last)
{
	struct sequence_value *all = v->all;

	if (v->count == VALUES_MOST)
		drop_value(v, 0);
	/* the size grows by eights */
	if (v->count % 8 == 0)
		all = mem_resize(v->all, (v->count + 8u) * sizeof(*v->all));
	if (!all)
		return false;
	v->all = all;
	v->all[v->count++] = (struct sequence_value){ .oid = oid,
						      .value = value,
						      .is_last = is_last };
	return true;
}

/* Reads "oid:value," or "oid:,", where the value could not be read. False: malformed, or no
   memory. */
static bool take_value(struct sequence_values *v, const char **at, bool has_last, int64_t last)
{
	char *end;
	unsigned long oid = strtoul(*at, &end, 10);
	bool is_last = false, is_known = *end == ':' && end[1] != ',';
	int64_t value = is_known ? strtoll(end + 1, &end, 10) : 0;

	if (!is_known)
		end += *end == ':';
	if (end == *at || *end != ',' || oid == 0 || oid > UINT32_MAX)
		return false;
	*at = end + 1;
	for (unsigned i = 0; i < v->count; i++) {
		if (v->all[i].oid != oid)
			continue;
		is_last = v->all[i].is_last;
		drop_value(v, i);
		break;
	}
	return !is_known || add_value(v, (uint32_t)oid, value, has_last ? value == last : is_last);
}

/* The answer of task_values is "last;count;values": `last` is the value of lastval, nothing if the
   session has none, or "?". */
static bool take_values(struct sequence_values *v, const char *answer)
{
	bool has_last = *answer != ';' && *answer != '?', is_unknown = *answer == '?';
	char *end;
	int64_t last = has_last ? strtoll(answer, &end, 10) : 0;
	const char *at = has_last ? end : answer + is_unknown;
	long count = *at == ';' ? strtol(at + 1, &end, 10) : -1;

	if (count < 0 || *end != ';' || count > SEQUENCES_MOST)
		return false;
	/* the session has no lastval: the client has drawn no value here, or has dropped the
	   sequence */
	for (unsigned i = 0; i < v->count; i++)
		v->all[i].is_last &= !has_last && !is_unknown && !v->drops;
	for (at = end + 1; *at;)
		if (!take_value(v, &at, has_last, last))
			return false;
	return true;
}

/* ---- asking for values ---- */

#define IS_NOT_DEFINED "EXCEPTION WHEN object_not_in_prerequisite_state THEN NULL;WHEN OTHERS THEN "

/* Appends a DO block that leaves the answer in a parameter until the end of the transaction. An
   undefined value is an error, which only a block of PL/pgSQL can catch; caught errors are in no
   log. `from`: SQL that returns the OIDs of the sequences. */
static void append_question(struct bytes *sql, const char *from)
{
	bytes_append_format(
		sql,
		"DO $pgweir$DECLARE o pg_catalog.oid;v pg_catalog.int8;l pg_catalog.text:='';r "
		"pg_catalog.text:='';n pg_catalog.int8:=0;BEGIN "
		"BEGIN l:=pg_catalog.lastval();" IS_NOT_DEFINED "l:='?';END;"
		"FOR o IN %s LOOP n:=n OPERATOR(pg_catalog.+) 1;"
		"BEGIN v:=pg_catalog.currval(o);r:=pg_catalog.concat(r,o,':',v,',');" IS_NOT_DEFINED
		"r:=pg_catalog.concat(r,o,':,');END;END LOOP;"
		"PERFORM "
		"pg_catalog.set_config('pgweir.values',pg_catalog.concat(l,';',n,';',r),true);END$"
		"pgweir$;"
		""
		"SELECT pg_catalog.current_setting('pgweir.values')",
		from);
}

/* Appends the sequences with a kept value to the question, and sends it. If the role may not read
   one of them, its value is dropped: it may be old. */
static void send_question_of_kept(struct server *s, const struct sequence_values *v,
				  struct bytes *sql, struct bytes *from)
{
	for (unsigned i = 0; v && i < v->count; i++)
		bytes_append_format(from, " UNION SELECT '%u'::pg_catalog.oid", v->all[i].oid);
	bytes_append_u8(from, 0);
	if (!from->failed)
		append_question(sql, (const char *)bytes_front(from));
	sql->failed |= from->failed;
	bytes_free(from);
	server_run_and_free(s, &task_values, sql);
}

/* Asks for all sequences that the client may read, and for the sequences with a kept value, because
   a SET ROLE may have taken the right to read these since then. */
static void ask_all(struct server *s, const struct sequence_values *v)
{
	struct bytes from = BYTES_EMPTY, sql = BYTES_EMPTY;

	bytes_append_text(&sql, "SELECT "
				"pg_catalog.set_config('statement_timeout','0',true),pg_catalog."
				"set_config('lock_timeout','" LOCK_TIMEOUT "',true);");
	bytes_append_text(
		&from,
		"(SELECT c.oid FROM pg_catalog.pg_class c WHERE CASE WHEN c.relkind "
		"OPERATOR(pg_catalog.=) 'S' THEN "
		"pg_catalog.has_sequence_privilege(c.oid,'USAGE,SELECT') END LIMIT " SEQUENCES_MORE
		")");
	send_question_of_kept(s, v, &sql, &from);
}

/* Asks for the sequences that the transaction has locked, and for the sequences with a kept
   value. */
static void ask_some(struct server *s, const struct sequence_values *v)
{
	struct bytes from = BYTES_EMPTY, sql = BYTES_EMPTY;

	bytes_append_text(&from,
		"SELECT l.relation FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON "
		"c.oid OPERATOR(pg_catalog.=) l.relation WHERE l.pid OPERATOR(pg_catalog.=) "
		"pg_catalog.pg_backend_pid() AND c.relkind OPERATOR(pg_catalog.=) 'S'");
	send_question_of_kept(s, v, &sql, &from);
}

static void values_row(struct server *s, const struct pg_frame *f)
{
	struct pg_cursor row = pg_cursor_of(f->body, f->here);
	unsigned columns = pg_read_u16(&row);
	uint32_t size = pg_read_u32(&row);
	const uint8_t *text = pg_read_bytes(&row, row.bad || size == UINT32_MAX ? 0 : size);
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;
	char *answer;

	/* the row of the first statement has two columns */
	if (!c || !c->session || columns != 1 || row.bad)
		return;
	if (!c->session->values)
		c->session->values = mem_try(sizeof(*c->session->values));
	answer = mem_try(size + 1);
	if (answer)
		memcpy(answer, text, size);
	if (!c->session->values || !answer || !take_values(c->session->values, answer))
		lose_values(c);
	mem_free(answer);
}

static enum task_end values_done(struct server *s, bool failed)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;
	struct sequence_values *v = c ? c->session->values : NULL;

	(void)failed;
	if (!c)
		return TASK_END_RELEASE;
	if (s->said_fatal) {
		server_end(s, REASON_SERVER_CRASHED, NULL);
		return TASK_END_NOTHING;
	}
	session_values_lost(c);
	if (s->task_failed)
		lose_values(c);
	if (v) {
		v->at = s->peer.id;
		v->batch = s->batch;
		v->are_fresh = true;
		v->drops = false;
	}
	if (c->session->asks_values_first) {
		c->session->asks_values_first = false;
		return TASK_END_RESUME;
	}
	session_pin(c, c->pooled.pins & ~(unsigned)PIN_SEQUENCE);
	return TASK_END_LINK;
}

const struct server_task task_values = {
	.name = "sequences",
	.description = "asking for values of sequences",
	.states = TASK_IN(ACTIVE) | TASK_IN(TESTED),
	.reads_rows = true,
	.ends_alone = true,
	.on_row = values_row,
	.on_done = values_done,
};

bool session_values_are_known(const struct server *s, const struct client *c)
{
	const struct sequence_values *v = c->session->values;

	/* messages that pass unread may draw values, too: between the answer of the server and this
	   message nothing was executed */
	return ledger_is_up_to_date(&s->ledger) &&
	       (!(c->pooled.pins & PIN_SEQUENCE) || (v->are_fresh && v->batch == s->batch));
}

/* Whether the server can be asked when its earlier batches, which end with a Sync, are answered. In
   the middle of a batch it cannot be asked. */
static bool values_may_become_known(const struct server *s)
{
	return !s->ledger.open || (!s->ledger.executed && !ledger_is_one_batch(&s->ledger));
}

bool session_values_ask(struct server *s, struct client *c)
{
	if (!(c->pooled.pins & PIN_SEQUENCE) || !c->pooled.pool->reads_sequences)
		return false;
	c->session->asks_values_first = false;
	ask_all(s, c->session->values);
	return true;
}

bool session_values_ask_first(struct server *s, struct client *c)
{
	if (s->status == 'E' || session_values_are_known(s, c) || !values_may_become_known(s))
		return false;
	if (!ledger_is_empty(&s->ledger)) {
		flow_block(&c->peer, FLOW_ANSWERS);
		return true;
	}
	c->session->asks_values_first = true;
	ask_some(s, c->session->values);
	return true;
}

/* ---- texts that ask for values ---- */

bool session_values_claim(struct server *s, struct client *c, unsigned said,
			  unsigned said_by_functions, enum text_of of, bool is_unproven)
{
	bool are_own = s->session.values_of == c->peer.id;
	bool asks_for_named = (said | said_by_functions) & TEXT_READS_NAMED,
	     is_proven = s->session.values_are_own || (s->session.drawn && !asks_for_named);
	/* a statement with a name may be executed under another search_path, where a name is
	   another sequence */
	bool may_name = !asks_for_named ||
			(of != TEXT_OF_NAMED && !(said_by_functions & TEXT_READS_NAMED) &&
			 !((said | said_by_functions) & TEXT_SETS));
	/* after a failure the transaction answers with its error only, unless an earlier message of
	   the pipeline ends it */
	bool is_aborted = s->status == 'E' && (ledger_is_empty(&s->ledger) || s->ledger.open);

	pool_reads_sequences(c->pooled.pool);
	if (!are_own && !is_proven && !is_aborted && s->session.discards_in != s->batch + 1) {
		session_set_stale(s, STALE_SEQUENCES);
		s->session.values_may_be_own = may_name && !is_unproven &&
					       s->session.tainted_by != c->peer.id &&
					       !s->session.has_failed && !c->session->sets_values;
		return false;
	}
	if (!c->session->values) {
		session_values_keep(c);
		return true;
	}
	/* the next answer may be for a DISCARD SEQUENCES */
	return is_aborted || session_values_are_known(s, c) || !values_may_become_known(s);
}

#define IS_MODE(modes) "l.mode OPERATOR(pg_catalog.=) ANY (ARRAY[" modes "])"

/* While the values are stale (STALE_SEQUENCES): asks for the OIDs of the sequences from which the
   client has drawn the last value, and whether these are all sequences that it asks for. A sequence
   is locked until the end of the transaction that has called nextval; ALTER SEQUENCE and TRUNCATE
   RESTART IDENTITY take other locks, too. */
void session_values_prepare(struct server *s, struct client *c, const uint8_t *text, size_t size)
{
	struct bytes oids = BYTES_EMPTY, sql = BYTES_EMPTY;

	if (!(s->session.stale & STALE_SEQUENCES)) {
		session_values_ask_first(s, c);
		return;
	}
	if (!s->session.values_may_be_own || (s->status == 'I' && !s->session.drawn) ||
	    !state_text_read_sequences(text, size, &oids)) {
		server_run(s, &task_discard, "DISCARD SEQUENCES");
		bytes_free(&oids);
		return;
	}
	bytes_append_text(&sql,
		"WITH o AS (SELECT l.relation AS o FROM pg_catalog.pg_locks l JOIN "
		"pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) l.relation WHERE l.pid "
		"OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() AND c.relkind "
		"OPERATOR(pg_catalog.=) 'S' GROUP BY l.relation HAVING "
		"pg_catalog.bool_and(" IS_MODE("'RowExclusiveLock','AccessShareLock'")
		") AND pg_catalog.bool_or(" IS_MODE("'RowExclusiveLock'") ")");
	if (s->session.drawn)
		bytes_append_format(&sql,
				    " UNION SELECT pg_catalog.unnest('{%.*s}'::pg_catalog.oid[])",
				    (int)strlen(s->session.drawn) - 1, s->session.drawn);
	bytes_append_text(&sql, ") SELECT o,ARRAY[");
	if (bytes_size(&oids) > 0)
		bytes_append(&sql, bytes_front(&oids), bytes_size(&oids));
	bytes_append_text(&sql, "o] OPERATOR(pg_catalog.<@) ARRAY(SELECT o FROM o) FROM o");
	sql.failed |= oids.failed;
	bytes_free(&oids);
	mem_free(s->session.drawn);
	s->session.drawn = NULL;
	server_run_and_free(s, &task_drawn, &sql);
}

#define DRAWN_MOST 1000		/* bytes */

static void drawn_row(struct server *s, const struct pg_frame *f)
{
	struct pg_cursor row = pg_cursor_of(f->body, f->here);
	unsigned columns = pg_read_u16(&row);
	uint32_t size = pg_read_u32(&row);
	const uint8_t *oid = pg_read_bytes(&row, size), *is_all;
	size_t before = s->session.drawn ? strlen(s->session.drawn) : 0;
	char *drawn;

	is_all = pg_read_u32(&row) == 1 ? pg_read_bytes(&row, 1) : NULL;
	if (row.bad || columns != 2 || !is_all || !s->pooled.link || size == 0 ||
	    before + size > DRAWN_MOST)
		return;
	drawn = mem_try(before + size + 2);
	if (!drawn)
		return;
	snprintf(drawn, before + size + 2, "%s%.*s,", s->session.drawn ? s->session.drawn : "",
		 (int)size, (const char *)oid);
	mem_free(s->session.drawn);
	s->session.drawn = drawn;
	s->session.values_are_own = *is_all == 't';
	if (s->session.values_are_own)
		session_set_known(s, STALE_SEQUENCES);
}

static void own_values(struct server *s)
{
	mem_free(s->session.drawn);
	s->session.drawn = NULL;
	session_set_known(s, STALE_SEQUENCES);
	server_values_to(s, client_of(s->pooled.link)->peer.id);
}

/* An open transaction is not a failure. An error of task_drawn ends the client's transaction, and
   the client's text fails too. */
static enum task_end drawn_done(struct server *s, bool failed)
{
	(void)failed;
	if (s->said_fatal || (s->task_failed && s->status != 'E')) {
		server_end(s, REASON_STATE_UNKNOWN, NULL);
		return TASK_END_NOTHING;
	}
	if (s->task_failed)
		session_set_known(s, STALE_SEQUENCES);
	if (!(s->session.stale & STALE_SEQUENCES))
		return TASK_END_RESUME;
	server_run(s, &task_discard, "DISCARD SEQUENCES");
	return TASK_END_NOTHING;
}

static enum task_end discard_done(struct server *s, bool failed)
{
	if (!s->task_failed)
		own_values(s);
	return drawn_done(s, failed);
}

const struct server_task task_drawn = {
	.name = "sequences",
	.description = "asking for sequences that the transaction has used",
	.states = TASK_IN(ACTIVE),
	.reads_rows = true,
	.on_row = drawn_row,
	.on_done = drawn_done,
};

const struct server_task task_discard = {
	.name = "sequences",
	.description = "DISCARD SEQUENCES",
	.states = TASK_IN(ACTIVE),
	.on_done = discard_done,
};

bool session_values_discard(struct server *s, struct gather *g)
{
	/* the statement and the portal have the name "pgweir." */
	static const char messages[] = "P\0\0\0\x20"
				       "pgweir.\0"
				       "DISCARD SEQUENCES\0"
				       "\0\0"
				       "B\0\0\0\x1a"
				       "pgweir.\0"
				       "pgweir.\0"
				       "\0\0\0\0\0\0"
				       "E\0\0\0\x10"
				       "pgweir.\0"
				       "\0\0\0\0"
				       "C\0\0\0\x0d"
				       "Spgweir.\0"
				       "C\0\0\0\x0d"
				       "Ppgweir.";
	static const uint8_t types[] = { PGC_PARSE, PGC_BIND, PGC_EXECUTE, PGC_CLOSE, PGC_CLOSE };

	session_set_known(s, STALE_SEQUENCES);
	s->session.discards_in = s->batch + 1;
	/* the server passes over the client's text, too */
	if (s->ledger.skipping)
		return true;
	if (!ledger_enters(&s->ledger))
		return false;
	for (size_t i = 0; i < sizeof(types); i++)
		if (!ledger_sent_marked(&s->ledger, types[i], PG_OF_STATEMENT, OWED_TO_POOLER,
					MARK_DISCARD))
			return false;
	gather_copy(g, messages, sizeof(messages));
	return true;
}

void session_values_discarded(struct server *s)
{
	s->session.discards_in = 0;
	if (s->pooled.link)
		own_values(s);
}

void session_values_forget(struct server *s, struct client *c)
{
	struct client_session *state = c->session;

	server_values_to(s, c->peer.id);
	session_set_known(s, STALE_SEQUENCES);
	if (state->values)
		state->values->count = 0;
	/* a later message of the pipeline, or a later statement of the Query, may have drawn or
	   read values */
	if (!state->draws_now && !state->draws)
		session_pin(c, c->pooled.pins & ~(unsigned)PIN_SEQUENCE);
}

/* ---- answers from kept values ---- */

#define OID "'%u'::pg_catalog.oid"
#define MAY_READ "pg_catalog.has_sequence_privilege(" OID ",'USAGE,SELECT')"

/* Appends the conditions for the value of lastval. has_sequence_privilege() is NULL for a sequence
   that was dropped. */
static bool append_last(const struct sequence_values *v, struct bytes *sql)
{
	const struct sequence_value *first = NULL;
	unsigned count = 0;

	for (unsigned i = 0; i < v->count; i++) {
		if (!v->all[i].is_last)
			continue;
		if (first && first->value != v->all[i].value)
			return false;
		bytes_append_format(sql, first ? " AND " MAY_READ : " WHEN " MAY_READ,
				    v->all[i].oid);
		first = &v->all[i];
		count++;
	}
	if (!first)
		return false;
	bytes_append_format(sql, " THEN '%lld'::pg_catalog.int8", (long long)first->value);
	if (count == 1)
		bytes_append_format(sql,
				    " WHEN NOT " MAY_READ
				    " THEN pg_catalog.currval('%u'::pg_catalog.regclass)",
				    first->oid, first->oid);
	return true;
}

static void append_named(const struct sequence_values *v, const char *argument, int size,
			 struct bytes *sql)
{
	/* a comment without an end of line may end the argument */
	for (unsigned i = 0; i < v->count; i++)
		bytes_append_format(sql,
				    " WHEN (%.*s\n)::pg_catalog.regclass::pg_catalog.oid "
				    "OPERATOR(pg_catalog.=) " OID " AND " MAY_READ
				    " THEN '%lld'::pg_catalog.int8",
				    size, argument, v->all[i].oid, v->all[i].oid,
				    (long long)v->all[i].value);
}

bool session_values_fill(const struct server *s, const struct client *c, const uint8_t *text,
			 size_t size, struct bytes *filled)
{
	const struct sequence_values *v = c->session ? c->session->values : NULL;
	const char *at = (const char *)text;
	struct bytes cases = BYTES_EMPTY;
	struct values_text t;

	if (!v || v->count == 0 || s->status == 'E' || !session_values_are_known(s, c) ||
	    !values_text_read(text, size, &t))
		return false;
	if (!t.is_last)
		append_named(v, at + t.argument, (int)(t.argument_end - t.argument), &cases);
	else if (!append_last(v, &cases)) {
		bytes_free(&cases);
		return false;
	}
	bytes_append(filled, text, t.call);
	bytes_append_text(filled, "CASE");
	bytes_append(filled, bytes_front(&cases), bytes_size(&cases));
	bytes_append_format(filled, " ELSE %.*s END%s", (int)(t.call_end - t.call), at + t.call,
			    t.is_named	? ""
			    : t.is_last ? " AS lastval"
					: " AS currval");
	bytes_append(filled, text + t.call_end, size - t.call_end);
	filled->failed |= cases.failed;
	bytes_free(&cases);
	return true;
}

enum verdict session_values_hint(struct client *c, const struct pg_frame *f)
{
	struct pg_cursor body = pg_cursor_of(f->body, f->here);
	struct bytes out = BYTES_EMPTY;
	bool is_undefined = false, is_of_values = false;
	size_t mark;
	uint8_t field;

	if (!pg_frame_is_whole(f))
		return VERDICT_PASS;
	while ((field = pg_read_u8(&body)) != 0) {
		const char *text = pg_read_string(&body);

		is_undefined |= field == 'C' && strcmp(text, "55000") == 0;
		is_of_values |= field == 'R' &&
				(strcmp(text, "currval_oid") == 0 || strcmp(text, "lastval") == 0);
	}
	if (body.bad || !is_undefined || !is_of_values)
		return VERDICT_PASS;
	mark = pg_begin(&out, PGS_ERROR);
	bytes_append(&out, f->body, f->size - 1);
	bytes_append_u8(&out, 'H');
	bytes_append_string(&out, HINT);
	bytes_append_u8(&out, 0);
	pg_end(&out, mark);
	/* a write error is found with the next write */
	if (!out.failed)
		stream_write_bytes(&c->peer.stream, bytes_front(&out), bytes_size(&out));
	field = out.failed;
	bytes_free(&out);
	return field ? VERDICT_PASS : VERDICT_SWALLOW;
}

/* ---- the handover ---- */

void session_values_pack(struct bytes *out, const struct sequence_values *v)
{
	pack_bool(out, v);
	if (!v)
		return;
	bytes_append_u8(out, v->count);
	for (unsigned i = 0; i < v->count; i++) {
		bytes_append_u32(out, v->all[i].oid);
		pack_i64(out, v->all[i].value);
		pack_bool(out, v->all[i].is_last);
	}
	pack_u64(out, v->at);
	pack_bool(out, v->drops);
}

bool session_values_unpack(struct unpack *in, struct sequence_values **values)
{
	struct sequence_values *v;
	unsigned count;

	if (!unpack_bool(in))
		return true;
	v = *values = mem_try(sizeof(*v));
	if (!v)
		return false;
	count = unpack_u8(in);
	in->bad |= count > VALUES_MOST;
	for (unsigned i = 0; i < count && !in->bad; i++) {
		uint32_t oid = unpack_u32(in);
		int64_t value = unpack_i64(in);

		if (!add_value(v, oid, value, unpack_bool(in)))
			return false;
	}
	/* the values are asked for again before the next text that asks for them in a
	   transaction */
	v->at = unpack_u64(in);
	v->drops = unpack_bool(in);
	return !in->bad;
}
