#ifndef MAIN_DAEMON_H
#define MAIN_DAEMON_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Goes into the background: returns in a new process with a session of its own, while the calling process waits for
 * daemon_ready and then exits with status 0, or with 1 if the daemon ends before. Returns a descriptor for daemon_ready, or -1
 * with errno, still in the caller, if no process can be created. Must be called before an event base, threads or unshared
 * descriptors exist. The working directory does not change, because the configuration may contain relative paths.
 */
int daemon_start(void);
/* The daemon is ready: ends the waiting process, and redirects standard output and error to /dev/null (until then errors are
   visible on the terminal). Closes *fd and sets it to -1; does nothing if it is -1. */
void daemon_ready(int *fd);

/*
 * Switches from root to the user of that name: groups, group, user. For users other than root, NULL, "" and their own name are
 * allowed and change nothing. False with a text in `why`: unknown user, not permitted, or the process would continue to run as
 * root.
 */
bool daemon_become_user(const char *user, char *why, size_t why_size);
/* Whether a process can become this user, and it is not root. False with a text in `why`. */
bool daemon_check_user(const char *user, char *why, size_t why_size);
/* core_dumps: whether the kernel may write a core file of this process, and other processes of its user may trace it. Must be
   called again after a change of user, which resets this. Test builds always allow tracing, for the sanitizer. */
void daemon_allow_core_dumps(bool allow);

#endif
