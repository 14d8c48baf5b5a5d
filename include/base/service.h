#ifndef BASE_SERVICE_H
#define BASE_SERVICE_H

#include <stddef.h>

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
