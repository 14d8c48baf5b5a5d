/*
 * Names of hosts that are several servers.
 *
 * A name may have the addresses of all servers of a cluster, for example a headless service of
 * Kubernetes. Each login by name would reach any of them. Therefore each address of such a name is
 * a host for a database with roles: it has a watcher, a role and pools of its own, and the name has
 * none. A name with one address stays a host itself, because that address may be another one after
 * the next look-up.
 *
 * The resolver caches answers for their time to live. A failed look-up changes nothing: a failing
 * name server must not take working hosts away. When the name has lost the address of a server, the
 * server is not listed any more, and its connections end (backend/retire.c).
 *
 * Invariant: each name in the list is in the list of a database with roles, after a tick.
 */
#include "watch/names.h"

#include "base/log.h"
#include "base/mem.h"
#include "net/dns.h"
#include "pool/role.h"

#include <string.h>

#define ADDRESSES_MOST 64
#define ADDRESS_TEXT 64

struct role_name {
	struct role_name *next;
	struct world *world;
	struct host *host;		/* a reference */
	struct dns_request *request;	/* NULL: none */
	usec_t asked_at;
	bool is_listed;
	char name[];			/* without the port */
};

static void on_addresses(void *context, const struct dns_answer *answer)
{
	struct role_name *name = context;
	char texts[ADDRESSES_MOST][ADDRESS_TEXT];
	const char *addresses[ADDRESSES_MOST];
	struct brief_address brief;
	unsigned count = 0;

	name->request = NULL;
	world_wake(name->world);
	for (int i = 0; i < answer->count && count < ADDRESSES_MOST; i++) {
		brief_address_of(&brief, &answer->addresses[i], 0);
		addresses[count] = brief_address_text(&brief, texts[count], ADDRESS_TEXT);
		count++;
	}
	if (count == 0 || !host_set_members(name->host, addresses, count))
		return;
	log_info("host %s has %u addresses: %s", name->host->key, count,
		 count > 1 ? "each is a host of its own" : "it is one host");
	roles_note_addresses(name->host, name->world->now);
}

static bool names_watch_is_name(const char *text)
{
	struct address literal;

	return *text != '/' && *text != '@' && !address_from_ip(&literal, text, 0);
}

/* The host is listed by a database with roles: its name is looked up. Without memory it stays one
   host. */
static void names_note(struct role_name **names, struct world *w, struct host *host,
		       const char *text)
{
	struct role_name *name;
	size_t size = strlen(text) + 1;

	for (name = *names; name; name = name->next) {
		if (name->host == host) {
			name->is_listed = true;
			return;
		}
	}
	name = names_watch_is_name(text) ? mem_try(sizeof(*name) + size) : NULL;
	if (!name)
		return;
	memcpy(name->name, text, size);
	name->world = w;
	name->host = host;
	host->users++;
	host->is_looked_up = true;
	name->is_listed = true;
	name->next = *names;
	*names = name;
}

static void name_free(struct role_name *name)
{
	dns_cancel(&name->request);
	name->host->is_looked_up = false;
	host_drop(name->host);
	mem_free(name);
}

void names_tick(struct role_name **names, struct world *w)
{
	for (struct role_name *name = *names; name; name = name->next)
		name->is_listed = false;
	for (struct database *d = w->pools->databases; d; d = d->hh.next) {
		for (unsigned i = 0; d->roles && !d->roles->has_members && i < d->conf->host_count;
		     i++) {
			struct host *host = host_of(w->pools, &d->conf->hosts[i]);

			if (!host)
				continue;
			names_note(names, w, host, host_name(w->pools, &d->conf->hosts[i]));
			host_drop(host);
		}
	}
	for (struct role_name **place = names; *place;) {
		struct role_name *name = *place;

		if (!name->is_listed) {
			*place = name->next;
			name_free(name);
			continue;
		}
		place = &name->next;
		if (name->request || (name->asked_at > 0 && w->now - name->asked_at < USEC))
			continue;
		name->asked_at = w->now;
		dns_watch(w->dns, name->name);
		name->request = dns_lookup(w->dns, name->name, on_addresses, name);
	}
}

void names_free(struct role_name **names)
{
	while (*names) {
		struct role_name *name = *names;

		*names = name->next;
		name_free(name);
	}
}
