#ifndef STATE_NOTIFY_H
#define STATE_NOTIFY_H

#include "backend/server_info.h"
#include "conn/world.h"
#include "pg/frame.h"
#include "base/assert.h"

/*
 * The listener of a pool: a server connection that LISTENs for all clients of the pool
 * (session_state = full). Promise: clients receive a notification with the process ID of its
 * sender. For this a server waits, before its next client, until all notifications of the last one
 * have arrived. See notify.c.
 */
struct notify_client;

#define LISTENER_MARKER 24		/* size of the name of the marker channel, with its NUL */

/* The state of a channel on the listener: not LISTENed to; LISTEN is sent; LISTENed to; UNLISTEN is
   sent. */
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
	/* in SERVER_LISTENING; NULL: none yet, or the last server has ended */
	struct server *server;
	struct pool *pool;
	struct channel *channels;	/* uthash */
	struct list clients, barriers, movers;
	/* world->notify.listeners, while it has a server; else empty */
	struct list of_world;
	uint64_t sent, answered;	/* numbers of its last queries */
	/* world->notify.releases at the time of the last query, and of the last query that is
	   answered */
	uint64_t asked_for, heard;
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
static inline struct notify_server *notify_server_of(const struct pool *pool)
{
	const struct server_info *info = pool->server_info;

	return info ? info->notify_server : NULL;
}
/* Frees a listener without clients. */
static inline void notify_server_free(struct notify_server **place)
{
	ASSERT(!*place || (list_is_empty(&(*place)->clients) && !(*place)->channels));
	mem_free(*place);
	*place = NULL;
}
/* Whether the limits of pool, database and user allow `more` additional listeners besides one
   server for queries. */
bool notify_server_has_room(const struct pool *pool, int64_t more);
/* The pool's listener has no server. This server, which its client has left, has all channels of
   the client and becomes the listener's server. */
void notify_server_begin(struct notify_server *listener, struct server *server,
			 struct notify_client *first);
/* Sends the server of the listener its next query, unless a query is executed: LISTEN and UNLISTEN,
   or an empty query for barriers. A listener without clients is freed, and its server returns to
   the pool. */
void notify_server_work(struct notify_server *listener);
/* Called regularly: sends pending notifications to idle clients, and a query if there was none for
   server_check_delay. */
void notify_server_tick(struct notify_server *listener);
/* A server in SERVER_LISTENING ends. Clients that the listener delivers to end too, because they
   may have missed notifications. */
void notify_server_end(struct server *server, enum close_reason why);
/* After a handover: the pool's listener has this server and this marker. False: the marker is
   malformed, or there is no memory. */
bool notify_server_restore_server(struct server *server, const char *marker);

/*
 * A listening client (session_state = full). Promise: the client receives each notification of its
 * channels once and in order, between two messages and outside of transactions, on any server. See
 * notify.c.
 */
struct session_answer;

/* Maximum number of notifications delivered to clients in one turn; a long one counts as several.
   Sending them takes about 0.3 ms. */
#define NOTIFY_DELIVERIES 2048

/* The next step of the client's channels. */
enum notify_step {
	NOTIFY_RESTS,			/* nothing, or nothing that can be done */
	NOTIFY_WAITS,			/* the listener LISTENs to the channels */
	NOTIFY_MARKS,			/* the client's server sends the marker */
	NOTIFY_LEAVES			/* the client's server UNLISTENs */
};

struct notify_client {
	struct client *client;
	struct notify_server *notify_server;
	struct list node;		/* notify_server->clients */
	struct list subscriptions;	/* in order of time */
	struct list waiting;		/* notify_server->barriers; else empty */
	/* its ReadyForQuery waits for the answer to the listener's query with this number */
	uint64_t barrier;
	/* world->notify.due, while it has notifications to be sent in this turn or the next turns;
	   else empty */
	struct list due;
	/* notify_server->movers, while the listener has not received its marker; else empty */
	struct list moving;
	uint32_t move;			/* number of its last marker */
	/* the listener has the marker when its query with this number is answered; 0: no marker is
	   sent */
	uint64_t heard_by;
	uint8_t step;			/* enum notify_step */
	/* until the client is between two messages: notify_order.c */
	struct bytes pending;
};

/* A client and a channel. While the channel moves, both servers LISTEN: the client's server
   delivers notifications before the marker, the listener delivers notifications after the
   marker. */
struct subscription {
	struct list of_channel, of_client;
	struct channel *channel;
	struct notify_client *notify_client;
	bool from_server;		/* the client's own server delivers: until its marker */
	bool from_listener;		/* the listener delivers: from the marker on */
	/* number of the marker that the listener has not received yet; 0: none */
	uint32_t move;
	bool is_there;			/* the last answer of the server has the channel */
};

extern const struct server_task task_mark, task_unlisten;

/* The client's server has answered which channels it LISTENs to (answer->channels). `is_exact`:
   these are all channels of the client. False: no memory; the client has ended. */
bool notify_client_learn(struct client *client, const struct session_answer *answer, bool is_exact);
/* The client ends, or has no channels any more. */
void notify_client_forget(struct client *client);
/* Whether the listener delivers notifications to the client, or will do so after the marker. */
bool notify_client_is_told(const struct notify_client *notify);
/* After a handover: the client has this channel. False: no memory, or the client has the channel
   already. */
bool notify_client_restore(struct client *client, const char *channel, bool from_server,
			   bool from_listener);
/* Appends `command "name";`. */
void channel_sql(struct bytes *sql, const char *command, const char *name);

/* Delivers a NotificationResponse, here as a whole, of the listener's server to the clients. False:
   the message is malformed. */
bool notify_clients_deliver(struct server *server, const struct pg_frame *frame);
/* Once a turn: sends delivered notifications to a bounded number of clients; the other clients
   follow in the next turns. */
void notify_clients_flush(struct world *world);
/* Whether a listener may deliver more in this turn. False: its socket is not read until a later
   turn. */
static inline bool notify_clients_have_share(const struct world *w)
{
	return w->notify.deliveries < NOTIFY_DELIVERIES && !w->notify.clients_wait;
}
/* A NotificationResponse has come from the client's own server: replaces its process ID by the
   process ID that the client knows. False: it is not forwarded. The listener delivers it, or it is
   pending beside notifications of the listener, or it is the marker. */
bool notify_client_passes(const struct server *server, struct client *client,
			  const struct pg_frame *frame);

/*
 * The pending notifications of a client, in the order of commits: notify_order.c. The first three
 * functions add a complete NotificationResponse. They end the client if there is no memory, or if
 * too much is pending.
 */
/* The listener delivers it, with the process ID that the client is told. */
void notify_pend_heard(struct notify_client *to, const struct pg_frame *frame, uint32_t pid);
/* The listener has received it, and the client's own server delivers it if it is to be
   delivered. */
void notify_pend_echo(struct notify_client *to, const struct pg_frame *frame);
/* The client's own server delivers a notification of its own. `has_echo`: the listener receives it
   too. */
void notify_pend_own(struct notify_client *to, const struct pg_frame *frame, uint32_t pid,
		     bool has_echo);
/* The client has left channels: drops the pending notifications of channels that it does not
   keep. */
void notify_pending_leave(struct notify_client *of,
			  bool (*keeps)(const struct notify_client *of, const char *channel));
/* Sends the client its pending notifications; the client is between two messages and in no
   transaction. */
void notify_client_flush(struct client *client);

/* The client, which listens, and its server are at the end of a link, and no fact is in doubt:
   begins the next step. */
enum notify_move {
	NOTIFY_MOVE_NONE,		/* no step is necessary or possible */
	/* the server becomes the listener's: notify_server_begin() */
	NOTIFY_MOVE_SERVER,
	NOTIFY_MOVE_CHANNELS		/* the client keeps the server until the step is over */
};
enum notify_move notify_client_move(struct server *server, struct client *client);

#endif
