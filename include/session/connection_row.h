#ifndef SESSION_CONNECTION_ROW_H
#define SESSION_CONNECTION_ROW_H

#include "base/clock.h"
#include "net/address.h"
#include "pg/params.h"

/*
 * What is shown of a connection, gathered from the rooms that keep it, so that what shows it (SHOW CLIENTS and its relatives) knows
 * none of their structs. Pointers are borrowed, and good as long as the connection does not change.
 */
struct connection_row {
	bool is_client;
	bool is_shown;				/* SHOW CLIENTS has it: its user and database are known */
	bool is_authenticated;
	bool is_console, is_asking;		/* of the console; and what it has asked for is being answered now */
	uint64_t id, link_id;			/* link: the connection at the other end; 0: none */
	const char *user, *database, *state, *replication;
	const char *application, *close_reason, *task;	/* NULL: none */
	unsigned minor;				/* of the protocol: 3.minor */
	unsigned prepared;			/* statements */
	unsigned pins;				/* PIN_ bits: why its client keeps its server */
	usec_t pinned, idle;			/* so long; idle: of its client, 0: it is asking or in a transaction */
	usec_t in_state, waits;			/* so long */
	usec_t connected_at, request_at;	/* wall clock */
	int64_t remote_pid;			/* 0: not known */
	int64_t link_pid;			/* of the server process at the other end; 0: none, or not known */
	struct brief_address remote, local;
	size_t held, unsent, passing;		/* bytes: not acted upon yet, not taken by the socket, to come of the message under way */
	char tls[128];				/* "" in clear */
	int fd, link_fd;			/* link: 0: none */
	uint32_t cancel_pid;
	const uint8_t *cancel_key;
	size_t cancel_key_size;
	const struct params *params;		/* NULL: not known */
};

struct world;

/* How far a walk has come that does not give all rows at once. All 0 in the beginning. */
struct connection_walk {
	bool goes_on;			/* rows are left */
	int list;			/* of those that it walks */
	uint64_t behind, last;		/* ids in that list: of the last row given, and of the last connection when the walk began */
};

enum connection_kinds { CONNECTION_CLIENTS, CONNECTION_SERVERS, CONNECTION_ALL };

/*
 * Calls give() for the next `most` connections, in the order of their ids, clients first; walk->goes_on says whether there are more.
 * Each row is as of now. What has ended since the walk began is left out, and so is what has come.
 */
void connections_walk(const struct world *world, struct connection_walk *walk, enum connection_kinds kinds, int most,
		      void (*give)(void *context, const struct connection_row *row), void *context);

/* Of all connections: how many there are, and the bytes in their buffers, used and in all. */
struct connection_totals {
	int clients, servers;
	size_t buffered, buffers;
};
struct connection_totals connections_total(const struct world *world);

#endif
