#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdarg.h>

/*
 * One event, one line: "2026-11-21 02:01:23.820 UTC [PID] LEVEL MESSAGE", written at once to stderr, a file and syslog, as
 * configured. What is not printable in a message (a peer may have chosen it) is written as \xNN, so no peer can forge a line;
 * a line of more than PIPE_BUF bytes is cut. A peer's name or text within a message goes through printable_name(),
 * printable_inside() or printable_text() before, so that it can forge no field and is short. Logging never waits: what cannot
 * be written at once is lost, counted, and said as soon as there is room again.
 */
enum log_level { LEVEL_FATAL, LEVEL_ERROR, LEVEL_WARNING, LEVEL_LOG, LEVEL_DEBUG, LEVEL_NOISE };

struct log_config {
	const char *file;		/* path appended to, or NULL */
	bool syslog;
	const char *syslog_path;	/* where its daemon listens, not copied; NULL: /dev/log */
	const char *syslog_ident;	/* copied; NULL: "pgweir" */
	const char *syslog_facility;	/* daemon user auth authpriv local0..local7 */
	int verbose;			/* 0: up to LOG, 1: + DEBUG, 2 and more: + NOISE */
	bool quiet;			/* nothing to stderr */
};

/* Takes over a configuration (strings are copied); the file is opened anew.
   False, with errno, when the file cannot be opened: the old one stays. */
bool log_configure(const struct log_config *config);
/* Opens the file of the same name anew, after rotation. False as above. */
bool log_reopen(void);
/* True when a line of this level would be written somewhere. */
bool log_is_on(enum log_level level);
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Closes file and syslog and frees what the log owns; what is still said goes to stderr,
   unless that is detached. */
void log_close(void);

#define log_fatal(...) log_write(LEVEL_FATAL, __VA_ARGS__)
#define log_error(...) log_write(LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_write(LEVEL_LOG, __VA_ARGS__)
#define log_debug(...) do { if (log_is_on(LEVEL_DEBUG)) log_write(LEVEL_DEBUG, __VA_ARGS__); } while (0)
#define log_noise(...) do { if (log_is_on(LEVEL_NOISE)) log_write(LEVEL_NOISE, __VA_ARGS__); } while (0)

#endif
