/* The action of each signal, and its delivery by the loop. */
#include "unit.h"

#include "main/daemon.h"

#include <event2/event.h>
#include <signal.h>

TEST(action_of_each_signal)
{
	static const struct {
		int signum;
		enum signal_moment moment;
		enum signal_wish wish;
		const char *text;
	} cases[] = {
		{ SIGHUP, MOMENT_USUAL, WISH_RELOAD, "got SIGHUP, re-reading config" },
		{ SIGHUP, MOMENT_SHUTDOWN, WISH_RELOAD, "got SIGHUP, re-reading config" },
		{ SIGTERM, MOMENT_USUAL, WISH_SHUTDOWN_WAIT_FOR_CLIENTS,
		  "got SIGTERM, shutting down, waiting for all clients disconnect" },
		{ SIGTERM, MOMENT_PAUSED, WISH_SHUTDOWN_WAIT_FOR_CLIENTS,
		  "got SIGTERM, shutting down, waiting for all clients disconnect" },
		{ SIGTERM, MOMENT_SHUTDOWN, WISH_SHUTDOWN, "got SIGTERM while shutting down, fast exit" },
		{ SIGINT, MOMENT_USUAL, WISH_SHUTDOWN_WAIT_FOR_SERVERS,
		  "got SIGINT, shutting down, waiting for all servers connections to be released" },
		{ SIGINT, MOMENT_SHUTDOWN_PAUSED, WISH_SHUTDOWN, "got SIGINT while shutting down, fast exit" },
		{ SIGQUIT, MOMENT_USUAL, WISH_SHUTDOWN, "got SIGQUIT, fast exit" },
		{ SIGQUIT, MOMENT_SHUTDOWN, WISH_SHUTDOWN, "got SIGQUIT, fast exit" },
		{ SIGUSR1, MOMENT_USUAL, WISH_PAUSE, "got SIGUSR1, pausing all activity" },
		{ SIGUSR1, MOMENT_PAUSED, WISH_NOTHING, "got SIGUSR1, but already paused/suspended" },
		{ SIGUSR1, MOMENT_SUSPENDED, WISH_NOTHING, "got SIGUSR1, but already paused/suspended" },
		{ SIGUSR1, MOMENT_SHUTDOWN, WISH_PAUSE, "got SIGUSR1, pausing all activity" },
		{ SIGUSR1, MOMENT_SHUTDOWN_PAUSED, WISH_NOTHING, "got SIGUSR1, but already paused/suspended" },
		{ SIGUSR2, MOMENT_USUAL, WISH_NOTHING, "got SIGUSR2, but not paused/suspended" },
		{ SIGUSR2, MOMENT_PAUSED, WISH_RESUME, "got SIGUSR2, continuing from PAUSE" },
		{ SIGUSR2, MOMENT_SUSPENDED, WISH_RESUME, "got SIGUSR2, continuing from SUSPEND" },
		{ SIGUSR2, MOMENT_SHUTDOWN, WISH_NOTHING, "got SIGUSR2 while shutting down, ignoring" },
		{ SIGUSR2, MOMENT_SHUTDOWN_PAUSED, WISH_NOTHING, "got SIGUSR2 while shutting down, ignoring" },
		{ SIGWINCH, MOMENT_USUAL, WISH_NOTHING, "got signal" },
	};
	char text[128];

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		CHECK_INT(signal_decide(cases[i].signum, cases[i].moment, text, sizeof text), cases[i].wish);
		CHECK_TEXT(text, cases[i].text);
	}
}

static int seen, count;

static void on_signal(void *context, int signum)
{
	seen = signum;
	count++;
	CHECK_TEXT(context, "context");
}

TEST(delivered_by_the_loop)
{
	static const int ours[] = { SIGHUP, SIGTERM, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2 };
	static char context[] = "context";
	struct event_base *base = event_base_new();
	struct signals *signals = signals_open(base, on_signal, context);

	REQUIRE(signals);
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
		count = 0;
		raise(ours[i]);
		CHECK_INT(count, 0);
		event_base_loop(base, EVLOOP_ONCE);
		CHECK_INT(count, 1);
		CHECK_INT(seen, ours[i]);
	}
	/* the signal would kill the process if it were not ignored */
	raise(SIGPIPE);
	signals_close(&signals);
	CHECK(!signals);
	event_base_free(base);
}

UNIT_MAIN
