/*
 * An entry of the file: the value of a setting, or the key=value list of a database, a user or a
 * peer. Most of the code words the problems: the text that was found, the accepted values, the
 * nearest known name.
 *
 * A problem must not contain a password. If an administrator forgets the quotes around a password,
 * the rest of it looks like a key or a value. Therefore no word after a password is repeated until
 * the end of the entry: pairs are named by number, and only names from the tables are printed.
 */
#include "conf/entry.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_MOST 64		/* bytes of a value in the text of a problem */
#define NAMES_MOST 160		/* more than any table has */

const char *entry_owner_text(const struct entry_place *place, char *buf, size_t size)
{
	buf[0] = '\0';
	if (place->owner)
		snprintf(buf, size, "%s \"%.*s\": ", place->noun, SHOWN_MOST, place->owner);
	return buf;
}

/* Returns the known name nearest to a misspelt name, or NULL. */
static const char *value_nearest(const struct value_table *table, const char *name)
{
	const char *names[NAMES_MOST];

	ASSERT(table->count <= NAMES_MOST);
	for (size_t i = 0; i < table->count; i++)
		names[i] = table->rows[i].row.name;
	return text_nearest(name, names, table->count);
}

const char *entry_suggest(const struct value_table *table, const char *key, char *buf, size_t size)
{
	const char *name = value_nearest(table, key);

	buf[0] = '\0';
	if (name)
		snprintf(buf, size, "; did you mean \"%s\"?", name);
	return buf;
}

/* Returns the nearest word of an enum to a misspelt word, in buf. For example, "transacton" gives
   "transaction". NULL for other types, or if no word is near. */
static const char *nearest_word(const struct value_row *row, const char *text, char *buf,
				size_t size)
{
	char *rest = buf;
	const char *names[16], *word;
	size_t count = 0;

	if (row->type != VALUE_ENUM)
		return NULL;
	text_copy(buf, size, row->row.words);
	while ((word = strsep(&rest, " ")) != NULL) {
		ASSERT(count < 16);
		names[count++] = word;
	}
	return text_nearest(text, names, count);
}

#define VARIABLE_NAME "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789"

/* Whether the whole text is ${NAME}. */
static bool is_variable(const char *text)
{
	return text_starts(text, VARIABLE) &&
	       strcmp(text + 2 + strspn(text + 2, VARIABLE_NAME), "}") == 0;
}

/* Adds a problem about the variable at `name`; `length` 0: there is no name. */
static void complain_of_variable(const struct value_row *row, const char *text, const char *name,
				 size_t length, const struct entry_place *place,
				 struct conf_problems *problems)
{
	char owner[128], at[64] = "", what[160];

	if (place->behind_password)
		snprintf(at, sizeof(at), " (key=value number %d, behind \"password\")",
			 place->behind_password);
	/* the name may be a part of a password */
	if (length == 0)
		snprintf(what, sizeof(what),
			 "expected ${NAME} with the name of an environment variable; a literal ${ "
			 "is written $${");
	else if (place->behind_password || (row->type == VALUE_SECRET && !is_variable(text)))
		snprintf(what, sizeof(what),
			 "an environment variable in ${} is not set; a literal ${ is written $${");
	else
		snprintf(what, sizeof(what), "the environment variable \"%.*s\" is not set",
			 SHOWN_MOST < length ? SHOWN_MOST : (int)length, name);
	conf_problem_add(problems, false, place->file, place->line, "%s\"%s\"%s: %s",
			 entry_owner_text(place, owner, sizeof(owner)), row->row.name, at, what);
}

/* Replaces ${NAME} by the value of the environment variable, and $${ by ${. Returns `text`, or a
   copy in the arena. NULL: *verdict says why; VALUE_READ_WRONG has added a problem. */
static const char *expand(const struct value_row *row, const char *text, struct arena *arena,
			  const struct entry_place *place, struct conf_problems *problems,
			  enum value_verdict *verdict)
{
	struct bytes out = BYTES_EMPTY;
	const char *from = text, *at, *result;

	*verdict = VALUE_READ_OK;
	if (!strstr(text, VARIABLE))
		return text;
	for (; *verdict == VALUE_READ_OK && (at = strstr(from, VARIABLE)) != NULL;) {
		const char *name = at + 2, *value;
		size_t length = strspn(name, VARIABLE_NAME);
		char *copy;

		if (at > from && at[-1] == '$') {
			bytes_append(&out, from, (size_t)(at - 1 - from));
			bytes_append_text(&out, VARIABLE);
			from = name;
			continue;
		}
		if (name[length] != '}' || (*name >= '0' && *name <= '9'))
			length = 0;
		copy = arena_copy(arena, name, length);
		value = copy && length ? getenv(copy) : NULL;
		*verdict = !copy ? VALUE_READ_NO_MEMORY : value ? VALUE_READ_OK : VALUE_READ_WRONG;
		if (*verdict == VALUE_READ_WRONG)
			complain_of_variable(row, text, name, length, place, problems);
		if (!value)
			break;
		bytes_append(&out, from, (size_t)(at - from));
		bytes_append_text(&out, value);
		from = name + length + 1;
	}
	bytes_append_string(&out, from);
	result = *verdict == VALUE_READ_OK && !out.failed
			 ? arena_copy(arena, bytes_front(&out), bytes_size(&out) - 1)
			 : NULL;
	if (*verdict == VALUE_READ_OK && !result)
		*verdict = VALUE_READ_NO_MEMORY;
	bytes_wipe(&out);
	return result;
}

enum value_verdict entry_assign(const struct value_row *row, void *object, const char *text,
				struct arena *arena, const struct entry_place *place,
				struct conf_problems *problems)
{
	char owner[128], accepted[256], words[256], nearest[96] = "";
	enum value_verdict verdict = VALUE_READ_WRONG;
	/* SET has no access to the environment */
	const char *value = place->file ? expand(row, text, arena, place, problems, &verdict)
					: text;
	const char *habit = "", *word;

	if (value)
		verdict = value_read(row, object, value, arena);
	if (!value || verdict != VALUE_READ_WRONG)
		return verdict;
	/* The problem shows the text of the file: the value of a variable may be a secret. */
	value_accepted(row, accepted, sizeof(accepted));
	if (place->behind_password) {
		conf_problem_add(problems, false, place->file, place->line,
				 "%s\"%s\" (key=value number %d, behind \"password\") must be %s",
				 entry_owner_text(place, owner, sizeof(owner)), row->row.name,
				 place->behind_password, accepted);
		return verdict;
	}
	/* syntax of other configuration files that pgweir does not support */
	if (*text == '\'' || *text == '"')
		habit = " (without quotes)";
	else if (strchr(text, ';') || strchr(text, '#'))
		habit = " (a comment needs a line of its own)";
	word = nearest_word(row, text, words, sizeof(words));
	if (word)
		snprintf(nearest, sizeof(nearest), "; did you mean \"%s\"?", word);
	conf_problem_add(problems, false, place->file, place->line,
			 "%s\"%s\" is \"%.*s\", but must be %s%s%s",
			 entry_owner_text(place, owner, sizeof(owner)), row->row.name, SHOWN_MOST,
			 text, accepted, habit, nearest);
	return verdict;
}

#define KEYS_MOST 64		/* more than any table has */

bool entry_read(const struct value_table *table, void *object, const struct ini_line *line,
		struct arena *arena, bool *has_password, struct conf_problems *problems)
{
	struct entry_place place = {
		.file = line->file, .line = line->line, .noun = table->noun, .owner = line->key
	};
	char *cursor = line->value, *key, *value, owner[128], where[96] = "", nearest[96];
	const char *why, *last_key = NULL;
	bool seen[KEYS_MOST] = { false };
	enum connstr_verdict verdict;
	int count = 0;

	*has_password = false;
	if (!value_read_defaults(table, object, arena))
		return false;
	entry_owner_text(&place, owner, sizeof(owner));
	while ((verdict = connstr_next(&cursor, &key, &value, &why)) == CONNSTR_PAIR) {
		const struct value_row *row = value_find(table, key);

		count++;
		if (place.behind_password)
			place.behind_password = count;
		if (!row && place.behind_password) {
			conf_problem_add(problems, false, line->file, line->line,
					 "%sunknown key behind \"password\": key=value number %d "
					 "(a value with blanks in it must stand in "
					 "'single quotes')", owner, count);
		} else if (!row) {
			conf_problem_add(problems, false, line->file, line->line,
					 "%sunknown key \"%.*s\"%s", owner, SHOWN_MOST, key,
					 entry_suggest(table, key, nearest, sizeof(nearest)));
		} else {
			if (seen[row - table->rows])
				conf_problem_add(problems, true, line->file, line->line,
						 "%s\"%s\" is set twice; the last one counts",
						 owner, row->row.name);
			seen[row - table->rows] = true;
			if (entry_assign(row, object, value, arena, &place, problems) ==
			    VALUE_READ_NO_MEMORY)
				return false;
		}
		/* a password, or a misspelt key for a password */
		if (!row && value_nearest(table, key))
			row = value_find(table, value_nearest(table, key));
		if (row && row->type == VALUE_SECRET) {
			*has_password |= *value && !is_variable(value);
			place.behind_password = count;
		}
		last_key = key;
	}
	if (verdict == CONNSTR_END)
		return true;
	if (place.behind_password)
		snprintf(where, sizeof(where),
			 "behind \"password\", at key=value number %d: ", count + 1);
	else if (last_key)
		snprintf(where, sizeof(where), "behind \"%.*s\": ", SHOWN_MOST, last_key);
	conf_problem_add(problems, false, line->file, line->line, "%s%s%s", owner, where, why);
	return true;
}
