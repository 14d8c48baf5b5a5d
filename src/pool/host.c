/*
 * The hosts that server connections are opened to, shared by all pools.
 *
 * Only the result of connecting is recorded here. An error at login may concern one user or database and is recorded in the
 * pool (backend/hosts.c): a role with too many connections must not mark a host as down for others.
 */
#include "pool/host.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define PORT_MOST 16		/* digits of a port, and the colon before them */

struct host *host_hold(struct host **table, const char *name, size_t size, int port)
{
	struct host *made = mem_try(sizeof(*made) + size + PORT_MOST), *host;
	size_t length;

	if (!made)
		return NULL;
	snprintf(made->key, size + PORT_MOST, "%.*s:%d", (int)size, name, port);
	length = strlen(made->key);
	HASH_FIND(hh, *table, made->key, length, host);
	if (host) {
		mem_free(made);
	} else {
		host = made;
		host->table = table;
		HASH_ADD_KEYPTR(hh, *table, host->key, length, host);
		if (!HASH_HAS(hh, host)) {
			mem_free(host);
			return NULL;
		}
	}
	host->users++;
	return host;
}

void host_drop(struct host **place)
{
	struct host *host = *place;

	*place = NULL;
	if (!host || --host->users > 0)
		return;
	HASH_DELETE(hh, *host->table, host);
	mem_free(host);
}

void host_note(struct host *host, bool works, usec_t now)
{
	host->unreachable_since = works ? 0 : now;
}

bool host_is_unreachable(const struct host *host, usec_t now, usec_t period)
{
	return host->unreachable_since > 0 && now - host->unreachable_since < period;
}
