/*
 * The user list: one line for each user,
 *
 * line = [blanks] quoted blanks quoted anything
 * quoted = DQUOTE *( any but DQUOTE and NUL / 2DQUOTE ) DQUOTE
 *
 * The second quoted text is the user's secret, in any of the forms of pg/password.h. A line that cannot be parsed is skipped
 * with a warning that does not repeat it, because it may contain a password. The rest of the list is used.
 */
#include "conf/userlist.h"

#include "base/text.h"
#include "conf/index.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MOST (256 << 20)

struct entry {
	const char *user;
	struct secret *secret;
};

struct userlist {
	struct arena *arena;		/* contains this structure too */
	const char *path;
	struct index users;
	struct stat seen;		/* of the file, just before it was read */
};

static const char blanks[] = " \t\r\v\f";

/* Unquotes the text at p in place. Returns the position after it, or NULL if p is not a quoted text. */
static char *read_quoted(char *p, char **text, size_t *size)
{
	char *to = p;

	if (*p != '"')
		return NULL;
	*text = to;
	for (p++;; p++) {
		if (*p == '\0')
			return NULL;
		if (*p == '"' && *++p != '"')
			break;
		*to++ = *p;
	}
	*size = (size_t)(to - *text);
	return p;
}

static bool add_user(struct userlist *list, const char *user, size_t user_size, const char *secret,
		     size_t secret_size)
{
	struct entry *entry = arena_take(list->arena, sizeof(*entry));

	if (!entry)
		return false;
	entry->user = arena_copy(list->arena, user, user_size);
	entry->secret = arena_take(list->arena, sizeof(struct secret) + secret_size + 1);
	if (!entry->user || !entry->secret)
		return false;
	entry->secret->length = secret_size;
	memcpy(entry->secret->bytes, secret, secret_size);
	return index_put(&list->users, list->arena, entry->user, entry);
}

/* Parses a line. False: no memory. */
static bool read_line(struct userlist *list, char *p, int line, struct conf_problems *problems)
{
	char *user, *secret, *behind;
	size_t user_size, secret_size;

	p += strspn(p, blanks);
	if (*p == '\0' || *p == ';' || *p == '#')
		return true;
	behind = read_quoted(p, &user, &user_size);
	if (behind) {
		behind += strspn(behind, blanks);
		behind = read_quoted(behind, &secret, &secret_size);
	}
	if (!behind || user_size == 0) {
		conf_problem_add(problems, true, list->path, line,
				 "passed over: expected \"user\" \"secret\", both in double quotes");
		return true;
	}
	/* Only now: the byte at the end of the name was needed for parsing. */
	user[user_size] = '\0';
	if (index_get(&list->users, user))
		conf_problem_add(problems, true, list->path, line,
				 "user \"%.64s\" is listed twice; the last line counts", user);
	return add_user(list, user, user_size, secret, secret_size);
}

static bool read_lines(struct userlist *list, char *text, size_t size, struct conf_problems *problems)
{
	char *end = text + size;

	if (text_starts(text, "\xef\xbb\xbf"))
		text += 3;
	for (int line = 1; text < end; line++) {
		char *newline = memchr(text, '\n', (size_t)(end - text));
		char *line_end = newline ? newline : end;

		*line_end = '\0';
		if (memchr(text, '\0', (size_t)(line_end - text)))
			conf_problem_add(problems, true, list->path, line, "passed over: found a NUL byte");
		else if (!read_line(list, text, line, problems))
			return false;
		text = line_end + 1;
	}
	return true;
}

static struct userlist *userlist_new(const char *path)
{
	struct arena *arena = arena_new_hidden();
	struct userlist *list = arena ? arena_take(arena, sizeof(*list)) : NULL;

	if (list)
		list->path = arena_copy(arena, path, strlen(path));
	if (!list || !list->path) {
		arena_free(&arena);
		return NULL;
	}
	list->arena = arena;
	return list;
}

struct userlist *userlist_load(const char *path, struct conf_problems *problems)
{
	struct userlist *list = userlist_new(path);
	char *text;
	size_t size;
	bool is_whole;

	if (!list) {
		conf_problem_add(problems, false, path, 0, "out of memory");
		return NULL;
	}
	/* stat before reading: a change in between makes the list stale, so that it is read again. */
	text = stat(path, &list->seen) == 0 ? text_read_file(path, FILE_MOST, &size) : NULL;
	if (!text) {
		conf_problem_add(problems, false, path, 0, "cannot read the user list: %s", strerror(errno));
		userlist_free(&list);
		return NULL;
	}
	is_whole = read_lines(list, text, size, problems);
	mem_wipe(text, size);
	mem_free(text);
	if (!is_whole) {
		conf_problem_add(problems, false, path, 0, "out of memory");
		userlist_free(&list);
	}
	return list;
}

const struct secret *userlist_find(const struct userlist *list, const char *user)
{
	const struct entry *entry = index_get(&list->users, user);

	return entry ? entry->secret : NULL;
}

size_t userlist_count(const struct userlist *list)
{
	return index_count(&list->users);
}

void userlist_each(const struct userlist *list,
		   void (*visit)(void *context, const char *user, const struct secret *secret), void *context)
{
	const struct index_node *node = NULL;
	const struct entry *entry;

	while ((entry = index_next(&list->users, &node)))
		visit(context, entry->user, entry->secret);
}

bool userlist_is_stale(const struct userlist *list)
{
	const struct stat *seen = &list->seen;
	struct stat now;

	if (stat(list->path, &now) != 0)
		return false;
	return now.st_dev != seen->st_dev || now.st_ino != seen->st_ino || now.st_size != seen->st_size ||
	       now.st_mtim.tv_sec != seen->st_mtim.tv_sec || now.st_mtim.tv_nsec != seen->st_mtim.tv_nsec;
}

void userlist_free(struct userlist **list)
{
	struct arena *arena;

	if (!*list)
		return;
	arena = (*list)->arena;
	index_clear(&(*list)->users);
	*list = NULL;
	arena_free(&arena);
}
