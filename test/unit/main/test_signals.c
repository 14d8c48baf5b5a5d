/*
 * What each signal asks for, and that the loop delivers it.
 */
#include "unit.h"

#include "main/signals.h"

#include <event2/event.h>
#include <signal.h>

TEST(meaning)
{
	CHECK_INT(signal_decide(SIGHUP, false), WISH_RELOAD);
	CHECK_INT(signal_decide(SIGTERM, false), WISH_SHUTDOWN_WAIT_FOR_CLIENTS);
	CHECK_INT(signal_decide(SIGINT, false), WISH_SHUTDOWN_WAIT_FOR_SERVERS);
	CHECK_INT(signal_decide(SIGQUIT, false), WISH_SHUTDOWN);
	CHECK_INT(signal_decide(SIGUSR1, false), WISH_PAUSE);
	CHECK_INT(signal_decide(SIGUSR2, false), WISH_RESUME);
	CHECK_INT(signal_decide(SIGWINCH, false), WISH_NOTHING);
}

TEST(meaning_while_shutting_down)
{
	CHECK_INT(signal_decide(SIGHUP, true), WISH_RELOAD);
	CHECK_INT(signal_decide(SIGTERM, true), WISH_SHUTDOWN);
	CHECK_INT(signal_decide(SIGINT, true), WISH_SHUTDOWN);
	CHECK_INT(signal_decide(SIGQUIT, true), WISH_SHUTDOWN);
	CHECK_INT(signal_decide(SIGUSR2, true), WISH_NOTHING);
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
	static const char *const names[] = { "SIGHUP", "SIGTERM", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2" };
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
		CHECK_TEXT(signal_name(seen), names[i]);
	}
	/* deadly if it were not ignored */
	raise(SIGPIPE);
	signals_close(&signals);
	CHECK(!signals);
	event_base_free(base);
}

UNIT_MAIN
