/* Durations in the log: which are written, and the texts of queries. */
#include "relay/duration.h"

#include "base/log.h"
#include "unit.h"
#include "whole.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define INI(more) WHOLE_INI("pool_size=1", more)

static struct house_end *near, *far;
static struct client *client;
static int log_fd, saved_stderr;	/* the log is in memory: files of this world are, too */

static bool begin(const char *ini)
{
	whole_open(ini);
	client = whole_in_transaction(&near, &far);
	fflush(stderr);
	log_fd = memfd_create("log", 0);
	saved_stderr = dup(STDERR_FILENO);
	return client && dup2(log_fd, STDERR_FILENO) >= 0 && log_configure(&(struct log_config){ .quiet = false });
}

static void end(void)
{
	log_configure(&(struct log_config){ .quiet = true });
	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	close(log_fd);
	whole.holds_answers = false;
	house_settle(&whole);
	whole_close();
}

/* Whether the log has this text. */
static bool has_line(const char *text)
{
	char all[8192] = "";
	ssize_t size = pread(log_fd, all, sizeof(all) - 1, 0);

	return size > 0 && strstr(all, text);
}

static const char *noted(uint8_t type, const void *body, size_t size)
{
	duration_note_text(client, type, body, size);
	return client->query ? client->query->text : "none";
}

TEST(the_text_of_each_kind_of_request)
{
	char longest[3000];

	REQUIRE(begin(INI("")));
	CHECK_TEXT(noted('Q', "SELECT 1", 9), "SELECT 1");
	CHECK_TEXT(noted('Q', "SELECT 1", 4), "SELE");
	CHECK_TEXT(noted('P', "name\0SELECT 2\0\0\0", 16), "SELECT 2");
	CHECK_TEXT(noted('P', "name", 4), "none");
	CHECK_TEXT(noted('B', "\0unknown\0\0\0\0\0\0\0", 16), "none");
	CHECK_TEXT(noted('B', "\0cut", 4), "none");
	CHECK_TEXT(noted('B', "", 0), "none");
	CHECK_TEXT(noted('S', "", 0), "none");
	CHECK_TEXT(noted('F', "\0\0\0\1", 4), "none");
	memset(longest, 'x', sizeof(longest));
	CHECK_INT(strlen(noted('Q', longest, sizeof(longest))), 1001);
	end();
}

TEST(durations_above_the_limits_are_logged)
{
	REQUIRE(begin(INI("log_min_duration_query=5\nlog_min_duration_transaction=0\n")));
	duration_log(client, DURATION_QUERY, 4999);
	duration_log(client, DURATION_WAIT, 5000000);
	CHECK(!has_line("duration"));
	duration_log(client, DURATION_QUERY, 5001);
	CHECK(has_line(" query duration: 5.001 ms (server pid "));
	duration_log(client, DURATION_TRANSACTION, 0);
	CHECK(has_line(" transaction duration: 0.000 ms (server pid "));
	end();
	REQUIRE(begin(INI("log_min_duration_query=0\nlog_sample=0\n")));
	duration_log(client, DURATION_QUERY, 1000);
	CHECK(!has_line("duration"));
	end();
}

TEST(a_text_is_logged_once_and_only_if_asked_for)
{
	REQUIRE(begin(INI("log_min_duration_query=0\nlog_query_text=1\n")));
	CHECK(whole.world->queries.durations.texts && whole.world->queries.durations.query == 0);
	noted('Q', "SELECT 'a\033'", 12);
	duration_log(client, DURATION_TRANSACTION, 1);
	CHECK(client->query != NULL);
	duration_log(client, DURATION_QUERY, 1);
	CHECK(has_line("statement: SELECT 'a\\x1b'\n") && !client->query);
	end();
	REQUIRE(begin(INI("log_min_duration_query=0\n")));
	CHECK(!whole.world->queries.durations.texts);
	noted('Q', "SELECT 1", 9);
	duration_log(client, DURATION_QUERY, 1);
	CHECK(has_line("query duration") && !has_line("SELECT"));
	end();
}

UNIT_MAIN
