#ifndef STATE_NOTIFY_CLIENT_H
#define STATE_NOTIFY_CLIENT_H

#include "state/notify_server.h"
#include "pg/frame.h"

/*
 * A client that LISTENs (session_state = full). Promise: the client receives each notification of its channels once and in order, between two
 * messages and outside of transactions, on any server. See notify_client.c, and notify_server.h for the listener of its pool.
 */
struct session_answer;

/* Maximum number of notifications delivered to clients in one turn; a long one counts as several. Sending them takes about 0.3 ms. */
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
	uint64_t barrier;		/* its ReadyForQuery waits for the answer to the listener's query with this number */
	struct list due;		/* world->notify_due, while it has notifications to be sent in this turn or the next turns; else empty */
	struct list moving;		/* notify_server->movers, while the listener has not received its marker; else empty */
	uint32_t move;			/* number of its last marker */
	uint64_t heard_by;		/* the listener has the marker when its query with this number is answered; 0: no marker is sent */
	uint8_t step;			/* enum notify_step */
	struct bytes pending;		/* notifications that wait until the client is between two messages */
};

/* A client and a channel. While the channel moves, both servers LISTEN: the client's server delivers notifications before the marker, the listener
   delivers notifications after the marker. */
struct subscription {
	struct list of_channel, of_client;
	struct channel *channel;
	struct notify_client *notify_client;
	bool from_server;		/* the client's own server delivers: until its marker */
	bool from_listener;		/* the listener delivers: from the marker on */
	uint32_t move;			/* number of the marker that the listener has not received yet; 0: none */
	bool is_there;			/* the last answer of the server has the channel */
};

extern const struct server_task task_mark, task_unlisten, task_relisten;

/* The client's server has answered which channels it LISTENs to (answer->channels). `is_exact`: these are all channels of the client. False: no
   memory; the client has ended. */
bool notify_client_learn(struct client *client, const struct session_answer *answer, bool is_exact);
/* The client ends, or has no channels any more. */
void notify_client_forget(struct client *client);
/* Whether the listener delivers notifications to the client, or will. */
bool notify_client_is_told(const struct notify_client *notify);
/* After a handover: the client has this channel. False: no memory, or the client has the channel already. */
bool notify_client_restore(struct client *client, const char *channel, bool from_server, bool from_listener);
/* The channel has got its first subscription or lost its last one. The channel may be freed. */
void channel_changes(struct notify_server *listener, struct channel *channel);
/* Appends `command "name";`. */
void channel_sql(struct bytes *sql, const char *command, const char *name);

/* Delivers a NotificationResponse, here as a whole, of the listener's server to the clients. False: the message is malformed. */
bool notify_clients_deliver(struct server *server, const struct pg_frame *frame);
/* Returns the process ID that this client is told for `told` (notify_sender): its own ID, or an ID that does not reveal another client's. */
uint32_t notify_sender_for(const struct client *client, uint32_t told);
/* Once a turn: sends delivered notifications to a bounded number of clients; the other clients follow in the next turns. */
void notify_clients_flush(struct world *world);
/* Whether a listener may deliver more in this turn. False: its socket is not read until a later turn. */
static inline bool notify_clients_have_share(const struct world *w) { return w->deliveries < NOTIFY_DELIVERIES && !w->notify_waits; }
/* Sends the client its pending notifications; the client is between two messages and in no transaction. */
void notify_client_flush(struct client *client);
/* The same, if the client is between two messages and in no transaction. */
void notify_client_flush_if_idle(struct client *client);
/* A NotificationResponse has come from the client's own server. False: the listener delivers it, or it is the marker. */
bool notify_client_passes(struct client *client, const struct pg_frame *frame);

/* The client, which listens, and its server are at the end of a link, and no fact is in doubt: begins the next step. */
enum notify_move {
	NOTIFY_MOVE_NONE,		/* no step is necessary or possible */
	NOTIFY_MOVE_SERVER,		/* the server becomes the listener's: notify_server_begin() */
	NOTIFY_MOVE_CHANNELS		/* the client keeps the server until the step is over */
};
enum notify_move notify_client_move(struct server *server, struct client *client);
/* The ReadyForQuery of the client has arrived, and everything before it was sent. Notifications come before it. True: it is withheld until the
   listener has answered (task_hear); the client gets POST_READY then. */
bool notify_client_holds_ready(struct server *server, struct client *client);
/* POST_READY: sends the notifications and the ReadyForQuery. */
void notify_client_send_ready(struct server *server, struct client *client);
/* The server has LISTENed to all channels of the client that the listener delivers: it must UNLISTEN at the end of the link. */
void notify_client_note_channels(struct server *server, struct client *client);
/* The next message of the client may UNLISTEN or begin a transaction: the server LISTENs to the client's channels first. */
void notify_client_relisten(struct server *server, struct client *client);
/* Appends LISTEN for all channels that the listener delivers to this client. */
void notify_client_sql(const struct notify_client *notify, struct bytes *sql);

#endif
