/*
 * Preloaded: what goes to syslog(3) is appended to the file $SYSLOG_FILE, one line "facility.priority ident: text". A test
 * has no other way to see it, because /dev/log belongs to the machine.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <syslog.h>

#undef syslog

void __syslog_chk(int priority, int flag, const char *format, ...);

static const char *given_ident = "";
static int given_facility;

void openlog(const char *ident, int option, int facility)
{
	(void)option;
	given_ident = ident;
	given_facility = facility;
}

static void append(int priority, const char *format, va_list args)
{
	FILE *file = fopen(getenv("SYSLOG_FILE"), "a");

	if (!file)
		return;
	fprintf(file, "%d.%d %s: ", given_facility >> 3, priority & LOG_PRIMASK, given_ident);
	vfprintf(file, format, args);
	fputc('\n', file);
	fclose(file);
}

void syslog(int priority, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	append(priority, format, args);
	va_end(args);
}

/* What the C library's headers make of it with _FORTIFY_SOURCE. */
void __syslog_chk(int priority, int flag, const char *format, ...)
{
	va_list args;

	(void)flag;
	va_start(args, format);
	append(priority, format, args);
	va_end(args);
}
