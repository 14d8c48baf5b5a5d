/*
 * The tables of prepared statements: a client's names and unnamed statement, a server's entries,
 * and the journal of messages in flight between them. The statements themselves, which clients
 * share, are in sql/statement.c.
 *
 * An error makes the server skip the rest of the batch, so a change is certain only after its
 * answer. Each name, each entry and the unnamed statement therefore has two values: `sent`, after
 * the messages sent so far, and `confirmed`, after the last answer.
 *
 *	sent	confirmed	in_flight	state of an entry (of a name)
 *	no	no		0		absent: not in the table
 *	yes	no		1 or more	Parse sent
 *	yes	yes		0		present
 *	no	yes		1 or more	Close sent
 *	yes	yes		2 or more	Close and Parse sent
 *	no	no		1 or more	Parse and Close sent, or deallocated meanwhile
 *
 * A change is in doubt for messages of a later batch: they wait for its answer. A message in the
 * same batch need not wait, because an error that skips the change skips the message as well.
 * Therefore all changes in flight of one name or entry belong to one batch.
 *
 * The journal has one operation for each message with MARK_PREPARED in the ledger, in the same
 * order. An answer moves the oldest operation from `sent` to `confirmed`, or drops it.
 *
 * Invariants: without changes in flight `sent` and `confirmed` are equal; server->count,
 * server->bytes and server->lru cover the entries that are present as sent.
 *
 * A pipeline can be long, and one answer (DEALLOCATE ALL, ParameterStatus) can change all confirmed
 * entries. These are in lists, so that the answer takes time only for the entries that it changes.
 * Its effect on operations in flight is one number: all operations before it.
 */
#include "prepared/statements.h"

#include "base/assert.h"
#include "base/inline.h"
#include "base/mem.h"
#include "base/text.h"
#include "sql/signal_text.h"

#define JOURNAL_TEXTS_MOST READ_BUFFER	/* bytes of texts of the unnamed statement in the journal */
#define TEXT_SPARE 512			/* unused bytes that an idle client may keep */
#define OPS_FIRST 8			/* first size of the journal */

struct prepared_server *prepared_server_of(struct server *s)
{
	uint8_t random[STATEMENT_TAG];

	if (s->prepared)
		return s->prepared;
	if (!randomness_draw(&s->peer.world->randomness, random, sizeof(random)) ||
	    !(s->prepared = mem_try(sizeof(*s->prepared))))
		return NULL;
	list_init(&s->prepared->lru);
	list_init(&s->prepared->confirmed);
	list_init(&s->prepared->uncertain);
	list_init(&s->prepared->uncertain_literals);
	statement_names_make(&s->prepared->names, random);
	return s->prepared;
}

/* ---- the unnamed statement ---- */

static void swap_texts(struct prepared_client *pc)
{
	struct bytes other = pc->text;

	pc->text = pc->confirmed_text;
	pc->confirmed_text = other;
}

/* Moves the text of the previous change to the journal, because the new change may be skipped, and
   the previous text is then the current one. Texts that are too large together are not stored,
   because a server may delay the answers to thousands of changes, and only an error makes one of
   these texts current. */
static bool journal_text(struct prepared_client *pc, struct prepared_server *ps)
{
	struct prepared_op *op;
	uint32_t i = ps->op_count;

	do {
		ASSERT(i > 0);
		op = op_at(ps, --i);
	} while (!op_changes_unnamed(op) || !op->is_last_change);
	op->is_last_change = false;
	if (!op->has_text)
		return true;
	if (pc->journal_texts + bytes_size(&pc->text) > JOURNAL_TEXTS_MOST) {
		op->has_text = false;
		return true;
	}
	op->text = mem_try(sizeof(*op->text));
	if (!op->text)
		return false;
	pc->journal_texts += bytes_size(&pc->text);
	*op->text = pc->text;
	pc->text = (struct bytes)BYTES_EMPTY;
	return true;
}

/* The current text becomes UNNAMED_OTHER, because it stays current if the new change is skipped. */
static NEVER_INLINE void unnamed_deallocates_other(struct prepared_client *pc)
{
	bool sent = pc->unnamed_care & UNNAMED_SENT,
	     other = pc->in_flight > 0 && pc->unnamed_care & UNNAMED_OTHER;

	pc->unnamed_care = (uint8_t)((pc->unnamed_care & UNNAMED_LASTS) |
				     (sent || other ? UNNAMED_OTHER : 0));
}

bool unnamed_change_sent(struct prepared_client *pc, struct prepared_server *ps, enum op_kind kind,
			 bool has_text, uint32_t batch)
{
	struct prepared_op *op;

	if (pc->unnamed_care)
		unnamed_deallocates_other(pc);
	if (pc->in_flight == 0) {
		swap_texts(pc);
		pc->confirmed_unnamed_types = pc->unnamed_types;
		pc->has_confirmed_text = pc->has_text;
		pc->journal_texts = 0;
	} else if (!journal_text(pc, ps)) {
		return false;
	}
	bytes_consume(&pc->text, bytes_size(&pc->text));
	pc->has_text = has_text;
	pc->unnamed_types = (struct unnamed_types){ .meanings = pc->unnamed_types.meanings };
	pc->in_flight++;
	pc->batch = batch;
	pc->number++;
	if (!op_push(ps, kind, NULL, NULL))
		return false;
	op = op_at(ps, ps->op_count - 1);
	op->is_last_change = true;
	op->has_text = has_text;
	return true;
}

void unnamed_parse_sent(struct client *c, struct server *s, bool had)
{
	struct prepared_server *ps = s->prepared;

	if (ps->unnamed_in_flight++ == 0)
		ps->unnamed_confirmed = had;
	ps->unnamed_batch = s->batch;
	server_unnamed_to(s, c->peer.id);
	ps->unnamed_number = c->prepared->number;
}

static ALWAYS_INLINE void unnamed_change_ended(struct prepared_client *pc,
					       const struct prepared_op *op, bool done)
{
	pc->in_flight--;
	if (done) {
		pc->confirmed_unnamed_types = (struct unnamed_types){
			.meanings = pc->unnamed_types.meanings
		};
		pc->has_confirmed_text = op->has_text;
		if (!op->text)
			return;
		pc->journal_texts -= bytes_size(op->text);
		bytes_free(&pc->confirmed_text);
		pc->confirmed_text = *op->text;
		*op->text = (struct bytes)BYTES_EMPTY;
	} else if (pc->in_flight == 0) {
		swap_texts(pc);
		pc->unnamed_types = pc->confirmed_unnamed_types;
		pc->has_text = pc->has_confirmed_text;
		if (pc->unnamed_care & UNNAMED_DEALLOCATES)
			pc->unnamed_care |= UNNAMED_SENT;
	}
}

void prepared_client_trim(struct client *c)
{
	struct bytes *text = &c->prepared->text;
	size_t size = bytes_size(text);
	uint8_t *smaller;

	c->prepared->deallocates = false;
	if (c->prepared->confirmed_text.capacity > TEXT_SPARE)
		bytes_free(&c->prepared->confirmed_text);
	if (size + TEXT_SPARE >= text->capacity)
		return;
	if (size == 0) {
		bytes_free(text);
		return;
	}
	smaller = mem_resize(NULL, size);
	if (!smaller)
		return;
	memcpy(smaller, bytes_front(text), size);
	bytes_free(text);
	*text = (struct bytes){ .data = smaller, .end = size, .capacity = size };
}

/* ---- names ---- */

static size_t significant(size_t size)
{
	return size - 1 < NAME_SIGNIFICANT ? size - 1 : NAME_SIGNIFICANT;
}

struct prepared_name *name_find(const struct prepared_client *pc, const char *text, size_t size)
{
	struct prepared_name *found;

	HASH_FIND(hh, pc->names, text, significant(size), found);
	return found;
}

struct prepared_name *name_new(struct prepared_client *pc, const char *text, size_t size)
{
	struct prepared_name *n = mem_try(sizeof(*n) + size);

	if (!n)
		return NULL;
	memcpy(n->text, text, size);
	n->refs = 1;
	list_init(&n->confirmed_link);
	if (!pc)
		return n;
	HASH_ADD_KEYPTR(hh, pc->names, n->text, significant(size), n);
	n->in_table = HASH_HAS(hh, n);
	if (n->in_table)
		return n;
	mem_free(n);
	return NULL;
}

static void statement_replace(struct world *w, struct statement **place, struct statement *st)
{
	struct statement *old = *place;

	*place = st ? statement_hold(st) : NULL;
	statement_drop(w->statements, &old);
}

void name_set_sent(struct world *w, struct prepared_name *n, struct statement *st)
{
	if (n->sent)
		n->sent->clients--;
	if (st)
		st->clients++;
	statement_replace(w, &n->sent, st);
}

void name_drop(struct world *w, struct prepared_name **place)
{
	struct prepared_name *n = *place;

	*place = NULL;
	if (!n || --n->refs > 0)
		return;
	name_set_sent(w, n, NULL);
	statement_drop(w->statements, &n->confirmed);
	statement_drop(w->statements, &n->original);
	mem_free(n);
}

static void name_remove(struct world *w, struct prepared_client *pc, struct prepared_name *n)
{
	HASH_DEL(pc->names, n);
	n->in_table = false;
	list_remove(&n->confirmed_link);
	pc->bytes -= n->cost;
	name_drop(w, &n);
}

static void name_confirm(struct world *w, struct prepared_client *pc, struct prepared_name *n,
			 struct statement *st)
{
	statement_replace(w, &n->confirmed, st);
	list_remove(&n->confirmed_link);
	if (st)
		list_append(&pc->confirmed_names, &n->confirmed_link);
}

static void name_charge(struct prepared_client *pc, struct prepared_name *n,
			const struct statement *st)
{
	size_t cost = name_cost(strlen(n->text) + 1, st->size);

	pc->bytes += cost - n->cost;
	n->cost = (uint32_t)cost;
}

void name_change_sent(struct world *w, struct prepared_client *pc, struct prepared_name *n,
		      struct statement *st, uint32_t batch)
{
	name_set_sent(w, n, st);
	if (st)
		name_charge(pc, n, st);
	if (n->in_flight++ == 0)
		n->confirmed_types = n->types;
	n->types = 0;
	n->batch = batch;
}

/* Restores the invariant for a name without changes in flight; the name may be freed. */
static void name_settle(struct world *w, struct prepared_client *pc, struct prepared_name *n)
{
	if (n->in_flight > 0)
		return;
	name_set_sent(w, n, n->confirmed);
	n->types = n->confirmed_types;
	if (!n->sent && n->in_table)
		name_remove(w, pc, n);
}

static ALWAYS_INLINE void name_change_ended(struct world *w, struct prepared_client *pc,
					    struct prepared_name *n, struct statement *st,
					    bool done)
{
	if (done) {
		name_confirm(w, pc, n, st);
		n->confirmed_types = 0;
		statement_replace(w, &n->original, NULL);
	}
	n->in_flight--;
	name_settle(w, pc, n);
}

void name_move(struct world *w, struct prepared_client *pc, struct prepared_name *n,
	       struct statement *st)
{
	bool is_back = st == n->original;

	if (n->in_flight > 0) {
		name_set_sent(w, n, st);
		return;
	}
	if (!n->original && !n->confirmed->is_private)
		n->original = statement_hold(n->confirmed);
	name_set_sent(w, n, st);
	name_confirm(w, pc, n, st);
	if (is_back)
		statement_replace(w, &n->original, NULL);
}

void name_forget(struct world *w, struct prepared_client *pc, struct prepared_name *n)
{
	name_confirm(w, pc, n, NULL);
	statement_replace(w, &n->original, NULL);
	name_settle(w, pc, n);
}

void name_restore(struct world *w, struct prepared_client *pc, struct prepared_name *n,
		  struct statement *sent, struct statement *confirmed)
{
	name_set_sent(w, n, sent);
	name_confirm(w, pc, n, confirmed);
	if (sent || confirmed)
		name_charge(pc, n, sent ? sent : confirmed);
}

void sql_record_free(struct world *w, struct prepared_client *pc)
{
	struct prepared_sql *sql = pc->sql;

	pc->sql = NULL;
	for (uint32_t i = 0; sql && i < sql->count; i++)
		name_drop(w, &sql->names[i].name);
	mem_free(sql);
}

/* ---- entries ---- */

static void entry_set_sent(struct prepared_server *ps, struct prepared_entry *e, bool present)
{
	if (e->sent == present)
		return;
	e->sent = present;
	if (present) {
		ps->count++;
		ps->bytes += entry_cost(e->statement);
		list_append(&ps->lru, &e->lru_link);
	} else {
		ps->count--;
		ps->bytes -= entry_cost(e->statement);
		list_remove(&e->lru_link);
	}
}

static struct prepared_entry *entry_new(struct prepared_server *ps, struct statement *st)
{
	struct prepared_entry *e = mem_try(sizeof(*e));

	if (!e)
		return NULL;
	HASH_ADD_KEYPTR_BYHASHVALUE(hh, ps->entries, &st->number, sizeof(st->number),
				    (unsigned)st->number, e);
	if (!HASH_HAS(hh, e)) {
		mem_free(e);
		return NULL;
	}
	e->statement = statement_hold(st);
	st->servers++;
	list_init(&e->lru_link);
	list_init(&e->confirmed_link);
	return e;
}

bool entry_change_sent(struct prepared_server *ps, struct statement *st, bool present,
		       uint32_t batch)
{
	struct prepared_entry *e = entry_find(ps, st);

	if (!e && !(e = entry_new(ps, st)))
		return false;
	entry_set_sent(ps, e, present);
	if (present)
		e->types = 0;
	e->in_flight++;
	e->batch = batch;
	return true;
}

static void entry_free(struct world *w, struct prepared_server *ps, struct prepared_entry *e)
{
	entry_set_sent(ps, e, false);
	list_remove(&e->confirmed_link);
	HASH_DEL(ps->entries, e);
	e->statement->servers--;
	statement_drop(w->statements, &e->statement);
	mem_free(e);
}

/* Restores the invariant for an entry without changes in flight; the entry may be freed. */
static void entry_settle(struct world *w, struct prepared_server *ps, struct prepared_entry *e)
{
	if (e->in_flight > 0)
		return;
	entry_set_sent(ps, e, e->confirmed);
	if (!e->confirmed)
		entry_free(w, ps, e);
}

void entry_confirm(struct prepared_server *ps, struct prepared_entry *e, bool present,
		   enum parse_validity validity)
{
	e->confirmed = present;
	e->validity = (uint8_t)validity;
	list_remove(&e->confirmed_link);
	if (!present)
		return;
	if (validity != PARSE_UNCERTAIN) {
		list_append(&ps->confirmed, &e->confirmed_link);
		return;
	}
	list_append(statement_may_differ(e->statement) ? &ps->uncertain_literals : &ps->uncertain,
		    &e->confirmed_link);
	ps->has_uncertain = true;
}

static ALWAYS_INLINE void entry_change_ended(struct world *w, struct prepared_server *ps,
					     const struct prepared_op *op, bool done)
{
	struct prepared_entry *e = entry_find(ps, op->statement);

	ASSERT(e && e->in_flight > 0);
	if (done)
		entry_confirm(ps, e, op->kind != OP_EVICT, (enum parse_validity)op->validity);
	e->in_flight--;
	entry_settle(w, ps, e);
}

/* ---- the journal ---- */

static bool journal_grow(struct prepared_server *ps)
{
	uint32_t capacity = ps->op_capacity ? 2 * ps->op_capacity : OPS_FIRST;
	struct prepared_op *larger = mem_resize(NULL, capacity * sizeof(*larger));

	if (!larger)
		return false;
	for (uint32_t i = 0; i < ps->op_count; i++)
		larger[(ps->op_first + i) & (capacity - 1)] = *op_at(ps, i);
	mem_free(ps->ops);
	ps->ops = larger;
	ps->op_capacity = capacity;
	return true;
}

/* Returns the bytes that only the journal holds: the text of a Parse whose name has another
   statement meanwhile, or an unknown name. */
static size_t op_bytes(const struct prepared_op *op)
{
	if (op->kind == OP_PARSE && op->statement)
		return sizeof(*op->statement) + op->statement->size;
	if (op->kind == OP_USE && op->name && !op->statement)
		return sizeof(*op->name) + strlen(op->name->text);
	return 0;
}

bool op_push(struct prepared_server *ps, enum op_kind kind, struct prepared_name *name,
	     struct statement *st)
{
	if (ps->op_count == ps->op_capacity && !journal_grow(ps))
		return false;
	*op_at(ps, ps->op_count++) = (struct prepared_op){ .kind = (uint8_t)kind,
							   .name = name,
							   .statement = st };
	ps->journal_bytes += op_bytes(op_at(ps, ps->op_count - 1));
	if (name)
		name->refs++;
	if (st)
		statement_hold(st);
	return true;
}

enum parse_validity op_validity(const struct prepared_server *ps, uint32_t i)
{
	const struct prepared_op *op = op_at(ps, i);
	uint64_t number = ps->op_first + i;

	if (op->validity != PARSE_UNCERTAIN)
		return (enum parse_validity)op->validity;
	if (number < ps->invalid_before ||
	    (number < ps->literals_invalid_before && statement_may_differ(op->statement)))
		return PARSE_INVALID;
	return PARSE_UNCERTAIN;
}

struct prepared_op op_take(struct prepared_server *ps)
{
	struct prepared_op op = *op_at(ps, 0);

	if (op.validity == PARSE_UNCERTAIN)
		op.validity = (uint8_t)op_validity(ps, 0);
	ps->journal_bytes -= op_bytes(&op);
	ps->op_first++;
	ps->op_count--;
	return op;
}

void op_change_ended(struct world *w, struct prepared_server *ps, struct prepared_client *pc,
		     const struct prepared_op *op, bool done)
{
	if (op_changes_entry(op))
		entry_change_ended(w, ps, op, done);
	if (pc && op_changes_unnamed(op))
		unnamed_change_ended(pc, op, done);
	if (pc && op_changes_name(op))
		name_change_ended(w, pc, op->name, op->statement, done);
}

void op_release(struct world *w, struct prepared_op *op)
{
	name_drop(w, &op->name);
	statement_drop(w->statements, &op->statement);
	if (op->text) {
		bytes_free(op->text);
		mem_free(op->text);
	}
}

/* ---- commands and reports that concern many statements ---- */

static void uncertain_become(struct prepared_server *ps, struct list *uncertain,
			     enum parse_validity validity)
{
	struct list *node;

	while ((node = list_first(uncertain)) != NULL)
		entry_confirm(ps, LIST_OBJECT(node, struct prepared_entry, confirmed_link), true,
			      validity);
}

void prepared_parameters_changed(struct server *s, enum parameter_event event)
{
	struct prepared_server *ps = s->prepared;
	bool is_harmless;

	if (event == PARAMETERS_SET) {
		is_harmless = ledger_is_within_query(&s->ledger)
				      ? s->session.plain_set & SET_KEEPS_MEANING
				      : !s->session.meanings_prepared;
		server_doubt_meaning(s, !is_harmless || s->ledger.lost);
	}
	if (!ps)
		return;
	uncertain_become(ps, &ps->uncertain_literals,
			 event == PARAMETERS_UNCHANGED ? PARSE_VALID : PARSE_INVALID);
	if (event == PARAMETERS_SET) {
		ps->set_batch = s->batch + 1;
		ps->literals_invalid_before = ps->op_first + ps->op_count;
		return;
	}
	uncertain_become(ps, &ps->uncertain,
			 event == PARAMETERS_UNCHANGED ? PARSE_VALID : PARSE_INVALID);
	ps->has_uncertain = false;
	/* after an error, operations in flight are skipped */
	if (event == PARAMETERS_REPORTED)
		ps->invalid_before = ps->op_first + ps->op_count;
}

static void entries_forget(struct world *w, struct prepared_server *ps, struct list *confirmed)
{
	struct list *node;

	while ((node = list_first(confirmed)) != NULL) {
		struct prepared_entry *e = LIST_OBJECT(node, struct prepared_entry, confirmed_link);

		entry_confirm(ps, e, false, PARSE_VALID);
		entry_settle(w, ps, e);
	}
}

void prepared_deallocated(struct server *s, struct client *c, bool all)
{
	struct prepared_sql *sql = c && c->prepared ? c->prepared->sql : NULL;
	struct prepared_server *ps = s->prepared;
	struct prepared_name *n;
	struct list *node;

	if (!all) {
		/* drops the next name of the client's SQL that DEALLOCATE names */
		if (!sql || sql->server != s->peer.id)
			return;
		while (sql->deallocated < sql->count && !sql->names[sql->deallocated].drops)
			sql->deallocated++;
		if (sql->deallocated == sql->count)
			return;
		n = sql->names[sql->deallocated++].name;
		if (n)
			name_forget(c->peer.world, c->prepared, n);
		return;
	}
	if (ps) {
		entries_forget(s->peer.world, ps, &ps->confirmed);
		entries_forget(s->peer.world, ps, &ps->uncertain);
		entries_forget(s->peer.world, ps, &ps->uncertain_literals);
	}
	while (c && c->prepared && (node = list_first(&c->prepared->confirmed_names)) != NULL)
		name_forget(s->peer.world, c->prepared,
			    LIST_OBJECT(node, struct prepared_name, confirmed_link));
}

/* ---- the end ---- */

void prepared_client_free(struct client *c)
{
	struct prepared_client *pc = c->prepared;
	struct prepared_name *n, *next;

	if (!pc)
		return;
	HASH_ITER(hh, pc->names, n, next)
		name_remove(c->peer.world, pc, n);
	name_drop(c->peer.world, &pc->uncertain_name);
	sql_record_free(c->peer.world, pc);
	bytes_free(&pc->text);
	bytes_free(&pc->confirmed_text);
	mem_free(pc);
	c->prepared = NULL;
}

void prepared_server_free(struct server *s)
{
	struct prepared_server *ps = s->prepared;
	struct prepared_entry *e, *next;
	struct prepared_op op;

	if (!ps)
		return;
	while (ps->op_count > 0) {
		op = op_take(ps);
		op_release(s->peer.world, &op);
	}
	HASH_ITER(hh, ps->entries, e, next)
		entry_free(s->peer.world, ps, e);
	mem_free(ps->ops);
	mem_free(ps);
	s->prepared = NULL;
}

/* ---- the text of a message ---- */

static void prepared_find_text(const void *client, const char *name, struct request_text *text)
{
	const struct client *c = client;
	/* statements are not recorded while the server is the client's own */
	const struct prepared_client *pc = c->link_facts.shares_names ? c->prepared : NULL;
	const struct prepared_name *n = pc && *name ? name_find(pc, name, strlen(name) + 1) : NULL;
	const struct statement *st = n && n->sent ? n->sent : n ? n->confirmed : NULL;

	if (pc && !*name && pc->has_text)
		request_text_set(text, bytes_front(&pc->text), bytes_size(&pc->text));
	if (!st)
		return;
	request_text_set(text, st->body, st->size);
	text->statement = st;
	text->is_confirmed = n->sent == n->confirmed;
}

bool prepared_request_text(const struct client *c, const struct pg_frame *f,
			   struct request_text *text)
{
	return request_text_read(f, prepared_find_text, c, text);
}

/* ---- texts that end or cancel a session (sql/signal_text.h) ---- */

void prepared_find_signals(struct client *c)
{
	struct prepared_client *pc = c->prepared;
	bool signals = pc->has_text && bytes_size(&pc->text) > sizeof(SIGNAL_PREPARED) &&
		       text_starts((const char *)bytes_front(&pc->text), SIGNAL_PREPARED);

	for (const struct prepared_name *n = pc->names; n && !signals; n = n->hh.next)
		signals = n->sent && text_starts((const char *)n->sent->body, SIGNAL_PREPARED);
	if (signals)
		pc->unnamed_care |= UNNAMED_SIGNALS;
}

void prepared_note_signals(struct client *c)
{
	struct prepared_client *pc = prepared_client_of(c);

	if (pc)
		pc->unnamed_care |= UNNAMED_SIGNALS;
}
