#ifndef HANDOVER_HANDOVER_PARTS_H
#define HANDOVER_HANDOVER_PARTS_H

#include "backend/welcome.h"
#include "handover/handover.h"
#include "prepared/prepared_record.h"

/*
 * Shared by the files of this room. Each unpack function reads the fields of the pack function with
 * the same name, in the same order; an invalid value sets in->bad.
 */

/* The state of the new process during the handover. */
struct handover {
	struct world *world;
	struct conf_problems *problems;	/* of the current record */
	struct record_statements statements;	/* that were received */
	/* the pool of the following servers and clients; NULL: unauthenticated clients, or a pool
	   that does not exist here */
	struct pool *pool;
	/* why the pool does not exist here, or REASON_NONE */
	enum close_reason no_place;
	struct server *server;		/* the last server if its client follows; otherwise NULL */
	/* the last server was rejected (no_place) in the middle of a message to its client */
	bool in_message;
	struct handover_counts counts, announced;
	bool has_world;
	bool is_whole;			/* HANDOVER_END was received with the right counts */
	/* the settings for connecting to servers, or for logging in, differ from those of the old
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
/* The messages of a server's welcome; may be NULL. `like`: see welcome_of(). */
static inline void handover_pack_welcome(struct bytes *out, struct welcome *welcome)
{
	const struct bytes *messages = welcome ? welcome_messages(welcome) : NULL;

	pack_bool(out, welcome != NULL);
	if (messages)
		pack_blob(out, bytes_size(messages) > 0 ? bytes_front(messages) : NULL,
			  bytes_size(messages));
}
struct welcome *handover_unpack_welcome(struct unpack *in, struct welcome *like);
/* Decides for each listener whether it stays in this process; called before anything is sent. */
void listeners_decide(const struct world *world);
/* Whether the connection can be handed over. */
bool handover_includes(struct peer *peer);
/* Send the statements that the record refers to, and pack the record. */
void server_pack(struct sender *sender, struct bytes *out, const struct server *server);
void client_pack(struct sender *sender, struct bytes *out, const struct client *client);
/* Take the descriptor. */
void server_unpack(struct unpack *in, struct handover *handover, int fd);
void client_unpack(struct unpack *in, struct handover *handover, int fd);

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
