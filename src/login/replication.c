/*
 * Replication connections, logical (replication=database) and physical (replication=true): "Streaming Replication Protocol" in
 * the PostgreSQL documentation.
 *
 * The server process is a walsender. It accepts replication commands as simple queries; SQL only if it is logical; and SET,
 * which would be needed to reuse the session for another client, not in every version. Therefore nothing is shared: each such
 * client gets a server that was opened for it, with its own start-up parameters, and both end together in every pool_mode. For
 * the same reason untracked parameters are accepted in the start-up packet and sent to the server unchanged.
 *
 * The client gets its welcome when its server is available (login_link.c). If the server refuses the login, only this client
 * gets the error, because the logins of other clients differ.
 *
 * Invariant: such a server serves one client (pool_server.dedicated), and a client without a server is in its login or in the
 * queue.
 */
#include "login/replication.h"

#include "backend/server_login.h"
#include "base/text.h"

#include <string.h>

/* ---- the start-up packet ---- */

/* Parses a boolean like PostgreSQL: any unambiguous prefix of the words. */
static bool read_boolean(const char *value, bool *is_true)
{
	static const struct {
		const char *word;
		size_t least;
		bool is_true;
	} words[] = {
		{ "true", 1, true }, { "false", 1, false }, { "yes", 1, true }, { "no", 1, false },
		{ "on", 2, true }, { "off", 2, false }, { "1", 1, true }, { "0", 1, false },
	};
	size_t size = strlen(value);

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (size < words[i].least || size > strlen(words[i].word) || strncasecmp(value, words[i].word, size) != 0)
			continue;
		*is_true = words[i].is_true;
		return true;
	}
	return false;
}

bool replication_ask(struct client *c, const struct pg_startup *packet)
{
	const char *name, *value;
	size_t at = 0;
	bool physical;

	while (pg_startup_pair(packet, &at, &name, &value)) {
		if (strcmp(name, "replication") != 0)
			continue;
		if (strcmp(value, "database") == 0) {
			c->login->replication = REPLICATION_LOGICAL;
		} else if (read_boolean(value, &physical)) {
			c->login->replication = physical ? REPLICATION_PHYSICAL : REPLICATION_NONE;
		} else {
			client_end(c, REASON_STARTUP_VALUE, name);
			return false;
		}
	}
	return true;
}

bool replication_keep(struct client *c, const char *name, const char *value)
{
	struct login *l = c->login;

	if (l->kept_pairs == REPLICATION_PAIRS) {
		client_end(c, REASON_STARTUP_PARAMETER, name);
		return false;
	}
	l->kept_pairs++;
	bytes_append_string(&l->kept, name);
	bytes_append_string(&l->kept, value);
	if (!l->kept.failed)
		return true;
	client_end(c, REASON_NO_MEMORY, NULL);
	return false;
}

/* ---- the queue ---- */

void replication_mark(struct client *c)
{
	c->replication = c->login->replication;
	c->pooled.dedicated = pools_next_dedicated(c->peer.world->pools);
}

/* Returns the client that this server is opened for. NULL: it has ended. */
static struct client *client_for(const struct server *s)
{
	LIST_EACH(node, &s->pooled.pool->clients[CLIENT_WAITING]) {
		struct client *c = client_of(LIST_OBJECT(node, struct pool_client, node));

		if (c->pooled.dedicated == s->pooled.dedicated)
			return c;
	}
	return NULL;
}

void replication_server_failed(struct server *s, enum login_failure failure, const char *text)
{
	struct client *c = client_for(s);
	bool waits = failure != FAILURE_LASTING && s->peer.world->conf->settings.server_down == SERVER_DOWN_WAIT;

	if (c && !waits)
		client_end(c, REASON_SERVER_SAID, text);
}
