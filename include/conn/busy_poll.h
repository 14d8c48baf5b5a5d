#ifndef CONN_BUSY_POLL_H
#define CONN_BUSY_POLL_H

#include "conf/settings.h"

/*
 * Busy polling: the loop asks for events again and again for a short time before it sleeps. A process that sleeps is woken late, by 5 us on
 * a good machine and by 100 us on a virtual one, and with few clients each message waits for a wake-up. This decides whether the
 * next wait polls, and for how long; main/turn.c polls.
 */

enum busy_poll_state {
	BUSY_POLL_OFF,			/* busy_poll = 0 */
	BUSY_POLL_SLEEPS,		/* auto: polling does not pay, or there are few queries */
	BUSY_POLL_TRIAL,		/* auto: some windows poll, some sleep */
	BUSY_POLL_POLLS,		/* auto: it pays; or busy_poll is a number */
};

struct busy_poll {
	enum busy_poll_state state;
	bool is_auto;
	usec_t longest;			/* a wait polls for so long at most */
	usec_t most;			/* time that may be polled in one window */
	usec_t window_began, polled;	/* the window, and the time that was polled in it */
	uint64_t polled_total;		/* since the start, in microseconds */
	int short_waits;		/* number of 256 waits that ended with traffic before `longest`; recent waits weigh more */
	struct {
		int windows;			/* that are over */
		uint64_t queries_before;	/* answered before this window */
		usec_t time[2];			/* of the windows without [0] and with [1] polling */
		uint64_t queries[2];		/* answered in them */
	} trial;
	bool paid;			/* the last trial has found that polling pays */
	usec_t trial_interval, next_trial;
	uint64_t trial_rate;		/* queries per second that the last trial has found */
	usec_t tick_at;			/* the last tick, and the queries answered before it */
	uint64_t tick_queries;
};

/* Takes the settings: SETTING_AUTO, 0 or microseconds; and the percentage of the time that may be spent in polling. */
void busy_poll_set(struct busy_poll *poll, int64_t setting, int64_t share, usec_t now);
/* Ten times a second: begins a trial when one is due. `queries`: answered since the start of the process. */
void busy_poll_tick(struct busy_poll *poll, usec_t now, uint64_t queries);
/* A wait is to call busy_poll_begin and busy_poll_end. False: it sleeps at once. */
static inline bool busy_poll_is_on(const struct busy_poll *poll) { return poll->state >= BUSY_POLL_TRIAL; }
/* For how long the wait that begins `now` may poll, in microseconds; 0: not at all. */
usec_t busy_poll_begin(struct busy_poll *poll, usec_t now, uint64_t queries);
/* The wait is over. It took `waited` and polled for `polled` of that time; `has_traffic`: relayed bytes ended it. */
void busy_poll_end(struct busy_poll *poll, usec_t waited, usec_t polled, bool has_traffic);
/* "off", "sleeps", "trial", "polls" */
const char *busy_poll_name(const struct busy_poll *poll);

#endif
