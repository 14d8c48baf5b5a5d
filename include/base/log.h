#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/clock.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * One event, one line: "2026-11-21 02:01:23.820 UTC [PID] LEVEL MESSAGE", or with log_config.json a
 * JSON object, written at once to stderr, a file and syslog, as configured. Unprintable bytes are
 * written as \xNN, so that a peer cannot forge a line; a line longer than PIPE_BUF bytes is
 * truncated. Callers pass names and texts of peers through printable_name(), printable_inside() or
 * printable_text(), so that these are short and cannot forge a field. Logging never blocks: if a
 * line cannot be written at once, it is lost and counted, and the count is logged as soon as
 * writing succeeds again.
 */
enum log_level { LEVEL_FATAL, LEVEL_ERROR, LEVEL_WARNING, LEVEL_LOG, LEVEL_DEBUG, LEVEL_NOISE };

struct log_config {
	const char *file;		/* path appended to, or NULL */
	bool syslog;
	const char *syslog_path;	/* socket of the daemon, not copied; NULL: /dev/log */
	const char *syslog_ident;	/* copied; NULL: "pgweir" */
	const char *syslog_facility;	/* daemon user auth authpriv local0..local7 */
	bool json;			/* one object a line, also for syslog */
	/* log_repeatable() lines are folded for this time; 0: never */
	usec_t fold;
	int verbose;			/* 0: up to LOG, 1: + DEBUG, 2 and more: + NOISE */
	bool quiet;			/* no output to stderr */
};

/* Applies a configuration (strings are copied) and reopens the file. False with errno: the file
   cannot be opened, and the old file stays in use. */
bool log_configure(const struct log_config *config);
/* Reopens the file of the same name, after log rotation. False with errno: the file cannot be
   opened, and the old file stays in use. */
bool log_reopen(void);
/* Whether a line of this level would be written. */
bool log_is_on(enum log_level level);
/* For lines that may repeat in a flood, such as refused logins of an attacker. Within
   log_config.fold after such a line, lines with the same `format`, `kind` and names of a
   log_subject() are only counted, and then the count and the last of them are written. `kind` tells
   apart the errors that one format reports, such as an enum close_reason. LOG_EVERY: the line is
   never folded. */
#define LOG_EVERY (-1)
void log_repeatable(enum log_level level, int64_t kind, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
#define log_write(level, ...) log_repeatable(level, LOG_EVERY, __VA_ARGS__)
/* Writes the counts of lines that log_config.fold has held back. Called several times a second. */
void log_tick(usec_t now);

/* Returns the number of lines that the log file and syslog, or without both stderr, have lost since
   they have taken a line. */
unsigned long long log_lines_lost(void);

/*
 * A connection or pool that the next line may name. `text` is how the line writes the subject:
 * "C-0x1f: db/user@10.0.0.1:5432". A line that contains the text of the last subject of a kind has
 * its names as fields of the JSON object, and is folded only with lines of the same database and
 * user. The strings are copied.
 */
enum log_subject_kind { LOG_CLIENT, LOG_SERVER, LOG_POOL, LOG_SUBJECTS };
struct log_subject { const char *text, *database, *user, *address; };
void log_subject(enum log_subject_kind kind, const struct log_subject *subject);

/* Adds a member to the JSON object of the next line: a number, or a text, which is shortened if
   necessary. Without log_config.json it does nothing. The level of the line is on. */
void log_member(const char *name, const char *value, bool is_number);

/*
 * The last lines of level WARNING and above, for the page: `back` is 0 for the last one. NULL:
 * there is none. The ring is static, and lines stay in it over log_close().
 */
#define LOG_RECENT_MOST 64
struct log_recent { usec_t time; const char *level; char text[512]; };	/* time: wall clock */
const struct log_recent *log_recent(size_t back);

/* Closes file and syslog and frees the memory of the log. Later lines go to stderr, unless it is
   detached. */
void log_close(void);

#define log_fatal(...) log_write(LEVEL_FATAL, __VA_ARGS__)
#define log_error(...) log_write(LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_write(LEVEL_LOG, __VA_ARGS__)
#define log_debug(...) \
	do { \
		if (log_is_on(LEVEL_DEBUG)) \
			log_write(LEVEL_DEBUG, __VA_ARGS__); \
	} while (0)
#define log_noise(...) \
	do { \
		if (log_is_on(LEVEL_NOISE)) \
			log_write(LEVEL_NOISE, __VA_ARGS__); \
	} while (0)

#endif
