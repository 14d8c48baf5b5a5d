/*
 * Prepared statements of the protocol where a server is lent for a transaction ("Extended Query" in the PostgreSQL
 * documentation): what becomes of a Parse, Bind, Describe and Close on the way to the server. prepared_named.c and
 * prepared_unnamed.c have the two kinds of statements, prepared_sending.c what goes out, prepared_answers.c the meaning of the answers,
 * prepared_tables.c the tables.
 *
 * A client's name stands for a statement (pg/statement.h), and each server knows the statement by a name of its own. So
 *
 *  - a Bind or Describe gets that name in place of the client's: some bytes in front of the rest of the frame,
 *    which goes on as it lies; where the server does not have the statement, a Parse of the pooler's goes first;
 *  - a Parse goes on under the statement's name, or, where the server has the statement, is answered by the pooler;
 *  - a Close is answered by the pooler: the server keeps the statement, for others, until it is the least recently used of
 *    more than max_prepared_statements;
 *  - a name that the client has not prepared is one that the server does not have either, so the server itself says what is
 *    wrong, in its turn;
 *  - a message with names that are too long is replaced by one that the server refuses, and the client gets an error of the pooler's
 *    in place of the server's.
 *
 * The answers that the pooler gives are local replies in the ledger: they come in their place, and do not come when an error skips them.
 *
 * A text is read under the parameters of the session, and belongs to a statement that clients with the same parameters share. Behind
 * something that may have changed them, of which the end has not been heard, a Parse makes a statement of its own; one that the pooler
 * puts in front there is unsure (enum reading) until the server has been heard.
 *
 * What cannot be known before an answer comes is waited for: a name or statement with a Parse or Close in doubt, in a batch
 * before this one. Within a batch nothing has to be waited for, because the error that would make it wrong would skip it too. But behind
 * something that may be DEALLOCATE ALL or DISCARD ALL each message with a name waits until all is answered, within a batch, too. What was
 * sent is waited for where the pooler's own Parses have made it much more than came.
 */
#include "prepared/prepared_sending.h"

#define NAMES_MOST 4096		/* bytes in which the names of a message have to end; a server cuts them after 63 */

bool prepared_lacks(const struct pg_frame *f)
{
	struct statement_use use;

	if (pg_frame_is_whole(f))
		return false;
	if (f->type == PGC_PARSE)
		return f->size + PG_HEADER <= READ_BUFFER;
	if (f->type != PGC_BIND && f->type != PGC_DESCRIBE && f->type != PGC_CLOSE)
		return false;
	return f->here < NAMES_MOST && statement_use_read(f->type, f->body, f->here, f->size, &use) == PG_MORE;
}

/* The last Parse with a name that went into the doubt, in this batch, has this one. */
static bool is_doubted(const struct sending *x, const struct statement_use *use)
{
	const struct prepared_name *n = x->mine->doubted_name;

	return n && x->mine->named_on == x->s->peer.id && n->batch == x->s->batch && name_is_same(n, use->name);
}

/* A use of a statement that means another client's, if the server acts upon it: it is neither this client's, nor does a Parse
   stand in front of it in its batch, which either makes it so or has the server skip the rest. */
static bool is_for_another(const struct sending *x, const struct statement_use *use)
{
	if (x->f->type != PGC_BIND && x->f->type != PGC_DESCRIBE)
		return false;
	if (use->name_size > 1)
		return !is_doubted(x, use) && (name_find(x->mine, use->name, use->name_size) || !named_may_be_of_sql(x, use));
	return !unnamed_is_at_hand(x->c, x->s) && (x->mine->doubted_on != x->s->peer.id || x->mine->doubted_batch != x->s->batch);
}

/* A Parse or Close with a name goes into the doubt: what the client has by that name is not known any more. */
static bool named_into_doubt(const struct sending *x, const struct statement_use *use)
{
	struct prepared_name *n = name_find(x->mine, use->name, use->name_size);

	if (n)
		name_forgotten(sending_world(x), x->mine, n);
	name_drop(sending_world(x), &x->mine->doubted_name);
	if (x->f->type == PGC_CLOSE)
		return true;
	n = name_new(NULL, use->name, use->name_size);
	if (!n)
		return false;
	n->batch = x->s->batch;
	x->mine->doubted_name = n;
	x->mine->named_on = x->s->peer.id;
	return true;
}

/* A message that a COPY may read, or, when that has failed before, the server may act upon: what the client has after it is not known. */
static enum prepared_verdict send_into_doubt(const struct sending *x, const struct statement_use *use)
{
	enum prepared_verdict verdict = sending_unchanged(x);

	if (is_for_another(x, use))
		sending_renamed(x, use, STATEMENT_NOWHERE, sizeof(STATEMENT_NOWHERE));
	if (!x->s->ledger.lost || (x->f->type != PGC_PARSE && x->f->type != PGC_CLOSE))
		return verdict;
	if (use->name_size == 1) {
		unnamed_forgotten(x->mine);
		x->mine->doubted_on = x->f->type == PGC_PARSE ? x->s->peer.id : 0;
		x->mine->doubted_batch = x->s->batch;
		return verdict;
	}
	return named_into_doubt(x, use) ? verdict : PREPARED_NO_MEMORY;
}

/* A Describe of a statement that no server has goes in place of the message; its error becomes the one of a name that is too long. */
static enum prepared_verdict refuse_name(const struct sending *x)
{
	bool is_marked = ledger_enters(&x->s->ledger);

	sending_head(x, PGC_DESCRIBE, STATEMENT_NOWHERE, sizeof(STATEMENT_NOWHERE), 0);
	if (is_marked && !op_push(x->has, OP_TOO_LONG, NULL, NULL))
		return PREPARED_NO_MEMORY;
	return ledger_sent_marked(&x->s->ledger, PGC_DESCRIBE, PG_OF_STATEMENT, OWED_TO_CLIENT, is_marked ? MARK_PREPARED : LEDGER_UNMARKED) ?
		PREPARED_SWALLOW : PREPARED_NO_MEMORY;
}

enum prepared_verdict prepared_send(struct client *c, struct server *s, const struct pg_frame *f, struct gather *g, size_t *skip)
{
	struct sending x = { c, s, f, g, skip, prepared_client_of(c), prepared_server_of(s) };
	struct statement_use use;

	if (!x.mine || !x.has)
		return PREPARED_NO_MEMORY;
	/* what the server passes over it may have as it is */
	if (s->ledger.skipping && !ledger_may_surprise(&s->ledger))
		return sending_unchanged(&x);
	if ((f->type == PGC_DESCRIBE || f->type == PGC_CLOSE) && f->body[0] != PG_OF_STATEMENT)
		return sending_unchanged(&x);
	g->to = &s->peer.stream;
	switch (statement_use_read(f->type, f->body, f->here, f->size, &use)) {
	case PG_MORE:
		return f->here < NAMES_MOST ? PREPARED_MORE : refuse_name(&x);
	case PG_BAD:
		return f->size > NAMES_MOST ? refuse_name(&x) : sending_unchanged(&x);
	case PG_OK:
		break;
	}
	/* also where they are all here: what a message means does not hang on how much of it one read brings */
	if ((size_t)((const uint8_t *)use.name - f->body) + use.name_size > NAMES_MOST)
		return refuse_name(&x);
	if (!ledger_enters(&s->ledger))
		return send_into_doubt(&x, &use);
	/* it has reported what there was to report */
	if (x.has->unsure && ledger_is_empty(&s->ledger))
		readings_are(x.has, READING_OWN);
	if (use.name_size == 1)
		return unnamed_send(&x);
	if (sending_world(&x)->conf->settings.max_prepared_statements == 0 && !x.mine->names)
		return f->type == PGC_PARSE ? sending_not_kept(&x, &use) : sending_unchanged(&x);
	if (sending_names_may_go(&x))
		return sending_wait_for_answers(&x);
	switch (f->type) {
	case PGC_PARSE: return named_parse(&x, &use);
	case PGC_CLOSE: return named_close(&x, &use);
	default: return named_use(&x, &use);
	}
}
