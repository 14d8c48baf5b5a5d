/*
 * The SQL that changes a session from one set of parameters to another.
 *
 * The SQL is one simple Query (an implicit transaction) of set_config calls and RESETs. set_config takes any value as one string, also a value that
 * SET would read as a list of identifiers (search_path), an identifier or a unit.
 *
 * A value is written between E quotes, with quotes and backslashes doubled, which has the same meaning with either value of
 * standard_conforming_strings. It also has the same meaning in every client encoding but a few (SJIS, BIG5, GBK, UHC, GB18030, JOHAB), in which the
 * byte of a backslash may be the second half of a character: a doubled one would begin an escape. Between dollar quotes nothing is doubled, so a
 * value with a backslash that is not ASCII is written between dollar quotes.
 */
#include "pg/params.h"

#include <stdio.h>
#include <string.h>

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
	STEP_NOTED,				/* to the value that pgweir has noted for the server */
	STEP_CAREFUL,				/* RESET if the parameter exists and is changed */
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

/* Appends columns for the parameters that are not tracked, either for those that are reset (`back`) or for those that are set; all of these if `all`.
   Returns their number. set_config with NULL is a RESET, and accepts names with a reserved word. */
static int append_others(const struct params *have, const struct params *want, bool back, bool all, int before, struct bytes *sql)
{
	size_t i = 0, j = 0;
	int count = 0;

	while (i < params_others(have) || j < params_others(want)) {
		int order = params_other_order(have, i, want, j);
		const char *had = order <= 0 ? params_other(have, i).value : NULL, *value = order >= 0 ? params_other(want, j).value : NULL;
		const char *name = order <= 0 ? params_other(have, i).name : params_other(want, j).name;

		i += order <= 0;
		j += order >= 0;
		/* each text exists once: equal texts have one address */
		if ((had == value && !all) || back == (value != NULL) || strcmp(name, PARAMS_ROLE) == 0)
			continue;
		bytes_append_format(sql, "%spg_catalog.set_config('%s',", before + count++ ? "," : "SELECT ", name);
		if (value)
			append_value(sql, value);
		else
			bytes_append_text(sql, "NULL");
		bytes_append_text(sql, ",false)");
	}
	return count;
}

int params_sql(const struct params_table *table, const struct params *have, const struct params *want, uint64_t unknown, const char *noted,
	       struct bytes *sql)
{
	const char *resets[64];
	int selected = 0, reset = 0;

	if (have == want && unknown == 0)
		return 0;
	for (int i = 0; i < params_count(table); i++) {
		const char *name = params_name(table, i), *value = params_get(want, i);
		enum params_step step = step_of(params_get(have, i), value, unknown >> i & 1, noted && i == PARAM_SEARCH_PATH, i < PARAM_FIXED);

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
			/* the result does not contain the value, because the client's encoding may lack some of its characters */
			bytes_append_text(sql, "pg_catalog.set_config('search_path',pg_catalog.convert_from(pg_catalog.decode('");
			bytes_append_text(sql, noted);
			bytes_append_text(sql, "','hex'),pg_catalog.getdatabaseencoding()),false) IS NULL");
		} else {
			/* The parameter may be unchanged, or unknown to the server, or this role may not change it. A changed parameter exists, and
			   the role that changed it may RESET it. (Names with a dot, and a few more, are not in the view.) */
			bytes_append_format(sql, "CASE WHEN pg_catalog.current_setting('%s',true) IS NOT NULL AND NOT EXISTS (SELECT FROM "
					    "pg_catalog.pg_settings WHERE pg_catalog.lower(name) OPERATOR(pg_catalog.=) pg_catalog.lower('%s') AND "
					    "setting OPERATOR(pg_catalog.=) reset_val) THEN pg_catalog.set_config('%s',NULL,false) END", name, name, name);
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
	"SELECT pg_catalog.set_config('pgweir.timeout',pg_catalog.current_setting('statement_timeout'),true),"
	"pg_catalog.set_config('statement_timeout','0',true);"
	"SELECT pg_catalog.count(pg_catalog.set_config(n,v,false)) FROM (VALUES ";

static void append_row(struct bytes *sql, int before, const char *name, const char *value)
{
	bytes_append_text(sql, before ? "," : without_timeout);
	bytes_append_format(sql, "('%s',", name);
	append_value(sql, value);
	bytes_append_u8(sql, ')');
}

/* statement_timeout is 0 for this query, and its former value is compared with reset_val, which is in milliseconds. A parameter with a dot that no
   extension has defined is not in the view, and is empty after a RESET. */
int params_sql_after_reset(const struct params_table *table, const struct params *without, const struct params *first, bool was_reset,
			   struct bytes *sql)
{
	const char *reset = was_reset ? "true" : "false";
	int count = 0;

	for (int i = 0; i < params_count(table); i++)
		if (params_get(first, i) && params_get(first, i) != params_get(without, i))
			append_row(sql, count++, params_name(table, i), params_get(first, i));
	for (size_t i = 0; i < params_others(first); i++)
		if (strcmp(params_other(first, i).name, PARAMS_ROLE) != 0)
			append_row(sql, count++, params_other(first, i).name, params_other(first, i).value);
	if (count == 0)
		return 0;
	bytes_append_format(sql, ") f(n,v) LEFT JOIN pg_catalog.pg_settings s ON pg_catalog.lower(s.name) OPERATOR(pg_catalog.=) pg_catalog.lower(n) "
			    "WHERE CASE WHEN s.name IS NULL THEN %s AND pg_catalog.strpos(n,'.') OPERATOR(pg_catalog.>) 0 AND "
			    "COALESCE(pg_catalog.current_setting(n,true),'') OPERATOR(pg_catalog.=) '' "
			    "WHEN s.name OPERATOR(pg_catalog.=) 'statement_timeout' THEN %s AND "
			    "pg_catalog.current_setting('pgweir.timeout')::pg_catalog.interval OPERATOR(pg_catalog.=) "
			    "(pg_catalog.concat(s.reset_val,'ms'))::pg_catalog.interval "
			    "ELSE s.source OPERATOR(pg_catalog.<>) 'session' END", reset, reset);
	return count;
}
