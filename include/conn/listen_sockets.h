#ifndef CONN_LISTEN_SOCKETS_H
#define CONN_LISTEN_SOCKETS_H

#include "base/clock.h"

#include <stdbool.h>

/*
 * The listening sockets of pgweir: see listen_sockets.c.
 */

struct brief_address;
struct conf_problems;
struct listen_socket;
struct listen_offer;
struct world;

/* Initialise with zeros. Only listen_sockets.c writes the members; handover/handover.c reads and
   restores `inherited`. */
struct listen_sockets {
	struct listen_socket **all;	/* open sockets; owned */
	int count;			/* number of sockets in `all` */
	/* the sockets come from systemd, so pgweir opens no others */
	bool inherited;
	/* sockets of the process that this one replaces; owned; NULL: none */
	struct listen_offer *offers;
	int offer_count;		/* number of sockets in `offers` */
	/* monotonic: when a shutdown closes the TCP sockets; 0: no such shutdown, or closed */
	usec_t leave_until;
};

/* Opens the sockets of the configuration. `fds` are sockets from systemd; if there are any, pgweir
   opens no others. False with problems. */
bool world_listen(struct world *world, const int *fds, int fd_count,
		  struct conf_problems *problems);
/* Sets the socket options of the configuration (tcp_...) for connections that are accepted from now
   on. */
void world_set_listen_options(struct world *world);
/* Closes sockets. STOP_TCP_GENTLY: a shutdown waits for clients, so connections in progress are
   accepted, and other processes on the same port get new connections; the TCP sockets close now or,
   if there may be such processes, in world_tick(), at leave_until. */
enum listen_stop { STOP_TCP, STOP_TCP_GENTLY, STOP_ALL };
void world_stop_listen_sockets(struct world *world, enum listen_stop how);
/* Stops (false) or resumes accepting on all sockets; new connections wait in the kernel
   meanwhile. */
void world_set_accepting(struct world *world, bool on);
/* Whether proxy_protocol_networks has this address of a sender, so that its connections begin with
   a header of the PROXY protocol. */
bool world_expects_header(const struct world *world, const struct brief_address *sender);
/* Adds a socket of the process that this one replaces, before world_listen(), which keeps the
   sockets of the configuration, or all sockets if they came from systemd. `owns_file`: the other
   process has created the file of the Unix socket. False with problems. */
bool world_offer_listen_socket(struct world *world, int fd, bool owns_file,
			  struct conf_problems *problems);
/* The other process has closed its descriptors: closes the offered sockets that world_listen() did
   not keep. */
void world_close_unwanted_sockets(struct world *world);
/* Closes the descriptors of sockets that another process continues to use. `remove_files`: removes
   the files of Unix sockets that this process has created. */
void listen_sockets_let_go(struct listen_sockets *sockets, bool remove_files);

#endif
