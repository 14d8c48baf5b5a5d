#ifndef MAIN_SIGNALS_H
#define MAIN_SIGNALS_H

#include <stddef.h>

struct event_base;

/* What a signal asks for; the names are those of the console's commands. */
enum signal_wish {
	WISH_NOTHING,
	WISH_RELOAD,
	WISH_PAUSE,
	WISH_RESUME,
	WISH_SHUTDOWN_WAIT_FOR_CLIENTS,
	WISH_SHUTDOWN_WAIT_FOR_SERVERS,
	WISH_SHUTDOWN
};

/* What the process is doing when a signal arrives: its meaning depends on that. A shutdown is one by signal or by console. */
enum signal_moment {
	MOMENT_USUAL,
	MOMENT_PAUSED,
	MOMENT_SUSPENDED,
	MOMENT_SHUTDOWN,
	MOMENT_SHUTDOWN_PAUSED,			/* also: it waits for servers, so that no other server is lent */
	MOMENTS
};

enum signal_wish signal_decide(int signum, enum signal_moment moment);
/* The line for the log, without its end: "got SIGTERM, shutting down, ...". */
const char *signal_text(int signum, enum signal_moment moment, char *buf, size_t size);

/* Delivers our signals to `on_signal` from within the event loop, and ignores SIGPIPE. NULL: no memory. */
struct signals;
typedef void signals_on_signal(void *context, int signum);
struct signals *signals_open(struct event_base *base, signals_on_signal *on_signal, void *context);
/* The process is about to end: signals are ignored from now on. Sets *signals to NULL; NULL inside is fine. */
void signals_close(struct signals **signals);

#endif
