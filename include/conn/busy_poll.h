#ifndef CONN_BUSY_POLL_H
#define CONN_BUSY_POLL_H

#include "conf/settings.h"

/*
 * Busy polling: the loop polls for events for a short time before it sleeps. Waking a process takes
 * 5 us, on a virtual machine up to 100 us, and with few clients each message waits for a wake-up.
 * Functions here decide whether and how long the next wait polls; main/turn.c polls.
 */

enum busy_poll_state {
	BUSY_POLL_OFF,			/* busy_poll = 0 */
	/* auto: polling does not increase the rate of queries, or there are few queries */
	BUSY_POLL_SLEEPS,
	BUSY_POLL_TRIAL,		/* auto: every other window polls */
	/* auto: polling increases the rate of queries; or busy_poll is a number */
	BUSY_POLL_POLLS
};
/* for SHOW, by state: "off" "sleeps" "trial" "polls" */
extern const char *const busy_poll_names[];

struct busy_poll {
	enum busy_poll_state state;
	bool is_auto;			/* busy_poll = auto */
	usec_t longest;			/* maximum time of polling in one wait */
	usec_t most;			/* maximum time of polling in one window */
	usec_t window_began;		/* monotonic: begin of the current window */
	usec_t polled;			/* time of polling in the current window */
	uint64_t polled_total;		/* time of polling since the start, in microseconds */
	/* moving average of waits that ended with traffic before `longest`, in 256ths */
	int short_waits;
	struct {
		int windows;			/* number of completed windows */
		uint64_t queries_before;	/* answered before the current window */
		/* total time of the windows without [0] and with [1] polling */
		usec_t time[2];
		uint64_t queries[2];		/* answered in these windows */
	} trial;
	/* the last trial has shown that polling increases the rate */
	bool paid;
	usec_t trial_interval;		/* time between two trials */
	usec_t next_trial;		/* monotonic */
	uint64_t trial_rate;		/* queries per second in the last trial */
	usec_t tick_at;			/* monotonic: the last tick */
	uint64_t tick_queries;		/* answered before the last tick */
};

/* Applies the settings busy_poll (SETTING_AUTO, 0 or microseconds) and busy_poll_share
   (percent). */
void busy_poll_set(struct busy_poll *poll, int64_t setting, int64_t share, usec_t now);
/* Begins a trial when a trial is due; called in each tick. `queries`: answered since the start of
   the process. */
void busy_poll_tick(struct busy_poll *poll, usec_t now, uint64_t queries);
/* Whether the next wait must call busy_poll_begin and busy_poll_end. False: the wait sleeps at
   once. */
static inline bool busy_poll_is_on(const struct busy_poll *poll)
{
	return poll->state >= BUSY_POLL_TRIAL;
}
/* Returns how long the wait that begins `now` may poll, in microseconds; 0: the wait sleeps at
   once. */
usec_t busy_poll_begin(struct busy_poll *poll, usec_t now, uint64_t queries);
/* Records a wait of `waited` microseconds, including `polled` microseconds of polling.
   `has_traffic`: relayed bytes ended the wait. */
void busy_poll_end(struct busy_poll *poll, usec_t waited, usec_t polled, bool has_traffic);

#endif
