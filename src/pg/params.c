/*
 * Session parameters, as shared sets.
 *
 * A set is built once, looked up by its values in a hash, and either found or
 * added: so there is never more than one set with the same values, and equal
 * means identical. Sets never change; a connection with a changed value exchanges
 * its pointer for another. References are counted, and a set leaves the hash
 * and the memory with its last one.
 *
 * So it is with the values themselves: each text is there once, and the key of a set
 * is its row of pointers: the values of the tracked parameters, then name and value of each
 * other parameter, in the order of the names. What a change costs grows with the value that
 * has changed, and not with the others: a server reports as many changes as it likes.
 */
#include "pg/params.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A value or a name, found by its text. */
struct text {
	UT_hash_handle hh;
	size_t references;		/* of sets, and of the call that has made it */
	char bytes[];
};

struct params {
	UT_hash_handle hh;
	struct params *self;		/* holders have const pointers, and still are counted */
	size_t references;
	uint32_t tracked, others;
	const char *values[];		/* the key: for each tracked name the bytes of a text (NULL: absent); then two for each other one */
};

struct params_table {
	int count;
	char **names;
	struct params *sets;		/* the hash */
	struct text *texts;		/* the same of values */
	const struct params *none;	/* holds a reference itself */
};

static const char *const fixed_names[PARAM_FIXED] = {
	[PARAM_CLIENT_ENCODING] = "client_encoding",
	[PARAM_DATESTYLE] = "DateStyle",
	[PARAM_TIMEZONE] = "TimeZone",
	[PARAM_STANDARD_CONFORMING_STRINGS] = "standard_conforming_strings",
	[PARAM_APPLICATION_NAME] = "application_name",
	[PARAM_SEARCH_PATH] = "search_path",
};

/* ---- values ---- */

static struct text *text_of(const char *bytes)
{
	return (struct text *)(uintptr_t)(bytes - offsetof(struct text, bytes));
}

static void text_drop(struct params_table *table, const char *bytes)
{
	struct text *t = bytes ? text_of(bytes) : NULL;

	if (!t || --t->references)
		return;
	HASH_DELETE(hh, table->texts, t);
	mem_free(t);
}

/* The bytes of the text that says this, with a reference. NULL: no memory. */
static const char *text_take(struct params_table *table, const char *value)
{
	size_t size = strlen(value);
	unsigned hash = hash_of(value, size);
	struct text *t;

	HASH_FIND_BYHASHVALUE(hh, table->texts, value, size, hash, t);
	if (t) {
		t->references++;
		return t->bytes;
	}
	t = mem_try(sizeof(*t) + size + 1);
	if (!t)
		return NULL;
	memcpy(t->bytes, value, size + 1);
	t->references = 1;
	HASH_ADD_KEYPTR_BYHASHVALUE(hh, table->texts, t->bytes, size, hash, t);
	if (HASH_HAS(hh, t))
		return t->bytes;
	mem_free(t);
	return NULL;
}

/* ---- sets ---- */

/* Pointers in the row of a set with so many parameters that are not tracked. */
static size_t width_of(const struct params_table *table, size_t others)
{
	return (size_t)table->count + 2 * others;
}

/* A row without any value. NULL: no memory. */
static const char **row_new(const struct params_table *table, size_t others)
{
	return mem_try(width_of(table, others) * sizeof(const char *));
}

static void set_free(struct params_table *table, struct params *set)
{
	for (size_t i = 0; i < width_of(table, set->others); i++)
		text_drop(table, set->values[i]);
	mem_free(set);
}

/* A set that no connection has yet. */
static struct params *set_new(struct params_table *table, const char *const *row, size_t others)
{
	size_t width = width_of(table, others);
	struct params *set = mem_try(sizeof(*set) + width * sizeof(*row));

	if (!set)
		return NULL;
	set->self = set;
	set->references = 1;
	set->tracked = (uint32_t)table->count;
	set->others = (uint32_t)others;
	for (size_t i = 0; i < width; i++) {
		set->values[i] = row[i];
		if (row[i])
			text_of(row[i])->references++;
	}
	HASH_ADD_KEYPTR(hh, table->sets, set->values, width * sizeof(*row), set);
	if (!HASH_HAS(hh, set)) {
		set_free(table, set);
		return NULL;
	}
	return set;
}

/* A reference to the set with this row, whose texts are of the table. NULL: no memory. */
static const struct params *set_of(struct params_table *table, const char *const *row, size_t others)
{
	struct params *set;

	HASH_FIND(hh, table->sets, row, width_of(table, others) * sizeof(*row), set);
	return set ? params_hold(set) : set_new(table, row, others);
}

/* ---- the table ---- */

/* The server's spelling of a parameter that it reports, where case matters to its readers. */
static const char *spelling_of(const char *name)
{
	return text_equal_fold(name, "IntervalStyle") ? "IntervalStyle" : name;
}

static bool add_name(struct params_table *table, const char *name)
{
	char **names;

	if (params_index(table, name) >= 0)
		return true;
	names = mem_resize(table->names, ((size_t)table->count + 1) * sizeof(*names));
	if (!names)
		return false;
	table->names = names;
	names[table->count] = mem_copy_string(spelling_of(name));
	return names[table->count] && ++table->count;
}

/* Cuts the list to pieces. */
static bool add_list(struct params_table *table, char *list)
{
	static const char separators[] = ", \t\r\n";
	char *rest;

	for (char *name = strtok_r(list, separators, &rest); name; name = strtok_r(NULL, separators, &rest))
		if (!add_name(table, name))
			return false;
	return true;
}

static bool table_fill(struct params_table *table, const char *extra)
{
	char *list = mem_copy_string(extra ? extra : "");
	const char **nothing;
	bool ok = list != NULL;

	for (int i = 0; ok && i < PARAM_FIXED; i++)
		ok = add_name(table, fixed_names[i]);
	ok = ok && add_list(table, list);
	mem_free(list);
	nothing = ok ? row_new(table, 0) : NULL;
	if (nothing)
		table->none = set_of(table, nothing, 0);
	mem_free(nothing);
	return table->none != NULL;
}

struct params_table *params_table_new(const char *extra)
{
	struct params_table *table = mem_try(sizeof(*table));

	if (table && !table_fill(table, extra))
		params_table_free(&table);
	return table;
}

void params_table_free(struct params_table **table)
{
	struct params *set, *next;

	if (!*table)
		return;
	HASH_ITER(hh, (*table)->sets, set, next) {
		HASH_DELETE(hh, (*table)->sets, set);
		set_free(*table, set);
	}
	for (int i = 0; i < (*table)->count; i++)
		mem_free((*table)->names[i]);
	mem_free((*table)->names);
	mem_free(*table);
	*table = NULL;
}

int params_count(const struct params_table *table)
{
	return table->count;
}

const char *params_name(const struct params_table *table, int index)
{
	ASSERT(index >= 0 && index < table->count);
	return table->names[index];
}

int params_index(const struct params_table *table, const char *name)
{
	for (int i = 0; i < table->count; i++)
		if (text_equal_fold(table->names[i], name))
			return i;
	return -1;
}

size_t params_sets(const struct params_table *table)
{
	return HASH_COUNT(table->sets);
}

/* ---- references and values ---- */

const struct params *params_none(struct params_table *table)
{
	return params_hold(table->none);
}

const struct params *params_hold(const struct params *set)
{
	set->self->references++;
	return set;
}

void params_drop(struct params_table *table, const struct params **set)
{
	struct params *mine = *set ? (*set)->self : NULL;

	*set = NULL;
	if (!mine || --mine->references)
		return;
	HASH_DELETE(hh, table->sets, mine);
	set_free(table, mine);
}

void params_replace(struct params_table *table, const struct params **place, const struct params *set)
{
	const struct params *old = *place;

	*place = set;
	params_drop(table, &old);
}

const char *params_get(const struct params *set, int index)
{
	return set->values[index];
}

size_t params_others(const struct params *set)
{
	return set->others;
}

struct params_pair params_other(const struct params *set, size_t index)
{
	const char *const *pair = &set->values[set->tracked + 2 * index];

	ASSERT(index < set->others);
	return (struct params_pair){ pair[0], pair[1] };
}

/* They are in the order of their names: it is asked for each parameter that a server reports. */
const char *params_other_value(const struct params *set, const char *name)
{
	size_t from = 0, to = set->others;

	while (from < to) {
		size_t middle = from + (to - from) / 2;
		int order = strcasecmp(name, params_other(set, middle).name);

		if (order == 0)
			return params_other(set, middle).value;
		if (order < 0)
			to = middle;
		else
			from = middle + 1;
	}
	return NULL;
}

const struct params *params_with(struct params_table *table, const struct params *base, int index, const char *value)
{
	const char *had = base->values[index], *has = NULL;
	size_t width = width_of(table, base->others);
	const struct params *set = NULL;
	const char **row;

	if (had == value || (had && value && !strcmp(had, value)))
		return params_hold(base);
	if (value && !(has = text_take(table, value)))
		return NULL;
	row = row_new(table, base->others);
	if (row) {
		memcpy(row, base->values, width * sizeof(*row));
		row[index] = has;
		set = set_of(table, row, base->others);
	}
	mem_free(row);
	text_drop(table, has);
	return set;
}

const struct params *params_with_others(struct params_table *table, const struct params *tracked, const struct params *others)
{
	const struct params *set = NULL;
	const char **row;

	if (tracked->others == 0 && others->others == 0)
		return params_hold(tracked);
	row = row_new(table, others->others);
	if (row) {
		memcpy(row, tracked->values, width_of(table, 0) * sizeof(*row));
		memcpy(&row[table->count], &others->values[table->count], 2 * others->others * sizeof(*row));
		set = set_of(table, row, others->others);
	}
	mem_free(row);
	return set;
}

/* In the order of their names; those with one name in the order in which they came. */
static int compare_pairs(const void *a, const void *b)
{
	const struct params_pair *one = *(const struct params_pair *const *)a, *two = *(const struct params_pair *const *)b;
	int order = strcasecmp(one->name, two->name);

	return order != 0 ? order : (one > two) - (one < two);
}

/* As text_take, of the name in lower case: a server makes no difference. */
static const char *name_take(struct params_table *table, const char *name)
{
	char lower[PARAMS_NAME_LONGEST + 1];
	size_t i;

	for (i = 0; name[i]; i++) {
		ASSERT(i < PARAMS_NAME_LONGEST);
		lower[i] = (char)tolower((uint8_t)name[i]);
	}
	lower[i] = '\0';
	return text_take(table, lower);
}

/* In the order of their names, of several with one name the last of them. Returns how many are left. A client that has not logged in sends
   them: each one is not to be compared with all others. */
static size_t put_in_order(const struct params_pair **ordered, const struct params_pair *pairs, size_t count)
{
	size_t left = 0;

	for (size_t i = 0; i < count; i++)
		ordered[i] = &pairs[i];
	if (count > 1)
		qsort(ordered, count, sizeof(const struct params_pair *), compare_pairs);
	for (size_t i = 0; i < count; i++)
		if (i + 1 == count || strcasecmp(ordered[i]->name, ordered[i + 1]->name) != 0)
			ordered[left++] = ordered[i];
	return left;
}

const struct params *params_of_values(struct params_table *table, const char *const *values, const struct params_pair *others, size_t count)
{
	const struct params_pair **ordered = mem_try((count + 1) * sizeof(*ordered));
	size_t left = ordered ? put_in_order(ordered, others, count) : 0, width = width_of(table, left);
	const char **row = row_new(table, left);
	const struct params *set = NULL;
	bool ok = ordered && row;

	for (int i = 0; ok && i < table->count; i++)
		ok = !values[i] || (row[i] = text_take(table, values[i])) != NULL;
	for (size_t i = 0; ok && i < left; i++) {
		const char **pair = &row[width_of(table, i)];

		ok = (pair[0] = name_take(table, ordered[i]->name)) != NULL && (pair[1] = text_take(table, ordered[i]->value)) != NULL;
	}
	if (ok)
		set = set_of(table, row, left);
	for (size_t i = 0; row && i < width; i++)
		text_drop(table, row[i]);
	mem_free(row);
	mem_free(ordered);
	return set;
}

bool params_same_others(const struct params *a, const struct params *b)
{
	return a->others == b->others && memcmp(&a->values[a->tracked], &b->values[b->tracked], 2 * a->others * sizeof(*a->values)) == 0;
}

int params_other_order(const struct params *a, size_t i, const struct params *b, size_t j)
{
	if (i == a->others || j == b->others)
		return (i == a->others) - (j == b->others);
	return strcmp(params_other(a, i).name, params_other(b, j).name);
}

/* The others of both sets, where both have one that of `over`, to the end of a row. Returns how many. */
static size_t merge_others(const struct params *under, const struct params *over, const char **to)
{
	size_t i = 0, j = 0, count = 0;

	while (i < under->others || j < over->others) {
		int order = params_other_order(under, i, over, j);
		struct params_pair pair = order < 0 ? params_other(under, i) : params_other(over, j);

		i += order <= 0;
		j += order >= 0;
		to[2 * count] = pair.name;
		to[2 * count++ + 1] = pair.value;
	}
	return count;
}

const struct params *params_overlay(struct params_table *table, const struct params *under, const struct params *over)
{
	const struct params *set;
	const char **row;
	size_t others;

	if (under == over || over == table->none)
		return params_hold(under);
	row = row_new(table, under->others + over->others);
	if (!row)
		return NULL;
	for (int i = 0; i < table->count; i++)
		row[i] = over->values[i] ? over->values[i] : under->values[i];
	others = merge_others(under, over, &row[table->count]);
	set = set_of(table, row, others);
	mem_free(row);
	return set;
}
