#ifndef HANDOVER_HANDOVER_H
#define HANDOVER_HANDOVER_H

#include "cancel/predecessors.h"
#include "base/pidfile.h"
#include "conn/takeover_socket.h"
#include "net/records.h"
#include "pg/startup.h"


/*
 * The handover of a running process's state to a new process: see handover.c. Only between
 * processes with the same HANDOVER_VERSION. The records come first, then the conversation around
 * them.
 */
#define HANDOVER_VERSION 49		/* incremented with every change of a record */

/* The record types. Small letters are sent by the new process, capital letters by the old
   process. */
enum handover_record {
	HANDOVER_HELLO = 'H',		/* both: version, program name, process id */
	HANDOVER_REFUSAL = 'R',		/* text: why the handover is refused */
	HANDOVER_TAKE = 't',		/* request for all records */
	HANDOVER_NOTIFY = 'Y',		/* text: the notification socket of systemd */
	/* with the locked descriptor of the pidfile; earlier versions: of the file itself */
	HANDOVER_PIDFILE = 'F',
	HANDOVER_WORLD = 'W',		/* counters, seeds and keys of the process */
	HANDOVER_LISTEN_SOCKET = 'L',	/* with its descriptor */
	/* with the channel to an earlier process, which was replaced and still has clients */
	HANDOVER_PREDECESSOR = 'E',
	HANDOVER_STATEMENT = 'T',	/* a prepared statement */
	HANDOVER_DATABASE = 'D',
	HANDOVER_POOL = 'P',		/* the following servers and clients belong to this pool */
	HANDOVER_UNAUTHENTICATED = 'N',	/* the following clients have not logged in yet */
	/* with its descriptor; followed by its client if it is linked */
	HANDOVER_SERVER = 'S',
	HANDOVER_CLIENT = 'C',		/* with its descriptor */
	HANDOVER_END = 'Z',		/* end of the records, with counts */
	/* all records were received and are valid; whether the new process takes over the pidfile
	   too */
	HANDOVER_READY = 'r',
	HANDOVER_GO = 'G',		/* the state belongs to the new process from now on */
	/* later: a cancel request with its descriptor, for the process with its key */
	HANDOVER_CANCEL = PREDECESSOR_CANCEL
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
/* Sends HANDOVER_WORLD to HANDOVER_END. The world does not change; it must not change until
   handover_done, and it may continue if handover_done is not called. False: see records->error. */
bool handover_send(struct world *world, struct records *to, int patience,
		   struct handover_counts *counts);
/* The new process has taken over: closes these connections silently, and serves the remaining
   clients. Cancel requests arrive from `successor`, which is owned from now on. */
void handover_done(struct world *world, struct records **successor);

/* ---- the new process ---- */

struct handover;

/* `world` must be new and not running. NULL: no memory. */
struct handover *handover_begin(struct world *world);
/* Handles a record of handover_send; takes its descriptor. False, with problems: the record cannot
   be used. Sends nothing to peers. */
bool handover_take(struct handover *handover, const struct record *record,
		   struct conf_problems *problems);
/* Aborts: closes everything silently. Sets *handover to NULL; *handover may be NULL. */
void handover_undo(struct handover **handover);
/* Completes the handover: connections that do not fit the configuration end, all others continue.
   `predecessor` is the channel to the old process, owned from now on. Sets *handover to NULL. */
void handover_finish(struct handover **handover, struct records **predecessor);

/*
 * Online restart (-R): the conversation between the running process and the process that replaces
 * it (handover_conversation.c).
 */

/* ---- the side of the old process ---- */

struct giver;

/* Listens for the process that will replace this one. NULL: not possible; the log has the reason,
   and nothing else is affected. The caller owns the pidfile until it is handed over (*pidfile is
   then NULL). *due is set to true when giver_turn should be called before the next tick. */
struct giver *giver_open(struct event_base *base, struct world *world, struct pidfile **pidfile,
			 bool *due);
/* Called about ten times a second without anything else on the stack: hands over, if this was
   requested and is possible now. NULL is allowed. */
void giver_turn(struct giver *giver);
/* Sets *giver to NULL; *giver may be NULL. */
void giver_close(struct giver **giver);

/* ---- the side of the new process ---- */

struct taker;

/* Finds the running process and checks that it has the same handover version. TAKER_NOBODY: no
   running process; TAKER_REFUSED: a handover is not possible, or the settings name no place for the
   socket; both with a text. Waits for some seconds at most. */
enum taker_found taker_find(const struct settings *settings, struct taker **taker, char *why,
			    size_t why_size);
/* Takes everything into the world, which has its console but does not listen yet; then also opens
   the sockets of the configuration. *pidfile is set if the settings name one. True: the handover is
   complete, and the old process knows. False, with problems: the old process continues, and nothing
   is left here. */
bool taker_take(struct taker *taker, struct world *world, struct pidfile **pidfile,
		struct conf_problems *problems);
void taker_free(struct taker **taker);

#endif
