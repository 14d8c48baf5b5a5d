/* Alarms: beginning, renewing, ending, the order, and the limits. wire/test_alarms.py plays the failures. */
#include "core/alarm.h"

#include "core/lifecycle.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "")

static char names[4096];
static int shown;

static void note(void *context, const struct alarm *alarm)
{
	size_t used = strlen(names);

	CHECK(context == names);
	shown++;
	snprintf(names + used, sizeof(names) - used, "%s %s%s\n", alarm_rows[alarm->kind].name, alarm->subject, alarm->ended > 0 ? " ended" : "");
}

static const char *all_alarms(void)
{
	names[0] = '\0';
	shown = 0;
	alarms_each(whole.world, note, names);
	return names;
}

TEST(critical_alarms_come_first)
{
	struct world *w;

	whole_open(INI);
	w = whole.world;
	alarm_raise(w, ALARM_LAG, "a:1", "late");
	alarm_raise(w, ALARM_HOST_UNREACHABLE, "b:1", "down %d", 1);
	alarm_raise(w, ALARM_LAG, "c:1", "late");
	alarm_raise(w, ALARM_HOST_UNREACHABLE, "b:1", "down %d", 2);
	alarm_raise(w, ALARM_HOST_TLS, "c:1", "no\nTLS");
	CHECK_TEXT(all_alarms(), "host_unreachable b:1\nhost_tls c:1\nlag a:1\nlag c:1\n");
	whole_close();
}

/* An alarm ends when it was not raised for its time. The last alarms that have ended stay in the list. */
TEST(the_end)
{
	struct world *w;

	whole_open(INI);
	w = whole.world;
	alarm_raise(w, ALARM_HOST_UNREACHABLE, "b:1", "down");
	w->now += alarm_rows[ALARM_HOST_UNREACHABLE].hold - 1;
	alarms_expire(w);
	CHECK_TEXT(all_alarms(), "host_unreachable b:1\n");
	w->now++;
	alarms_expire(w);
	CHECK_TEXT(all_alarms(), "host_unreachable b:1 ended\n");
	/* the same again: one row */
	alarm_raise(w, ALARM_HOST_UNREACHABLE, "b:1", "down");
	CHECK_TEXT(all_alarms(), "host_unreachable b:1\n");
	for (int i = 0; i < 20; i++) {
		char subject[16];

		snprintf(subject, sizeof(subject), "s%d", i);
		alarm_raise(w, ALARM_LAG, subject, "late");
		w->now += 60 * USEC;
		alarms_expire(w);
	}
	all_alarms();
	CHECK_INT(shown, 8);
	CHECK(strstr(names, "lag s19 ended\nlag s18 ended\n") == names);
	whole_close();
}

TEST(subjects_of_an_alarm_are_bounded)
{
	whole_open(INI);
	for (int i = 0; i < 1000; i++) {
		char subject[64];

		snprintf(subject, sizeof(subject), "d%d/u", i);
		alarm_raise(whole.world, ALARM_LOGIN_REFUSED, subject, "no");
	}
	CHECK(strstr(all_alarms(), "login_refused others\n"));
	CHECK_INT(shown, 9);
	whole_close();
}

TEST(without_memory_there_is_no_alarm)
{
	whole_open(INI);
	whole_memory_ends(0);
	alarm_raise(whole.world, ALARM_LAG, "a:1", "late");
	CHECK(whole_memory_is_back() > 0);
	CHECK_TEXT(all_alarms(), "");
	alarm_raise(whole.world, ALARM_LAG, "a:1", "late");
	CHECK_TEXT(all_alarms(), "lag a:1\n");
	whole_close();
}

UNIT_MAIN
