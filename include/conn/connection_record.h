#ifndef CONN_CONNECTION_RECORD_H
#define CONN_CONNECTION_RECORD_H

#include "conn/client.h"
#include "conn/server.h"

/*
 * The part of this room in the record of a connection in a handover (handover/handover.c). An
 * unpack function reads the members in the order of the pack function with the same name, and sets
 * in->bad for an invalid value, or without memory. See connection_record.c.
 */

/* `unsent` gets bytes that the old process could not send: nothing may be sent before the handover
   is complete. */
void peer_pack(struct bytes *out, const struct peer *peer);
void peer_unpack(struct unpack *in, struct peer *peer, struct bytes *unsent);
/* Looks at the record of a peer without unpacking it. `has_unsent`: no message can be sent to the
   peer, because the unsent bytes may end within another one. `is_in_message`: no message can be
   sent to its other side, because that side has the beginning of a message of this peer. A
   malformed record counts as both. */
void peer_skim(struct unpack in, bool *has_unsent, bool *is_in_message);
/* The client has logged in. */
void client_pack(struct bytes *out, const struct client *client);
void client_unpack(struct unpack *in, struct client *client);
/* server_unpack() also adds the server to world->by_backend_pid. Its task has begun before. */
void server_pack(struct bytes *out, const struct server *server);
void server_unpack(struct unpack *in, struct server *server);

/* A set of parameters, or NULL. */
static inline void params_or_none_pack(struct bytes *out, const struct params_table *table,
				       const struct params *set)
{
	pack_bool(out, set != NULL);
	if (set)
		params_pack(out, table, set);
}
static inline const struct params *params_or_none_unpack(struct unpack *in,
							 struct params_table *table)
{
	const struct params *set;

	if (!unpack_bool(in))
		return NULL;
	set = params_unpack(in, table);
	in->bad |= !set;
	return set;
}

#endif
