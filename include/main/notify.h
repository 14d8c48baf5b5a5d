#ifndef MAIN_NOTIFY_H
#define MAIN_NOTIFY_H

#include <stddef.h>

/*
 * What systemd is told, and what it hands over. Outside of it, or built without libsystemd, all of this does nothing.
 */

/* Up and listening; also the end of what notify_reloading began. */
void notify_ready(void);
/* A RELOAD begins; notify_ready must follow, however it goes. */
void notify_reloading(void);
void notify_stopping(void);
/* Where systemd listens for news of this process, or NULL; and the other end of that, in a process that takes its place and was not
   started by systemd itself (NULL: nothing changes). */
const char *notify_address(void);
void notify_adopt(const char *address);
/* From now on that process is the service, and this one has nothing more to say. */
void notify_successor(int pid);
/* One line for `systemctl status`. */
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The listening stream sockets that systemd opened for us: at most `max` descriptors go to `fds`, made close-on-exec;
   returns how many. Any other descriptor it passed is closed, with a warning. To be called once, before
   daemon_start: they are meant for the process that systemd started. */
size_t notify_listen_fds(int *fds, size_t max);

#endif
