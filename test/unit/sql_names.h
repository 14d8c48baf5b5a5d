/* The names in SQL texts that a server resolves by search_path, as conf/check_names.c warns about them. */
#ifndef UNIT_SQL_NAMES_H
#define UNIT_SQL_NAMES_H

#include "conf/conf.h"
#include "tempfile.h"
#include "unit.h"

/* Returns the name after `words` in the warning about a setting with this text, or "". `lines`: other settings. */
static inline const char *unqualified_name(const char *lines, const char *setting, const char *words, const char *sql)
{
	static char name[128];
	struct conf_problems problems = { .count = 0 };
	struct conf *conf, *with;
	char text[256];

	snprintf(text, sizeof(text), "[pgbouncer]\nauth_type = trust\n%s", lines);
	conf = conf_load(temp_write("names.ini", text), &problems);
	with = conf ? conf_with(conf, setting, sql, &problems) : NULL;
	CHECK(with);
	snprintf(text, sizeof(text), "\"%s\" %s \"", setting, words);
	name[0] = '\0';
	for (size_t i = 0; i < problems.count; i++) {
		const char *found = strstr(problems.items[i].text, text), *end = found ? strstr(found, "\" without a schema") : NULL;

		if (end)
			snprintf(name, sizeof(name), "%.*s", (int)(end - found) - (int)strlen(text), found + strlen(text));
	}
	conf_drop(&with);
	conf_drop(&conf);
	conf_problems_free(&problems);
	return name;
}

#endif
