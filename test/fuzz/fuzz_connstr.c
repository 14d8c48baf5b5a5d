/*
 * The values of [databases], [users] and [peers], which are lists of key=value, and LDAP options, which have another grammar.
 *
 * Input: a letter for the kind (d, u, p, l), the text. Properties: a parsed list, written again from its values, is parsed as the same; error
 * messages never contain the password in the text.
 */
#include "conf/conf.h"
#include "conf/ini.h"
#include "conf/ldap.h"
#include "conf/value.h"
#include "fuzz.h"
#include "sandbox.h"

#include <stdlib.h>
#include <string.h>

#define SECRET_WORD "hUnTeR2"	/* a seed's password */

/* The text begins with this key and the password, which occurs nowhere else: then the password must not be printed. */
static bool holds_secret(const char *text, const char *key)
{
	size_t size = strlen(key);

	return strncmp(text, key, size) == 0 && strncmp(text + size, SECRET_WORD, strlen(SECRET_WORD)) == 0 &&
	       !strstr(text + size + 1, SECRET_WORD);
}

/* `key='value with '' doubled'` for each value that is set. */
static void write_list(const struct value_table *table, const void *object, struct bytes *out)
{
	char buf[8192];

	for (size_t i = 0; i < table->count; i++) {
		const struct value_row *row = &table->rows[i];
		const char *text;

		if (row->type == VALUE_SECRET) {
			const struct secret *secret = *(struct secret *const *)((const char *)object + row->offset);

			text = secret ? secret->bytes : "";
		} else {
			text = value_text(row, object, buf, sizeof(buf));
		}
		if (!*text)
			continue;
		bytes_append_format(out, " %s = '", row->row.name);
		for (; *text; text++)
			bytes_append_format(out, *text == '\'' ? "''" : *text == '$' && text[1] == '{' ? "$%c" : "%c", *text);
		bytes_append_text(out, "'");
	}
	bytes_append_u8(out, 0);
}

static bool read_list(const struct value_table *table, void *object, const char *text, struct arena *arena, bool *usable)
{
	struct conf_problems problems = { .count = 0 };
	char *copy = strdup(text);
	struct ini_line line = { .file = "x", .line = 1, .section = table->section, .key = copy, .value = copy };
	char key[] = "name";
	bool read, has_password;

	line.key = key;
	read = entry_read(table, object, &line, arena, &has_password, &problems);
	FUZZ_CHECK(read);
	for (size_t i = 0; i < problems.count; i++)
		FUZZ_CHECK(!holds_secret(text, "password=") || !strstr(problems.items[i].text, SECRET_WORD));
	*usable = problems.errors == 0;
	conf_problems_free(&problems);
	free(copy);
	return read;
}

static void try_list(const struct value_table *table, const char *text)
{
	struct arena *arena = arena_new(false);
	/* more than any of the structures, and aligned */
	void *object = arena_take(arena, 1024), *again = arena_take(arena, 1024);
	struct bytes out = BYTES_EMPTY;
	bool usable;

	FUZZ_CHECK(object && again);
	read_list(table, object, text, arena, &usable);
	if (usable) {
		write_list(table, object, &out);
		FUZZ_CHECK(!out.failed);
		read_list(table, again, (const char *)bytes_front(&out), arena, &usable);
		FUZZ_CHECK(usable);
		for (size_t i = 0; i < table->count; i++)
			FUZZ_CHECK(value_is_equal(&table->rows[i], object, again));
	}
	bytes_free(&out);
	arena_free(&arena);
}

static void try_ldap(const char *text)
{
	struct arena *arena = arena_new(false);
	const struct ldap_options *options, *copy;
	char why[256] = "", masked[512];

	FUZZ_CHECK(arena);
	ldap_options_masked(text, masked, sizeof(masked));
	FUZZ_CHECK(strlen(masked) < sizeof(masked));
	FUZZ_CHECK(!holds_secret(text, "ldapbindpasswd=") || !strstr(masked, SECRET_WORD));
	options = ldap_options_read(text, arena, why, sizeof(why));
	FUZZ_CHECK(options || *why);
	FUZZ_CHECK(!holds_secret(text, "ldapbindpasswd=") || !strstr(why, SECRET_WORD));
	if (options) {
		FUZZ_CHECK(options->port > 0 && options->servers);
		copy = ldap_options_copy(options, arena);
		FUZZ_CHECK(copy && strcmp(copy->servers, options->servers) == 0);
	}
	arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input_of(data, size);
	uint8_t kind = fuzz_u8(&in);
	char *text = fuzz_text(&in, 0);

	sandbox_begin();
	if (kind == 'd')
		try_list(&database_table, text);
	else if (kind == 'u')
		try_list(&user_table, text);
	else if (kind == 'p')
		try_list(&peer_table, text);
	else if (kind == 'l')
		try_ldap(text);
	sandbox_end();
	free(text);
	return 0;
}
