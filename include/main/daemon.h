#ifndef MAIN_DAEMON_H
#define MAIN_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* ---- limits of the operating system ---- */

/* Raises RLIMIT_NOFILE to at least `count`: the soft limit, and the hard limit if that is permitted; otherwise as far as
   possible. Called before root is given up. */
void limits_need_descriptors(uint64_t count);

/* Logs the limit and the necessary number, and how to raise the limit if it is too low. Called when the log file is open. */
void limits_log(uint64_t count, int64_t max_client_conn);

/* ---- the service manager ---- */

/*
 * Communication with systemd. Without systemd, or without libsystemd at build time, these functions do nothing.
 */

/* The process is ready and listening; also ends a reload that notify_reloading announced. */
void notify_ready(void);
/* A RELOAD begins; notify_ready must follow, also after a failure. */
void notify_reloading(void);
void notify_stopping(void);
/* Returns the notification socket of systemd, or NULL. notify_adopt sets it in a process that replaces another and was not
   started by systemd (NULL: unchanged). */
const char *notify_address(void);
void notify_adopt(const char *address);
/* From now on that process is the main process of the service, and this process sends no more notifications. */
void notify_successor(int pid);
/* Sets the status line of `systemctl status`. */
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Takes the listening stream sockets that systemd opened: at most `max` descriptors, with close-on-exec. Returns their number.
   Other descriptors from systemd are closed with a warning. Called once, before daemon_start, because the sockets belong to the
   process that systemd started. */
size_t notify_listen_fds(int *fds, size_t max);

#endif
