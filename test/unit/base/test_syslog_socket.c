/*
 * The syslog sender with a daemon that the test plays: the datagrams byte by byte; and the sender does not wait for a daemon that does not read, has
 * gone, or comes back. A sender that waited would hang here forever.
 */
#include "base/syslog_socket.h"

#include "base/log.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#define NEVER INT64_MAX

static char dir[64], path[96];
static char got[65536];

static void setup(void)
{
	strcpy(dir, "/tmp/pgweir-syslog-XXXXXX");
	if (!mkdtemp(dir))
		abort();
	snprintf(path, sizeof(path), "%s/log", dir);
}

static void teardown(void)
{
	unlink(path);
	rmdir(dir);
}

/* Opens the socket of the daemon. The socket does not block: sent datagrams are already queued. */
static int listens(int type)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	strcpy(at.sun_path, path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || (type == SOCK_STREAM && listen(fd, 8) != 0))
		abort();
	return fd;
}

static void goes(int daemon)
{
	close(daemon);
	unlink(path);
}

/* Returns the next message in the queue of the daemon ("": none). */
static const char *next(int daemon)
{
	ssize_t size = recv(daemon, got, sizeof(got) - 1, 0);

	got[size > 0 ? size : 0] = '\0';
	return got;
}

/* Returns the text of a line of the form "<132>TIME weir[PID]: TEXT" (local0, warning). */
static const char *text_of(const char *line)
{
	char head[128], pid[32];
	regex_t regex;
	regmatch_t match;
	const char *text = "(another line)";

	snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	snprintf(head, sizeof(head), "^<132>[A-Z][a-z]{2} [ 1-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-6][0-9] weir\\[%s\\]: ", pid);
	if (regcomp(&regex, head, REG_EXTENDED) != 0)
		abort();
	if (regexec(&regex, line, 1, &match, 0) == 0)
		text = line + match.rm_eo;
	regfree(&regex);
	return *line ? text : "";
}

static bool say(struct syslog_socket *s, const char *text)
{
	return syslog_socket_send(s, LOG_LOCAL0 | LOG_WARNING, "weir", text);
}

/* Sends until the socket accepts no more. */
static int fill(struct syslog_socket *s)
{
	int taken = 0;

	while (say(s, "more"))
		taken++;
	return taken;
}

static int read_all(int daemon, const char *text)
{
	int count = 0;

	for (const char *line = next(daemon); *line; line = next(daemon)) {
		CHECK_TEXT(text_of(line), text);
		count++;
	}
	return count;
}

TEST(line_is_sent_as_one_datagram)
{
	struct syslog_socket s = SYSLOG_SOCKET(path);
	int daemon;

	setup();
	daemon = listens(SOCK_DGRAM);
	CHECK(say(&s, "one"));
	CHECK(say(&s, ""));
	CHECK(syslog_socket_send(&s, LOG_DAEMON | LOG_INFO, "a program: x", "%s %n"));
	CHECK_TEXT(text_of(next(daemon)), "one");
	CHECK_TEXT(text_of(next(daemon)), "");
	CHECK(strncmp(next(daemon), "<30>", 4) == 0);
	CHECK(strstr(got, " a program: x[") && strstr(got, "]: %s %n"));
	CHECK_TEXT(next(daemon), "");
	CHECK_INT(fcntl(s.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	syslog_socket_close(&s);
	syslog_socket_close(&s);
	close(daemon);
	teardown();
}

TEST(time_is_local_and_independent_of_the_locale)
{
	struct syslog_socket s = SYSLOG_SOCKET(path);
	int daemon;
	time_t before, after;

	setup();
	setenv("TZ", "XYZ-5:30", 1);
	tzset();
	daemon = listens(SOCK_DGRAM);
	/* the second may change between the two readings of the clock */
	do {
		char want[64];
		struct tm t;

		before = (time_t)(clock_wall() / USEC);
		CHECK(say(&s, "x"));
		after = (time_t)(clock_wall() / USEC);
		localtime_r(&before, &t);
		strftime(want, sizeof(want), "<132>%b %e %H:%M:%S weir[", &t);
		next(daemon);
		if (before == after)
			CHECK(strncmp(got, want, strlen(want)) == 0);
	} while (before != after);
	unsetenv("TZ");
	tzset();
	syslog_socket_close(&s);
	close(daemon);
	teardown();
}

TEST(stream_daemon_gets_a_nul_after_each_line)
{
	struct syslog_socket s = SYSLOG_SOCKET(path);
	int daemon, connection;
	size_t first;

	setup();
	daemon = listens(SOCK_STREAM);
	CHECK(say(&s, "one"));
	CHECK(say(&s, "two"));
	connection = accept4(daemon, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	REQUIRE(connection >= 0);
	next(connection);
	first = strlen(got) + 1;
	CHECK_TEXT(text_of(got), "one");
	CHECK_TEXT(text_of(got + first), "two");
	CHECK_INT(recv(connection, got, 1, 0), -1);
	CHECK_INT(errno, EAGAIN);
	syslog_socket_close(&s);
	close(connection);
	close(daemon);
	teardown();
}

TEST(sender_does_not_wait_for_a_full_datagram_socket)
{
	struct syslog_socket s = SYSLOG_SOCKET(path);
	int daemon, taken;

	setup();
	daemon = listens(SOCK_DGRAM);
	taken = fill(&s);
	CHECK(taken > 0);
	CHECK(!say(&s, "lost"));
	CHECK_INT(read_all(daemon, "more"), taken);
	CHECK(say(&s, "again"));
	CHECK_TEXT(text_of(next(daemon)), "again");
	syslog_socket_close(&s);
	close(daemon);
	teardown();
}

TEST(sender_does_not_wait_for_a_full_stream)
{
	struct syslog_socket s = SYSLOG_SOCKET(path);
	int daemon, connection, taken, ends = 0;

	setup();
	daemon = listens(SOCK_STREAM);
	taken = fill(&s);
	CHECK(taken > 0);
	CHECK(!say(&s, "lost"));
	connection = accept4(daemon, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	REQUIRE(connection >= 0);
	for (ssize_t size; (size = recv(connection, got, sizeof(got), 0)) > 0;)
		for (ssize_t i = 0; i < size; i++)
			ends += got[i] == '\0';
	CHECK_INT(ends, taken);
	CHECK(say(&s, "again"));
	next(connection);
	CHECK_TEXT(text_of(got), "again");
	syslog_socket_close(&s);
	close(connection);
	close(daemon);
	teardown();
}

TEST(sender_does_not_wait_for_accept)
{
	struct syslog_socket all[50];
	int daemon, count = 0;

	setup();
	daemon = listens(SOCK_STREAM);
	do
		all[count] = (struct syslog_socket)SYSLOG_SOCKET(path);
	while (say(&all[count++], "knock") && count < 50);
	CHECK_INT(all[--count].fd, -1);
	CHECK(count > 0 && all[count].next_try > 0);
	while (--count >= 0)
		syslog_socket_close(&all[count]);
	close(daemon);
	teardown();
}

TEST(restarted_daemon_is_found_at_once)
{
	struct syslog_socket s = SYSLOG_SOCKET(path);
	static const int types[] = { SOCK_DGRAM, SOCK_DGRAM, SOCK_STREAM, SOCK_STREAM, SOCK_DGRAM };
	int daemon, connection = -1;

	setup();
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		daemon = listens(types[i]);
		CHECK(say(&s, "hello"));
		if (types[i] == SOCK_STREAM)
			connection = accept4(daemon, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		CHECK_TEXT(text_of(next(types[i] == SOCK_STREAM ? connection : daemon)), "hello");
		if (types[i] == SOCK_STREAM)
			close(connection);
		goes(daemon);
	}
	syslog_socket_close(&s);
	teardown();
}

TEST(missing_daemon_is_retried_after_a_second)
{
	struct syslog_socket s = SYSLOG_SOCKET(path);
	usec_t begin = clock_monotonic();
	int daemon;

	setup();
	CHECK(!say(&s, "lost"));
	CHECK(s.next_try >= begin + USEC && s.next_try <= clock_monotonic() + USEC);
	s.next_try = NEVER;
	daemon = listens(SOCK_DGRAM);
	CHECK(!say(&s, "too early"));
	CHECK_INT(s.next_try, NEVER);
	s.next_try = clock_monotonic();
	CHECK(say(&s, "in time"));
	CHECK_TEXT(text_of(next(daemon)), "in time");
	CHECK_TEXT(next(daemon), "");
	/* the reverse case: the daemon disappears while it is connected */
	goes(daemon);
	CHECK(!say(&s, "lost"));
	CHECK(s.fd == -1 && s.next_try > begin);
	s.next_try = 0;
	daemon = listens(SOCK_DGRAM);
	CHECK(say(&s, "back"));
	CHECK_TEXT(text_of(next(daemon)), "back");
	syslog_socket_close(&s);
	close(daemon);
	teardown();
}

TEST(path_that_is_too_long_counts_as_missing_daemon)
{
	char far[200];
	struct syslog_socket s = SYSLOG_SOCKET(far);

	memset(far, 'x', sizeof(far) - 1);
	far[sizeof(far) - 1] = '\0';
	CHECK(!say(&s, "lost"));
	CHECK_INT(s.fd, -1);
}

TEST(line_longer_than_a_datagram_is_truncated)
{
	struct syslog_socket s = SYSLOG_SOCKET(path);
	static char text[33000];
	int daemon, least = 1;

	setup();
	daemon = listens(SOCK_DGRAM);
	memset(text, 'x', sizeof(text) - 1);
	CHECK(say(&s, text));
	CHECK_TEXT(text_of(next(daemon)), text);
	CHECK_INT(setsockopt(s.fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)), 0);
	CHECK(say(&s, text));
	CHECK_INT(strlen(next(daemon)), 1024);
	CHECK(strspn(text_of(got), "x") > 900);
	CHECK_TEXT(got + 1021, "...");
	CHECK(say(&s, "short"));
	CHECK_TEXT(text_of(next(daemon)), "short");
	syslog_socket_close(&s);
	close(daemon);
	teardown();
}

/* ---- the log in front of it ---- */

static void log_to_syslog(const char *ident, const char *facility)
{
	char copy[16];
	const struct log_config config = {
		.syslog = true, .syslog_path = path, .syslog_ident = ident ? copy : NULL, .syslog_facility = facility, .quiet = true,
	};

	if (ident)
		strcpy(copy, ident);
	CHECK(log_configure(&config));
	/* the log owns the daemon's name from now on */
	memset(copy, 'x', sizeof(copy));
}

static void swamp(int daemon, int *taken, int *lost)
{
	/* more lines than any queue holds */
	for (int i = 0; i < 3000; i++)
		log_warning("more");
	*taken = read_all(daemon, "more");
	*lost = 3000 - *taken;
	CHECK(*taken > 0 && *lost > 0);
}

TEST(log_reports_lines_lost_by_syslog)
{
	int daemon, taken, lost;
	char loss[96];

	setup();
	daemon = listens(SOCK_DGRAM);
	log_to_syslog("weir", "local0");
	swamp(daemon, &taken, &lost);
	errno = ENOTTY;
	log_warning("after");
	CHECK_INT(errno, ENOTTY);
	snprintf(loss, sizeof(loss), "lines of the log that could not be written: %d", lost);
	CHECK_TEXT(text_of(next(daemon)), loss);
	CHECK_TEXT(text_of(next(daemon)), "after");
	log_warning("calm");
	CHECK_TEXT(text_of(next(daemon)), "calm");
	CHECK_TEXT(next(daemon), "");
	log_close();
	close(daemon);
	teardown();
}

TEST(reload_keeps_the_count_of_lost_lines)
{
	int daemon, taken, lost;
	char loss[96];

	setup();
	daemon = listens(SOCK_DGRAM);
	log_to_syslog("other", "daemon");
	log_to_syslog("weir", "local0");
	swamp(daemon, &taken, &lost);
	log_to_syslog("weir", "local0");
	log_warning("after");
	snprintf(loss, sizeof(loss), "lines of the log that could not be written: %d", lost);
	CHECK_TEXT(text_of(next(daemon)), loss);
	CHECK_TEXT(text_of(next(daemon)), "after");
	log_close();
	close(daemon);
	teardown();
}

TEST(log_levels_map_to_syslog_severities)
{
	static const char *const heads[] = { "<26>", "<27>", "<28>", "<30>" };
	int daemon;

	setup();
	daemon = listens(SOCK_DGRAM);
	log_to_syslog(NULL, NULL);
	log_fatal("a\nb");
	CHECK(strncmp(next(daemon), heads[0], 4) == 0);
	CHECK(strstr(got, " pgweir[") && strstr(got, "]: a\\x0ab"));
	log_error("e");
	CHECK(strncmp(next(daemon), heads[1], 4) == 0);
	log_warning("w");
	CHECK(strncmp(next(daemon), heads[2], 4) == 0);
	log_info("i");
	CHECK(strncmp(next(daemon), heads[3], 4) == 0);
	log_debug("not on");
	CHECK_TEXT(next(daemon), "");
	log_close();
	close(daemon);
	teardown();
}

UNIT_MAIN
