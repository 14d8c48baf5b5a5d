/*
 * Listening sockets: binding, options, accepting, closing.
 *
 * Closing a socket resets the connections in its queue, so the queue is emptied before. If other
 * processes listen on the same port (SO_REUSEPORT), listen_socket_leave ensures that no connection
 * is lost. TCP_DEFER_ACCEPT is turned off, because connections that it holds back are in no queue
 * yet. A filter makes the kernel drop SYN packets: when the client repeats its SYN, it is assigned
 * to another process. If the kernel refuses the filter, connections that arrive between the last
 * accept and the close are reset; net.ipv4.tcp_migrate_req prevents that.
 *
 * The file of a Unix socket gets mode and group between bind and listen, when no client can connect
 * yet, so the umask does not matter.
 */
#include "net/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

#define DEFER_ACCEPT_SECONDS 45
#define ACCEPTS_MOST 512		/* per event */
/* number of events that accept one connection each, after a second accept found an empty queue */
#define ROUNDS_ALONE 16
#define PAUSE_LEAST 100			/* ms */
#define PAUSE_MOST 1000
/* descriptors that are reserved for other uses than new clients */
#define SPARE_MOST 32
#define SOCKET_NAME ".s.PGSQL."
#define DRAIN_MOST 4096			/* accepted from the queue before closing */

/* False with errno. */
static bool listen_set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

/* ---- the file of a Unix socket ---- */

/*
 * The file remains when its process is killed. To find out whether a process listens, pgweir
 * connects: if the connection is refused, the file is stale and is replaced. When pgweir ends, it
 * removes the file only if pgweir created it: another process may have replaced it.
 */

/* Removes the file of a socket if no process listens on it, for example after a crash. Returns NULL
   if the address can be bound now, otherwise why not. */
static const char *socket_file_remove_stale(const struct address *a)
{
	const char *path = a->u.local.sun_path;
	struct stat file;
	int fd, error;

	if (lstat(path, &file) != 0)
		return errno == ENOENT ? NULL : strerror(errno);
	if (!S_ISSOCK(file.st_mode))
		return "a file that is not a socket has this name";
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return strerror(errno);
	error = connect(fd, &a->u.any, a->size) == 0 ? 0 : errno;
	close(fd);
	if (error != ECONNREFUSED)
		return "socket is in use";
	return unlink(path) == 0 || errno == ENOENT ? NULL : strerror(errno);
}

static bool socket_file_is_still_ours(const struct socket_file *f, const char *path)
{
	struct stat file;

	return f->ours && stat(path, &file) == 0 && file.st_dev == f->device &&
	       file.st_ino == f->inode;
}

static bool group_id(const char *group, gid_t *gid)
{
	const struct group *entry = getgrnam(group);
	int64_t number;

	if (entry) {
		*gid = entry->gr_gid;
		return true;
	}
	if (!text_to_int64(group, &number) || number < 0 || number >= UINT32_MAX)
		return false;
	*gid = (gid_t)number;
	return true;
}

bool socket_file_check_group(const char *group, char *why, size_t why_size)
{
	gid_t groups[1024], gid;
	int count = getgroups((int)(sizeof(groups) / sizeof(groups[0])), groups);

	if (!group || !*group)
		return true;
	if (!group_id(group, &gid)) {
		snprintf(why, why_size, "group \"%s\" does not exist", group);
		return false;
	}
	/* without root privileges, a process may give its files only to its own groups */
	if (geteuid() == 0 || getegid() == gid || count < 0)
		return true;
	for (int i = 0; i < count; i++)
		if (groups[i] == gid)
			return true;
	snprintf(why, why_size, "cannot give it to group \"%s\": %s", group, strerror(EPERM));
	return false;
}

/* Records that this process created the file, and sets its mode (negative: unchanged, also the
   group), and the group by name or number (NULL, "": unchanged). False with a text in `why`. */
static bool socket_file_own(struct socket_file *f, const char *path, int mode, const char *group,
			    char *why, size_t why_size)
{
	struct stat file;
	gid_t gid;

	if (!*path)
		return true;
	if (stat(path, &file) == 0)
		*f = (struct socket_file){ true, file.st_dev, file.st_ino };
	if (mode < 0)
		return true;
	if (group && *group) {
		if (!group_id(group, &gid)) {
			snprintf(why, why_size, "group \"%s\" does not exist", group);
			return false;
		}
		if (chown(path, (uid_t)-1, gid) != 0) {
			snprintf(why, why_size, "cannot give \"%s\" to group \"%s\": %s", path,
				 group, strerror(errno));
			return false;
		}
	}
	/* after chown, which may clear mode bits */
	if (chmod(path, (mode_t)mode) != 0) {
		snprintf(why, why_size, "cannot set the mode of \"%s\": %s", path, strerror(errno));
		return false;
	}
	return true;
}

/* ---- accepting ---- */

/*
 * One event accepts until the queue is empty: in a burst, each connection costs one accept4 and no
 * other system call, because accepted sockets inherit the options of the listening socket. A limit
 * per event prevents that a flood blocks the established connections.
 *
 * If descriptors (except a reserve) or memory are used up, accept fails while the queue stays
 * readable, and the event loop would spin. Then the listener pauses for 100 ms, and longer each
 * time up to a second; new connections wait in the kernel's queue. The begin and the end of such a
 * period are logged.
 */

static void look_away(struct listen_socket *l, int error)
{
	struct timeval wait;

	if (l->pause_ms == 0) {
		log_warning("cannot accept connections on %s: %s; trying again until it works",
			    l->text, strerror(error));
		l->pause_ms = PAUSE_LEAST;
	} else {
		l->pause_ms = l->pause_ms * 2 < PAUSE_MOST ? l->pause_ms * 2 : PAUSE_MOST;
	}
	wait.tv_sec = l->pause_ms / 1000;
	wait.tv_usec = (suseconds_t)(l->pause_ms % 1000) * 1000;
	event_del(&l->readable);
	/* without memory for the timer, accepting resumes at once: spinning is better than never
	   accepting again */
	if (event_add(&l->pause, &wait) != 0)
		event_add(&l->readable, NULL);
}

/*
 * The last descriptors are reserved: without them, pgweir could not open server connections for
 * connected clients. A new descriptor has the lowest free number, so its number shows how many are
 * in use; while it is far below the limit, no system call is needed.
 */
static bool update_descriptor_limit(struct listen_socket *l)
{
	struct rlimit limit;
	rlim_t spare;
	int probe;

	if (l->next < l->ceiling || getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return false;
	spare = limit.rlim_cur / 4 < SPARE_MOST ? limit.rlim_cur / 4 : SPARE_MOST;
	l->ceiling = limit.rlim_cur - spare;
	probe = fcntl(l->fd, F_DUPFD_CLOEXEC, 0);
	l->next = probe < 0 ? RLIM_INFINITY : (rlim_t)probe;
	if (probe >= 0)
		close(probe);
	return l->next >= l->ceiling;
}

/* Accepts one connection. False: no more connections can be accepted now. */
static bool accept_one(struct listen_socket *l)
{
	struct address peer;
	int fd;

	if (update_descriptor_limit(l)) {
		look_away(l, EMFILE);
		return false;
	}
	peer.size = sizeof peer.u;
	fd = accept4(l->fd, &peer.u.any, &peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0) {
		if (l->leaving)		/* it inherited the filter of listen_socket_leave */
			listen_set_option(fd, SOL_SOCKET, SO_DETACH_FILTER, 0);
		l->next = (rlim_t)fd + 1;
		if (l->pause_ms)
			log_info("accepting connections on %s again", l->text);
		l->pause_ms = 0;
		l->accepted(l->context, fd, &peer, l);
		return true;
	}
	switch (errno) {
	/* errors of the connection that accept would have returned (accept(2)), not of the
	   listener */
	case EINTR:
	case ECONNABORTED:
	case EPROTO:
	case EPERM:
	case ENETDOWN:
	case ENOPROTOOPT:
	case EHOSTDOWN:
	case ENONET: case EHOSTUNREACH: case EOPNOTSUPP: case ENETUNREACH: case ETIMEDOUT:
		return true;
	case EAGAIN:
		return false;
	default:
		look_away(l, errno);
		return false;
	}
}

static void on_listen_readable(evutil_socket_t fd, short what, void *arg)
{
	struct listen_socket *l = arg;
	int most = l->alone > 0 ? 1 : ACCEPTS_MOST, taken = 0;
	bool more = true;

	(void)fd, (void)what;
	l->in_callback = true;
	while (more && taken < most && l->accepting && !l->closed) {
		more = accept_one(l);
		taken += more;
	}
	l->in_callback = false;
	if (l->closed)
		mem_free(l);
	else if (l->alone > 0)
		l->alone--;
	else if (taken == 1 && !more)
		l->alone = ROUNDS_ALONE;
}

static void on_pause_over(evutil_socket_t fd, short what, void *arg)
{
	struct listen_socket *l = arg;

	(void)fd, (void)what;
	if (event_add(&l->readable, NULL) != 0)
		look_away(l, ENOMEM);
}

void listen_socket_set_accepting(struct listen_socket *l, bool on)
{
	if (on == l->accepting)
		return;
	l->accepting = on;
	if (!on) {
		event_del(&l->readable);
		event_del(&l->pause);
	} else if (event_add(&l->readable, NULL) != 0) {
		look_away(l, ENOMEM);
	}
}

void listen_socket_drain(struct listen_socket *l)
{
	for (int i = 0; i < DRAIN_MOST && l->accepting && !l->closed && accept_one(l); i++)
		;
}

/* ---- leaving ---- */

bool listen_socket_leave(struct listen_socket *l)
{
	/* TCP flags: SYN without ACK */
	static struct sock_filter no_syn[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 13),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x12),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x02, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};
	static const struct sock_fprog program = { sizeof no_syn / sizeof no_syn[0], no_syn };

	if (!l->shares_port)
		return false;
	listen_set_option(l->fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, 0);
	l->leaving = setsockopt(l->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
	return true;
}

/* ---- options ---- */

static int option_of(int fd, int level, int name)
{
	int value = 0;
	socklen_t size = sizeof value;

	return getsockopt(fd, level, name, &value, &size) == 0 ? value : 0;
}

static bool listen_apply_options(struct listen_socket *l, const struct socket_options *options,
				 bool defer_accept)
{
	struct socket_options full = *options;

	if (listen_socket_is_unix(l))
		return true;
	full.keepidle = full.keepidle ? full.keepidle : l->system.keepidle;
	full.keepintvl = full.keepintvl ? full.keepintvl : l->system.keepintvl;
	full.keepcnt = full.keepcnt ? full.keepcnt : l->system.keepcnt;
	return socket_apply_options(l->fd, l->address.u.any.sa_family, &full) &&
	       listen_set_option(l->fd, IPPROTO_TCP, TCP_DEFER_ACCEPT,
				 defer_accept ? DEFER_ACCEPT_SECONDS : 0);
}

void listen_socket_set_options(struct listen_socket *l, const struct socket_options *options,
			       bool defer_accept)
{
	if (!listen_apply_options(l, options, defer_accept))
		log_warning("cannot set socket options on %s: %s", l->text, strerror(errno));
}

/* ---- opening ---- */

/* Gets the address from the socket, because the kernel may have chosen the port, and another
   process may have created the socket; and the system's values of options. */
static bool learn_socket(struct listen_socket *l)
{
	struct brief_address brief;
	const char *mark;
	int64_t port;

	memset(&l->address, 0, sizeof l->address);
	l->address.size = sizeof l->address.u;
	if (getsockname(l->fd, &l->address.u.any, &l->address.size) != 0)
		return false;
	if (listen_socket_is_unix(l)) {
		char path[sizeof l->address.u.local.sun_path + 1] = "";
		size_t length = l->address.size - offsetof(struct sockaddr_un, sun_path);

		memcpy(path, l->address.u.local.sun_path,
		       length < sizeof path ? length : sizeof path - 1);
		if (path[0] == '\0' && length > 1)
			path[0] = '@';
		mark = strstr(path, SOCKET_NAME);
		if (mark && text_to_int64(mark + strlen(SOCKET_NAME), &port) && port > 0 &&
		    port <= UINT16_MAX)
			l->port = (uint16_t)port;
		snprintf(l->text, sizeof l->text, "unix:%s", path);
		return true;
	}
	brief_address_of(&brief, &l->address, 0);
	brief_address_and_port(&brief, l->text, sizeof l->text);
	l->port = brief.port;
	l->system.keepidle = option_of(l->fd, IPPROTO_TCP, TCP_KEEPIDLE);
	l->system.keepintvl = option_of(l->fd, IPPROTO_TCP, TCP_KEEPINTVL);
	l->system.keepcnt = option_of(l->fd, IPPROTO_TCP, TCP_KEEPCNT);
	return true;
}

static struct listen_socket *listen_socket_new(struct event_base *base, int fd,
					       listen_accept *accepted, void *context)
{
	struct listen_socket *l = mem_try(sizeof *l);

	if (!l)
		return NULL;
	l->fd = fd;
	l->accepted = accepted;
	l->context = context;
	event_assign(&l->readable, base, l->fd, EV_READ | EV_PERSIST, on_listen_readable, l);
	event_assign(&l->pause, base, -1, 0, on_pause_over, l);
	return l;
}

static bool listen_start(struct listen_socket *l)
{
	if (event_add(&l->readable, NULL) != 0)
		return false;
	l->accepting = true;
	return true;
}

static bool bind_address(int fd, const struct address *a, const struct listen_config *config,
			 char *why, size_t why_size)
{
	const char *problem;
	int error;
	bool tcp = a->u.any.sa_family != AF_UNIX;

	if (tcp && (!listen_set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1) ||
		    (config->reuseport && !listen_set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1)) ||
		    (a->u.any.sa_family == AF_INET6 &&
		     !listen_set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1))))
		goto fail;
	if (bind(fd, &a->u.any, a->size) == 0)
		return true;
	if (errno == EADDRINUSE && !tcp) {
		problem = a->u.local.sun_path[0] ? socket_file_remove_stale(a) : "socket is in use";
		if (problem) {
			snprintf(why, why_size, "%s", problem);
			return false;
		}
		if (bind(fd, &a->u.any, a->size) == 0)
			return true;
	}
fail:
	error = errno;
	snprintf(why, why_size, "%s", strerror(error));
	errno = error;
	return false;
}

static bool listen_set_up(struct listen_socket *l, const struct address *a,
			  const struct listen_config *config, char *why, size_t why_size)
{
	if (!bind_address(l->fd, a, config, why, why_size))
		return false;
	why[0] = '\0';
	if (!learn_socket(l))
		goto fail;
	l->shares_port = config->reuseport && !listen_socket_is_unix(l);
	l->ceiling = config->uses_reserve ? RLIM_INFINITY : 0;
	if (listen_socket_is_unix(l)
		    ? !socket_file_own(&l->file, l->address.u.local.sun_path, config->unix_mode,
				       config->unix_group, why, why_size)
		    : !listen_apply_options(l, &config->options, config->defer_accept))
		goto fail;
	if (listen(l->fd, config->backlog) == 0 && listen_start(l))
		return true;
fail:
	if (!why[0])
		snprintf(why, why_size, "%s", strerror(errno));
	return false;
}

struct listen_socket *listen_socket_open(struct event_base *base,
					 const struct listen_config *config,
					 listen_accept *accepted, void *context, char *why,
					 size_t why_size)
{
	bool local = config->host[0] == '/' || config->host[0] == '@';
	struct address a;
	struct listen_socket *l;
	char problem[400];
	int fd, error;

	if (config->is_whole_name ? !address_from_unix_name(&a, config->host)
	    : local		  ? !address_from_unix(&a, config->host, config->port)
				  : !address_from_ip(&a, config->host, config->port)) {
		snprintf(why, why_size, local ? "the name of the socket in \"%s\" is too long" :
						"\"%s\" is not an IP address", config->host);
		errno = EINVAL;
		return NULL;
	}
	fd = socket(a.u.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	l = fd >= 0 ? listen_socket_new(base, fd, accepted, context) : NULL;
	if (!l) {
		error = errno;
		snprintf(why, why_size, "cannot make a socket: %s", strerror(error));
		if (fd >= 0)
			close(fd);
		errno = error;
		return NULL;
	}
	if (listen_set_up(l, &a, config, problem, sizeof problem))
		return l;
	error = errno;
	if (config->is_whole_name)
		snprintf(why, why_size, "cannot listen on unix:%s: %s", config->host, problem);
	else if (local)
		snprintf(why, why_size, "cannot listen on unix:%s/.s.PGSQL.%u: %s", config->host,
			 (unsigned)config->port, problem);
	else
		snprintf(why, why_size,
			 strchr(config->host, ':') ? "cannot listen on [%s]:%u: %s"
						   : "cannot listen on %s:%u: %s",
			 config->host, (unsigned)config->port, problem);
	listen_socket_close(&l, true);
	errno = error;
	return NULL;
}

struct listen_socket *listen_socket_adopt(struct event_base *base, int fd, listen_accept *accepted,
					  void *context, char *why, size_t why_size)
{
	struct listen_socket *l;
	int flags = fcntl(fd, F_GETFL), family = option_of(fd, SOL_SOCKET, SO_DOMAIN);

	/* clients of another family would have no address, and HBA lines for local connections
	   would match them */
	if (flags < 0 || (family != AF_INET && family != AF_INET6 && family != AF_UNIX) ||
	    option_of(fd, SOL_SOCKET, SO_ACCEPTCONN) != 1 ||
	    option_of(fd, SOL_SOCKET, SO_TYPE) != SOCK_STREAM) {
		snprintf(why, why_size,
			 "descriptor %d is not a listening stream socket of TCP or Unix", fd);
		return NULL;
	}
	if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
		snprintf(why, why_size, "descriptor %d: %s", fd, strerror(errno));
		return NULL;
	}
	l = listen_socket_new(base, fd, accepted, context);
	if (l && learn_socket(l) && listen_start(l))
		return l;
	snprintf(why, why_size, "descriptor %d: %s", fd, strerror(errno));
	mem_free(l);
	return NULL;
}

void listen_socket_succeed(struct listen_socket *l, const struct listen_config *config,
			   bool owns_file)
{
	char why[256] = "";

	if (owns_file && listen_socket_is_unix(l) &&
	    !socket_file_own(&l->file, l->address.u.local.sun_path, config ? config->unix_mode : -1,
			     config ? config->unix_group : NULL, why, sizeof why))
		log_warning("%s: %s", l->text, why);
	/* the previous owner may have called listen_socket_leave */
	listen_set_option(l->fd, SOL_SOCKET, SO_DETACH_FILTER, 0);
	if (!config)
		return;
	l->shares_port = config->reuseport && !listen_socket_is_unix(l);
	if (!listen_socket_is_unix(l) &&
	    !listen_apply_options(l, &config->options, config->defer_accept))
		log_warning("%s: %s", l->text, strerror(errno));
	/* clients of a Unix socket see the credentials of the process that called listen last */
	if (listen(l->fd, config->backlog) != 0)
		log_warning("%s: %s", l->text, strerror(errno));
}

/* ---- closing ---- */

void listen_socket_close(struct listen_socket **socket, bool unlink_file)
{
	struct listen_socket *l = *socket;

	*socket = NULL;
	if (!l)
		return;
	event_del(&l->readable);
	event_del(&l->pause);
	/* Another process may have replaced the file. */
	if (unlink_file && socket_file_is_still_ours(&l->file, l->address.u.local.sun_path))
		unlink(l->address.u.local.sun_path);
	close(l->fd);
	l->closed = true;
	if (!l->in_callback)
		mem_free(l);
}
