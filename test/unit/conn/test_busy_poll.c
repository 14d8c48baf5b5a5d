/* Busy polling: when the loop polls, for how long, and the conclusion of a trial. */
#include "conn/busy_poll.h"

#include "unit.h"

#define MS ((usec_t)1000)

/* A simulated machine: queries per second with a loop that sleeps and with a loop that polls. */
struct machine {
	struct busy_poll poll;
	usec_t now, next_tick;
	int64_t asleep, polling;	/* answers per second */
	int64_t millionths;		/* remaining fraction of an answer */
	uint64_t queries;
	usec_t polled;
};

static struct machine machine(int64_t setting, int64_t share, int64_t asleep, int64_t polling)
{
	struct machine m = { .now = 100 * USEC, .asleep = asleep, .polling = polling };

	busy_poll_set(&m.poll, setting, share, m.now);
	m.next_tick = m.now;
	return m;
}

/* Lets `time` pass in waits of 50 us. */
static void run(struct machine *m, usec_t time)
{
	for (usec_t end = m->now + time; m->now < end;) {
		usec_t longest = busy_poll_is_on(&m->poll) ? busy_poll_begin(&m->poll, m->now, m->queries) : 0;
		usec_t polled = longest < 50 ? longest : 50;

		m->now += 50;
		m->millionths += 50 * (longest > 0 ? m->polling : m->asleep);
		m->queries += (uint64_t)(m->millionths / USEC);
		m->millionths %= USEC;
		m->polled += polled;
		if (busy_poll_is_on(&m->poll))
			busy_poll_end(&m->poll, 50, polled, true);
		if (m->now >= m->next_tick) {
			busy_poll_tick(&m->poll, m->now, m->queries);
			m->next_tick += 100 * MS;
		}
	}
}

TEST(off_never_polls)
{
	struct machine m = machine(0, 75, 5000, 10000);

	run(&m, 2 * USEC);
	CHECK(!busy_poll_is_on(&m.poll));
	CHECK(m.polled == 0);
	CHECK_TEXT(busy_poll_names[m.poll.state], "off");
}

TEST(auto_polls_if_throughput_increases)
{
	struct machine m = machine(SETTING_AUTO, 100, 5000, 10000);

	run(&m, 500 * MS);
	CHECK_TEXT(busy_poll_names[m.poll.state], "polls");
	CHECK(m.poll.polled_total == (uint64_t)m.polled);
}

TEST(auto_sleeps_if_throughput_does_not_increase)
{
	struct machine m = machine(SETTING_AUTO, 100, 10000, 9000);

	run(&m, 500 * MS);
	CHECK_TEXT(busy_poll_names[m.poll.state], "sleeps");
}

TEST(auto_sleeps_if_the_gain_is_below_a_tenth)
{
	struct machine m = machine(SETTING_AUTO, 100, 10000, 10800);

	run(&m, 500 * MS);
	CHECK_TEXT(busy_poll_names[m.poll.state], "sleeps");
}

TEST(trials_with_the_same_result_become_rare)
{
	struct machine m = machine(SETTING_AUTO, 100, 10000, 5000);

	run(&m, 60 * USEC);
	CHECK(m.poll.trial_interval == 16 * USEC);
	m.polled = 0;
	run(&m, 64 * USEC);
	CHECK(m.polled > 0);
	CHECK(m.polled <= 5 * 120 * MS);	/* half of four or five trials of 0.2 s */
}

TEST(trial_with_another_result_makes_trials_frequent)
{
	struct machine m = machine(SETTING_AUTO, 100, 10000, 5000);

	run(&m, 60 * USEC);
	m.polling = 20000;
	run(&m, 17 * USEC);
	CHECK_TEXT(busy_poll_names[m.poll.state], "polls");
	CHECK(m.poll.trial_interval < 16 * USEC);
}

TEST(changed_load_is_tried_soon)
{
	struct machine m = machine(SETTING_AUTO, 100, 20000, 10000);

	run(&m, 60 * USEC);
	m.asleep = 3000;
	m.polling = 6000;
	run(&m, 2 * USEC);
	CHECK_TEXT(busy_poll_names[m.poll.state], "polls");
}

TEST(low_load_never_polls)
{
	struct machine m = machine(SETTING_AUTO, 100, 900, 1900);

	run(&m, 5 * USEC);
	CHECK_TEXT(busy_poll_names[m.poll.state], "sleeps");
	CHECK(m.polled == 0);
}

TEST(the_end_of_the_load_ends_polling)
{
	struct machine m = machine(SETTING_AUTO, 100, 5000, 10000);

	run(&m, 500 * MS);
	m.asleep = m.polling = 0;
	run(&m, 200 * MS);
	CHECK_TEXT(busy_poll_names[m.poll.state], "sleeps");
	m.polled = 0;
	run(&m, 5 * USEC);
	CHECK(m.polled == 0);
}

TEST(fixed_time_polls_at_once)
{
	struct machine m = machine(200, 100, 500, 500);

	CHECK_TEXT(busy_poll_names[m.poll.state], "polls");
	CHECK(busy_poll_begin(&m.poll, m.now, 0) == 200);
}

TEST(long_waits_sleep_and_short_waits_poll)
{
	struct machine m = machine(200, 100, 500, 500);

	for (int i = 0; i < 100; i++)
		busy_poll_end(&m.poll, 100 * MS, 0, true);
	CHECK(busy_poll_begin(&m.poll, m.now, 0) == 0);
	for (int i = 0; i < 16; i++)
		busy_poll_end(&m.poll, 50, 0, true);
	CHECK(busy_poll_begin(&m.poll, m.now, 0) == 200);
}

TEST(short_waits_without_traffic_are_slept)
{
	struct machine m = machine(200, 100, 500, 500);

	for (int i = 0; i < 100; i++)
		busy_poll_end(&m.poll, 50, 0, false);
	CHECK(busy_poll_begin(&m.poll, m.now, 0) == 0);
}

TEST(share_limits_the_polling_time)
{
	struct machine m = machine(100, 25, 5000, 10000);

	run(&m, 10 * USEC);
	CHECK(m.polled > 24 * 100 * MS);
	CHECK(m.polled <= 26 * 100 * MS);
}

TEST(unchanged_setting_continues_and_changed_setting_restarts)
{
	struct machine m = machine(SETTING_AUTO, 100, 5000, 10000);
	uint64_t total;

	run(&m, 500 * MS);
	busy_poll_set(&m.poll, SETTING_AUTO, 100, m.now);
	CHECK_TEXT(busy_poll_names[m.poll.state], "polls");
	total = m.poll.polled_total;
	CHECK(total > 0);
	busy_poll_set(&m.poll, 0, 100, m.now);
	CHECK_TEXT(busy_poll_names[m.poll.state], "off");
	CHECK(m.poll.polled_total == total);
	busy_poll_set(&m.poll, SETTING_AUTO, 50, m.now);
	CHECK_TEXT(busy_poll_names[m.poll.state], "sleeps");
}

/* Queries before the change do not count as load of the tick in which the setting changes. */
TEST(new_setting_ignores_earlier_queries)
{
	struct machine m = machine(0, 100, 5000, 5000);

	run(&m, 2 * USEC);
	m.asleep = m.polling = 0;
	run(&m, 300 * MS);
	busy_poll_set(&m.poll, SETTING_AUTO, 100, m.now);
	for (int i = 0; i < 4; i++) {
		run(&m, 50 * MS);
		CHECK_TEXT(busy_poll_names[m.poll.state], "sleeps");
	}
}

UNIT_MAIN
