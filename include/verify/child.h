#ifndef VERIFY_CHILD_H
#define VERIFY_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * The process of a verifier, which asks PAM and LDAP or derives keys: a new execution of this
 * program with VERIFY_CHILD_OPTION and the process id of pgweir as arguments, and the socket to
 * pgweir as standard input.
 */
#define VERIFY_CHILD_OPTION "--verifier"

/* If this is the command line of a verifier, answers questions until pgweir closes the socket, and
   ends the process. False: it is not. */
bool verify_child_run(int argc, char **argv);

/* ---- pgweir's side ---- */

/* Starts a verifier, which inherits only standard error. Returns its process id, which is also its
   process group. *fd is this side of the socket: sequenced datagrams, non-blocking, close-on-exec,
   owned by the caller. -1 with errno. */
pid_t verify_process_start(int *fd);
/* Kills the verifier and the processes of its group (programs of pam_exec leave it). The verifier
   must be reaped afterwards. */
void verify_process_kill(pid_t pid);
/* Whether the verifier has ended and was reaped: `pid` is invalid then. *status is from waitpid; -1
   if other code has reaped it. */
bool verify_process_reap(pid_t pid, int *status);

#endif
