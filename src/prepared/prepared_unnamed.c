/*
 * The unnamed statement.
 *
 * The unnamed statement is told apart by the client that used it last: on the server where it was this client its messages go on as
 * they are, to any other one its Bind goes behind a Parse of its last text, which is kept for that. Where there is none, or it was
 * longer than the read buffer, the server's is closed first, and the client hears that it has none.
 */
#include "prepared/prepared_sending.h"

#include "base/inline.h"
#include "state/server_session.h"
#include "state/session_state.h"

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
	c->prepared->meaning.at = c->peer.world->meanings;
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

/* To be called when it is sent: of its text, behind the name, the first `size` bytes are here. */
static NEVER_INLINE void note_unnamed_text(struct prepared_client *mine, struct server *s, const uint8_t *text, size_t size)
{
	role_parse_sent(s, text, size);
	if (statement_sql_may_be_parsed(text, size))
		mine->unnamed_deallocates |= UNNAMED_SENT;
}

#define LETTER(c) (1u << ((c) - 'a'))

/* True: note_unnamed_text would note nothing. By its first letter nearly every text is neither SET, RESET, DEALLOCATE, DISCARD, EXECUTE,
   EXPLAIN nor CREATE. */
static ALWAYS_INLINE bool surely_says_nothing(const uint8_t *text, size_t size)
{
	unsigned first = size > 3 ? (text[0] | 0x20u) - 'a' : UINT8_MAX;

	if (first <= 'z' - 'a' && !((LETTER('c') | LETTER('d') | LETTER('e') | LETTER('r') | LETTER('s')) >> first & 1))
		return true;
	return first == 's' - 'a' && role_begins(text, "sel");
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
	enum prepared_verdict verdict;

	if (f->size + PG_HEADER > READ_BUFFER) {
		verdict = send_unnamed_change(x);
		note_unnamed_text(x->mine, x->s, f->body + 1, f->here - 1);
		return verdict;
	}
	if (!pg_frame_is_whole(f))
		return PREPARED_MORE;
	return prepared_send_unnamed_parse(x->c, x->s, f->body + 1, f->size - 1) ? PREPARED_PASS : PREPARED_NO_MEMORY;
}

static bool replay_unnamed(const struct sending *x, const struct sql_plan *plan)
{
	struct prepared_client *mine = x->mine;
	size_t size = bytes_size(&mine->text);
	uint8_t *head = gather_place(x->g, PG_HEADER + 1);

	sending_write_header(head, PGC_PARSE, 1 + size + (plan ? sql_growth(x, plan) : 0));
	head[PG_HEADER] = 0;
	if (plan)
		sql_add(x, plan, bytes_front(&mine->text), size);
	else
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

/* Its text may name statements of the client's, which may be others by now: then it is parsed again, unless it is the last SQL that was sent.
   PREPARED_PASS: what is there, or will be, is right. */
static NEVER_INLINE enum prepared_verdict use_sql(const struct sending *x)
{
	struct prepared_client *mine = x->mine;
	struct sql_plan plan;
	enum prepared_verdict verdict;

	if (!mine->kept || !mine->names || (sql_is_ready(x, 0) && mine->sql->number == mine->number))
		return PREPARED_PASS;
	verdict = sql_plan(x, &plan, bytes_front(&mine->text), bytes_size(&mine->text), false);
	if ((verdict != PREPARED_PASS && verdict != PREPARED_MORE) || plan.count == 0)
		return verdict == PREPARED_MORE ? PREPARED_PASS : verdict;
	mine->sql->number = mine->number;
	return replay_unnamed(x, verdict == PREPARED_PASS ? &plan : NULL) ? PREPARED_PASS : PREPARED_NO_MEMORY;
}

/* A Parse with a text that names statements of the client's. PREPARED_MORE: it does not. */
static NEVER_INLINE enum prepared_verdict parse_sql(const struct sending *x)
{
	struct prepared_client *mine = x->mine;
	const uint8_t *text = x->f->body + 1;
	size_t size = x->f->size - 1;
	struct sql_plan plan;
	enum prepared_verdict verdict = sql_plan(x, &plan, text, size, false);
	uint8_t *head;

	if (verdict == PREPARED_MORE && plan.count > 0)
		mine->sql->number = mine->number + 1;
	if (verdict != PREPARED_PASS)
		return verdict;
	head = gather_place(x->g, PG_HEADER + 1);
	sending_write_header(head, PGC_PARSE, x->f->size + sql_growth(x, &plan));
	head[PG_HEADER] = 0;
	sql_add(x, &plan, text, size);
	if (!prepared_send_unnamed_parse(x->c, x->s, text, size))
		return PREPARED_NO_MEMORY;
	mine->unnamed_deallocates |= UNNAMED_SENT;
	mine->sql->number = mine->number;
	return PREPARED_SWALLOW;
}

/* The text, on this server, may have other types than the client was told, or, where the client was not told, than it had where it was parsed. */
static bool may_differ(const struct sending *x)
{
	const struct unnamed_meaning *m = &x->mine->meaning;
	bool in_doubt = m->doubted || m->at != sending_world(x)->meanings || x->s->session.meaning_in_doubt || session_state_is_private(x->s, x->c);

	return m->differs || (m->told == 0 && in_doubt);
}

/* It is parsed and described before it is used, because an execution with other types cannot be undone. */
static enum prepared_verdict describe_first(const struct sending *x)
{
	static const uint8_t message[] = { PGC_DESCRIBE, 0, 0, 0, 6, PG_OF_STATEMENT, 0, PGC_FLUSH, 0, 0, 0, 4 };

	if (!replay_unnamed(x, NULL))
		return PREPARED_NO_MEMORY;
	gather_copy(x->g, message, sizeof(message));
	/* not at hand before the answer */
	x->s->unnamed_of = 0;
	x->has->unnamed_described = true;
	if (!op_push(x->has, OP_DESCRIBE, NULL, NULL) ||
	    !ledger_sent_marked(&x->s->ledger, PGC_DESCRIBE, PG_OF_STATEMENT, OWED_TO_POOLER, MARK_PREPARED))
		return PREPARED_NO_MEMORY;
	return PREPARED_WAIT;
}

/* A Bind or Describe of what another server has, or another client has replaced on this one. */
static NEVER_INLINE enum prepared_verdict use_elsewhere(const struct sending *x)
{
	struct prepared_client *mine = x->mine;
	bool is_closed = !mine->kept;

	if (x->has->unnamed_described)
		return PREPARED_WAIT;
	if (!is_closed && may_differ(x))
		return sending_changed(x, NULL);
	if (sending_is_after_copy(x))
		return sending_wait_for_answers(x);
	if (!is_closed && mine->meaning.told)
		return describe_first(x);
	return (is_closed ? close_unnamed(x) : replay_unnamed(x, NULL)) ? PREPARED_PASS : PREPARED_NO_MEMORY;
}

/* The types in the answer to a Describe are noted. */
static enum prepared_verdict send_use(const struct sending *x)
{
	if (x->f->type != PGC_DESCRIBE)
		return sending_unchanged(x);
	return sending_entered(x, PGC_DESCRIBE, OWED_TO_CLIENT, OP_USE, NULL, NULL) ? PREPARED_PASS : PREPARED_NO_MEMORY;
}

/* A statement that was prepared before the transaction may call set_config in it. */
static void look_at_kept_text(const struct sending *x)
{
	struct server *s = x->s;

	if (x->mine->kept)
		prepared_look_for_settings(x->c, s, bytes_front(&x->mine->text), bytes_size(&x->mine->text));
	else
		s->session.meaning_in_doubt |= s->status != 'I' || !ledger_is_empty(&s->ledger);
}

enum prepared_verdict unnamed_send(const struct sending *x)
{
	struct prepared_client *mine = x->mine;
	enum prepared_verdict verdict;

	if (x->f->type == PGC_PARSE && mine->names && pg_frame_is_whole(x->f) && x->f->size + PG_HEADER <= READ_BUFFER &&
	    statement_sql_may_be_parsed(x->f->body + 1, x->f->size - 1)) {
		verdict = parse_sql(x);
		if (verdict != PREPARED_MORE)
			return verdict;
	}
	if (x->f->type == PGC_PARSE)
		return send_unnamed_parse(x);
	if (x->f->type == PGC_CLOSE)
		return send_unnamed_change(x);
	if (x->f->type == PGC_BIND)
		look_at_kept_text(x);
	if (mine->unnamed_deallocates) {
		mine->deallocates = true;
		verdict = use_sql(x);
		if (verdict != PREPARED_PASS)
			return verdict;
	}
	if (x->has->unnamed_in_flight > 0 && !x->has->unnamed_sure && x->has->unnamed_batch != x->s->batch)
		return PREPARED_WAIT;
	if (unnamed_is_at_hand(x->c, x->s))
		return send_use(x);
	if (mine->in_flight > 0 && mine->batch != x->s->batch)
		return PREPARED_WAIT;
	verdict = use_elsewhere(x);
	return verdict == PREPARED_PASS ? send_use(x) : verdict;
}

/* Of a client that has prepared something. */
static NEVER_INLINE bool send_query_of(struct client *c, struct server *s)
{
	struct prepared_client *mine = c->prepared;

	/* behind an error of its batch the Query would be skipped, and end nothing; and changes before it may be */
	if (c->shares_names && s->prepared && (s->ledger.open || mine->in_flight > 0) && ledger_enters(&s->ledger))
		return query_ends_unnamed(c, s) && ledger_sent_marked(&s->ledger, PGC_QUERY, 0, OWED_TO_CLIENT, MARK_PREPARED);
	if (!s->ledger.skipping) {
		s->unnamed_of = 0;
		mine->kept = mine->certain_kept = false;
		mine->number++;		/* an unnamed statement that another server has is not at hand any more */
	}
	return ledger_sent_query(&s->ledger);
}

bool prepared_send_query(struct client *c, struct server *s)
{
	if (c->prepared)
		return send_query_of(c, s);
	if (!s->ledger.skipping)
		s->unnamed_of = 0;
	return ledger_sent_query(&s->ledger);
}

bool prepared_send_unnamed_parse(struct client *c, struct server *s, const uint8_t *text, size_t size)
{
	struct prepared_client *mine = prepared_client_of(c);

	if (!mine || !prepared_server_of(s) || !unnamed_changes(c, s, true))
		return false;
	prepared_look_for_settings(c, s, text, size);
	if (!surely_says_nothing(text, size))
		note_unnamed_text(mine, s, text, size);
	bytes_append(&mine->text, text, size);
	return !mine->text.failed &&
	       (ledger_sent_plain_marked(&s->ledger, PGC_PARSE) || ledger_sent_marked(&s->ledger, PGC_PARSE, 0, OWED_TO_CLIENT, MARK_PREPARED));
}

bool prepared_has_unnamed(const struct client *c, const struct server *s)
{
	const struct prepared_server *has = s->prepared;

	return has && c->prepared && !c->prepared->unnamed_deallocates && unnamed_is_at_hand(c, s) &&
	       (has->unnamed_batch == s->batch || (s->status == 'I' && ledger_is_empty(&s->ledger))) &&
	       (has->unnamed_in_flight == 0 || has->unnamed_sure || has->unnamed_batch == s->batch);
}
