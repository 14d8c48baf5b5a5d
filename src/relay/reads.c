/*
 * Read-only transactions on standbys (setting reads = transaction).
 *
 * The client has said that it only reads: by BEGIN or START TRANSACTION READ ONLY, or because
 * default_transaction_read_only is on in its session. The first request of such a transaction
 * decides where the transaction runs: on a host that is fresh enough for the client (TARGET_READ),
 * if all of its texts are statements for standbys (sql/read_transaction.h), otherwise on the
 * primary.
 *
 * A BEGIN without other messages is answered at once and held back until the first request, so that
 * both go to the same server. Its answer there is dropped. A transaction that ends before its first
 * request needs no server. If the first request fails on a standby, for whatever reason, while the
 * client has no part of its answer, the primary gets BEGIN and the request, and the answer of the
 * primary counts: see retry.c.
 *
 * While a transaction of the client runs by this rule (READING_HERE), the server gets one request
 * at a time: the request after the end of the transaction may be a write, which must not go to the
 * same server. A standby would execute some statements that are meant for the primary, such as
 * advisory locks, or would keep the client there (may_pin): pgweir replaces them by a text that
 * fails. A Query that ends the transaction and has more statements goes to the primary, after the
 * BEGIN.
 *
 * If the first request is cancelled while it waits for a server, the client gets the error, and its
 * transaction is aborted (READING_FAILED). A COMMIT or ROLLBACK then is answered at once. Before
 * any other request the primary gets BEGIN and a ROLLBACK TO that fails, in one Query: so the
 * server is in an aborted transaction too, and answers as it does to a client without a pooler.
 *
 * Invariant: READING_BEGIN only without a server, or before the first request has been sent; the
 * client was told that a transaction is open.
 */
#include "relay/reads.h"

#include "base/mem.h"
#include "conn/retry.h"
#include "pg/build.h"
#include "pool/host.h"
#include "pool/role.h"
#include "prepared/prepared.h"
#include "relay/link.h"
#include "sql/read_transaction.h"
#include "sql/sql_lex.h"
#include "sql/state_functions.h"
#include "state/session_functions.h"

#include <string.h>

#define BEGIN_MOST 512			/* bytes of a BEGIN that is held back */
#define SEARCHED_MOST (READ_BUFFER / 2)	/* bytes of a later statement that are searched for words */

/* ---- texts ---- */

/* Returns the tag of COMMIT, END, ROLLBACK or ABORT as the only statement of the text, or, if
   `has_more`, as the first of several; or NULL. */
static const char *end_of_transaction(const uint8_t *text, size_t size, bool has_more)
{
	struct sql_lexer l = lex_begin(text, size);
	struct lex_token t = lex_next(&l);
	bool commits = lex_is(&t, "commit") || lex_is(&t, "end");

	if (!commits && !lex_is(&t, "rollback") && !lex_is(&t, "abort"))
		return NULL;
	t = lex_next(&l);
	if (lex_is(&t, "work") || lex_is(&t, "transaction"))
		t = lex_next(&l);
	/* ROLLBACK TO ends nothing */
	if (t.kind != LEX_END && !lex_is_mark(&t, ';'))
		return NULL;
	while (lex_is_mark(&t, ';'))
		t = lex_next(&l);
	return (t.kind != LEX_END) != has_more || l.is_cut || l.is_uncertain ? NULL
	       : commits						     ? "COMMIT"
									     : "ROLLBACK";
}

/* A read-only transaction begins, by the text or by the session. */
static bool begins(const struct client *c, const uint8_t *text, size_t size)
{
	enum read_begin kind = read_transaction_begin(text, size);

	return kind == READ_BEGIN_ONLY || (kind == READ_BEGIN_PLAIN && c->reads & READING_SESSION);
}

/* Receives names of parameters that a text sets: they are restored on the next server. */
static void pass_name(void *context, const char *name)
{
	(void)context;
	(void)name;
}

/*
 * With session_state = full: the text may leave state that no other server can get, so that the
 * client would keep the standby, where it cannot write: SELECT setseed(0.5), or a function with
 * set_config(name, value, false). Until the functions of the database are known, each may.
 */
static bool may_pin(const struct client *c, const uint8_t *text, size_t size)
{
	const unsigned pinning = TEXT_SETS_UNNAMED | TEXT_STAYS | TEXT_TEMPORARY | TEXT_HOLDS |
				 TEXT_LOCKS | TEXT_PREPARES | TEXT_MAKES_STATEMENTS;
	const struct pool *pool = c->pooled.pool;
	const struct state_functions *functions = session_functions_of(pool);
	struct text_reading words = { .search = { .words = INT32_MAX } };
	struct text_calls calls = { .search = words.search };
	struct text_search found = words.search;
	struct state_names told = { { 0 } };
	unsigned said;

	if (!pool_keeps_state(pool))
		return false;
	if (!session_functions_are_known(pool) &&
	    !state_text_calls_known(&calls, text, size, NULL, NULL))
		return true;
	if (!functions && !state_text_tells_words(text, size))
		return false;
	state_text_read(&words, text, size, pass_name, NULL);
	said = words.said;
	if (functions)
		said |= state_functions_read(functions, &found, text, size, &told, pass_name, NULL);
	world_looked(c->peer.world, (uint32_t)(2 * (INT32_MAX - words.search.words)));
	return said & pinning;
}

/* Whether the statement may run on a standby. */
static bool suits_standby(const struct client *c, const uint8_t *text, size_t size)
{
	return read_transaction_suits_standby(text, size) && !may_pin(c, text, size);
}

/* Whether all statements of the batch at the front of n bytes are for standbys. The batch must be
   complete; its first statement may begin the transaction. */
static bool batch_suits(const struct client *c, const uint8_t *at, size_t n)
{
	bool has_begun = c->reads & (READING_BEGIN | READING_SESSION),
	     may_begin = !(c->reads & READING_BEGIN), has_statement = false, is_parsed = false;
	struct pg_frame f;

	for (; pg_frame_look(at, n, READ_BUFFER, &f) == PG_OK && pg_frame_is_whole(&f);
	     at += PG_HEADER + f.size, n -= PG_HEADER + f.size) {
		struct request_text text;

		prepared_request_text(c, &f, &text);

		switch (f.type) {
		case PGC_PARSE:
			if (!text.at)
				return false;
			is_parsed = true;
			if (may_begin && begins(c, text.at, text.size))
				has_begun = true;
			else if (!has_begun || !suits_standby(c, text.at, text.size))
				return false;
			else
				has_statement = true;
			may_begin = false;
			break;
		case PGC_BIND:
			if (!has_begun ||
			    (!is_parsed && !(text.at && suits_standby(c, text.at, text.size))))
				return false;
			has_statement |= !is_parsed;
			is_parsed = may_begin = false;
			break;
		case PGC_DESCRIBE: case PGC_EXECUTE: case PGC_CLOSE:
			break;
		case PGC_SYNC:
			return has_statement;
		default:
			return false;
		}
	}
	return false;
}

/* ---- the client ---- */

/* Answers a statement without a server. */
static enum verdict answer(struct client *c, const char *tag, char status)
{
	struct bytes out = BYTES_EMPTY;
	struct world *w = c->peer.world;
	bool sent;

	pg_build_string(&out, PGS_COMPLETE, tag);
	pg_build(&out, PGS_READY, &status, 1);
	sent = client_send(c, &out);
	bytes_free(&out);
	c->in_transaction = status != 'I';
	c->transaction_started = status != 'I' ? w->now : 0;
	c->query_started = 0;
	c->last_active = w->now;
	return sent ? VERDICT_PASS : VERDICT_GONE;
}

/* Holds back the message of a BEGIN, of `size` bytes. */
static enum verdict hold_begin(struct client *c, const uint8_t *at, size_t size)
{
	const uint8_t *text = at + PG_HEADER;
	struct sql_lexer l = lex_begin(text, size - PG_HEADER);
	struct lex_token t = lex_next(&l);
	uint8_t *kept = mem_try(size);

	if (!kept) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return VERDICT_GONE;
	}
	memcpy(kept, at, size);
	mem_free(c->begin);
	c->begin = kept;
	c->reads = (uint8_t)((c->reads & ~READING_FAILED) | READING_BEGIN);
	return answer(c, lex_is(&t, "start") ? "START TRANSACTION" : "BEGIN", 'T');
}

static void decide(struct client *c, bool is_read)
{
	c->reads &= (uint8_t)~(READING_NEXT | READING_PRIMARY | READING_SENT);
	if (!(c->reads & READING_BEGIN))
		c->reads &= (uint8_t)~READING_FAILED;
	if (is_read)
		c->reads |= READING_NEXT;
	c->pooled.target = is_read ? TARGET_READ : TARGET_PRIMARY;
}

enum verdict reads_take(struct client *c, const uint8_t *at, size_t n, size_t *used)
{
	struct pg_frame f;
	const char *tag;

	*used = 0;
	/* read_auto.c has decided */
	if (c->retry && c->retry->step == AUTO_AWAY)
		return VERDICT_PASS;
	c->reads &= (uint8_t)~READING_HERE;
	if (c->reads & READING_PRIMARY || !c->retry || !link_will_share(c) ||
	    c->pooled.pool->allowed.mode != MODE_TRANSACTION) {
		decide(c, false);
		return VERDICT_PASS;
	}
	if (pg_frame_look(at, n, READ_BUFFER / 2, &f) != PG_OK) {
		decide(c, false);
		return VERDICT_PASS;
	}
	if (!pg_frame_is_whole(&f))
		return VERDICT_MORE;
	if (f.type != PGC_QUERY) {
		decide(c, !(c->reads & READING_FAILED) && batch_suits(c, at, n));
		return VERDICT_PASS;
	}
	if (!(c->reads & READING_BEGIN) && f.size <= BEGIN_MOST && begins(c, f.body, f.size)) {
		*used = PG_HEADER + f.size;
		return hold_begin(c, at, *used);
	}
	tag = c->reads & READING_BEGIN ? end_of_transaction(f.body, f.size, false) : NULL;
	if (tag) {
		tag = c->reads & READING_FAILED ? "ROLLBACK" : tag;
		c->reads &= (uint8_t)~(READING_BEGIN | READING_FAILED);
		*used = PG_HEADER + f.size;
		return answer(c, tag, 'I');
	}
	decide(c, !(c->reads & READING_FAILED) && c->reads & (READING_BEGIN | READING_SESSION) &&
			  read_transaction_begin(f.body, f.size) == READ_BEGIN_NOT &&
			  suits_standby(c, f.body, f.size));
	return VERDICT_PASS;
}

/* ---- its server ---- */

/* Whether the message, which follows in a transaction on the primary, may end the transaction and
   write. */
static bool may_write(const struct client *c, const struct pg_frame *f)
{
	struct request_text text;
	bool has_text = prepared_request_text(c, f, &text);

	if (!pg_frame_is_whole(f))
		return true;
	if (!text.at)
		return has_text || f->type == PGC_CALL;
	return !read_transaction_suits_standby(text.at, text.size) &&
	       (f->type == PGC_BIND || !end_of_transaction(text.at, text.size, false));
}

/* The client leaves its transaction on the standby. False: a part of its session may be there. */
static bool leave(struct client *c, struct server *s)
{
	if (!(c->reads & READING_SENT) || s->task || s->session.doubts || c->pooled.pins ||
	    c->hears || c->names_sql || s->pooled.cancels > 0)
		return false;
	pool_client_note_end(&c->pooled, c->peer.world->now);
	/* the next server gets the BEGIN again, so that it executes the text in the same state */
	c->reads = (uint8_t)((c->reads & ~(READING_SENT | READING_HERE | READING_STANDBY)) |
			     READING_BEGIN);
	if (c->prepared) {
		prepared_lose(s, c);
		prepared_client_trim(c);
	}
	s->was_ended = true;
	server_end_leaving(s, REASON_READ_FAILED, false);
	return true;
}

/* The server gets a message that fails instead of the client's: the transaction is aborted, and the
   client gets the error of reads_tell_refused(). */
static enum verdict refuse(struct server *s, uint8_t type, struct gather *g)
{
	static const char text[] = "\0this statement belongs on the primary\0\0";
	bool is_query = type == PGC_QUERY || type == PGC_CALL;
	struct bytes message = BYTES_EMPTY;

	if (is_query)
		pg_build_string(&message, PGC_QUERY, text + 1);
	else
		pg_build(&message, PGC_PARSE, text, sizeof(text));
	if (message.failed)
		return VERDICT_NO_MEMORY;
	g->to = &s->peer.stream;
	gather_copy(g, bytes_front(&message), bytes_size(&message));
	bytes_free(&message);
	s->unnamed_of = 0;
	return ledger_sent_marked(&s->ledger, is_query ? PGC_QUERY : PGC_PARSE, 0, OWED_TO_CLIENT,
				  MARK_REFUSED)
		       ? VERDICT_SWALLOW
		       : VERDICT_NO_MEMORY;
}

/* Looks at a message within a transaction on a standby. VERDICT_LATER: the client has left the
   standby. */
static enum verdict look_within(struct client *c, struct server *s, const struct pg_frame *f,
				struct gather *g)
{
	struct request_text text;
	const char *tag;

	if (!prepared_request_text(c, f, &text) &&
	    f->type != PGC_CALL)
		return VERDICT_PASS;
	if (!pg_frame_is_whole(f) && f->here < SEARCHED_MOST)
		return VERDICT_MORE;
	tag = f->type == PGC_QUERY ? end_of_transaction(text.at, text.size, true) : NULL;
	if (tag && (s->status == 'T' || *tag == 'R') && leave(c, s))
		return VERDICT_LATER;
	/* an aborted transaction executes nothing */
	if (s->status == 'T' && (text.at ? read_transaction_affects_standby(text.at, text.size) ||
						   may_pin(c, text.at, text.size) :
					   f->type == PGC_CALL))
		return refuse(s, f->type, g);
	return VERDICT_PASS;
}

enum verdict reads_tell_refused(struct client *c)
{
	struct bytes out = BYTES_EMPTY;
	bool failed;

	pg_build_report(&out, PGS_ERROR, "ERROR", "25001",
			"this statement belongs on the primary, but its read-only transaction runs "
			"on a standby",
			"Locks, settings and statistics of a standby are not those of the primary.",
			"Begin the transaction with this statement, or write " READ_HINT
			" in front of BEGIN.");
	failed = out.failed;
	/* a write error is found with the next write */
	if (!failed)
		stream_write_bytes(&c->peer.stream, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	return failed ? VERDICT_INVALID : VERDICT_SWALLOW;
}

/* Gathers the BEGIN of an aborted transaction, with a statement that fails. False: no memory. */
static bool gather_failed_begin(const struct client *c, struct gather *g)
{
	struct bytes message = BYTES_EMPTY;
	size_t mark = pg_begin(&message, PGC_QUERY);
	bool has_memory;

	/* the text may end with a comment */
	bytes_append_text(&message, (const char *)c->begin + PG_HEADER);
	bytes_append_string(&message, "\n; ROLLBACK TO \"canceled by pgweir's client\"");
	pg_end(&message, mark);
	has_memory = !message.failed;
	if (has_memory)
		gather_copy(g, bytes_front(&message), bytes_size(&message));
	bytes_free(&message);
	return has_memory;
}

/* Gathers the BEGIN that was held back. */
static enum verdict send_begin(struct client *c, struct server *s, struct gather *g)
{
	g->to = &s->peer.stream;
	if (!(c->reads & READING_FAILED))
		gather_copy(g, c->begin, 1 + pg_u32_at(c->begin + 1));
	else if (!gather_failed_begin(c, g))
		return VERDICT_NO_MEMORY;
	c->reads = (uint8_t)((c->reads & ~READING_BEGIN) | READING_SENT);
	/* the Query ends the unnamed statement */
	s->unnamed_of = 0;
	return ledger_sent_marked(&s->ledger, PGC_QUERY, 0, OWED_TO_POOLER, MARK_BEGIN)
		       ? VERDICT_PASS
		       : VERDICT_NO_MEMORY;
}

enum verdict reads_before(struct client *c, struct server *s, const struct pg_frame *f,
			  struct gather *g)
{
	const struct host *host = s->pooled.host;
	enum verdict verdict;

	/* then the end of the transaction counts as a write: pool_client_note_end() */
	if (c->reads & READING_HERE && host && host->evidence.claim != CLAIM_STANDBY &&
	    may_write(c, f))
		c->pooled.target = TARGET_PRIMARY;
	if (c->reads & READING_HERE && !ledger_is_empty(&s->ledger) && !s->ledger.open) {
		bool is_of_copy = pg_client_messages[f->type].phases & PG_COPY;

		/* data of a COPY, and a Sync or Flush among it, is no next request */
		return is_of_copy && ledger_may_copy(&s->ledger) ? VERDICT_PASS : VERDICT_WAIT;
	}
	if (c->reads & READING_HERE && s->status != 'I' && host &&
	    host->evidence.claim != CLAIM_PRIMARY) {
		verdict = look_within(c, s, f, g);
		if (verdict != VERDICT_PASS)
			return verdict;
	}
	if (c->reads & READING_NEXT) {
		c->reads = (uint8_t)((c->reads & ~(READING_NEXT | READING_STANDBY)) | READING_HERE);
		if (s->pooled.host && s->pooled.host->evidence.claim == CLAIM_STANDBY)
			c->reads |= READING_STANDBY;
	}
	return c->reads & READING_BEGIN ? send_begin(c, s, g) : VERDICT_PASS;
}

void reads_failed(struct client *c)
{
	c->reads = (uint8_t)((c->reads & ~(READING_HERE | READING_NEXT)) | READING_PRIMARY);
}
