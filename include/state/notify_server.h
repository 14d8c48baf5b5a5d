#ifndef STATE_NOTIFY_SERVER_H
#define STATE_NOTIFY_SERVER_H

#include "conn/world.h"
#include "pg/frame.h"

/*
 * The listener of a pool, for clients that LISTEN with session_state = full: see notify_server.c, and notify_client.h for its clients.
 */
struct notify_client;

#define LISTENER_MARKER 24		/* size of the name of the marker channel, with its NUL */

/* The state of a channel on the listener. */
enum channel_state { CHANNEL_NEW, CHANNEL_ASKED, CHANNEL_HEARD, CHANNEL_LEFT };

struct channel {
	struct list subscriptions;	/* in order of time */
	uint8_t state;			/* enum channel_state */
	struct list node;		/* notify_server->changed or ->asked; else empty */
	UT_hash_handle hh;		/* by name, with its NUL */
	char name[];
};

/* Of a pool. */
struct notify_server {
	struct server *server;		/* in SERVER_LISTENING; NULL: none yet, or it has ended */
	struct pool *pool;
	struct channel *channels;	/* uthash */
	struct list clients, barriers, movers;
	struct list of_world;		/* world->listeners, while it has a server; else empty */
	uint64_t sent, answered;	/* its queries */
	uint64_t asked_for, heard;	/* world->notified, when the query under way was sent, and when the last one that is answered was */
	uint32_t moves;			/* number of the last marker */
	bool stays;			/* in this process, in a hand-over (handover_connection.c) */
	struct list changed;		/* channels that the server is to LISTEN to, or to UNLISTEN ... */
	struct list asked;		/* ... and that the query under way is about */
	bool is_to_answer;		/* a query is due, to see whether it answers */
	bool marker_is_heard;
	char marker[LISTENER_MARKER];
};

/* The listener of the pool; NULL: no client of the pool listens. */
struct notify_server *notify_server_of(const struct pool *pool);
/* A server may be given away for good: with one less, there is still one to work with. */
bool notify_server_may_begin(const struct pool *pool);
/* The same for a pool with a listener. */
bool notify_server_may_stay(const struct pool *pool);
/* Made on first use; NULL: no memory. */
struct notify_server *notify_server_get(struct pool *pool, struct params_table *table);
extern const struct server_task task_listen;
struct channel *channel_find(const struct notify_server *listener, const char *name);		/* NULL: none of its clients listens to that */
struct channel *channel_get(struct notify_server *listener, const char *name);		/* made on first use; NULL: no memory */
/* The channel has got its first subscription, or lost its last one. It may be freed. */
void channel_changes(struct notify_server *listener, struct channel *channel);
/* Appends `command "name";`. */
void channel_sql(struct bytes *sql, const char *command, const char *name);
/* The pool's listener has no server yet, and this one, which its client has left, has all channels of that client: it becomes the listener's. */
void notify_server_begin(struct notify_server *listener, struct server *server, struct notify_client *first);
/* Sends the server of the listener its next query: LISTEN and UNLISTEN, or, for barriers, an empty query. Does nothing while a query is executed. */
void notify_server_work(struct notify_server *listener);
/* Whether the listener has received all notifications that clients of this server sent before they left it, or never will. */
bool notify_server_has_heard(const struct notify_server *listener, const struct server *server);
/* The server of a listener, which has no work left, goes back to its pool; or a listener without server and clients is freed. True: it did. */
bool notify_server_rests(struct notify_server *listener);
/* A NotificationResponse, here as a whole, has come to the listener's server. False: it cannot be one. */
bool notify_server_heard(struct server *server, const struct pg_frame *frame);
/* Once in a while: the same, for clients that have not come to a ReadyForQuery; and a query, where there has been none for server_check_delay. */
void notify_server_tick(struct notify_server *listener);
/* A server in SERVER_LISTENING ends: so do the clients that it tells, because they may have missed something. */
void notify_server_end(struct server *server, enum close_reason why);
/* The same: the pool's listener has this server, with this marker. False: no memory. */
bool notify_server_restore_server(struct server *server, const char *marker);
void notify_server_free(struct notify_server **listener);

#endif
