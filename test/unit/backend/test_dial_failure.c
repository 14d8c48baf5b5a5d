/* The failures of logins that hosts remember, and the failures that the log has already. wire/test_alarms.py has the lines. */
#include "backend/dial.h"

#include "core/lifecycle.h"
#include "logins.h"
#include "whole.h"

#define INI WHOLE_INI("", "server_connect_timeout=4\n")

static struct server *s;
static const struct host_failure *failure;

static void begin(void)
{
	login_open(INI, "");
	whole.servers_answer = false;
	login_name("v", "d");
	house_server(&whole);
	s = whole_last_server();
	failure = &s->pooled.host->failure;
	CHECK_INT(failure->why, REASON_NONE);
}

TEST(the_same_failure_again)
{
	begin();
	CHECK(!dial_note_failure(s, REASON_CONNECT_FAILED, "refused"));
	CHECK(dial_note_failure(s, REASON_CONNECT_FAILED, "refused"));
	CHECK(dial_failed_alike(s, "refused") && dial_failed_alike(s, "ref") && !dial_failed_alike(s, "no route"));
	CHECK(!dial_note_failure(s, REASON_CONNECT_FAILED, "no route"));
	CHECK_INT(failure->count, 3);
	CHECK_TEXT(failure->text, "no route");
	/* a login that succeeds */
	hosts_note(s, HOST_WORKS);
	CHECK_INT(failure->why, REASON_NONE);
	CHECK(!dial_failed_alike(s, ""));
	whole_close();
}

TEST(a_server_that_takes_no_login)
{
	begin();
	s->dial->refusal = SERVER_REFUSAL_FULL;
	CHECK(!dial_note_failure(s, REASON_SERVER_SAID, "sorry"));
	CHECK_TEXT(host_failure_word(failure), "full");
	s->dial->refusal = SERVER_REFUSAL_AWAY;
	CHECK(!dial_note_failure(s, REASON_SERVER_SAID, "sorry"));
	CHECK_TEXT(host_failure_word(failure), "starting");
	whole_close();
}

/* The host works: it refuses the user. Ends by clients and by policy say nothing. */
TEST(a_login_that_is_refused)
{
	begin();
	dial_note_failure(s, REASON_CONNECT_FAILED, "refused");
	CHECK(!dial_note_failure(s, REASON_CLIENT_NOT_READY, "left") && !dial_note_failure(s, REASON_HOSTS_FULL, "full"));
	CHECK_INT(failure->why, REASON_CONNECT_FAILED);
	CHECK(!dial_note_failure(s, REASON_SERVER_SAID, "password"));
	CHECK_INT(failure->why, REASON_NONE);
	whole_close();
}

UNIT_MAIN
