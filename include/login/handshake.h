#ifndef LOGIN_HANDSHAKE_H
#define LOGIN_HANDSHAKE_H

#include "base/clock.h"
#include "verify/queue.h"

#include <stdbool.h>
#include <stddef.h>

struct client;
struct world;

/*
 * TLS handshakes of clients. Each costs pgweir a millisecond or more of CPU time, and the client
 * almost nothing. Therefore one handshake makes one step per turn of the event loop, addresses take
 * turns, and together they take at most half of the time while there is other work. Initialise with
 * zeros and verify_queue_init().
 */
struct handshakes {
	struct verify_queue waiting;	/* struct login, by `handshake` */
	/* a handshake has made a step in this turn, or handshakes wait */
	bool is_busy;
	usec_t next;			/* monotonic: no step before, unless the loop is idle */
	usec_t spent;			/* total time of all handshakes at the last check */
};

/* The hello has arrived; its first `size` bytes have been read already (0: none) and are copied.
   The handshake begins now, or when it is this client's turn. The client may end. */
void handshake_want(struct client *client, const void *hello, size_t size);
/* More input for the handshake has arrived. Returns whether the step may be made now; otherwise the
   client waits for its turn, or has ended. */
bool handshake_request_step(struct client *client);
/* Called once a turn while is_busy, when the loop does not wait for events: makes a step of the
   next handshake. `idle`: this turn had no event. */
void handshakes_turn(struct world *world, bool idle);

#endif
