#ifndef CORE_ALARM_LIST_H
#define CORE_ALARM_LIST_H

#include "core/alarm.h"

/* The alarms of a world: see alarm.c. */
struct alarms {
	struct list lasting, ended;	/* struct alarm; in `ended` the latest is first */
	int ended_count;
	/* of alarm_look.c: the time of the last look; 0: none ... */
	usec_t looked_at;
	/* ... and the counts of pools->ended then */
	uint64_t ended_by[REASONS];
};

#endif
