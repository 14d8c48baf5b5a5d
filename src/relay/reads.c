/*
 * Read-only transactions on standbys (setting reads = transaction).
 *
 * The client has said that it only reads: by BEGIN or START TRANSACTION READ ONLY, or because default_transaction_read_only is on in its session. The
 * first request of such a transaction decides where the transaction runs: on a host that is fresh enough for the client (TARGET_READ), if all of its texts
 * are statements for standbys (pg/read_transaction.h), otherwise on the primary.
 *
 * A BEGIN without other messages is answered at once and held back until the first request, so that both go to the same server. Its answer there is dropped. A
 * transaction that ends before its first request needs no server. If the first request fails on a standby, for whatever reason, while the client has no
 * part of its answer, the primary gets BEGIN and the request, and the answer of the primary counts: see retry.c.
 *
 * While a transaction of the client runs by this rule (READING_HERE), the server gets one request at a time: the request after
 * the end of the transaction may be a write, which must not go to the same server.
 *
 * Invariant: READING_BEGIN only without a server, or before the first request has been sent; the client was told that a transaction is open.
 */
#include "relay/reads.h"

#include "base/mem.h"
#include "conn/retry.h"
#include "pg/build.h"
#include "pg/read_transaction.h"
#include "pg/sql_lex.h"
#include "pool/host.h"
#include "prepared/statements.h"
#include "relay/link.h"

#include <string.h>

#define BEGIN_MOST 512			/* bytes of a BEGIN that is held back */

/* ---- texts ---- */

/* Returns the tag of COMMIT, END, ROLLBACK or ABORT as the only statement of the text, or NULL. */
static const char *end_of_transaction(const uint8_t *text, size_t size)
{
	struct sql_lexer l = lex_begin(text, size);
	struct lex_token t = lex_next(&l);
	bool commits = lex_is(&t, "commit") || lex_is(&t, "end");

	if (!commits && !lex_is(&t, "rollback") && !lex_is(&t, "abort"))
		return NULL;
	t = lex_next(&l);
	if (lex_is(&t, "work") || lex_is(&t, "transaction"))
		t = lex_next(&l);
	while (lex_is_mark(&t, ';'))
		t = lex_next(&l);
	return t.kind != LEX_END || l.is_cut || l.is_uncertain ? NULL : commits ? "COMMIT" : "ROLLBACK";
}

/* A read-only transaction begins, by the text or by the session. */
static bool begins(const struct client *c, const uint8_t *text, size_t size)
{
	enum read_begin kind = read_transaction_begin(text, size);

	return kind == READ_BEGIN_ONLY || (kind == READ_BEGIN_PLAIN && c->reads & READING_SESSION);
}

/* Whether the statement that a Bind names is for standbys. `is_parsed`: the batch has parsed the unnamed statement. */
static bool bound_suits(const struct client *c, const struct pg_frame *f, bool is_parsed)
{
	struct pg_cursor body = pg_cursor_of(f->body, f->size);
	const char *name = (pg_read_string(&body), pg_read_string(&body));
	const struct prepared_client *pc = c->prepared;
	const struct prepared_name *n;

	if (body.bad || is_parsed)
		return !body.bad;
	if (!pc)
		return false;
	if (!*name)
		return pc->has_text && read_transaction_suits_standby(bytes_front(&pc->text), bytes_size(&pc->text));
	n = name_find(pc, name, strlen(name) + 1);
	return n && n->sent && read_transaction_suits_standby(n->sent->body, n->sent->size);
}

/* Whether all statements of the batch at the front of n bytes are for standbys. The batch must be complete; its first statement may begin the
   transaction. */
static bool batch_suits(const struct client *c, const uint8_t *at, size_t n)
{
	bool has_begun = c->reads & (READING_BEGIN | READING_SESSION), may_begin = !(c->reads & READING_BEGIN), has_statement = false, is_parsed = false;
	const uint8_t *text;
	struct pg_frame f;

	for (; pg_frame_look(at, n, READ_BUFFER, &f) == PG_OK && pg_frame_is_whole(&f); at += PG_HEADER + f.size, n -= PG_HEADER + f.size) {
		switch (f.type) {
		case PGC_PARSE:
			text = f.size > 0 ? memchr(f.body, 0, f.size) : NULL;
			if (!text)
				return false;
			text++;
			is_parsed = true;
			if (may_begin && begins(c, text, f.size - (size_t)(text - f.body)))
				has_begun = true;
			else if (!has_begun || !read_transaction_suits_standby(text, f.size - (size_t)(text - f.body)))
				return false;
			else
				has_statement = true;
			may_begin = false;
			break;
		case PGC_BIND:
			if (!has_begun || !bound_suits(c, &f, is_parsed))
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
	c->reads |= READING_BEGIN;
	return answer(c, lex_is(&t, "start") ? "START TRANSACTION" : "BEGIN", 'T');
}

static void decide(struct client *c, bool is_read)
{
	c->reads &= (uint8_t)~(READING_NEXT | READING_PRIMARY | READING_SENT);
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
	if (c->reads & READING_PRIMARY || !c->retry || !link_will_share(c) || c->pooled.pool->allowed.mode != MODE_TRANSACTION) {
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
		decide(c, batch_suits(c, at, n));
		return VERDICT_PASS;
	}
	if (!(c->reads & READING_BEGIN) && f.size <= BEGIN_MOST && begins(c, f.body, f.size)) {
		*used = PG_HEADER + f.size;
		return hold_begin(c, at, *used);
	}
	tag = c->reads & READING_BEGIN ? end_of_transaction(f.body, f.size) : NULL;
	if (tag) {
		c->reads &= (uint8_t)~READING_BEGIN;
		*used = PG_HEADER + f.size;
		return answer(c, tag, 'I');
	}
	decide(c, c->reads & (READING_BEGIN | READING_SESSION) && read_transaction_begin(f.body, f.size) == READ_BEGIN_NOT &&
		  read_transaction_suits_standby(f.body, f.size));
	return VERDICT_PASS;
}

/* Whether the message, which follows in a transaction on the primary, may end the transaction and write. */
static bool may_write(const struct client *c, const struct pg_frame *f)
{
	const uint8_t *text = f->body;

	if (!pg_frame_is_whole(f))
		return true;
	switch (f->type) {
	case PGC_PARSE:
		text = f->size > 0 ? memchr(f->body, 0, f->size) : NULL;
		if (!text++)
			return true;
		break;
	case PGC_QUERY:
		break;
	case PGC_BIND:
		return !bound_suits(c, f, false);
	default:
		return f->type == PGC_CALL;
	}
	return !read_transaction_suits_standby(text, f->size - (size_t)(text - f->body)) && !end_of_transaction(text, f->size - (size_t)(text - f->body));
}

enum verdict reads_before(struct client *c, struct server *s, const struct pg_frame *f, struct gather *g)
{
	/* then the end of the transaction counts as a write: pool_client_note_end() */
	if (c->reads & READING_HERE && s->pooled.host && s->pooled.host->evidence.claim != CLAIM_STANDBY && may_write(c, f))
		c->pooled.target = TARGET_PRIMARY;
	if (c->reads & READING_HERE && !ledger_is_empty(&s->ledger) && !s->ledger.open)
		return VERDICT_WAIT;
	if (c->reads & READING_NEXT) {
		c->reads = (uint8_t)((c->reads & ~(READING_NEXT | READING_STANDBY)) | READING_HERE);
		if (s->pooled.host && s->pooled.host->evidence.claim == CLAIM_STANDBY)
			c->reads |= READING_STANDBY;
	}
	if (!(c->reads & READING_BEGIN))
		return VERDICT_PASS;
	g->to = &s->peer.stream;
	gather_copy(g, c->begin, 1 + pg_u32_at(c->begin + 1));
	c->reads = (uint8_t)((c->reads & ~READING_BEGIN) | READING_SENT);
	/* the Query ends the unnamed statement */
	s->unnamed_of = 0;
	return ledger_sent_marked(&s->ledger, PGC_QUERY, 0, OWED_TO_POOLER, MARK_BEGIN) ? VERDICT_PASS : VERDICT_NO_MEMORY;
}

void reads_failed(struct client *c)
{
	c->reads = (uint8_t)((c->reads & ~(READING_HERE | READING_NEXT)) | READING_PRIMARY);
}
