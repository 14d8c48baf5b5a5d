/*
 * Prepared statements in a handover. They are shared, so each statement is sent once, before the first connection that uses it;
 * the records of connections refer to it by its number.
 *
 * Invariant: a table of known statements holds a reference to each statement, and each number is in it once.
 */
#include "handover/handover_parts.h"

#include "base/hash.h"
#include "prepared/prepared_tables.h"

struct known_statement {
	UT_hash_handle hh;
	uint64_t number;
	struct statement *statement;
};

/* False: no memory. */
static bool remember(struct known_statement **table, struct statement *st)
{
	struct known_statement *known = mem_try(sizeof(*known));

	if (!known)
		return false;
	known->number = st->number;
	HASH_ADD(hh, *table, number, sizeof(known->number), known);
	if (!HASH_HAS(hh, known)) {
		mem_free(known);
		return false;
	}
	known->statement = statement_hold(st);
	return true;
}

void known_statements_free(struct statements *all, struct known_statement **table)
{
	struct known_statement *known, *next;

	HASH_ITER(hh, *table, known, next) {
		HASH_DEL(*table, known);
		statement_drop(all, &known->statement);
		mem_free(known);
	}
}

static bool statement_send(struct sender *s, struct statement *st)
{
	struct known_statement *known;
	struct bytes out = BYTES_EMPTY;
	bool sent;

	if (!st)
		return true;
	HASH_FIND(hh, s->sent, &st->number, sizeof(st->number), known);
	if (known)
		return true;
	if (!remember(&s->sent, st))
		return false;
	statement_pack(&out, s->world->params, st);
	sent = records_send(s->to, HANDOVER_STATEMENT, &out, -1, s->patience);
	bytes_free(&out);
	return sent;
}

void known_statement_unpack(struct unpack *in, struct handover *h)
{
	struct world *w = h->world;
	struct statement *st = statement_unpack(in, w->params, w->statements);
	struct known_statement *known = NULL;

	in->bad |= !st;
	if (!st)
		return;
	HASH_FIND(hh, h->statements, &st->number, sizeof(st->number), known);
	in->bad |= known != NULL;
	if (!known)
		in->bad |= !remember(&h->statements, st);
	statement_drop(w->statements, &st);
}

struct statement *known_statement(struct unpack *in, const struct handover *h)
{
	uint64_t number = unpack_u64(in);
	struct known_statement *known = NULL;

	if (number == 0)
		return NULL;
	HASH_FIND(hh, h->statements, &number, sizeof(number), known);
	in->bad |= !known;
	return known ? known->statement : NULL;
}

bool statements_of_server_send(struct sender *s, const struct server *server)
{
	const struct prepared_server *has = server->prepared;

	for (const struct prepared_entry *e = has ? has->set : NULL; e; e = e->hh.next)
		if (!statement_send(s, e->statement))
			return false;
	for (uint32_t i = 0; has && i < has->op_count; i++) {
		const struct prepared_op *op = op_at(has, i);

		if (!statement_send(s, op->statement))
			return false;
		if (op->name && !(statement_send(s, op->name->sent) && statement_send(s, op->name->certain)))
			return false;
	}
	return true;
}

bool statements_of_client_send(struct sender *s, const struct client *c)
{
	for (const struct prepared_name *n = c->prepared ? c->prepared->names : NULL; n; n = n->hh.next)
		if (!statement_send(s, n->sent) || !statement_send(s, n->certain) || !statement_send(s, n->first))
			return false;
	return true;
}
