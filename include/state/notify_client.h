#ifndef STATE_NOTIFY_CLIENT_H
#define STATE_NOTIFY_CLIENT_H

#include "state/notify_server.h"
#include "pg/frame.h"

/*
 * A client that LISTENs, with session_state = full: see notify_client.c, and notify_server.h for its listener.
 */
struct session_answer;

/* Maximum number of notifications delivered to clients in one turn; a long one counts as several. Sending them takes about 0.3 ms. */
#define NOTIFY_DELIVERIES 2048

/* The next step of the client's channels. */
enum notify_step {
	NOTIFY_RESTS,			/* nothing; or nothing that can be done */
	NOTIFY_WAITS,			/* the listener is to LISTEN to its channels */
	NOTIFY_MARKS,			/* the marker is to be sent by its server, or is under way */
	NOTIFY_LEAVES			/* its server is to UNLISTEN */
};

struct notify_client {
	struct client *client;
	struct notify_server *notify_server;
	struct list node;		/* notify_server->clients */
	struct list subscriptions;	/* in order of time */
	struct list waiting;		/* notify_server->barriers; else empty */
	uint64_t barrier;		/* its ReadyForQuery waits for the answer to this query of the listener */
	struct list due;		/* world->notify_due, while it has notifications to be sent in this turn or the next ones; else empty */
	struct list moving;		/* notify_server->movers, while the listener has not heard its marker; else empty */
	uint32_t move;			/* number of that marker, the last one */
	uint64_t heard_by;		/* the listener has the marker when this query is answered; 0: no marker is sent */
	uint8_t step;			/* enum notify_step */
	struct bytes pending;		/* notifications that wait until its server has nothing to do for it */
};

/* A client and a channel. While it moves, both servers have LISTENed: each notification before the marker is the work server's to tell. */
struct subscription {
	struct list of_channel, of_client;
	struct channel *channel;
	struct notify_client *notify_client;
	bool from_server;		/* the client's own server tells: up to the marker there */
	bool from_listener;		/* the listener tells: from the marker on there */
	uint32_t move;			/* number of the marker that the listener has not heard yet; 0: none */
	bool is_there;			/* the server has named it in its last answer */
};

/* The body of a NotificationResponse: the process id, the channel and the payload, which lie in the frame. */
struct notification { uint32_t pid; const char *channel, *payload; };
#define NOTIFICATION_HEAD 4		/* bytes of it before the channel */
/* Reads a complete frame. False: it is malformed. */
bool notification_read(const struct pg_frame *frame, struct notification *notification);

/* The client's server has answered which channels it listens to (answer->channels); these are all that the client has where is_exact. False: no memory;
   the client has ended. */
bool notify_client_learn(struct client *client, const struct session_answer *answer, bool is_exact);
/* The listener tells it something, or will. */
bool notify_client_is_told(const struct notify_client *notify);
/* A message for the client, with this process id in place of its own: notify_clients_flush sends it, or it waits until the client may have it. */
void notify_client_deliver(struct notify_client *notify, const uint8_t *message, size_t size, uint32_t pid);
/* Once a turn: sends delivered notifications, to a bounded number of clients; the others follow in the next turns. */
void notify_clients_flush(struct world *world);
/* Whether a listener may deliver more in this turn. False: its input waits for a later turn, and its socket is not read. */
static inline bool notify_clients_have_share(const struct world *w) { return w->deliveries < NOTIFY_DELIVERIES && !w->notify_waits; }
/* Sends the client its waiting notifications: between two messages, outside of transactions. */
void notify_client_flush(struct client *client);
/* The same, if that is so now. */
void notify_client_flush_if_idle(struct client *client);
/* A NotificationResponse has come from the client's own server. False: the listener tells it the client, or it is the marker. */
bool notify_client_passes(struct client *client, const struct pg_frame *frame);
extern const struct server_task task_mark, task_unlisten, task_hear, task_relisten;

/* The client, which listens, and its server are at the end of a link, with nothing in doubt: takes the next step. */
enum notify_move {
	NOTIFY_MOVE_NONE,		/* no step is necessary or possible */
	NOTIFY_MOVE_SERVER,		/* the server is to become the listener: notify_server_begin() */
	NOTIFY_MOVE_CHANNELS		/* the client keeps the server until the step is over */
};
enum notify_move notify_client_move(struct server *server, struct client *client);
/* The ReadyForQuery of the client has arrived, and everything before it was sent. Notifications come before it. True: it is withheld until the
   listener has answered (task_hear), and the client gets POST_READY then. */
bool notify_client_holds_ready(struct server *server, struct client *client);
/* POST_READY: sends the notifications and the ReadyForQuery. */
void notify_client_send_ready(struct server *server, struct client *client);
/* The server has LISTENed to all channels of the client that the listener tells: it must UNLISTEN at the end of the link. */
void notify_client_note_channels(struct server *server, struct client *client);
/* The next message of the client may UNLISTEN or begin a transaction: the server LISTENs to the client's channels before. */
void notify_client_relisten(struct server *server, struct client *client);
/* Appends LISTEN for all channels that the listener tells this client. */
void notify_client_sql(const struct notify_client *notify, struct bytes *sql);
/* The client ends, or listens to nothing any more. */
void notify_client_forget(struct client *client);
/* After a hand-over: the client listens to this channel. False: no memory, or it does already. */
bool notify_client_restore(struct client *client, const char *channel, bool from_server, bool from_listener);

#endif
