/*
 * The tables of prepared statements: a client's names, a server's set, and the journal of what is under way between the two.
 *
 * Every change is made when its message is sent, and is in doubt until the answer comes: an error anywhere in front of it in
 * the same batch makes the server skip it. So everything is there twice, as sent and as certain, and when nothing is in
 * flight any more the second is the truth. The journal, which runs beside the marked entries of the ledger, says what an answer
 * was about.
 *
 * Invariants: what is in flight for one name or statement belongs to one batch (prepared.c waits otherwise), so that an error
 * leaves nothing of it in flight; without anything in flight sent and certain are the same, and a name or entry that
 * stands for nothing is gone; a server's count and list of use are those of the entries that are there as sent.
 */
#include "session/prepared_tables.h"

#include "base/assert.h"
#include "base/mem.h"
#include "session/relay.h"

#include <string.h>

#define OPS_FIRST 8
#define PUT_BY_MOST RELAY_BUFFER	/* bytes of texts of the unnamed statement for which the journal has room */
#define SMALL_TEXT 512		/* bytes of memory that a client may keep for more than it needs */
#define NAME_COUNTS_MOST 63	/* bytes: NAMEDATALEN of PostgreSQL, less the NUL */

struct prepared_client *prepared_client_of(struct client *c)
{
	if (!c->prepared)
		c->prepared = mem_try(sizeof(*c->prepared));
	return c->prepared;
}

struct prepared_server *prepared_server_of(struct server *s)
{
	uint8_t random[STATEMENT_TAG];

	if (s->prepared)
		return s->prepared;
	if (!world_draw(s->peer.world, random, sizeof(random)) || !(s->prepared = mem_try(sizeof(*s->prepared))))
		return NULL;
	list_init(&s->prepared->used);
	statement_names_make(&s->prepared->names, random);
	return s->prepared;
}

/* ---- the unnamed statement ---- */

static void swap_texts(struct prepared_client *of)
{
	struct bytes other = of->text;

	of->text = of->certain;
	of->certain = other;
}

/* The change before, not answered either, may be the last that is done: its text goes to the journal. A server may keep the answers to
   thousands to itself, and nobody goes back to one of them but behind an error: where there are many large ones, it is not known. */
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

bool unnamed_sent(struct prepared_client *of, struct prepared_server *on, enum prepared_what what, bool kept, uint32_t batch)
{
	struct prepared_op *op;

	if (of->in_flight == 0) {
		swap_texts(of);
		of->certain_kept = of->kept;
		of->put_by = 0;
	} else if (!put_by(of, on)) {
		return false;
	}
	bytes_consume(&of->text, bytes_size(&of->text));
	of->kept = kept;
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
	of->kept = of->certain_kept;
}

void unnamed_forgotten(struct prepared_client *of)
{
	of->certain_kept = false;
	if (of->in_flight == 0)
		of->kept = false;
}

void prepared_client_rests(struct client *c)
{
	struct bytes *text = &c->prepared->text, smaller = BYTES_EMPTY;

	if (c->prepared->certain.capacity > SMALL_TEXT)
		bytes_free(&c->prepared->certain);
	if (bytes_size(text) + SMALL_TEXT >= text->capacity)
		return;
	bytes_fit(&smaller, bytes_front(text), bytes_size(text));
	if (smaller.failed)
		return;
	bytes_free(text);
	*text = smaller;
}

/* ---- a client's names ---- */

/* How much of it tells one name from another: as PostgreSQL, whose table of statements cuts names off, though its errors do not. */
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
	name_drop(w, &n);
}

static void stand_for(struct world *w, struct statement **place, struct statement *st)
{
	struct statement *old = *place;

	*place = st ? statement_hold(st) : NULL;
	statement_drop(w->statements, &old);
}

void name_sent(struct world *w, struct prepared_name *n, struct statement *st, uint32_t batch)
{
	stand_for(w, &n->sent, st);
	n->in_flight++;
	n->batch = batch;
}

/* With nothing in flight what is certain is all there is. */
static void name_settle(struct world *w, struct prepared_client *of, struct prepared_name *n)
{
	if (n->in_flight > 0)
		return;
	stand_for(w, &n->sent, n->certain);
	if (!n->sent && n->listed)
		unlist(w, of, n);
}

void name_done(struct world *w, struct prepared_client *of, struct prepared_name *n, struct statement *st)
{
	stand_for(w, &n->certain, st);
	stand_for(w, &n->first, NULL);
	n->in_flight--;
	name_settle(w, of, n);
}

void name_undone(struct world *w, struct prepared_client *of, struct prepared_name *n)
{
	n->in_flight--;
	name_settle(w, of, n);
}

void name_moves(struct world *w, struct prepared_name *n, struct statement *st)
{
	bool is_back = st == n->first;

	ASSERT(n->in_flight == 0);
	if (!n->first && !n->certain->apart)
		n->first = statement_hold(n->certain);
	stand_for(w, &n->sent, st);
	stand_for(w, &n->certain, st);
	if (is_back)
		stand_for(w, &n->first, NULL);
}

void name_forgotten(struct world *w, struct prepared_client *of, struct prepared_name *n)
{
	stand_for(w, &n->certain, NULL);
	stand_for(w, &n->first, NULL);
	name_settle(w, of, n);
}

void names_gone(struct world *w, struct prepared_client *of)
{
	struct prepared_name *n, *next;

	HASH_ITER(hh, of->names, n, next)
		name_forgotten(w, of, n);
}

/* ---- a server's set ---- */

struct prepared_entry *entry_find(const struct prepared_server *of, const struct statement *st)
{
	struct prepared_entry *found;

	HASH_FIND_BYHASHVALUE(hh, of->set, &st->number, sizeof(st->number), (unsigned)st->number, found);
	return found;
}

/* As sent. */
static void put_there(struct prepared_server *of, struct prepared_entry *e, bool there)
{
	if (e->sent == there)
		return;
	e->sent = there;
	if (there) {
		of->count++;
		list_append(&of->used, &e->use);
	} else {
		of->count--;
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
	}
	put_there(of, e, true);
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

void entry_done(struct world *w, struct prepared_server *of, const struct statement *st, bool there)
{
	struct prepared_entry *e = entry_find(of, st);

	ASSERT(e && e->in_flight > 0);
	e->certain = there;
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

void entries_gone(struct world *w, struct prepared_server *of)
{
	struct prepared_entry *e, *next;

	HASH_ITER(hh, of->set, e, next) {
		e->certain = false;
		entry_settle(w, of, e);
	}
}

void readings_are(struct prepared_server *of, enum reading reading, bool under_way)
{
	struct prepared_op *op;

	if (!of->unsure)
		return;
	of->unsure = !under_way && of->op_count > 0;
	for (struct prepared_entry *e = of->set; e; e = e->hh.next)
		if (e->reading == READING_UNSURE)
			e->reading = (uint8_t)reading;
	for (uint32_t i = 0; under_way && i < of->op_count; i++) {
		op = op_at(of, i);
		if (op->reading == READING_UNSURE)
			op->reading = (uint8_t)reading;
	}
}

void readings_may_differ(struct prepared_server *of)
{
	if (!of->unsure)
		return;
	for (struct prepared_entry *e = of->set; e; e = e->hh.next)
		if (e->reading == READING_UNSURE && statement_may_differ(e->statement))
			e->reading = READING_OTHER;
	for (uint32_t i = 0; i < of->op_count; i++) {
		struct prepared_op *op = op_at(of, i);

		if (op->reading == READING_UNSURE && statement_may_differ(op->statement))
			op->reading = READING_OTHER;
	}
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
	*op_at(of, of->op_count++) = (struct prepared_op){ .what = (uint8_t)what, .name = name, .statement = st };
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

void prepared_client_free(struct client *c)
{
	struct prepared_client *of = c->prepared;
	struct prepared_name *n, *next;

	if (!of)
		return;
	HASH_ITER(hh, of->names, n, next)
		unlist(c->peer.world, of, n);
	name_drop(c->peer.world, &of->doubted_name);
	bytes_free(&of->text);
	bytes_free(&of->certain);
	mem_free(of);
	c->prepared = NULL;
}

bool prepared_is_quiet(const struct server *s)
{
	return !s->prepared || (s->prepared->op_count == 0 && s->prepared->unnamed_in_flight == 0);
}

unsigned prepared_client_count(const struct client *c)
{
	return c->prepared ? HASH_COUNT(c->prepared->names) : 0;
}

unsigned prepared_server_count(const struct server *s)
{
	return s->prepared ? s->prepared->count : 0;
}
