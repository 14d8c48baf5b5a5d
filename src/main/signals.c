/*
 * Signals, with one row each. The event loop delivers them, so handlers have no restrictions. A second TERM or INT during a
 * shutdown ends the process at once. The log lines are PgBouncer's.
 */
#include "main/signals.h"

#include "base/mem.h"

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>

/* The action in a state of the process, and the text after the signal's name in the log. */
struct answer {
	enum signal_wish wish;
	const char *text;
};

#define ALWAYS(wish, text) { { wish, text }, { wish, text }, { wish, text }, { wish, text }, { wish, text } }
#define TWICE(wish, text) { { wish, text }, { wish, text }, { wish, text }, SECOND, SECOND }
#define SECOND { WISH_SHUTDOWN, " while shutting down, fast exit" }
#define PAUSING { WISH_PAUSE, ", pausing all activity" }
#define PAUSED { WISH_NOTHING, ", but already paused/suspended" }
#define IGNORED { WISH_NOTHING, " while shutting down, ignoring" }

static const struct signal_row {
	int signum;
	const char *name;
	struct answer answers[MOMENTS];
} signal_rows[] = {
	{ SIGHUP, "SIGHUP", ALWAYS(WISH_RELOAD, ", re-reading config") },
	{ SIGTERM, "SIGTERM", TWICE(WISH_SHUTDOWN_WAIT_FOR_CLIENTS, ", shutting down, waiting for all clients disconnect") },
	{ SIGINT, "SIGINT",
	  TWICE(WISH_SHUTDOWN_WAIT_FOR_SERVERS, ", shutting down, waiting for all servers connections to be released") },
	{ SIGQUIT, "SIGQUIT", ALWAYS(WISH_SHUTDOWN, ", fast exit") },
	{ SIGUSR1, "SIGUSR1", { PAUSING, PAUSED, PAUSED, PAUSING, PAUSED } },
	{ SIGUSR2, "SIGUSR2",
	  { { WISH_NOTHING, ", but not paused/suspended" }, { WISH_RESUME, ", continuing from PAUSE" },
	    { WISH_RESUME, ", continuing from SUSPEND" }, IGNORED, IGNORED } },
};
#define SIGNAL_ROWS (sizeof signal_rows / sizeof *signal_rows)

struct signals {
	struct event *events[SIGNAL_ROWS];
	signals_on_signal *on_signal;
	void *context;
};

static const struct signal_row *row_of(int signum)
{
	for (size_t i = 0; i < SIGNAL_ROWS; i++)
		if (signal_rows[i].signum == signum)
			return &signal_rows[i];
	return NULL;
}

enum signal_wish signal_decide(int signum, enum signal_moment moment)
{
	const struct signal_row *row = row_of(signum);

	return row ? row->answers[moment].wish : WISH_NOTHING;
}

const char *signal_text(int signum, enum signal_moment moment, char *buf, size_t size)
{
	const struct signal_row *row = row_of(signum);

	snprintf(buf, size, "got %s%s", row ? row->name : "signal", row ? row->answers[moment].text : "");
	return buf;
}

static void on_event(evutil_socket_t signum, short what, void *context)
{
	struct signals *signals = context;

	(void)what;
	signals->on_signal(signals->context, (int)signum);
}

struct signals *signals_open(struct event_base *base, signals_on_signal *on_signal, void *context)
{
	struct signals *signals = mem_try(sizeof *signals);

	if (!signals)
		return NULL;
	signals->on_signal = on_signal;
	signals->context = context;
	for (size_t i = 0; i < SIGNAL_ROWS; i++) {
		signals->events[i] = evsignal_new(base, signal_rows[i].signum, on_event, signals);
		if (!signals->events[i] || event_add(signals->events[i], NULL) < 0) {
			signals_close(&signals);
			return NULL;
		}
	}
	/* errno reports both: the reader has gone, or the log has reached the limit of file size */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	return signals;
}

void signals_close(struct signals **signals)
{
	struct signals *s = *signals;

	*signals = NULL;
	if (!s)
		return;
	for (size_t i = 0; i < SIGNAL_ROWS; i++)
		if (s->events[i]) {
			event_free(s->events[i]);
			/* a second signal must not kill a process that is ending */
			signal(signal_rows[i].signum, SIG_IGN);
		}
	mem_free(s);
}
