#ifndef MAIN_FILE_WATCH_H
#define MAIN_FILE_WATCH_H

#include "conn/world.h"

/*
 * watch_files: notices that files of the configuration have changed. See file_watch.c.
 */
struct file_watch;

/* Watches the files of the configuration in force from now on, or none with watch_files = 0.
   `since`: the wall clock before they were read, so that no change is missed. Calls `changed` with
   the path of a file, once for each change of the file. Without memory or inotify the log has a
   warning. */
void file_watch_set(struct file_watch **watch, struct world *world, usec_t since,
	       void (*changed)(const char *path));
void file_watch_free(struct file_watch **watch);

#endif
