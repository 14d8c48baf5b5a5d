/* A server in a hand-over: which servers may be handed over, and that the server has the same state in the other process. */
#include "two_worlds.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "admin_users=admin\n")

static bool begin(void)
{
	worlds_open(INI);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	take_pool();
	return client && server;
}

/* The same without a client. */
static bool begin_idle(void)
{
	if (!begin())
		return false;
	whole_query(near, "C");
	return server->pooled.state == SERVER_IDLE;
}

/* ---- which may be given ---- */

TEST(idle_server)
{
	REQUIRE(begin_idle());
	CHECK(server_may_be_given(server));
	server->peer.stream.write_failed = true;
	CHECK(!server_may_be_given(server));
	server->peer.stream.write_failed = false;
	server->pooled.cancels = 1;
	CHECK(!server_may_be_given(server));
	server->pooled.cancels = 0;
	server->pooled.is_cancel = true;
	CHECK(!server_may_be_given(server));
	server->pooled.is_cancel = false;
	CHECK(server_may_be_given(server));
	worlds_close();
}

TEST(server_with_a_client)
{
	REQUIRE(begin());
	CHECK(server_may_be_given(server));
	client->peer.stream.write_failed = true;
	CHECK(!server_may_be_given(server));
	client->peer.stream.write_failed = false;
	server->pooled.state = SERVER_BEING_CANCELED;
	CHECK(!server_may_be_given(server));
	server->pooled.state = SERVER_ACTIVE;
	worlds_close();
}

TEST(server_being_opened)
{
	REQUIRE(begin_idle());
	server->pooled.state = SERVER_LOGIN;
	CHECK(!server_may_be_given(server));
	server->pooled.state = SERVER_IDLE;
	worlds_close();
}

/* ---- received servers ---- */

TEST(server_fields_are_handed_over)
{
	struct server *took;

	REQUIRE(begin_idle());
	server->pooled.since = 11;
	server->pooled.opened = 12;
	server->batch = 13;
	server->unknown = UNKNOWN_SEQUENCES;
	server->state_doubts = STATE_ROLE;
	server->state_was_reset = true;
	server->changes = CHANGES_MEANING;
	server->roles_prepared = true;
	server->minor = 2;
	server->told_pid = 14;
	server->task_since = 15;
	pack_server();
	took = take_server();
	REQUIRE(took);
	CHECK_INT(took->pooled.state, SERVER_IDLE);
	CHECK(took->pooled.pool == taking->pool && !taking->server);
	CHECK_INT(took->peer.id, server->peer.id);
	CHECK_INT(took->pooled.since, 11);
	CHECK_INT(took->pooled.opened, 12);
	CHECK_INT(took->batch, 13);
	CHECK_INT(took->unknown, UNKNOWN_SEQUENCES);
	CHECK_INT(took->state_doubts, STATE_ROLE);
	CHECK(took->state_was_reset && took->changes == CHANGES_MEANING && took->roles_prepared);
	CHECK(!took->state_text_was_cut && !took->plain_set && !took->needs_reset && !took->said_fatal);
	CHECK_INT(took->minor, 2);
	CHECK_INT(took->status, 'I');
	CHECK_INT(took->backend_pid, BACKEND_PID);
	CHECK_INT(took->told_pid, 14);
	CHECK_INT(took->task_since, 15);
	CHECK_INT(took->pooled.close_reason, REASON_NONE);
	CHECK(took->cancel_key_size == strlen(BACKEND_KEY) && memcmp(took->cancel_key, BACKEND_KEY, took->cancel_key_size) == 0);
	REQUIRE(took->address);
	CHECK(took->address->size == server->address->size && memcmp(&took->address->u, &server->address->u, took->address->size) == 0);
	CHECK(took->welcome && took->welcome != server->welcome);
	CHECK_TEXT(params_get(took->params, params_index(fresh.world->params, "TimeZone")), "UTC");
	CHECK_TEXT(params_get(took->first_params, params_index(fresh.world->params, "TimeZone")), "UTC");
	CHECK(took->reported == server->reported && took->reported != 0);
	CHECK_INT(taking->pool->server_count[SERVER_IDLE], 1);
	/* its notifications are found */
	CHECK(HASH_HAS(by_backend_pid, took));
	server->state_doubts = 0;
	server->unknown = 0;
	worlds_close();
}

/* Ids of clients differ in the other process. */
TEST(unknown_names)
{
	struct server *took;

	REQUIRE(begin_idle());
	server->doubted_by = 1;
	pack_server();
	server->doubted_by = 0;
	took = take_server();
	REQUIRE(took);
	CHECK(took->unknown == UNKNOWN_SESSION && took->doubted_by == 0);
	worlds_close();
}

TEST(server_in_a_transaction)
{
	struct server *took;

	REQUIRE(begin());
	whole.holds_answers = true;
	whole_query(near, "one");
	pack_server();
	took = take_server();
	REQUIRE(took);
	/* the server waits for its client, and its ledger is kept */
	CHECK(taking->server == took);
	CHECK_INT(took->pooled.state, SERVER_IDLE);
	CHECK_INT(took->status, 'T');
	CHECK_INT(ledger_depth(&took->ledger), 1);
	worlds_close();
}

TEST(server_under_test)
{
	struct server *took;

	REQUIRE(begin_idle());
	pack_server();
	bytes_front(&record)[0] = SERVER_USED;
	took = take_server();
	REQUIRE(took);
	CHECK_INT(took->pooled.state, SERVER_USED);
	taken_undo();
	take_pool();
	bytes_front(&record)[0] = SERVER_TESTED;
	took = take_server();
	REQUIRE(took);
	CHECK_INT(took->pooled.state, SERVER_TESTED);
	worlds_close();
}

TEST(states_that_are_not_handed_over)
{
	REQUIRE(begin_idle());
	pack_server();
	for (int state = 0; state < SERVER_STATES + 2; state++) {
		/* test_handover_listener.c tests the state LISTENING */
		if (state == SERVER_IDLE || state == SERVER_USED || state == SERVER_TESTED || state == SERVER_ACTIVE || state == SERVER_LISTENING)
			continue;
		bytes_front(&record)[0] = (uint8_t)state;
		CHECK(!take_server());
		CHECK(!last_server());
	}
	worlds_close();
}

TEST(server_marked_to_close)
{
	struct server *took;

	REQUIRE(begin_idle());
	server->pooled.close_reason = REASON_DATABASE_CHANGED;
	pack_server();
	server->pooled.close_reason = REASON_NONE;
	/* the first close reason is kept */
	taking->mode_differs = true;
	took = take_server();
	REQUIRE(took);
	CHECK_INT(took->pooled.close_reason, REASON_DATABASE_CHANGED);
	worlds_close();
}

TEST(server_of_another_pool_mode)
{
	struct server *took;

	REQUIRE(begin_idle());
	pack_server();
	taking->mode_differs = true;
	took = take_server();
	REQUIRE(took);
	CHECK_INT(took->pooled.close_reason, REASON_OBSOLETE);
	worlds_close();
}

/* A later version may send a reason that this version does not know. */
TEST(unknown_close_reason)
{
	const char *name = close_reason_row(REASON_DATABASE_CHANGED)->name;
	struct server *took;
	uint8_t *at;

	REQUIRE(begin_idle());
	server->pooled.close_reason = REASON_DATABASE_CHANGED;
	pack_server();
	server->pooled.close_reason = REASON_NONE;
	at = memmem(bytes_front(&record), bytes_size(&record), name, strlen(name));
	REQUIRE(at);
	*at = '?';
	took = take_server();
	REQUIRE(took);
	CHECK_INT(took->pooled.close_reason, REASON_CLOSE_NEEDED);
	worlds_close();
}

TEST(server_of_a_replication_client)
{
	struct server *took;

	REQUIRE(begin_idle());
	server->pooled.dedicated = 5;
	pack_server();
	server->pooled.dedicated = 0;
	took = take_server();
	REQUIRE(took);
	CHECK_INT(took->pooled.dedicated, 5);
	worlds_close();
}

TEST(invalid_transaction_status)
{
	REQUIRE(begin_idle());
	server->status = 'X';
	pack_server();
	server->status = 'I';
	CHECK(!take_server());
	worlds_close();
}

TEST(invalid_task)
{
	static const struct server_task foreign = { .states = TASK_IN(IDLE) };

	REQUIRE(begin_idle());
	server->task = &foreign;
	pack_server();
	server->task = NULL;
	CHECK(!take_server());
	worlds_close();
}

TEST(unknown_pool)
{
	REQUIRE(begin_idle());
	pack_server();
	taking->pool = NULL;
	CHECK(!take_server());
	CHECK(!last_server());
	worlds_close();
}

TEST(server_without_a_pool)
{
	REQUIRE(begin_idle());
	pack_server();
	taking->no_place = REASON_DATABASE_REMOVED;
	CHECK(take_n(server_unpack, bytes_size(&record)));
	CHECK(!last_server() && !taking->in_message);
	CHECK_INT(taking->rejected_count, 1);
	server->peer.passing = 5;
	pack_server();
	server->peer.passing = 0;
	CHECK(take_n(server_unpack, bytes_size(&record)));
	CHECK(taking->in_message);
	CHECK_INT(taking->rejected_count, 2);
	worlds_close();
}

/* Each truncated record is refused, and everything is undone. */
TEST(truncated_record)
{
	REQUIRE(begin_idle());
	pack_server();
	for (size_t n = 0; n < bytes_size(&record); n++) {
		if (take_n(server_unpack, n))
			UNIT_FAIL("%zu bytes are taken", n);
		taken_undo();
		take_pool();
	}
	CHECK(take_server());
	worlds_close();
}

TEST(out_of_memory)
{
	REQUIRE(begin_idle());
	pack_server();
	for (int more = 0; more < 100; more++) {
		bool taken;

		whole_memory_ends(more);
		taken = take_n(server_unpack, bytes_size(&record));
		if (whole_memory_is_back() == 0) {
			CHECK(taken);
			break;
		}
		CHECK(!taken);
		taken_undo();
		take_pool();
	}
	worlds_close();
}

UNIT_MAIN
