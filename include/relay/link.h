#ifndef RELAY_LINK_H
#define RELAY_LINK_H

#include "conn/world.h"
#include "pg/frame.h"

/*
 * A link: a server lent to a client. See release.h for its end.
 */

/* Both are ACTIVE and linked. True when the client's bytes may flow at once; false when the server is being brought to the
   client's parameters first (or the pair has ended). */
bool link_begin(struct server *server, struct client *client);
/* A part of it, with session_state = full. */
void link_state_begin(struct server *server, struct client *client);
/* The client's next link, if it began now, would be for a transaction or statement, and end with it. */
bool link_will_share(const struct client *client);
/* What the client has made there is known: the link ends, or, where the client has sent a request meanwhile, it goes on with this server, which may not
   have what it wants: after a RESET that is what it began with. */
void link_resume(struct server *server, struct client *client);
/* The ReadyForQuery of server->task has come: does what follows (enum task_end). */
void link_task_over(struct server *server);
/* The client has POST_READY or POST_LINK: see peer_post(). */
void link_posted(struct client *client, unsigned posted);

#endif
