/*
 * Online restart: the socket of the running process, and the greeting of the two processes. Each sends the program's name and
 * its handover version.
 */
#include "main/takeover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/version.h"

#define NAME "pgweir"			/* the name of the program in HELLO; another program might use the same socket name */

bool takeover_say_hello(struct records *records, int patience)
{
	struct bytes out = BYTES_EMPTY;
	bool said;

	pack_text(&out, NAME);
	bytes_append_u32(&out, HANDOVER_VERSION);
	pack_text(&out, PGWEIR_VERSION);
	said = records_send(records, HANDOVER_HELLO, &out, -1, patience);
	bytes_free(&out);
	return said;
}

bool takeover_read_hello(const struct record *record, char *why, size_t why_size)
{
	struct unpack in = unpack_of(record->body, record->size);
	const char *name = unpack_text(&in), *version;
	uint32_t handover = unpack_u32(&in);

	version = unpack_text(&in);
	/* later versions may add fields after it; they are refused below */
	if (record->type != HANDOVER_HELLO || in.bad || !name || !version || strcmp(name, NAME) != 0) {
		snprintf(why, why_size, "the other process is no pgweir");
		return false;
	}
	if (handover == HANDOVER_VERSION)
		return true;
	snprintf(why, why_size, "pgweir %.32s hands over in version %u, pgweir " PGWEIR_VERSION " in version %d", version,
		 (unsigned)handover, HANDOVER_VERSION);
	return false;
}

/* ---- the socket ---- */

/*
 * The name is derived from the file by which the two processes find each other: PIDFILE.takeover, or, without a pidfile,
 * .s.PGSQL.PORT.takeover in unix_socket_dir. Its mode is 0600: the kernel lets no other user connect, and a user without write
 * access to the directory cannot occupy the name. With an abstract socket, another user could fill its queue, flood the log by
 * connecting, or bind the name first, and prevent online restarts.
 *
 * Only if unix_socket_dir names an abstract socket and there is no pidfile, there is no directory, and this socket is abstract
 * too. Then every user can connect: takeover_give.c closes and counts connections of other users.
 *
 * Earlier versions listened on an abstract socket named after device and inode of the pidfile, or of the Unix socket. The new
 * process tries that name too, so it can replace such a process; if another user listens there, it is ignored. This version
 * does not listen there: an earlier version that is started with -R finds no process, starts normally, and is refused by the
 * pidfile.
 */

#define BACKLOG 128
#define CONNECT_SECONDS 5		/* for a full queue */
#define PATH_MOST 256

static bool has_pidfile(const struct settings *s)
{
	return s->pidfile && *s->pidfile;
}

/* Writes the file by which the socket is found, or "@..." for an abstract socket. False with a text: the settings name none. */
static bool file_of(const struct settings *s, char *path, size_t size, char *why, size_t why_size)
{
	int length;

	if (has_pidfile(s)) {
		length = snprintf(path, size, "%s", s->pidfile);
	} else if (s->unix_socket_dir && *s->unix_socket_dir) {
		length = snprintf(path, size, "%s/.s.PGSQL.%u", s->unix_socket_dir, (unsigned)s->listen_port);
	} else {
		snprintf(why, why_size, "neither pidfile nor unix_socket_dir is set");
		return false;
	}
	if (length >= 0 && (size_t)length < size)
		return true;
	snprintf(why, why_size, "the path of the pidfile or the Unix socket is too long");
	return false;
}

static bool is_abstract(const struct address *a)
{
	return a->u.local.sun_path[0] == '\0';
}

/* False: the name is too long. */
static bool abstract_address(struct address *a, const char *name)
{
	char *path = a->u.local.sun_path;
	int length;

	memset(a, 0, sizeof(*a));
	a->u.local.sun_family = AF_UNIX;
	/* the first byte is NUL: an abstract name */
	length = snprintf(path + 1, sizeof(a->u.local.sun_path) - 1, "pgweir-takeover/%s", name);
	a->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
	return length >= 0 && (size_t)length < sizeof(a->u.local.sun_path) - 1;
}

static bool path_address(struct address *a, const char *file)
{
	int length;

	memset(a, 0, sizeof(*a));
	a->u.local.sun_family = AF_UNIX;
	length = snprintf(a->u.local.sun_path, sizeof(a->u.local.sun_path), "%s.takeover", file);
	a->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length + 1);
	return length >= 0 && (size_t)length < sizeof(a->u.local.sun_path);
}

static bool address_of(struct address *a, const char *file, char *why, size_t why_size)
{
	if (file[0] == '@' ? abstract_address(a, file + 1) : path_address(a, file))
		return true;
	snprintf(why, why_size, "\"%.200s.takeover\" is too long for the name of a Unix socket", file);
	return false;
}

/* Makes the address of an earlier version. */
static bool address_of_earlier(struct address *a, const char *file)
{
	struct stat s;
	char name[64];

	if (file[0] == '@' || stat(file, &s) != 0)
		return false;
	snprintf(name, sizeof(name), "file-%llx-%llx", (unsigned long long)s.st_dev, (unsigned long long)s.st_ino);
	return abstract_address(a, name);
}

bool takeover_check_user(int fd, int32_t *pid)
{
	uint32_t uid;

	return address_unix_peer(fd, pid, &uid) && uid == geteuid();
}

/* ---- listening ---- */

static bool bind_and_listen(struct takeover_socket *to, const struct address *a, char *why, size_t why_size)
{
	if (bind(to->fd, &a->u.any, a->size) != 0) {
		snprintf(why, why_size, "%s", strerror(errno));
		return false;
	}
	if (!is_abstract(a)) {
		memcpy(to->path, a->u.local.sun_path, sizeof(to->path));
		socket_file_own(&to->file, to->path);
		/* before listen(): until then connect() fails, independent of the umask */
		if (!socket_file_dress(to->path, 0600, NULL, why, why_size))
			return false;
	}
	if (listen(to->fd, BACKLOG) == 0)
		return true;
	snprintf(why, why_size, "%s", strerror(errno));
	return false;
}

bool takeover_listen(struct takeover_socket *to, const struct settings *settings, char *why, size_t why_size)
{
	char file[PATH_MOST];
	const char *problem;
	struct address a;

	*to = (struct takeover_socket){ .fd = -1 };
	if (!file_of(settings, file, sizeof(file), why, why_size) || !address_of(&a, file, why, why_size))
		return false;
	/* sockets from systemd may be elsewhere */
	if (!has_pidfile(settings) && !is_abstract(&a) && access(file, F_OK) != 0) {
		snprintf(why, why_size, "\"%s\": %s", file, strerror(errno));
		return false;
	}
	problem = is_abstract(&a) ? NULL : socket_file_remove_stale(&a);
	if (problem) {
		snprintf(why, why_size, "\"%s\": %s", a.u.local.sun_path, problem);
		return false;
	}
	to->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (to->fd < 0) {
		snprintf(why, why_size, "%s", strerror(errno));
		return false;
	}
	if (bind_and_listen(to, &a, why, why_size))
		return true;
	takeover_unlisten(to);
	return false;
}

void takeover_unlisten(struct takeover_socket *to)
{
	if (to->fd < 0)
		return;
	if (socket_file_is_still_ours(&to->file, to->path))
		unlink(to->path);
	close(to->fd);
	to->fd = -1;
}

/* ---- connecting ---- */

/* -1 with errno. `flags` 0: while the queue is full, the kernel lets this connection wait, first come first served. */
static int connect_to(const struct address *a, int flags)
{
	const struct timeval patience = { .tv_sec = CONNECT_SECONDS };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0), error;

	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0 &&
	    connect(fd, &a->u.any, a->size) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
		return fd;
	error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	return -1;
}

/* Never blocks: the listening process may belong to another user. */
static int connect_to_earlier(const char *file)
{
	struct address a;
	int32_t pid;
	int fd = address_of_earlier(&a, file) ? connect_to(&a, SOCK_NONBLOCK) : -1;

	if (fd < 0 || takeover_check_user(fd, &pid))
		return fd;
	close(fd);
	return -1;
}

enum taker_found takeover_connect(const struct settings *settings, int *fd, char *why, size_t why_size)
{
	char file[PATH_MOST];
	struct address a;

	if (!file_of(settings, file, sizeof(file), why, why_size))
		return TAKER_REFUSED;
	if (!address_of(&a, file, why, why_size))
		return TAKER_NOBODY;
	*fd = connect_to(&a, 0);
	if (*fd >= 0)
		return TAKER_FOUND;
	if (errno == EAGAIN) {
		snprintf(why, why_size, "it accepts no connection");
		return TAKER_REFUSED;
	}
	snprintf(why, why_size, "%s", strerror(errno));
	*fd = connect_to_earlier(file);
	return *fd >= 0 ? TAKER_FOUND : TAKER_NOBODY;
}
