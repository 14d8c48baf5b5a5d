#ifndef MAIN_TURN_H
#define MAIN_TURN_H

#include "admin/console.h"
#include "handover/handover.h"
#include "main/file_watch.h"

struct web;

/* The event loop and its objects. */
struct pooler {
	struct event_base *base;
	struct event *tick;			/* fires about ten times a second */
	struct shared *shared;			/* made before the world, and freed after it */
	struct world *world;
	struct console *console;
	struct web *web;			/* the HTTP endpoint */
	struct file_watch *watch;			/* watch_files; NULL: off */
	/* wall clock: before the configuration in force was read from its files */
	usec_t read_at;
	/* waits for the process that will replace this one; NULL: not possible */
	struct giver *giver;
	/* also set by the giver when a handover is requested */
	bool tick_due;
	bool is_silent;				/* connections end without an error message */
};

#define TICK_MILLISECONDS 100

/* Starts the tick. False: no memory. */
bool turn_begin(struct pooler *pooler);
/* Runs one turn. False: the pooler has stopped. */
bool turn(struct pooler *pooler);

#endif
