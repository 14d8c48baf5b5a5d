/*
 * Busy polling: whether it pays is measured.
 *
 * With busy_poll = auto a trial takes ten windows of 20 ms: five without polling and five with it,
 * in turns. If the windows with polling had 10 % more answers at least, the loop polls until the
 * next trial; otherwise it sleeps. The loop therefore polls for a few clients on a machine with an
 * idle processor, and sleeps if PostgreSQL or the clients need that processor more. The time
 * between two trials doubles from 1 s to 16 s while their results agree. When the load has changed
 * by half, the next trial follows after 1 s.
 *
 * In every mode a wait polls only while at least one of four recent waits was shorter than the
 * longest poll and ended with bytes that are relayed. A pgweir without queries therefore sleeps,
 * whatever unauthenticated clients send. And a wait polls in each window for busy_poll_share of the
 * window at most.
 */
#include "conn/busy_poll.h"

#include <string.h>

#define WINDOW ((usec_t)20000)
#define TRIAL_WINDOWS 10
#define LONGEST_OF_AUTO ((usec_t)100)
#define RATE_LEAST 1000			/* queries a second; polling does not help a lower load */
#define INTERVAL_LEAST (1 * USEC)
#define INTERVAL_MOST (16 * USEC)
#define ALL_WAITS 256

const char *const busy_poll_names[] = {
	[BUSY_POLL_OFF] = "off",
	[BUSY_POLL_SLEEPS] = "sleeps",
	[BUSY_POLL_TRIAL] = "trial",
	[BUSY_POLL_POLLS] = "polls",
};

void busy_poll_set(struct busy_poll *b, int64_t setting, int64_t share, usec_t now)
{
	bool is_auto = setting == SETTING_AUTO;
	usec_t longest = is_auto ? LONGEST_OF_AUTO : setting, most = WINDOW * share / 100;
	uint64_t total = b->polled_total, queries = b->tick_queries;

	if (b->is_auto == is_auto && b->longest == longest && b->most == most)
		return;
	memset(b, 0, sizeof(*b));
	b->is_auto = is_auto;
	b->longest = longest;
	b->most = most;
	b->polled_total = total;
	b->tick_queries = queries;
	b->short_waits = ALL_WAITS;
	b->window_began = b->tick_at = b->next_trial = now;
	b->trial_interval = INTERVAL_LEAST;
	b->state = is_auto ? BUSY_POLL_SLEEPS : longest > 0 ? BUSY_POLL_POLLS : BUSY_POLL_OFF;
}

/* ---- trials ---- */

static uint64_t busy_poll_rate(uint64_t queries, usec_t time)
{
	return time > 0 ? queries * (uint64_t)USEC / (uint64_t)time : 0;
}

static bool window_polls(const struct busy_poll *b)
{
	return b->state == BUSY_POLL_POLLS || b->trial.windows % 2 == 1;
}

static void end_trial(struct busy_poll *b, usec_t now)
{
	uint64_t without = busy_poll_rate(b->trial.queries[0], b->trial.time[0]),
		 with = busy_poll_rate(b->trial.queries[1], b->trial.time[1]);
	bool pays = with > without + without / 10;
	bool confirms = b->trial_rate > 0 && pays == b->paid;

	b->trial_interval = confirms ? b->trial_interval * 2 : INTERVAL_LEAST;
	if (b->trial_interval > INTERVAL_MOST)
		b->trial_interval = INTERVAL_MOST;
	b->next_trial = now + b->trial_interval;
	b->paid = pays;
	b->trial_rate = pays ? with : without;
	b->state = pays ? BUSY_POLL_POLLS : BUSY_POLL_SLEEPS;
}

void busy_poll_tick(struct busy_poll *b, usec_t now, uint64_t queries)
{
	uint64_t found = busy_poll_rate(queries - b->tick_queries, now - b->tick_at);
	usec_t earliest = b->next_trial - b->trial_interval + INTERVAL_LEAST;
	bool load_has_changed = found > b->trial_rate + b->trial_rate / 2 ||
				found < b->trial_rate / 2;

	b->tick_at = now;
	b->tick_queries = queries;
	if (!b->is_auto)
		return;
	if (found < RATE_LEAST) {
		/* there is no load: the result of the last trial does not apply to the next load */
		b->state = BUSY_POLL_SLEEPS;
		b->trial_rate = 0;
		b->trial_interval = INTERVAL_LEAST;
		b->next_trial = now;
	} else if (b->state != BUSY_POLL_TRIAL &&
		   (now >= b->next_trial || (now >= earliest && load_has_changed))) {
		b->state = BUSY_POLL_TRIAL;
		memset(&b->trial, 0, sizeof(b->trial));
		b->trial.queries_before = queries;
		b->window_began = now;
		b->polled = 0;
		b->short_waits = ALL_WAITS;
	}
}

/* ---- waits ---- */

usec_t busy_poll_begin(struct busy_poll *b, usec_t now, uint64_t queries)
{
	if (now - b->window_began >= WINDOW) {
		if (b->state == BUSY_POLL_TRIAL) {
			int with = window_polls(b);

			b->trial.time[with] += now - b->window_began;
			b->trial.queries[with] += queries - b->trial.queries_before;
			b->trial.queries_before = queries;
			if (++b->trial.windows == TRIAL_WINDOWS)
				end_trial(b, now);
		}
		b->window_began = now;
		b->polled = 0;
	}
	if (!busy_poll_is_on(b) || !window_polls(b) || b->short_waits < ALL_WAITS / 4 ||
	    b->polled >= b->most)
		return 0;
	return b->longest;
}

void busy_poll_end(struct busy_poll *b, usec_t waited, usec_t polled, bool has_traffic)
{
	b->short_waits += ((has_traffic && waited <= b->longest ? ALL_WAITS : 0) - b->short_waits) /
			  16;
	b->polled += polled;
	b->polled_total += (uint64_t)polled;
}
