/*
 * One entry of the file: a setting's value, or the key=value list of a database, a user or a peer. Most
 * of it is about saying well what is wrong: what was found, what is accepted, what was probably meant. A
 * password must not get into such a text, and when somebody forgets the quotes around one, the rest of it
 * looks like a key: so no word behind a password is repeated.
 */
#include "conf/entry.h"

#include "base/text.h"
#include "conf/connstr.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_MOST 64		/* of a value in a problem */

/* `database "mydb": ` or nothing. */
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

/* What people of other configuration files are used to, and what does not work here. */
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

	if (verdict != VALUE_WRONG)
		return verdict;
	entry_suggest(value_nearest_word(row, text, word, sizeof(word)), nearest, sizeof(nearest));
	conf_problem_add(problems, false, place->file, place->line, "%s\"%s\" is \"%.*s\", but must be %s%s%s",
			 owner_text(place, owner, sizeof(owner)), row->row.name, SHOWN_MOST, text,
			 value_accepted(row, accepted, sizeof(accepted)), habit_text(text), nearest);
	return verdict;
}

static void complain_of_key(const struct value_table *table, const char *key, const char *last_key,
			    const struct entry_place *place, struct conf_problems *problems)
{
	const char *name = value_nearest(table, key);
	char owner[128], nearest[96];

	owner_text(place, owner, sizeof(owner));
	entry_suggest(name, nearest, sizeof(nearest));
	if (last_key && strcmp(last_key, "password") == 0 && !name)
		conf_problem_add(problems, false, place->file, place->line,
				 "%sunknown key behind \"password\" (a value with blanks in it must stand in "
				 "'single quotes')", owner);
	else
		conf_problem_add(problems, false, place->file, place->line, "%sunknown key \"%.*s\"%s",
				 owner, SHOWN_MOST, key, nearest);
}

#define KEYS_MOST 64		/* more than any table has */

bool entry_read(const struct value_table *table, void *object, const struct ini_line *line, struct arena *arena,
		struct conf_problems *problems)
{
	struct entry_place place = { line->file, line->line, table->noun, line->key };
	char *cursor = line->value, *key, *value, owner[128];
	const char *why, *last_key = NULL;
	bool seen[KEYS_MOST] = { false };
	enum connstr_verdict verdict;

	if (!value_read_defaults(table, object, arena))
		return false;
	owner_text(&place, owner, sizeof(owner));
	while ((verdict = connstr_next(&cursor, &key, &value, &why)) == CONNSTR_PAIR) {
		const struct value_row *row = value_find(table, key);

		if (!row) {
			complain_of_key(table, key, last_key, &place, problems);
		} else {
			if (seen[row - table->rows])
				conf_problem_add(problems, true, line->file, line->line,
						 "%s\"%s\" is set twice; the last one counts", owner,
						 row->row.name);
			seen[row - table->rows] = true;
			if (entry_assign(row, object, value, arena, &place, problems) == VALUE_NO_MEMORY)
				return false;
		}
		last_key = key;
	}
	if (verdict == CONNSTR_BAD)
		conf_problem_add(problems, false, line->file, line->line, "%s%s%s%s%s", owner,
				 last_key ? "behind \"" : "", last_key ? last_key : "", last_key ? "\": " : "",
				 why);
	return true;
}
