/*
 * Limits of the operating system. Every connection takes a descriptor; a pooler that runs out of them refuses people
 * whom its configuration promised a place, so the shortage is said at the start and not when it hurts.
 */
#include "main/limits.h"

#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>

static bool set_limit(rlim_t soft, rlim_t hard)
{
	struct rlimit limit = { .rlim_cur = soft, .rlim_max = hard };

	return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

uint64_t limits_need_descriptors(uint64_t count)
{
	struct rlimit have;
	rlim_t reach;

	if (getrlimit(RLIMIT_NOFILE, &have) < 0) {
		log_warning("cannot read the limit of open files: %s", strerror(errno));
		return count;
	}
	/* RLIM_INFINITY is the largest number */
	if (have.rlim_cur >= count)
		return have.rlim_cur;
	if (have.rlim_max < count && set_limit(count, count))
		return count;
	reach = have.rlim_max < count ? have.rlim_max : count;
	if (!set_limit(reach, have.rlim_max))
		reach = have.rlim_cur;
	return reach;
}

void limits_warn(uint64_t count, uint64_t limit)
{
	if (limit < count)
		log_warning("the configuration may need %" PRIu64 " open files, but only %" PRIu64 " are allowed: raise the limit "
			    "(LimitNOFILE= of the service, or \"ulimit -n\"), or lower max_client_conn or the pool sizes",
			    count, limit);
}
