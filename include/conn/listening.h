#ifndef CONN_LISTENING_H
#define CONN_LISTENING_H

#include "base/clock.h"

#include <stdbool.h>

/* The sockets that clients connect to: see listening.c. */

struct conf_problems;
struct listen_socket;
struct listener_offer;
struct world;

/* All zeros: there are none yet. */
struct listening {
	struct listen_socket **all;
	int count;
	bool inherited;			/* the TCP sockets are systemd's, and no others are opened */
	struct listener_offer *offers;	/* from the process that this one replaces; NULL: none */
	int offer_count;
	usec_t leave_until;		/* a shutdown: TCP sockets close then; 0: closed, or no shutdown */
};

/* Opens the listening sockets that the configuration names; fds are sockets handed over by systemd (then no
   other TCP sockets are opened). False with problems. */
bool world_listen(struct world *world, const int *fds, int fd_count, struct conf_problems *problems);
/* Sockets accepted from now on have the socket options of the current configuration (tcp_...). */
void world_set_listen_options(struct world *world);
void world_stop_listening(struct world *world, bool unix_too);
/* A shutdown that waits for clients: clients that have connected are let in, and other processes on the same port get the others. TCP
   sockets close now or, by world_tick, at leave_until. */
void world_leave(struct world *world);
/* Sockets from the process that this one replaces. They are offered before world_listen, which takes the sockets that the configuration
   names (all of them, if they came from systemd). After the old process has closed them, the unwanted ones are closed here. */
bool world_offer_listener(struct world *world, int fd, bool owns_file, struct conf_problems *problems);
void world_close_unwanted_listeners(struct world *world);
/* All sockets: newcomers wait in the kernel (false), or come in. */
void listening_set_accepting(struct listening *listening, bool on);
/* Another process has them: closed here. `remove_files`: of Unix sockets that this process has made. */
void listening_let_go(struct listening *listening, bool remove_files);

#endif
