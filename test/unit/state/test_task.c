/* The next state of a server without a client, and the effect of the end of a server task. */
#include "state/task.h"

#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "")
#define ALWAYS_INI WHOLE_INI("pool_size=1", "server_reset_query_always=1\n")
#define NEVER_INI WHOLE_INI("pool_size=1", "server_reset_query=\nserver_reset_query_always=1\n")

static struct server *server;
static struct house_end *end;

static bool begin(const char *ini)
{
	struct house_end *client;

	whole_open(ini);
	CHECK(whole_login(&client));
	server = whole_last_server();
	end = house_server(&whole);
	CHECK(server && end && server->pooled.state == SERVER_IDLE);
	if (end)
		whole_server_got(end);
	return server && end;
}

static bool wants_reset(const char *ini, bool had_session)
{
	bool wants = begin(ini) && server_wants_reset(server, had_session);

	whole_close();
	return wants;
}

TEST(sessions_that_are_reset)
{
	CHECK(wants_reset(INI, true) && !wants_reset(INI, false));
	CHECK(wants_reset(ALWAYS_INI, true) && wants_reset(ALWAYS_INI, false));
	/* server_reset_query is empty */
	CHECK(!wants_reset(NEVER_INI, true));
}

TEST(clean_server_becomes_idle)
{
	REQUIRE(begin(INI));
	CHECK_INT(server_next_state(server), SERVER_IDLE);
	server_release(server);
	CHECK_INT(server->pooled.state, SERVER_IDLE);
	CHECK(!server->task);
	whole_close();
}

/* Another process may have the socket of a server that is stopped. */
TEST(stopped_server_is_asked_nothing)
{
	REQUIRE(begin(INI));
	peer_become(&server->peer, PEER_STOPPED);
	CHECK(!server_run(server, &task_check, ""));
	CHECK(!server->task);
	CHECK(ledger_is_empty(&server->ledger));
	peer_become(&server->peer, PEER_STAYS);
	whole_close();
}

TEST(server_of_an_ended_session_is_reset)
{
	REQUIRE(begin(INI));
	server->needs_reset = true;
	whole.holds_answers = true;
	server_release(server);
	CHECK_INT(server->pooled.state, SERVER_TESTED);
	CHECK(server->task == &task_reset);
	whole.holds_answers = false;
	house_settle(&whole);
	CHECK_TEXT(whole_server_got(end), "Q(DISCARD ALL)");
	CHECK_INT(server->pooled.state, SERVER_IDLE);
	CHECK(!server->needs_reset && server->task == NULL);
	whole_close();
}

TEST(server_waits_for_pending_cancel_requests)
{
	REQUIRE(begin(INI));
	server->needs_reset = true;
	server->pooled.cancels = 1;
	CHECK_INT(server_next_state(server), SERVER_BEING_CANCELED);
	server->pooled.cancels = 0;
	CHECK_INT(server_next_state(server), SERVER_TESTED);
	server->needs_reset = false;
	whole_close();
}

TEST(server_marked_to_close_is_not_reset)
{
	REQUIRE(begin(INI));
	server->needs_reset = true;
	server->pooled.close_reason = REASON_OBSOLETE;
	server_release(server);
	CHECK(peer_is_ending(&server->peer));
	CHECK_INT(server->peer.end_reason, REASON_OBSOLETE);
	house_settle(&whole);
	CHECK_TEXT(whole_server_got(end), "X");
	whole_close();
}

/* Returns the reason for which the server ends when this task is over. */
static int ended_for(const struct server_task *task, bool failed, char status)
{
	int why;

	if (!begin(INI))
		return -1;
	whole.holds_answers = true;
	pool_server_become(&server->pooled, SERVER_TESTED, whole.world->now);
	server_task_to(server, task);
	server->task_failed = failed;
	server->status = status;
	if (server_task_end(server) == TASK_END_RELEASE)
		server_release(server);
	why = peer_is_ending(&server->peer) ? (int)server->peer.end_reason : REASON_NONE;
	CHECK(!server->task);
	whole_close();
	return why;
}

TEST(failed_task_ends_the_server)
{
	CHECK_INT(ended_for(&task_reset, false, 'I'), REASON_NONE);
	CHECK_INT(ended_for(&task_reset, true, 'I'), REASON_RESET_FAILED);
	/* the task has left a transaction open */
	CHECK_INT(ended_for(&task_reset, false, 'T'), REASON_RESET_FAILED);
	CHECK_INT(ended_for(&task_check, false, 'I'), REASON_NONE);
	CHECK_INT(ended_for(&task_check, true, 'I'), REASON_TEST_FAILED);
	CHECK_INT(ended_for(&task_check, false, 'E'), REASON_TEST_FAILED);
}

UNIT_MAIN
