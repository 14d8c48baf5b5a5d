/*
 * The service manager systemd: sd_notify(3) for Type=notify and notify-reload, and sd_listen_fds(3) for socket activation. The notification of a
 * reload contains the time of the monotonic clock, by which systemd distinguishes the ends of two reloads.
 */
#include "base/service.h"

#ifdef HAVE_LIBSYSTEMD
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#endif

#ifdef HAVE_LIBSYSTEMD

void notify_ready(void)
{
	sd_notify(0, "READY=1");
}

void notify_reloading(void)
{
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRId64, clock_monotonic());
}

void notify_stopping(void)
{
	sd_notify(0, "STOPPING=1");
}

const char *notify_address(void)
{
	return getenv("NOTIFY_SOCKET");
}

void notify_adopt(const char *address)
{
	if (address)
		setenv("NOTIFY_SOCKET", address, 1);
}

void notify_successor(int pid)
{
	sd_notifyf(0, "MAINPID=%d", pid);
	unsetenv("NOTIFY_SOCKET");
}

void notify_status(const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	sd_notifyf(0, "STATUS=%s", text);
}

size_t notify_listen_fds(int *fds, size_t max)
{
	/* removes the environment variables, so that no child process uses the sockets */
	int count = sd_listen_fds(1);
	size_t taken = 0;

	if (count < 0) {
		log_warning("the sockets that systemd passed cannot be taken over: %s", strerror(-count));
		return 0;
	}
	for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; fd++) {
		if (taken < max && sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) > 0) {
			fds[taken++] = fd;
			continue;
		}
		log_warning("descriptor %d that systemd passed is no listening stream socket, or one too many: closed", fd);
		close(fd);
	}
	return taken;
}

#else

void notify_ready(void)
{
}

void notify_reloading(void)
{
}

void notify_stopping(void)
{
}

const char *notify_address(void)
{
	return NULL;
}

void notify_adopt(const char *address)
{
	(void)address;
}

void notify_successor(int pid)
{
	(void)pid;
}

void notify_status(const char *format, ...)
{
	(void)format;
}

size_t notify_listen_fds(int *fds, size_t max)
{
	(void)fds;
	(void)max;
	return 0;
}

#endif
