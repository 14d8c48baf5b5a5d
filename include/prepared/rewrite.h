#ifndef PREPARED_REWRITE_H
#define PREPARED_REWRITE_H

#include "prepared/statements.h"
#include "sql/sql_commands.h"
#include "state/session_state.h"

/*
 * Messages that pgweir sends to a server before, or in place of, a message of the client: see
 * rewrite.c.
 */

/* A message of a client, while prepared_send() handles it. */
struct prepared_request {
	struct client *c;
	struct server *s;
	const struct pg_frame *f;
	struct gather *g;
	size_t *skip;			/* see VERDICT_PASS */
	struct prepared_client *pc;
	struct prepared_server *ps;
};

static inline struct world *request_world(const struct prepared_request *r)
{
	return r->c->peer.world;
}
/* The counters of the client's database. */
static inline struct stats *request_stats(const struct prepared_request *r)
{
	return &r->c->pooled.pool->database->stats.total;
}
/* The place of the client's statements: see sql/statement.h. */
static inline uint64_t request_place(const struct prepared_request *r)
{
	struct database *d = r->c->pooled.pool->database;

	if (d->statements == 0)
		d->statements = statements_new_place(request_world(r)->statements);
	return d->statements;
}
/* Whether a text may have a meaning in this session that it has in no other session, for example
   because it uses temporary objects. */
static inline bool request_is_private(const struct prepared_request *r)
{
	return r->s->session.meaning_in_doubt ||
	       ((r->s->session.dirty | r->c->pooled.pins) & PIN_TEMPORARY);
}
/* Whether an earlier batch may be a failing COPY. Then only the server knows which answers belong
   to which batch, and the client gets all of them, so pgweir must not add messages. */
static inline bool request_is_after_copy(const struct prepared_request *r)
{
	return !ledger_is_one_batch(&r->s->ledger) && ledger_may_copy(&r->s->ledger);
}
/* Whether a change of the name in an earlier batch has no answer yet, so that the request waits.
   NULL: false. */
static inline bool request_name_in_doubt(const struct prepared_request *r,
					 const struct prepared_name *n)
{
	return n && n->in_flight > 0 && n->batch != r->s->batch;
}
static inline bool request_entry_in_doubt(const struct prepared_request *r,
					  const struct prepared_entry *e)
{
	return e && e->in_flight > 0 && e->batch != r->s->batch;
}
/* Writes the PG_HEADER bytes of a message with a body of `size` bytes. */
static inline void message_header(uint8_t *to, uint8_t type, size_t size)
{
	uint32_t length = (uint32_t)(PG_LENGTH_WORD + size);

	to[0] = type;
	to[1] = (uint8_t)(length >> 24);
	to[2] = (uint8_t)(length >> 16);
	to[3] = (uint8_t)(length >> 8);
	to[4] = (uint8_t)length;
}

/* ---- messages ---- */

/* Gathers a Close, a Describe, or the beginning of a Parse (the caller adds the remaining `more`
   bytes) of the server's statement with this end of its name. */
void request_insert(const struct prepared_request *r, uint8_t type, const char *end,
		    size_t end_size, size_t more);
/* Enters a message in the ledger with MARK_PREPARED, and in the journal. False: no memory. */
bool request_enter(const struct prepared_request *r, uint8_t type, enum ledger_owner owner,
		   enum op_kind kind, struct prepared_name *name, struct statement *statement);
/* Returns VERDICT_WAIT. Gathers a Flush, because the server may delay its answers until a Flush,
   and the client's Sync waits with this message. */
enum verdict request_wait(const struct prepared_request *r);

/* ---- statements ---- */

struct sql_plan;

/* Sends a Parse of the statement, as OP_PARSE for the client or OP_REPARSE for pgweir, after the
   Close messages that it needs. `plan`: of its text, or NULL. False: no memory. */
bool request_parse(const struct prepared_request *r, enum op_kind kind, struct prepared_name *name,
		   struct statement *statement, const struct sql_plan *plan);
/* Sends a Describe after that Parse. `is_internal`: as in struct prepared_op. False: no memory. */
bool request_describe(const struct prepared_request *r, struct prepared_name *name,
		      struct statement *statement, bool is_internal);
/* Sends a Describe of the unnamed statement, as OP_DESCRIBE or OP_LEARN. False: no memory. */
bool request_describe_unnamed(const struct prepared_request *r, enum op_kind kind);
/* Moves a name with an `original` back to that statement, if the client has its parameters again:
   SET LOCAL has ended, or SET was undone. */
void request_move_back(const struct prepared_request *r, struct prepared_name *name);
/* Returns a reference to the statement for a name, which has one, on this server, and moves the
   name to that statement. Drop with statement_drop(). NULL: no memory. */
struct statement *request_statement(const struct prepared_request *r, struct prepared_name *name);

/* ---- SQL that names statements ---- */

struct sql_plan {
	unsigned count;
	struct sql_name names[SQL_NAMES_MOST];
	/* replaces the body of the Parse (request_parse), unless empty */
	struct bytes filled;
};
/* Sends the messages before the text of a Query (`is_query`) or Parse. VERDICT_PASS: send the text
   by sql_write(); VERDICT_MORE: the text names no statement of the client and is sent unchanged;
   else VERDICT_WAIT or VERDICT_NO_MEMORY. */
enum verdict sql_plan(const struct prepared_request *r, struct sql_plan *plan, const uint8_t *text,
		      size_t size, bool is_query);
/* Gathers a Query, or a Parse of the unnamed statement, with the server's names. `body`, after the
   name, begins with the text of the plan. Plan NULL: unchanged. The caller keeps the body until the
   next flush. */
void sql_write(const struct prepared_request *r, uint8_t type, const struct sql_plan *plan,
	       const uint8_t *body, size_t size);

#endif
