#ifndef STATE_SESSION_RECORD_H
#define STATE_SESSION_RECORD_H

#include "conn/client.h"
#include "conn/server.h"

/*
 * The part of this room in the record of a connection in a handover (handover/handover.c): the
 * state of sessions, and the channels that they LISTEN to. An unpack function reads the output of
 * the pack function with the same name, and sets in->bad for an invalid value, or without memory.
 * See session_record.c.
 */

/* The client has logged in; its session is unpacked before it joins its pool. */
void session_client_pack(struct bytes *out, const struct client *client);
void session_client_unpack(struct unpack *in, struct client *client);
void session_server_pack(struct bytes *out, const struct server *server);
void session_server_unpack(struct unpack *in, struct server *server);
/* The channels of a client; unpacked when the client has joined its pool. */
void notify_client_pack(struct bytes *out, const struct client *client);
void notify_client_unpack(struct unpack *in, struct client *client);
/* The listener of a pool: unpacked when the server is in SERVER_LISTENING, or in another state. */
void notify_server_pack(struct bytes *out, const struct server *server);
void notify_server_unpack(struct unpack *in, struct server *server);

#endif
