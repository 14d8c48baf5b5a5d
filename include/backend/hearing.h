#ifndef BACKEND_HEARING_H
#define BACKEND_HEARING_H

#include "backend/listener.h"
#include "pg/frame.h"

/*
 * A client that LISTENs, with session_state = full: see hearing.c, and listener.h for its listener.
 */
struct session_answer;

/* So many notifications are delivered to clients in one turn; a long one counts as several. With the calls that send them that takes about 0.3 ms. */
#define HEARING_DELIVERIES 2048

/* What is to be done for it. */
enum hearing_step {
	HEARING_RESTS,			/* nothing; or nothing that can be done */
	HEARING_WAITS,			/* the listener is to LISTEN to its channels */
	HEARING_MARKS,			/* the marker is to be sent by its server, or is under way */
	HEARING_LEAVES			/* its server is to UNLISTEN */
};

struct hearing {
	struct client *client;
	struct listener *listener;
	struct list node;		/* listener->hearings */
	struct list subscriptions;	/* in order of time */
	struct list waiting;		/* listener->barriers; else empty */
	uint64_t barrier;		/* waits for this query of the listener's, before its ReadyForQuery */
	struct list due;		/* world->hearers, while it has notifications to be sent in this turn or the next ones; else empty */
	struct list moving;		/* listener->movers, while the listener has not heard its marker; else empty */
	uint32_t move;			/* number of that marker, the last one */
	uint64_t heard_by;		/* this query of the listener's is answered after the marker; 0: it is not under way */
	uint8_t step;			/* enum hearing_step */
	struct bytes pending;		/* notifications that wait for the end of what its server does for it */
};

/* A client and a channel. While it moves, both servers have LISTENed: each notification before the marker is the work server's to tell. */
struct subscription {
	struct list of_channel, of_client;
	struct channel *channel;
	struct hearing *hearing;
	bool from_server;		/* the client's own server tells: up to the marker there */
	bool from_listener;		/* the listener tells: from the marker on there */
	uint32_t move;			/* number of the marker that the listener has not heard yet; 0: none */
	bool is_there;			/* the server has named it in its last answer */
};

/* The body of a NotificationResponse: the process id, the channel and the payload, which lie in the frame. */
struct notification { uint32_t pid; const char *channel, *payload; };
#define NOTIFICATION_HEAD 4		/* bytes of it before the channel */
/* Of a frame that is here as a whole. False: it cannot be one. */
bool notification_read(const struct pg_frame *frame, struct notification *notification);

/* The client's server has answered which channels it listens to (answer->channels); these are all that the client has where is_exact. False: no memory;
   the client has ended. */
bool hearing_learn(struct client *client, const struct session_answer *answer, bool is_exact);
/* Whether the listener has LISTENed to all of its channels. */
bool hearing_is_ready(const struct hearing *hearing);
/* A marker for the channels that its server tells. Its number. */
uint32_t hearing_move(struct hearing *hearing);
/* The client's server has sent that: with the listener's next answer it has come there. */
void hearing_expects_marker(struct hearing *hearing);
/* The listener tells it something, or will. */
bool hearing_is_told(const struct hearing *hearing);
/* A message for the client, with this process id in place of its own: hearings_flush sends it, or it waits until the client may have it. */
void hearing_deliver(struct hearing *hearing, const uint8_t *message, size_t size, uint32_t pid);
/* Once a turn: sends what was delivered, to a bounded number of clients; the others come in the next turn. */
void hearings_flush(struct world *world);
/* A listener may deliver more in this turn. False: what it has received waits for a later turn, and its socket is not read. */
static inline bool hearings_have_share(const struct world *w) { return w->deliveries < HEARING_DELIVERIES && !w->hearers_wait; }
/* Gives the client what waits for it: between two messages, outside of transactions. */
void hearing_flush(struct client *client);
/* The same, if that is so now. */
void hearing_flush_if_idle(struct client *client);
/* A NotificationResponse has come from the client's own server. False: the listener tells it the client, or it is the marker. */
bool hearing_passes(struct client *client, const struct pg_frame *frame);
/* What the client is to get before its ReadyForQuery waits for the listener's next query. False: there is no listener. */
bool hearing_barrier(struct hearing *hearing);
/* LISTEN to all channels that the listener tells this client. */
void hearing_sql(const struct hearing *hearing, struct bytes *sql);
/* The client ends, or listens to nothing any more. */
void hearing_forget(struct client *client);
/* After a hand-over: the client listens to this channel. False: no memory, or it does already. */
bool hearing_restore(struct client *client, const char *channel, bool from_server, bool from_listener);

#endif
