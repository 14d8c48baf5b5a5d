#ifndef POOL_POOL_RECORD_H
#define POOL_POOL_RECORD_H

#include "base/bytes.h"
#include "pool/pool.h"

/*
 * The part of this room in the records of a handover (handover/handover.c): the members of pools,
 * databases, hosts, and of the places of clients and servers in their pools. An unpack function
 * reads the members in the order of the pack function with the same name, and sets in->bad for an
 * invalid value, or without memory. See pool_record.c.
 */

/* Counters, DRAIN commands, and the evidence of hosts. The databases of the new process exist
   already. */
void pools_pack(struct bytes *out, const struct pools *pools);
void pools_unpack(struct unpack *in, struct pools *pools, usec_t now);
/* Without name and configuration. `database` NULL: the record is read, and has no effect. */
void database_pack(struct bytes *out, const struct database *database);
void database_unpack(struct unpack *in, struct database *database, usec_t now);
/* Without database, user and host, which name the pool. */
void pool_pack(struct bytes *out, const struct pool *pool);
void pool_unpack(struct unpack *in, struct pool *pool);

/* Members for pool_client_restore(), after the client has joined its pool. */
struct pool_client_record {
	usec_t since;
	bool is_notified;
	unsigned pins;
};
void pool_client_pack(struct bytes *out, const struct pool_client *client);
struct pool_client_record pool_client_unpack(struct unpack *in, struct pool_client *client);
/* Gives the client, which has joined its pool, its state: IDLE, WAITING, or ACTIVE with `server`,
   which is NULL otherwise. The assignment of the server is not counted again. False: no memory, or
   pins without a server. */
bool pool_client_restore(struct pool_client *client, enum client_state state,
			 struct pool_server *server, const struct pool_client_record *record,
			 usec_t now);

/* pool_server_unpack() also gives the server, which was just created, its state: IDLE, USED, TESTED
   or LISTENING; ACTIVE: it is IDLE until pool_client_restore() of its client. Nothing changes if
   in->bad is set. */
void pool_server_pack(struct bytes *out, const struct pool_server *server);
void pool_server_unpack(struct unpack *in, struct pool_server *server, enum server_state state);

#endif
