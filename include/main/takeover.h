#ifndef MAIN_TAKEOVER_H
#define MAIN_TAKEOVER_H

#include "handover/handover.h"
#include "main/pidfile.h"
#include "net/socket_file.h"

#include <sys/un.h>

/*
 * Online restart (-R): the conversation between the process that runs and the one that takes its place. See takeover_give.c and
 * takeover_take.c for its two sides; takeover_socket.c for the socket; handover/handover.h for what is handed over.
 *
 *	new                                old
 *	                                   HELLO
 *	HELLO
 *	TAKE                               ... logins and cancel requests under way end, or a second passes
 *	                                   NOTIFY, PIDFILE, WORLD ... END
 *	READY
 *	                                   GO
 *
 * The old process may answer with a REFUSAL instead of HELLO, NOTIFY or GO, and goes on as if nothing had been; so it does when
 * the connection ends before GO. What comes after GO is in cancel/predecessors.c.
 */

/* ---- the socket between them ---- */

/* On which a running process is asked. */
struct takeover_socket {
	int fd;				/* -1: none */
	struct socket_file file;
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];	/* "": abstract */
};
enum taker_found { TAKER_FOUND, TAKER_NOBODY, TAKER_REFUSED };

/* Listens, beside the pidfile, else beside the Unix socket for clients; the descriptor does not block. False, with a text. */
bool takeover_listen(struct takeover_socket *to, const struct settings *settings, char *why, size_t why_size);
/* Removes the file, if it is still ours, and closes. Sets fd to -1; nothing happens when it is. */
void takeover_unlisten(struct takeover_socket *to);
/* Connects to the process that listens there, *fd being the caller's then; it does not block. NOBODY: no process does;
   REFUSED: there is one that accepts no connection for some seconds, or the settings name no place; both with a text. */
enum taker_found takeover_connect(const struct settings *settings, int *fd, char *why, size_t why_size);

/* ---- greeting ---- */

/* HELLO, as both sides say it. */
bool takeover_say_hello(struct records *records, int patience);
/* Reads the other side's. False: it is of another version; `why` says which. */
bool takeover_read_hello(const struct record *record, char *why, size_t why_size);
/* The process and user at the other end are of our own. */
bool takeover_is_our_user(int fd, int32_t *pid);

/* ---- the side that is asked ---- */

struct giver;

/* Listens for a process that wants to take this one's place. NULL: it cannot, and the log says why; nothing else is hurt. The
   pidfile's owner stays the caller, but it goes (*pidfile is NULL then) with everything else. *due is set to true when giver_turn
   has something to do that need not wait for the next tick. */
struct giver *giver_open(struct event_base *base, struct world *world, struct pidfile **pidfile, bool *due);
/* In a turn, when nothing else is on the stack, about ten times a second: gives, when that has been asked for and it is time. NULL
   is fine. */
void giver_turn(struct giver *giver);
/* Sets *giver to NULL; NULL inside is fine. */
void giver_close(struct giver **giver);

/* ---- the side that asks ---- */

struct taker;

/* Looks for the running process, and makes sure that it is one that can be talked to. NOBODY: there is none; REFUSED: there
   is, but it will not do; both say why. Waits for it for some seconds at most. */
enum taker_found taker_find(const struct settings *settings, struct taker **taker, char *why, size_t why_size);
/* Takes everything into the world, which has its console but does not listen yet; the sockets that the configuration names are open
   then. *pidfile is the one of the settings, if they name any. False, with problems: the old process goes on, and here nothing is left.
   With true, all is ours, and the old process has been told. */
bool taker_take(struct taker *taker, struct world *world, struct pidfile **pidfile, struct conf_problems *problems);
void taker_free(struct taker **taker);

#endif
