/*
 * Prepared statements in a handover record (handover/handover.c): the names of a client, the
 * statements of a server, and the journal of operations in progress between them (statements.c). A
 * server's names for statements contain their numbers and the tag of the connection, so numbers and
 * tag do not change.
 *
 * The old process packs a server and then its client; the new process unpacks them in the same
 * order. A record refers to a statement by its number, and the record of the statement precedes it.
 *
 * The journal refers to names of the client, including names that are no longer in its table. It
 * stores the index of the name in the client's record; therefore the client's record contains the
 * journal, although the journal belongs to the server.
 */
#include "prepared/prepared_record.h"

#include "base/hash.h"
#include "prepared/statements.h"

#include <string.h>

#define NAME_PACKED 44			/* minimum sizes of a name, an entry, an operation */
#define ENTRY_PACKED 28
#define OP_PACKED 18
#define SQL_NAME_PACKED 9
#define NO_NAME UINT32_MAX

/* ---- statements ---- */

/*
 * Statements are shared, so each statement is sent once, before the first connection that uses it;
 * the records of connections refer to it by its number.
 *
 * Invariant: a table of known statements holds a reference to each statement, and each number is in
 * it once.
 */
struct known_statement {
	UT_hash_handle hh;
	uint64_t number;
	struct statement *statement;
};

/* False: no memory. */
static bool record_statement_remember(struct known_statement **table, struct statement *st)
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

void record_statements_free(struct record_statements *all)
{
	struct known_statement *known, *next;

	HASH_ITER(hh, all->known, known, next) {
		HASH_DEL(all->known, known);
		statement_drop(all->world->statements, &known->statement);
		mem_free(known);
	}
}

/* Sends a new statement, before the first record that refers to it. False: the channel is broken,
   or no memory. */
static bool record_statement_send(struct record_statements *all, struct statement *st)
{
	struct known_statement *known;
	struct bytes out = BYTES_EMPTY;
	bool sent;

	HASH_FIND(hh, all->known, &st->number, sizeof(st->number), known);
	if (known)
		return true;
	if (!record_statement_remember(&all->known, st))
		return false;
	statement_pack(&out, all->world->params, st);
	sent = all->send(all, &out);
	bytes_free(&out);
	return sent;
}

void record_statement_unpack(struct unpack *in, struct record_statements *all)
{
	struct world *w = all->world;
	struct statement *st = statement_unpack(in, w->params, w->statements);
	struct known_statement *known = NULL;

	in->bad |= !st;
	if (!st)
		return;
	HASH_FIND(hh, all->known, &st->number, sizeof(st->number), known);
	in->bad |= known != NULL;
	if (!known)
		in->bad |= !record_statement_remember(&all->known, st);
	statement_drop(w->statements, &st);
}

/* Reads a number and returns the statement with this number, without a reference; NULL for 0. An
   unknown number sets in->bad. */
static struct statement *known_statement(struct unpack *in, const struct record_statements *all)
{
	uint64_t number = unpack_u64(in);
	struct known_statement *known = NULL;

	if (number == 0)
		return NULL;
	HASH_FIND(hh, all->known, &number, sizeof(number), known);
	in->bad |= !known;
	return known ? known->statement : NULL;
}

/* Packs the number of the statement, which is sent first unless it has been sent; 0 for NULL. */
static void number_pack(struct record_statements *all, struct bytes *out, struct statement *st)
{
	out->failed = out->failed || (st && !record_statement_send(all, st));
	pack_u64(out, st ? st->number : 0);
}

/* ---- a server's set ---- */

static void entry_pack(struct record_statements *all, struct bytes *out,
		       const struct prepared_entry *e)
{
	number_pack(all, out, e->statement);
	bytes_append_u32(out, e->in_flight);
	bytes_append_u32(out, e->batch);
	pack_bool(out, e->sent);
	pack_bool(out, e->confirmed);
	bytes_append_u8(out, e->validity);
	pack_u64(out, e->types);
	pack_bool(out, e->describing);
}

void prepared_server_pack(struct record_statements *all, struct bytes *out, const struct server *s)
{
	const struct prepared_server *ps = s->prepared;

	pack_bool(out, ps != NULL);
	if (!ps)
		return;
	/* in the order of their last use */
	bytes_append_u32(out, HASH_COUNT(ps->entries));
	LIST_EACH(node, &ps->lru)
		entry_pack(all, out, LIST_OBJECT(node, struct prepared_entry, lru_link));
	for (const struct prepared_entry *e = ps->entries; e; e = e->hh.next)
		if (!e->sent)
			entry_pack(all, out, e);
	pack_u64(out, s->unnamed_of);
	bytes_append_u32(out, ps->unnamed_number);
	bytes_append_u32(out, ps->unnamed_in_flight);
	bytes_append_u32(out, ps->unnamed_batch);
	pack_bool(out, ps->unnamed_confirmed);
	pack_bool(out, ps->unnamed_describing);
	bytes_append_u32(out, ps->set_batch);
	pack_blob(out, statement_names_tag(&ps->names), STATEMENT_TAG);
}

static void entry_unpack(struct unpack *in, struct record_statements *all,
			 struct prepared_server *ps)
{
	struct statement *st = known_statement(in, all);
	uint32_t in_flight = unpack_u32(in), batch = unpack_u32(in);
	bool sent = unpack_bool(in), confirmed = unpack_bool(in);
	uint8_t validity = unpack_u8(in);
	uint64_t types = unpack_u64(in);
	bool describing = unpack_bool(in);
	struct prepared_entry *e;

	in->bad |= !st || validity > PARSE_INVALID || entry_find(ps, st) ||
		   (in_flight == 0 && !(sent && confirmed));
	if (in->bad || !entry_change_sent(ps, st, sent, batch)) {
		in->bad = true;
		return;
	}
	e = entry_find(ps, st);
	e->in_flight = in_flight;
	entry_confirm(ps, e, confirmed, (enum parse_validity)validity);
	e->types = types;
	e->describing = describing;
}

void prepared_server_unpack(struct unpack *in, struct record_statements *all, struct server *s)
{
	uint8_t tag[STATEMENT_TAG];
	struct prepared_server *ps;
	uint32_t count;

	if (!unpack_bool(in))
		return;
	ps = prepared_server_of(s);
	if (!ps) {
		in->bad = true;
		return;
	}
	for (count = unpack_count(in, ENTRY_PACKED); count > 0 && !in->bad; count--)
		entry_unpack(in, all, ps);
	server_unnamed_to(s, unpack_u64(in));
	ps->unnamed_number = unpack_u32(in);
	ps->unnamed_in_flight = unpack_u32(in);
	ps->unnamed_batch = unpack_u32(in);
	ps->unnamed_confirmed = unpack_bool(in);
	ps->unnamed_describing = unpack_bool(in);
	ps->set_batch = unpack_u32(in);
	unpack_exactly(in, tag, sizeof(tag));
	in->bad |= !in->bad && !statement_names_restore(&ps->names, tag);
}

/* ---- the names ---- */

/* The names in the order of their places in the record. */
struct names {
	struct prepared_name **items;
	uint32_t count, listed;
};

/* The i-th name that the journal or the record of SQL refers to, or NULL. */
static struct prepared_name *referred(const struct prepared_client *pc,
				      const struct prepared_server *ps, uint32_t i)
{
	uint32_t ops = ps ? ps->op_count : 0;

	return i < ops ? op_at(ps, i)->name : pc->sql->names[i - ops].name;
}

/* Collects the names of the client's table, then the names that only the journal or the record of
   SQL refers to. False: no memory. */
static bool record_names_collect(struct names *names, const struct prepared_client *pc,
				      const struct prepared_server *ps)
{
	uint32_t count = (ps ? ps->op_count : 0) + (pc->sql ? pc->sql->count : 0);

	names->count = 0;
	names->items = mem_try((HASH_COUNT(pc->names) + (size_t)count + 1) *
			       sizeof(names->items[0]));
	if (!names->items)
		return false;
	for (struct prepared_name *n = pc->names; n; n = n->hh.next) {
		n->handover_index = names->count;
		names->items[names->count++] = n;
	}
	names->listed = names->count;
	for (uint32_t i = 0; i < count; i++) {
		struct prepared_name *n = referred(pc, ps, i);

		if (n && !n->in_table)
			n->handover_index = NO_NAME;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct prepared_name *n = referred(pc, ps, i);

		if (!n || n->handover_index != NO_NAME)
			continue;
		n->handover_index = names->count;
		names->items[names->count++] = n;
	}
	return true;
}

static void names_pack(struct record_statements *all, struct bytes *out, const struct names *names)
{
	bytes_append_u32(out, names->count);
	bytes_append_u32(out, names->listed);
	for (uint32_t i = 0; i < names->count; i++) {
		const struct prepared_name *n = names->items[i];

		/* a name has only its terminating NUL, which the key of the table includes */
		pack_text(out, n->text);
		number_pack(all, out, n->sent);
		number_pack(all, out, n->confirmed);
		number_pack(all, out, n->in_table ? n->original : NULL);
		bytes_append_u32(out, n->in_flight);
		bytes_append_u32(out, n->batch);
		pack_u64(out, n->types);
	}
}

static struct prepared_name *name_unpack(struct unpack *in, struct record_statements *all,
					 struct prepared_client *pc)
{
	const char *text = unpack_text(in);
	struct statement *sent = known_statement(in, all), *confirmed = known_statement(in, all),
			 *original = known_statement(in, all);
	uint32_t in_flight = unpack_u32(in), batch = unpack_u32(in);
	uint64_t types = unpack_u64(in);
	struct prepared_name *n = NULL;

	if (text && !in->bad && !(pc && name_find(pc, text, strlen(text) + 1)))
		n = name_new(pc, text, strlen(text) + 1);
	in->bad |= !n;
	if (!n)
		return NULL;
	if (pc)
		name_restore(all->world, pc, n, sent, confirmed);
	else if (sent)
		name_set_sent(all->world, n, sent);
	n->original = original ? statement_hold(original) : NULL;
	n->in_flight = in_flight;
	n->batch = batch;
	n->types = types;
	n->confirmed_types = in_flight > 0 ? 0 : types;
	return n;
}

/* ---- the journal ---- */

static void journal_pack(struct record_statements *all, struct bytes *out,
			 const struct prepared_server *ps)
{
	uint32_t count = ps ? ps->op_count : 0;

	bytes_append_u32(out, count);
	for (uint32_t i = 0; i < count; i++) {
		const struct prepared_op *op = op_at(ps, i);

		bytes_append_u8(out, op->kind);
		pack_bool(out, op->is_last_change);
		pack_bool(out, op->has_text);
		pack_bool(out, op->is_internal);
		bytes_append_u8(out, (uint8_t)op_validity(ps, i));
		pack_bool(out, op->text != NULL);
		if (op->text)
			pack_blob(out, op->text->data ? bytes_front(op->text) : NULL,
				  bytes_size(op->text));
		bytes_append_u32(out, op->name ? op->name->handover_index : NO_NAME);
		number_pack(all, out, op->statement);
	}
}

static struct bytes *text_unpack(struct unpack *in)
{
	struct bytes *text = mem_try(sizeof(*text));
	size_t size;
	const uint8_t *at = unpack_blob(in, &size);

	in->bad |= !text;
	if (text && !in->bad) {
		bytes_append(text, at, size);
		in->bad |= text->failed;
	}
	return text;
}

static void op_unpack(struct unpack *in, struct record_statements *all, struct prepared_server *ps,
		      struct prepared_name *const *names, uint32_t name_count)
{
	uint8_t kind = unpack_u8(in);
	bool is_last_change = unpack_bool(in), has_text = unpack_bool(in),
	     is_internal = unpack_bool(in);
	uint8_t validity = unpack_u8(in);
	struct bytes *text = unpack_bool(in) ? text_unpack(in) : NULL;
	uint32_t place = unpack_u32(in);
	struct statement *st = known_statement(in, all);
	struct prepared_op *op;

	in->bad |= kind > OP_LEARN || validity > PARSE_INVALID ||
		   (place != NO_NAME && place >= name_count);
	if (in->bad ||
	    !op_push(ps, (enum op_kind)kind, place == NO_NAME ? NULL : names[place], st)) {
		in->bad = true;
		if (text)
			bytes_free(text);
		mem_free(text);
		return;
	}
	op = op_at(ps, ps->op_count - 1);
	op->is_last_change = is_last_change;
	op->has_text = has_text;
	op->is_internal = is_internal;
	op->validity = validity;
	op->text = text;
}

/* ---- names in SQL ---- */

static void sql_pack(struct bytes *out, const struct prepared_sql *sql)
{
	pack_bool(out, sql != NULL);
	if (!sql)
		return;
	pack_u64(out, sql->server);
	bytes_append_u32(out, sql->batch);
	bytes_append_u32(out, sql->number);
	pack_u64(out, sql->statement);
	bytes_append_u32(out, sql->deallocated);
	bytes_append_u32(out, sql->count);
	for (uint32_t i = 0; i < sql->count; i++) {
		const struct prepared_sql_name *n = &sql->names[i];

		bytes_append_u32(out, n->name ? n->name->handover_index : NO_NAME);
		pack_bool(out, n->drops);
		pack_text(out, n->end);
	}
}

static void sql_unpack(struct unpack *in, struct prepared_client *pc,
		       struct prepared_name *const *names, uint32_t name_count)
{
	struct prepared_sql head = { .server = 0 }, *sql;

	if (!unpack_bool(in))
		return;
	head.server = unpack_u64(in);
	head.batch = unpack_u32(in);
	head.number = unpack_u32(in);
	head.statement = unpack_u64(in);
	head.deallocated = unpack_u32(in);
	head.count = unpack_count(in, SQL_NAME_PACKED);
	in->bad |= head.count > SQL_NAMES_MOST || head.deallocated > head.count;
	sql = in->bad ? NULL : mem_try(sizeof(*sql) + head.count * sizeof(sql->names[0]));
	in->bad |= !sql;
	if (!sql)
		return;
	*sql = head;
	pc->sql = sql;
	for (uint32_t i = 0; i < sql->count && !in->bad; i++) {
		struct prepared_sql_name *n = &sql->names[i];
		uint32_t place = unpack_u32(in);
		const char *end;

		n->drops = unpack_bool(in);
		end = unpack_text(in);
		in->bad |= (place != NO_NAME && place >= name_count) || !end ||
			   strlen(end) >= sizeof(n->end);
		if (in->bad)
			return;
		n->end_size = (uint8_t)(strlen(end) + 1);
		memcpy(n->end, end, n->end_size);
		n->name = place == NO_NAME ? NULL : names[place];
		if (n->name)
			n->name->refs++;
	}
}

/* ---- a client ---- */

/* Each process counts changes of meanings by itself, so the count is not sent: a change since the
   text was sent becomes a doubt. */
static void types_pack(struct bytes *out, const struct unnamed_types *types, uint64_t meanings)
{
	pack_u64(out, types->hash);
	pack_bool(out, types->told);
	pack_bool(out, types->in_doubt || types->meanings != meanings);
	pack_bool(out, types->differ);
}

static void types_unpack(struct unpack *in, struct unnamed_types *types, uint64_t meanings)
{
	types->hash = unpack_u64(in);
	types->told = unpack_bool(in);
	types->in_doubt = unpack_bool(in);
	types->differ = unpack_bool(in);
	types->meanings = meanings;
}

void prepared_client_pack(struct record_statements *all, struct bytes *out, const struct client *c)
{
	const struct prepared_server *ps = c->pooled.link ? server_of(c->pooled.link)->prepared
							  : NULL;
	const struct prepared_client *pc = c->prepared;
	struct names names;

	pack_bool(out, pc != NULL);
	if (!pc)
		return;
	if (!record_names_collect(&names, pc, ps)) {
		out->failed = true;
		return;
	}
	names_pack(all, out, &names);
	journal_pack(all, out, ps);
	sql_pack(out, pc->sql);
	pack_bool(out, c->names_sql);
	mem_free(names.items);
	pack_blob(out, pc->text.data ? bytes_front(&pc->text) : NULL, bytes_size(&pc->text));
	pack_blob(out, pc->confirmed_text.data ? bytes_front(&pc->confirmed_text) : NULL,
		  bytes_size(&pc->confirmed_text));
	pack_bool(out, pc->has_text);
	pack_bool(out, pc->has_confirmed_text);
	bytes_append_u32(out, pc->in_flight);
	bytes_append_u32(out, pc->batch);
	bytes_append_u32(out, pc->number);
	bytes_append_u8(out, pc->unnamed_care);
	types_pack(out, &pc->unnamed_types, all->world->meanings);
	types_pack(out, &pc->confirmed_unnamed_types, all->world->meanings);
	pack_bool(out, pc->deallocates);
	pack_u64(out, pc->uncertain_server);
	bytes_append_u32(out, pc->uncertain_batch);
}

static void names_and_journal_unpack(struct unpack *in, struct record_statements *all,
				     struct client *c, struct prepared_client *pc,
				     struct server *s)
{
	struct prepared_server *ps = s ? prepared_server_of(s) : NULL;
	uint32_t count = unpack_count(in, NAME_PACKED), listed = unpack_u32(in), read = 0;
	struct prepared_name **names = mem_try(((size_t)count + 1) * sizeof(*names));
	uint32_t ops;

	in->bad |= !names || listed > count;
	while (!in->bad && read < count) {
		names[read] = name_unpack(in, all, read < listed ? pc : NULL);
		read += names[read] != NULL;
	}
	ops = unpack_count(in, OP_PACKED);
	in->bad |= ops > 0 && !ps;
	for (; ops > 0 && !in->bad; ops--)
		op_unpack(in, all, ps, names, count);
	if (!in->bad)
		sql_unpack(in, pc, names, count);
	c->names_sql = unpack_bool(in) && pc->sql;
	for (uint32_t i = 0; ps && i < ps->op_count; i++)
		pc->journal_texts += op_at(ps, i)->text ? bytes_size(op_at(ps, i)->text) : 0;
	/* names that only the journal or the record of SQL refers to are kept by these
	   references */
	for (uint32_t i = listed; names && i < read; i++)
		name_drop(c->peer.world, &names[i]);
	mem_free(names);
}

static void blob_unpack(struct unpack *in, struct bytes *to)
{
	size_t size;
	const uint8_t *at = unpack_blob(in, &size);

	bytes_append(to, at, size);
	in->bad |= to->failed;
}

void prepared_client_unpack(struct unpack *in, struct record_statements *all, struct client *c,
			    struct server *s)
{
	struct prepared_client *pc;

	if (!unpack_bool(in))
		return;
	pc = prepared_client_of(c);
	if (!pc) {
		in->bad = true;
		return;
	}
	names_and_journal_unpack(in, all, c, pc, s);
	blob_unpack(in, &pc->text);
	blob_unpack(in, &pc->confirmed_text);
	pc->has_text = unpack_bool(in);
	pc->has_confirmed_text = unpack_bool(in);
	pc->in_flight = unpack_u32(in);
	pc->batch = unpack_u32(in);
	pc->number = unpack_u32(in);
	pc->unnamed_care = unpack_u8(in);
	types_unpack(in, &pc->unnamed_types, all->world->meanings);
	types_unpack(in, &pc->confirmed_unnamed_types, all->world->meanings);
	pc->deallocates = unpack_bool(in);
	pc->uncertain_server = unpack_u64(in);
	pc->uncertain_batch = unpack_u32(in);
	if (!in->bad)
		prepared_find_signals(c);
}
