/* Names of parameters in SQL, whole and cut at every byte. */
#include "pg/setting_text.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

static char names[4096];

static void note(void *context, const char *name)
{
	CHECK(context == names);
	if (*names)
		strcat(names, " ");
	strcat(names, name);
}

/* In memory of exactly its size. */
static unsigned read_text(const char *text, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	unsigned said;

	if (!copy)
		abort();
	memcpy(copy, text, size);
	*names = '\0';
	said = setting_text_read(copy, size, note, names);
	/* the word PREPARE alone sets nothing */
	if (!setting_text_may_tell(copy, size)) {
		CHECK(!(said & ~SETTING_KEPT) && !*names);
		said = 0;
	}
	free(copy);
	return said;
}

#define CALLED SETTING_CALLED
#define UNNAMED (SETTING_CALLED | SETTING_UNNAMED)

static const struct { const char *text, *names; unsigned said; } texts[] = {
	{ "", "", 0 },
	{ "SELECT 1", "", 0 },
	{ "SET work_mem = '5MB'", "", 0 },
	{ "SET app.tenant = 'x'", "app.tenant", 0 },
	{ "set SESSION App.Tenant to x", "app.tenant", 0 },
	{ "SET LOCAL app.tenant = 'x'", "", 0 },
	{ "RESET app.tenant", "app.tenant", 0 },
	{ "BEGIN; SET a.b = 1; SET c.d.e = 2; COMMIT", "a.b c.d.e", 0 },
	{ "SET \"app\" . /* a /* comment */ b.c */ \"Tenant\" = 1", "app.tenant", 0 },
	{ "SET \"app.tenant\" = 1", "app.tenant", 0 },
	{ "-- SET a.b = 1\nSET c.d = 1", "c.d", 0 },
	{ "/* SET a.b = 1 */ RESET ALL", "", 0 },
	{ "SELECT 'SET a.b = 1'", "", 0 },
	{ "SELECT E'\\' SET a.b = 1'", "", 0 },
	{ "SELECT '' SET a.b = 1", "a.b", 0 },
	{ "DO $$ BEGIN SET a.b = 1; END $$", "a.b", 0 },
	{ "DO $x$ BEGIN EXECUTE $y$ SET a.b = 1$y$; END $x$", "a.b", 0 },
	{ "UPDATE t SET a.b = 1", "a.b", 0 },
	{ "SET a.\xc3\xa4 = 1", "", 0 },
	{ "SET a. = 1; SET .b = 1; SET a..b = 1; SET 1.b = 2", "", 0 },
	{ "SELECT set_config('work_mem', '5MB', false)", "", CALLED },
	{ "SELECT set_config('app.tenant', $1, false)", "app.tenant", CALLED },
	{ "SELECT SET_CONFIG ( 'app.tenant' , 'x', is_local )", "app.tenant", CALLED },
	{ "SELECT pg_catalog.\"set_config\"('app.tenant', concat('(', f(1, true)), 'f')", "app.tenant", CALLED },
	{ "SELECT set_config('app.tenant', 'x', true)", "", 0 },
	{ "SELECT set_config('app.tenant', concat('a', 'b'), TRUE), 1", "", 0 },
	{ "SELECT set_config('app.tenant', 'x', NOT true)", "app.tenant", CALLED },
	{ "SELECT set_config('app.tenant', 'x', f(true))", "app.tenant", CALLED },
	{ "SELECT set_config($1, $2, false)", "", UNNAMED },
	{ "SELECT set_config($1, $2, true)", "", 0 },
	{ "SELECT set_config('app.' || 'x', 'y', false)", "", UNNAMED },
	{ "SELECT set_config(E'app\\056x', 'y', false)", "", UNNAMED },
	{ "SELECT set_config(name, value, false) FROM t", "", UNNAMED },
	{ "SELECT set_config(set_config('a.b', 'c.d', false), 'x', true)", "a.b", CALLED },
	{ "SELECT set_config", "", 0 },
	{ "SELECT set_config(", "", UNNAMED },
	{ "SELECT set_config('a.b'", "", UNNAMED },
	{ "SELECT my_set_config('a.b', 'x', false)", "", 0 },
	{ "SELECT a, offset FROM t", "", 0 },
	{ "PREPARE p AS SELECT set_config('a.b', $1, false)", "a.b", CALLED | SETTING_KEPT },
	{ "PREPARE p AS SELECT 1", "", 0 },
};

TEST(texts)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		unsigned said = read_text(texts[i].text, strlen(texts[i].text) + 1);

		if (said != texts[i].said || strcmp(names, texts[i].names) != 0)
			UNIT_FAIL("\"%s\": %u \"%s\"", texts[i].text, said, names);
	}
}

TEST(texts_that_are_cut_off)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		for (size_t size = 0; size <= strlen(texts[i].text); size++)
			CHECK(read_text(texts[i].text, size) & SETTING_CUT);
}

TEST(the_longest_name)
{
	char text[300];

	snprintf(text, sizeof(text), "SET a.%0198d = 1", 0);
	memset(text + 6, 'x', 198);
	read_text(text, strlen(text) + 1);
	CHECK_INT(strlen(names), 200);
	snprintf(text, sizeof(text), "SET a.%0199d = 1", 0);
	memset(text + 6, 'x', 199);
	read_text(text, strlen(text) + 1);
	CHECK_INT(strlen(names), 0);
}

/* What is looked at does not grow with the square of the text. */
TEST(many_calls_without_an_end)
{
	size_t count = 20000, size = count * strlen("set_config(") + 1;
	char *text = malloc(size);

	if (!text)
		abort();
	for (size_t i = 0; i < count; i++)
		memcpy(text + i * strlen("set_config("), "set_config(", strlen("set_config(") + 1);
	CHECK_INT(read_text(text, size), UNNAMED);
	free(text);
}

UNIT_MAIN
