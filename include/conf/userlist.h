#ifndef CONF_USERLIST_H
#define CONF_USERLIST_H

#include "base/mem.h"
#include "conf/conf.h"

/*
 * auth_file: each line is `"user" "secret"`, the rest of the line is ignored; "" within quotes is
 * one quote; empty lines and lines that begin with ; or # are comments. A list is an immutable
 * snapshot of the file.
 */
struct userlist_entry {
	const char *user;
	struct secret *secret, *old;		/* old: from old_password_file; NULL: none */
};
struct userlist {
	struct userlist_entry **entries;	/* one for each user, in the order of the file */
	size_t count;
	struct userlist_storage *storage;	/* owns everything, and this structure itself */
};

/* Reads a file (path NULL: none). Returns NULL if it is unreadable (a problem says why). Lines that
   cannot be parsed add warnings and are skipped. */
struct userlist *userlist_load(const char *path, struct conf_problems *problems);
/* Reads auth_file, and adds the secrets from password_file and old_password_file in [users].
   Returns NULL if there is neither, or with an error. */
struct userlist *userlist_of_conf(const struct conf *conf, struct conf_problems *problems);
/* Returns the entry of a user, valid as long as the list, or NULL. `list` may be NULL. */
const struct userlist_entry *userlist_entry_of(const struct userlist *list, const char *user);
/* Returns the secret of a user, or its old secret, valid as long as the list, or NULL. */
static inline const struct secret *userlist_find(const struct userlist *list, const char *user)
{
	const struct userlist_entry *entry = userlist_entry_of(list, user);

	return entry ? entry->secret : NULL;
}
static inline const struct secret *userlist_find_old(const struct userlist *list, const char *user)
{
	const struct userlist_entry *entry = userlist_entry_of(list, user);

	return entry ? entry->old : NULL;
}
/* Whether inode, size or time of the file differ from when it was read. False while the file does
   not exist: replacing the file in two steps must not empty the list. */
bool userlist_is_stale(const struct userlist *list);
/* Wipes and frees the list; sets *list to NULL. */
void userlist_free(struct userlist **list);

#endif
