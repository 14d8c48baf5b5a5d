#ifndef CONF_USERLIST_H
#define CONF_USERLIST_H

#include "base/mem.h"
#include "conf/conf.h"

/*
 * auth_file: each line `"user" "secret"`, the rest ignored; "" inside quotes is one quote; lines that begin with ; or #
 * and empty lines say nothing. A list is an immutable snapshot of the file, as read at one moment.
 */
struct userlist;

/* NULL: unreadable (a problem says why). Lines that cannot be read are warnings and skipped. */
struct userlist *userlist_load(const char *path, struct conf_problems *problems);
/* The secret of a user; NULL: not in the list. Lives as long as the list. */
const struct secret *userlist_find(const struct userlist *list, const char *user);
size_t userlist_count(const struct userlist *list);
/* Walks all. */
void userlist_each(const struct userlist *list, void (*visit)(void *context, const char *user, const struct secret *secret), void *context);
/* True when the file at the path has another inode, size or time than what was read. False while there is none: a file
   that is replaced in two steps must not empty the list. */
bool userlist_is_stale(const struct userlist *list);
/* Wipes and frees; sets *list to NULL. */
void userlist_free(struct userlist **list);

#endif
