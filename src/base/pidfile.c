/*
 * The pidfile, and the lock of the process that it names.
 *
 * The lock is on a separate file, PIDFILE.lock, which only pgweir's user can open (mode 0600).
 * Scripts and monitoring read the pidfile, so every user can open it. On Linux every open file can
 * be locked: flock(2) needs no particular mode, and a read lock of fcntl(2) needs a descriptor for
 * reading, and blocks a write lock. With a lock on the pidfile, any user of the machine could
 * prevent a start. Other users could also occupy a name (an abstract socket, a shared memory
 * object). The kernel releases the lock with the last descriptor of the process: if two processes
 * start at the same time, one of them gets the lock, and no lock outlives its process.
 *
 * The process id in the file is checked too, because PgBouncer and earlier versions of pgweir do
 * not lock PIDFILE.lock. A process of another user is not considered the owner: otherwise a user
 * could wait for the id of a process that was killed, and prevent the next start.
 *
 * In an online restart the new process receives the descriptor of the old one, and with it the
 * lock, which is never free in between.
 *
 * Invariant: a process that holds the lock has checked, after locking, that PIDFILE.lock still is
 * the locked file. One call writes the number over the old number before the file is truncated, so
 * the first line is never a partial number.
 */
#include "base/pidfile.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files ---- */

static bool is_same_file(int fd, const char *path)
{
	struct stat ours, theirs;

	return fd >= 0 && fstat(fd, &ours) == 0 && stat(path, &theirs) == 0 &&
	       ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

/* Opens a regular file; opening a device may have an effect. -1 with a text. */
static int open_regular(const char *path, int flags, mode_t mode, char *why, size_t why_size)
{
	struct stat file;
	int fd = -1;

	errno = 0;
	if (lstat(path, &file) != 0 || S_ISREG(file.st_mode))
		fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK, mode);
	/* it may have been replaced */
	if (fd >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode))
		return fd;
	snprintf(why, why_size, "cannot open \"%s\": %s", path,
		 fd < 0 && errno ? strerror(errno) : "it is not a regular file");
	if (fd >= 0)
		close(fd);
	return -1;
}

/* ---- the process id ---- */

/* Returns the process id in the file; 0: empty, or not a number. */
static pid_t read_owner(int fd)
{
	char text[32];
	char *end;
	ssize_t size = pread(fd, text, sizeof text - 1, 0);
	long pid;

	if (size <= 0)
		return 0;
	text[size] = '\0';
	errno = 0;
	pid = strtol(text, &end, 10);
	return errno || end == text || pid <= 0 || (pid_t)pid != pid ? 0 : (pid_t)pid;
}

/* ---- life ---- */

static struct pidfile *pidfile_new(const char *path)
{
	struct pidfile *p = mem_must(sizeof *p);
	size_t size = strlen(path) + sizeof ".lock";

	p->path = mem_must(strlen(path) + 1);
	strcpy(p->path, path);
	p->lock_path = mem_must(size);
	snprintf(p->lock_path, size, "%s.lock", path);
	p->fd = p->lock = -1;
	return p;
}

/* Called with the lock held: if another process opens the file now, it will notice that it was
   removed. */
static void remove_lock(const struct pidfile *p)
{
	if (is_same_file(p->lock, p->lock_path))
		unlink(p->lock_path);
}

void pidfile_release(struct pidfile **pidfile, bool removes)
{
	struct pidfile *p = *pidfile;

	*pidfile = NULL;
	if (!p)
		return;
	/* an administrator may have removed it, and another process may have created it again */
	if (removes && is_same_file(p->fd, p->path))
		unlink(p->path);
	if (removes)
		remove_lock(p);
	if (p->fd >= 0)
		close(p->fd);
	if (p->lock >= 0)
		close(p->lock);
	mem_free(p->path);
	mem_free(p->lock_path);
	mem_free(p);
}

/* ---- locking ---- */

static void write_taken_text(const struct pidfile *p, pid_t owner, char *why, size_t why_size)
{
	if (owner)
		snprintf(why, why_size, "pidfile \"%s\" belongs to process %ld, which is running",
			 p->path, (long)owner);
	else
		snprintf(why, why_size, "pidfile \"%s\" is locked by another process", p->path);
}

/* False with a text: another process holds the lock, or locking failed. */
static bool lock(struct pidfile *p, char *why, size_t why_size)
{
	struct stat file;

	for (;;) {
		int fd = open_regular(p->lock_path, O_RDWR | O_CREAT, 0600, why, why_size);

		if (fd < 0)
			return false;
		/* only this user may open the file: a copy or a backup may have changed its mode */
		if (fstat(fd, &file) != 0 || ((file.st_mode & 077) != 0 && fchmod(fd, 0600) != 0)) {
			snprintf(why, why_size, "cannot set the mode of \"%s\": %s", p->lock_path,
				 strerror(errno));
			close(fd);
			return false;
		}
		if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
			int owner = open_regular(p->path, O_RDONLY, 0, why, why_size);

			write_taken_text(p, owner >= 0 ? read_owner(owner) : 0, why, why_size);
			if (owner >= 0)
				close(owner);
			close(fd);
			return false;
		}
		if (is_same_file(fd, p->lock_path)) {
			p->lock = fd;
			return true;
		}
		/* its owner has removed it after it was opened here */
		close(fd);
	}
}

static bool pidfile_open_file(struct pidfile *p, char *why, size_t why_size)
{
	if (p->fd < 0)
		p->fd = open_regular(p->path, O_RDWR | O_CREAT, 0644, why, why_size);
	return p->fd >= 0;
}

struct pidfile *pidfile_take(const char *path, char *why, size_t why_size)
{
	struct pidfile *p = pidfile_new(path);
	pid_t owner;

	if (lock(p, why, why_size) && pidfile_open_file(p, why, why_size)) {
		/* PgBouncer and earlier versions do not lock; a process of another user is not the
		   owner */
		owner = read_owner(p->fd);
		if (owner && owner != getpid() && kill(owner, 0) == 0)
			write_taken_text(p, owner, why, why_size);
		else if (pidfile_write(p))
			return p;
		else
			snprintf(why, why_size, "cannot write pidfile \"%s\": %s", p->path,
				 strerror(errno));
	}
	remove_lock(p);
	pidfile_release(&p, false);
	return NULL;
}

/* ---- online restart ---- */

struct pidfile *pidfile_adopt(const char *path, int fd)
{
	struct pidfile *p = pidfile_new(path);
	char why[256];

	if (is_same_file(fd, p->lock_path))
		p->lock = fd;
	else if (is_same_file(fd, path) && lock(p, why, sizeof why))
		p->fd = fd;
	if (p->lock >= 0 && pidfile_open_file(p, why, sizeof why))
		return p;
	if (p->lock == fd)
		p->lock = -1;
	pidfile_release(&p, false);
	return NULL;
}

