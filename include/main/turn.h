#ifndef MAIN_TURN_H
#define MAIN_TURN_H

#include "admin/console.h"
#include "main/takeover.h"

/* What main has: the event loop and what it turns. */
struct pooler {
	struct event_base *base;
	struct event *tick;			/* fires about ten times a second */
	struct world *world;
	struct console *console;
	struct giver *giver;			/* waits for a process that takes our place; NULL: cannot */
	bool tick_due;				/* also set by the giver, when another process asks */
	bool has_stopped;			/* leave the loop */
	bool is_silent;				/* connections then end without a message */
};

#define TICK_MILLISECONDS 100

/* Starts the tick. False: no memory. */
bool turn_begin(struct pooler *pooler);
/* One turn. False when the pooler has stopped. */
bool turn(struct pooler *pooler);

#endif
