/*
 * A sender to the syslog daemon that never blocks.
 *
 * syslog(3) blocks when the queue of the daemon is full, which would block this single-threaded
 * process: every query would stop while journald is stopped or waits for its disk. Here a line is
 * sent at once or lost, and the caller gets the result.
 *
 * <PRI>Mmm dd hh:mm:ss IDENT[PID]: TEXT
 *
 * This is the format of syslog(3) with LOG_PID, and daemons expect it from local processes: RFC
 * 3164, section 4.1, without the host. PRI is facility | severity, the time is local, the day of
 * the month has a blank instead of a leading zero. A line is one datagram; if the daemon uses a
 * stream (connect fails with EPROTOTYPE), each line ends with a NUL.
 *
 * Invariant: no line follows an incomplete line. The stream is closed if it has accepted only a
 * part of a line.
 *
 * A restarted daemon has a new socket with the same name. The send that fails (ECONNREFUSED, EPIPE,
 * ...) connects again and sends its line. If no daemon listens, the next attempt is made after one
 * second.
 */
#include "base/syslog_socket.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SHORT_LINE 1024		/* every daemon accepts this size: RFC 3164, section 4.1 */
#define PARTS 5

void syslog_socket_close(struct syslog_socket *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	s->next_try = 0;
}

static void lose_connection(struct syslog_socket *s)
{
	close(s->fd);
	s->fd = -1;
}

/* ---- connecting ---- */

static bool connect_as(struct syslog_socket *s, int type)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t size = strlen(s->path);

	if (size >= sizeof(to.sun_path)) {
		errno = ENAMETOOLONG;
		return false;
	}
	memcpy(to.sun_path, s->path, size + 1);
	s->fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->fd < 0)
		return false;
	s->is_stream = type == SOCK_STREAM;
	if (connect(s->fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
		return true;
	/* a successful close(2) preserves errno */
	lose_connection(s);
	return false;
}

/* ---- sending ---- */

/* The member is not const by an oversight in POSIX. */
static struct iovec part_of(const char *text, size_t size)
{
	return (struct iovec){ (void *)(uintptr_t)text, size };
}

static ssize_t send_parts(const struct syslog_socket *s, struct iovec *parts, size_t count)
{
	const struct msghdr message = { .msg_iov = parts, .msg_iovlen = count };
	ssize_t sent;

	do
		sent = sendmsg(s->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	return sent;
}

/* False: the line is lost; or the connection was closed, and the line may be sent over a new
   one. */
static bool transmit(struct syslog_socket *s, struct iovec *parts)
{
	/* a datagram needs no NUL at its end */
	size_t count = s->is_stream ? PARTS : PARTS - 1, size = 0;
	char line[SHORT_LINE];
	struct iovec beginning = { line, 0 };
	ssize_t sent;

	for (size_t i = 0; i < count; i++)
		size += parts[i].iov_len;
	sent = send_parts(s, parts, count);
	if (sent == (ssize_t)size)
		return true;
	if (sent < 0 && errno == EMSGSIZE && !s->is_stream) {
		/* The line is longer than the maximum size of a datagram: send the beginning. */
		for (int i = 0; i < PARTS; i++) {
			size_t room = sizeof(line) - beginning.iov_len;

			size = parts[i].iov_len < room ? parts[i].iov_len : room;
			memcpy(line + beginning.iov_len, parts[i].iov_base, size);
			beginning.iov_len += size;
		}
		if (beginning.iov_len == sizeof(line))
			memset(line + sizeof(line) - 3, '.', 3);
		return send_parts(s, &beginning, 1) > 0;
	}
	if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM))
		return false;
	lose_connection(s);
	/* the daemon does not read its stream, so a new stream would fill up too */
	if (sent >= 0)
		s->next_try = clock_monotonic() + USEC;
	return false;
}

bool syslog_socket_send(struct syslog_socket *s, int priority, const char *ident, const char *text)
{
	/* the names of the months do not depend on the locale */
	static const char months[][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
					  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
	time_t seconds = (time_t)(clock_wall() / USEC);
	struct tm t = { .tm_mday = 1 };
	char head[64], pid[32];
	struct iovec parts[PARTS];
	usec_t now;

	localtime_r(&seconds, &t);
	snprintf(head, sizeof(head), "<%d>%s %2d %02d:%02d:%02d ", priority, months[t.tm_mon % 12],
		 t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec);
	snprintf(pid, sizeof(pid), "[%ld]: ", (long)getpid());
	parts[0] = part_of(head, strlen(head));
	parts[1] = part_of(ident, strlen(ident));
	parts[2] = part_of(pid, strlen(pid));
	parts[3] = part_of(text, strlen(text));
	parts[4] = part_of("", 1);
	if (s->fd >= 0 && transmit(s, parts))
		return true;
	if (s->fd >= 0)
		return false;
	/* Connect to the daemon, at most once a second. */
	now = clock_monotonic();
	if (now < s->next_try)
		return false;
	s->next_try = now + USEC;
	if (!connect_as(s, SOCK_DGRAM) && (errno != EPROTOTYPE || !connect_as(s, SOCK_STREAM)))
		return false;
	if (!transmit(s, parts))
		return false;
	s->next_try = 0;
	return true;
}
