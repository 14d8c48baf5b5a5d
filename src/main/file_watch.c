/*
 * watch_files: which files of the configuration have changed on disk.
 *
 * Editors and Kubernetes replace files by renaming files and symbolic links, so the directories are
 * watched: of each file, and of each symbolic link on the way to it. An event says only that
 * something in a directory has changed. A second after the last event, the files are compared with
 * their state when the configuration was read. Without an event the process does not wake up.
 *
 * Writing causes an event when the writer closes the file, so a log file in the same directory
 * causes none.
 *
 * Invariant: each change of a file after `since` is told.
 */
#include "main/file_watch.h"

#include "base/log.h"
#include "base/mem.h"
#include "conf/hba.h"

#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

/* time without an event before the files are compared ... */
#define QUIET_SECONDS 1
#define BUSY_MOST (10 * USEC)		/* ... unless events have come for this time */
#define LINKS_MOST 16			/* symbolic links on the way to a file */
#define EVENTS \
	(IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_ATTRIB | \
	 IN_DELETE_SELF | IN_MOVE_SELF)
/* the kernel's clock for files is late by up to this time */
#define CLOCK_STEP (10 * 1000)

struct watched {
	char *path;
	/* all zeros: there is no such file */
	struct file_state { int64_t device, inode, size, modified, changed; } state;
};

struct file_watch {
	struct world *world;
	void (*changed)(const char *path);
	int fd;				/* inotify */
	struct event *event, *quiet;	/* of the descriptor; a timer */
	struct watched *files;
	size_t count;
	/* wall clock; INT64_MAX: the states are older than the configuration */
	usec_t since;
	/* monotonic: the first event since the files were compared; 0: none */
	usec_t first_at;
};

/* Watches the directory of the file and of each symbolic link on the way to it. */
static void watch_path(const struct file_watch *w, const char *path, int links)
{
	char at[PATH_MAX], directory[PATH_MAX], target[PATH_MAX], rest[PATH_MAX];
	const char *end = path;
	ssize_t size = -1;

	while (size < 0 && *end) {
		end += strspn(end, "/");
		end += strcspn(end, "/");
		snprintf(at, sizeof(at), "%.*s", (int)(end - path), path);
		size = readlink(at, target, sizeof(target) - 1);
	}
	/* `at` is the first symbolic link, or the whole path */
	if (strrchr(at, '/'))
		snprintf(directory, sizeof(directory), "%.*s", (int)(strrchr(at, '/') - at + 1),
			 at);
	else
		snprintf(directory, sizeof(directory), "./");
	/* a directory may be unreadable, and the file not: its replacement ends the file */
	if (inotify_add_watch(w->fd, directory, EVENTS | IN_ONLYDIR) < 0 && errno == EACCES)
		inotify_add_watch(w->fd, at, EVENTS);
	if (size < 0 || links == LINKS_MOST)
		return;
	target[size] = '\0';
	if ((size_t)snprintf(rest, sizeof(rest), "%s%s%s", *target == '/' ? "" : directory, target,
			     end) < sizeof(rest))
		watch_path(w, rest, links + 1);
}

static struct file_state look(const char *path)
{
	struct stat file;

	if (stat(path, &file) != 0)
		return (struct file_state){ .inode = 0 };
	return (struct file_state){
		.device = (int64_t)file.st_dev, .inode = (int64_t)file.st_ino, .size = file.st_size,
		.modified = (int64_t)file.st_mtim.tv_sec * USEC + file.st_mtim.tv_nsec / 1000,
		.changed = (int64_t)file.st_ctim.tv_sec * USEC + file.st_ctim.tv_nsec / 1000,
	};
}

/* Compares the files. */
static void on_quiet(evutil_socket_t fd, short what, void *context)
{
	struct file_watch *w = context;
	const char *path = NULL;

	(void)fd, (void)what;
	world_wake(w->world);
	w->first_at = 0;
	for (size_t i = 0; i < w->count; i++) {
		struct watched *f = &w->files[i];
		struct file_state state = look(f->path);

		if (memcmp(&state, &f->state, sizeof(state)) != 0 ||
		    state.changed >= w->since - CLOCK_STEP)
			path = f->path;
		f->state = state;
		/* directories may be new */
		watch_path(w, f->path, 0);
	}
	w->since = INT64_MAX;
	/* may free the watch */
	if (path)
		w->changed(path);
}

static void on_file_watch_event(evutil_socket_t fd, short what, void *context)
{
	const struct timeval quiet = { .tv_sec = QUIET_SECONDS };
	struct file_watch *w = context;
	char scrap[4096];

	(void)what;
	world_wake(w->world);
	while (read(fd, scrap, sizeof(scrap)) > 0)
		;
	if (w->first_at == 0)
		w->first_at = w->world->now;
	if (w->world->now - w->first_at < BUSY_MOST)
		event_add(w->quiet, &quiet);
}

void file_watch_free(struct file_watch **place)
{
	struct file_watch *w = *place;

	*place = NULL;
	if (!w)
		return;
	if (w->event)
		event_free(w->event);
	if (w->quiet)
		event_free(w->quiet);
	if (w->fd >= 0)
		close(w->fd);
	for (size_t i = 0; i < w->count; i++)
		mem_free(w->files[i].path);
	mem_free(w->files);
	mem_free(w);
}

/* Adds the files of a list. False: no memory. */
static bool add_files(struct file_watch *w, const struct conf_file *list)
{
	for (const struct conf_file *f = list; f; f = f->next) {
		struct watched *more = mem_resize(w->files, (w->count + 1) * sizeof(*more));
		char *path = mem_copy_string(f->path);

		w->files = more ? more : w->files;
		if (!more || !path) {
			mem_free(path);
			return false;
		}
		w->files[w->count].path = path;
		w->files[w->count++].state = look(path);
		watch_path(w, path, 0);
	}
	return true;
}

void file_watch_set(struct file_watch **place, struct world *world, usec_t since,
	       void (*changed)(const char *path))
{
	const struct conf *conf = world->conf;
	struct file_watch *w = NULL;

	if (conf->settings.watch_files && (w = mem_try(sizeof(*w))) != NULL) {
		*w = (struct file_watch){ .world = world,
				     .changed = changed,
				     .since = since,
				     .fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC) };
		w->event = w->fd >= 0 ? event_new(world->base, w->fd, EV_READ | EV_PERSIST,
						  on_file_watch_event, w)
				      : NULL;
		w->quiet = event_new(world->base, -1, 0, on_quiet, w);
	}
	if (conf->settings.watch_files &&
	    (!w || !w->event || !w->quiet || event_add(w->event, NULL) != 0 ||
	     !add_files(w, conf->files) || (conf->hba && !add_files(w, hba_files(conf->hba))))) {
		log_warning("watch_files: %s; changed files need a RELOAD",
			    w && w->fd < 0 ? strerror(errno) : "out of memory");
		file_watch_free(&w);
	}
	file_watch_free(place);
	*place = w;
	/* the files may have changed while they were read */
	if (w)
		on_file_watch_event(w->fd, EV_READ, w);
}
