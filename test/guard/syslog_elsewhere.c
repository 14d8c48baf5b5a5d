/*
 * Preloaded: a process that connects to /dev/log, which belongs to the machine, gets $SYSLOG_SOCKET instead, where a test plays the
 * daemon. (syslog(3) itself can't be seen this way: it calls the C library's connect from within.)
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

int connect(int fd, const struct sockaddr *to, socklen_t size)
{
	static int (*real)(int fd, const struct sockaddr *to, socklen_t size);
	struct sockaddr_un other = { .sun_family = AF_UNIX };
	const char *path = getenv("SYSLOG_SOCKET");

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "connect");
	if (!path || to->sa_family != AF_UNIX || strcmp(((const struct sockaddr_un *)to)->sun_path, "/dev/log") != 0)
		return real(fd, to, size);
	strncpy(other.sun_path, path, sizeof(other.sun_path) - 1);
	return real(fd, (const struct sockaddr *)&other, sizeof(other));
}
