/* Parameter sets under which a prepared statement has the same meaning. */
#include "pg/params.h"
#include "unit.h"

#include <string.h>

static struct params_table *table;

/* A set with this search_path and application_name, and others as "name=value name=value". */
static const struct params *set_of(const char *path, const char *application, const char *others)
{
	const char *values[PARAM_FIXED] = { [PARAM_SEARCH_PATH] = path, [PARAM_APPLICATION_NAME] = application };
	struct params_pair pairs[8];
	size_t count = 0;
	char copy[100], *rest;

	snprintf(copy, sizeof(copy), "%s", others);
	for (char *name = strtok_r(copy, "= ", &rest); name; name = strtok_r(NULL, "= ", &rest))
		pairs[count++] = (struct params_pair){ name, strtok_r(NULL, "= ", &rest) };
	return params_of_values(table, values, pairs, count);
}

static const struct { const char *path, *application, *others; int kind; } sets[] = {
	{ NULL, NULL, "", 0 },
	{ NULL, "me", "", 0 },
	{ NULL, NULL, "app.tenant=a", 0 },
	{ NULL, NULL, "app.tenant=b z.z=1", 0 },
	{ "a", NULL, "", 1 },
	{ "a", "me", "a.b=c", 1 },
	{ NULL, NULL, "work_mem=1", 2 },
	{ NULL, "you", "a.b=1 work_mem=1 z.z=1", 2 },
	{ NULL, NULL, "work_mem=2", 3 },
	{ NULL, NULL, "geqo=1 work_mem=1", 4 },
	{ NULL, NULL, "geqo=1 m.m=1 work_mem=1", 4 },
};
#define SETS (sizeof(sets) / sizeof(sets[0]))

TEST(parameters_that_affect_meaning)
{
	const struct params *made[SETS], *read[SETS];

	table = params_table_new(NULL);
	for (size_t i = 0; i < SETS; i++) {
		made[i] = set_of(sets[i].path, sets[i].application, sets[i].others);
		read[i] = params_for_reading(table, made[i]);
	}
	for (size_t i = 0; i < SETS; i++)
		for (size_t j = 0; j < SETS; j++) {
			CHECK_INT(params_read_alike(table, made[i], made[j]), sets[i].kind == sets[j].kind);
			CHECK_INT(read[i] == read[j], sets[i].kind == sets[j].kind);
			CHECK_INT(params_read_alike(table, read[i], made[j]), sets[i].kind == sets[j].kind);
		}
	for (size_t i = 0; i < SETS; i++) {
		params_drop(table, &made[i]);
		params_drop(table, &read[i]);
	}
	CHECK_INT(params_sets(table), 1);
	params_table_free(&table);
}

UNIT_MAIN
