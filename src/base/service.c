/*
 * The service manager systemd: sd_notify(3) for Type=notify and notify-reload, and sd_listen_fds(3)
 * for socket activation.
 */
#include "base/service.h"

#ifdef HAVE_LIBSYSTEMD
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/log.h"
#endif

void service_notify(const char *format, ...)
{
#ifdef HAVE_LIBSYSTEMD
	char state[256];
	va_list args;

	va_start(args, format);
	vsnprintf(state, sizeof(state), format, args);
	va_end(args);
	sd_notify(0, state);
#else
	(void)format;
#endif
}

size_t service_listen_fds(int *fds, size_t max)
{
	size_t taken = 0;
#ifdef HAVE_LIBSYSTEMD
	/* removes the environment variables, so that no child process uses the sockets */
	int count = sd_listen_fds(1);

	if (count < 0) {
		log_warning("the sockets that systemd passed cannot be taken over: %s",
			    strerror(-count));
		return 0;
	}
	for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; fd++) {
		if (taken < max && sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) > 0) {
			fds[taken++] = fd;
			continue;
		}
		log_warning("descriptor %d that systemd passed is no listening stream socket, or "
			    "one too many: closed",
			    fd);
		close(fd);
	}
#else
	(void)fds, (void)max;
#endif
	return taken;
}
