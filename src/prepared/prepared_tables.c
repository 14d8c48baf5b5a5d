/*
 * The tables of prepared statements: a server's set, and the journal of what is under way between a client and it. A client's names
 * are in prepared_names.c.
 *
 * Every change is made when its message is sent, and is in doubt until the answer comes: an error anywhere in front of it in
 * the same batch makes the server skip it. So everything is there twice, as sent and as certain, and when nothing is in
 * flight any more the second is the truth. The journal, which runs beside the entries with MARK_PREPARED of the ledger, says what an answer
 * was about.
 *
 * Invariants: what is in flight for one name or statement belongs to one batch (prepared.c waits otherwise), so that an error
 * leaves nothing of it in flight; without anything in flight sent and certain are the same, and a name or entry that
 * stands for nothing is gone; a server's count and list of use are those of the entries that are there as sent.
 *
 * What is in flight may be as deep as a pipeline, and any answer may concern everything that is certain. So what is certain, and what
 * is unsure, is on lists: an answer takes time for each entry that it takes off, and for nothing else. What it means for operations in
 * flight is one number: all before it.
 */
#include "prepared/prepared_tables.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

#define OPS_FIRST 8

struct prepared_server *prepared_server_of(struct server *s)
{
	uint8_t random[STATEMENT_TAG];

	if (s->prepared)
		return s->prepared;
	if (!randomness_draw(&s->peer.world->randomness, random, sizeof(random)) || !(s->prepared = mem_try(sizeof(*s->prepared))))
		return NULL;
	list_init(&s->prepared->used);
	list_init(&s->prepared->held);
	list_init(&s->prepared->doubted);
	list_init(&s->prepared->doubted_literals);
	statement_names_make(&s->prepared->names, random);
	return s->prepared;
}

/* ---- a server's set ---- */

struct prepared_entry *entry_find(const struct prepared_server *of, const struct statement *st)
{
	struct prepared_entry *found;

	HASH_FIND_BYHASHVALUE(hh, of->set, &st->number, sizeof(st->number), (unsigned)st->number, found);
	return found;
}

size_t entry_cost(const struct statement *st)
{
	return sizeof(struct prepared_entry) + sizeof(*st) + st->size;
}

/* As sent. */
static void put_there(struct prepared_server *of, struct prepared_entry *e, bool there)
{
	if (e->sent == there)
		return;
	e->sent = there;
	if (there) {
		of->count++;
		of->bytes += entry_cost(e->statement);
		list_append(&of->used, &e->use);
	} else {
		of->count--;
		of->bytes -= entry_cost(e->statement);
		list_remove(&e->use);
	}
}

bool entry_parse_sent(struct prepared_server *of, struct statement *st, uint32_t batch)
{
	struct prepared_entry *e = entry_find(of, st);

	if (!e) {
		e = mem_try(sizeof(*e));
		if (!e)
			return false;
		HASH_ADD_KEYPTR_BYHASHVALUE(hh, of->set, &st->number, sizeof(st->number), (unsigned)st->number, e);
		if (!HASH_HAS(hh, e)) {
			mem_free(e);
			return false;
		}
		e->statement = statement_hold(st);
		list_init(&e->use);
		list_init(&e->held);
	}
	put_there(of, e, true);
	e->types = 0;
	e->in_flight++;
	e->batch = batch;
	return true;
}

void entry_close_sent(struct prepared_server *of, struct prepared_entry *e, uint32_t batch)
{
	put_there(of, e, false);
	e->in_flight++;
	e->batch = batch;
}

void entry_used(struct prepared_server *of, struct prepared_entry *e)
{
	list_remove(&e->use);
	list_append(&of->used, &e->use);
}

static void entry_free(struct world *w, struct prepared_server *of, struct prepared_entry *e)
{
	put_there(of, e, false);
	list_remove(&e->held);
	HASH_DEL(of->set, e);
	statement_drop(w->statements, &e->statement);
	mem_free(e);
}

static void entry_settle(struct world *w, struct prepared_server *of, struct prepared_entry *e)
{
	if (e->in_flight > 0)
		return;
	put_there(of, e, e->certain);
	if (!e->certain)
		entry_free(w, of, e);
}

/* What is not certain has no reading that counts. */
static void hold(struct prepared_server *of, struct prepared_entry *e)
{
	list_remove(&e->held);
	if (!e->certain)
		return;
	if (e->reading != READING_UNSURE) {
		list_append(&of->held, &e->held);
		return;
	}
	list_append(statement_may_differ(e->statement) ? &of->doubted_literals : &of->doubted, &e->held);
	of->unsure = true;
}

void entry_is_certain(struct prepared_server *of, struct prepared_entry *e, bool there)
{
	e->certain = there;
	hold(of, e);
}

void entry_done(struct world *w, struct prepared_server *of, const struct statement *st, bool there)
{
	struct prepared_entry *e = entry_find(of, st);

	ASSERT(e && e->in_flight > 0);
	entry_is_certain(of, e, there);
	e->in_flight--;
	entry_settle(w, of, e);
}

void entry_undone(struct world *w, struct prepared_server *of, const struct statement *st)
{
	struct prepared_entry *e = entry_find(of, st);

	ASSERT(e && e->in_flight > 0);
	e->in_flight--;
	entry_settle(w, of, e);
}

static void list_gone(struct world *w, struct prepared_server *of, struct list *held)
{
	struct list *node;

	while ((node = list_first(held)) != NULL) {
		struct prepared_entry *e = LIST_OBJECT(node, struct prepared_entry, held);

		entry_is_certain(of, e, false);
		entry_settle(w, of, e);
	}
}

void entries_gone(struct world *w, struct prepared_server *of)
{
	list_gone(w, of, &of->held);
	list_gone(w, of, &of->doubted);
	list_gone(w, of, &of->doubted_literals);
}

/* ---- how texts were read ---- */

void entry_was_read(struct prepared_server *of, struct prepared_entry *e, enum reading reading)
{
	e->reading = (uint8_t)reading;
	hold(of, e);
}

static void list_reads(struct prepared_server *of, struct list *doubted, enum reading reading)
{
	struct list *node;

	while ((node = list_first(doubted)) != NULL)
		entry_was_read(of, LIST_OBJECT(node, struct prepared_entry, held), reading);
}

void readings_are(struct prepared_server *of, enum reading reading)
{
	list_reads(of, &of->doubted, reading);
	list_reads(of, &of->doubted_literals, reading);
	of->unsure = false;
}

void readings_differ(struct prepared_server *of)
{
	readings_are(of, READING_OTHER);
	of->differ_before = of->op_first + of->op_count;
}

void readings_may_differ(struct prepared_server *of)
{
	list_reads(of, &of->doubted_literals, READING_OTHER);
	of->literals_differ_before = of->op_first + of->op_count;
}

enum reading op_reading(const struct prepared_server *of, uint32_t i)
{
	const struct prepared_op *op = op_at(of, i);
	uint64_t number = of->op_first + i;

	if (op->reading != READING_UNSURE)
		return (enum reading)op->reading;
	if (number < of->differ_before || (number < of->literals_differ_before && statement_may_differ(op->statement)))
		return READING_OTHER;
	return READING_UNSURE;
}

/* ---- the journal ---- */

struct prepared_op *op_at(const struct prepared_server *of, uint32_t i)
{
	return &of->ops[(of->op_first + i) & (of->op_capacity - 1)];
}

static bool ops_grow(struct prepared_server *of)
{
	uint32_t capacity = of->op_capacity ? 2 * of->op_capacity : OPS_FIRST;
	struct prepared_op *larger = mem_resize(NULL, capacity * sizeof(*larger));

	if (!larger)
		return false;
	for (uint32_t i = 0; i < of->op_count; i++)
		larger[(of->op_first + i) & (capacity - 1)] = *op_at(of, i);
	mem_free(of->ops);
	of->ops = larger;
	of->op_capacity = capacity;
	return true;
}

/* What it keeps that is in no table any more, or never was: the text of a Parse when its name has become another one's meanwhile, or the
   name of a message that names nothing. */
static size_t op_keeps(const struct prepared_op *op)
{
	if (op->what == OP_PARSE && op->statement)
		return sizeof(*op->statement) + op->statement->size;
	if (op->what == OP_USE && op->name && !op->statement)
		return sizeof(*op->name) + strlen(op->name->text);
	return 0;
}

bool op_push(struct prepared_server *of, enum prepared_what what, struct prepared_name *name, struct statement *st)
{
	if (of->op_count == of->op_capacity && !ops_grow(of))
		return false;
	*op_at(of, of->op_count++) = (struct prepared_op){ .what = (uint8_t)what, .name = name, .statement = st };
	of->under_way += op_keeps(op_at(of, of->op_count - 1));
	if (name)
		name->refs++;
	if (st)
		statement_hold(st);
	return true;
}

struct prepared_op op_take(struct prepared_server *of)
{
	struct prepared_op op = *op_at(of, 0);

	if (op.reading == READING_UNSURE)
		op.reading = (uint8_t)op_reading(of, 0);
	of->under_way -= op_keeps(&op);
	of->op_first++;
	of->op_count--;
	return op;
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

/* ---- the end ---- */

void prepared_server_free(struct server *s)
{
	struct prepared_server *of = s->prepared;
	struct prepared_entry *e, *next;
	struct prepared_op op;

	if (!of)
		return;
	while (of->op_count > 0) {
		op = op_take(of);
		op_release(s->peer.world, &op);
	}
	HASH_ITER(hh, of->set, e, next)
		entry_free(s->peer.world, of, e);
	mem_free(of->ops);
	mem_free(of);
	s->prepared = NULL;
}

bool prepared_is_quiet(const struct server *s)
{
	return !s->prepared || (s->prepared->op_count == 0 && s->prepared->unnamed_in_flight == 0);
}

unsigned prepared_server_count(const struct server *s)
{
	return s->prepared ? s->prepared->count : 0;
}
