/*
 * Alarms: the list, the log, and the end.
 *
 * An alarm is a state, not an event. Once a second alarm_look.c compares the world with the
 * conditions and calls alarm_raise() for each that is true. The first call begins the alarm: a
 * WARNING with the subject, the condition and the remedy. Later calls renew its text. An alarm that
 * was not raised for the `hold` of its row is over: one line. A condition that lasts therefore has
 * two lines, however often it is met, and the alarm of a removed pool ends by itself.
 *
 * Example: PostgreSQL stops. Each attempt to connect is noted at the host; the next look raises
 * host_unreachable of db1:5432. After the first login that succeeds, the look raises it no more,
 * and two seconds later it ends.
 *
 * Alarms stay across RELOAD. A process that takes over in an online restart finds them by its own
 * looks.
 *
 * Invariant: at most SUBJECTS_MOST alarms of a kind last, and one for all other subjects, "others";
 * ENDED_MOST ended ones are kept. Clients and hosts choose subjects, and cannot fill memory.
 */
#include "core/alarm.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/text.h"
#include "core/alarm_list.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SUBJECTS_MOST 8
#define ENDED_MOST 8
#define OTHERS "others"

#define CRITICAL true
#define WARNING false
#define LINES true
#define OTHER false
const struct alarm_row alarm_rows[ALARM_KINDS] = {
#define ALARM(id, name, level, log, hold, sentence, action) \
	[ALARM_##id] = { name, level, log, (hold) * USEC, action },
#include "tbl/alarm.tbl"
#undef ALARM
};
#undef CRITICAL
#undef WARNING
#undef LINES
#undef OTHER

static struct alarm *alarm_at(struct list *node) { return LIST_OBJECT(node, struct alarm, node); }

struct alarms *alarms_new(void)
{
	struct alarms *all = mem_try(sizeof(*all));

	if (!all)
		return NULL;
	list_init(&all->lasting);
	list_init(&all->ended);
	return all;
}

static void alarm_free(struct alarm *alarm)
{
	list_remove(&alarm->node);
	mem_free(alarm);
}

void alarms_free(struct alarms **place)
{
	struct alarms *all = *place;

	*place = NULL;
	if (!all)
		return;
	LIST_EACH_SAFE(node, &all->lasting)
		alarm_free(alarm_at(node));
	LIST_EACH_SAFE(node, &all->ended)
		alarm_free(alarm_at(node));
	mem_free(all);
}

/* ---- beginning ---- */

/* Returns the alarm that lasts, and counts the alarms of its kind; NULL: there is none. */
static struct alarm *alarm_find(struct alarms *all, enum alarm_kind kind, const char *subject,
				int *count)
{
	struct alarm *found = NULL;

	*count = 0;
	LIST_EACH(node, &all->lasting) {
		struct alarm *alarm = alarm_at(node);

		if (alarm->kind != kind)
			continue;
		++*count;
		if (strcmp(alarm->subject, subject) == 0)
			found = alarm;
	}
	return found;
}

/* Forgets an alarm of the same kind and subject that has ended: the metric has one series. */
static void forget_ended(struct alarms *all, enum alarm_kind kind, const char *subject)
{
	LIST_EACH_SAFE(node, &all->ended) {
		if (alarm_at(node)->kind != kind || strcmp(alarm_at(node)->subject, subject) != 0)
			continue;
		alarm_free(alarm_at(node));
		all->ended_count--;
	}
}

/* Critical alarms come first, then in the order of time. */
static void alarm_enlist(struct alarms *all, struct alarm *alarm)
{
	LIST_EACH(node, &all->lasting) {
		if (alarm_rows[alarm->kind].is_critical &&
		    !alarm_rows[alarm_at(node)->kind].is_critical) {
			list_append(node, &alarm->node);
			return;
		}
	}
	list_append(&all->lasting, &alarm->node);
}

static struct alarm *alarm_begin(struct world *w, enum alarm_kind kind, const char *subject)
{
	struct alarm *alarm = mem_try(sizeof(*alarm));

	if (!alarm)
		return NULL;
	forget_ended(w->alarms, kind, subject);
	list_init(&alarm->node);
	alarm->kind = kind;
	text_copy(alarm->subject, sizeof(alarm->subject), subject);
	alarm->since = w->now;
	alarm_enlist(w->alarms, alarm);
	return alarm;
}

void alarm_raise(struct world *w, enum alarm_kind kind, const char *subject, const char *format,
		 ...)
{
	const struct alarm_row *row = &alarm_rows[kind];
	char name[ALARM_SUBJECT], text[ALARM_TEXT];
	struct alarm *alarm;
	bool is_new;
	va_list arguments;
	int count;

	printable_text(subject, name, sizeof(name));
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	alarm = alarm_find(w->alarms, kind, name, &count);
	if (!alarm && count >= SUBJECTS_MOST) {
		snprintf(name, sizeof(name), OTHERS);
		alarm = alarm_find(w->alarms, kind, name, &count);
	}
	is_new = !alarm;
	if (!alarm)
		alarm = alarm_begin(w, kind, name);
	if (!alarm)
		return;
	alarm->seen = w->now;
	printable_text(text, alarm->text, sizeof(alarm->text));
	if (is_new && row->has_lines)
		log_warning("alarm %s%s%s: %s. %s", row->name, *name ? " " : "", name, alarm->text,
			    row->action);
}

/* ---- the end ---- */

static void alarm_end(struct world *w, struct alarm *alarm)
{
	const struct alarm_row *row = &alarm_rows[alarm->kind];
	struct alarms *all = w->alarms;

	alarm->ended = w->now;
	list_remove(&alarm->node);
	list_prepend(&all->ended, &alarm->node);
	if (++all->ended_count > ENDED_MOST) {
		alarm_free(alarm_at(all->ended.prev));
		all->ended_count--;
	}
	if (row->has_lines)
		log_info("alarm %s%s%s is over after %lld s", row->name, *alarm->subject ? " " : "",
			 alarm->subject, (long long)((alarm->seen - alarm->since) / USEC));
}

void alarms_expire(struct world *w)
{
	LIST_EACH_SAFE(node, &w->alarms->lasting) {
		struct alarm *alarm = alarm_at(node);

		if (alarm->seen != w->now && w->now - alarm->seen >= alarm_rows[alarm->kind].hold)
			alarm_end(w, alarm);
	}
}

/* ---- showing ---- */

void alarms_each(const struct world *w, void (*give)(void *context, const struct alarm *alarm),
		 void *context)
{
	LIST_EACH(node, &w->alarms->lasting)
		give(context, alarm_at(node));
	LIST_EACH(node, &w->alarms->ended)
		give(context, alarm_at(node));
}
