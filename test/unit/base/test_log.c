/*
 * The log, read back from a file and from a pipe in place of stderr. Functions that end the process (assert_failed, mem_must without memory) run in a
 * child.
 */
#include "base/log.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/text.h"
#include "unit.h"

#include <errno.h>
#include <limits.h>
#include <regex.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64], path[96], other[96];

static void setup(void)
{
	strcpy(dir, "/tmp/pgweir-log-XXXXXX");
	if (!mkdtemp(dir))
		abort();
	snprintf(path, sizeof(path), "%s/log", dir);
	snprintf(other, sizeof(other), "%s/log.1", dir);
	setenv("TZ", "UTC", 1);
}

static void teardown(void)
{
	log_close();
	unlink(path);
	unlink(other);
	rmdir(dir);
}

static bool matches(const char *text, const char *pattern)
{
	regex_t regex;
	bool match;

	if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) != 0)
		abort();
	match = regexec(&regex, text, 0, NULL, 0) == 0;
	regfree(&regex);
	return match;
}

static bool to_file(int verbose)
{
	struct log_config config = { .file = path, .quiet = true, .verbose = verbose };

	return log_configure(&config);
}

TEST(a_line_has_time_pid_level_and_message)
{
	char *text, pattern[200];

	setup();
	CHECK(to_file(0));
	log_info("listening on %s:%d", "127.0.0.1", 6432);
	log_warning("w");
	text = text_read_file(path, 10000, NULL);
	REQUIRE(text);
	snprintf(pattern, sizeof(pattern),
		 "^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3} UTC \\[%ld\\] LOG "
		 "listening on 127\\.0\\.0\\.1:6432\n[^\n]* \\[%ld\\] WARNING w\n$", (long)getpid(), (long)getpid());
	CHECK(matches(text, pattern));
	mem_free(text);
	teardown();
}

TEST(levels_follow_verbose)
{
	static const char *const want[] = {
		"^[^\n]* FATAL f\n[^\n]* ERROR e\n[^\n]* LOG l\n$",
		"^[^\n]* FATAL f\n[^\n]* ERROR e\n[^\n]* LOG l\n[^\n]* DEBUG d\n$",
		"^[^\n]* FATAL f\n[^\n]* ERROR e\n[^\n]* LOG l\n[^\n]* DEBUG d\n[^\n]* NOISE n\n$",
		"^[^\n]* FATAL f\n[^\n]* ERROR e\n[^\n]* LOG l\n[^\n]* DEBUG d\n[^\n]* NOISE n\n$",
	};

	for (int verbose = 0; verbose < 4; verbose++) {
		char *text;

		setup();
		CHECK(to_file(verbose));
		CHECK_INT(log_is_on(LEVEL_LOG), true);
		CHECK_INT(log_is_on(LEVEL_DEBUG), verbose >= 1);
		CHECK_INT(log_is_on(LEVEL_NOISE), verbose >= 2);
		log_fatal("f");
		log_error("e");
		log_info("l");
		log_debug("d");
		log_noise("n");
		text = text_read_file(path, 10000, NULL);
		CHECK(text && matches(text, want[verbose]));
		mem_free(text);
		teardown();
	}
}

TEST(embedded_newlines_cannot_forge_a_line)
{
	char *text;

	setup();
	CHECK(to_file(0));
	log_info("db=%s", "a\n2026 [1] FATAL \x1b[31m\r\t\x7f \xc3\xa9\x9b" "1m\xc2\x9b" "2m\xe2\x80\xae");
	text = text_read_file(path, 10000, NULL);
	REQUIRE(text);
	CHECK(matches(text, "^[^\n]* LOG db=a\\\\x0a2026 \\[1\\] FATAL \\\\x1b\\[31m\\\\x0d\\\\x09\\\\x7f \xc3\xa9"
		      "\\\\x9b1m\\\\xc2\\\\x9b2m\\\\xe2\\\\x80\\\\xae\n$"));
	mem_free(text);
	teardown();
}

TEST(long_message_is_truncated_to_one_line)
{
	char *text, *message = mem_must(100001);
	size_t size = 0;

	setup();
	CHECK(to_file(0));
	memset(message, '\n', 100000);	/* every byte takes four bytes in the log line */
	log_info("%s", message);
	log_info("next");
	text = text_read_file(path, 1000000, &size);
	REQUIRE(text);
	/* the first line fills PIPE_BUF except for part of an escape \xNN */
	CHECK(strcspn(text, "\n") + 1 <= PIPE_BUF && strcspn(text, "\n") + 1 > PIPE_BUF - 4);
	CHECK(matches(text, "^[^\n]*\\\\x0a\\.\\.\\.\n[^\n]* LOG next\n$"));
	mem_free(text);
	mem_free(message);
	teardown();
}

TEST(the_last_warnings_are_kept)
{
	const struct log_recent *last;

	setup();
	CHECK(to_file(0));
	for (int i = 0; i < LOG_RECENT_MOST + 3; i++)
		log_warning("warning %d\n", i);
	log_info("no warning");
	log_error("error");
	last = log_recent(0);
	REQUIRE(last);
	CHECK_TEXT(last->text, "error");
	CHECK_TEXT(last->level, "ERROR");
	CHECK(last->time > 0);
	CHECK_TEXT(log_recent(1)->text, "warning 66\\x0a");
	CHECK_TEXT(log_recent(LOG_RECENT_MOST - 1)->text, "warning 4\\x0a");
	CHECK(!log_recent(LOG_RECENT_MOST));
	teardown();
}

TEST(reopen_follows_a_rotation)
{
	char *old, *fresh;

	setup();
	CHECK(to_file(0));
	log_info("one");
	CHECK_INT(rename(path, other), 0);
	log_info("two");
	CHECK(log_reopen());
	log_info("three");
	old = text_read_file(other, 10000, NULL);
	fresh = text_read_file(path, 10000, NULL);
	CHECK(old && matches(old, "LOG one\n[^\n]* LOG two\n$"));
	CHECK(fresh && matches(fresh, "^[^\n]* LOG three\n$"));
	mem_free(old);
	mem_free(fresh);
	teardown();
}

TEST(log_file_that_cannot_be_opened_keeps_the_old_one)
{
	struct log_config config = { .file = "/nonexistent/log", .quiet = true, .verbose = 2 };
	char *text;

	setup();
	CHECK(to_file(0));
	errno = 0;
	CHECK(!log_configure(&config));
	CHECK_INT(errno, ENOENT);
	CHECK(!log_is_on(LEVEL_NOISE));
	CHECK_INT(rename(path, other), 0);
	CHECK_INT(mkdir(path, 0700), 0);
	CHECK(!log_reopen());
	CHECK_INT(errno, EISDIR);
	log_info("still here");
	text = text_read_file(other, 10000, NULL);
	CHECK(text && matches(text, "LOG still here\n$"));
	mem_free(text);
	rmdir(path);
	teardown();
}

/* The log file is rotated, renamed in the configuration, or moved to another disk. */
TEST(lines_lost_by_the_old_file_are_reported_in_the_new)
{
	struct log_config full = { .file = "/dev/full", .quiet = true };
	char *text;

	setup();
	CHECK(log_configure(&full));
	log_info("lost");
	CHECK(log_configure(&full));
	CHECK(log_reopen());
	log_info("lost, too");
	CHECK(to_file(0));
	log_info("one");
	log_info("two");
	text = text_read_file(path, 10000, NULL);
	CHECK(text && matches(text, "^[^\n]* WARNING lines of the log that could not be written: 2\n[^\n]* LOG one\n[^\n]* LOG two\n$"));
	mem_free(text);
	teardown();
}

TEST(errno_survives_a_log_line)
{
	/* A full disk loses the line and must not change the caller's errno either. */
	struct log_config config = { .file = "/dev/full", .quiet = true };

	CHECK(log_configure(&config));
	errno = ECONNRESET;
	log_info("x");
	CHECK_INT(errno, ECONNRESET);
	log_close();
}

static bool as_json(usec_t fold)
{
	struct log_config config = { .file = path, .quiet = true, .json = true, .fold = fold };

	return log_configure(&config);
}

static const char *about(enum log_subject_kind kind, const char *text, const char *database, const char *user)
{
	log_subject(kind, &(struct log_subject){ .text = text, .database = database, .user = user, .address = "10.0.0.1:5" });
	return text;
}

static void check_log(const char *pattern)
{
	char *text = text_read_file(path, 1000000, NULL);

	REQUIRE(text);
	if (!matches(text, pattern))
		printf("%s\n", text);
	CHECK(matches(text, pattern));
	mem_free(text);
}

TEST(json_has_time_pid_level_and_message)
{
	char pattern[200];

	setup();
	CHECK(as_json(0));
	log_warning("a \"b\" \\ c\n\xff \xc3\xa9");
	snprintf(pattern, sizeof(pattern),
		 "^\\{\"time\":\"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z\",\"level\":\"WARNING\",\"pid\":%ld,"
		 "\"message\":\"a \\\\\"b\\\\\" \\\\\\\\ c\\\\\\\\x0a\\\\\\\\xff \xc3\xa9\"\\}\n$", (long)getpid());
	check_log(pattern);
	teardown();
}

TEST(json_has_the_subjects_of_the_line)
{
	setup();
	CHECK(as_json(0));
	log_info("%s closing because: x", about(LOG_CLIENT, "C-0x1f: \"a b\"/u@10.0.0.1:5", "a b", "u\"\xff"));
	log_info("login failed (%s)", about(LOG_SERVER, "S-0x2: d/u@10.0.0.1:5", "d", "u"));
	log_info("a line without a subject");
	check_log("^[^\n]*,\"client\":\"C-0x1f\",\"database\":\"a b\",\"user\":\"u\\\\\"\\\\\\\\xff\",\"address\":\"10.0.0.1:5\","
		  "\"message\":\"closing because: x\"\\}\n"
		  "[^\n]*,\"server\":\"S-0x2\",\"database\":\"d\",\"user\":\"u\",\"address\":\"10.0.0.1:5\","
		  "\"message\":\"login failed \\(S-0x2: d/u@10.0.0.1:5\\)\"\\}\n"
		  "[^\n]*\"pid\":[0-9]+,\"message\":\"a line without a subject\"\\}\n$");
	teardown();
}

TEST(json_of_the_longest_line_is_complete)
{
	char *text, *message = mem_must(100001), name[200];
	size_t size = 0;

	memset(message, '"', 100000);
	message[100000] = '\0';
	memset(name, '\x01', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	setup();
	CHECK(as_json(0));
	log_info("%s %s", about(LOG_CLIENT, "C-0x1: d/u@a", name, name), message);
	text = text_read_file(path, 100000, &size);
	REQUIRE(text);
	CHECK(size <= PIPE_BUF && size > PIPE_BUF - 10);
	CHECK(matches(text, "^\\{[^\n]*\\\\\"\\.\\.\\.\"\\}\n$"));
	mem_free(text);
	mem_free(message);
	teardown();
}

static void repeat(int64_t kind, const char *database)
{
	log_repeatable(LEVEL_WARNING, kind, "%s error", about(LOG_CLIENT, "C-0x1: d/u@10.0.0.1:5", database, "u"));
}

TEST(repeated_lines_are_counted)
{
	struct log_config config = { .file = path, .quiet = true, .fold = 3600 * USEC };
	usec_t now = clock_monotonic();

	setup();
	CHECK(log_configure(&config));
	for (int i = 0; i < 98; i++)
		repeat(1, "d");
	log_tick(now + 3599 * USEC);
	check_log("^[^\n]* WARNING C-0x1: d/u@10.0.0.1:5 error\n$");
	log_tick(now + 7200 * USEC);
	check_log("^[^\n]* error\n[^\n]* WARNING 97 more in 0 s, the last one: C-0x1: d/u@10.0.0.1:5 error\n$");
	/* the time begins again with the next line */
	repeat(1, "d");
	log_tick(now + 7200 * USEC);
	check_log("^[^\n]* error\n[^\n]* 97 more [^\n]*\n[^\n]* WARNING C-0x1: d/u@10.0.0.1:5 error\n$");
	teardown();
}

TEST(a_first_line_is_never_folded)
{
	struct log_config config = { .file = path, .quiet = true, .fold = 3600 * USEC };
	char *text;
	int lines = 0;

	setup();
	CHECK(log_configure(&config));
	for (int i = 0; i < 2; i++) {
		repeat(1, "d");
		repeat(2, "d");
		repeat(1, "another");
		log_repeatable(LEVEL_WARNING, 1, "%s another format", "C-0x1: d/u@10.0.0.1:5");
		log_repeatable(LEVEL_ERROR, 1, "no subject");
		log_repeatable(LEVEL_ERROR, LOG_EVERY, "every");
		log_warning("every");
	}
	check_log("^([^\n]*\n){9}$");
	/* more kinds than there is room for: the counts of the oldest are written early */
	for (int kind = 0; kind < 1000; kind++) {
		repeat(1000 + kind, "d");
		repeat(1000 + kind, "d");
	}
	log_close();
	text = text_read_file(path, 10000000, NULL);
	REQUIRE(text);
	for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
		lines++;
	CHECK_INT(lines, 9 + 5 + 2 * 1000);
	mem_free(text);
	teardown();
}

TEST(the_count_as_json)
{
	setup();
	CHECK(as_json(3600 * USEC));
	repeat(1, "d");
	repeat(1, "d");
	CHECK(as_json(0));
	repeat(1, "d");
	repeat(1, "d");
	check_log("^[^\n]*\n[^\n]*\"client\":\"C-0x1\",\"database\":\"d\",[^\n]*,\"folded\":1,\"message\":\"1 more in 0 s, the last one: C-0x1: "
		  "[^\n]*\n[^\n]*\n[^\n]*\n$");
	teardown();
}

/* Runs `body` in a child with a pipe as stderr. Returns the output of the child, which the caller frees. */
static char *child_stderr(void (*body)(void), int *status)
{
	char *text = mem_must(100000);
	size_t used = 0;
	int ends[2];
	pid_t child;

	fflush(stdout);
	if (pipe(ends) != 0 || (child = fork()) < 0)
		abort();
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		body();
		_exit(0);
	}
	close(ends[1]);
	for (ssize_t got; used < 99999 && (got = read(ends[0], text + used, 99999 - used)) > 0;)
		used += (size_t)got;
	close(ends[0]);
	while (waitpid(child, status, 0) < 0 && errno == EINTR)
		;
	return text;
}

static void speak_everywhere(void)
{
	struct log_config loud = { .file = path }, quiet = { .file = path, .quiet = true };

	log_info("before any configuration");
	log_configure(&loud);
	log_info("loud");
	log_configure(&quiet);
	log_info("quiet");
	log_configure(&loud);
	log_close();
}

TEST(stderr_is_silenced_by_quiet)
{
	char *text, *file;
	int status;

	setup();
	text = child_stderr(speak_everywhere, &status);
	file = text_read_file(path, 10000, NULL);
	CHECK(matches(text, "^[^\n]* LOG before any configuration\n[^\n]* LOG loud\n$"));
	CHECK(file && matches(file, "^[^\n]* LOG loud\n[^\n]* LOG quiet\n$"));
	mem_free(text);
	mem_free(file);
	teardown();
}

static void no_sink(void)
{
	log_configure(&(struct log_config){ .quiet = true });
	/* The exit code reports the result to the parent. */
	_exit(log_is_on(LEVEL_FATAL) ? 1 : 0);
}

TEST(no_level_is_on_without_a_destination)
{
	int status;
	char *text = child_stderr(no_sink, &status);

	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	mem_free(text);
}

static void syslog_too(void)
{
	struct log_config config = {
		.syslog = true, .syslog_path = "/nonexistent/log", .syslog_ident = "weir", .syslog_facility = "local3",
	};

	if (!log_configure(&config))
		_exit(1);
	log_info("to both");
	log_close();
}

TEST(missing_syslog_daemon_does_not_affect_stderr)
{
	int status;
	char *text = child_stderr(syslog_too, &status);

	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(matches(text, "^[^\n]* LOG to both\n$"));
	mem_free(text);
}

static void break_an_assertion(void)
{
	struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
	signal(SIGABRT, SIG_DFL);
	ASSERT(1 + 1 == 2);
	ASSERT(1 + 1 == 3);
}

TEST(failed_assertion_prints_its_place_and_aborts)
{
	int status;
	char *text = child_stderr(break_an_assertion, &status);

	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	CHECK(matches(text, "FATAL bug: [^\n]*test_log\\.c:[0-9]+: break_an_assertion: \"1 \\+ 1 == 3\" does not hold\n"));
	CHECK(!strstr(text, "== 2"));
	mem_free(text);
}

UNIT_MAIN
