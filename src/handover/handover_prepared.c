/*
 * Prepared statements in a handover: the names of a client, the statements of a server, and the journal of operations in
 * progress between them (prepared_tables.c). A server's names for statements contain their numbers and the tag of the
 * connection, so numbers and tag do not change.
 *
 * The journal refers to names of the client, including names that are no longer in its table. It stores the index of the name
 * in the client's record; therefore the client's record contains the journal, although the journal belongs to the server.
 */
#include "handover/handover_parts.h"

#include "base/assert.h"
#include "base/hash.h"
#include "prepared/prepared_tables.h"

#include <string.h>

#define NAME_PACKED 44			/* minimum sizes of a name, an entry, an operation */
#define ENTRY_PACKED 28
#define OP_PACKED 18
#define SQL_NAME_PACKED 9
#define NO_NAME UINT32_MAX

/* ---- statements ---- */

/*
 * Statements are shared, so each statement is sent once, before the first connection that uses it; the records of connections
 * refer to it by its number.
 *
 * Invariant: a table of known statements holds a reference to each statement, and each number is in it once.
 */
struct known_statement {
	UT_hash_handle hh;
	uint64_t number;
	struct statement *statement;
};

/* False: no memory. */
static bool remember(struct known_statement **table, struct statement *st)
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

void known_statements_free(struct statements *all, struct known_statement **table)
{
	struct known_statement *known, *next;

	HASH_ITER(hh, *table, known, next) {
		HASH_DEL(*table, known);
		statement_drop(all, &known->statement);
		mem_free(known);
	}
}

/* Sends a statement that has not been sent yet. False: the channel is broken, or no memory. */
static bool statement_send(struct sender *s, struct statement *st)
{
	struct known_statement *known;
	struct bytes out = BYTES_EMPTY;
	bool sent;

	if (!st)
		return true;
	HASH_FIND(hh, s->sent, &st->number, sizeof(st->number), known);
	if (known)
		return true;
	if (!remember(&s->sent, st))
		return false;
	statement_pack(&out, s->world->params, st);
	sent = records_send(s->to, HANDOVER_STATEMENT, &out, -1, s->patience);
	bytes_free(&out);
	return sent;
}

void known_statement_unpack(struct unpack *in, struct handover *h)
{
	struct world *w = h->world;
	struct statement *st = statement_unpack(in, w->params, w->statements);
	struct known_statement *known = NULL;

	in->bad |= !st;
	if (!st)
		return;
	HASH_FIND(hh, h->statements, &st->number, sizeof(st->number), known);
	in->bad |= known != NULL;
	if (!known)
		in->bad |= !remember(&h->statements, st);
	statement_drop(w->statements, &st);
}

/* Returns the statement with the number that follows, without a reference; NULL for 0. An unknown number sets in->bad. */
static struct statement *known_statement(struct unpack *in, const struct handover *h)
{
	uint64_t number = unpack_u64(in);
	struct known_statement *known = NULL;

	if (number == 0)
		return NULL;
	HASH_FIND(hh, h->statements, &number, sizeof(number), known);
	in->bad |= !known;
	return known ? known->statement : NULL;
}

bool statements_of_server_send(struct sender *s, const struct server *server)
{
	const struct prepared_server *has = server->prepared;

	for (const struct prepared_entry *e = has ? has->set : NULL; e; e = e->hh.next)
		if (!statement_send(s, e->statement))
			return false;
	for (uint32_t i = 0; has && i < has->op_count; i++) {
		const struct prepared_op *op = op_at(has, i);

		if (!statement_send(s, op->statement))
			return false;
		if (op->name && !(statement_send(s, op->name->sent) && statement_send(s, op->name->certain)))
			return false;
	}
	return true;
}

bool statements_of_client_send(struct sender *s, const struct client *c)
{
	for (const struct prepared_name *n = c->prepared ? c->prepared->names : NULL; n; n = n->hh.next)
		if (!statement_send(s, n->sent) || !statement_send(s, n->certain) || !statement_send(s, n->first))
			return false;
	return true;
}

static uint64_t number_of(const struct statement *st)
{
	return st ? st->number : 0;
}

/* ---- a server's set ---- */

static void entry_pack(struct bytes *out, const struct prepared_entry *e)
{
	pack_u64(out, number_of(e->statement));
	bytes_append_u32(out, e->in_flight);
	bytes_append_u32(out, e->batch);
	pack_bool(out, e->sent);
	pack_bool(out, e->certain);
	bytes_append_u8(out, e->reading);
	pack_u64(out, e->types);
	pack_bool(out, e->described);
}

void prepared_server_pack(struct bytes *out, const struct server *s)
{
	const struct prepared_server *has = s->prepared;

	pack_bool(out, has != NULL);
	if (!has)
		return;
	/* in the order of their last use */
	bytes_append_u32(out, HASH_COUNT(has->set));
	LIST_EACH(node, &has->used)
		entry_pack(out, LIST_OBJECT(node, struct prepared_entry, use));
	for (const struct prepared_entry *e = has->set; e; e = e->hh.next)
		if (!e->sent)
			entry_pack(out, e);
	pack_u64(out, s->unnamed_of);
	bytes_append_u32(out, has->unnamed_number);
	bytes_append_u32(out, has->unnamed_in_flight);
	bytes_append_u32(out, has->unnamed_batch);
	pack_bool(out, has->unnamed_sure);
	bytes_append_u32(out, has->set_in);
	pack_blob(out, statement_names_tag(&has->names), STATEMENT_TAG);
}

static void entry_unpack(struct unpack *in, struct handover *h, struct prepared_server *has)
{
	struct statement *st = known_statement(in, h);
	uint32_t in_flight = unpack_u32(in), batch = unpack_u32(in);
	bool sent = unpack_bool(in), certain = unpack_bool(in);
	uint8_t reading = unpack_u8(in);
	uint64_t types = unpack_u64(in);
	bool described = unpack_bool(in);
	struct prepared_entry *e;

	in->bad |= !st || reading > READING_OTHER || entry_find(has, st) || (in_flight == 0 && !(sent && certain));
	if (in->bad || !entry_parse_sent(has, st, batch)) {
		in->bad = true;
		return;
	}
	e = entry_find(has, st);
	if (!sent)
		entry_close_sent(has, e, batch);
	e->in_flight = in_flight;
	entry_is_certain(has, e, certain);
	entry_was_read(has, e, (enum reading)reading);
	e->types = types;
	e->described = described;
}

void prepared_server_unpack(struct unpack *in, struct handover *h, struct server *s)
{
	uint8_t tag[STATEMENT_TAG];
	struct prepared_server *has;
	uint32_t count;

	if (!unpack_bool(in))
		return;
	has = prepared_server_of(s);
	if (!has) {
		in->bad = true;
		return;
	}
	for (count = unpack_count(in, ENTRY_PACKED); count > 0 && !in->bad; count--)
		entry_unpack(in, h, has);
	s->unnamed_of = unpack_u64(in);
	has->unnamed_number = unpack_u32(in);
	has->unnamed_in_flight = unpack_u32(in);
	has->unnamed_batch = unpack_u32(in);
	has->unnamed_sure = unpack_bool(in);
	has->set_in = unpack_u32(in);
	unpack_exactly(in, tag, sizeof(tag));
	in->bad |= !in->bad && !statement_names_restore(&has->names, tag);
}

/* ---- the names ---- */

/* The names in the order of their places in the record. */
struct names {
	struct prepared_name **items;
	uint32_t count, listed;
};

/* The i-th name that the journal or the record of SQL refers to, or NULL. */
static struct prepared_name *referred(const struct prepared_client *mine, const struct prepared_server *has, uint32_t i)
{
	uint32_t ops = has ? has->op_count : 0;

	return i < ops ? op_at(has, i)->name : mine->sql->names[i - ops].name;
}

/* Collects the names of the client's table, then the names that only the journal or the record of SQL refers to. False: no memory. */
static bool collect(struct names *names, const struct prepared_client *mine, const struct prepared_server *has)
{
	uint32_t count = (has ? has->op_count : 0) + (mine->sql ? mine->sql->count : 0);

	names->count = 0;
	names->items = mem_try((HASH_COUNT(mine->names) + (size_t)count + 1) * sizeof(names->items[0]));
	if (!names->items)
		return false;
	for (struct prepared_name *n = mine->names; n; n = n->hh.next) {
		n->place = names->count;
		names->items[names->count++] = n;
	}
	names->listed = names->count;
	for (uint32_t i = 0; i < count; i++) {
		struct prepared_name *n = referred(mine, has, i);

		if (n && !n->listed)
			n->place = NO_NAME;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct prepared_name *n = referred(mine, has, i);

		if (!n || n->place != NO_NAME)
			continue;
		n->place = names->count;
		names->items[names->count++] = n;
	}
	return true;
}

static void names_pack(struct bytes *out, const struct names *names)
{
	bytes_append_u32(out, names->count);
	bytes_append_u32(out, names->listed);
	for (uint32_t i = 0; i < names->count; i++) {
		const struct prepared_name *n = names->items[i];

		/* a name has only its terminating NUL, which the key of the table includes */
		pack_text(out, n->text);
		pack_u64(out, number_of(n->sent));
		pack_u64(out, number_of(n->certain));
		pack_u64(out, n->listed ? number_of(n->first) : 0);
		bytes_append_u32(out, n->in_flight);
		bytes_append_u32(out, n->batch);
		pack_u64(out, n->told);
	}
}

static struct prepared_name *name_unpack(struct unpack *in, struct handover *h, struct prepared_client *mine)
{
	const char *text = unpack_text(in);
	struct statement *sent = known_statement(in, h), *certain = known_statement(in, h), *first = known_statement(in, h);
	uint32_t in_flight = unpack_u32(in), batch = unpack_u32(in);
	uint64_t told = unpack_u64(in);
	struct prepared_name *n = NULL;

	if (text && !in->bad && !(mine && name_find(mine, text, strlen(text) + 1)))
		n = name_new(mine, text, strlen(text) + 1);
	in->bad |= !n;
	if (!n)
		return NULL;
	n->sent = sent ? statement_hold(sent) : NULL;
	if (mine)
		name_is_certain(h->world, mine, n, certain);
	if (mine && (sent || certain))
		name_charge(mine, n, sent ? sent : certain);
	n->first = first ? statement_hold(first) : NULL;
	n->in_flight = in_flight;
	n->batch = batch;
	n->told = told;
	n->certain_told = in_flight > 0 ? 0 : told;
	return n;
}

/* ---- the journal ---- */

static void journal_pack(struct bytes *out, const struct prepared_server *has)
{
	uint32_t count = has ? has->op_count : 0;

	bytes_append_u32(out, count);
	for (uint32_t i = 0; i < count; i++) {
		const struct prepared_op *op = op_at(has, i);

		bytes_append_u8(out, op->what);
		pack_bool(out, op->last);
		pack_bool(out, op->kept);
		pack_bool(out, op->alone);
		bytes_append_u8(out, (uint8_t)op_reading(has, i));
		pack_bool(out, op->text != NULL);
		if (op->text)
			pack_blob(out, op->text->data ? bytes_front(op->text) : NULL, bytes_size(op->text));
		bytes_append_u32(out, op->name ? op->name->place : NO_NAME);
		pack_u64(out, number_of(op->statement));
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

static void op_unpack(struct unpack *in, struct handover *h, struct prepared_server *has, struct prepared_name *const *names,
		      uint32_t name_count)
{
	uint8_t what = unpack_u8(in);
	bool last = unpack_bool(in), kept = unpack_bool(in), alone = unpack_bool(in);
	uint8_t reading = unpack_u8(in);
	struct bytes *text = unpack_bool(in) ? text_unpack(in) : NULL;
	uint32_t place = unpack_u32(in);
	struct statement *st = known_statement(in, h);
	struct prepared_op *op;

	in->bad |= what > OP_TOO_LONG || reading > READING_OTHER || (place != NO_NAME && place >= name_count);
	if (in->bad || !op_push(has, (enum prepared_what)what, place == NO_NAME ? NULL : names[place], st)) {
		in->bad = true;
		if (text)
			bytes_free(text);
		mem_free(text);
		return;
	}
	op = op_at(has, has->op_count - 1);
	op->last = last;
	op->kept = kept;
	op->alone = alone;
	op->reading = reading;
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
	bytes_append_u32(out, sql->dropped);
	bytes_append_u32(out, sql->count);
	for (uint32_t i = 0; i < sql->count; i++) {
		const struct prepared_sql_name *n = &sql->names[i];

		bytes_append_u32(out, n->name ? n->name->place : NO_NAME);
		pack_bool(out, n->drops);
		pack_text(out, n->end);
	}
}

static void sql_unpack(struct unpack *in, struct prepared_client *mine, struct prepared_name *const *names, uint32_t name_count)
{
	struct prepared_sql head = { .server = 0 }, *sql;

	if (!unpack_bool(in))
		return;
	head.server = unpack_u64(in);
	head.batch = unpack_u32(in);
	head.number = unpack_u32(in);
	head.statement = unpack_u64(in);
	head.dropped = unpack_u32(in);
	head.count = unpack_count(in, SQL_NAME_PACKED);
	in->bad |= head.count > SQL_NAMES_MOST || head.dropped > head.count;
	sql = in->bad ? NULL : mem_try(sizeof(*sql) + head.count * sizeof(sql->names[0]));
	in->bad |= !sql;
	if (!sql)
		return;
	*sql = head;
	mine->sql = sql;
	for (uint32_t i = 0; i < sql->count && !in->bad; i++) {
		struct prepared_sql_name *n = &sql->names[i];
		uint32_t place = unpack_u32(in);
		const char *end;

		n->drops = unpack_bool(in);
		end = unpack_text(in);
		in->bad |= (place != NO_NAME && place >= name_count) || !end || strlen(end) >= sizeof(n->end);
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

void prepared_client_pack(struct bytes *out, const struct client *c)
{
	const struct prepared_server *has = c->pooled.link ? server_of(c->pooled.link)->prepared : NULL;
	const struct prepared_client *mine = c->prepared;
	struct names names;

	pack_bool(out, mine != NULL);
	if (!mine)
		return;
	if (!collect(&names, mine, has)) {
		out->failed = true;
		return;
	}
	names_pack(out, &names);
	journal_pack(out, has);
	sql_pack(out, mine->sql);
	pack_bool(out, c->names_sql);
	mem_free(names.items);
	pack_blob(out, mine->text.data ? bytes_front(&mine->text) : NULL, bytes_size(&mine->text));
	pack_blob(out, mine->certain.data ? bytes_front(&mine->certain) : NULL, bytes_size(&mine->certain));
	pack_bool(out, mine->kept);
	pack_bool(out, mine->certain_kept);
	bytes_append_u32(out, mine->in_flight);
	bytes_append_u32(out, mine->batch);
	bytes_append_u32(out, mine->number);
	bytes_append_u8(out, mine->unnamed_deallocates);
	pack_bool(out, mine->deallocates);
	pack_u64(out, mine->doubted_on);
	bytes_append_u32(out, mine->doubted_batch);
}

static void names_and_journal_unpack(struct unpack *in, struct handover *h, struct client *c, struct prepared_client *mine)
{
	struct prepared_server *has = h->server ? prepared_server_of(h->server) : NULL;
	uint32_t count = unpack_count(in, NAME_PACKED), listed = unpack_u32(in), read = 0;
	struct prepared_name **names = mem_try(((size_t)count + 1) * sizeof(*names));
	uint32_t ops;

	in->bad |= !names || listed > count;
	while (!in->bad && read < count) {
		names[read] = name_unpack(in, h, read < listed ? mine : NULL);
		read += names[read] != NULL;
	}
	ops = unpack_count(in, OP_PACKED);
	in->bad |= ops > 0 && !has;
	for (; ops > 0 && !in->bad; ops--)
		op_unpack(in, h, has, names, count);
	if (!in->bad)
		sql_unpack(in, mine, names, count);
	c->names_sql = unpack_bool(in) && mine->sql;
	for (uint32_t i = 0; has && i < has->op_count; i++)
		mine->put_by += op_at(has, i)->text ? bytes_size(op_at(has, i)->text) : 0;
	/* names that only the journal or the record of SQL refers to are kept by these references */
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

void prepared_client_unpack(struct unpack *in, struct handover *h, struct client *c)
{
	struct prepared_client *mine;

	if (!unpack_bool(in))
		return;
	mine = prepared_client_of(c);
	if (!mine) {
		in->bad = true;
		return;
	}
	names_and_journal_unpack(in, h, c, mine);
	blob_unpack(in, &mine->text);
	blob_unpack(in, &mine->certain);
	mine->kept = unpack_bool(in);
	mine->certain_kept = unpack_bool(in);
	mine->in_flight = unpack_u32(in);
	mine->batch = unpack_u32(in);
	mine->number = unpack_u32(in);
	mine->unnamed_deallocates = unpack_u8(in);
	mine->deallocates = unpack_bool(in);
	mine->doubted_on = unpack_u64(in);
	mine->doubted_batch = unpack_u32(in);
}
