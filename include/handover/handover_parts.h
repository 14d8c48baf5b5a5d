#ifndef HANDOVER_HANDOVER_PARTS_H
#define HANDOVER_HANDOVER_PARTS_H

#include "backend/welcome.h"
#include "handover/handover.h"
#include "pg/packed.h"

/*
 * What the files of the hand-over share. What one function packs, its namesake unpacks, in the same order; a thing that cannot be
 * used sets in->bad.
 */

/* What the taking side knows so far. */
struct handover {
	struct world *world;
	struct conf_problems *problems;	/* of the record under way */
	struct known_statement *statements;	/* uthash, by number */
	struct pool *pool;		/* of the servers and clients that come; NULL: unauthenticated clients, or those of no pool */
	enum close_reason no_place;		/* why they have no place here, or REASON_NONE */
	struct server *server;		/* the last one, if its client comes next; else NULL */
	bool in_message;		/* the last server, no_place, was in the middle of a message to its client */
	struct handover_counts counts, announced;
	bool has_world, is_whole;
	bool tls_differs, logins_differ;	/* servers are reached, or used, in other ways than those that come */
	bool mode_differs;		/* the pool's clients share their servers here and did not there, or the other way round */
	struct unsent *unsent;		/* bytes that the old process had not got rid of */
	size_t unsent_count;
	struct rejected *rejected;	/* connections that have no place here */
	size_t rejected_count;
	struct database **moved;	/* with servers that lead elsewhere than the configuration says */
	size_t moved_count;
};

/* What is said to a connection that has no place here, once it is ours. */
enum reject_way { REJECT_CLOSE, REJECT_TERMINATE, REJECT_TELL };

/* handover.c */
/* Takes the descriptor, which is closed when everything is ours, for the reason in h->no_place. */
void handover_reject(struct handover *handover, int fd, enum reject_way way);
/* Bytes that are to be sent to this peer once it is ours. False: no memory. */
bool handover_put_by(struct handover *handover, struct peer *peer, const uint8_t *bytes, size_t size);

/* What the giving side has to hand while it walks over everything. */
struct sender {
	struct world *world;
	struct records *to;
	int patience;
	struct handover_counts *counts;
	struct known_statement *sent;	/* statements that have gone already */
};

/* handover_statements.c */
/* Sends those that the connection's record will refer to, and have not gone yet. False: the channel is broken, or no memory. */
bool statements_of_server_send(struct sender *sender, const struct server *server);
bool statements_of_client_send(struct sender *sender, const struct client *client);
void known_statement_unpack(struct unpack *in, struct handover *handover);
/* The statement of that number, not held; NULL for 0. A number that was not sent sets in->bad. */
struct statement *known_statement(struct unpack *in, const struct handover *handover);
void known_statements_free(struct statements *all, struct known_statement **table);

/* handover_pool.c */
bool handover_send_pools(struct world *world, struct records *to, int patience, struct handover_counts *counts);
void world_pack(struct bytes *out, const struct world *world);
void world_unpack(struct unpack *in, struct handover *handover);
void database_unpack(struct unpack *in, struct handover *handover);
void pool_unpack(struct unpack *in, struct handover *handover);

/* The messages of a server's welcome; NULL is none. `like`: see welcome_of(). */
void handover_pack_welcome(struct bytes *out, struct welcome *welcome);
struct welcome *handover_unpack_welcome(struct unpack *in, struct welcome *like);

/* handover_server.c */
bool server_may_be_given(const struct server *server);
bool server_itself_may_be_given(const struct server *server);	/* as for clients */
void server_pack(struct bytes *out, const struct server *server);
/* Takes the descriptor. */
void server_unpack(struct unpack *in, struct handover *handover, int fd);

/* handover_listener.c */
/* No client of the pool waits for its listener. */
bool listener_is_calm(const struct pool *pool);
/* Notes for each listener whether it stays in this process: before anything is given. */
void listeners_decide(const struct world *world);
bool listener_stays(const struct pool *pool);
void listener_pack(struct bytes *out, const struct server *server);
void listener_unpack_server(struct unpack *in, struct server *server);
void hearing_pack(struct bytes *out, const struct client *client);
void hearing_unpack(struct unpack *in, struct client *client);

/* handover_client.c */
bool client_may_be_given(const struct client *client);
/* The same, but for others of its pool that may have to go with it. */
bool client_itself_may_be_given(const struct client *client);
void client_pack(struct bytes *out, const struct client *client);
/* Takes the descriptor. */
void client_unpack(struct unpack *in, struct handover *handover, int fd);
/* What clients and servers have in common, but for the id. Unpacking puts what was not sent by. */
void peer_pack(struct bytes *out, const struct peer *peer);
void peer_unpack(struct unpack *in, struct handover *handover, struct peer *peer);
/* Of a peer that is not unpacked: it is in the middle of a message that goes on to the other side. */
bool peer_is_in_message(struct unpack in);

/* handover_prepared.c */
void prepared_server_pack(struct bytes *out, const struct server *server);
void prepared_server_unpack(struct unpack *in, struct handover *handover, struct server *server);
/* With the journal of its server, which refers to its names. */
void prepared_client_pack(struct bytes *out, const struct client *client);
void prepared_client_unpack(struct unpack *in, struct handover *handover, struct client *client);

#endif
