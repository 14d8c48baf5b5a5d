/*
 * Socket addresses and socket options.
 *
 * `struct address` is the form of the system calls: large, so it is used only on the stack and in
 * tables. `struct brief_address` is stored in each connection to identify its peer. Unix sockets
 * have no useful peer name; pid and uid of the peer process (SO_PEERCRED) are stored instead.
 *
 * A PostgreSQL Unix socket is named <directory>/.s.PGSQL.<port>. If the directory begins with '@',
 * the name with a NUL in place of the '@' is in Linux' abstract namespace: the size of such an
 * address must be exact, because further NULs would be part of the name.
 */
#include "net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

bool address_from_ip(struct address *a, const char *ip, uint16_t port)
{
	char plain[INET6_ADDRSTRLEN];
	const char *zone = strchr(ip, '%');
	size_t length = zone ? (size_t)(zone - ip) : strlen(ip);

	memset(a, 0, sizeof *a);
	if (inet_pton(AF_INET, ip, &a->u.v4.sin_addr) == 1) {
		a->u.v4.sin_family = AF_INET;
		a->u.v4.sin_port = htons(port);
		a->size = sizeof a->u.v4;
		return true;
	}
	if (length >= sizeof plain)
		return false;
	memcpy(plain, ip, length);
	plain[length] = '\0';
	if (inet_pton(AF_INET6, plain, &a->u.v6.sin6_addr) != 1)
		return false;
	if (zone) {
		a->u.v6.sin6_scope_id = if_nametoindex(zone + 1);
		if (a->u.v6.sin6_scope_id == 0)
			return false;
	}
	a->u.v6.sin6_family = AF_INET6;
	a->u.v6.sin6_port = htons(port);
	a->size = sizeof a->u.v6;
	return true;
}

const char *address_each_of_name(const char *name, void (*found)(void *context, const char *ip),
				 void *context)
{
	const struct addrinfo wanted = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	char ip[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE];
	struct addrinfo *all;
	int error = getaddrinfo(name, NULL, &wanted, &all);

	if (error)
		return error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error);
	for (const struct addrinfo *i = all; i; i = i->ai_next)
		if (getnameinfo(i->ai_addr, i->ai_addrlen, ip, sizeof ip, NULL, 0,
				NI_NUMERICHOST) == 0)
			found(context, ip);
	freeaddrinfo(all);
	return NULL;
}

bool address_next_host(const char **list, char *host, size_t size)
{
	const char *at = *list + strspn(*list, ", \t");
	size_t length = strcspn(at, ", \t");

	snprintf(host, size, "%.*s", (int)length, at);
	*list = at + length;
	return length > 0;
}

bool address_from_unix_name(struct address *a, const char *name)
{
	char *path = a->u.local.sun_path;

	memset(a, 0, sizeof *a);
	if (!text_copy(path, sizeof a->u.local.sun_path, name))
		return false;
	a->u.local.sun_family = AF_UNIX;
	a->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	if (path[0] == '@')
		path[0] = '\0';
	else
		a->size++;
	return true;
}

bool address_from_unix(struct address *a, const char *dir, uint16_t port)
{
	char name[sizeof a->u.local.sun_path];
	int length = snprintf(name, sizeof name, "%s/.s.PGSQL.%u", dir, (unsigned)port);

	memset(a, 0, sizeof *a);
	return length >= 0 && (size_t)length < sizeof name && address_from_unix_name(a, name);
}

bool address_is_same_host(const struct address *a, const struct address *b)
{
	if (a->u.any.sa_family != b->u.any.sa_family)
		return false;
	switch (a->u.any.sa_family) {
	case AF_INET:
		return a->u.v4.sin_addr.s_addr == b->u.v4.sin_addr.s_addr;
	case AF_INET6:
		return memcmp(&a->u.v6.sin6_addr, &b->u.v6.sin6_addr, sizeof a->u.v6.sin6_addr) ==
		       0;
	default:
		return a->size == b->size && memcmp(&a->u, &b->u, a->size) == 0;
	}
}

void brief_address_of(struct brief_address *to, const struct address *a, uint16_t unix_port)
{
	memset(to, 0, sizeof *to);
	switch (a->u.any.sa_family) {
	case AF_INET:
		to->port = ntohs(a->u.v4.sin_port);
		memcpy(to->u.ip, &a->u.v4.sin_addr, sizeof a->u.v4.sin_addr);
		break;
	case AF_INET6:
		to->port = ntohs(a->u.v6.sin6_port);
		memcpy(to->u.ip, &a->u.v6.sin6_addr, sizeof a->u.v6.sin6_addr);
		break;
	case AF_UNIX:
		to->port = unix_port;
		break;
	default:
		return;
	}
	to->family = (uint8_t)a->u.any.sa_family;
}

const char *brief_address_text(const struct brief_address *a, char *buf, size_t size)
{
	switch (a->family) {
	case AF_INET:
	case AF_INET6:
		if (!inet_ntop(a->family, a->u.ip, buf, (socklen_t)size))
			text_copy(buf, size, "");
		break;
	case AF_UNIX:
		text_copy(buf, size, "unix");
		break;
	default:
		text_copy(buf, size, "");
	}
	return buf;
}

const char *brief_address_and_port(const struct brief_address *a, char *buf, size_t size)
{
	char ip[INET6_ADDRSTRLEN];

	brief_address_text(a, ip, sizeof ip);
	switch (a->family) {
	case AF_INET:
		snprintf(buf, size, "%s:%u", ip, (unsigned)a->port);
		break;
	case AF_INET6:
		snprintf(buf, size, "[%s]:%u", ip, (unsigned)a->port);
		break;
	case AF_UNIX:
		snprintf(buf, size, "unix(%d):%u", (int)a->u.peer.pid, (unsigned)a->port);
		break;
	default:
		text_copy(buf, size, "");
	}
	return buf;
}

bool address_of_socket(int fd, struct brief_address *local, uint16_t unix_port)
{
	struct address a;

	memset(&a, 0, sizeof a);
	a.size = sizeof a.u;
	if (getsockname(fd, &a.u.any, &a.size) != 0)
		return false;
	brief_address_of(local, &a, unix_port);
	return true;
}

bool address_unix_peer(int fd, int32_t *pid, uint32_t *uid)
{
	struct ucred peer;
	socklen_t size = sizeof peer;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
		return false;
	/* An Internet socket returns success too, but without a user. */
	if (peer.pid == 0 && peer.uid == (uid_t)-1) {
		errno = ENOTCONN;
		return false;
	}
	*pid = peer.pid;
	*uid = peer.uid;
	return true;
}

/* Returns the bytes of an interface's address or mask, of this size; NULL: another family. */
static const uint8_t *ip_bytes(const struct sockaddr *a, size_t size)
{
	if (a && a->sa_family == AF_INET && size == 4)
		return (const uint8_t *)&((const struct sockaddr_in *)(const void *)a)->sin_addr;
	if (a && a->sa_family == AF_INET6 && size == 16)
		return (const uint8_t *)&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
	return NULL;
}

int address_is_own(const struct brief_address *a, bool whole_net)
{
	static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
	const uint8_t *ip = a->u.ip;
	size_t size = a->family == AF_INET ? 4 : a->family == AF_INET6 ? 16 : 0;
	struct ifaddrs *all;
	bool found = false;

	if (size == 0)
		return 0;
	if (getifaddrs(&all) != 0)
		return -1;
	if (size == 16 && memcmp(ip, mapped, sizeof mapped) == 0) {
		ip += sizeof mapped;
		size = 4;
	}
	for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
		const uint8_t *own = ip_bytes(i->ifa_addr, size),
			      *mask = whole_net ? ip_bytes(i->ifa_netmask, size) : NULL;

		found = own != NULL;
		for (size_t at = 0; found && at < size; at++)
			found = ((ip[at] ^ own[at]) & (mask ? mask[at] : 0xff)) == 0;
	}
	freeifaddrs(all);
	return found;
}

static bool address_set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

bool socket_apply_options(int fd, int family, const struct socket_options *options)
{
	if (family != AF_INET && family != AF_INET6)
		return true;
	/* The kernel silently limits the buffer size to net.core.*mem_max. */
	return address_set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1) &&
	       address_set_option(fd, SOL_SOCKET, SO_KEEPALIVE, options->keepalive) &&
	       (!options->keepidle ||
		address_set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, options->keepidle)) &&
	       (!options->keepintvl ||
		address_set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, options->keepintvl)) &&
	       (!options->keepcnt ||
		address_set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, options->keepcnt)) &&
	       address_set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, options->user_timeout) &&
	       (!options->buffer ||
		(address_set_option(fd, SOL_SOCKET, SO_RCVBUF, options->buffer) &&
		 address_set_option(fd, SOL_SOCKET, SO_SNDBUF, options->buffer)));
}
