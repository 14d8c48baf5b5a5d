/*
 * The secrets of users, in one place: rooms that let clients in and those that log in at servers need the same ones.
 */
#include "backend/secrets.h"

#include "backend/keys.h"
#include "base/mem.h"

#define FOUND_KEYS_MOST 1024		/* users found by auth_query with kept derivations */

struct secrets *secrets_new(void)
{
	struct secrets *all = mem_try(sizeof(*all));

	if (!all)
		return NULL;
	all->keys = keys_new(0);
	all->found_keys = keys_new(FOUND_KEYS_MOST);
	if (!all->keys || !all->found_keys)
		secrets_free(&all);
	return all;
}

void secrets_free(struct secrets **place)
{
	struct secrets *all = *place;

	if (!all)
		return;
	if (all->list)
		userlist_free(&all->list);
	keys_free(&all->keys);
	keys_free(&all->found_keys);
	mem_free(all);
	*place = NULL;
}

const struct secret *secrets_listed(const struct secrets *all, const char *user)
{
	return all->list ? userlist_find(all->list, user) : NULL;
}
