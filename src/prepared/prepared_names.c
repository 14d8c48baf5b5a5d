/*
 * The tables of prepared statements: what a client has, its names and the text of its unnamed statement. prepared_tables.c has the
 * server's side, the journal, and what holds for both.
 */
#include "prepared/prepared_tables.h"

#include "base/assert.h"
#include "base/inline.h"
#include "base/mem.h"

#include <string.h>

#define PUT_BY_MOST READ_BUFFER	/* bytes of texts of the unnamed statement for which the journal has room */
#define SMALL_TEXT 512		/* bytes of memory that a client may keep for more than it needs */
#define NAME_COUNTS_MOST 63	/* bytes: NAMEDATALEN of PostgreSQL, less the NUL */

struct prepared_client *prepared_client_of(struct client *c)
{
	if (c->prepared || !(c->prepared = mem_try(sizeof(*c->prepared))))
		return c->prepared;
	list_init(&c->prepared->held);
	return c->prepared;
}

/* ---- the unnamed statement ---- */

static void swap_texts(struct prepared_client *of)
{
	struct bytes other = of->text;

	of->text = of->certain;
	of->certain = other;
}

/* The change before, not answered either, may be the last that is done: its text goes to the journal. A server may keep the answers to
   thousands to itself, and no client goes back to one of them but after an error: where there are many large ones, it is not known. */
static bool put_by(struct prepared_client *of, struct prepared_server *on)
{
	struct prepared_op *op;
	uint32_t i = on->op_count;

	do {
		ASSERT(i > 0);
		op = op_at(on, --i);
	} while (!op_changes_unnamed(op) || !op->last);
	op->last = false;
	if (!op->kept)
		return true;
	if (of->put_by + bytes_size(&of->text) > PUT_BY_MOST) {
		op->kept = false;
		return true;
	}
	op->text = mem_try(sizeof(*op->text));
	if (!op->text)
		return false;
	of->put_by += bytes_size(&of->text);
	*op->text = of->text;
	of->text = (struct bytes)BYTES_EMPTY;
	return true;
}

/* A text that takes its place is sent. What it may do, the unnamed statement may do as long as that one may be skipped. */
static NEVER_INLINE void text_becomes_another(struct prepared_client *of)
{
	bool does = of->unnamed_deallocates & UNNAMED_SENT, others = of->in_flight > 0 && of->unnamed_deallocates & UNNAMED_OTHER;

	of->unnamed_deallocates = does || others ? UNNAMED_OTHER : 0;
}

bool unnamed_sent(struct prepared_client *of, struct prepared_server *on, enum prepared_what what, bool kept, uint32_t batch)
{
	struct prepared_op *op;

	if (of->unnamed_deallocates)
		text_becomes_another(of);
	if (of->in_flight == 0) {
		swap_texts(of);
		of->certain_meaning = of->meaning;
		of->certain_kept = of->kept;
		of->put_by = 0;
	} else if (!put_by(of, on)) {
		return false;
	}
	bytes_consume(&of->text, bytes_size(&of->text));
	of->kept = kept;
	of->meaning = (struct unnamed_meaning){ .at = of->meaning.at };
	of->in_flight++;
	of->batch = batch;
	of->number++;
	if (!op_push(on, what, NULL, NULL))
		return false;
	op = op_at(on, on->op_count - 1);
	op->last = true;
	op->kept = kept;
	return true;
}

void unnamed_done(struct prepared_client *of, const struct prepared_op *op)
{
	of->in_flight--;
	of->certain_meaning = (struct unnamed_meaning){ .at = of->meaning.at };
	of->certain_kept = op->kept;
	if (!op->text)
		return;
	of->put_by -= bytes_size(op->text);
	bytes_free(&of->certain);
	of->certain = *op->text;
	*op->text = (struct bytes)BYTES_EMPTY;
}

void unnamed_undone(struct prepared_client *of)
{
	if (--of->in_flight > 0)
		return;
	swap_texts(of);
	of->meaning = of->certain_meaning;
	of->kept = of->certain_kept;
	if (of->unnamed_deallocates)
		of->unnamed_deallocates |= UNNAMED_SENT;
}

void unnamed_forgotten(struct prepared_client *of)
{
	of->certain_kept = false;
	if (of->in_flight == 0)
		of->kept = false;
}

void prepared_client_rests(struct client *c)
{
	struct bytes *text = &c->prepared->text;
	size_t size = bytes_size(text);
	uint8_t *smaller;

	c->prepared->deallocates = false;
	if (c->prepared->certain.capacity > SMALL_TEXT)
		bytes_free(&c->prepared->certain);
	if (size + SMALL_TEXT >= text->capacity)
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

/* ---- the names ---- */

/* How much of it tells one name from another: as PostgreSQL: its table of statements cuts names off, though its errors do not. */
static size_t that_counts(size_t size)
{
	return size - 1 < NAME_COUNTS_MOST ? size - 1 : NAME_COUNTS_MOST;
}

struct prepared_name *name_find(const struct prepared_client *of, const char *text, size_t size)
{
	struct prepared_name *found;

	HASH_FIND(hh, of->names, text, that_counts(size), found);
	return found;
}

struct prepared_name *name_new(struct prepared_client *of, const char *text, size_t size)
{
	struct prepared_name *n = mem_try(sizeof(*n) + size);

	if (!n)
		return NULL;
	memcpy(n->text, text, size);
	n->refs = 1;
	list_init(&n->held);
	if (!of)
		return n;
	HASH_ADD_KEYPTR(hh, of->names, n->text, that_counts(size), n);
	n->listed = HASH_HAS(hh, n);
	if (n->listed)
		return n;
	mem_free(n);
	return NULL;
}

bool name_is_same(const struct prepared_name *n, const char *text)
{
	return strncmp(n->text, text, NAME_COUNTS_MOST) == 0;
}

void name_drop(struct world *w, struct prepared_name **place)
{
	struct prepared_name *n = *place;

	*place = NULL;
	if (!n || --n->refs > 0)
		return;
	statement_drop(w->statements, &n->sent);
	statement_drop(w->statements, &n->certain);
	statement_drop(w->statements, &n->first);
	mem_free(n);
}

static void unlist(struct world *w, struct prepared_client *of, struct prepared_name *n)
{
	HASH_DEL(of->names, n);
	n->listed = false;
	list_remove(&n->held);
	of->bytes -= n->cost;
	name_drop(w, &n);
}

static void stand_for(struct world *w, struct statement **place, struct statement *st)
{
	struct statement *old = *place;

	*place = st ? statement_hold(st) : NULL;
	statement_drop(w->statements, &old);
}

void name_is_certain(struct world *w, struct prepared_client *of, struct prepared_name *n, struct statement *st)
{
	stand_for(w, &n->certain, st);
	list_remove(&n->held);
	if (st)
		list_append(&of->held, &n->held);
}

size_t name_cost(size_t name_size, size_t body_size)
{
	return sizeof(struct prepared_name) + name_size + sizeof(struct statement) + body_size;
}

void name_charge(struct prepared_client *of, struct prepared_name *n, const struct statement *st)
{
	size_t cost = name_cost(strlen(n->text) + 1, st->size);

	of->bytes += cost - n->cost;
	n->cost = (uint32_t)cost;
}

void name_sent(struct world *w, struct prepared_client *of, struct prepared_name *n, struct statement *st, uint32_t batch)
{
	stand_for(w, &n->sent, st);
	if (st)
		name_charge(of, n, st);
	if (n->in_flight++ == 0)
		n->certain_told = n->told;
	n->told = 0;
	n->batch = batch;
}

/* With nothing in flight what is certain is all there is. */
static void name_settle(struct world *w, struct prepared_client *of, struct prepared_name *n)
{
	if (n->in_flight > 0)
		return;
	stand_for(w, &n->sent, n->certain);
	n->told = n->certain_told;
	if (!n->sent && n->listed)
		unlist(w, of, n);
}

void name_done(struct world *w, struct prepared_client *of, struct prepared_name *n, struct statement *st)
{
	name_is_certain(w, of, n, st);
	n->certain_told = 0;
	stand_for(w, &n->first, NULL);
	n->in_flight--;
	name_settle(w, of, n);
}

void name_undone(struct world *w, struct prepared_client *of, struct prepared_name *n)
{
	n->in_flight--;
	name_settle(w, of, n);
}

void name_moves(struct world *w, struct prepared_client *of, struct prepared_name *n, struct statement *st)
{
	bool is_back = st == n->first;

	if (n->in_flight > 0) {
		stand_for(w, &n->sent, st);
		return;
	}
	if (!n->first && !n->certain->apart)
		n->first = statement_hold(n->certain);
	stand_for(w, &n->sent, st);
	name_is_certain(w, of, n, st);
	if (is_back)
		stand_for(w, &n->first, NULL);
}

void name_forgotten(struct world *w, struct prepared_client *of, struct prepared_name *n)
{
	name_is_certain(w, of, n, NULL);
	stand_for(w, &n->first, NULL);
	name_settle(w, of, n);
}

void names_gone(struct world *w, struct prepared_client *of)
{
	struct list *node;

	while ((node = list_first(&of->held)) != NULL)
		name_forgotten(w, of, LIST_OBJECT(node, struct prepared_name, held));
}

/* ---- names in SQL ---- */

void sql_forget(struct world *w, struct prepared_client *of)
{
	struct prepared_sql *sql = of->sql;

	of->sql = NULL;
	for (uint32_t i = 0; sql && i < sql->count; i++)
		name_drop(w, &sql->names[i].name);
	mem_free(sql);
}

/* ---- the end ---- */

void prepared_client_free(struct client *c)
{
	struct prepared_client *of = c->prepared;
	struct prepared_name *n, *next;

	if (!of)
		return;
	HASH_ITER(hh, of->names, n, next)
		unlist(c->peer.world, of, n);
	name_drop(c->peer.world, &of->doubted_name);
	sql_forget(c->peer.world, of);
	bytes_free(&of->text);
	bytes_free(&of->certain);
	mem_free(of);
	c->prepared = NULL;
}

unsigned prepared_client_count(const struct client *c)
{
	return c->prepared ? HASH_COUNT(c->prepared->names) : 0;
}
