/*
 * Signals: one row each. The loop delivers them, so a handler may do whatever any other event handler may.
 * Whoever asks for an end a second time means it: TERM and INT while a shutdown is waiting end it at once.
 */
#include "main/signals.h"

#include "base/mem.h"

#include <event2/event.h>
#include <signal.h>
#include <stddef.h>

static const struct signal_row {
	int signum;
	const char *name;
	enum signal_wish wish, while_shutting_down;
} signal_rows[] = {
	{ SIGHUP, "SIGHUP", WISH_RELOAD, WISH_RELOAD },
	{ SIGTERM, "SIGTERM", WISH_SHUTDOWN_WAIT_FOR_CLIENTS, WISH_SHUTDOWN },
	{ SIGINT, "SIGINT", WISH_SHUTDOWN_WAIT_FOR_SERVERS, WISH_SHUTDOWN },
	{ SIGQUIT, "SIGQUIT", WISH_SHUTDOWN, WISH_SHUTDOWN },
	{ SIGUSR1, "SIGUSR1", WISH_PAUSE, WISH_PAUSE },
	{ SIGUSR2, "SIGUSR2", WISH_RESUME, WISH_NOTHING },
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

enum signal_wish signal_decide(int signum, bool is_shutting_down)
{
	const struct signal_row *row = row_of(signum);

	if (!row)
		return WISH_NOTHING;
	return is_shutting_down ? row->while_shutting_down : row->wish;
}

const char *signal_name(int signum)
{
	const struct signal_row *row = row_of(signum);

	return row ? row->name : "signal";
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
	/* both are told by errno as well: who reads is gone, the log has grown to the limit for files */
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
			/* who is already on the way out must not die of a second request to go */
			signal(signal_rows[i].signum, SIG_IGN);
		}
	mem_free(s);
}
