#ifndef MAIN_TAKEOVER_H
#define MAIN_TAKEOVER_H

#include "handover/handover.h"
#include "main/pidfile.h"
#include "net/listen.h"

#include <sys/un.h>

/*
 * Online restart (-R): the conversation between the running process and the process that replaces it. Its two sides are in
 * takeover_give.c and takeover_take.c, the socket and HELLO are in takeover.c, and handover/handover.h has the records.
 *
 * new                       old
 * HELLO
 *                           HELLO
 * TAKE                      ... logins and cancel requests in progress end, or a second passes
 *                           NOTIFY, PIDFILE, WORLD ... END
 * READY
 *                           GO
 *
 * Instead of HELLO, NOTIFY or GO, the old process may send a REFUSAL and continue to run; it also continues if the connection
 * ends before GO. The conversation after GO is in cancel/predecessors.c.
 */

/* ---- the socket ---- */

/* The socket of the running process. */
struct takeover_socket {
	int fd;				/* -1: not open */
	struct socket_file file;
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];	/* "": an abstract socket */
};
enum taker_found { TAKER_FOUND, TAKER_NOBODY, TAKER_REFUSED };

/* Listens on a socket beside the pidfile, or else beside the Unix socket for clients; the descriptor is non-blocking. False
   with a text. */
bool takeover_listen(struct takeover_socket *to, const struct settings *settings, char *why, size_t why_size);
/* Removes the file, if this process created it, and closes the socket. Sets fd to -1; does nothing if it is -1. */
void takeover_unlisten(struct takeover_socket *to);
/* Connects to the running process; the caller owns *fd, which is non-blocking. TAKER_NOBODY: no process listens; TAKER_REFUSED: a process
   accepted no connection for some seconds, or the settings name no place; both with a text. */
enum taker_found takeover_connect(const struct settings *settings, int *fd, char *why, size_t why_size);

/* ---- greeting ---- */

/* Sends HELLO; both sides do. */
bool takeover_say_hello(struct records *records, int patience);
/* Checks the HELLO of the other side. False: another version; `why` says which. */
bool takeover_read_hello(const struct record *record, char *why, size_t why_size);
/* Whether the peer's user is the user of this process. */
bool takeover_check_user(int fd, int32_t *pid);

/* ---- the old process ---- */

struct giver;

/* Listens for a process that wants to replace this one. NULL: not possible; the log has the reason, and nothing else is
   affected. The caller owns the pidfile until it is handed over (*pidfile is then NULL). *due is set to true when giver_turn
   should be called before the next tick. */
struct giver *giver_open(struct event_base *base, struct world *world, struct pidfile **pidfile, bool *due);
/* Called about ten times a second without anything else on the stack: hands over, if this was requested and is possible now.
   NULL is allowed. */
void giver_turn(struct giver *giver);
/* Sets *giver to NULL; *giver may be NULL. */
void giver_close(struct giver **giver);

/* ---- the new process ---- */

struct taker;

/* Finds the running process and checks that it has the same handover version. TAKER_NOBODY: no running process; TAKER_REFUSED: a handover
   is not possible; both with a text. Waits for some seconds at most. */
enum taker_found taker_find(const struct settings *settings, struct taker **taker, char *why, size_t why_size);
/* Takes everything into the world, which has its console but does not listen yet; then also opens the sockets of the
   configuration. *pidfile is set if the settings name one. True: the handover is complete, and the old process knows. False,
   with problems: the old process continues, and nothing is left here. */
bool taker_take(struct taker *taker, struct world *world, struct pidfile **pidfile, struct conf_problems *problems);
void taker_free(struct taker **taker);

#endif
