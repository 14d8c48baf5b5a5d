#ifndef CONN_LISTENING_H
#define CONN_LISTENING_H

#include "base/clock.h"

#include <stdbool.h>

/*
 * The listening sockets of pgweir: see listening.c.
 */

struct conf_problems;
struct listen_socket;
struct listener_offer;
struct world;

/* Initialise with zeros. Only listening.c writes the members; handover/handover.c reads and
   restores `inherited`. */
struct listening {
	struct listen_socket **all;	/* open sockets; owned */
	int count;			/* number of sockets in `all` */
	/* the sockets come from systemd, so pgweir opens no others */
	bool inherited;
	/* sockets of the process that this one replaces; owned; NULL: none */
	struct listener_offer *offers;
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
enum stop_listening { STOP_TCP, STOP_TCP_GENTLY, STOP_ALL };
void world_stop_listening(struct world *world, enum stop_listening how);
/* Stops (false) or resumes accepting on all sockets; new connections wait in the kernel
   meanwhile. */
void world_set_accepting(struct world *world, bool on);
/* Adds a socket of the process that this one replaces, before world_listen(), which keeps the
   sockets of the configuration, or all sockets if they came from systemd. `owns_file`: the other
   process has created the file of the Unix socket. False with problems. */
bool world_offer_listener(struct world *world, int fd, bool owns_file,
			  struct conf_problems *problems);
/* The other process has closed its descriptors: closes the offered sockets that world_listen() did
   not keep. */
void world_close_unwanted_listeners(struct world *world);
/* Closes the descriptors of sockets that another process continues to use. `remove_files`: removes
   the files of Unix sockets that this process has created. */
void listening_let_go(struct listening *listening, bool remove_files);

#endif
