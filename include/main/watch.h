#ifndef MAIN_WATCH_H
#define MAIN_WATCH_H

#include "conn/world.h"

/*
 * watch_files: notices that files of the configuration have changed. See watcher.c.
 */
struct watch;

/* Watches the files of the configuration in force from now on, or none with watch_files = 0.
   `since`: the wall clock before they were read, so that no change is missed. `changed` gets the
   path of a file that has changed, once for each change. Without memory or inotify the log has a
   warning. */
void watch_set(struct watch **watch, struct world *world, usec_t since,
	       void (*changed)(const char *path));
void watch_free(struct watch **watch);

#endif
