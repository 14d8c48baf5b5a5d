/*
 * Shared prepared statements ("Extended Query" in the PostgreSQL documentation).
 *
 * Parse gives a text a name on one connection, and a pooler must know the same text on all of its
 * connections. Each statement has a number from a counter, which is the end of its name, and two
 * texts are equal only if all bytes are: neither a hash collision nor a removed statement can ever
 * put one text under the name of another.
 *
 * The key also has the parameters and the place. A text is read under the parameters of the session
 * that parses (encoding, DateStyle, search_path), so clients share a statement only if all their
 * parameters are equal, except for application_name and names with a dot (params_for_reading);
 * because sets of parameters are unique, the key has one pointer. Tables of different databases are
 * different, so the key has the place, too.
 *
 * Invariant: a statement is in the table exactly while it is `known`, and lives as long as it has
 * references.
 */
#include "sql/statement.h"

#include "base/mem.h"
#include "pg/message.h"
#include "sql/sql_commands.h"
#include "sql/values_text.h"

#include <stdio.h>
#include <string.h>

#define KEY_OFFSET offsetof(struct statement, place)

_Static_assert(offsetof(struct statement, params) == KEY_OFFSET + sizeof(uint64_t),
	       "the key has no padding");
_Static_assert(offsetof(struct statement, body) == KEY_OFFSET + sizeof(uint64_t) + sizeof(void *),
	       "the key has no padding");

static size_t key_size(const struct statement *s)
{
	return offsetof(struct statement, body) - KEY_OFFSET + s->size;
}

/* ---- names ---- */

static const char tag_letters[] = "abcdefghijklmnopqrstuvwxyz234567";
#define TAG_AT (sizeof(STATEMENT_PREFIX) - 1)

_Static_assert(TAG_AT + STATEMENT_TAG + 1 == STATEMENT_HEAD,
	       "the head of a name is prefix, tag and an underscore");
_Static_assert(sizeof(tag_letters) - 1 == 32, "each letter of a tag is five bits");
_Static_assert(STATEMENT_NAME_MOST <= 64, "PostgreSQL cuts names after 63 bytes");

void statement_names_make(struct statement_names *names, const uint8_t random[STATEMENT_TAG])
{
	memcpy(names->head, STATEMENT_PREFIX, TAG_AT);
	for (size_t i = 0; i < STATEMENT_TAG; i++)
		names->head[TAG_AT + i] = tag_letters[random[i] % 32];
	names->head[STATEMENT_HEAD - 1] = '_';
}

bool statement_names_restore(struct statement_names *names, const uint8_t tag[STATEMENT_TAG])
{
	for (size_t i = 0; i < STATEMENT_TAG; i++)
		if (!memchr(tag_letters, tag[i], sizeof(tag_letters) - 1))
			return false;
	memcpy(names->head, STATEMENT_PREFIX, TAG_AT);
	memcpy(names->head + TAG_AT, tag, STATEMENT_TAG);
	names->head[STATEMENT_HEAD - 1] = '_';
	return true;
}

/* ---- the table ---- */

struct statements *statements_new(struct params_table *params)
{
	struct statements *all = mem_try(sizeof(*all));

	if (all)
		all->params = params;
	return all;
}

static void release(struct statements *all, struct statement *s)
{
	params_drop(all->params, &s->params);
	mem_free(s);
}

/* Returns a new statement, which is not in the table. NULL: no memory. */
static struct statement *new (struct statements *all, uint64_t place, const struct params *params,
			      const uint8_t *body, size_t size)
{
	struct statement *s = mem_try(sizeof(*s) + size);
	struct sql_name names[SQL_NAMES_MOST];
	struct values_text values;

	if (!s)
		return NULL;
	s->params = params_for_reading(all->params, params);
	s->place = place;
	s->size = (uint32_t)size;
	memcpy(s->body, body, size);
	s->deallocates = deallocate_may_be_parsed(body, size);
	if (statement_sql_may_be_parsed(body, size))
		s->names_others = statement_sql_read(body, size, names) > 0;
	s->deallocates |= s->names_others;
	s->reads_values = values_text_read(body, size, &values);
	s->varies = s->names_others | s->reads_values;
	s->configures = meaning_is_configured(body, size);
	if (!s->params) {
		release(all, s);
		return NULL;
	}
	return s;
}

/* Sets the number and the end of the name. */
static void name(struct statement *s, uint64_t number)
{
	s->number = number;
	s->end_size =
		(uint8_t)(snprintf(s->end, sizeof(s->end), "%llu", (unsigned long long)number) + 1);
}

/* Counts the statement with its first reference, and adds it to the table if it is known. */
static void enlist(struct statements *all, struct statement *s, unsigned hash)
{
	s->refs = 1;
	if (s->known) {
		HASH_ADD_KEYPTR_BYHASHVALUE(hh, all->table, &s->place, key_size(s), hash, s);
		/* without memory for the table, no other client finds the statement */
		s->known = HASH_HAS(hh, s);
	}
	all->count++;
	all->bytes += sizeof(*s) + s->size;
}

struct statement *statement_take(struct statements *all, uint64_t place,
				 const struct params *params, const uint8_t *body, size_t size,
				 bool is_private)
{
	struct statement *s = new(all, place, params, body, size), *found;
	unsigned hash;

	if (!s)
		return NULL;
	if (is_private || s->varies) {
		name(s, ++all->last_number);
		s->is_private = true;
		enlist(all, s, 0);
		return s;
	}
	hash = hash_of(&s->place, key_size(s));
	HASH_FIND_BYHASHVALUE(hh, all->table, &s->place, key_size(s), hash, found);
	if (found) {
		release(all, s);
		return statement_hold(found);
	}
	name(s, ++all->last_number);
	s->known = true;
	enlist(all, s, hash);
	return s;
}

bool statement_may_differ(const struct statement *s)
{
	for (const uint8_t *at = s->body; *at; at++) {
		bool is_quote = *at == '\'' || (*at == '$' && !(at[1] >= '0' && at[1] <= '9'));

		if (is_quote || *at & 0x80)
			return true;
	}
	return false;
}

static void statement_forget(struct statements *all, struct statement *s)
{
	if (s->known)
		HASH_DEL(all->table, s);
	s->known = false;
}

void statement_drop(struct statements *all, struct statement **place)
{
	struct statement *s = *place;

	*place = NULL;
	if (!s || --s->refs > 0)
		return;
	statement_forget(all, s);
	all->count--;
	all->bytes -= sizeof(*s) + s->size;
	release(all, s);
}

void statement_retire(struct statements *all, struct statement *s)
{
	statement_forget(all, s);
	s->changed = true;
}

/* ---- messages ---- */

/* Reads a string at *at of the `here` bytes that have arrived. */
static enum pg_verdict read_string(const uint8_t *body, size_t here, size_t size, size_t *at,
				   const char **text, size_t *length)
{
	const uint8_t *nul = *at < here ? memchr(body + *at, 0, here - *at) : NULL;

	if (!nul)
		return here < size ? PG_MORE : PG_BAD;
	*text = (const char *)body + *at;
	*length = (size_t)(nul - (body + *at)) + 1;
	*at += *length;
	return PG_OK;
}

enum pg_verdict statement_use_read(uint8_t type, const uint8_t *body, size_t here, size_t size,
				   struct statement_use *use)
{
	size_t at = type == PGC_DESCRIBE || type == PGC_CLOSE ? 1 : 0;
	enum pg_verdict verdict;

	use->portal = NULL;
	use->portal_size = 0;
	if (type == PGC_BIND) {
		verdict = read_string(body, here, size, &at, &use->portal, &use->portal_size);
		if (verdict != PG_OK)
			return verdict;
	}
	return read_string(body, here, size, &at, &use->name, &use->name_size);
}

/* Reads a list of format codes: Int16 count, Int16 each. */
static bool read_text_formats(struct pg_cursor *c)
{
	uint16_t binary = 0;

	for (uint16_t count = pg_read_u16(c); count > 0 && !c->bad; count--)
		binary |= pg_read_u16(c);
	return binary == 0;
}

bool statement_bind_is_text(const uint8_t *body, size_t size)
{
	struct pg_cursor c = pg_cursor_of(body, size);
	bool is_text;

	pg_read_string(&c);
	pg_read_string(&c);
	is_text = read_text_formats(&c);
	for (uint16_t count = pg_read_u16(&c); count > 0 && !c.bad; count--) {
		uint32_t length = pg_read_u32(&c);

		if (length != UINT32_MAX)	/* NULL */
			pg_read_bytes(&c, length);
	}
	return read_text_formats(&c) && is_text && !c.bad && c.at == c.end;
}

bool statement_body_is_sound(const uint8_t *body, size_t size)
{
	struct pg_cursor c = pg_cursor_of(body, size);

	pg_read_string(&c);
	pg_read_bytes(&c, 4 * (size_t)pg_read_u16(&c));
	return !c.bad && c.at == c.end;
}

/* ---- handover ---- */

void statement_pack(struct bytes *out, const struct params_table *table, const struct statement *s)
{
	pack_u64(out, s->number);
	pack_u64(out, s->place);
	pack_bool(out, s->known);
	pack_bool(out, s->changed);
	params_pack(out, table, s->params);
	pack_blob(out, s->body, s->size);
}

struct statement *statement_unpack(struct unpack *in, struct params_table *table,
				   struct statements *all)
{
	uint64_t number = unpack_u64(in), place = unpack_u64(in);
	bool known = unpack_bool(in), changed = unpack_bool(in);
	const struct params *params = params_unpack(in, table);
	size_t size;
	const uint8_t *body = unpack_blob(in, &size);
	struct statement *s = NULL, *found = NULL;
	unsigned hash;

	in->bad |= number == 0 || !body || !statement_body_is_sound(body, size);
	if (params && !in->bad)
		s = new(all, place, params, body, size);
	if (params)
		params_drop(table, &params);
	if (!s)
		return NULL;
	hash = hash_of(&s->place, key_size(s));
	name(s, number);
	statements_begin_behind(all, number);
	s->changed = changed;
	/* the statement was private, or its text has a newer statement, which is not packed: then
	   private is the safe choice */
	s->is_private = !known && !changed;
	/* with other tracked parameters two statements may have become the same: one of them is
	   found */
	HASH_FIND_BYHASHVALUE(hh, all->table, &s->place, key_size(s), hash, found);
	s->known = known && !found;
	enlist(all, s, hash);
	return s;
}
