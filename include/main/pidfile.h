#ifndef MAIN_PIDFILE_H
#define MAIN_PIDFILE_H

#include <stdbool.h>
#include <stddef.h>

/* A file that holds our process id for as long as we run, and the lock on PATH.lock beside it: see pidfile.c. */
struct pidfile;

/* Locks, and writes our process id to `path`. A file that a process which has ended left behind is replaced; that of a
   running one is not. NULL with a text in `why`. Call it in the process that stays: behind daemon_start. */
struct pidfile *pidfile_take(const char *path, char *why, size_t why_size);
/* Removes both files, if they are still those that we have. Sets *pidfile to NULL; NULL inside is fine. */
void pidfile_release(struct pidfile **pidfile);

/*
 * In an online restart the lock goes from process to process.
 */
/* What holds the lock: another process that gets it holds it as well. Still owned by the pidfile. */
int pidfile_descriptor(const struct pidfile *pidfile);
/* The other end of that: takes over the descriptor that holds the lock of the pidfile at this path, or that of the pidfile
   itself, which is what earlier versions give: then the lock is taken here. NULL: it is neither, or the lock is not to be had;
   the descriptor then stays the caller's. The process id in the file is left as it is. */
struct pidfile *pidfile_adopt(const char *path, int fd);
/* Puts our process id into it. False with errno. */
bool pidfile_write(const struct pidfile *pidfile);
/* It is another process' now: nothing is removed. Sets *pidfile to NULL; NULL inside is fine. */
void pidfile_forget(struct pidfile **pidfile);

#endif
