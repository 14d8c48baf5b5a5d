#ifndef SIM_MACHINE_H
#define SIM_MACHINE_H

#include "base/bytes.h"
#include "base/clock.h"

#include <event2/event.h>
#include <netinet/in.h>

/*
 * The machine of the simulated pooler: a clock that advances only between events (loop.c), and a network in memory (wire.c). The pooler is real down
 * to its system calls and to libevent's functions, which these two files replace at link time.
 *
 * The other ends are actors: clients, servers, an operator. An actor acts at its scheduled moment, or some time after an event on one of its wires.
 */

/* ---- time and actors (loop.c) ---- */

struct actor {
	usec_t moment;			/* when it acts next; valid while place >= 0 */
	int place;			/* index in the heap of scheduled actors; -1: not scheduled */
	usec_t slowness;		/* most time between an event on its wire and its noticing */
	void (*act)(struct actor *actor);
};

void actor_init(struct actor *actor, void (*act)(struct actor *actor), usec_t slowness);
/* The actor acts at this moment, or earlier if it was already scheduled earlier. */
void actor_at(struct actor *actor, usec_t moment);
/* An event happened on the actor's wire: it acts within its slowness. */
void actor_notice(struct actor *actor);
/* The actor is not scheduled until the next call. */
void actor_rest(struct actor *actor);

/* Begins a world: time, no actors, no events. `lateness`: most time that a timer may come late while nothing else happens. */
void loop_begin(usec_t lateness);
usec_t loop_now(void);
/* Turns of the pooler's loop so far. */
uint64_t loop_turns(void);
/* Records progress: a byte went over a wire, or an actor acted. A loop that runs on without progress is a bug. */
void loop_progress(void);
/* Ends it. False: events are left. */
bool loop_end(void);

/* ---- the network (wire.c) ---- */

/* The far end of a connection. */
struct wire;

/* The result of a connection attempt. */
enum reception { RECEPTION_ACCEPTED, RECEPTION_REFUSED, RECEPTION_SILENCE };
/*
 * The servers' callbacks: `asked` when the pooler begins to connect, `connected` when the connection is established (the actor then owns the wire).
 */
struct wire_hosts {
	enum reception (*asked)(const struct sockaddr_in *address, usec_t *delay);
	struct actor *(*connected)(const struct sockaddr_in *address, struct wire *wire);	/* NULL: refuse after all */
	void (*sent)(struct actor *actor, const void *data, size_t size);	/* the pooler has sent these bytes */
};
void wire_begin(const struct wire_hosts *hosts);
/* False: descriptors are left open. */
bool wire_end(void);

/* A client connects, from 127.0.0.1 + `address`. NULL: nothing listens. */
struct wire *wire_call(struct actor *actor, int address, uint16_t port);
/* A wire within the machine, on which the network's faults do not happen and each message comes as a whole: the pooler's end is returned as
   a descriptor, the actor's in *wire. */
int wire_pair(struct actor *actor, struct wire **wire);
/* Puts bytes on the wire. How many: it may be full. */
size_t wire_put(struct wire *wire, const void *data, size_t size);
/* Returns the unread bytes. Valid until the next call. */
const uint8_t *wire_come(const struct wire *wire, size_t *size);
void wire_take(struct wire *wire, size_t size);
/* Nothing more will come than has come: the pooler has closed it, or its writing half. */
bool wire_has_ended(const struct wire *wire);
/* The pooler has closed it. */
bool wire_is_gone(const struct wire *wire);
/* The actor says no more, but still listens. */
void wire_hush(struct wire *wire);
/* The actor has gone. `reset`: bytes in transit in both directions are lost. Sets *wire to NULL; NULL is allowed. */
void wire_close(struct wire **wire, bool reset);
/* The most that waits unread for the pooler (to_pooler) or the actor on this wire. */
void wire_set_room(struct wire *wire, size_t to_pooler, size_t to_actor);
/* Returns true if the wire to the actor was ever full: bytes that the pooler could not write before it closed are lost. */
bool wire_was_full(const struct wire *wire);

/* Faults of the network, one in this number of calls; 0: never. */
struct wire_faults {
	uint32_t cut;			/* recv and send take less than there is */
	uint32_t again;			/* recv says EAGAIN though there is something, send though there is room */
	uint32_t interrupted;		/* EINTR */
};
extern struct wire_faults wire_faults;
extern uint64_t wire_faults_played;
/* For the end of a world: the pooler's ends that are open. */
int wire_open_ends(void);

/* For loop.c: returns the events among `want` for which this descriptor is ready. */
short wire_ready(int fd, short want);
/* Tells loop.c that this descriptor may be ready now. */
void loop_may_be_ready(int fd);
/* Clients that have connected are handed to the pooler (rooms.c). */
bool listeners_accept(void);
int wire_accept(uint16_t port, struct sockaddr_in *peer);	/* a descriptor, or -1: no connection waits */

#endif
