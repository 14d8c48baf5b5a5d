#ifndef SESSION_REPLICATION_H
#define SESSION_REPLICATION_H

#include "pg/startup.h"
#include "session/login.h"

/* Replication connections: see replication.c. */

#define REPLICATION_PAIRS 32		/* most start-up parameters that go to the server as they came */

/* What a server is told, and the log. */
static inline const char *replication_word(enum login_replication replication)
{
	static const char *const words[] = { "no", "database", "yes" };

	return words[replication];
}

/* As SHOW prints it. */
static inline const char *replication_name(enum login_replication replication)
{
	static const char *const names[] = { "none", "logical", "physical" };

	return names[replication];
}

/* Looks for `replication` in a start-up packet, before anything else of it is taken: login->replication. False: its value
   cannot be; the client has ended. */
bool replication_ask(struct client *client, const struct pg_startup *packet);
/* Keeps a start-up parameter for the client's own server. False: too many, or no memory; the client has ended. */
bool replication_keep(struct client *client, const char *name, const char *value);

/* The client has proven who it is and is about to join its pool: it will want a server of its own. */
void replication_mark(struct client *client);
/* It has joined: it queues, and is welcomed when its server is lent to it. */
void replication_queue(struct client *client);
/* What its server is opened with: the kept parameters, name\0value\0 and so on, are appended to `pairs`. */
void replication_copy_pairs(const struct client *client, struct bytes *pairs);

/* A server that was opened for such a client has logged in, or has failed to, with this text: then the client gets it, unless it is
   to wait for another attempt. */
void replication_server_opened(struct server *server);
void replication_server_failed(struct server *server, enum login_failure failure, const char *text);
/* The server is lent to its client, which has not been welcomed yet. False: the client has ended. */
bool replication_begin(struct server *server, struct client *client);
/* The client goes: its server goes too, politely if it can. */
void replication_end(struct server *server);

#endif
