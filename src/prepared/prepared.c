/*
 * Prepared statements of the protocol where a server is lent for a transaction ("Extended Query" in the PostgreSQL
 * documentation): what becomes of a Parse, Bind, Describe and Close on the way to the server. What their answers mean is in
 * prepared_answers.c, the tables are in prepared_tables.c.
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
 *  - a message whose names are too long is replaced by one that the server refuses, and the client gets an error of the pooler's
 *    in place of the server's.
 *
 * The answers the pooler gives are promises in the ledger: they come in their place, and do not come when an error skips them.
 *
 * The unnamed statement is told apart by who had to do with it last: on the server where it was this client its messages go on as
 * they are, to any other one its Bind goes behind a Parse of its last text, which is kept for that. Where there is none, or it was
 * longer than the read buffer, the server's is closed first, and the client hears that it has none.
 *
 * A text is read under the parameters of the session, and belongs to a statement that clients with the same parameters share. Behind
 * something that may have changed them, of which the end has not been heard, a Parse makes a statement of its own; one that the pooler
 * puts in front there is unsure (enum reading) until the server has been heard.
 *
 * What cannot be known before an answer comes is waited for: a name or statement whose Parse or Close is in doubt, in a batch
 * before this one. Within a batch nothing has to be waited for, because the error that would make it wrong would skip it too. What was
 * sent is waited for where the pooler's own Parses have made it much more than came.
 */
#include "prepared/prepared.h"

#include "backend/role.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/printable.h"
#include "conn/world.h"
#include "prepared/prepared_tables.h"

#include <string.h>

#define SENT_AT_ONCE (2 * READ_BUFFER)	/* bytes to a server, of one read from its client, behind which it has to take them first */
#define UNDER_WAY_MOST (1024 * 1024)	/* bytes of what the journal alone may keep, behind which answers have to come first */
#define NAMES_MOST 4096		/* bytes in which the names of a message have to end; a server cuts them after 63 */

/* A message on its way. */
struct sending {
	struct client *c;
	struct server *s;
	const struct pg_frame *f;
	struct gather *g;
	size_t *skip;
	struct prepared_client *mine;
	struct prepared_server *has;
};

static struct world *world_of(const struct sending *x)
{
	return x->c->peer.world;
}

/* Of its client's statements. */
static uint64_t place_of(const struct sending *x)
{
	struct database *d = x->c->policy.pool->database;

	if (d->statements == 0)
		d->statements = statements_new_place(world_of(x)->statements);
	return d->statements;
}

static struct stats *stats_of(const struct sending *x)
{
	return &x->c->policy.pool->database->stats.total;
}

/* ---- what goes out ---- */

static enum prepared_verdict passes(const struct sending *x)
{
	bool entered = ledger_sent(&x->s->ledger, x->f->type, x->f->here ? x->f->body[0] : 0, OWED_TO_CLIENT);

	return entered ? PREPARED_PASS : PREPARED_NO_MEMORY;
}

/* The text of a Parse is not looked at: it may set a role. */
static enum prepared_verdict as_it_is(const struct sending *x)
{
	x->s->roles_prepared |= x->f->type == 'P';
	return passes(x);
}

/* Statements of clients are not kept, so this Parse goes on as it is. */
static enum prepared_verdict parse_not_kept(const struct sending *x, const struct statement_use *use)
{
	const uint8_t *text = (const uint8_t *)use->name + use->name_size;

	role_parse_sent(x->s, text, x->f->here - (size_t)(text - x->f->body));
	return passes(x);
}

static void put_header(uint8_t *to, uint8_t type, size_t rest)
{
	uint32_t length = (uint32_t)(PG_LENGTH_WORD + rest);

	to[0] = type;
	to[1] = (uint8_t)(length >> 24);
	to[2] = (uint8_t)(length >> 16);
	to[3] = (uint8_t)(length >> 8);
	to[4] = (uint8_t)length;
}

/* A Close, a Describe, or the beginning of a Parse, of the pooler's: header and the server's name that has this end. The rest
   of a Parse, `more` bytes, follows. */
static void gather_head(const struct sending *x, uint8_t type, const char *end, size_t end_size, size_t more)
{
	bool has_kind = type != 'P';
	size_t size = has_kind + STATEMENT_HEAD + end_size;
	uint8_t *to;

	ASSERT(end_size <= STATEMENT_END_MOST);
	to = gather_place(x->g, PG_HEADER + size);
	put_header(to, type, size + more);
	to += PG_HEADER;
	if (has_kind)
		*to++ = 'S';
	statement_name(to, &x->has->names, end, end_size);
}

/* The frame goes on, with the server's name that has this end in place of the client's. */
static void gather_renamed(const struct sending *x, const struct statement_use *use, const char *end, size_t end_size)
{
	const struct pg_frame *f = x->f;
	size_t before = (size_t)((const uint8_t *)use->name - f->body), name_size = STATEMENT_HEAD + end_size;
	uint8_t *to;

	ASSERT(end_size <= STATEMENT_END_MOST);
	*x->skip = PG_HEADER + before + use->name_size;
	/* mostly nothing is in between, or one byte is: what is described, or the end of a portal without a name */
	to = gather_place(x->g, PG_HEADER + (before > 1 ? 0 : before + name_size));
	put_header(to, f->type, f->size - use->name_size + name_size);
	to += PG_HEADER;
	if (before == 1)
		*to++ = f->body[0];
	if (before > 1) {
		gather_add(x->g, f->body, before);
		to = gather_place(x->g, name_size);
	}
	statement_name(to, &x->has->names, end, end_size);
}

/* Enters it in ledger and journal. */
static bool entered(const struct sending *x, uint8_t type, enum ledger_owner owner, enum prepared_what what, struct prepared_name *name,
		    struct statement *st)
{
	if (!op_push(x->has, what, name, st))
		return false;
	return (owner == OWED_TO_CLIENT && ledger_sent_plain_marked(&x->s->ledger, type)) ||
	       ledger_sent_marked(&x->s->ledger, type, x->f->here ? x->f->body[0] : 0, owner);
}

static enum prepared_verdict local_reply(const struct sending *x, enum prepared_what what, struct prepared_name *name, struct statement *st)
{
	return op_push(x->has, what, name, st) && ledger_local_reply(&x->s->ledger) ? PREPARED_SWALLOW : PREPARED_NO_MEMORY;
}

/* Changed in a batch before this one, and not answered: it may yet not happen. */
static bool name_in_doubt(const struct sending *x, const struct prepared_name *n)
{
	return n && n->in_flight > 0 && n->batch != x->s->batch;
}

static bool entry_in_doubt(const struct sending *x, const struct prepared_entry *e)
{
	return e && e->in_flight > 0 && e->batch != x->s->batch;
}

/* ---- the server's set ---- */

/* The server has it, or will have it by the time it reads what is sent now. */
static bool is_there(const struct prepared_entry *e)
{
	return e && e->sent && (e->reading != READING_OTHER || e->in_flight > 0);
}

static bool close_there(const struct sending *x, struct prepared_entry *e)
{
	struct statement *st = e->statement;

	gather_head(x, 'C', st->end, st->end_size, 0);
	if (!entered(x, 'C', OWED_TO_POOLER, OP_EVICT, NULL, st))
		return false;
	entry_close_sent(x->has, e, x->s->batch);
	return true;
}

/* With one more it would have more than it may. */
static bool has_its_fill(const struct sending *x, const struct statement *st)
{
	const struct settings *set = &world_of(x)->conf->settings;
	int64_t most = set->max_prepared_statements > 0 ? set->max_prepared_statements : 1;
	size_t bytes = (size_t)set->max_prepared_memory;

	return x->has->count >= most || (bytes > 0 && x->has->bytes + entry_cost(st) > bytes);
}

/* Makes room for one more. One that a batch before this one has brought or used can be closed all the same: the server does things
   in order. But one in doubt cannot. */
static bool make_room(const struct sending *x, const struct statement *st)
{
	while (x->has->count > 0 && has_its_fill(x, st)) {
		struct prepared_entry *oldest = LIST_OBJECT(list_first(&x->has->used), struct prepared_entry, use);

		if (entry_in_doubt(x, oldest))
			break;
		if (!close_there(x, oldest))
			return false;
	}
	return true;
}

/* Its name is free there, and there is room for it. */
static bool clear_the_way(const struct sending *x, struct prepared_entry *e, const struct statement *st)
{
	return e && e->sent ? close_there(x, e) : make_room(x, st);
}

/* What the client has executed may have changed its parameters, and is only told at the end of the batch. With SET it has, and may take
   that back before. */
static enum reading reading_of(const struct sending *x, const struct statement *st)
{
	if (ledger_is_up_to_date(&x->s->ledger))
		return READING_OWN;
	return x->has->set_in == x->s->batch + 1 && statement_may_differ(st) ? READING_OTHER : READING_UNSURE;
}

/* Parses a statement there, on the pooler's account. */
static bool replay(const struct sending *x, struct prepared_name *n, struct statement *st)
{
	enum reading reading = reading_of(x, st);

	if (!clear_the_way(x, entry_find(x->has, st), st) || !entry_parse_sent(x->has, st, x->s->batch))
		return false;
	role_parse_sent(x->s, st->body, st->size);
	gather_head(x, 'P', st->end, st->end_size, st->size);
	gather_add(x->g, st->body, st->size);
	stats_of(x)->server_parse_count++;
	if (!entered(x, 'P', OWED_TO_POOLER, OP_REPLAY, n, st))
		return false;
	op_at(x->has, x->has->op_count - 1)->reading = (uint8_t)reading;
	return true;
}

/* ---- named statements ---- */

/* What PgBouncer writes where it refuses a name; the client hears the server's words. */
static void log_name(const struct sending *x, const struct statement_use *use, const char *what)
{
	char who[256], name[PRINTABLE_TEXT];

	log_error("%s prepared statement '%s' %s", client_text(x->c, who, sizeof(who)), printable_text(use->name, name, sizeof(name)), what);
}

/* What is under way is to be answered first. The server may keep its answers to itself until it is asked for them, and the client's Sync
   is behind this. */
static enum prepared_verdict wait_for_answers(const struct sending *x)
{
	static const uint8_t flush[PG_HEADER] = { 'H', 0, 0, 0, 4 };

	if (!ledger_local_reply_is_due(&x->s->ledger))
		gather_copy(x->g, flush, sizeof(flush));
	return PREPARED_WAIT;
}

/* The client has this name already. The server shall say so, with whatever else is wrong with the message: it goes there under a
   name that is taken. Only with nothing else under way is it certain that the client still has it. */
static enum prepared_verdict parse_again(const struct sending *x, const struct statement_use *use, struct prepared_name *n)
{
	static const uint8_t nothing[] = { 0, 0, 0 };
	struct ledger *l = &x->s->ledger;

	if (ledger_depth(l) > 0)
		return wait_for_answers(x);
	log_name(x, use, "was already prepared");
	gather_head(x, 'C', STATEMENT_AGAIN, sizeof(STATEMENT_AGAIN), 0);
	gather_head(x, 'P', STATEMENT_AGAIN, sizeof(STATEMENT_AGAIN), sizeof(nothing));
	gather_copy(x->g, nothing, sizeof(nothing));
	gather_renamed(x, use, STATEMENT_AGAIN, sizeof(STATEMENT_AGAIN));
	if (!ledger_sent(l, 'C', 'S', OWED_TO_POOLER) || !ledger_sent(l, 'P', 0, OWED_TO_POOLER) ||
	    !entered(x, 'P', OWED_TO_CLIENT, OP_AGAIN, n, NULL))
		return PREPARED_NO_MEMORY;
	ledger_watch_last(l);
	return PREPARED_PASS;
}

/* The name stands for nothing yet. */
static enum prepared_verdict parse_new(const struct sending *x, const struct statement_use *use, struct prepared_name *n,
				       struct statement *st)
{
	struct prepared_entry *e = entry_find(x->has, st);

	stats_of(x)->client_parse_count++;
	name_sent(world_of(x), x->mine, n, st, x->s->batch);
	/* In an aborted transaction PostgreSQL refuses to parse what it knows, too; whether this will be one may not be known yet. And
	   a statement that still runs may be DEALLOCATE ALL. */
	if (is_there(e) && x->s->status != 'E' && ledger_is_one_batch(&x->s->ledger) && !ledger_may_copy(&x->s->ledger) &&
	    !ledger_may_surprise(&x->s->ledger)) {
		entry_used(x->has, e);
		return local_reply(x, OP_KNOWN, n, st);
	}
	if (!clear_the_way(x, e, st))
		return PREPARED_NO_MEMORY;
	if (!entry_parse_sent(x->has, st, x->s->batch))
		return PREPARED_NO_MEMORY;
	role_parse_sent(x->s, st->body, st->size);
	gather_renamed(x, use, st->end, st->end_size);
	stats_of(x)->server_parse_count++;
	return entered(x, 'P', OWED_TO_CLIENT, OP_PARSE, n, st) ? PREPARED_PASS : PREPARED_NO_MEMORY;
}

/* What the client has executed and not been told the end of may have changed its parameters. The text is read under those, so nobody else
   is to have this statement, nor is it taken to another server: see send_use. */
static struct statement *new_statement(const struct sending *x, const uint8_t *body, size_t size)
{
	bool known = ledger_is_up_to_date(&x->s->ledger);

	return (known ? statement_take : statement_apart)(world_of(x)->statements, place_of(x), x->c->params, body, size);
}

/* Looked at before the text is here, which would have to be kept. */
static bool takes_too_much(const struct sending *x, const struct statement_use *use, size_t size)
{
	size_t most = (size_t)world_of(x)->conf->settings.max_prepared_memory;

	return most > 0 && x->mine->bytes + name_cost(use->name_size, size) > most;
}

static enum prepared_verdict send_parse(const struct sending *x, const struct statement_use *use)
{
	struct prepared_name *n = name_find(x->mine, use->name, use->name_size);
	const uint8_t *body = (const uint8_t *)use->name + use->name_size;
	size_t size = x->f->size - use->name_size;
	enum prepared_verdict verdict = PREPARED_WAIT;
	struct statement *st;

	if (takes_too_much(x, use, size))
		return PREPARED_TOO_MUCH;
	if (!pg_frame_is_whole(x->f))
		return PREPARED_MORE;
	if (name_in_doubt(x, n))
		return PREPARED_WAIT;
	/* the text stays in the journal until it is answered, whatever its name stands for by then */
	if (x->has->under_way > UNDER_WAY_MOST)
		return wait_for_answers(x);
	if (!statement_body_is_sound(body, size))
		return as_it_is(x);
	if (n && n->sent)
		return parse_again(x, use, n);
	st = new_statement(x, body, size);
	if (!st)
		return PREPARED_NO_MEMORY;
	if (!entry_in_doubt(x, entry_find(x->has, st))) {
		if (!n)
			n = name_new(x->mine, use->name, use->name_size);
		verdict = n ? parse_new(x, use, n, st) : PREPARED_NO_MEMORY;
	}
	statement_drop(world_of(x)->statements, &st);
	return verdict;
}

static bool is_ours(const struct statement_use *use)
{
	return strncmp(use->name, STATEMENT_PREFIX, strlen(STATEMENT_PREFIX)) == 0;
}

/* The statement is nowhere, as far as this client goes: the server says so, under a name that nothing has. */
static enum prepared_verdict use_nothing(const struct sending *x, const struct statement_use *use, struct prepared_name *n, struct statement *st)
{
	gather_renamed(x, use, STATEMENT_NOWHERE, sizeof(STATEMENT_NOWHERE));
	return entered(x, x->f->type, OWED_TO_CLIENT, OP_USE, n, st) ? PREPARED_PASS : PREPARED_NO_MEMORY;
}

/* A name that the client has not prepared by a Parse: within a transaction it may have done so by SQL, and the message goes on as it
   is. Otherwise what a server has of that name is another client's; and the pooler's names are nobody's. */
static bool may_be_of_sql(const struct sending *x, const struct statement_use *use)
{
	return x->s->status != 'I' && !is_ours(use);
}

/* Behind the first in a batch the server passes over all others, so that it says nothing of them. */
static enum prepared_verdict use_unknown(const struct sending *x, const struct statement_use *use)
{
	enum prepared_verdict verdict;
	struct prepared_name *n;

	if (may_be_of_sql(x, use))
		return as_it_is(x);
	if (x->has->missed_in == x->s->batch + 1)
		return use_nothing(x, use, NULL, NULL);
	if (x->has->under_way > UNDER_WAY_MOST)
		return wait_for_answers(x);
	n = name_new(NULL, use->name, use->name_size);
	if (!n)
		return PREPARED_NO_MEMORY;
	x->has->missed_in = x->s->batch + 1;
	log_name(x, use, "not found");
	verdict = use_nothing(x, use, n, NULL);
	name_drop(world_of(x), &n);
	return verdict;
}

/* A Bind of a few bytes may bring a text of any length to a server that lacks it, and a read may bring thousands of them. The server takes
   what it was sent before there is more. */
static bool is_full(const struct sending *x)
{
	if (x->g->bytes <= SENT_AT_ONCE)
		return false;
	gather_flush(x->g);
	if (stream_unsent(&x->s->peer.stream) > 0)
		return true;
	x->g->bytes = 0;
	return false;
}

static enum prepared_verdict use_statement(const struct sending *x, const struct statement_use *use, struct prepared_name *n,
					   struct statement *st, struct prepared_entry *e)
{
	if (entry_in_doubt(x, e) || is_full(x))
		return PREPARED_WAIT;
	if (x->f->type == 'B')
		stats_of(x)->bind_count++;
	if (is_there(e))
		entry_used(x->has, e);
	else if (st->changed)
		return use_nothing(x, use, n, st);
	else if (!replay(x, n, st))
		return PREPARED_NO_MEMORY;
	gather_renamed(x, use, st->end, st->end_size);
	return entered(x, x->f->type, OWED_TO_CLIENT, OP_USE, n, st) ? PREPARED_PASS : PREPARED_NO_MEMORY;
}

/* It has moved, and the parameters of its client are those again under which it was prepared: SET LOCAL has ended, or SET was undone. */
static bool may_go_back(const struct sending *x, const struct prepared_name *n)
{
	const struct statements *all = world_of(x)->statements;

	return n->first && n->in_flight == 0 && !n->sent->changed && !statement_is_for(all, n->sent, x->c->params) &&
	       statement_is_for(all, n->first, x->c->params);
}

/* A server that does not have the statement reads its text under the client's parameters of now. Where they are not, or may not be, those
   under which it was prepared, that is another statement, and the client's until they are: the first one means to others what it meant
   then. */
static enum prepared_verdict send_use(const struct sending *x, const struct statement_use *use)
{
	struct prepared_name *n = name_find(x->mine, use->name, use->name_size);
	enum prepared_verdict verdict;
	struct prepared_entry *e;
	struct statement *st;

	if (name_in_doubt(x, n))
		return PREPARED_WAIT;
	if (!n || !n->sent)
		return use_unknown(x, use);
	if (may_go_back(x, n))
		name_moves(world_of(x), x->mine, n, n->first);
	e = entry_find(x->has, n->sent);
	if (is_there(e) || n->sent->changed)
		return use_statement(x, use, n, n->sent, e);
	st = statement_under(world_of(x)->statements, n->sent, place_of(x), x->c->params);
	if (!st)
		return PREPARED_NO_MEMORY;
	if (st != n->sent)
		name_moves(world_of(x), x->mine, n, st);
	verdict = use_statement(x, use, n, st, entry_find(x->has, st));
	statement_drop(world_of(x)->statements, &st);
	return verdict;
}

/* While a ReadyForQuery may come that only the server knows of, or the batch before this one may yet be a COPY that fails, after which
   nobody else knows in its turn, it has to answer by itself. */
static enum prepared_verdict close_answered(const struct sending *x, const struct statement_use *use, struct prepared_name *n)
{
	const struct ledger *l = &x->s->ledger;

	if (!ledger_may_surprise(l) && (ledger_is_one_batch(l) || !ledger_may_copy(l)))
		return local_reply(x, OP_CLOSE, n, NULL);
	gather_renamed(x, use, STATEMENT_NOWHERE, sizeof(STATEMENT_NOWHERE));
	return entered(x, 'C', OWED_TO_CLIENT, OP_CLOSE, n, NULL) ? PREPARED_PASS : PREPARED_NO_MEMORY;
}

static enum prepared_verdict send_close(const struct sending *x, const struct statement_use *use)
{
	struct prepared_name *n = name_find(x->mine, use->name, use->name_size);

	if (name_in_doubt(x, n))
		return PREPARED_WAIT;
	if (!n || !n->sent)
		return may_be_of_sql(x, use) ? as_it_is(x) : close_answered(x, use, NULL);
	name_sent(world_of(x), x->mine, n, NULL, x->s->batch);
	return close_answered(x, use, n);
}

/* ---- the unnamed statement ---- */

static bool is_at_hand(const struct client *c, const struct server *s)
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
	bool had = is_at_hand(c, s);

	if (!unnamed_sent(c->prepared, s->prepared, OP_UNNAMED, kept, s->batch))
		return false;
	take_hold(c, s, had);
	return true;
}

/* A Query that fails before it begins leaves what is there, be it another client's, and, unlike a Parse, does not make the server skip
   what follows: so what is there is nobody's at once. */
static bool query_ends_unnamed(struct client *c, struct server *s)
{
	s->unnamed_of = 0;
	return unnamed_sent(c->prepared, s->prepared, OP_UNNAMED_QUERY, false, s->batch);
}

/* A Parse whose text is not kept, or a Close. */
static enum prepared_verdict send_unnamed_change(const struct sending *x)
{
	return unnamed_changes(x->c, x->s, false) && ledger_sent_marked(&x->s->ledger, x->f->type, 'S', OWED_TO_CLIENT) ?
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

	put_header(head, 'P', 1 + size);
	head[PG_HEADER] = 0;
	gather_add(x->g, bytes_front(&mine->text), size);
	role_parse_sent(x->s, bytes_front(&mine->text), size);
	gather_flush(x->g);		/* the text may be another one before the walk ends */
	take_hold(x->c, x->s, false);
	return entered(x, 'P', OWED_TO_POOLER, OP_UNNAMED_REPLAY, NULL, NULL);
}

/* There is none, or it is not known: the server shall say that there is none. */
static bool close_unnamed(const struct sending *x)
{
	static const uint8_t message[] = { 'C', 0, 0, 0, 6, 'S', 0 };

	x->s->unnamed_of = 0;
	gather_copy(x->g, message, sizeof(message));
	return ledger_sent(&x->s->ledger, 'C', 'S', OWED_TO_POOLER);
}

static enum prepared_verdict send_unnamed(const struct sending *x)
{
	struct prepared_client *mine = x->mine;

	if (x->f->type == 'P')
		return send_unnamed_parse(x);
	if (x->f->type == 'C')
		return send_unnamed_change(x);
	if (x->has->unnamed_in_flight > 0 && !x->has->unnamed_sure && x->has->unnamed_batch != x->s->batch)
		return PREPARED_WAIT;
	if (is_at_hand(x->c, x->s))
		return as_it_is(x);
	if (mine->in_flight > 0 && mine->batch != x->s->batch)
		return PREPARED_WAIT;
	return (mine->kept ? replay_unnamed(x) : close_unnamed(x)) ? as_it_is(x) : PREPARED_NO_MEMORY;
}

bool prepared_send_query(struct client *c, struct server *s)
{
	/* behind an error of its batch the Query would be skipped, and end nothing; and changes before it may be */
	if (c->shares && c->prepared && s->prepared && (s->ledger.open || c->prepared->in_flight > 0) && ledger_enters(&s->ledger))
		return query_ends_unnamed(c, s) && ledger_sent_marked(&s->ledger, 'Q', 0, OWED_TO_CLIENT);
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
	       (ledger_sent_plain_marked(&s->ledger, 'P') || ledger_sent_marked(&s->ledger, 'P', 0, OWED_TO_CLIENT));
}

bool prepared_has_unnamed(const struct client *c, const struct server *s)
{
	const struct prepared_server *has = s->prepared;

	return has && c->prepared && is_at_hand(c, s) && (has->unnamed_in_flight == 0 || has->unnamed_sure || has->unnamed_batch == s->batch);
}

/* ---- all of them ---- */

bool prepared_lacks(const struct pg_frame *f)
{
	struct statement_use use;

	if (pg_frame_is_whole(f))
		return false;
	if (f->type == 'P')
		return f->size + PG_HEADER <= READ_BUFFER;
	if (f->type != 'B' && f->type != 'D' && f->type != 'C')
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
	if (x->f->type != 'B' && x->f->type != 'D')
		return false;
	if (use->name_size > 1)
		return !is_doubted(x, use) && (name_find(x->mine, use->name, use->name_size) || !may_be_of_sql(x, use));
	return !is_at_hand(x->c, x->s) && (x->mine->doubted_on != x->s->peer.id || x->mine->doubted_batch != x->s->batch);
}

/* A Parse or Close with a name goes into the doubt: what the client has by that name is not known any more. */
static bool named_into_doubt(const struct sending *x, const struct statement_use *use)
{
	struct prepared_name *n = name_find(x->mine, use->name, use->name_size);

	if (n)
		name_forgotten(world_of(x), x->mine, n);
	name_drop(world_of(x), &x->mine->doubted_name);
	if (x->f->type == 'C')
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
	enum prepared_verdict verdict = as_it_is(x);

	if (is_for_another(x, use))
		gather_renamed(x, use, STATEMENT_NOWHERE, sizeof(STATEMENT_NOWHERE));
	if (!x->s->ledger.lost || (x->f->type != 'P' && x->f->type != 'C'))
		return verdict;
	if (use->name_size == 1) {
		unnamed_forgotten(x->mine);
		x->mine->doubted_on = x->f->type == 'P' ? x->s->peer.id : 0;
		x->mine->doubted_batch = x->s->batch;
		return verdict;
	}
	return named_into_doubt(x, use) ? verdict : PREPARED_NO_MEMORY;
}

/* A Describe of a statement that no server has goes in place of the message; its error becomes the one of a name that is too long. */
static enum prepared_verdict refuse_name(const struct sending *x)
{
	bool is_marked = ledger_enters(&x->s->ledger);

	gather_head(x, 'D', STATEMENT_NOWHERE, sizeof(STATEMENT_NOWHERE), 0);
	if (is_marked && !op_push(x->has, OP_TOO_LONG, NULL, NULL))
		return PREPARED_NO_MEMORY;
	return (is_marked ? ledger_sent_marked : ledger_sent)(&x->s->ledger, 'D', 'S', OWED_TO_CLIENT) ? PREPARED_SWALLOW : PREPARED_NO_MEMORY;
}

enum prepared_verdict prepared_send(struct client *c, struct server *s, const struct pg_frame *f, struct gather *g, size_t *skip)
{
	struct sending x = { c, s, f, g, skip, prepared_client_of(c), prepared_server_of(s) };
	struct statement_use use;

	if (!x.mine || !x.has)
		return PREPARED_NO_MEMORY;
	/* what the server passes over it may have as it is */
	if (s->ledger.skipping && !ledger_may_surprise(&s->ledger))
		return as_it_is(&x);
	if ((f->type == 'D' || f->type == 'C') && f->body[0] != 'S')
		return as_it_is(&x);
	g->to = &s->peer.stream;
	switch (statement_use_read(f->type, f->body, f->here, f->size, &use)) {
	case PG_MORE:
		return f->here < NAMES_MOST ? PREPARED_MORE : refuse_name(&x);
	case PG_BAD:
		return f->size > NAMES_MOST ? refuse_name(&x) : as_it_is(&x);
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
		return send_unnamed(&x);
	if (world_of(&x)->conf->settings.max_prepared_statements == 0 && !x.mine->names)
		return f->type == 'P' ? parse_not_kept(&x, &use) : as_it_is(&x);
	switch (f->type) {
	case 'P': return send_parse(&x, &use);
	case 'C': return send_close(&x, &use);
	default: return send_use(&x, &use);
	}
}
