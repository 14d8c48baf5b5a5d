/*
 * The user list: one line for each user,
 *
 * line = [blanks] quoted blanks quoted anything
 * quoted = DQUOTE *( any but DQUOTE and NUL / 2DQUOTE ) DQUOTE
 *
 * The second quoted text is the user's secret, in any of the forms of pg/password.h. A malformed
 * line is skipped with a warning. The warning does not repeat the line, because it may contain a
 * password. The rest of the list is used.
 */
#include "conf/userlist.h"

#include "base/hash.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MOST (256 << 20)

struct userlist_storage {
	struct arena *arena;
	const char *path;
	struct index users;
	struct stat seen;		/* of the file, just before it was read */
};

static const char blanks[] = " \t\r\v\f";

/* Unquotes the text at p in place. Returns the position after it, or NULL if p is not a quoted
   text. */
static char *userlist_read_quoted(char *p, char **text, size_t *size)
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

/* NULL: no memory. */
static struct secret *userlist_copy_secret(struct userlist_storage *s, const char *bytes,
					   size_t size)
{
	struct secret *secret = arena_take(s->arena, sizeof(*secret) + size + 1);

	if (!secret)
		return NULL;
	secret->length = size;
	memcpy(secret->bytes, bytes, size);
	return secret;
}

/* Adds or replaces a user. False: no memory. */
static bool add_user(struct userlist_storage *s, const char *user, size_t user_size,
		     const char *secret, size_t secret_size)
{
	struct userlist_entry *entry = arena_take(s->arena, sizeof(*entry));

	return entry && (entry->user = arena_copy(s->arena, user, user_size)) &&
	       (entry->secret = userlist_copy_secret(s, secret, secret_size)) &&
	       index_put(&s->users, s->arena, entry->user, entry);
}

/* Adds the secrets of a user in [users]. False: no memory. */
static bool add_conf_user(struct userlist_storage *s, const struct conf_user *u, const char *file,
			  struct conf_problems *problems)
{
	struct userlist_entry *entry;

	if (u->secret &&
	    !add_user(s, u->name, strlen(u->name), u->secret->bytes, u->secret->length))
		return false;
	if (!u->old_secret)
		return true;
	entry = index_get(&s->users, u->name);
	if (entry)
		return (entry->old = userlist_copy_secret(s, u->old_secret->bytes,
							  u->old_secret->length)) != NULL;
	conf_problem_add(
		problems, true, file, 0,
		"user \"%.64s\": old_password_file is ignored, because there is no other secret",
		u->name);
	return true;
}

/* Parses the text, which has `size` bytes and one byte more. False: no memory. */
static bool userlist_read_lines(struct userlist *list, char *text, size_t size,
				struct conf_problems *problems)
{
	struct userlist_storage *s = list->storage;
	char *end = text + size, *line_end, *p, *user, *secret;
	size_t user_size, secret_size;

	if (text_starts(text, "\xef\xbb\xbf"))
		text += 3;
	for (int line = 1; text < end; line++, text = line_end + 1) {
		line_end = memchr(text, '\n', (size_t)(end - text));
		if (!line_end)
			line_end = end;
		*line_end = '\0';
		if (memchr(text, '\0', (size_t)(line_end - text))) {
			conf_problem_add(problems, true, s->path, line,
					 "passed over: found a NUL byte");
			continue;
		}
		p = text + strspn(text, blanks);
		if (*p == '\0' || *p == ';' || *p == '#')
			continue;
		p = userlist_read_quoted(p, &user, &user_size);
		if (p)
			p = userlist_read_quoted(p + strspn(p, blanks), &secret, &secret_size);
		if (!p || user_size == 0) {
			conf_problem_add(
				problems, true, s->path, line,
				"passed over: expected \"user\" \"secret\", both in double quotes");
			continue;
		}
		/* Only now: the byte at the end of the name was needed for parsing. */
		user[user_size] = '\0';
		if (index_get(&s->users, user))
			conf_problem_add(problems, true, s->path, line,
					 "user \"%.64s\" is listed twice; the last line counts",
					 user);
		if (!add_user(s, user, user_size, secret, secret_size))
			return false;
	}
	return true;
}

static bool list_entries(struct userlist *list)
{
	struct userlist_storage *s = list->storage;

	list->entries = (struct userlist_entry **)index_objects(&s->users, s->arena, &list->count);
	return list->entries;
}

struct userlist *userlist_load(const char *path, struct conf_problems *problems)
{
	struct arena *arena = arena_new(true);
	struct userlist *list = arena ? arena_take(arena, sizeof(*list)) : NULL;
	char *text;
	size_t size = 0;
	bool is_whole = true;

	if (list)
		list->storage = arena_take(arena, sizeof(*list->storage));
	if (!list || !list->storage ||
	    (path && !(list->storage->path = arena_copy(arena, path, strlen(path))))) {
		arena_free(&arena);
		conf_problem_add(problems, false, path, 0, "out of memory");
		return NULL;
	}
	list->storage->arena = arena;
	/* stat before reading: a change in between makes the list stale, so that it is read
	   again. */
	text = path && stat(path, &list->storage->seen) == 0
		       ? text_read_file(path, FILE_MOST, &size)
		       : NULL;
	if (path && !text) {
		conf_problem_add(problems, false, path, 0, "cannot read the user list: %s",
				 strerror(errno));
		userlist_free(&list);
		return NULL;
	}
	if (text) {
		is_whole = userlist_read_lines(list, text, size, problems);
		mem_wipe(text, size);
		mem_free(text);
	}
	if (!is_whole || !list_entries(list)) {
		conf_problem_add(problems, false, path, 0, "out of memory");
		userlist_free(&list);
	}
	return list;
}

struct userlist *userlist_of_conf(const struct conf *conf, struct conf_problems *problems)
{
	struct userlist *list = conf->settings.auth_file
					? userlist_load(conf->settings.auth_file, problems)
					: NULL;
	bool ok = true;

	for (size_t i = 0; i < conf->user_count && ok; i++) {
		const struct conf_user *u = conf->users[i];

		if ((!u->secret && !u->old_secret) || (conf->settings.auth_file && !list))
			continue;
		ok = list || (list = userlist_load(NULL, problems)) != NULL;
		ok = ok && add_conf_user(list->storage, u, conf->path, problems);
	}
	if (ok && (!list || list_entries(list)))
		return list;
	conf_problem_add(problems, false, conf->path, 0, "out of memory");
	userlist_free(&list);
	return NULL;
}

const struct userlist_entry *userlist_entry_of(const struct userlist *list, const char *user)
{
	return list ? index_get(&list->storage->users, user) : NULL;
}

bool userlist_is_stale(const struct userlist *list)
{
	const struct stat *seen = &list->storage->seen;
	struct stat now;

	if (!list->storage->path || stat(list->storage->path, &now) != 0)
		return false;
	return now.st_dev != seen->st_dev || now.st_ino != seen->st_ino ||
	       now.st_size != seen->st_size || now.st_mtim.tv_sec != seen->st_mtim.tv_sec ||
	       now.st_mtim.tv_nsec != seen->st_mtim.tv_nsec;
}

void userlist_free(struct userlist **list)
{
	struct arena *arena;

	if (!*list)
		return;
	arena = (*list)->storage->arena;
	index_clear(&(*list)->storage->users);
	*list = NULL;
	arena_free(&arena);
}
