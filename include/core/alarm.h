#ifndef CORE_ALARM_H
#define CORE_ALARM_H

#include "conn/world.h"
#include "pool/host.h"

/*
 * Alarms: conditions that need an administrator. include/tbl/alarm.tbl has a row for each, with the
 * remedy. The log, SHOW ALARMS, the page, `pgweir top` and the metric pgweir_alarm show them.
 */
enum alarm_kind {
#define ALARM(id, ...) ALARM_##id,
#include "tbl/alarm.tbl"
#undef ALARM
	ALARM_KINDS
};
struct alarm_row {
	const char *name;		/* "host_unreachable" */
	bool is_critical;
	bool has_lines;			/* alarm.c logs its beginning and end */
	usec_t hold;			/* it is over when it was not raised for this time */
	const char *action;		/* the remedy */
};
extern const struct alarm_row alarm_rows[ALARM_KINDS];

#define ALARM_SUBJECT 288
#define ALARM_TEXT 1200
struct alarm {
	struct list node;		/* struct alarms */
	enum alarm_kind kind;
	/* a host, a pool, a database, an address, a limit or a file; "": the process */
	char subject[ALARM_SUBJECT];
	char text[ALARM_TEXT];		/* the condition now, in words */
	/* monotonic: raised first, and last; when it ended, 0: it lasts */
	usec_t since, seen, ended;
};

/* The alarm of a host with this failure. */
enum alarm_kind alarm_of_failure(const struct host_failure *failure);
/* NULL: no memory. */
struct alarms *alarms_new(void);
/* Sets *alarms to NULL; *alarms may be NULL. */
void alarms_free(struct alarms **alarms);
/* The condition is true now: begins the alarm, or renews its text. Without memory there is no
   alarm. */
void alarm_raise(struct world *world, enum alarm_kind kind, const char *subject,
		 const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Ends the alarms that were not raised for the time of their rows. */
void alarms_expire(struct world *world);
/* Calls give() for each alarm that lasts, critical alarms first, then for the last alarms that have
   ended. */
void alarms_each(const struct world *world, void (*give)(void *context, const struct alarm *alarm),
		 void *context);
/* Called in each tick: once a second it raises each alarm with a true condition
   (alarm_look.c). */
void alarms_tick(struct world *world);

#endif
