/*
 * Limits of the operating system. Every connection takes a descriptor, and without descriptors pgweir would refuse clients that
 * the configuration admits. A low limit is logged at start, before it has an effect.
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

void limits_need_descriptors(uint64_t count)
{
	struct rlimit have;

	if (getrlimit(RLIMIT_NOFILE, &have) < 0) {
		log_warning("cannot read the limit of open files: %s", strerror(errno));
		return;
	}
	/* RLIM_INFINITY is the largest number */
	if (have.rlim_cur >= count)
		return;
	if (have.rlim_max < count && set_limit(count, count))
		return;
	set_limit(have.rlim_max < count ? have.rlim_max : count, have.rlim_max);
}

void limits_log(uint64_t count, int64_t max_client_conn)
{
	struct rlimit have;

	if (getrlimit(RLIMIT_NOFILE, &have) < 0)
		return;
	log_info("kernel file descriptor limit: %" PRId64 " (hard: %" PRId64 "); max_client_conn: %" PRId64 ", max expected fd use: %" PRIu64,
		 (int64_t)have.rlim_cur, (int64_t)have.rlim_max, max_client_conn, count);
	if (have.rlim_cur < count)
		log_warning("the configuration may need %" PRIu64 " open files, but only %" PRIu64 " are allowed: raise the limit "
			    "(LimitNOFILE= of the service, or \"ulimit -n\"), or lower max_client_conn or the pool sizes",
			    count, (uint64_t)have.rlim_cur);
}
