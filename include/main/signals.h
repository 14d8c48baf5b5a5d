#ifndef MAIN_SIGNALS_H
#define MAIN_SIGNALS_H

#include <stddef.h>

struct event_base;

/* The action that a signal requests; named like console commands. */
enum signal_wish {
	WISH_NOTHING,
	WISH_RELOAD,
	WISH_PAUSE,
	WISH_RESUME,
	WISH_SHUTDOWN_WAIT_FOR_CLIENTS,
	WISH_SHUTDOWN_WAIT_FOR_SERVERS,
	WISH_SHUTDOWN
};

/* The state of the process, which determines the meaning of a signal. A shutdown may have been requested by a signal or on the
   console. */
enum signal_moment {
	MOMENT_USUAL,
	MOMENT_PAUSED,
	MOMENT_SUSPENDED,
	MOMENT_SHUTDOWN,
	MOMENT_SHUTDOWN_PAUSED,			/* also while the shutdown waits for servers, so that no server is lent */
	MOMENTS
};

enum signal_wish signal_decide(int signum, enum signal_moment moment);
/* Writes the line for the log, without a line feed: "got SIGTERM, shutting down, ...". Returns buf. */
const char *signal_text(int signum, enum signal_moment moment, char *buf, size_t size);

/* Calls `on_signal` from the event loop for each signal, and ignores SIGPIPE. NULL: no memory. */
struct signals;
typedef void signals_on_signal(void *context, int signum);
struct signals *signals_open(struct event_base *base, signals_on_signal *on_signal, void *context);
/* The process is about to end: ignores signals from now on. Sets *signals to NULL; *signals may be NULL. */
void signals_close(struct signals **signals);

#endif
