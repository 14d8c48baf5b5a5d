#ifndef HANDOVER_HANDOVER_H
#define HANDOVER_HANDOVER_H

#include "cancel/predecessors.h"
#include "net/records.h"
#include "pg/startup.h"

/*
 * The hand-over of everything a running process has to one that takes its place: see handover.c. Between two processes of the
 * same version of it only; main/takeover.h has the conversation around it.
 */
#define HANDOVER_VERSION 29		/* grows with every change of what a record holds */

/* The records. Small letters go from the new process to the old one. */
enum handover_record {
	HANDOVER_HELLO = 'H',		/* both: version, name of the program, its process id */
	HANDOVER_REFUSAL = 'R',		/* why not: a text */
	HANDOVER_TAKE = 't',		/* give everything */
	HANDOVER_NOTIFY = 'Y',		/* where systemd listens for news: a text */
	HANDOVER_PIDFILE = 'F',		/* with the descriptor that holds its lock; of earlier processes: of the file itself */
	HANDOVER_WORLD = 'W',		/* counters, seeds and keys of the whole process */
	HANDOVER_LISTENER = 'L',	/* with its descriptor */
	HANDOVER_PREDECESSOR = 'E',		/* with the channel to a process that was replaced before, and has clients still */
	HANDOVER_STATEMENT = 'T',	/* a prepared statement */
	HANDOVER_DATABASE = 'D',
	HANDOVER_POOL = 'P',		/* the servers and clients that follow are of this pool */
	HANDOVER_UNAUTHENTICATED = 'N',	/* the clients that follow have not logged in yet */
	HANDOVER_SERVER = 'S',		/* with its descriptor; its client, when it has one, comes next */
	HANDOVER_CLIENT = 'C',		/* with its descriptor */
	HANDOVER_END = 'Z',		/* that was all: how much of each */
	HANDOVER_READY = 'r',		/* all of it is here and sound; whether the pidfile is taken over, too */
	HANDOVER_GO = 'G',		/* it is yours from now on */
	HANDOVER_CANCEL = PREDECESSOR_CANCEL	/* afterwards: a cancel request, with its descriptor, for any process that knows its key */
};

struct handover_counts {
	uint32_t listeners, servers, clients;
	uint32_t staying;		/* clients that cannot be given */
};

/* ---- the giving side ---- */

/* Why nothing can be given now, or NULL. */
const char *handover_refusal(const struct world *world);
/* No login and no cancel request is under way that would have to stay. */
bool handover_is_calm(const struct world *world);
/* Sends all that can be given, HANDOVER_WORLD to HANDOVER_END. The world is as it was, and has to stay so until handover_done,
   or, where that does not come, may go on as if nothing had been. False: records_error says why. */
bool handover_send(struct world *world, struct records *to, int patience, struct handover_counts *counts);
/* The other process has it: ends here, in silence, what was sent, and serves on the clients that stay, with cancel requests coming from
   `successor`, which it owns from now on. */
void handover_done(struct world *world, struct records **successor);

/* ---- the taking side ---- */

struct handover;

/* Into a fresh world that does not turn yet. NULL: no memory. */
struct handover *handover_begin(struct world *world);
/* Takes a record that handover_send has sent; its descriptor is this call's. False, with problems: it cannot be used. No byte is
   sent to any peer. */
bool handover_take(struct handover *handover, const struct record *record, struct conf_problems *problems);
/* True when the END has come, and all was there. */
bool handover_is_whole(const struct handover *handover);
const struct handover_counts *handover_counted(const struct handover *handover);
/* It is not to be: closes everything, in silence. Sets *handover to NULL; NULL inside is fine. */
void handover_undo(struct handover **handover);
/* It is ours: what has no place in this configuration ends, all others go on. `predecessor` is the channel to the process that gave
   it, owned from now on. Sets *handover to NULL. */
void handover_finish(struct handover **handover, struct records **predecessor);

#endif
