/*
 * The pidfile. Its owner holds a lock on it for as long as it lives, so of two processes that start at the same moment
 * one wins, and a lock never outlives its process. The process id in the file is looked at as well, because an owner
 * of another make (the pooler whose configuration we were given) may hold no lock.
 *
 * In an online restart the new process gets the descriptor of the old one, and with it the lock: it never is nobody's.
 *
 * Invariant: whoever holds the lock has checked, after locking, that the path still leads to the file it locked. The
 * number is written in one piece over the old one before the rest is cut off, so the first line is never half a number.
 */
#include "main/pidfile.h"

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

struct pidfile {
	char *path;
	int fd;
};

static bool is_same_file(int fd, const char *path)
{
	struct stat ours, theirs;

	return fstat(fd, &ours) == 0 && stat(path, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
	       ours.st_ino == theirs.st_ino;
}

/* The process id in the file; 0: none, or not a number. */
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

static bool is_alive(pid_t pid)
{
	return kill(pid, 0) == 0 || errno == EPERM;
}

/* Opens and locks what is at the path now. -1: `why` says it; the descriptor otherwise. */
static int lock_path(const char *path, char *why, size_t why_size)
{
	for (;;) {
		int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0644);

		if (fd < 0) {
			snprintf(why, why_size, "cannot open pidfile \"%s\": %s", path, strerror(errno));
			return -1;
		}
		if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
			snprintf(why, why_size, "pidfile \"%s\" belongs to process %ld, which is running", path,
				 (long)read_owner(fd));
			close(fd);
			return -1;
		}
		if (is_same_file(fd, path))
			return fd;
		/* its owner ended and removed it after we had opened it */
		close(fd);
	}
}

static bool write_ours(int fd)
{
	char text[32];
	int size = snprintf(text, sizeof text, "%ld\n", (long)getpid());

	return pwrite(fd, text, (size_t)size, 0) == size && ftruncate(fd, size) == 0;
}

static struct pidfile *pidfile_new(const char *path, int fd)
{
	struct pidfile *pidfile = mem_must(sizeof *pidfile);

	pidfile->path = mem_must_copy_string(path);
	pidfile->fd = fd;
	return pidfile;
}

struct pidfile *pidfile_take(const char *path, char *why, size_t why_size)
{
	pid_t owner;
	int fd = lock_path(path, why, why_size);

	if (fd < 0)
		return NULL;
	owner = read_owner(fd);
	if (owner && owner != getpid() && is_alive(owner)) {
		snprintf(why, why_size, "pidfile \"%s\" belongs to process %ld, which is running", path, (long)owner);
		close(fd);
		return NULL;
	}
	if (!write_ours(fd)) {
		snprintf(why, why_size, "cannot write pidfile \"%s\": %s", path, strerror(errno));
		close(fd);
		return NULL;
	}
	return pidfile_new(path, fd);
}

int pidfile_descriptor(const struct pidfile *pidfile)
{
	return pidfile->fd;
}

struct pidfile *pidfile_adopt(const char *path, int fd)
{
	return is_same_file(fd, path) ? pidfile_new(path, fd) : NULL;
}

bool pidfile_write(const struct pidfile *pidfile)
{
	return write_ours(pidfile->fd);
}

void pidfile_forget(struct pidfile **pidfile)
{
	struct pidfile *p = *pidfile;

	*pidfile = NULL;
	if (!p)
		return;
	close(p->fd);
	mem_free(p->path);
	mem_free(p);
}

void pidfile_release(struct pidfile **pidfile)
{
	/* an administrator may have removed it, and another process may own the name now */
	if (*pidfile && is_same_file((*pidfile)->fd, (*pidfile)->path))
		unlink((*pidfile)->path);
	pidfile_forget(pidfile);
}
