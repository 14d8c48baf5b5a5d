#ifndef PREPARED_PREPARED_RECORD_H
#define PREPARED_PREPARED_RECORD_H

#include "conn/world.h"
#include "prepared/prepared.h"

/*
 * The part of this room in a handover record (handover/handover.c): the prepared statements of a
 * client and of a server. See prepared_record.c.
 */

struct known_statement;

/* The statements that the records of connections refer to by their numbers: in the old process
   the statements that were sent, in the new process the statements that were received. */
struct record_statements {
	struct world *world;
	struct known_statement *known;	/* uthash, by number; see record_statements_free() */
	/* Sends a statement's record, before the record that refers to it. False: the channel is
	   broken. NULL in the new process. */
	bool (*send)(struct record_statements *statements, struct bytes *record);
};

/* Receives the record of a statement. Sets in->bad if the number was received before. */
void record_statement_unpack(struct unpack *in, struct record_statements *statements);
void record_statements_free(struct record_statements *statements);
/* Pack functions send the statements of the connection that have not been sent yet, and pack the
   rest. out->failed: the channel is broken, or no memory. Unpack functions read the same members in
   the same order, and set in->bad for an invalid value, or without memory. */
void prepared_server_pack(struct record_statements *statements, struct bytes *out,
			  const struct server *server);
void prepared_server_unpack(struct unpack *in, struct record_statements *statements,
			    struct server *server);
/* Includes the journal of the client's server, which refers to the client's names: the server is
   unpacked before. `server`: NULL if the client has none. */
void prepared_client_pack(struct record_statements *statements, struct bytes *out,
			  const struct client *client);
void prepared_client_unpack(struct unpack *in, struct record_statements *statements,
			    struct client *client, struct server *server);

#endif
