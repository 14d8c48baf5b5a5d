/* RLIMIT_NOFILE. Each case runs in its own process, because a lowered hard limit cannot be raised again. */
#include "child.h"
#include "unit.h"

#include "base/log.h"
#include "main/limits.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct outcome {
	struct rlimit after;
	char logged[512];
};

static struct outcome need(rlim_t soft, rlim_t hard, bool as_root, uint64_t count)
{
	struct outcome o = { 0 };
	struct child child;

	if (child_fork(&child)) {
		char path[] = "/tmp/test_limits.XXXXXX";
		int fd = mkstemp(path);
		struct log_config config = { .file = path, .quiet = true };
		struct rlimit before = { soft, hard };

		/* The log is unlinked after it is open, so nothing is left even if this process is killed. */
		if (!log_configure(&config) || unlink(path) < 0 || setrlimit(RLIMIT_NOFILE, &before) < 0)
			_exit(2);
		if (!as_root && getuid() == 0 && setuid(65534) < 0)
			_exit(2);
		limits_need_descriptors(count);
		limits_log(count, 100);
		getrlimit(RLIMIT_NOFILE, &o.after);
		log_close();
		(void)!read(fd, o.logged, sizeof o.logged - 1);
		child_report(&child, &o, sizeof o);
		_exit(0);
	}
	CHECK_INT(child_end(&child, &o, sizeof o), 0);
	return o;
}

static bool is_only_line(const struct outcome *o, const char *line)
{
	const char *found = strstr(o->logged, line);

	return found && found[strlen(line)] == '\0' && strchr(o->logged, '\n') == found + strlen(line) - 1;
}

TEST(sufficient_limit_is_not_changed)
{
	struct outcome o = need(200, 400, false, 150);

	CHECK_INT(o.after.rlim_cur, 200);
	CHECK(is_only_line(&o, "LOG kernel file descriptor limit: 200 (hard: 400); max_client_conn: 100, max expected fd use: 150\n"));
}

TEST(soft_limit_is_raised_to_the_need)
{
	struct outcome o = need(200, 400, false, 300);

	CHECK_INT(o.after.rlim_cur, 300);
	CHECK_INT(o.after.rlim_max, 400);
	CHECK(is_only_line(&o, "LOG kernel file descriptor limit: 300 (hard: 400); max_client_conn: 100, max expected fd use: 300\n"));
}

TEST(insufficient_limit_is_logged_and_raised_to_the_maximum)
{
	struct outcome o = need(200, 400, false, 5000);

	CHECK_INT(o.after.rlim_cur, 400);
	CHECK(strstr(o.logged, "WARNING") && strstr(o.logged, "5000") && strstr(o.logged, "400"));
	CHECK(strstr(o.logged, "LimitNOFILE=") && strstr(o.logged, "max_client_conn"));
}

/* Containers may remove this capability from root. */
TEST(root_raises_the_hard_limit)
{
	struct rlimit now, more;

	getrlimit(RLIMIT_NOFILE, &now);
	more = now;
	more.rlim_max = now.rlim_max == RLIM_INFINITY ? now.rlim_max : now.rlim_max + 1;
	if (getuid() != 0 || setrlimit(RLIMIT_NOFILE, &more) < 0) {
		printf("(needs a privileged root)\n");
		return;
	}
	struct outcome o = need(200, 400, true, 5000);

	CHECK_INT(o.after.rlim_cur, 5000);
	CHECK_INT(o.after.rlim_max, 5000);
	CHECK(!strstr(o.logged, "WARNING"));
}

UNIT_MAIN
