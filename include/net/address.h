#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <netinet/in.h>

/* A socket address of the families that pgweir uses. An abstract Unix address begins with '@' in text. */
struct address {
	socklen_t size;
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_un local;
	} u;
};

/* The same in 20 bytes, for connections that live long: family, port, IP bytes. Unix: pid of the peer. */
struct brief_address {
	uint8_t family;		/* AF_INET, AF_INET6, AF_UNIX, 0 */
	uint16_t port;		/* host order; Unix: the port in the socket's name */
	union { uint8_t ip[16]; struct { int32_t pid; uint32_t uid; } peer; } u;
};

/* Numeric IPv4 or IPv6 text and a port; false when it is neither. */
bool address_from_ip(struct address *a, const char *ip, uint16_t port);
/* The numeric texts of all addresses that a name has, for TCP, as getaddrinfo(3) gives them: some may come twice. Waits for the system's
   resolver, so only where the process may. NULL, or why there is none. */
const char *address_each_of_name(const char *name, void (*found)(void *context, const char *ip), void *context);
/* Takes the next name off a list of hosts with commas or blanks between. False: there is none. */
bool address_next_host(const char **list, char *host, size_t size);
/* "/dir" or "@name" and a port: <dir>/.s.PGSQL.<port>. False when too long. */
bool address_from_unix(struct address *a, const char *dir, uint16_t port);
/* The same host, whatever the ports; the same path for Unix sockets. */
bool address_is_same_host(const struct address *a, const struct address *b);
/* Keeps what `a` says; for Unix sockets the caller sets u.peer. */
void brief_address_of(struct brief_address *to, const struct address *a, uint16_t unix_port);
/* The same host, port and family. */
bool brief_address_is_same(const struct brief_address *a, const struct brief_address *b);
/* 127.0.0.0/8 or ::1. */
bool brief_address_is_loopback(const struct brief_address *a);
/* Address alone: "127.0.0.1", "::1", "unix". As SHOW prints it. */
const char *brief_address_text(const struct brief_address *a, char *buf, size_t size);
/* "127.0.0.1:6432", "[::1]:6432", "unix(PID):6432". As log lines print it. */
const char *brief_address_and_port(const struct brief_address *a, char *buf, size_t size);
/* Local name of a connected socket. False on error (errno). */
bool address_of_socket(int fd, struct brief_address *local, uint16_t unix_port);
/* Pid and uid at the other end of a Unix socket (SO_PEERCRED). False on error. */
bool address_unix_peer(int fd, int32_t *pid, uint32_t *uid);

/* Whether the IP address is one of this machine's interfaces (whole_net: or in the net of one): 1 or 0. -1 with errno: the kernel,
   which is asked each time, does not list the interfaces. An IPv4-mapped address, ::ffff:a.b.c.d, counts as the IPv4 address. */
int address_is_own(const struct brief_address *a, bool whole_net);

/* Options for sockets, settings of the same names. Listening sockets carry them and accepted ones inherit. */
struct socket_options {
	bool keepalive;			/* tcp_keepalive */
	int keepidle, keepintvl, keepcnt;	/* 0: the system's */
	int user_timeout;		/* ms, 0: the system's */
	int buffer;			/* tcp_socket_buffer, 0: the system's */
};
/* Sets them, and TCP_NODELAY, on a TCP socket; nothing on a Unix one. False with errno. */
bool socket_apply_options(int fd, int family, const struct socket_options *options);

#endif
