#ifndef BASE_PIDFILE_H
#define BASE_PIDFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

/* A file with the process id, and the lock on PATH.lock, held as long as the process runs: see
   pidfile.c. */
struct pidfile {
	char *path, *lock_path;
	int fd;				/* -1: not open */
	/* the descriptor that holds the lock: another process that receives it holds the lock too;
	   -1: not locked */
	int lock;
};

/* Locks, and writes the process id to `path`. Replaces the file of an ended process, but not the
   file of a running process. Returns NULL with a text in `why`. Called in the final process: after
   daemon_start. */
struct pidfile *pidfile_take(const char *path, char *why, size_t why_size);
/* `removes`: removes both files, if they still are the files of this process; otherwise they belong
   to another process. Sets *pidfile to NULL; *pidfile may be NULL. */
void pidfile_release(struct pidfile **pidfile, bool removes);

/*
 * In an online restart the lock passes from process to process.
 */
/* Takes ownership of the descriptor from the old process: it holds the lock of the pidfile at this
   path, or, from earlier versions, it is the pidfile itself; then the lock is taken here. NULL: it
   is neither, or the lock is taken; the caller keeps the descriptor. The process id in the file
   does not change. */
struct pidfile *pidfile_adopt(const char *path, int fd);
/* Writes this process's id to the file. False with errno. */
static inline bool pidfile_write(const struct pidfile *p)
{
	char text[32];
	int size = snprintf(text, sizeof text, "%ld\n", (long)getpid());

	return pwrite(p->fd, text, (size_t)size, 0) == size && ftruncate(p->fd, size) == 0;
}

#endif
