/*
 * The end of a process that has found a bug of its own. Nothing is repaired and
 * nothing is flushed but the one line that says where: the state is wrong by
 * definition, so every further step could hand one client's data to another.
 * The core file, if the system keeps one, shows the rest.
 */
#include "base/assert.h"

#include "base/log.h"

#include <stdlib.h>

_Noreturn void assert_failed(const char *file, int line, const char *func, const char *cond)
{
	log_fatal("bug: %s:%d: %s: \"%s\" does not hold", file, line, func, cond);
	abort();
}
