/*
 * The unnamed statement.
 *
 * The unnamed statement is told apart by the client that used it last: on the server where it was this client its messages go on as
 * they are, to any other one its Bind goes behind a Parse of its last text, which is kept for that. Where there is none, or it was
 * longer than the read buffer, the server's is closed first, and the client hears that it has none.
 */
#include "prepared/prepared_sending.h"

#include "backend/role.h"

bool unnamed_is_at_hand(const struct client *c, const struct server *s)
{
	return s->unnamed_of == c->peer.id && s->prepared->unnamed_number == c->prepared->number;
}

/* What is sent now makes the server's unnamed statement this client's, unless it is skipped. */
static void take_hold(struct client *c, struct server *s, bool had)
{
	struct prepared_server *has = s->prepared;

	if (has->unnamed_in_flight++ == 0)
		has->unnamed_sure = had;
	has->unnamed_batch = s->batch;
	s->unnamed_of = c->peer.id;
	has->unnamed_number = c->prepared->number;
}

static bool unnamed_changes(struct client *c, struct server *s, bool kept)
{
	bool had = unnamed_is_at_hand(c, s);

	if (!unnamed_sent(c->prepared, s->prepared, OP_UNNAMED, kept, s->batch))
		return false;
	take_hold(c, s, had);
	return true;
}

/* A Query that fails before it begins leaves what is there, be it another client's, and, unlike a Parse, does not make the server skip
   what follows: so what is there belongs to no client at once. */
static bool query_ends_unnamed(struct client *c, struct server *s)
{
	s->unnamed_of = 0;
	return unnamed_sent(c->prepared, s->prepared, OP_UNNAMED_QUERY, false, s->batch);
}

/* A Parse with a text that is not kept, or a Close. */
static enum prepared_verdict send_unnamed_change(const struct sending *x)
{
	return unnamed_changes(x->c, x->s, false) && ledger_sent_marked(&x->s->ledger, x->f->type, PG_OF_STATEMENT, OWED_TO_CLIENT, MARK_PREPARED) ?
		PREPARED_PASS : PREPARED_NO_MEMORY;
}

static enum prepared_verdict send_unnamed_parse(const struct sending *x)
{
	const struct pg_frame *f = x->f;

	if (f->size + PG_HEADER > READ_BUFFER) {
		role_parse_sent(x->s, f->body + 1, f->here - 1);
		return send_unnamed_change(x);
	}
	if (!pg_frame_is_whole(f))
		return PREPARED_MORE;
	return prepared_send_unnamed_parse(x->c, x->s, f->body + 1, f->size - 1) ? PREPARED_PASS : PREPARED_NO_MEMORY;
}

static bool replay_unnamed(const struct sending *x)
{
	struct prepared_client *mine = x->mine;
	size_t size = bytes_size(&mine->text);
	uint8_t *head = gather_place(x->g, PG_HEADER + 1);

	sending_write_header(head, PGC_PARSE, 1 + size);
	head[PG_HEADER] = 0;
	gather_add(x->g, bytes_front(&mine->text), size);
	role_parse_sent(x->s, bytes_front(&mine->text), size);
	gather_flush(x->g);		/* the text may be another one before the walk ends */
	take_hold(x->c, x->s, false);
	return sending_entered(x, PGC_PARSE, OWED_TO_POOLER, OP_UNNAMED_REPLAY, NULL, NULL);
}

/* There is none, or it is not known: the server shall say that there is none. */
static bool close_unnamed(const struct sending *x)
{
	static const uint8_t message[] = { PGC_CLOSE, 0, 0, 0, 6, PG_OF_STATEMENT, 0 };

	x->s->unnamed_of = 0;
	gather_copy(x->g, message, sizeof(message));
	return ledger_sent(&x->s->ledger, PGC_CLOSE, PG_OF_STATEMENT, OWED_TO_POOLER);
}

enum prepared_verdict unnamed_send(const struct sending *x)
{
	struct prepared_client *mine = x->mine;

	if (x->f->type == PGC_PARSE)
		return send_unnamed_parse(x);
	if (x->f->type == PGC_CLOSE)
		return send_unnamed_change(x);
	if (x->has->unnamed_in_flight > 0 && !x->has->unnamed_sure && x->has->unnamed_batch != x->s->batch)
		return PREPARED_WAIT;
	if (unnamed_is_at_hand(x->c, x->s))
		return sending_unchanged(x);
	if (mine->in_flight > 0 && mine->batch != x->s->batch)
		return PREPARED_WAIT;
	return (mine->kept ? replay_unnamed(x) : close_unnamed(x)) ? sending_unchanged(x) : PREPARED_NO_MEMORY;
}

bool prepared_send_query(struct client *c, struct server *s)
{
	/* behind an error of its batch the Query would be skipped, and end nothing; and changes before it may be */
	if (c->shares_names && c->prepared && s->prepared && (s->ledger.open || c->prepared->in_flight > 0) && ledger_enters(&s->ledger))
		return query_ends_unnamed(c, s) && ledger_sent_marked(&s->ledger, PGC_QUERY, 0, OWED_TO_CLIENT, MARK_PREPARED);
	if (!s->ledger.skipping) {
		s->unnamed_of = 0;
		if (c->prepared)
			c->prepared->kept = c->prepared->certain_kept = false;
	}
	return ledger_sent_query(&s->ledger);
}

bool prepared_send_unnamed_parse(struct client *c, struct server *s, const uint8_t *text, size_t size)
{
	if (!prepared_client_of(c) || !prepared_server_of(s) || !unnamed_changes(c, s, true))
		return false;
	role_parse_sent(s, text, size);
	bytes_append(&c->prepared->text, text, size);
	return !c->prepared->text.failed &&
	       (ledger_sent_plain_marked(&s->ledger, PGC_PARSE) || ledger_sent_marked(&s->ledger, PGC_PARSE, 0, OWED_TO_CLIENT, MARK_PREPARED));
}

bool prepared_has_unnamed(const struct client *c, const struct server *s)
{
	const struct prepared_server *has = s->prepared;

	return has && c->prepared && unnamed_is_at_hand(c, s) && (has->unnamed_in_flight == 0 || has->unnamed_sure || has->unnamed_batch == s->batch);
}
