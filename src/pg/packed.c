/*
 * Parameters, accounts and statements as they go from one process to another that takes its place.
 *
 * Everything is given by what it means (parameters by name, statements by the number that servers know them by), nothing by
 * an address or a place in a table, because the other process has its own configuration.
 *
 * Invariant: what is unpacked is as sound as what was packed; a count that does not fit is bad, and never an allocation.
 */
#include "pg/packed.h"

#include "base/mem.h"
#include "pg/ledger_ring.h"

#include <string.h>

/* ---- parameters ---- */

void params_pack(struct bytes *out, const struct params_table *table, const struct params *set)
{
	for (int i = 0; i < params_count(table); i++) {
		if (!params_get(set, i))
			continue;
		pack_text(out, params_name(table, i));
		pack_text(out, params_get(set, i));
	}
	for (size_t i = 0; i < params_others(set); i++) {
		pack_text(out, params_other(set, i).name);
		pack_text(out, params_other(set, i).value);
	}
	pack_text(out, NULL);
}

/* Room for one more of those that are not tracked. */
static bool pairs_grow(struct params_pair **pairs, size_t count)
{
	struct params_pair *more = count % PARAMS_OTHERS_MOST == 0 ? mem_resize(*pairs, (count + PARAMS_OTHERS_MOST) * sizeof(*more)) : *pairs;

	if (more)
		*pairs = more;
	return more;
}

static bool is_other(const char *name)
{
	return params_can_be_restored(name) || strcmp(name, PARAMS_ROLE) == 0;
}

/* One that the other process has tracked, and this one does not, goes on as one that the client has asked for: so there may be more of
   these than a client may ask for. */
const struct params *params_unpack(struct unpack *in, struct params_table *table)
{
	const char **values = mem_try((size_t)params_count(table) * sizeof(*values)), *name, *value;
	struct params_pair *others = NULL;
	const struct params *set = NULL;
	size_t count = 0;

	while ((name = unpack_text(in)) != NULL) {
		int index = params_index(table, name);

		value = unpack_text(in);
		in->bad |= !value;
		if (in->bad || !values)
			continue;
		if (index >= 0)
			values[index] = value;
		else if (is_other(name) && !pairs_grow(&others, count))
			in->bad = true;
		else if (is_other(name))
			others[count++] = (struct params_pair){ name, value };
	}
	if (values && !in->bad)
		set = params_of_values(table, values, others, count);
	mem_free(others);
	mem_free(values);
	return set;
}

void params_pack_bits(struct bytes *out, const struct params_table *table, uint64_t bits)
{
	for (int i = 0; i < params_count(table); i++)
		if (bits & (uint64_t)1 << i)
			pack_text(out, params_name(table, i));
	pack_text(out, NULL);
}

uint64_t params_unpack_bits(struct unpack *in, const struct params_table *table)
{
	const char *name;
	uint64_t bits = 0;

	while ((name = unpack_text(in)) != NULL) {
		int index = params_index(table, name);

		if (index >= 0)
			bits |= (uint64_t)1 << index;
	}
	return bits;
}

/* ---- the ledger ---- */

#define ENTRY_PACKED 5			/* bytes */

void ledger_pack(struct bytes *out, const struct ledger *l)
{
	const struct ledger_entry *ring = l->entries ? l->entries : l->small;

	bytes_append_u32(out, l->used);
	for (uint32_t i = 0; i < l->used; i++) {
		const struct ledger_entry *e = &ring[ledger_place(l, i)];

		bytes_append_u8(out, e->kind);
		bytes_append_u8(out, e->owner);
		bytes_append_u8(out, e->mark);
		pack_bool(out, ledger_entry_is_watched(e));
		bytes_append_u8(out, e->count);
	}
	bytes_append_u32(out, l->depth);
	bytes_append_u32(out, ledger_copiers(l));
	bytes_append_u32(out, l->copy_syncs);
	bytes_append_u8(out, l->stage);
	pack_bool(out, l->answered);
	pack_bool(out, l->open);
	pack_bool(out, l->executed);
	pack_bool(out, l->skipping);
	pack_bool(out, l->copy_in);
	pack_bool(out, l->copy_synced);
	pack_bool(out, l->lost);
}

/* Room for so many entries. */
static bool make_ring(struct ledger *l, uint32_t used)
{
	uint32_t capacity = LEDGER_SMALL;

	while (capacity < used)
		capacity *= 2;
	if (capacity > LEDGER_SMALL && !(l->entries = mem_try(capacity * sizeof(*l->entries))))
		return false;
	l->capacity = capacity;
	l->used = used;
	return true;
}

bool ledger_unpack(struct unpack *in, struct ledger *l)
{
	uint32_t used = unpack_count(in, ENTRY_PACKED);
	struct ledger_entry *ring;

	if (!make_ring(l, used)) {
		in->bad = true;
		return false;
	}
	ring = l->entries ? l->entries : l->small;
	for (uint32_t i = 0; i < used; i++) {
		uint8_t mark;

		ring[i].kind = unpack_u8(in);
		ring[i].owner = unpack_bool(in);
		mark = unpack_u8(in);
		ring[i].mark = mark & 0x7f;
		ring[i].plain = unpack_bool(in);
		ring[i].count = unpack_u8(in);
		in->bad |= ring[i].kind > LEDGER_LOCAL_REPLY || mark >= LEDGER_MARKS || ring[i].count == 0;
	}
	l->depth = unpack_u32(in);
	l->counts = unpack_u32(in);
	l->copy_syncs = unpack_u32(in);
	l->stage = unpack_u8(in);
	l->answered = unpack_bool(in);
	l->open = unpack_bool(in);
	l->executed = unpack_bool(in);
	l->skipping = unpack_bool(in);
	l->copy_in = unpack_bool(in);
	l->copy_synced = unpack_bool(in);
	l->lost = unpack_bool(in);
	if (!in->bad)
		in->bad = !ledger_restored(l);
	if (in->bad)
		ledger_clear(l);
	return !in->bad;
}

/* ---- statements ---- */

void statement_pack(struct bytes *out, const struct params_table *table, const struct statement *s)
{
	pack_u64(out, s->number);
	pack_u64(out, s->place);
	pack_bool(out, s->known);
	pack_bool(out, s->changed);
	params_pack(out, table, s->params);
	pack_blob(out, s->body, s->size);
}

struct statement *statement_unpack(struct unpack *in, struct params_table *table, struct statements *all)
{
	uint64_t number = unpack_u64(in), place = unpack_u64(in);
	bool known = unpack_bool(in), changed = unpack_bool(in);
	const struct params *params = params_unpack(in, table);
	size_t size;
	const uint8_t *body = unpack_blob(in, &size);
	struct statement *s = NULL;

	in->bad |= number == 0 || !body || !statement_body_is_sound(body, size);
	if (params && !in->bad)
		s = statement_restore(all, number, place, known, changed, params, body, size);
	if (params)
		params_drop(table, &params);
	return s;
}
