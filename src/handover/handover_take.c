/*
 * Online restart: the socket of the running process, the greeting of the two processes, and the side of the new process, which
 * finds the running process, receives everything, and confirms.
 *
 * Everything that can fail is done before the confirmation: the configuration is read and checked and the world created before
 * the running process is asked; missing sockets are opened, the pidfile is locked and every connection is built before READY.
 * After GO everything belongs to this process.
 *
 * If the connection ends between READY and GO, it matters whether the old process is alive. If it is, it has given up the
 * handover and continues; if it has died, this process has everything and continues in its place. A descriptor of the old
 * process, opened while it certainly was the peer (pidfd_open), tells the two cases apart.
 */
#include "handover/handover_parts.h"

#include "base/bytes.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/service.h"
#include "base/version.h"
#include "conn/listening.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAME "pgweir"			/* the name of the program in HELLO; another program might use the same socket name */
#define PATIENCE 10000			/* ms, for each message; longer than PATIENCE of the old process, which should give up first */
#define DEATH_PATIENCE 2000		/* ms, from the end of a process's sockets to its end */

/* ---- greeting ---- */

/* Each process sends the name of the program and its handover version. */
bool handover_say_hello(struct records *records, int patience)
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

bool handover_read_hello(const struct record *record, char *why, size_t why_size)
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
 * too. Then every user can connect: handover_give.c closes and counts connections of other users.
 *
 * Earlier versions listened on an abstract socket named after device and inode of the pidfile, or of the Unix socket. The new
 * process tries that name too, so it can replace such a process; if another user listens there, it is ignored. This version
 * does not listen there: an earlier version that is started with -R finds no process, starts normally, and is refused by the
 * pidfile.
 */

#define BACKLOG 128
#define CONNECT_SECONDS 5		/* for a full queue */
#define PATH_MOST 256

/* Writes the file by which the socket is found, or "@..." for an abstract socket. False with a text: the settings name none. */
static bool file_of(const struct settings *s, char *path, size_t size, char *why, size_t why_size)
{
	int length;

	if (s->pidfile && *s->pidfile) {
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

static bool address_of(struct address *a, const char *file, char *why, size_t why_size)
{
	bool fits;
	int length;

	if (file[0] == '@') {
		fits = abstract_address(a, file + 1);
	} else {
		memset(a, 0, sizeof(*a));
		a->u.local.sun_family = AF_UNIX;
		length = snprintf(a->u.local.sun_path, sizeof(a->u.local.sun_path), "%s.takeover", file);
		a->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length + 1);
		fits = length >= 0 && (size_t)length < sizeof(a->u.local.sun_path);
	}
	if (!fits)
		snprintf(why, why_size, "\"%.200s.takeover\" is too long for the name of a Unix socket", file);
	return fits;
}

/* Whether the peer's user is the user of this process. */
static bool check_user(int fd, int32_t *pid)
{
	uint32_t uid;

	return address_unix_peer(fd, pid, &uid) && uid == geteuid();
}

/* ---- listening ---- */

bool handover_listen(struct handover_socket *to, const struct settings *settings, char *why, size_t why_size)
{
	char file[PATH_MOST];
	const char *problem;
	struct address a;

	*to = (struct handover_socket){ .fd = -1 };
	why[0] = '\0';
	if (!file_of(settings, file, sizeof(file), why, why_size) || !address_of(&a, file, why, why_size))
		return false;
	/* sockets from systemd may be elsewhere */
	if (!(settings->pidfile && *settings->pidfile) && !is_abstract(&a) && access(file, F_OK) != 0) {
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
	if (bind(to->fd, &a.u.any, a.size) != 0) {
		snprintf(why, why_size, "%s", strerror(errno));
	} else {
		if (!is_abstract(&a)) {
			memcpy(to->path, a.u.local.sun_path, sizeof(to->path));
			socket_file_own(&to->file, to->path);
		}
		/* the mode before listen(): until then connect() fails, independent of the umask */
		if ((is_abstract(&a) || socket_file_dress(to->path, 0600, NULL, why, why_size)) && listen(to->fd, BACKLOG) == 0)
			return true;
		if (!why[0])
			snprintf(why, why_size, "%s", strerror(errno));
	}
	handover_unlisten(to);
	return false;
}

void handover_unlisten(struct handover_socket *to)
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

enum taker_found handover_connect(const struct settings *settings, int *fd, char *why, size_t why_size)
{
	char file[PATH_MOST], name[64];
	struct address a;
	struct stat s;
	int32_t pid;

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
	/* An earlier version. Never blocks: the listening process may belong to another user. */
	if (file[0] == '@' || stat(file, &s) != 0)
		return TAKER_NOBODY;
	snprintf(name, sizeof(name), "file-%llx-%llx", (unsigned long long)s.st_dev, (unsigned long long)s.st_ino);
	*fd = abstract_address(&a, name) ? connect_to(&a, SOCK_NONBLOCK) : -1;
	if (*fd >= 0 && check_user(*fd, &pid))
		return TAKER_FOUND;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return TAKER_NOBODY;
}

/* ---- the new process ---- */

struct taker {
	struct records *records;
	int32_t pid;
	int process;			/* pidfd of the old process; -1: not supported by the kernel */
};

void taker_free(struct taker **place)
{
	struct taker *t = *place;

	*place = NULL;
	if (!t)
		return;
	records_free(&t->records);
	if (t->process >= 0)
		close(t->process);
	mem_free(t);
}

/* ---- finding the old process ---- */

/* Waits for the answer to a request. False: a REFUSAL, or no answer. */
static bool hear(struct taker *t, struct record *r, char *why, size_t why_size, int patience)
{
	struct unpack in;
	const char *text;

	if (records_wait(t->records, r, patience) != RECORDS_OK) {
		snprintf(why, why_size, "%s", t->records->error);
		return false;
	}
	if (r->type != HANDOVER_REFUSAL)
		return true;
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	in = unpack_of(r->body, r->size);
	text = unpack_text(&in);
	snprintf(why, why_size, "%s", text ? text : "it says no");
	return false;
}

enum taker_found taker_find(const struct settings *settings, struct taker **taker, char *why, size_t why_size)
{
	enum taker_found found;
	struct taker *t;
	struct record r;
	int fd;

	*taker = NULL;
	found = handover_connect(settings, &fd, why, why_size);
	if (found != TAKER_FOUND)
		return found;
	t = mem_must(sizeof(*t));
	t->process = -1;
	t->records = records_new(fd);
	if (!t->records)
		close(fd);
	if (t->records && check_user(fd, &t->pid)) {
#ifdef SYS_pidfd_open
		t->process = (int)syscall(SYS_pidfd_open, (pid_t)t->pid, 0u);
#endif
		if (!handover_say_hello(t->records, PATIENCE)) {
			snprintf(why, why_size, "%s", t->records->error);
		} else if (hear(t, &r, why, why_size, PATIENCE)) {
			if (r.fd >= 0)
				close(r.fd);
			if (handover_read_hello(&r, why, why_size)) {
				*taker = t;
				return TAKER_FOUND;
			}
		}
	} else {
		snprintf(why, why_size, "it belongs to another user");
	}
	taker_free(&t);
	return TAKER_REFUSED;
}

/* ---- taking ---- */

/* Requests and handles all records. False, with a problem: not all of them could be used. */
static bool take_all(struct taker *t, struct world *w, struct handover *h, struct pidfile **pidfile, struct conf_problems *problems)
{
	const char *path = w->conf->settings.pidfile;
	struct pidfile *had;
	const char *address;
	struct unpack in;
	struct record r;
	char why[256];

	if (!records_send(t->records, HANDOVER_TAKE, NULL, -1, PATIENCE)) {
		conf_problem_add(problems, false, NULL, 0, "cannot take over from process %d: %s", (int)t->pid, t->records->error);
		return false;
	}
	while (!h->is_whole) {
		if (!hear(t, &r, why, sizeof(why), PATIENCE)) {
			conf_problem_add(problems, false, NULL, 0, "cannot take over from process %d: %s", (int)t->pid, why);
			return false;
		}
		switch (r.type) {
		case HANDOVER_NOTIFY:
			if (r.fd >= 0)
				close(r.fd);
			in = unpack_of(r.body, r.size);
			address = unpack_text(&in);
			if (address)
				setenv(SERVICE_NOTIFY_SOCKET, address, 1);
			break;
		case HANDOVER_PIDFILE:
			/* The descriptor of the old process's lock, which is shared with it. Earlier versions send the pidfile's descriptor
			   instead; pidfile_adopt() accepts both, so HANDOVER_VERSION did not change. */
			had = *pidfile;
			if (r.fd >= 0 && path && *path && !had)
				*pidfile = pidfile_adopt(path, r.fd);
			if (r.fd >= 0 && *pidfile == had)
				close(r.fd);
			break;
		default:
			if (!handover_take(h, &r, problems))
				return false;
		}
	}
	return true;
}

/* Sends READY, and waits for GO. */
static bool confirm(struct taker *t, bool has_old_pidfile, struct conf_problems *problems)
{
	struct bytes out = BYTES_EMPTY;
	struct record r = { .type = 0, .fd = -1 };
	struct pollfd died = { .fd = t->process, .events = POLLIN };
	char why[256] = "";
	bool heard;

	pack_bool(&out, has_old_pidfile);
	records_send(t->records, HANDOVER_READY, &out, -1, PATIENCE);
	bytes_free(&out);
	/* also if READY could not be sent: a REFUSAL may have arrived */
	heard = hear(t, &r, why, sizeof(why), PATIENCE);
	if (!heard && r.type == 0) {
		/* from now on GO cannot arrive any more, but it may have arrived before */
		shutdown(t->records->fd, SHUT_RD);
		heard = hear(t, &r, why, sizeof(why), 0);
	}
	if (r.fd >= 0)
		close(r.fd);
	if (heard && r.type == HANDOVER_GO)
		return true;
	if (heard) {
		snprintf(why, sizeof(why), "it has answered something that makes no sense here");
	} else if (r.type == 0 && t->process >= 0 && poll(&died, 1, DEATH_PATIENCE) > 0 && died.revents & POLLIN) {
		log_warning("process %d has died during the handover: going on in its place", (int)t->pid);
		return true;
	}
	conf_problem_add(problems, false, NULL, 0, "cannot take over from process %d: %s", (int)t->pid, why);
	return false;
}

bool taker_take(struct taker *t, struct world *w, struct pidfile **pidfile, struct conf_problems *problems)
{
	const char *path = w->conf->settings.pidfile;
	struct handover *h = handover_begin(w);
	struct handover_counts counts;
	bool has_old_pidfile, is_done;
	char why[512];

	if (!h) {
		conf_problem_add(problems, false, NULL, 0, "out of memory");
		return false;
	}
	is_done = take_all(t, w, h, pidfile, problems);
	has_old_pidfile = *pidfile != NULL;
	/* the sockets and the pidfile of the configuration that were not handed over */
	if (is_done && path && *path && !*pidfile && !(*pidfile = pidfile_take(path, why, sizeof(why)))) {
		conf_problem_add(problems, false, NULL, 0, "%s", why);
		is_done = false;
	}
	if (!is_done || !world_listen(w, NULL, 0, problems) || !confirm(t, has_old_pidfile, problems)) {
		handover_undo(&h);
		pidfile_release(pidfile, !has_old_pidfile);
		return false;
	}
	if (has_old_pidfile && !pidfile_write(*pidfile))
		log_warning("cannot write the pidfile: %s", strerror(errno));
	counts = h->counts;
	handover_finish(&h, &t->records);
	log_info("took over from process %d: %u clients, %u servers, %u listening sockets; %u clients stay there to their end", (int)t->pid,
		 counts.clients, counts.servers, counts.listeners, counts.staying);
	return true;
}
