/*
 * Which server an address leads to.
 *
 * An address may lead to another server than before: the address of a service, a virtual address
 * that has moved, or a name. The report of a host is true for the server that has made it. Each
 * answer to the question for the role has the identity of the server (SERVER_IDENTITY in
 * state/server_identity.h), and each new session of a pool at a host is asked for it before a
 * client gets the session.
 *
 * - The watcher is answered by another server than before: everything that is known about the old
 *   server is forgotten, and its sessions end. Sessions by an address that its name has lost end,
 *   too, because no watcher asks that address any more.
 * - A session leads to another server than the watcher's: it ends, because its data may be older,
 *   and the pool opens another one. If its login has changed the role of the host, or after
 *   STRANGERS_MOST such sessions in a row, the watcher logs in again. If the address leads to
 *   several servers in turn, such as the address of a load balancer, some sessions lead to the
 *   watcher's server. These stay.
 *
 * A host without a known identity, such as a service other than PostgreSQL, is used as before.
 *
 * Invariant: no session that is lent leads to a server that is known to differ from the watcher's.
 */
#include "pool/host_identity.h"

#include "base/log.h"
#include "pool/inside.h"
#include "pool/role.h"

#include <string.h>

#define STRANGERS_MOST 4

void host_note_server(struct host *host, uint64_t server_id)
{
	uint64_t was = host->evidence.server_id;

	if (server_id == 0 || server_id == was)
		return;
	host->evidence.server_id = server_id;
	host->strangers = 0;
	if (was > 0) {
		log_info("host %s: another server answers, or it has restarted", host->key);
		host_forget(host);
		host->evidence.timeline = 0;
		host->evidence.at = 0;
		if (host->marks)
			host->marks->count = 0;
	}
	LIST_EACH(node, &host->pools->all) {
		struct pool *pool = pool_at(node);
		bool is_unlisted = was > 0 && pool->host && pool->host != host &&
				   !roles_list(pool->database, pool->host);

		for (int state = 0; (pool->host == host || is_unlisted) && state < SERVER_STATES;
		     state++) {
			LIST_EACH_SAFE(at, &pool->servers[state]) {
				uint64_t id = server_at(at)->server_id;

				if (id > 0 && (is_unlisted ? id == was : id != server_id))
					pool->pools->ops->drop(server_at(at), REASON_HOST_ROLE);
			}
		}
	}
}

void host_note_login(const struct pool_server *server, const char *standby, usec_t begun_at,
		     usec_t now)
{
	struct host *host = server->host;
	struct host_evidence evidence = { .claim = strcmp(standby, "on") == 0 ? CLAIM_STANDBY
									      : CLAIM_PRIMARY,
					  .at = begun_at,
					  .is_of_login = true,
					  .is_read_only = host->evidence.is_read_only };

	if (host->accepted_at < begun_at)
		host->accepted_at = begun_at;
	host_note(host, &evidence, "login", now);
}

bool pool_server_identify(struct pool_server *server, uint64_t server_id, usec_t now)
{
	struct host *host = server->pool->host;
	bool is_right = server_id == 0 || host->evidence.server_id == 0 ||
			server_id == host->evidence.server_id;

	server->server_id = server_id;
	host->strangers = is_right ? 0 : host->strangers + 1;
	/* the address leads to another server now, or to several servers in turn */
	if (!is_right && (host->is_reported || host->strangers % STRANGERS_MOST == 0)) {
		host->login_wanted = now;
		host_doubt(host, now);
	}
	return is_right;
}
