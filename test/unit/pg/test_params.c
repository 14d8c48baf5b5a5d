/* Parameter sets: unique, shared, freed with the last reference; and the SQL that changes one set to another. */
#include "base/mem.h"
#include "pg/params.h"
#include "unit.h"

#include <string.h>

static struct params_table *table;

/* A set of the values given as name, value, ..., NULL. */
static const struct params *set_of(const char *const *pairs)
{
	const struct params *set = params_none(table);

	for (; *pairs; pairs += 2) {
		const struct params *next = params_with(table, set, params_index(table, pairs[0]), pairs[1]);

		params_drop(table, &set);
		set = next;
	}
	return set;
}

#define SET(...) set_of((const char *const[]){ __VA_ARGS__, NULL })

static void begin(const char *extra)
{
	table = params_table_new(extra);
}

/* The tests drop all references: only the empty set may be left. */
static void end(void)
{
	CHECK_INT(HASH_COUNT(table->sets), 1);
	params_table_free(&table);
	CHECK(table == NULL);
}

TEST(names)
{
	begin("IntervalStyle");
	REQUIRE(table != NULL);
	CHECK_INT(params_count(table), PARAM_FIXED + 1);
	CHECK_TEXT(params_name(table, PARAM_CLIENT_ENCODING), "client_encoding");
	CHECK_TEXT(params_name(table, PARAM_DATESTYLE), "DateStyle");
	CHECK_TEXT(params_name(table, PARAM_TIMEZONE), "TimeZone");
	CHECK_TEXT(params_name(table, PARAM_STANDARD_CONFORMING_STRINGS), "standard_conforming_strings");
	CHECK_TEXT(params_name(table, PARAM_APPLICATION_NAME), "application_name");
	CHECK_TEXT(params_name(table, PARAM_SEARCH_PATH), "search_path");
	CHECK_TEXT(params_name(table, PARAM_FIXED), "IntervalStyle");
	CHECK_INT(params_index(table, "timezone"), PARAM_TIMEZONE);
	CHECK_INT(params_index(table, "INTERVALSTYLE"), PARAM_FIXED);
	CHECK_INT(params_index(table, "work_mem"), -1);
	CHECK_INT(params_index(table, "TimeZon"), -1);
	CHECK_INT(params_index(table, ""), -1);
	end();
}

TEST(extra_names)
{
	begin(" datestyle,, work_mem ,intervalstyle\t, Work_Mem, my.setting");
	REQUIRE(table != NULL);
	CHECK_INT(params_count(table), PARAM_FIXED + 3);
	CHECK_TEXT(params_name(table, PARAM_FIXED), "work_mem");
	CHECK_TEXT(params_name(table, PARAM_FIXED + 1), "IntervalStyle");
	CHECK_TEXT(params_name(table, PARAM_FIXED + 2), "my.setting");
	end();
	begin(NULL);
	CHECK_INT(params_count(table), PARAM_FIXED);
	end();
	begin("");
	CHECK_INT(params_count(table), PARAM_FIXED);
	end();
}

TEST(equal_sets_are_shared)
{
	const struct params *a, *b, *c, *none;

	begin(NULL);
	a = SET("TimeZone", "UTC", "DateStyle", "ISO");
	b = SET("DateStyle", "ISO", "TimeZone", "UTC");
	CHECK(a == b);
	CHECK_INT(HASH_COUNT(table->sets), 2);
	c = params_with(table, a, PARAM_TIMEZONE, "utc");
	CHECK(c != a);
	CHECK_TEXT(params_get(c, PARAM_TIMEZONE), "utc");
	CHECK_TEXT(params_get(a, PARAM_TIMEZONE), "UTC");
	CHECK_TEXT(params_get(c, PARAM_DATESTYLE), "ISO");
	CHECK(params_get(c, PARAM_SEARCH_PATH) == NULL);
	params_drop(table, &b);
	CHECK(b == NULL);
	CHECK_INT(HASH_COUNT(table->sets), 3);
	b = params_with(table, c, PARAM_TIMEZONE, "UTC");
	CHECK(b == a);
	params_drop(table, &a);
	params_drop(table, &b);
	params_drop(table, &b);
	CHECK_INT(HASH_COUNT(table->sets), 2);
	a = params_with(table, c, PARAM_TIMEZONE, NULL);
	b = params_with(table, a, PARAM_DATESTYLE, NULL);
	none = params_none(table);
	CHECK(b == none);
	params_drop(table, &a);
	params_drop(table, &b);
	params_drop(table, &c);
	params_drop(table, &none);
	end();
}

/* A value is stored once for all sets: changing another value needs no memory for this value. */
TEST(equal_values_are_shared)
{
	const struct params *a, *b, *c;
	char value[] = "long value";

	begin(NULL);
	a = SET("TimeZone", value, "DateStyle", "ISO");
	b = SET("DateStyle", "German", "application_name", value);
	CHECK(params_get(a, PARAM_TIMEZONE) == params_get(b, PARAM_APPLICATION_NAME));
	CHECK(params_get(a, PARAM_TIMEZONE) != value);
	c = params_overlay(table, a, b);
	CHECK(params_get(c, PARAM_TIMEZONE) == params_get(a, PARAM_TIMEZONE));
	CHECK_TEXT(params_get(c, PARAM_DATESTYLE), "German");
	params_drop(table, &a);
	CHECK_TEXT(params_get(c, PARAM_TIMEZONE), value);
	params_drop(table, &b);
	/* the value comes from the set that ends */
	a = params_with(table, c, PARAM_SEARCH_PATH, params_get(c, PARAM_TIMEZONE));
	params_drop(table, &c);
	CHECK(params_get(a, PARAM_SEARCH_PATH) == params_get(a, PARAM_TIMEZONE));
	params_drop(table, &a);
	end();
}

/* The position of a value, and the difference between empty and absent, are significant. */
TEST(different_sets_are_distinguished)
{
	const struct params *sets[5];

	begin(NULL);
	sets[0] = SET("TimeZone", "");
	sets[1] = SET("DateStyle", "");
	sets[2] = SET("TimeZone", "", "DateStyle", "");
	sets[3] = SET("TimeZone", "\001x");
	sets[4] = SET("TimeZone", "", "standard_conforming_strings", "x");
	CHECK_INT(HASH_COUNT(table->sets), 6);
	CHECK_TEXT(params_get(sets[0], PARAM_TIMEZONE), "");
	for (int i = 0; i < 5; i++)
		params_drop(table, &sets[i]);
	end();
}

TEST(references)
{
	const struct params *a, *b;

	begin(NULL);
	a = SET("TimeZone", "UTC");
	b = params_hold(a);
	params_drop(table, &a);
	CHECK_INT(HASH_COUNT(table->sets), 2);
	CHECK_TEXT(params_get(b, PARAM_TIMEZONE), "UTC");
	a = params_with(table, b, PARAM_TIMEZONE, "UTC");
	CHECK(a == b);
	params_drop(table, &b);
	CHECK_INT(HASH_COUNT(table->sets), 2);
	params_drop(table, &a);
	CHECK_INT(HASH_COUNT(table->sets), 1);
	/* The empty set survives any number of drops. */
	for (int i = 0; i < 3; i++) {
		a = params_none(table);
		params_drop(table, &a);
	}
	a = params_none(table);
	CHECK(params_get(a, PARAM_TIMEZONE) == NULL);
	params_drop(table, &a);
	end();
}

TEST(overlay)
{
	const struct params *under, *over, *both, *same, *none;

	begin(NULL);
	under = SET("TimeZone", "UTC", "DateStyle", "ISO");
	over = SET("TimeZone", "CET", "application_name", "");
	none = params_none(table);
	both = params_overlay(table, under, over);
	CHECK_TEXT(params_get(both, PARAM_TIMEZONE), "CET");
	CHECK_TEXT(params_get(both, PARAM_DATESTYLE), "ISO");
	CHECK_TEXT(params_get(both, PARAM_APPLICATION_NAME), "");
	CHECK(params_get(both, PARAM_SEARCH_PATH) == NULL);
	same = params_overlay(table, under, none);
	CHECK(same == under);
	params_drop(table, &same);
	same = params_overlay(table, none, over);
	CHECK(same == over);
	params_drop(table, &same);
	same = params_overlay(table, both, under);
	CHECK_TEXT(params_get(same, PARAM_TIMEZONE), "UTC");
	params_drop(table, &same);
	params_drop(table, &both);
	params_drop(table, &under);
	params_drop(table, &over);
	params_drop(table, &none);
	end();
}

/* Sets that are still referenced are freed with the table (a leak would be reported). */
TEST(free_with_sets_in_use)
{
	begin(NULL);
	for (int i = 0; i < 1000; i++) {
		char text[16];

		snprintf(text, sizeof(text), "%d", i);
		CHECK(SET("application_name", text) != NULL);
	}
	CHECK_INT(HASH_COUNT(table->sets), 1001);
	params_table_free(&table);
	CHECK(table == NULL);
	params_table_free(&table);
}

/* Drops both references. */
static const char *noted;

static const char *sql_in_doubt(uint64_t unknown, const struct params *have, const struct params *want, int count)
{
	static char text[1000];
	struct bytes sql = BYTES_EMPTY;

	CHECK_INT(params_sql(table, have, want, unknown, noted, &sql), count);
	CHECK(!sql.failed);
	bytes_append_u8(&sql, 0);
	snprintf(text, sizeof(text), "%s", (const char *)bytes_front(&sql));
	bytes_free(&sql);
	params_drop(table, &have);
	params_drop(table, &want);
	return text;
}

static const char *sql_between(const struct params *have, const struct params *want, int count)
{
	return sql_in_doubt(0, have, want, count);
}

TEST(sql)
{
	begin(NULL);
	CHECK_TEXT(sql_between(SET("TimeZone", "UTC"), SET("TimeZone", "UTC"), 0), "");
	CHECK_TEXT(sql_between(params_none(table), params_none(table), 0), "");
	CHECK_TEXT(sql_between(SET("TimeZone", "UTC", "DateStyle", "ISO"), SET("TimeZone", "CET", "DateStyle", "ISO"), 1),
		   "SELECT pg_catalog.set_config('TimeZone',E'CET',false)");
	CHECK_TEXT(sql_between(params_none(table), SET("TimeZone", "CET", "client_encoding", "UTF8"), 2),
		   "SELECT pg_catalog.set_config('client_encoding',E'UTF8',false),"
		   "pg_catalog.set_config('TimeZone',E'CET',false)");
	CHECK_TEXT(sql_between(SET("TimeZone", "UTC", "search_path", "a"), params_none(table), 2),
		   "RESET TimeZone;RESET search_path");
	CHECK_TEXT(sql_between(SET("TimeZone", "UTC"), SET("application_name", "x"), 2),
		   "SELECT pg_catalog.set_config('application_name',E'x',false);RESET TimeZone");
	end();
}

#define BIT(place) ((uint64_t)1 << (place))
#define NOTED_61 "SELECT pg_catalog.set_config('search_path',pg_catalog.convert_from(pg_catalog.decode('61','hex')," \
	"pg_catalog.getdatabaseencoding()),false) IS NULL"

/* The value of a parameter in doubt is unknown. */
TEST(sql_in_doubt)
{
	begin("extra.name");
	CHECK_TEXT(sql_in_doubt(BIT(PARAM_SEARCH_PATH), SET("search_path", "a"), SET("search_path", "a"), 1),
		   "SELECT pg_catalog.set_config('search_path',E'a',false)");
	CHECK_TEXT(sql_in_doubt(BIT(PARAM_SEARCH_PATH), SET("TimeZone", "UTC"), SET("TimeZone", "UTC"), 1), "RESET search_path");
	CHECK_TEXT(sql_in_doubt(BIT(PARAM_SEARCH_PATH), SET("search_path", "a"), SET("TimeZone", "CET"), 2),
		   "SELECT pg_catalog.set_config('TimeZone',E'CET',false);RESET search_path");
	CHECK_TEXT(sql_in_doubt(BIT(PARAM_FIXED), SET("extra.name", "a"), SET("extra.name", "a"), 1),
		   "SELECT pg_catalog.set_config('extra.name',E'a',false)");
	CHECK_TEXT(sql_in_doubt(BIT(PARAM_FIXED), SET("extra.name", "a"), params_none(table), 1), "RESET extra.name");
	CHECK(strncmp(sql_in_doubt(BIT(PARAM_FIXED), params_none(table), params_none(table), 1),
		      "SELECT CASE WHEN pg_catalog.current_setting('extra.name',true) IS NOT NULL AND NOT EXISTS", 86) == 0);
	noted = "61";
	CHECK_TEXT(sql_in_doubt(BIT(PARAM_SEARCH_PATH), params_none(table), params_none(table), 1), NOTED_61);
	CHECK_TEXT(sql_between(SET("search_path", "a"), params_none(table), 1), NOTED_61);
	CHECK_TEXT(sql_between(params_none(table), params_none(table), 0), "");
	CHECK_TEXT(sql_between(params_none(table), SET("search_path", "a"), 1),
		   "SELECT pg_catalog.set_config('search_path',E'a',false)");
	noted = NULL;
	end();
}

/* Trap 43: quoting of values. */
TEST(sql_quotes)
{
	begin(NULL);
	CHECK_TEXT(sql_between(params_none(table), SET("search_path", ""), 1),
		   "SELECT pg_catalog.set_config('search_path',E'',false)");
	CHECK_TEXT(sql_between(params_none(table), SET("search_path", "\"$user\", \"it's\", 'a\\b'"), 1),
		   "SELECT pg_catalog.set_config('search_path',E'\"$user\", \"it''s\", ''a\\\\b''',false)");
	CHECK_TEXT(sql_between(params_none(table), SET("application_name", "caf\xc3\xa9's"), 1),
		   "SELECT pg_catalog.set_config('application_name',E'caf\xc3\xa9''s',false)");
	/* In SJIS the first backslash is half a character; doubled, it would start an escape. */
	CHECK_TEXT(sql_between(params_none(table), SET("application_name", "\x95\\';--"), 1),
		   "SELECT pg_catalog.set_config('application_name',$v0$\x95\\';--$v0$,false)");
	CHECK_TEXT(sql_between(params_none(table), SET("application_name", "\xff\\$v0$v2$v1"), 1),
		   "SELECT pg_catalog.set_config('application_name',$v3$\xff\\$v0$v2$v1$v3$,false)");
	end();
}

/* A set without tracked values that has these others, given as name, value, ..., NULL. */
static const struct params *others_of(const char *const *pairs)
{
	const char **nothing = mem_must((size_t)params_count(table) * sizeof(*nothing));
	struct params_pair others[8];
	const struct params *set;
	size_t count = 0;

	for (; *pairs; pairs += 2)
		others[count++] = (struct params_pair){ pairs[0], pairs[1] };
	set = params_of_values(table, nothing, others, count);
	mem_free(nothing);
	return set;
}

#define OTHERS(...) others_of((const char *const[]){ __VA_ARGS__, NULL })

TEST(others)
{
	const struct params *set, *same, *more, *with, *empty;

	begin(NULL);
	set = OTHERS("work_mem", "1", "APP.b", "x", "app.a", "y", "Work_Mem", "2");
	same = OTHERS("app.a", "y", "work_mem", "2", "app.b", "x");
	CHECK(set == same);
	CHECK_INT((int)params_others(set), 3);
	CHECK_TEXT(params_other(set, 0).name, "app.a");
	CHECK_TEXT(params_other(set, 2).name, "work_mem");
	CHECK_TEXT(params_other_value(set, "Work_Mem"), "2");
	CHECK(params_other_value(set, "work") == NULL);
	CHECK_INT(params_index(table, "work_mem"), -1);
	with = params_with(table, set, PARAM_TIMEZONE, "UTC");
	CHECK_INT((int)params_others(with), 3);
	params_replace(table, &with, params_with(table, with, PARAM_TIMEZONE, NULL));
	CHECK(with == set);
	params_replace(table, &with, params_with(table, with, PARAM_APPLICATION_NAME, "me"));
	more = OTHERS("app.b", "z", "zeta", "1");
	params_replace(table, &more, params_overlay(table, with, more));
	CHECK_INT((int)params_others(more), 4);
	CHECK_TEXT(params_other_value(more, "app.b"), "z");
	CHECK_TEXT(params_other(more, 3).name, "zeta");
	CHECK_TEXT(params_get(more, PARAM_APPLICATION_NAME), "me");
	empty = params_none(table);
	params_replace(table, &more, params_with_others(table, with, empty));
	params_drop(table, &empty);
	CHECK_INT((int)params_others(more), 0);
	CHECK_TEXT(params_get(more, PARAM_APPLICATION_NAME), "me");
	params_replace(table, &more, params_with_others(table, more, set));
	CHECK(more == with);
	params_drop(table, &set);
	params_drop(table, &same);
	params_drop(table, &more);
	params_drop(table, &with);
	end();
}

TEST(sql_of_others)
{
	begin("extra.name");
	CHECK_TEXT(sql_between(params_none(table), OTHERS("app.a", "it's", "work_mem", "1MB"), 2),
		   "SELECT pg_catalog.set_config('app.a',E'it''s',false),pg_catalog.set_config('work_mem',E'1MB',false)");
	CHECK_TEXT(sql_between(OTHERS("app.b", "2", "app.d", "4", "app.e", "1"), OTHERS("app.b", "2", "app.c", "3", "app.d", "5"), 3),
		   "SELECT pg_catalog.set_config('app.e',NULL,false),pg_catalog.set_config('app.c',E'3',false),"
		   "pg_catalog.set_config('app.d',E'5',false)");
	CHECK_TEXT(sql_in_doubt(BIT(PARAM_SEARCH_PATH), OTHERS("app.a", "1"), OTHERS("app.a", "1"), 2),
		   "SELECT pg_catalog.set_config('app.a',E'1',false);RESET search_path");
	CHECK_TEXT(sql_between(SET("search_path", "a"), OTHERS("app.a", "1"), 2),
		   "SELECT pg_catalog.set_config('app.a',E'1',false);RESET search_path");
	end();
}

/* After a reset, only initial values that differ from the server's defaults are set again. */
TEST(sql_after_reset)
{
	const struct params *first, *without;
	struct bytes sql = BYTES_EMPTY;

	begin(NULL);
	first = SET("search_path", "a, b", "TimeZone", "CET");
	without = SET("TimeZone", "CET");
	CHECK_INT(params_sql_after_reset(table, first, first, true, &sql), 0);
	CHECK_INT(params_sql_after_reset(table, first, without, true, &sql), 0);
	CHECK_INT((int)bytes_size(&sql), 0);
	CHECK_INT(params_sql_after_reset(table, without, first, true, &sql), 1);
	bytes_append_u8(&sql, 0);
	CHECK(strstr((const char *)bytes_front(&sql), "(VALUES ('search_path',E'a, b')) f(n,v)"));
	bytes_free(&sql);
	params_drop(table, &first);
	params_drop(table, &without);
	first = OTHERS("app.a", "1", PARAMS_ROLE, "61:62");
	without = params_none(table);
	CHECK_INT(params_sql_after_reset(table, without, first, false, &sql), 1);
	bytes_append_u8(&sql, 0);
	CHECK(strstr((const char *)bytes_front(&sql), "WHERE CASE WHEN s.name IS NULL THEN false AND"));
	bytes_free(&sql);
	params_drop(table, &first);
	params_drop(table, &without);
	end();
}

TEST(settable_names)
{
	static const char *const good[] = { "a", "_a", "Work_Mem", "app.tenant", "a1.b2._c", "pgweir", "pgweird.x" };
	static const char *const bad[] = { "", "1a", "a.", ".a", "a..b", "a.1", "a b", "a-b", "a'b", "a\\b", "\xc3\xa4", "ROLE", "session_authorization",
					   "Log_Connections", "User", "DATABASE", "options", "replication", "_pq_.x", "_PQ_.a", "pgweir.search_path", "PgWeir.x" };
	char name[210];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CHECK(params_kind_of(good[i]) == PARAMS_SETTABLE);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(params_kind_of(bad[i]) != PARAMS_SETTABLE);
	memset(name, 'a', sizeof(name));
	name[200] = 0;
	CHECK(params_kind_of(name) == PARAMS_SETTABLE);
	name[200] = 'a', name[201] = 0;
	CHECK(params_kind_of(name) != PARAMS_SETTABLE);
}

/* ---- meaning ---- */

static struct params_table *table_meaning;

/* A set with this search_path and application_name, and others as "name=value name=value". */
static const struct params *set_of_meaning(const char *path, const char *application, const char *others)
{
	const char *values[PARAM_FIXED] = { [PARAM_SEARCH_PATH] = path, [PARAM_APPLICATION_NAME] = application };
	struct params_pair pairs[8];
	size_t count = 0;
	char copy[100], *rest;

	snprintf(copy, sizeof(copy), "%s", others);
	for (char *name = strtok_r(copy, "= ", &rest); name; name = strtok_r(NULL, "= ", &rest))
		pairs[count++] = (struct params_pair){ name, strtok_r(NULL, "= ", &rest) };
	return params_of_values(table_meaning, values, pairs, count);
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

	table_meaning = params_table_new(NULL);
	for (size_t i = 0; i < SETS; i++) {
		made[i] = set_of_meaning(sets[i].path, sets[i].application, sets[i].others);
		read[i] = params_for_reading(table_meaning, made[i]);
	}
	for (size_t i = 0; i < SETS; i++)
		for (size_t j = 0; j < SETS; j++) {
			CHECK_INT(params_read_alike(table_meaning, made[i], made[j]), sets[i].kind == sets[j].kind);
			CHECK_INT(read[i] == read[j], sets[i].kind == sets[j].kind);
			CHECK_INT(params_read_alike(table_meaning, read[i], made[j]), sets[i].kind == sets[j].kind);
		}
	for (size_t i = 0; i < SETS; i++) {
		params_drop(table_meaning, &made[i]);
		params_drop(table_meaning, &read[i]);
	}
	CHECK_INT(HASH_COUNT(table_meaning->sets), 1);
	params_table_free(&table_meaning);
}

UNIT_MAIN
