/*
 * An entry of the file: the value of a setting, or the key=value list of a database, a user or a peer. Most of the code words
 * the problems: the text that was found, the accepted values, the nearest known name.
 *
 * A problem must not contain a password. If an administrator forgets the quotes around a password, the rest of it looks like a
 * key or a value. Therefore no word after a password is repeated until the end of the entry: pairs are named by number, and
 * only names from the tables are printed.
 */
#include "conf/entry.h"

#include "base/text.h"
#include "conf/connstr.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_MOST 64		/* bytes of a value that a problem shows */

/* Writes `database "mydb": ` or "" to buf. Returns buf. */
static const char *owner_text(const struct entry_place *place, char *buf, size_t size)
{
	buf[0] = '\0';
	if (place->owner)
		snprintf(buf, size, "%s \"%.*s\": ", place->noun, SHOWN_MOST, place->owner);
	return buf;
}

const char *entry_suggest(const char *name, char *buf, size_t size)
{
	buf[0] = '\0';
	if (name)
		snprintf(buf, size, "; did you mean \"%s\"?", name);
	return buf;
}

/* Returns a hint for syntax of other configuration files that pgweir does not support. */
static const char *habit_text(const char *text)
{
	if (*text == '\'' || *text == '"')
		return " (without quotes)";
	if (strchr(text, ';') || strchr(text, '#'))
		return " (a comment needs a line of its own)";
	return "";
}

enum value_verdict entry_assign(const struct value_row *row, void *object, const char *text, struct arena *arena,
				const struct entry_place *place, struct conf_problems *problems)
{
	enum value_verdict verdict = value_read(row, object, text, arena);
	char owner[128], accepted[256], word[64], nearest[96];

	if (verdict != VALUE_READ_WRONG)
		return verdict;
	value_accepted(row, accepted, sizeof(accepted));
	if (place->behind_password) {
		conf_problem_add(problems, false, place->file, place->line,
				 "%s\"%s\" (key=value number %d, behind \"password\") must be %s",
				 owner_text(place, owner, sizeof(owner)), row->row.name, place->behind_password, accepted);
		return verdict;
	}
	entry_suggest(value_nearest_word(row, text, word, sizeof(word)), nearest, sizeof(nearest));
	conf_problem_add(problems, false, place->file, place->line, "%s\"%s\" is \"%.*s\", but must be %s%s%s",
			 owner_text(place, owner, sizeof(owner)), row->row.name, SHOWN_MOST, text,
			 accepted, habit_text(text), nearest);
	return verdict;
}

static void complain_of_key(const struct value_table *table, const char *key, const struct entry_place *place,
			    struct conf_problems *problems)
{
	char owner[128], nearest[96];

	owner_text(place, owner, sizeof(owner));
	entry_suggest(value_nearest(table, key), nearest, sizeof(nearest));
	if (place->behind_password)
		conf_problem_add(problems, false, place->file, place->line,
				 "%sunknown key behind \"password\": key=value number %d (a value with blanks in it must stand in "
				 "'single quotes')", owner, place->behind_password);
	else
		conf_problem_add(problems, false, place->file, place->line, "%sunknown key \"%.*s\"%s",
				 owner, SHOWN_MOST, key, nearest);
}

/* Adds a problem for the text after the last valid key=value pair. */
static void complain_of_rest(const char *last_key, int count, const char *why, const struct entry_place *place,
			     struct conf_problems *problems)
{
	char owner[128], where[96] = "";

	if (place->behind_password)
		snprintf(where, sizeof(where), "behind \"password\", at key=value number %d: ", count + 1);
	else if (last_key)
		snprintf(where, sizeof(where), "behind \"%.*s\": ", SHOWN_MOST, last_key);
	conf_problem_add(problems, false, place->file, place->line, "%s%s%s", owner_text(place, owner, sizeof(owner)), where, why);
}

/* Whether the key is a password, or a misspelt key for a password. */
static bool is_password(const struct value_table *table, const struct value_row *row, const char *key)
{
	const char *name = row ? row->row.name : value_nearest(table, key);

	row = name ? value_find(table, name) : NULL;
	return row && row->type == VALUE_SECRET;
}

#define KEYS_MOST 64		/* more than any table has */

bool entry_read(const struct value_table *table, void *object, const struct ini_line *line, struct arena *arena,
		struct conf_problems *problems)
{
	struct entry_place place = { .file = line->file, .line = line->line, .noun = table->noun, .owner = line->key };
	char *cursor = line->value, *key, *value, owner[128];
	const char *why, *last_key = NULL;
	bool seen[KEYS_MOST] = { false };
	enum connstr_verdict verdict;
	int count = 0;

	if (!value_read_defaults(table, object, arena))
		return false;
	owner_text(&place, owner, sizeof(owner));
	while ((verdict = connstr_next(&cursor, &key, &value, &why)) == CONNSTR_PAIR) {
		const struct value_row *row = value_find(table, key);

		count++;
		if (place.behind_password)
			place.behind_password = count;
		if (!row) {
			complain_of_key(table, key, &place, problems);
		} else {
			if (seen[row - table->rows])
				conf_problem_add(problems, true, line->file, line->line,
						 "%s\"%s\" is set twice; the last one counts", owner,
						 row->row.name);
			seen[row - table->rows] = true;
			if (entry_assign(row, object, value, arena, &place, problems) == VALUE_READ_NO_MEMORY)
				return false;
		}
		if (is_password(table, row, key))
			place.behind_password = count;
		last_key = key;
	}
	if (verdict == CONNSTR_BAD)
		complain_of_rest(last_key, count, why, &place, problems);
	return true;
}
