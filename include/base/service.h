#ifndef BASE_SERVICE_H
#define BASE_SERVICE_H

#include <stddef.h>

/*
 * Communication with systemd. Without systemd, or without libsystemd at build time, these functions
 * do nothing.
 */

/* Environment variable with the address of systemd's notification socket. */
#define SERVICE_NOTIFY_SOCKET "NOTIFY_SOCKET"

/* Sends a state of at most 255 bytes as described in sd_notify(3): "READY=1", "STOPPING=1", ... */
void service_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Takes the listening stream sockets that systemd opened: at most `max` descriptors, with
   close-on-exec. Returns their number. Other descriptors from systemd are closed with a warning.
   Called once, before daemon_start, because the sockets belong to the process that systemd
   started. */
size_t service_listen_fds(int *fds, size_t max);

#endif
