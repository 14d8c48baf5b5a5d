/*
 * The ini file, with its included files: everything up to a snapshot, the check for contradictions, and the rules.
 *
 * Input: files, as sandbox_files reads them. Properties: every setting, written as SHOW CONFIG and --print-config write it, is parsed as the same;
 * SET of its own value changes nothing; each error has a text; reading a file twice gives the same result.
 */
#include "conf/conf.h"
#include "conf/hba.h"
#include "conf/value.h"
#include "fuzz.h"
#include "sandbox.h"

#include <stdlib.h>
#include <string.h>

static void problems_check(struct conf_problems *problems, bool usable)
{
	size_t errors = 0;

	for (size_t i = 0; i < problems->count; i++) {
		FUZZ_CHECK(problems->items[i].text && *problems->items[i].text && problems->items[i].line >= 0);
		errors += !problems->items[i].is_warning;
	}
	FUZZ_CHECK(errors == problems->errors && usable == (errors == 0));
	conf_problems_free(problems);
}

/* Each value comes back from its text. */
static void write_again(const struct conf *conf)
{
	struct arena *arena = arena_new(false);
	struct settings again;
	char buf[4096];

	FUZZ_CHECK(arena && value_read_defaults(&setting_table, &again, arena));
	for (size_t i = 0; i < setting_table.count; i++) {
		const struct value_row *row = &setting_table.rows[i];
		const char *text = value_text(row, &conf->settings, buf, sizeof(buf));

		setting_value_shown(&conf->settings, i, buf, sizeof(buf));
		text = value_text(row, &conf->settings, buf, sizeof(buf));
		if (strlen(text) == sizeof(buf) - 1)
			continue;
		FUZZ_CHECK(value_read(row, &again, text, arena) == VALUE_READ_OK);
		FUZZ_CHECK(value_is_equal(row, &again, &conf->settings));
	}
	arena_free(&arena);
}

/* SET of a value that is in force. */
static void set_again(struct conf *conf)
{
	struct conf_problems problems = { .count = 0 };
	char buf[4096];

	for (size_t i = 0; i < setting_table.count; i += 7) {
		const char *text = value_text(&setting_table.rows[i], &conf->settings, buf, sizeof(buf));
		struct conf *next = setting_table.rows[i].row.applies != APPLIES_START ? conf_with(conf, setting_table.rows[i].row.name, text, &problems) : NULL;

		if (next) {
			FUZZ_CHECK(value_is_equal(&setting_table.rows[i], &next->settings, &conf->settings));
			conf_drop(&next);
		}
		conf_problems_free(&problems);
	}
}

static void compare(const struct conf *a, const struct conf *b)
{
	FUZZ_CHECK(a->database_count == b->database_count && a->user_count == b->user_count && a->peer_count == b->peer_count);
	for (size_t i = 0; i < setting_table.count; i++)
		FUZZ_CHECK(value_is_equal(&setting_table.rows[i], &a->settings, &b->settings));
	for (size_t i = 0; i < a->database_count; i++) {
		const struct conf_database *x = a->databases[i], *y = b->databases[i];
		struct bytes packed = BYTES_EMPTY, other = BYTES_EMPTY;

		FUZZ_CHECK(!value_rows_differ(&database_table, APPLIES_SERVERS, x, y) && conf_database_find(a, x->name) == x);
		value_rows_pack(&packed, &database_table, APPLIES_SERVERS, x);
		value_rows_pack(&other, &database_table, APPLIES_SERVERS, y);
		FUZZ_SAME(&packed, &other);
		bytes_free(&packed);
		bytes_free(&other);
	}
	for (size_t i = 0; i < a->user_count; i++)
		FUZZ_CHECK(conf_user_find(a, a->users[i]->name) == a->users[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf_problems problems = { .count = 0 };
	struct conf *conf, *second = NULL;

	sandbox_begin();
	sandbox_files((const char *)data, size);
	conf = conf_load(SANDBOX_MAIN, &problems);
	problems_check(&problems, conf != NULL);
	if (conf) {
		write_again(conf);
		set_again(conf);
		second = conf_load(SANDBOX_MAIN, &problems);
		FUZZ_CHECK(second != NULL);
		compare(conf, second);
		conf_keep_fixed(second, conf, &problems);
		FUZZ_CHECK(problems.errors == 0);
		conf_read_rules(second, NULL, true, &problems);
		conf_problems_free(&problems);
		conf_drop(&second);
		conf_drop(&conf);
	}
	sandbox_end();
	return 0;
}
