#ifndef MAIN_DAEMON_H
#define MAIN_DAEMON_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Goes into the background: returns in a new process of a session of its own, while the calling process waits for
 * daemon_ready and then exits with status 0, or with 1 when the daemon ends before that. Returns a descriptor for
 * daemon_ready, or -1 with errno when no process can be made (still in the caller). Call it before there are an event
 * base, threads, or descriptors that must not be shared. The working directory stays, because the configuration may
 * name files relative to it.
 */
int daemon_start(void);
/* The daemon is up: lets the waiting process go, and standard output and error lead nowhere from now on (before that,
   what goes wrong is seen by the user that started it). Closes *fd and sets it to -1; does nothing when it is -1 already. */
void daemon_ready(int *fd);

/*
 * Gives up root for the user of that name: groups, group, user. NULL or "" is fine for every user but root, and so is
 * one's own name. False with a text in `why`: no such user, not permitted, or the process would go on as root.
 */
bool daemon_become_user(const char *user, char *why, size_t why_size);
/* False, with a text in `why`: no process can become this user, or it is root. */
bool daemon_may_be_user(const char *user, char *why, size_t why_size);
/* core_dumps: whether the kernel may write the memory of this process to a file, and let its own user look into it. To be called
   again after a change of user, which resets it. A test build lets every process look: its sanitizer has to. */
void daemon_allow_core_dumps(bool allow);

#endif
