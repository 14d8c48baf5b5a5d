#ifndef HANDOVER_HANDOVER_H
#define HANDOVER_HANDOVER_H

#include "cancel/predecessors.h"
#include "net/records.h"
#include "pg/startup.h"

/*
 * The handover of a running process's state to a new process: see handover.c. Only between processes with the same
 * HANDOVER_VERSION; main/takeover.h has the conversation around it.
 */
#define HANDOVER_VERSION 33		/* incremented with every change of a record */

/* The record types. Small letters are sent by the new process, capital letters by the old process. */
enum handover_record {
	HANDOVER_HELLO = 'H',		/* both: version, program name, process id */
	HANDOVER_REFUSAL = 'R',		/* text: why the handover is refused */
	HANDOVER_TAKE = 't',		/* request for all records */
	HANDOVER_NOTIFY = 'Y',		/* text: the notification socket of systemd */
	HANDOVER_PIDFILE = 'F',		/* with the locked descriptor of the pidfile; earlier versions: of the file itself */
	HANDOVER_WORLD = 'W',		/* counters, seeds and keys of the process */
	HANDOVER_LISTENER = 'L',	/* with its descriptor */
	HANDOVER_PREDECESSOR = 'E',		/* with the channel to a process that was replaced earlier and still has clients */
	HANDOVER_STATEMENT = 'T',	/* a prepared statement */
	HANDOVER_DATABASE = 'D',
	HANDOVER_POOL = 'P',		/* the following servers and clients belong to this pool */
	HANDOVER_UNAUTHENTICATED = 'N',	/* the following clients have not logged in yet */
	HANDOVER_SERVER = 'S',		/* with its descriptor; followed by its client if it is linked */
	HANDOVER_CLIENT = 'C',		/* with its descriptor */
	HANDOVER_END = 'Z',		/* end of the records, with counts */
	HANDOVER_READY = 'r',		/* all records were received and are valid; whether the new process takes over the pidfile too */
	HANDOVER_GO = 'G',		/* the state belongs to the new process from now on */
	HANDOVER_CANCEL = PREDECESSOR_CANCEL	/* later: a cancel request with its descriptor, for a process that knows its key */
};

struct handover_counts {
	uint32_t listeners, servers, clients;
	uint32_t staying;		/* clients that cannot be handed over */
};

/* ---- the old process ---- */

/* Returns why no handover is possible now, or NULL. */
const char *handover_refusal(const struct world *world);
/* Whether no login or cancel request that cannot be handed over is in progress. */
bool handover_is_calm(const struct world *world);
/* Sends HANDOVER_WORLD to HANDOVER_END. The world does not change; it must not change until handover_done, and it may continue
   if handover_done is not called. False: see records_error. */
bool handover_send(struct world *world, struct records *to, int patience, struct handover_counts *counts);
/* The new process has taken over: closes these connections silently, and serves the remaining clients. Cancel requests
   arrive from `successor`, which is owned from now on. */
void handover_done(struct world *world, struct records **successor);

/* ---- the new process ---- */

struct handover;

/* `world` must be new and not running. NULL: no memory. */
struct handover *handover_begin(struct world *world);
/* Handles a record of handover_send; takes its descriptor. False, with problems: the record cannot be used. Sends nothing to peers. */
bool handover_take(struct handover *handover, const struct record *record, struct conf_problems *problems);
/* Whether HANDOVER_END was received with the right counts. */
bool handover_is_whole(const struct handover *handover);
const struct handover_counts *handover_counted(const struct handover *handover);
/* Aborts: closes everything silently. Sets *handover to NULL; *handover may be NULL. */
void handover_undo(struct handover **handover);
/* Completes the handover: connections that do not fit the configuration end, all others continue. `predecessor` is the channel
   to the old process, owned from now on. Sets *handover to NULL. */
void handover_finish(struct handover **handover, struct records **predecessor);

#endif
