#ifndef VERIFY_PROCESS_H
#define VERIFY_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * The process of a verifier, from the outside.
 */

/* Starts one (see child.h), with nothing of ours open but standard error. Returns its process id, which is also the id of its
   process group, and in *fd our end of the socket: of datagrams that keep their order, non-blocking, close-on-exec, the caller's.
   -1 with errno. */
pid_t verify_process_start(int *fd);
/* Ends it now, with what its modules have started, unless that has left its process group (pam_exec's programs do). It is to be
   reaped afterwards. */
void verify_process_kill(pid_t pid);
/* True when it has ended and is reaped: `pid` means nothing any more. *status is as of waitpid; -1 when other code has reaped it. */
bool verify_process_reap(pid_t pid, int *status);

#endif
