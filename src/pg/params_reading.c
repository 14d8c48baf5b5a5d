/*
 * What of a session's parameters a statement's meaning hangs on: all but the name of the application, and parameters with a dot, which are
 * an extension's or a client's own (app.tenant). Clients that differ in these alone share their prepared statements.
 */
#include "pg/params.h"

#include "base/mem.h"

#include <string.h>

/* From the i-th other parameter on, the next one that counts. */
static size_t next_that_counts(const struct params *set, size_t i)
{
	while (i < params_others(set) && strchr(params_other(set, i).name, '.'))
		i++;
	return i;
}

/* Each text is there once, so that equal ones have one address. */
static bool has_same_others(const struct params *a, const struct params *b)
{
	size_t i = next_that_counts(a, 0), j = next_that_counts(b, 0);

	for (; i < params_others(a) && j < params_others(b); i = next_that_counts(a, i + 1), j = next_that_counts(b, j + 1))
		if (params_other(a, i).name != params_other(b, j).name || params_other(a, i).value != params_other(b, j).value)
			return false;
	return i == params_others(a) && j == params_others(b);
}

bool params_read_alike(const struct params_table *table, const struct params *a, const struct params *b)
{
	if (a == b)
		return true;
	for (int i = 0; i < params_count(table); i++)
		if (i != PARAM_APPLICATION_NAME && params_get(a, i) != params_get(b, i))
			return false;
	return has_same_others(a, b);
}

static const struct params *without_dots(struct params_table *table, const struct params *set)
{
	const char **values = mem_try((size_t)params_count(table) * sizeof(*values));
	struct params_pair *others = mem_try((params_others(set) + 1) * sizeof(*others));
	const struct params *fresh = NULL;
	size_t count = 0;

	for (int i = 0; values && i < params_count(table); i++)
		values[i] = i == PARAM_APPLICATION_NAME ? NULL : params_get(set, i);
	for (size_t i = 0; others && (i = next_that_counts(set, i)) < params_others(set); i++)
		others[count++] = params_other(set, i);
	if (values && others)
		fresh = params_of_values(table, values, others, count);
	mem_free(values);
	mem_free(others);
	return fresh;
}

const struct params *params_for_reading(struct params_table *table, const struct params *set)
{
	for (size_t i = 0; i < params_others(set); i++)
		if (strchr(params_other(set, i).name, '.'))
			return without_dots(table, set);
	return params_with(table, set, PARAM_APPLICATION_NAME, NULL);
}
