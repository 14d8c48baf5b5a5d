/*
 * A line of an ident file in the syntax of PostgreSQL 16:
 *
 * map system-name user
 *
 * The system name (of the peer process of a Unix socket, or from a certificate) may be a regular expression, /...; \1 in the
 * user is then replaced by the match of the first group. The user may be `all`, or a regular expression too. The result of
 * replacing \1 is compared literally: a resulting name `all` is not a keyword. If the group took no part in the match, the line
 * does not match. A quantifier must not repeat the group, because the repetition that counts would not be certain.
 *
 * A faulty line is skipped. No line forbids anything, so this admits no client.
 */
#include "conf/hba_parts.h"

#include "conf/pattern.h"

#include <string.h>

static const char group[] = "\\1";

/* Returns the only word of a field. NULL: the record is faulty. */
static const struct record_word *single(struct hba_record *record)
{
	const struct record_word *word = record_field(record);

	if (!word || word->next)
		record_fault(record, "expected a map, a system's name and a user, one of each");
	return record->is_faulty ? NULL : word;
}

static struct pattern *read_pattern(struct hba_record *record, const char *text)
{
	char why[160];
	struct pattern *pattern = pattern_new(text, why, sizeof(why));

	if (!pattern)
		record_fault(record, "the regular expression \"/%.64s\" cannot be used: %s", text, why);
	return pattern;
}

static void read_system(struct ident_line *l, struct hba_record *record, const struct record_word *word)
{
	l->system_name = word->text;
	if (word->text[0] == '/')
		l->system_pattern = read_pattern(record, word->text + 1);
}

static void read_user(struct ident_line *l, struct hba_record *record, const struct record_word *word)
{
	l->user = word->text;
	if (record_is_keyword(word, "all"))
		l->any_user = true;
	else if (!word->is_quoted && word->text[0] == '+')
		record_fault(record, "\"%.64s\" is not supported: the pooler does not know who is a member of a role",
			     word->text);
	else if (word->text[0] == '/')
		l->user_pattern = read_pattern(record, word->text + 1);
	else
		l->takes_group = l->system_pattern && strstr(word->text, group);
	if (l->takes_group && pattern_group_fault(l->system_pattern))
		record_fault(record, "\"%.64s\" asks for what parentheses matched in \"%.64s\", but %s", l->user,
			     l->system_name, pattern_group_fault(l->system_pattern));
}

bool ident_line_read(struct ident_line *l, struct hba_record *record)
{
	const struct record_word *map = single(record);
	const struct record_word *system = map ? single(record) : NULL;
	const struct record_word *user = system ? single(record) : NULL;

	if (!user)
		return false;
	l->map = map->text;
	read_system(l, record, system);
	if (!record->is_faulty)
		read_user(l, record, user);
	if (!record->is_faulty && record_option(record))
		record_fault(record, "expected nothing behind the user");
	return !record->is_faulty;
}

void ident_line_clear(struct ident_line *l)
{
	pattern_free(&l->system_pattern);
	pattern_free(&l->user_pattern);
}

/* Whether `user` equals the user of the line with the first \1 replaced by `size` bytes at `with`. */
static bool is_replaced(const struct ident_line *l, const char *with, size_t size, const char *user)
{
	const char *at = strstr(l->user, group), *behind = at + strlen(group);
	size_t before = (size_t)(at - l->user);

	return strncmp(user, l->user, before) == 0 && strlen(user + before) >= size && memcmp(user + before, with, size) == 0 &&
	       strcmp(user + before + size, behind) == 0;
}

bool ident_line_allows(const struct ident_line *l, const char *system_name, const char *user)
{
	size_t size = 0;
	long start = -1;

	if (!l->system_pattern && strcmp(l->system_name, system_name) != 0)
		return false;
	if (l->system_pattern && !pattern_captures(l->system_pattern, system_name, &start, &size))
		return false;
	if (l->any_user)
		return true;
	if (l->user_pattern)
		return pattern_matches(l->user_pattern, user);
	if (l->takes_group)
		return start >= 0 && is_replaced(l, system_name + start, size, user);
	return strcmp(l->user, user) == 0;
}
