/*
 * The users of auth_file.
 *
 * The list is read at the start and by RELOAD, and again when a login begins after the file has changed. A new list replaces the old list
 * as a whole, so that a login never sees half of a change.
 */
#include "auth/users.h"

#include "auth/secrets_check.h"
#include "backend/secrets.h"
#include "base/log.h"

static const struct secret *listed(const struct userlist *list, const char *user)
{
	return list ? userlist_find(list, user) : NULL;
}

/* A server login that failed with the old secret may succeed with the new secret. */
static void forgive_logins(struct world *w, const struct userlist *fresh)
{
	LIST_EACH(node, &w->pools->all) {
		struct pool *pool = LIST_OBJECT(node, struct pool, node);

		if (pool->login_failed && !secret_is_same(listed(w->secrets->list, pool->user->name), listed(fresh, pool->user->name)))
			pool_login_forgiven(pool);
	}
}

void users_replace(struct world *w, struct userlist *fresh)
{
	struct secrets *secrets = w->secrets;

	forgive_logins(w, fresh);
	if (secrets->list)
		userlist_free(&secrets->list);
	secrets->list = fresh;
	secrets->kinds = (struct secret_kinds){ .all = 0 };
	for (size_t i = 0; fresh && i < fresh->count; i++)
		secret_kinds_add(&secrets->kinds, fresh->entries[i]->secret);
}

void users_refresh(struct world *w)
{
	struct conf_problems problems = { .count = 0 };
	struct secrets *secrets = w->secrets;
	struct userlist *fresh;

	if (!w->conf->settings.auth_file || w->now - secrets->checked_at < USEC)
		return;
	secrets->checked_at = w->now;
	if (secrets->list && !userlist_is_stale(secrets->list))
		return;
	fresh = userlist_load(w->conf->settings.auth_file, &problems);
	if (fresh)
		secrets_check(w->conf, fresh, &problems);
	for (size_t i = 0; i < problems.count; i++)
		log_warning("%s:%d: %s", problems.items[i].file, problems.items[i].line, problems.items[i].text);
	conf_problems_free(&problems);
	if (!fresh)
		return;
	users_replace(w, fresh);
	log_info("auth_file was read again: %zu users", fresh->count);
}
