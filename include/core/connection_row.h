#ifndef CORE_CONNECTION_ROW_H
#define CORE_CONNECTION_ROW_H

#include "base/clock.h"
#include "net/address.h"
#include "pg/params.h"

/*
 * The values of a connection for SHOW CLIENTS, SHOW SERVERS and related commands, so that the
 * caller needs none of the structs of a connection. Pointers are borrowed, and valid until the
 * connection changes.
 */
struct client;

struct connection_row {
	bool is_client;
	/* SHOW CLIENTS lists the client: its user and database are known */
	bool is_shown;
	bool is_authenticated;
	/* of the console; a console command of the client is being answered now */
	bool is_console, is_asking;
	uint64_t id, link_id;			/* link: id of the linked connection; 0: no link */
	/* the user of the pool: with the key user of a database not the user of the login */
	const char *pool_user;
	const char *user, *database, *state, *replication;
	const char *application, *close_reason, *task;	/* may be NULL */
	/* of the server; the role that a client asks for. May be NULL */
	const char *host, *target;
	unsigned minor;				/* of the protocol: 3.minor */
	unsigned prepared;			/* number of prepared statements */
	unsigned pins;				/* PIN_ bits: why the client keeps its server */
	/* how long; idle: how long its client is idle, 0: in a query or transaction */
	usec_t pinned, idle;
	usec_t in_state, waits;			/* how long */
	usec_t connected_at, request_at;	/* wall clock */
	int64_t remote_pid;			/* 0: unknown */
	/* pid of the linked server's process; 0: no link, or unknown */
	int64_t link_pid;
	struct brief_address remote, local;
	/* bytes: received and not handled yet; not accepted by the socket; left of the current
	   message */
	size_t held, unsent, passing;
	char tls[128];				/* "" without TLS */
	int fd, link_fd;			/* link: 0: no link */
	uint32_t cancel_pid;
	const uint8_t *cancel_key;
	size_t cancel_key_size;
	const struct params *params;		/* NULL: unknown */
	const struct client *client;		/* for client_wait_of(); NULL: a server */
};

struct world;

/* The state of a walk, which returns the rows in several parts because a long list would delay
   other clients. Initialise with zeros. */
struct connection_walk {
	bool goes_on;			/* more rows are left */
	int list;			/* index of the current list */
	/* ids in that list: of the last row returned, and of the last connection when the walk
	   began */
	uint64_t behind, last;
};

enum connection_kinds { CONNECTION_CLIENTS, CONNECTION_SERVERS, CONNECTION_ALL };

/*
 * Calls give() for the next `most` connections, in the order of their ids, clients first; sets
 * walk->goes_on if there are more. Each row has the current values. Connections that ended or were
 * opened since the walk began are omitted.
 */
void connections_walk(const struct world *world, struct connection_walk *walk,
		      enum connection_kinds kinds, int most,
		      void (*give)(void *context, const struct connection_row *row), void *context);

struct pool;
/* Calls give() for at most `most` connections of a pool. The order of clients is waiting, linked,
   idle; the order of servers is linked, idle, in login. Within a state the longest comes first. */
void connections_of_pool(const struct pool *pool, enum connection_kinds kinds, size_t most,
			 void (*give)(void *context, const struct connection_row *row),
			 void *context);

/* Totals over all connections: their number, and the used and allocated bytes of their buffers. */
struct connection_totals {
	int clients, servers;
	size_t buffered, buffers;
};
struct connection_totals connections_total(const struct world *world);

#endif
