/*
 * Session parameters as shared sets ("Customized Options" for names with a dot).
 *
 * A set is built once, and then found by its values in a hash table: there is never more than one
 * set with the same values, so that equal sets are identical. Sets do not change; a connection with
 * a changed value exchanges its pointer. Sets are reference counted; the last reference removes a
 * set from the table and frees it.
 *
 * Values are shared in the same way: each text exists once, and the key of a set is its row of
 * pointers: the values of the tracked parameters, then name and value of each other parameter, in
 * the order of the names. The cost of a change depends on the size of the changed value, not on the
 * other values: a server may report any number of changes.
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

/* A value or a name. */
struct params_text {
	UT_hash_handle hh;
	size_t references;		/* of sets, and of a call in progress */
	char bytes[];
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

static struct params_text *params_text_of(const char *bytes)
{
	return (struct params_text *)(uintptr_t)(bytes - offsetof(struct params_text, bytes));
}

static void text_drop(struct params_table *table, const char *bytes)
{
	struct params_text *t = bytes ? params_text_of(bytes) : NULL;

	if (!t || --t->references)
		return;
	HASH_DELETE(hh, table->texts, t);
	mem_free(t);
}

/* Returns the shared text with these bytes, with a reference. NULL: no memory. */
static const char *text_take(struct params_table *table, const char *value)
{
	size_t size = strlen(value);
	unsigned hash = hash_of(value, size);
	struct params_text *t;

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

/* Returns the number of pointers in the row of a set. */
static size_t width_of(const struct params_table *table, size_t others)
{
	return (size_t)table->count + 2 * others;
}

/* Returns a row without values. NULL: no memory. */
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

/* Returns a reference to the set with this row; its texts are in the table. NULL: no memory. */
static const struct params *params_set_of(struct params_table *table, const char *const *row,
					  size_t others)
{
	size_t width = width_of(table, others);
	struct params *set;

	HASH_FIND(hh, table->sets, row, width * sizeof(*row), set);
	if (set)
		return params_hold(set);
	set = mem_try(sizeof(*set) + width * sizeof(*row));
	if (!set)
		return NULL;
	set->self = set;
	set->references = 1;
	set->tracked = (uint32_t)table->count;
	set->others = (uint32_t)others;
	for (size_t i = 0; i < width; i++) {
		set->values[i] = row[i];
		if (row[i])
			params_text_of(row[i])->references++;
	}
	HASH_ADD_KEYPTR(hh, table->sets, set->values, width * sizeof(*row), set);
	if (!HASH_HAS(hh, set)) {
		set_free(table, set);
		return NULL;
	}
	return set;
}

/* ---- the table ---- */

static bool params_add_name(struct params_table *table, const char *name)
{
	char **names;

	if (params_index(table, name) >= 0)
		return true;
	names = mem_resize(table->names, ((size_t)table->count + 1) * sizeof(*names));
	if (!names)
		return false;
	table->names = names;
	/* clients expect the spelling of the server */
	names[table->count] = mem_copy_string(
		text_equal_fold(name, "IntervalStyle") ? "IntervalStyle" : name);
	return names[table->count] && ++table->count;
}

struct params_table *params_table_new(const char *extra)
{
	static const char separators[] = ", \t\r\n";
	struct params_table *table = mem_try(sizeof(*table));
	char *list = mem_copy_string(extra ? extra : ""), *rest;
	const char **nothing;
	bool ok = table && list;

	for (int i = 0; ok && i < PARAM_FIXED; i++)
		ok = params_add_name(table, fixed_names[i]);
	for (char *name = ok ? strtok_r(list, separators, &rest) : NULL; ok && name;
	     name = strtok_r(NULL, separators, &rest))
		ok = params_add_name(table, name);
	mem_free(list);
	nothing = ok ? row_new(table, 0) : NULL;
	if (nothing)
		table->none = params_set_of(table, nothing, 0);
	mem_free(nothing);
	if (table && !table->none)
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

int params_index(const struct params_table *table, const char *name)
{
	for (int i = 0; i < table->count; i++)
		if (text_equal_fold(table->names[i], name))
			return i;
	return -1;
}

/* ---- references and values ---- */

void params_drop(struct params_table *table, const struct params **set)
{
	struct params *mine = *set ? (*set)->self : NULL;

	*set = NULL;
	if (!mine || --mine->references)
		return;
	HASH_DELETE(hh, table->sets, mine);
	set_free(table, mine);
}

/* Called for each parameter that a server reports: a binary search. */
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

const struct params *params_with(struct params_table *table, const struct params *base, int index,
				 const char *value)
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
		set = params_set_of(table, row, base->others);
	}
	mem_free(row);
	text_drop(table, has);
	return set;
}

const struct params *params_with_others(struct params_table *table, const struct params *tracked,
					const struct params *others)
{
	const struct params *set = NULL;
	const char **row;

	if (tracked->others == 0 && others->others == 0)
		return params_hold(tracked);
	row = row_new(table, others->others);
	if (row) {
		memcpy(row, tracked->values, width_of(table, 0) * sizeof(*row));
		memcpy(&row[table->count], &others->values[table->count],
		       2 * others->others * sizeof(*row));
		set = params_set_of(table, row, others->others);
	}
	mem_free(row);
	return set;
}

/* By name; with equal names, by position. */
static int compare_pairs(const void *a, const void *b)
{
	const struct params_pair *one = *(const struct params_pair *const *)a,
				 *two = *(const struct params_pair *const *)b;
	int order = strcasecmp(one->name, two->name);

	return order != 0 ? order : (one > two) - (one < two);
}

/* Returns the name in lower case as text_take() does: a server ignores case. */
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

/* Sorts the pairs by name, and keeps the last of several with one name. Returns the number of pairs
   that remain. An unauthenticated client sends the pairs, so that a quadratic search would be an
   attack. */
static size_t put_in_order(const struct params_pair **ordered, const struct params_pair *pairs,
			   size_t count)
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

const struct params *params_of_values(struct params_table *table, const char *const *values,
				      const struct params_pair *others, size_t count)
{
	const struct params_pair **ordered = mem_try((count + 1) * sizeof(*ordered));
	size_t left = ordered ? put_in_order(ordered, others, count) : 0,
	       width = width_of(table, left);
	const char **row = row_new(table, left);
	const struct params *set = NULL;
	bool ok = ordered && row;

	for (int i = 0; ok && i < table->count; i++)
		ok = !values[i] || (row[i] = text_take(table, values[i])) != NULL;
	for (size_t i = 0; ok && i < left; i++) {
		const char **pair = &row[width_of(table, i)];

		ok = (pair[0] = name_take(table, ordered[i]->name)) != NULL &&
		     (pair[1] = text_take(table, ordered[i]->value)) != NULL;
	}
	if (ok)
		set = params_set_of(table, row, left);
	for (size_t i = 0; row && i < width; i++)
		text_drop(table, row[i]);
	mem_free(row);
	mem_free(ordered);
	return set;
}

/* Orders the i-th other parameter of a and the j-th of b by name: < 0: a is first; > 0: b is first;
   0: equal names. An index may be the number of parameters. */
static int other_order(const struct params *a, size_t i, const struct params *b, size_t j)
{
	if (i == a->others || j == b->others)
		return (i == a->others) - (j == b->others);
	return strcmp(params_other(a, i).name, params_other(b, j).name);
}

const struct params *params_overlay(struct params_table *table, const struct params *under,
				    const struct params *over)
{
	const struct params *set;
	const char **row;
	size_t others = 0, i = 0, j = 0;

	if (under == over || over == table->none)
		return params_hold(under);
	row = row_new(table, under->others + over->others);
	if (!row)
		return NULL;
	for (int p = 0; p < table->count; p++)
		row[p] = over->values[p] ? over->values[p] : under->values[p];
	while (i < under->others || j < over->others) {
		int order = other_order(under, i, over, j);
		struct params_pair pair = order < 0 ? params_other(under, i)
						    : params_other(over, j);

		i += order <= 0;
		j += order >= 0;
		row[width_of(table, others)] = pair.name;
		row[width_of(table, others++) + 1] = pair.value;
	}
	set = params_set_of(table, row, others);
	mem_free(row);
	return set;
}

/* ---- names ---- */

static bool params_is_one_of(const char *name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (text_equal_fold(name, names[i]))
			return true;
	return false;
}

/* Whether the name consists of letters, digits and '_', in parts with dots between them. */
static bool has_form(const char *name)
{
	bool begins = true;
	const char *at;

	for (at = name; *at; at++) {
		if (*at == '.' ? begins
			       : !isalpha((uint8_t)*at) && *at != '_' &&
					 (begins || !isdigit((uint8_t)*at)))
			return false;
		begins = *at == '.';
	}
	return !begins && at - name <= PARAMS_NAME_LONGEST;
}

enum params_kind params_kind_of(const char *name)
{
	/* Words of the start-up message, which a server would accept in any case; the role, which
	   state/server_session.c restores; parameters of the start of a session only; parameters
	   that cannot be reset. */
	static const char *const fixed[] = {
		"user",
		"database",
		"replication",
		"options",
		"role",
		"session_authorization",
		"ignore_system_indexes",
		"jit_debugging_support",
		"jit_profiling_support",
		"local_preload_libraries",
		"session_preload_libraries",
		"log_connections",
		"log_disconnections",
		"post_auth_delay",
		"seed",
		"transaction_isolation",
		"transaction_read_only",
		"transaction_deferrable",
	};
	/* these end or delay a server connection without a client, or of another client */
	static const char *const harmful[] = { "idle_session_timeout", "transaction_timeout",
					       "default_transaction_deferrable" };

	if (!has_form(name))
		return PARAMS_MALFORMED;
	/* pgweir sets parameters with the second prefix itself, also for other clients */
	if (strncasecmp(name, "_pq_.", 5) == 0 || strncasecmp(name, "pgweir.", 7) == 0 ||
	    params_is_one_of(name, fixed, sizeof(fixed) / sizeof(fixed[0])))
		return PARAMS_FIXED;
	return params_is_one_of(name, harmful, sizeof(harmful) / sizeof(harmful[0]))
		       ? PARAMS_RESTORABLE
		       : PARAMS_SETTABLE;
}

/* ---- the meaning of statements ---- */

/*
 * The meaning of a statement depends on all parameters but application_name and parameters with a
 * dot, which belong to an extension or to the client itself (app.tenant). Clients that differ only
 * in these share their prepared statements.
 */

/* Returns the index of the next other parameter, from i, that affects the meaning. */
static size_t next_with_meaning(const struct params *set, size_t i)
{
	while (i < params_others(set) && strchr(params_other(set, i).name, '.'))
		i++;
	return i;
}

bool params_read_alike(const struct params_table *table, const struct params *a,
		       const struct params *b)
{
	size_t i, j;

	if (a == b)
		return true;
	for (int p = 0; p < params_count(table); p++)
		if (p != PARAM_APPLICATION_NAME && params_get(a, p) != params_get(b, p))
			return false;
	for (i = next_with_meaning(a, 0), j = next_with_meaning(b, 0);
	     i < a->others && j < b->others;
	     i = next_with_meaning(a, i + 1), j = next_with_meaning(b, j + 1))
		/* each text exists once: equal texts have one address */
		if (params_other(a, i).name != params_other(b, j).name ||
		    params_other(a, i).value != params_other(b, j).value)
			return false;
	return i == a->others && j == b->others;
}

const struct params *params_for_reading(struct params_table *table, const struct params *set)
{
	const struct params *fresh = NULL;
	struct params_pair *others;
	const char **values;
	size_t count = 0, i;

	for (i = 0; i < set->others && !strchr(params_other(set, i).name, '.'); i++)
		;
	if (i == set->others)
		return params_with(table, set, PARAM_APPLICATION_NAME, NULL);
	values = mem_try((size_t)table->count * sizeof(*values));
	others = mem_try((set->others + 1) * sizeof(*others));
	for (int p = 0; values && p < table->count; p++)
		values[p] = p == PARAM_APPLICATION_NAME ? NULL : set->values[p];
	for (i = 0; others && (i = next_with_meaning(set, i)) < set->others; i++)
		others[count++] = params_other(set, i);
	if (values && others)
		fresh = params_of_values(table, values, others, count);
	mem_free(values);
	mem_free(others);
	return fresh;
}

/* ---- SQL ---- */

/*
 * The SQL is one simple Query (an implicit transaction) of set_config calls and RESETs. set_config
 * takes any value as one string, even if SET would read the value as a list of identifiers
 * (search_path), an identifier or a unit.
 *
 * A value is written between E quotes, with quotes and backslashes doubled, which has the same
 * meaning with either value of standard_conforming_strings. It also has the same meaning in every
 * client encoding but a few (SJIS, BIG5, GBK, UHC, GB18030, JOHAB), in which the byte of a
 * backslash may be the second half of a character: a doubled one would begin an escape. Between
 * dollar quotes nothing is doubled, so a value with a backslash and bytes beyond ASCII is written
 * between dollar quotes.
 */
static void append_value(struct bytes *sql, const char *value)
{
	const char *at = value;
	char tag[24];

	while (*at && !(*at & 0x80))
		at++;
	if (*at && strchr(value, '\\')) {
		/* without the last '$', so that the end of the value cannot complete a tag */
		for (unsigned i = 0; snprintf(tag, sizeof(tag), "$v%u", i), strstr(value, tag); i++)
			;
		bytes_append_format(sql, "%s$", tag);
		bytes_append_text(sql, value);
		bytes_append_format(sql, "%s$", tag);
		return;
	}
	bytes_append_text(sql, "E'");
	for (at = value; *at; ) {
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

/* The change of one parameter. */
enum params_step {
	STEP_NONE,
	STEP_SET,
	/* to the value that pgweir has noted for the server */
	STEP_NOTED,
	STEP_CAREFUL,				/* RESET if the parameter exists and is changed */
	STEP_RESET,
};

static enum params_step step_of(const char *have, const char *want, bool is_unknown, bool is_noted,
				bool is_fixed)
{
	if (want)
		return have && !is_unknown && strcmp(have, want) == 0 ? STEP_NONE : STEP_SET;
	if (!have && !is_unknown)
		return STEP_NONE;
	if (is_noted)
		return STEP_NOTED;
	return have || is_fixed ? STEP_RESET : STEP_CAREFUL;
}

/* Appends columns for untracked parameters: the parameters to reset (`back`), or the parameters to
   set; with `all` also the unchanged parameters. Returns their number. set_config with NULL is a
   RESET, and accepts names with a reserved word. */
static int append_others(const struct params *have, const struct params *want, bool back, bool all,
			 int before, struct bytes *sql)
{
	size_t i = 0, j = 0;
	int count = 0;

	while (i < params_others(have) || j < params_others(want)) {
		int order = other_order(have, i, want, j);
		const char *had = order <= 0 ? params_other(have, i).value : NULL,
			   *value = order >= 0 ? params_other(want, j).value : NULL;
		const char *name = order <= 0 ? params_other(have, i).name
					      : params_other(want, j).name;

		i += order <= 0;
		j += order >= 0;
		/* each text exists once: equal texts have one address */
		if ((had == value && !all) || back == (value != NULL) ||
		    strcmp(name, PARAMS_ROLE) == 0)
			continue;
		bytes_append_format(sql, "%spg_catalog.set_config('%s',",
				    before + count++ ? "," : "SELECT ", name);
		if (value)
			append_value(sql, value);
		else
			bytes_append_text(sql, "NULL");
		bytes_append_text(sql, ",false)");
	}
	return count;
}

int params_sql(const struct params_table *table, const struct params *have,
	       const struct params *want, uint64_t unknown, const char *noted, struct bytes *sql)
{
	const char *resets[64];
	int selected = 0, reset = 0;

	if (have == want && unknown == 0)
		return 0;
	for (int i = 0; i < params_count(table); i++) {
		const char *name = params_name(table, i), *value = params_get(want, i);
		enum params_step step = step_of(params_get(have, i), value, unknown >> i & 1,
						noted && i == PARAM_SEARCH_PATH, i < PARAM_FIXED);

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
			/* the result does not contain the value, because the client's encoding may
			   lack some of its characters */
			bytes_append_text(sql, "pg_catalog.set_config('search_path',pg_catalog."
					       "convert_from(pg_catalog.decode('");
			bytes_append_text(sql, noted);
			bytes_append_text(
				sql, "','hex'),pg_catalog.getdatabaseencoding()),false) IS NULL");
		} else {
			/* The parameter may be unchanged, or unknown to the server, or this role
			   may not change it. A changed parameter exists, and the role that changed
			   it may RESET it. (Names with a dot, and a few more, are not in the
			   view.) */
			bytes_append_format(sql,
					    "CASE WHEN pg_catalog.current_setting('%s',true) IS "
					    "NOT NULL AND NOT EXISTS (SELECT FROM "
					    "pg_catalog.pg_settings WHERE pg_catalog.lower(name) "
					    "OPERATOR(pg_catalog.=) pg_catalog.lower('%s') AND "
					    "setting OPERATOR(pg_catalog.=) reset_val) THEN "
					    "pg_catalog.set_config('%s',NULL,false) END",
					    name, name, name);
		}
	}
	/* resets first: two names may belong to one parameter (sort_mem, work_mem) */
	selected += append_others(have, want, true, unknown != 0, selected, sql);
	selected += append_others(have, want, false, unknown != 0, selected, sql);
	for (int i = 0; i < reset; i++)
		bytes_append_format(sql, "%sRESET %s", selected + i ? ";" : "", resets[i]);
	return selected + reset;
}

static const char without_timeout[] =
	"SELECT "
	"pg_catalog.set_config('pgweir.timeout',pg_catalog.current_setting('statement_timeout'),"
	"true),pg_catalog.set_config('statement_timeout','0',true);SELECT "
	"pg_catalog.count(pg_catalog.set_config(n,v,false)) FROM (VALUES ";

static void append_row(struct bytes *sql, int before, const char *name, const char *value)
{
	bytes_append_text(sql, before ? "," : without_timeout);
	bytes_append_format(sql, "('%s',", name);
	append_value(sql, value);
	bytes_append_u8(sql, ')');
}

/* statement_timeout is 0 for this query, and its former value is compared with reset_val, which is
   in milliseconds. A parameter with a dot is not in the view unless an extension has defined it,
   and is empty after a RESET. */
int params_sql_after_reset(const struct params_table *table, const struct params *without,
			   const struct params *first, bool was_reset, struct bytes *sql)
{
	const char *reset = was_reset ? "true" : "false";
	int count = 0;

	for (int i = 0; i < params_count(table); i++)
		if (params_get(first, i) && params_get(first, i) != params_get(without, i))
			append_row(sql, count++, params_name(table, i), params_get(first, i));
	for (size_t i = 0; i < params_others(first); i++)
		if (strcmp(params_other(first, i).name, PARAMS_ROLE) != 0)
			append_row(sql, count++, params_other(first, i).name,
				   params_other(first, i).value);
	if (count == 0)
		return 0;
	bytes_append_format(sql,
			    ") f(n,v) LEFT JOIN pg_catalog.pg_settings s ON "
			    "pg_catalog.lower(s.name) OPERATOR(pg_catalog.=) pg_catalog.lower(n) "
			    "WHERE CASE WHEN s.name IS NULL THEN %s AND pg_catalog.strpos(n,'.') "
			    "OPERATOR(pg_catalog.>) 0 AND "
			    "COALESCE(pg_catalog.current_setting(n,true),'') "
			    "OPERATOR(pg_catalog.=) '' WHEN s.name OPERATOR(pg_catalog.=) "
			    "'statement_timeout' THEN %s AND "
			    "pg_catalog.current_setting('pgweir.timeout')::pg_catalog.interval "
			    "OPERATOR(pg_catalog.=) "
			    "(pg_catalog.concat(s.reset_val,'ms'))::pg_catalog.interval "
			    "ELSE s.source OPERATOR(pg_catalog.<>) 'session' END",
			    reset, reset);
	return count;
}

/* ---- handover ---- */

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

/* If only the other process tracks a parameter, it becomes a parameter of the client: so there may
   be more of them than a client may ask for. */
const struct params *params_unpack(struct unpack *in, struct params_table *table)
{
	const char **values = mem_try((size_t)params_count(table) * sizeof(*values)), *name, *value;
	struct params_pair *others = NULL, *larger;
	const struct params *set = NULL;
	size_t count = 0;

	while ((name = unpack_text(in)) != NULL) {
		int index = params_index(table, name);

		value = unpack_text(in);
		in->bad |= !value;
		if (in->bad || !values)
			continue;
		if (index >= 0) {
			values[index] = value;
		} else if (params_kind_of(name) >= PARAMS_RESTORABLE ||
			   strcmp(name, PARAMS_ROLE) == 0) {
			if (count % PARAMS_OTHERS_MOST == 0) {
				larger = mem_resize(others,
						    (count + PARAMS_OTHERS_MOST) * sizeof(*others));
				in->bad |= !larger;
				others = larger ? larger : others;
			}
			if (!in->bad)
				others[count++] = (struct params_pair){ name, value };
		}
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
