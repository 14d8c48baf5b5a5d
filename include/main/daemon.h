#ifndef MAIN_DAEMON_H
#define MAIN_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Goes into the background: returns in a new process with a session of its own, while the calling
 * process waits for daemon_ready and then exits with status 0, or with 1 if the daemon ends before.
 * Returns a descriptor for daemon_ready, or -1 with errno, still in the caller, if no process can
 * be created. Must be called before an event base, threads or unshared descriptors exist. The
 * working directory does not change, because the configuration may contain relative paths.
 */
int daemon_start(void);
/* The daemon is ready: ends the waiting process, and redirects standard output and error to
   /dev/null (until then errors are visible on the terminal). Closes *fd and sets it to -1; does
   nothing if it is -1. */
void daemon_ready(int *fd);

/*
 * Switches from root to the user of that name: groups, group, user. For users other than root,
 * NULL, "" and their own name are allowed and change nothing. Otherwise than with
 * DAEMON_USER_TAKEN, `why` has a text.
 */
enum daemon_user {
	DAEMON_USER_TAKEN,
	/* not permitted, or the process would continue to run as root */
	DAEMON_USER_REFUSED,
	/* no process can take it: the account does not exist, or it is root */
	DAEMON_USER_UNUSABLE
};
enum daemon_user daemon_become_user(const char *user, char *why, size_t why_size);

/* ---- limits of the operating system ---- */

/* Raises RLIMIT_NOFILE to at least `count`: the soft limit, and the hard limit if that is
   permitted; otherwise as far as possible. Called before root is given up. */
void limits_need_descriptors(uint64_t count);

/* Logs the limit and the necessary number, and how to raise the limit if it is too low. Called when
   the log file is open. */
void limits_log(uint64_t count, int64_t max_client_conn);

#endif
