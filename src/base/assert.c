/*
 * Ends the process after a bug of pgweir was detected. Nothing is repaired, and only the line with the location is logged: the
 * state is wrong, so any further step could send one client's data to another client. The core file, if the system keeps one,
 * has the details.
 */
#include "base/assert.h"

#include "base/log.h"

#include <stdlib.h>

_Noreturn void assert_failed(const char *file, int line, const char *func, const char *cond)
{
	log_fatal("bug: %s:%d: %s: \"%s\" does not hold", file, line, func, cond);
	abort();
}
