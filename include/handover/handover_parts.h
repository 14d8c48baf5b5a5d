#ifndef HANDOVER_HANDOVER_PARTS_H
#define HANDOVER_HANDOVER_PARTS_H

#include "handover/handover.h"
#include "prepared/prepared_record.h"

/*
 * Shared by the files of this room. Each unpack function reads the fields of the pack function with
 * the same name, in the same order; an invalid value sets in->bad. The functions ..._record_pack()
 * put a record together from the parts of the rooms: see conn/connection_record.h,
 * pool/pool_record.h, state/session_record.h, prepared/prepared_record.h.
 */

/* The state of the new process during the handover. */
struct handover {
	struct world *world;
	struct conf_problems *problems;	/* of the current record */
	struct record_statements statements;	/* that were received */
	/* the pool of the following servers and clients; NULL: unauthenticated clients, or the pool
	   does not exist here */
	struct pool *pool;
	/* why the pool does not exist here, or REASON_NONE */
	enum close_reason no_place;
	struct server *server;		/* the last server if its client follows; otherwise NULL */
	/* the last server was rejected (no_place) in the middle of a message to its client */
	bool in_message;
	struct handover_counts counts, announced;
	bool has_world;
	bool is_whole;			/* HANDOVER_END was received with the right counts */
	/* the settings for connecting to servers, or for logging in, are not the same as in the old
	   process */
	bool tls_differs, logins_differ;
	/* the pool's clients share their servers here and did not in the old process, or the
	   reverse */
	bool mode_differs;
	struct unsent *unsent;		/* bytes that the old process could not send */
	size_t unsent_count;
	struct rejected *rejected;	/* connections that do not fit the configuration */
	size_t rejected_count;
	/* databases with servers that connect to another place than the configuration says */
	struct database **moved;
	size_t moved_count;
};

/* How a rejected connection ends after the handover. */
enum reject_way { REJECT_CLOSE, REJECT_TERMINATE, REJECT_TELL };

struct unsent {
	struct peer *peer;
	struct bytes bytes;
};

struct rejected {
	int fd;
	enum reject_way way;
	enum close_reason why;
};

/* The state of the old process while it sends the records. */
struct sender {
	struct records *to;
	int patience;
	struct handover_counts *counts;
	struct record_statements statements;	/* that have been sent; see statement_send() */
	/* a statement could not be sent: records->error has the reason */
	bool is_broken;
};

/* handover_connection.c */
/* Decides for each listener whether it stays in this process; called before anything is sent. */
void listeners_decide(const struct world *world);
/* Whether the connection can be handed over. */
bool handover_includes(struct peer *peer);
/* Send the statements that the record refers to, and pack the record. */
void server_record_pack(struct sender *sender, struct bytes *out, const struct server *server);
void client_record_pack(struct sender *sender, struct bytes *out, const struct client *client);
/* Take the descriptor. */
void server_record_unpack(struct unpack *in, struct handover *handover, int fd);
void client_record_unpack(struct unpack *in, struct handover *handover, int fd);

#endif
