/*
 * Tracked session parameters, as shared sets.
 *
 * A set is built once, looked up by its values in a hash, and either found or
 * added: so there is never more than one set with the same values, and equal
 * means identical. Sets never change; a connection with a changed value exchanges
 * its pointer for another. References are counted, and a set leaves the hash
 * and the memory with its last one.
 *
 * So it is with the values themselves: each text is there once, and the key of a set
 * is its row of pointers. What a change costs grows with the value that has changed, and
 * not with the others: a server reports as many changes as it likes.
 *
 * The SQL that moves a session from one set to another is one simple Query (an
 * implicit transaction) made of set_config calls and RESETs. set_config takes
 * any value as one string: what SET would read as a list of identifiers
 * (search_path), an identifier or a unit stays what the server reported.
 *
 * A value goes between E quotes with quotes and backslashes doubled, which means the same
 * under either standard_conforming_strings. It means the same in every client
 * encoding but a few (SJIS, BIG5, GBK, UHC, GB18030, JOHAB), in which the byte of a backslash may
 * be the second half of a character: to double it would start an escape. No such
 * byte needs doubling between dollar quotes, so a value with a backslash among
 * bytes beyond ASCII goes there.
 */
#include "pg/params.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* A value, found by its text. */
struct text {
	UT_hash_handle hh;
	size_t references;		/* of sets, and of the call that has made it */
	char bytes[];
};

struct params {
	UT_hash_handle hh;
	struct params *self;		/* holders have const pointers, and still are counted */
	size_t references;
	const char *values[];		/* the key: for each tracked name the bytes of a text; NULL: absent */
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

static size_t key_size_of(const struct params_table *table)
{
	return (size_t)table->count * sizeof(const char *);
}

static void set_free(struct params_table *table, struct params *set)
{
	for (int i = 0; i < table->count; i++)
		text_drop(table, set->values[i]);
	mem_free(set);
}

/* A set that no connection has yet. */
static struct params *set_new(struct params_table *table, const char *const *values)
{
	struct params *set = mem_try(sizeof(*set) + key_size_of(table));

	if (!set)
		return NULL;
	set->self = set;
	set->references = 1;
	for (int i = 0; i < table->count; i++) {
		set->values[i] = values[i];
		if (values[i])
			text_of(values[i])->references++;
	}
	HASH_ADD_KEYPTR(hh, table->sets, set->values, key_size_of(table), set);
	if (!HASH_HAS(hh, set)) {
		set_free(table, set);
		return NULL;
	}
	return set;
}

/* A reference to the set that has these values, which are of the table. NULL: no memory. */
static const struct params *set_of(struct params_table *table, const char *const *values)
{
	struct params *set;

	HASH_FIND(hh, table->sets, values, key_size_of(table), set);
	return set ? params_hold(set) : set_new(table, values);
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
	nothing = ok ? mem_try(key_size_of(table)) : NULL;
	if (nothing)
		table->none = set_of(table, nothing);
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

const struct params *params_with(struct params_table *table, const struct params *base, int index, const char *value)
{
	const char *had = base->values[index], *has = NULL;
	const struct params *set = NULL;
	const char **values;

	if (had == value || (had && value && !strcmp(had, value)))
		return params_hold(base);
	if (value && !(has = text_take(table, value)))
		return NULL;
	values = mem_try(key_size_of(table));
	if (values) {
		memcpy(values, base->values, key_size_of(table));
		values[index] = has;
		set = set_of(table, values);
	}
	mem_free(values);
	text_drop(table, has);
	return set;
}

const struct params *params_of_values(struct params_table *table, const char *const *values)
{
	const char **taken = mem_try(key_size_of(table));
	const struct params *set = NULL;
	bool ok = taken != NULL;

	for (int i = 0; ok && i < table->count; i++)
		ok = !values[i] || (taken[i] = text_take(table, values[i])) != NULL;
	if (ok)
		set = set_of(table, taken);
	for (int i = 0; taken && i < table->count; i++)
		text_drop(table, taken[i]);
	mem_free(taken);
	return set;
}

bool params_same_but(const struct params_table *table, const struct params *a, const struct params *b, int index)
{
	for (int i = 0; a != b && i < table->count; i++)
		if (i != index && a->values[i] != b->values[i])
			return false;
	return true;
}

const struct params *params_overlay(struct params_table *table, const struct params *under, const struct params *over)
{
	const struct params *set;
	const char **values;

	if (under == over || over == table->none)
		return params_hold(under);
	values = mem_try(key_size_of(table));
	if (!values)
		return NULL;
	for (int i = 0; i < table->count; i++)
		values[i] = over->values[i] ? over->values[i] : under->values[i];
	set = set_of(table, values);
	mem_free(values);
	return set;
}

/* ---- SQL ---- */

static void append_escaped(struct bytes *sql, const char *value)
{
	bytes_append_text(sql, "E'");
	for (const char *at = value; *at; ) {
		size_t plain = strcspn(at, "'\\");

		bytes_append(sql, at, plain);
		at += plain;
		if (*at) {
			bytes_append_u8(sql, (uint8_t)*at);
			bytes_append_u8(sql, (uint8_t)*at++);
		}
	}
	bytes_append_u8(sql, '\'');
}

static void append_dollar_quoted(struct bytes *sql, const char *value)
{
	char tag[24];

	/* Without its last '$', so that the end of the value cannot complete one. */
	for (unsigned i = 0; snprintf(tag, sizeof(tag), "$v%u", i), strstr(value, tag); i++)
		;
	bytes_append_format(sql, "%s$", tag);
	bytes_append_text(sql, value);
	bytes_append_format(sql, "%s$", tag);
}

static bool is_ascii(const char *text)
{
	while (*text && !(*text & 0x80))
		text++;
	return !*text;
}

static void append_value(struct bytes *sql, const char *value)
{
	if (strchr(value, '\\') && !is_ascii(value))
		append_dollar_quoted(sql, value);
	else
		append_escaped(sql, value);
}

/* Where it is not certain that there is something to RESET, or that there is such a parameter, or that this role may change it: what
   has been changed exists, and the role that changed it may change it back. (Names with a dot, and a few more, are not in the view.) */
static void append_careful_reset(struct bytes *sql, const char *name)
{
	bytes_append_format(sql, "CASE WHEN pg_catalog.current_setting('%s',true) IS NOT NULL AND NOT EXISTS (SELECT FROM "
			    "pg_catalog.pg_settings WHERE pg_catalog.lower(name) OPERATOR(pg_catalog.=) pg_catalog.lower('%s') AND "
			    "setting OPERATOR(pg_catalog.=) reset_val) THEN pg_catalog.set_config('%s',NULL,false) END", name, name, name);
}

/* NULL, which is as RESET, if nothing has been noted, or the note has been RESET (to '', not to nothing). */
static void append_noted(struct bytes *sql)
{
	bytes_append_text(sql, "pg_catalog.set_config('search_path',pg_catalog.substring("
			  "pg_catalog.current_setting('pgweir.search_path',true),'^=(.*)$'),false)");
}

/* What one parameter needs to become `want` on a server that has `have`. */
enum params_step {
	STEP_NONE,
	STEP_SET,
	STEP_NOTED,				/* back to what has been noted on the server */
	STEP_CAREFUL,				/* back, if it has been changed, and if there is such a parameter */
	STEP_RESET,
};

static enum params_step step_of(const char *have, const char *want, bool is_doubtful, bool is_noted, bool is_fixed)
{
	if (want)
		return have && !is_doubtful && strcmp(have, want) == 0 ? STEP_NONE : STEP_SET;
	if (!have && !is_doubtful)
		return STEP_NONE;
	if (is_noted)
		return STEP_NOTED;
	return have || is_fixed ? STEP_RESET : STEP_CAREFUL;
}

int params_sql(const struct params_table *table, const struct params *have, const struct params *want, uint64_t unknown, bool noted,
	       struct bytes *sql)
{
	const char *resets[64];
	int selected = 0, reset = 0;

	if (have == want && unknown == 0)
		return 0;
	for (int i = 0; i < table->count; i++) {
		const char *name = table->names[i], *value = want->values[i];
		enum params_step step = step_of(have->values[i], value, unknown >> i & 1, noted && i == PARAM_SEARCH_PATH, i < PARAM_FIXED);

		if (step == STEP_RESET)
			resets[reset++] = name;
		if (step == STEP_NONE || step == STEP_RESET)
			continue;
		bytes_append_text(sql, selected++ ? "," : "SELECT ");
		if (step == STEP_SET) {
			bytes_append_format(sql, "pg_catalog.set_config('%s',", name);
			append_value(sql, value);
			bytes_append_text(sql, ",false)");
		} else if (step == STEP_NOTED) {
			append_noted(sql);
		} else {
			append_careful_reset(sql, name);
		}
	}
	for (int i = 0; i < reset; i++)
		bytes_append_format(sql, "%sRESET %s", selected + i ? ";" : "", resets[i]);
	return selected + reset;
}
