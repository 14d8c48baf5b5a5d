/*
 * Which authentication methods a server may ask for: server_require_auth, and require_auth of a database, as libpq's
 * require_auth.
 *
 * A server that asks for the password in clear text is sent it, and over TCP without TLS so is any machine between the
 * pooler and the server: it can answer in the server's place, and sslmode=prefer goes on without TLS when the SSLRequest
 * is answered with N. A client that has proven nothing causes such logins (auth_query logs in as auth_user). So without a
 * list the password goes over TLS, Unix sockets and the loopback interface only. A list that names the word `password` allows it
 * everywhere.
 */
#include "backend/require_auth.h"

#include "net/address.h"

#include <stdio.h>
#include <string.h>

/* The list in force, and what it is called: "server_require_auth", or the key of the database. */
static int list_of(const struct server *s, char *called, size_t size)
{
	const struct database *database = s->pooled.pool->database;

	if (database->conf->require_auth != CONF_UNSET) {
		snprintf(called, size, "require_auth of database \"%.64s\"", database->name);
		return database->conf->require_auth;
	}
	snprintf(called, size, "server_require_auth");
	return s->peer.world->conf->settings.server_require_auth;
}

/* Whether no machine in between can read the sent bytes: TLS, a Unix socket, 127.0.0.0/8 or ::1. */
static bool is_private(const struct server *s)
{
	const struct brief_address *a = &s->peer.remote;

	return s->peer.stream.ssl || a->family == AF_UNIX || (a->family == AF_INET && a->u.ip[0] == 127) ||
	       (a->family == AF_INET6 && memcmp(a->u.ip, &in6addr_loopback, sizeof(a->u.ip)) == 0);
}

bool require_auth_allows(struct server *s, enum server_method method)
{
	static const char *const requests[SERVER_METHODS] = {
		[METHOD_PASSWORD] = "server asks for the password in clear text",
		[METHOD_MD5] = "server asks for an MD5 hash of the password",
		[METHOD_GSS] = "server asks for GSSAPI",
		[METHOD_SSPI] = "server asks for SSPI",
		[METHOD_SCRAM] = "server asks for SASL",
		[METHOD_NONE] = "server does not ask for a password",
	};
	char called[128], words[64], detail[384];
	int list = list_of(s, called, sizeof(called));

	if (!methods_allow(list, method)) {
		snprintf(detail, sizeof(detail), "%s, but %s is \"%s\"", requests[method], called,
			 methods_text(list, words, sizeof(words)));
	} else if (method == METHOD_PASSWORD && !methods_name(list, method) && !is_private(s)) {
		snprintf(detail, sizeof(detail), "%s over a connection without TLS, and %s does not name \"password\"",
			 requests[method], called);
	} else {
		return true;
	}
	server_end(s, REASON_SERVER_AUTH, detail);
	return false;
}
