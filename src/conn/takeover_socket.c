/*
 * The socket by which the two processes of an online restart find each other
 * (handover/handover_conversation.c).
 *
 * The name is derived from the file by which the two processes find each other: PIDFILE.takeover,
 * or, without a pidfile, .s.PGSQL.PORT.takeover in unix_socket_dir. Its mode is 0600: the kernel
 * lets no other user connect, and a user without write access to the directory cannot occupy the
 * name. With an abstract socket, another user could fill its queue, flood the log by connecting, or
 * bind the name first, and prevent online restarts.
 *
 * Only if unix_socket_dir names an abstract socket and there is no pidfile, there is no directory,
 * and this socket is abstract too. Then every user can connect: the handover closes and counts
 * connections of other users.
 *
 * Earlier versions listened on an abstract socket named after device and inode of the pidfile, or
 * of the Unix socket. The new process tries that name too, so it can replace such a process; if
 * another user listens there, it is ignored. This version does not listen there: an earlier version
 * that is started with -R finds no process, starts normally, and is refused by the pidfile.
 */
#include "conn/takeover_socket.h"

#include "conf/settings.h"
#include "net/address.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKLOG 128
#define CONNECT_SECONDS 5		/* for a full queue */
#define PATH_MOST 256

/* Writes the file by which the socket is found, or "@..." for an abstract socket. False with a
   text: the settings name none. */
static bool takeover_file_of(const struct settings *s, char *path, size_t size, char *why,
			     size_t why_size)
{
	int length;

	if (s->pidfile && *s->pidfile) {
		length = snprintf(path, size, "%s", s->pidfile);
	} else if (s->unix_socket_dir && *s->unix_socket_dir) {
		length = snprintf(path, size, "%s/.s.PGSQL.%u", s->unix_socket_dir,
				  (unsigned)s->listen_port);
	} else {
		snprintf(why, why_size, "neither pidfile nor unix_socket_dir is set");
		return false;
	}
	if (length >= 0 && (size_t)length < size)
		return true;
	snprintf(why, why_size, "the path of the pidfile or the Unix socket is too long");
	return false;
}

#define ABSTRACT "@pgweir-takeover/"

/* Writes the name of the socket that is found by this file, with "@" for an abstract one. False
   with a text: the name is too long. */
static bool takeover_name_of(char *name, const char *file, char *why, size_t why_size)
{
	bool is_abstract = file[0] == '@';
	int length = snprintf(name, PATH_MOST, is_abstract ? ABSTRACT "%s" : "%s.takeover",
			      file + is_abstract);
	struct address a;

	if (length >= 0 && length < PATH_MOST && address_from_unix_name(&a, name))
		return true;
	snprintf(why, why_size, "\"%.200s.takeover\" is too long for the name of a Unix socket",
		 file);
	return false;
}

bool takeover_check_user(int fd, int32_t *pid)
{
	uint32_t uid;

	return address_unix_peer(fd, pid, &uid) && uid == geteuid();
}

/* ---- listening ---- */

struct listen_socket *takeover_socket_open(struct event_base *base, const struct settings *settings,
					   listen_accept *accept, void *context, char *why,
					   size_t why_size)
{
	char file[PATH_MOST], name[PATH_MOST];
	struct listen_config config = { .host = name,
					.is_whole_name = true,
					.backlog = BACKLOG,
					.uses_reserve = true,
					.unix_mode = 0600 };

	if (!takeover_file_of(settings, file, sizeof(file), why, why_size) ||
	    !takeover_name_of(name, file, why, why_size))
		return NULL;
	/* sockets from systemd may be elsewhere */
	if (!(settings->pidfile && *settings->pidfile) && *file != '@' && access(file, F_OK) != 0) {
		snprintf(why, why_size, "\"%s\": %s", file, strerror(errno));
		return NULL;
	}
	return listen_socket_open(base, &config, accept, context, why, why_size);
}

/* ---- connecting ---- */

/* Connects to the socket with this name, which must fit. -1 with errno. `flags` 0: while the queue
   is full, the kernel lets this connection wait, first come first served. */
static int takeover_connect_to(const char *name, int flags)
{
	const struct timeval patience = { .tv_sec = CONNECT_SECONDS };
	struct address a;
	int fd, error;

	address_from_unix_name(&a, name);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0 &&
	    connect(fd, &a.u.any, a.size) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
		return fd;
	error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	return -1;
}

enum taker_found takeover_socket_connect(const struct settings *settings, int *fd, char *why,
					 size_t why_size)
{
	char file[PATH_MOST], name[PATH_MOST];
	struct stat s;
	int32_t pid;

	if (!takeover_file_of(settings, file, sizeof(file), why, why_size))
		return TAKER_REFUSED;
	if (!takeover_name_of(name, file, why, why_size))
		return TAKER_NOBODY;
	*fd = takeover_connect_to(name, 0);
	if (*fd >= 0)
		return TAKER_FOUND;
	if (errno == EAGAIN) {
		snprintf(why, why_size, "it accepts no connection");
		return TAKER_REFUSED;
	}
	snprintf(why, why_size, "%s", strerror(errno));
	/* An earlier version. Never blocks: the listening process may belong to another user. */
	if (file[0] == '@' || stat(file, &s) != 0)
		return TAKER_NOBODY;
	snprintf(name, sizeof(name), ABSTRACT "file-%llx-%llx", (unsigned long long)s.st_dev,
		 (unsigned long long)s.st_ino);
	*fd = takeover_connect_to(name, SOCK_NONBLOCK);
	if (*fd >= 0 && takeover_check_user(*fd, &pid))
		return TAKER_FOUND;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return TAKER_NOBODY;
}
