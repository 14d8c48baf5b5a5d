#ifndef RELAY_LINK_H
#define RELAY_LINK_H

#include "conn/world.h"
#include "pg/frame.h"
#include "prepared/prepared.h"

/*
 * A link: a server lent to a client. See release.h for its end.
 */

/* The server and the client are ACTIVE and linked. True: the client's messages may be sent at once.
   False: the server gets the client's parameters first, or the pair has ended. */
bool link_begin(struct server *server, struct client *client);
/* Whether a link of the client that begins now ends with the transaction or statement. A client
   with prepared statements that are shared stays in transaction mode after a change to session
   mode, because a session of its own would not have these statements. */
static inline bool link_will_share(const struct client *c)
{
	return !c->login_facts.replication && (c->pooled.pool->allowed.mode != MODE_SESSION ||
				   (c->prepared && c->prepared->names));
}
/* The ReadyForQuery of server->task has arrived: continues as its on_done says (enum task_end). */
void link_task_over(struct server *server);
/* The client has POST_READY or POST_LINK: see peer_post(). */
void link_posted(struct client *client, unsigned posted);

#endif
