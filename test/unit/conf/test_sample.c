/* The installed sample configuration: it is valid unchanged, and every setting in it is accepted without its semicolon and shows the default. */
#include "conf/conf.h"

#include "base/text.h"
#include "conf/value.h"
#include "tempfile.h"
#include "unit.h"

static char *read_sample(void)
{
	const char *srcdir = getenv("srcdir");
	char path[512];

	snprintf(path, sizeof(path), "%s/etc/pgweir.ini", srcdir ? srcdir : ".");
	return text_read_file(path, 1 << 20, NULL);
}

/* Returns a copy without the single semicolons at the beginnings of lines (";;" begins a remark and is kept). */
static char *uncomment(const char *text)
{
	char *copy = mem_must(strlen(text) + 1), *to = copy;
	bool at_start = true;

	for (; *text; text++) {
		if (!(at_start && *text == ';' && text[1] != ';'))
			*to++ = *text;
		at_start = *text == '\n';
	}
	return copy;
}

TEST(sample_is_valid)
{
	struct conf_problems problems = { 0 };
	struct conf *conf;
	char *text = read_sample();

	REQUIRE(text);
	conf = conf_load(temp_write("sample.ini", text), &problems);
	CHECK(conf);
	CHECK_INT(problems.errors, 0);
	mem_free(text);
	conf_problems_free(&problems);
	conf_drop(&conf);
}

TEST(sample_has_every_setting_with_its_default)
{
	struct conf_problems problems = { 0 };
	struct conf *conf, *defaults = conf_load(temp_write("empty.ini", "[databases]\n"), &problems);
	char *text = read_sample(), *all, found[64], want[64], line[80];

	REQUIRE(text && defaults);
	for (size_t i = 0; i < setting_table.count; i++) {
		snprintf(line, sizeof(line), "\n;%s =", setting_table.rows[i].row.name);
		if (!strstr(text, line))
			UNIT_FAIL("%s is missing", setting_table.rows[i].row.name);
	}
	all = uncomment(text);
	conf = conf_load(temp_write("sample.ini", all), &problems);
	for (size_t i = 0; i < problems.count; i++) {
		if (!problems.items[i].is_warning)
			UNIT_FAIL("line %d: %s", problems.items[i].line, problems.items[i].text);
	}
	for (size_t i = 0; conf && i < setting_table.count; i++) {
		if (strcmp(setting_table.rows[i].row.name, "conffile") != 0)
			CHECK_TEXT(value_text(&setting_table.rows[i], &conf->settings, found, sizeof(found)),
				   value_text(&setting_table.rows[i], &defaults->settings, want, sizeof(want)));
	}
	/* The examples have the entries that their comments describe. */
	CHECK(conf && conf->fallback && conf_database_find(conf, "reports") && conf_database_find(conf, "web"));
	CHECK(conf && conf_user_find(conf, "batch") && conf->peer_count == 2);
	mem_free(text);
	mem_free(all);
	conf_problems_free(&problems);
	conf_drop(&conf);
	conf_drop(&defaults);
}

UNIT_MAIN
