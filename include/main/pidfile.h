#ifndef MAIN_PIDFILE_H
#define MAIN_PIDFILE_H

#include <stddef.h>

/* A file that holds our process id for as long as we run. */
struct pidfile;

/* Writes our process id to `path`. A file that a process which has ended left behind is replaced; that of a living one
   is not. NULL with a text in `why`. Call it in the process that stays: behind daemon_start. */
struct pidfile *pidfile_take(const char *path, char *why, size_t why_size);
/* Removes the file, if it is still the one that we wrote. Sets *pidfile to NULL; NULL inside is fine. */
void pidfile_release(struct pidfile **pidfile);

#endif
