#ifndef STATE_NOTIFY_SERVER_H
#define STATE_NOTIFY_SERVER_H

#include "conn/world.h"
#include "pg/frame.h"

/*
 * The listener of a pool: a server connection that LISTENs for all clients of the pool (session_state = full). Promise: a notification that was
 * committed before a server is assigned to its next client is delivered with the process ID of the client that sent it. See notify_server.c, and
 * notify_client.h for the clients.
 */
struct notify_client;

#define LISTENER_MARKER 24		/* size of the name of the marker channel, with its NUL */

/* The state of a channel on the listener: not LISTENed to; LISTEN is sent; LISTENed to; UNLISTEN is sent. */
enum channel_state { CHANNEL_NEW, CHANNEL_ASKED, CHANNEL_HEARD, CHANNEL_LEFT };

struct channel {
	struct list subscriptions;	/* in order of time */
	uint8_t state;			/* enum channel_state */
	struct list node;		/* notify_server->changed or ->asked; else empty */
	UT_hash_handle hh;		/* by name, with its NUL */
	char name[];
};

/* The listener of a pool. */
struct notify_server {
	struct server *server;		/* in SERVER_LISTENING; NULL: none yet, or the last one has ended */
	struct pool *pool;
	struct channel *channels;	/* uthash */
	struct list clients, barriers, movers;
	struct list of_world;		/* world->listeners, while it has a server; else empty */
	uint64_t sent, answered;	/* numbers of its last queries */
	uint64_t asked_for, heard;	/* world->notified at the time of the last query, and of the last query that is answered */
	uint32_t moves;			/* number of the last marker */
	bool stays;			/* in this process, in a handover (handover_connection.c) */
	struct list changed;		/* channels for the next query: LISTEN or UNLISTEN */
	struct list asked;		/* channels of the query that is not answered yet */
	bool is_to_answer;		/* a query is sent even if no channel has changed */
	bool marker_is_heard;		/* the server LISTENs to the marker channel */
	char marker[LISTENER_MARKER];
};

extern const struct server_task task_listen;

/* Returns the listener of the pool. NULL: no client of the pool listens. */
struct notify_server *notify_server_of(const struct pool *pool);
/* The same; makes the listener on first use. NULL: no memory. */
struct notify_server *notify_server_get(struct pool *pool, struct params_table *table);
/* Frees a listener without clients. */
void notify_server_free(struct notify_server **listener);
/* Whether the limits of pool, database and user allow `more` additional listeners besides one server for queries. */
bool notify_server_has_room(const struct pool *pool, int64_t more);
/* The pool's listener has no server. This server, which its client has left, has all channels of the client and becomes the listener's server. */
void notify_server_begin(struct notify_server *listener, struct server *server, struct notify_client *first);
/* Sends the server of the listener its next query, unless a query is executed: LISTEN and UNLISTEN, or an empty query for barriers. A listener
   without clients is freed, and its server returns to the pool. */
void notify_server_work(struct notify_server *listener);
/* Called regularly: sends pending notifications to idle clients, and a query if there was none for server_check_delay. */
void notify_server_tick(struct notify_server *listener);
/* A server in SERVER_LISTENING ends. Clients that the listener delivers to end too, because they may have missed notifications. */
void notify_server_end(struct server *server, enum close_reason why);
/* After a handover: the pool's listener has this server and this marker. False: the marker is malformed, or there is no memory. */
bool notify_server_restore_server(struct server *server, const char *marker);

/* Returns the process ID that clients of `to` know for server process `pid`: the ID that the present or last client of the process was told; `pid`
   if the process belongs to no server connection of pgweir, or has had no client. */
uint32_t notify_sender(const struct server *to, uint32_t pid);
/* If servers wait for listeners (world->notifiers_due): sends each of these listeners a query, and releases the servers whose notifications have
   arrived. Called once a turn, and after each answer of a listener. */
void notifiers_continue(struct world *world);

#endif
