/*
 * The tables of prepared statements: a client's names, a server's set, and the journal of what is under way between the two.
 *
 * Every change is made when its message is sent, and stays in doubt until the answer comes: an error anywhere in front of it
 * in the same batch makes the server skip it. So each change has its undo, and the journal, which runs beside
 * the marked entries of the ledger, is undone from its end: the last change first. A change that depends on one in doubt is made
 * only within the same batch, where it would be skipped together with it (prepared.c waits otherwise).
 *
 * Invariants: a name is in its client's table exactly while `listed`; the set's count is that of its entries not CLOSING, which
 * are those on the list of use; a name lives as long as a table, a successor or the journal holds it.
 */
#include "base/mem.h"

#define HASH_NONFATAL_OOM 1
#define uthash_malloc(size) mem_try(size)
#define uthash_free(memory, size) mem_free(memory)
#define uthash_nonfatal_oom(element) ((element)->hh.tbl = NULL)
#include "session/prepared_tables.h"

#include "base/assert.h"
#include "session/world.h"

#include <string.h>

#define OPS_FIRST 8

struct prepared_client *prepared_client_of(struct client *c)
{
	if (!c->prepared)
		c->prepared = mem_try(sizeof(*c->prepared));
	return c->prepared;
}

struct prepared_server *prepared_server_of(struct server *s)
{
	if (!s->prepared && (s->prepared = mem_try(sizeof(*s->prepared))) != NULL)
		list_init(&s->prepared->used);
	return s->prepared;
}

/* ---- a client's names ---- */

struct prepared_name *name_find(const struct prepared_client *of, const char *text, size_t size)
{
	struct prepared_name *found;

	HASH_FIND(hh, of->names, text, size, found);
	return found;
}

static bool name_list(struct prepared_client *of, struct prepared_name *n)
{
	HASH_ADD_KEYPTR(hh, of->names, n->text, strlen(n->text) + 1, n);
	n->listed = n->hh.tbl != NULL;
	n->refs += n->listed;
	return n->listed;
}

static void name_delist(struct prepared_client *of, struct prepared_name *n)
{
	HASH_DEL(of->names, n);
	n->listed = false;
}

struct prepared_name *name_new(struct prepared_client *of, const char *text, size_t size, struct statement *statement,
			       struct prepared_name *replaced, uint32_t batch)
{
	struct prepared_name *n = mem_try(sizeof(*n) + size);

	if (!n)
		return NULL;
	memcpy(n->text, text, size);
	n->batch = batch;
	n->state = PREPARED_PENDING;
	if (replaced)
		name_delist(of, replaced);	/* the table's reference to it becomes the successor's */
	n->replaced = replaced;
	if (!name_list(of, n)) {
		if (replaced) {
			replaced->refs--;
			name_list(of, replaced);
		}
		mem_free(n);
		return NULL;
	}
	n->statement = statement;
	return n;
}

void name_drop(struct world *w, struct prepared_name **place)
{
	struct prepared_name *n = *place, *next;

	*place = NULL;
	while (n && --n->refs == 0) {
		next = n->replaced;
		statement_drop(w->statements, &n->statement);
		mem_free(n);
		n = next;
	}
}

void name_unlist(struct world *w, struct prepared_client *of, struct prepared_name *n)
{
	if (!n->listed)
		return;
	name_delist(of, n);
	name_drop(w, &n);
}

void name_undo(struct world *w, struct prepared_client *of, struct prepared_name *n)
{
	struct prepared_name *before = n->replaced;

	n->replaced = NULL;
	if (n->listed) {
		name_unlist(w, of, n);
		if (before && !before->deallocated)
			name_list(of, before);
	}
	name_drop(w, &before);
}

/* ---- a server's set ---- */

struct prepared_entry *entry_find(const struct prepared_server *of, const struct statement *st)
{
	struct prepared_entry *found;

	HASH_FIND_BYHASHVALUE(hh, of->set, &st->number, sizeof(st->number), (unsigned)st->number, found);
	return found;
}

struct prepared_entry *entry_parse(struct prepared_server *of, struct statement *st, uint32_t batch)
{
	struct prepared_entry *e = entry_find(of, st);

	if (!e) {
		e = mem_try(sizeof(*e));
		if (!e)
			return NULL;
		HASH_ADD_KEYPTR_BYHASHVALUE(hh, of->set, &st->number, sizeof(st->number), (unsigned)st->number, e);
		if (!e->hh.tbl) {
			mem_free(e);
			return NULL;
		}
		e->statement = statement_hold(st);
	} else {
		ASSERT(e->state == PREPARED_CLOSING);
		e->over_closing = true;
	}
	e->state = PREPARED_PENDING;
	e->batch = batch;
	of->count++;
	list_append(&of->used, &e->use);
	return e;
}

void entry_close(struct prepared_server *of, struct prepared_entry *e, uint32_t batch)
{
	e->state = PREPARED_CLOSING;
	e->batch = batch;
	of->count--;
	list_remove(&e->use);
}

void entry_remove(struct world *w, struct prepared_server *of, struct prepared_entry *e)
{
	if (e->state != PREPARED_CLOSING) {
		of->count--;
		list_remove(&e->use);
	}
	HASH_DEL(of->set, e);
	statement_drop(w->statements, &e->statement);
	mem_free(e);
}

void entry_undo_parse(struct world *w, struct prepared_server *of, struct prepared_entry *e)
{
	if (e->over_closing) {
		e->over_closing = false;
		entry_close(of, e, e->batch);
	} else {
		entry_remove(w, of, e);
	}
}

void entry_undo_close(struct world *w, struct prepared_server *of, struct prepared_entry *e)
{
	if (e->deallocated) {
		entry_remove(w, of, e);
		return;
	}
	e->state = PREPARED_SET;
	of->count++;
	list_append(&of->used, &e->use);
}

/* ---- the journal ---- */

struct prepared_op *op_at(const struct prepared_server *of, uint32_t i)
{
	i += of->op_head;
	return &of->ops[i < of->op_capacity ? i : i - of->op_capacity];
}

static bool ops_grow(struct prepared_server *of)
{
	uint32_t capacity = of->op_capacity ? 2 * of->op_capacity : OPS_FIRST;
	struct prepared_op *larger = mem_resize(NULL, capacity * sizeof(*larger));

	if (!larger)
		return false;
	for (uint32_t i = 0; i < of->op_count; i++)
		larger[i] = *op_at(of, i);
	mem_free(of->ops);
	of->ops = larger;
	of->op_capacity = capacity;
	of->op_head = 0;
	return true;
}

bool op_push(struct prepared_server *of, enum prepared_what what, struct prepared_name *name, struct statement *st)
{
	if (of->op_count == of->op_capacity && !ops_grow(of))
		return false;
	*op_at(of, of->op_count++) = (struct prepared_op){ (uint8_t)what, name, st };
	if (name)
		name->refs++;
	if (st)
		statement_hold(st);
	return true;
}

struct prepared_op op_take(struct prepared_server *of)
{
	struct prepared_op op = *op_at(of, 0);

	of->op_head = of->op_head + 1 < of->op_capacity ? of->op_head + 1 : 0;
	of->op_count--;
	return op;
}

void op_release(struct world *w, struct prepared_op *op)
{
	name_drop(w, &op->name);
	statement_drop(w->statements, &op->statement);
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
		entry_remove(s->peer.world, of, e);
	mem_free(of->ops);
	mem_free(of);
	s->prepared = NULL;
}

void prepared_client_free(struct client *c)
{
	struct prepared_client *of = c->prepared;
	struct prepared_name *n, *next;

	if (!of)
		return;
	HASH_ITER(hh, of->names, n, next)
		name_unlist(c->peer.world, of, n);
	bytes_free(&of->text);
	mem_free(of);
	c->prepared = NULL;
}

unsigned prepared_client_count(const struct client *c)
{
	return c->prepared ? HASH_COUNT(c->prepared->names) : 0;
}

unsigned prepared_server_count(const struct server *s)
{
	return s->prepared ? s->prepared->count : 0;
}
