/*
 * The log: one event, one line, one write(2).
 *
 * 2026-11-21 02:01:23.820 UTC [PID] LEVEL MESSAGE
 * {"time":"2026-11-21T02:01:23.820Z","level":"LEVEL","pid":PID,"client":"C-0x1f",
 *  "database":"d","user":"u","address":"A","message":"MESSAGE"}
 *
 * A complete line is written with one call, to a file opened with O_APPEND: lines of several
 * processes do not mix, no buffer is lost when the process dies, and a rotated file is complete. A
 * message may contain bytes from a peer (a database name, an error text), so unprintable bytes are
 * written as \xNN (printable.c) and cannot begin a new line. A line including its end has at most
 * PIPE_BUF bytes, which a pipe accepts atomically; callers limit texts from peers to much less
 * (PRINTABLE_NAME, PRINTABLE_TEXT).
 *
 * Logging never fails and never blocks its caller: with a full disk, a pipe without a reader or a
 * syslog daemon that hangs, lines are lost, but no connections. Each sink counts the lines that it
 * lost, and logs the count when it accepts lines again.
 *
 * Folding: `repeats` has an entry for each line that was first written less than log_config.fold
 * ago. A line without an entry is written at once. If there is no room, the oldest entry is ended
 * early: a flood of many kinds is folded less, and no first line is ever held back.
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
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/syslog_socket.h"
#include "base/text.h"

#define LINE_MOST PIPE_BUF	/* longer lines are truncated and end in "..." */
#define LOSS "lines of the log that could not be written: %llu"

#define REPEATS_MOST 64
#define SUBJECT_TEXT 256

/* The copy of a struct log_subject; the names are printable. */
struct subject {
	char text[SUBJECT_TEXT], database[PRINTABLE_NAME], user[PRINTABLE_NAME],
		address[PRINTABLE_NAME];
};

/* The subjects in a line. NULL: none of the kind. */
struct about {
	const struct subject *of[LOG_SUBJECTS];
};

/* A written line, and how often it was repeated since then. */
struct repeat {
	const char *format;		/* NULL: unused */
	int64_t kind;
	enum log_level level;
	usec_t since;			/* the first line */
	unsigned long long count;	/* lines that were not written */
	char tenant[2 * PRINTABLE_NAME + 2];
	bool has[LOG_SUBJECTS];		/* `subjects` of the last line are set */
	struct subject subjects[LOG_SUBJECTS];
	char last[PRINTABLE_TEXT];	/* the last of these lines */
};

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
	bool json;
	int verbose;
	usec_t fold;
	int repeat_count;	/* entries of `repeats` in use */
} logger = { .out = { .fd = -1 }, .err = { .fd = STDERR_FILENO }, .syslog = SYSLOG_SOCKET(NULL) };

static struct subject subjects[LOG_SUBJECTS];
/* Members of the next line: "\"duration_ms\":1.5,". Together with the subjects they take less than
   half of a line. */
#define MEMBERS_MOST 1024
static char members[MEMBERS_MOST];
static struct repeat repeats[REPEATS_MOST];

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
static int log_open_file(const char *path)
{
	const int flags = O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	int fd = open(path, O_WRONLY | flags, 0644);

	return fd < 0 && errno == ENXIO ? open(path, O_RDWR | flags, 0644) : fd;
}

/* Returns the sink that replaces `old`: its count of lost lines is still to be logged. A rotated
   file keeps the partial line. */
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
	else if (!file || (fd = log_open_file(file)) >= 0) {
		struct sink out = sink_instead(&logger.out, fd);

		log_close();
		logger.file = file;
		logger.out = out;
		logger.syslog_on = config->syslog;
		logger.syslog.path = config->syslog_path ? config->syslog_path : SYSLOG_PATH;
		logger.ident = ident;
		logger.facility = LOG_DAEMON;
		for (size_t i = 0;
		     config->syslog_facility && i < sizeof(facilities) / sizeof(facilities[0]); i++)
			if (strcmp(facilities[i].name, config->syslog_facility) == 0)
				logger.facility = facilities[i].code;
		logger.quiet = config->quiet;
		logger.json = config->json;
		logger.fold = config->fold;
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
	fd = log_open_file(logger.file);
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

/* Writes at most LINE_MOST bytes. Returns the number of bytes written, fewer than `size` if the
   rest would block or failed. */
static size_t log_put(struct sink *sink, const char *text, size_t size)
{
	struct pollfd room = { .fd = sink->fd, .events = POLLOUT };
	struct stat file;
	size_t done = 0;

	if (!sink->is_known) {
		sink->may_block = fstat(sink->fd, &file) != 0 || !S_ISREG(file.st_mode);
		sink->is_known = true;
	}
	/* a writable pipe takes PIPE_BUF bytes at once; other processes share stderr, so it must
	   not be set to non-blocking */
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

/* ---- lines ---- */

static size_t json_field(char *to, const char *name, const char *value)
{
	char quoted[2 * PRINTABLE_NAME];

	return (size_t)sprintf(to, "\"%s\":\"%s\",", name,
			       printable_inside(value, quoted, sizeof(quoted)));
}

/* Writes the beginning of a line: time, process, level; as JSON also the subjects and the number of
   folded lines, if it is not 0, up to "message":. `to` has room for LINE_MOST bytes; at most half
   of them are used. */
static size_t begin_line(char *to, enum log_level level, const struct about *about,
			 unsigned long long folded)
{
	static const char *const ids[] = {
		[LOG_CLIENT] = "client", [LOG_SERVER] = "server", [LOG_POOL] = NULL
	};
	usec_t now = clock_wall();
	time_t seconds = (time_t)(now / USEC);
	const struct subject *first = NULL;
	struct tm parts = { .tm_year = 0 };
	char when[64], id[32];
	size_t size;

	if (!logger.json)
		return (size_t)sprintf(to, "%s [%ld] %s ", clock_format(now, 1, when, sizeof(when)),
				       (long)getpid(), levels[level].name);
	gmtime_r(&seconds, &parts);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &parts);
	size = (size_t)sprintf(to, "{\"time\":\"%s.%03dZ\",\"level\":\"%s\",\"pid\":%ld,", when,
			       (int)(now % USEC / 1000), levels[level].name, (long)getpid());
	for (int kind = 0; kind < LOG_SUBJECTS; kind++) {
		const struct subject *subject = about->of[kind];

		if (subject && ids[kind])
			size += json_field(
				to + size, ids[kind],
				(snprintf(id, sizeof(id), "%.*s", (int)strcspn(subject->text, ":"),
					  subject->text),
				 id));
		if (subject && !first)
			first = subject;
	}
	if (first && *first->database)
		size += json_field(to + size, "database", first->database);
	if (first && *first->user)
		size += json_field(to + size, "user", first->user);
	if (first && *first->address)
		size += json_field(to + size, "address", first->address);
	if (folded > 0)
		size += (size_t)sprintf(to + size, "\"folded\":%llu,", folded);
	else
		size += (size_t)sprintf(to + size, "%s", members);
	return size;
}

/* Writes a line of at most LINE_MOST - 1 bytes and a NUL. Returns its length. *shown: the part for
   syslog, which adds time and process itself. */
static size_t make_line(char *line, enum log_level level, const struct about *about,
			unsigned long long folded, const char *message, const char **shown)
{
	size_t size = begin_line(line, level, about, folded), prefix;
	char text[LINE_MOST];

	/* the message may have been truncated earlier, and is truncated again, because it does not
	   fit after the beginning of the line */
	printable_text(message, text, sizeof(text) - size);
	*shown = line;
	if (!logger.json) {
		*shown = line + size;
		size += strlen(strcpy(line + size, text));
	} else {
		message = text;
		/* the fields have it */
		for (int kind = 0; kind < LOG_SUBJECTS && folded == 0; kind++) {
			prefix = about->of[kind] ? strlen(about->of[kind]->text) : 0;
			if (prefix > 0 && strncmp(message, about->of[kind]->text, prefix) == 0 &&
			    message[prefix] == ' ')
				message += prefix + 1;
		}
		size += (size_t)sprintf(line + size, "\"message\":\"");
		printable_inside(message, line + size, LINE_MOST - size - 2);
		size += strlen(line + size);
		size += (size_t)sprintf(line + size, "\"}");
	}
	return size;
}

/* Writes a line, after the number of lost lines if there are any. */
static void log_write_line(struct sink *sink, const char *line, size_t size)
{
	char loss[LINE_MOST + 1], text[96];
	const char *shown;
	size_t loss_size = 0, took;

	if (sink->lost > 0) {
		if (sink->is_cut)
			loss[loss_size++] = '\n';
		snprintf(text, sizeof(text), LOSS, (unsigned long long)sink->lost);
		loss_size += make_line(loss + loss_size, LEVEL_WARNING,
				       &(struct about){ .of = { NULL } }, 0, text, &shown);
		loss[loss_size++] = '\n';
		took = log_put(sink, loss, loss_size);
		if (took > 0)
			sink->is_cut = took < loss_size;
		if (took < loss_size) {
			sink->lost++;
			return;
		}
		sink->lost = 0;
	}
	took = log_put(sink, line, size);
	sink->is_cut = took > 0 && took < size;
	sink->lost += took < size;
}

/* ---- the last warnings ---- */

static struct log_recent recent[LOG_RECENT_MOST];
/* since the start: the next is recent[recent_count % LOG_RECENT_MOST] */
static size_t recent_count;

static void log_remember(enum log_level level, const char *message)
{
	struct log_recent *r = &recent[recent_count++ % LOG_RECENT_MOST];

	r->time = clock_wall();
	r->level = levels[level].name;
	printable_text(message, r->text, sizeof(r->text));
}

const struct log_recent *log_recent(size_t back)
{
	return back < recent_count && back < LOG_RECENT_MOST
		       ? &recent[(recent_count - 1 - back) % LOG_RECENT_MOST]
		       : NULL;
}

static void write_to_all(enum log_level level, const struct about *about, unsigned long long folded,
			 const char *message)
{
	static const struct about nothing = { .of = { NULL } };
	char line[LINE_MOST + 1], loss[96];
	const char *shown;
	size_t size;

	if (level <= LEVEL_WARNING)
		log_remember(level, message);
	if (logger.syslog_on && logger.syslog_lost > 0) {
		snprintf(loss, sizeof(loss), LOSS, (unsigned long long)logger.syslog_lost);
		make_line(line, LEVEL_WARNING, &nothing, 0, loss, &shown);
		if (syslog_socket_send(&logger.syslog, logger.facility | LOG_WARNING, logger.ident,
				       shown))
			logger.syslog_lost = 0;
	}
	size = make_line(line, level, about, folded, message, &shown);
	if (logger.syslog_on &&
	    (logger.syslog_lost > 0 ||
	     !syslog_socket_send(&logger.syslog, logger.facility | levels[level].priority,
				 logger.ident, shown)))
		logger.syslog_lost++;
	line[size++] = '\n';
	if (!logger.quiet)
		log_write_line(&logger.err, line, size);
	if (logger.out.fd >= 0)
		log_write_line(&logger.out, line, size);
}

/* ---- subjects ---- */

void log_subject(enum log_subject_kind kind, const struct log_subject *subject)
{
	struct subject *copy = &subjects[kind];

	if (!logger.json && logger.fold == 0)
		return;
	text_copy(copy->text, sizeof(copy->text), subject->text);
	printable_text(subject->database ? subject->database : "", copy->database,
		       sizeof(copy->database));
	printable_text(subject->user ? subject->user : "", copy->user, sizeof(copy->user));
	printable_text(subject->address ? subject->address : "", copy->address,
		       sizeof(copy->address));
}

void log_member(const char *name, const char *value, bool is_number)
{
	size_t used = strlen(members), room = sizeof(members) - used,
	       frame = strlen(name) + sizeof("\"\":\"\",");
	char shown[MEMBERS_MOST];

	if (!logger.json || room <= frame + 8)
		return;
	if (is_number)
		text_copy(shown, room - frame, value);
	else
		printable_inside(value, shown, room - frame);
	snprintf(members + used, room, is_number ? "\"%s\":%s," : "\"%s\":\"%s\",", name, shown);
}

static struct about subjects_of(const char *message)
{
	struct about about;

	for (int kind = 0; kind < LOG_SUBJECTS; kind++) {
		const char *text = subjects[kind].text;
		bool is_named = (logger.json || logger.fold > 0) && *text && strstr(message, text);

		about.of[kind] = is_named ? &subjects[kind] : NULL;
	}
	return about;
}

unsigned long long log_lines_lost(void)
{
	bool has_other = logger.out.fd >= 0 || logger.syslog_on;

	return (has_other ? logger.out.lost : logger.err.lost) +
	       (logger.syslog_on ? logger.syslog_lost : 0);
}

/* ---- folding ---- */

/* Forgets an entry, after writing the count of its folded lines. */
static void end_repeat(struct repeat *r)
{
	char message[PRINTABLE_TEXT + 96];
	struct about about;

	for (int kind = 0; kind < LOG_SUBJECTS; kind++)
		about.of[kind] = r->has[kind] ? &r->subjects[kind] : NULL;
	r->format = NULL;
	logger.repeat_count--;
	if (r->count == 0)
		return;
	snprintf(message, sizeof(message), "%llu more in %lld s, the last one: %s", r->count,
		 (long long)((clock_monotonic() - r->since) / USEC), r->last);
	write_to_all(r->level, &about, r->count, message);
}

void log_tick(usec_t now)
{
	for (struct repeat *r = repeats; logger.repeat_count > 0 && r < repeats + REPEATS_MOST; r++)
		if (r->format && now - r->since >= logger.fold)
			end_repeat(r);
}

/* Returns whether the line is a repetition, which is only counted; otherwise it is the first line
   of a new entry. */
static bool count_repeat(const struct repeat *key, const struct about *about, const char *message)
{
	struct repeat *r, *entry = repeats;
	usec_t now = clock_monotonic();

	log_tick(now);
	for (r = repeats; r < repeats + REPEATS_MOST; r++) {
		if (r->format == key->format && r->kind == key->kind && r->level == key->level &&
		    strcmp(r->tenant, key->tenant) == 0)
			break;
		if (entry->format && (!r->format || r->since < entry->since))
			entry = r;
	}
	if (r == repeats + REPEATS_MOST) {
		if (entry->format)
			end_repeat(entry);
		*entry = *key;
		entry->since = now;
		logger.repeat_count++;
		return false;
	}
	r->count++;
	for (int kind = 0; kind < LOG_SUBJECTS; kind++) {
		r->has[kind] = about->of[kind] != NULL;
		if (about->of[kind])
			r->subjects[kind] = *about->of[kind];
	}
	printable_text(message, r->last, sizeof(r->last));
	return true;
}

/* Fills the key of `r`: two lines with the same key are repetitions. */
static void make_key(struct repeat *r, enum log_level level, int64_t kind, const char *format,
		     const struct about *about)
{
	const struct subject *subject = NULL;

	for (int i = LOG_SUBJECTS - 1; i >= 0; i--)
		if (about->of[i])
			subject = about->of[i];
	*r = (struct repeat){ .format = format, .kind = kind, .level = level };
	if (subject)
		snprintf(r->tenant, sizeof(r->tenant), "%s\n%s", subject->database, subject->user);
}

void log_repeatable(enum log_level level, int64_t kind, const char *format, ...)
{
	char message[LINE_MOST + 1];
	int saved = errno, size;
	struct about about;
	struct repeat key;
	va_list args;

	if (!log_is_on(level))
		return;
	va_start(args, format);
	size = vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	if (size < 0)
		text_copy(message, sizeof(message), format);
	about = subjects_of(message);
	if (kind != LOG_EVERY && logger.fold > 0)
		make_key(&key, level, kind, format, &about);
	if (kind == LOG_EVERY || logger.fold == 0 || !count_repeat(&key, &about, message))
		write_to_all(level, &about, 0, message);
	members[0] = '\0';
	/* The caller may use errno after logging. */
	errno = saved;
}

void log_close(void)
{
	log_tick(INT64_MAX);
	if (logger.out.fd >= 0)
		close(logger.out.fd);
	syslog_socket_close(&logger.syslog);
	mem_free(logger.file);
	mem_free(logger.ident);
	logger.file = logger.ident = NULL;
	logger.out = (struct sink){ .fd = -1 };
	logger.syslog_on = logger.quiet = logger.json = false;
	logger.fold = 0;
	logger.verbose = 0;
}

/*
 * Ends the process after a bug of pgweir was detected. Nothing is repaired, and only the line with
 * the location is logged: the state is wrong, so any further step could send one client's data to
 * another client. The core file, if the system keeps one, has the details.
 */

_Noreturn void assert_failed(const char *file, int line, const char *func, const char *cond)
{
	log_fatal("bug: %s:%d: %s: \"%s\" does not hold", file, line, func, cond);
	abort();
}
