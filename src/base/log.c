/*
 * The log: one event, one line, one write(2).
 *
 * 2026-11-21 02:01:23.820 UTC [PID] LEVEL MESSAGE
 *
 * A complete line is written with one call, to a file opened with O_APPEND: lines of several processes do not mix, no buffer is
 * lost when the process dies, and a rotated file is complete. A message may contain bytes from a peer (a database name, an
 * error text), so unprintable bytes are written as \xNN (printable.c) and cannot begin a new line. A line including its end has
 * at most PIPE_BUF bytes, which a pipe accepts atomically; callers limit texts from peers to much less (PRINTABLE_NAME,
 * PRINTABLE_TEXT).
 *
 * Logging never fails and never blocks its caller: with a full disk, a pipe without a reader or a syslog daemon that hangs,
 * lines are lost, but no connections. Each sink counts the lines that it lost, and logs the count when it accepts lines again.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <syslog.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/syslog_socket.h"
#include "base/text.h"

#define LINE_MOST PIPE_BUF	/* longer lines are truncated and end in "..." */
#define LOSS "lines of the log that could not be written: %llu"

struct sink {
	int fd;			/* -1: none */
	bool is_known;		/* `may_block` is valid */
	bool may_block;		/* a pipe, a terminal: anything but a file */
	bool is_cut;		/* the last line was written only in part */
	uint64_t lost;		/* lines lost since then */
};

static struct {
	char *file;
	struct sink out;	/* `file` */
	struct sink err;	/* stderr */
	struct syslog_socket syslog;
	char *ident;
	int facility;
	uint64_t syslog_lost;	/* lines; kept over a RELOAD */
	bool syslog_on;
	bool quiet;
	int verbose;
} logger = { .out = { .fd = -1 }, .err = { .fd = STDERR_FILENO }, .syslog = SYSLOG_SOCKET(NULL) };

static const struct {
	const char *name;
	int priority;
} levels[] = {
	[LEVEL_FATAL] = { "FATAL", LOG_CRIT },
	[LEVEL_ERROR] = { "ERROR", LOG_ERR },
	[LEVEL_WARNING] = { "WARNING", LOG_WARNING },
	[LEVEL_LOG] = { "LOG", LOG_INFO },
	[LEVEL_DEBUG] = { "DEBUG", LOG_DEBUG },
	[LEVEL_NOISE] = { "NOISE", LOG_DEBUG },
};

static const struct {
	const char *name;
	int code;
} facilities[] = {
	{ "daemon", LOG_DAEMON }, { "user", LOG_USER },
	{ "auth", LOG_AUTH }, { "authpriv", LOG_AUTHPRIV },
	{ "local0", LOG_LOCAL0 }, { "local1", LOG_LOCAL1 },
	{ "local2", LOG_LOCAL2 }, { "local3", LOG_LOCAL3 },
	{ "local4", LOG_LOCAL4 }, { "local5", LOG_LOCAL5 },
	{ "local6", LOG_LOCAL6 }, { "local7", LOG_LOCAL7 },
};

/* Opens a log file. A pipe without a reader must not block or prevent the start. */
static int open_file(const char *path)
{
	const int flags = O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	int fd = open(path, O_WRONLY | flags, 0644);

	return fd < 0 && errno == ENXIO ? open(path, O_RDWR | flags, 0644) : fd;
}

/* Returns the sink that replaces `old`: its count of lost lines is still to be logged. A rotated file keeps the partial line. */
static struct sink sink_instead(const struct sink *old, int fd)
{
	struct stat file;
	bool is_empty = fstat(fd, &file) != 0 || (S_ISREG(file.st_mode) && file.st_size == 0);

	return (struct sink){ .fd = fd, .is_cut = old->is_cut && !is_empty, .lost = old->lost };
}

bool log_configure(const struct log_config *config)
{
	char *file = mem_copy_string(config->file);
	char *ident = mem_copy_string(config->syslog_ident ? config->syslog_ident : "pgweir");
	int fd = -1;

	if ((config->file && !file) || !ident)
		errno = ENOMEM;
	else if (!file || (fd = open_file(file)) >= 0) {
		struct sink out = sink_instead(&logger.out, fd);

		log_close();
		logger.file = file;
		logger.out = out;
		logger.syslog_on = config->syslog;
		logger.syslog.path = config->syslog_path ? config->syslog_path : SYSLOG_PATH;
		logger.ident = ident;
		logger.facility = LOG_DAEMON;
		for (size_t i = 0; config->syslog_facility && i < sizeof(facilities) / sizeof(facilities[0]); i++)
			if (strcmp(facilities[i].name, config->syslog_facility) == 0)
				logger.facility = facilities[i].code;
		logger.quiet = config->quiet;
		logger.verbose = config->verbose;
		return true;
	}
	/* free(3) preserves errno. */
	mem_free(file);
	mem_free(ident);
	return false;
}

bool log_reopen(void)
{
	int fd;

	if (!logger.file)
		return true;
	fd = open_file(logger.file);
	if (fd < 0)
		return false;
	close(logger.out.fd);
	logger.out = sink_instead(&logger.out, fd);
	return true;
}

bool log_is_on(enum log_level level)
{
	int most = LEVEL_LOG + (logger.verbose < 0 ? 0 : logger.verbose > 2 ? 2 : logger.verbose);

	return (int)level <= most && (!logger.quiet || logger.out.fd >= 0 || logger.syslog_on);
}

/* Writes at most LINE_MOST bytes. Returns the number of bytes written, fewer than `size` if the rest would block or failed. */
static size_t put(struct sink *sink, const char *text, size_t size)
{
	struct pollfd room = { .fd = sink->fd, .events = POLLOUT };
	struct stat file;
	size_t done = 0;

	if (!sink->is_known) {
		sink->may_block = fstat(sink->fd, &file) != 0 || !S_ISREG(file.st_mode);
		sink->is_known = true;
	}
	/* a writable pipe takes PIPE_BUF bytes at once; other processes share stderr, so it must not be set to non-blocking */
	while (done < size && (!sink->may_block || poll(&room, 1, 0) == 1)) {
		ssize_t took = write(sink->fd, text + done, size - done);

		if (took < 0 && errno == EINTR)
			continue;
		if (took <= 0)
			break;
		done += (size_t)took;
	}
	return done;
}

/* Writes the beginning of a line: time, process, level. */
static size_t begin_line(char *line, size_t size, enum log_level level)
{
	char when[64];

	clock_format(clock_wall(), 1, when, sizeof(when));
	return (size_t)snprintf(line, size, "%s [%ld] %s ", when, (long)getpid(), levels[level].name);
}

/* Writes a line, after the number of lost lines if there are any. */
static void write_line(struct sink *sink, const char *line, size_t size)
{
	char loss[192];
	size_t loss_size = 0, took;

	if (sink->lost > 0) {
		if (sink->is_cut)
			loss[loss_size++] = '\n';
		loss_size += begin_line(loss + loss_size, 128, LEVEL_WARNING);
		loss_size += (size_t)snprintf(loss + loss_size, sizeof(loss) - loss_size, LOSS "\n", (unsigned long long)sink->lost);
		took = put(sink, loss, loss_size);
		if (took > 0)
			sink->is_cut = took < loss_size;
		if (took < loss_size) {
			sink->lost++;
			return;
		}
		sink->lost = 0;
	}
	took = put(sink, line, size);
	sink->is_cut = took > 0 && took < size;
	sink->lost += took < size;
}

__attribute__((format(printf, 2, 0)))
void log_write(enum log_level level, const char *format, ...)
{
	char message[LINE_MOST + 1], line[LINE_MOST], loss[96];
	int saved = errno, length;
	va_list args;
	char *text;
	size_t size;

	if (!log_is_on(level))
		return;
	va_start(args, format);
	length = vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	if (length < 0)
		text_copy(message, sizeof(message), format);
	size = begin_line(line, 128, level);
	text = line + size;
	/* a message that was truncated before is truncated again: it does not fit after the beginning of the line */
	printable_text(message, text, sizeof(line) - size);
	size += strlen(text);
	if (logger.syslog_on) {
		/* syslog adds its own time */
		snprintf(loss, sizeof(loss), LOSS, (unsigned long long)logger.syslog_lost);
		if (logger.syslog_lost > 0 && syslog_socket_send(&logger.syslog, logger.facility | LOG_WARNING, logger.ident, loss))
			logger.syslog_lost = 0;
		if (logger.syslog_lost > 0 ||
		    !syslog_socket_send(&logger.syslog, logger.facility | levels[level].priority, logger.ident, text))
			logger.syslog_lost++;
	}
	line[size++] = '\n';
	if (!logger.quiet)
		write_line(&logger.err, line, size);
	if (logger.out.fd >= 0)
		write_line(&logger.out, line, size);
	/* The caller may use errno after logging. */
	errno = saved;
}

void log_close(void)
{
	if (logger.out.fd >= 0)
		close(logger.out.fd);
	syslog_socket_close(&logger.syslog);
	mem_free(logger.file);
	mem_free(logger.ident);
	logger.file = logger.ident = NULL;
	logger.out = (struct sink){ .fd = -1 };
	logger.syslog_on = logger.quiet = false;
	logger.verbose = 0;
}

/*
 * Ends the process after a bug of pgweir was detected. Nothing is repaired, and only the line with the location is logged: the
 * state is wrong, so any further step could send one client's data to another client. The core file, if the system keeps one,
 * has the details.
 */

_Noreturn void assert_failed(const char *file, int line, const char *func, const char *cond)
{
	log_fatal("bug: %s:%d: %s: \"%s\" does not hold", file, line, func, cond);
	abort();
}
