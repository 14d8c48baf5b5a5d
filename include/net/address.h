#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <netinet/in.h>

/* A socket address of one of pgweir's families. An abstract Unix address begins with '@' in
   text. */
struct address {
	socklen_t size;
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_un local;
	} u;
};

/* A short form in 20 bytes for long-lived connections: family, port, IP bytes. Unix: pid and uid of
   the peer. */
struct brief_address {
	uint8_t family;		/* AF_INET, AF_INET6, AF_UNIX, 0 */
	uint16_t port;		/* host order; Unix: the port in the name of the socket */
	union { uint8_t ip[16]; struct { int32_t pid; uint32_t uid; } peer; } u;
};

/* Parses a numeric IPv4 or IPv6 address. False: neither. */
bool address_from_ip(struct address *a, const char *ip, uint16_t port);
/* Calls found() with the numeric text of each TCP address of a name, as getaddrinfo(3) returns
   them, possibly with duplicates. Blocks. Returns NULL, or why this failed. */
const char *address_each_of_name(const char *name, void (*found)(void *context, const char *ip),
				 void *context);
/* Cuts the next name off a list of hosts separated by commas or blanks. False: the list is
   empty. */
bool address_next_host(const char **list, char *host, size_t size);
/* Makes the address <dir>/.s.PGSQL.<port> from "/dir" or "@name" and a port. False: too long. */
bool address_from_unix(struct address *a, const char *dir, uint16_t port);
/* Makes the address of a Unix socket from its whole name, "/dir/file" or "@name". False: too
   long. */
bool address_from_unix_name(struct address *a, const char *name);
/* Whether the hosts are equal, ignoring ports; for Unix sockets, whether the paths are equal. */
bool address_is_same_host(const struct address *a, const struct address *b);
/* Makes the short form of `a`; for Unix sockets the caller sets u.peer. */
void brief_address_of(struct brief_address *to, const struct address *a, uint16_t unix_port);
/* Writes the address without the port, as SHOW prints it: "127.0.0.1", "::1", "unix". */
const char *brief_address_text(const struct brief_address *a, char *buf, size_t size);
/* Writes address and port, as log lines print them: "127.0.0.1:6432", "[::1]:6432",
   "unix(PID):6432". */
const char *brief_address_and_port(const struct brief_address *a, char *buf, size_t size);
/* Gets the local address of a connected socket. False: error (errno). */
bool address_of_socket(int fd, struct brief_address *local, uint16_t unix_port);
/* Gets pid and uid of the peer of a Unix socket (SO_PEERCRED). False: error. */
bool address_unix_peer(int fd, int32_t *pid, uint32_t *uid);

/* Returns 1 if the IP address belongs to an interface of this machine (whole_net: to the network of
   an interface), otherwise 0; -1 with errno if the kernel does not list the interfaces. The kernel
   is asked each time. An IPv4-mapped address, ::ffff:a.b.c.d, counts as the IPv4 address. */
int address_is_own(const struct brief_address *a, bool whole_net);

/* Socket options, from the settings of the same names. They are set on listening sockets, and
   accepted sockets inherit them. */
struct socket_options {
	bool keepalive;			/* tcp_keepalive */
	int keepidle, keepintvl, keepcnt;	/* 0: the system's default */
	int user_timeout;		/* ms, 0: the system's default */
	int buffer;			/* tcp_socket_buffer, 0: the system's default */
};
/* Sets the options and TCP_NODELAY on a TCP socket; does nothing for a Unix socket. False with
   errno. */
bool socket_apply_options(int fd, int family, const struct socket_options *options);

#endif
