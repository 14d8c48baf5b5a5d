#ifndef MAIN_SIGNALS_H
#define MAIN_SIGNALS_H

#include <stdbool.h>

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

/* The meaning of a signal, which depends on whether a shutdown (by signal or console) is under way. */
enum signal_wish signal_decide(int signum, bool is_shutting_down);
/* "SIGTERM"; "signal" for one that is not ours. */
const char *signal_name(int signum);

/* Delivers our signals to `on_signal` from within the event loop, and ignores SIGPIPE. NULL: no memory. */
struct signals;
typedef void signals_on_signal(void *context, int signum);
struct signals *signals_open(struct event_base *base, signals_on_signal *on_signal, void *context);
/* The process is about to end: signals are ignored from now on. Sets *signals to NULL; NULL inside is fine. */
void signals_close(struct signals **signals);

#endif
