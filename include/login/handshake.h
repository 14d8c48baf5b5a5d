#ifndef LOGIN_HANDSHAKE_H
#define LOGIN_HANDSHAKE_H

#include "base/clock.h"
#include "verify/queue.h"

#include <stdbool.h>
#include <stddef.h>

struct client;
struct world;

/*
 * TLS handshakes with clients, which cost a processor a millisecond or more each and the client next to nothing: one makes a step in a
 * turn of the loop, addresses take turns, and together they take at most half of the time while there is other work.
 */
struct handshakes {
	struct verify_queue waiting;	/* struct login, by `handshake` */
	bool is_busy;			/* one has made a step in this turn, or some wait */
	usec_t next;			/* monotonic: not before, unless there is nothing else to do */
	usec_t spent;			/* by all handshakes, when last looked at */
};
/* NULL: no memory. */
struct handshakes *handshakes_new(void);

/* The client has been promised TLS ('S'): its next bytes, which are not read before, are its hello. */
void handshake_expect(struct client *client);
/* Its hello is here: `size` bytes of it have been read already (0: none), and are copied. The handshake begins now, or when it is
   this client's turn. The client may end. */
void handshake_want(struct client *client, const void *hello, size_t size);
/* It goes on: more of it has come. False: it waits for its turn, or the client has ended. */
bool handshake_may_step(struct client *client);
/* The login ends, however. */
void handshake_forget(struct client *client);
/* Once a turn while is_busy, when the loop must not wait for events: the next one makes its step. `idle`: this turn had no event. */
void handshakes_turn(struct world *world, bool idle);

#endif
