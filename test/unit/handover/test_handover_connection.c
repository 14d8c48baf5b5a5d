/*
 * Connections in a handover: which clients and servers may be handed over, and that a connection has the same state in the other
 * process.
 */
#include "auth/login_state.h"
#include "cancel/cancel.h"
#include "state/notify.h"
#include "state/session_state.h"
#include "two_worlds.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "admin_users=admin\n")

/* ---- clients ---- */

TEST(idle_client)
{
	REQUIRE(worlds_begin(INI));
	CHECK(handover_includes(&client->peer));
	client->peer.stream.write_failed = true;
	CHECK(!handover_includes(&client->peer));
	client->peer.stream.write_failed = false;
	worlds_close();
}

TEST(client_before_its_startup_packet)
{
	worlds_open(INI);
	near = house_connect(&whole);
	house_settle(&whole);
	client = whole_last_client();
	REQUIRE(client && client->pooled.state == CLIENT_STARTUP);
	CHECK(handover_includes(&client->peer));
	/* unsent messages of a login are kept in its login struct */
	bytes_append_u8(&client->login->out, 'S');
	CHECK(!handover_includes(&client->peer));
	bytes_free(&client->login->out);
	client->login->direct = true;
	CHECK(!handover_includes(&client->peer));
	client->login->direct = false;
	worlds_close();
}

/* A replication login continues until its server is ready. */
TEST(replication_login_in_progress)
{
	struct login login = { .out = BYTES_EMPTY };

	REQUIRE(worlds_begin(INI));
	client->login = &login;
	CHECK(!handover_includes(&client->peer));
	client->login = NULL;
	worlds_close();
}

TEST(client_with_a_server)
{
	REQUIRE(worlds_begin_in_transaction(INI));
	CHECK(handover_includes(&client->peer));
	server->peer.stream.write_failed = true;
	CHECK(!handover_includes(&client->peer));
	server->peer.stream.write_failed = false;
	server->pooled.cancels = 1;
	CHECK(!handover_includes(&client->peer));
	server->pooled.cancels = 0;
	worlds_close();
}

TEST(console_client)
{
	worlds_open(INI);
	near = house_login(&whole, "admin", "pgbouncer", 0);
	client = whole_last_client();
	REQUIRE(near && client && client->console.is_connected);
	CHECK(handover_includes(&client->peer));
	worlds_close();
}

/* ---- received clients ---- */

TEST(linked_client)
{
	struct server *took_server;
	struct client *took;

	REQUIRE(worlds_begin_in_transaction(INI));
	pack_server();
	took_server = take_server();
	REQUIRE(took_server && taking->server == took_server);
	took_server->pooled.since = 18;
	pack_client();
	took = take_client();
	REQUIRE(took);
	CHECK_INT(took->pooled.state, CLIENT_ACTIVE);
	CHECK(took->pooled.link == &took_server->pooled && took_server->pooled.link == &took->pooled);
	/* the server's record has the time at which the link began */
	CHECK_INT(took_server->pooled.since, 18);
	CHECK(!taking->server);
	worlds_close();
}

/* The server's record is missing, or the client's record does not match it. */
TEST(client_record_does_not_match_its_server)
{
	REQUIRE(worlds_begin_in_transaction(INI));
	pack_client();
	CHECK(!take_client());
	worlds_close();
	REQUIRE(worlds_begin_in_transaction(INI));
	pack_server();
	REQUIRE(take_server());
	client = whole_login(&near);
	REQUIRE(client && client->pooled.state == CLIENT_IDLE);
	pack_client();
	CHECK(!take_client());
	worlds_close();
}

TEST(unauthenticated_client)
{
	struct client *took;

	worlds_open(INI);
	near = house_connect(&whole);
	house_settle(&whole);
	client = whole_last_client();
	client->login->gss_asked = true;
	client->login_facts.since = 19;
	pack_client();
	took = take_client();
	REQUIRE(took);
	CHECK_INT(took->pooled.state, CLIENT_STARTUP);
	CHECK(took->login && took->login->gss_asked && !took->login->ssl_asked);
	CHECK_INT(took->login_facts.since, 19);
	/* a client that has not logged in cannot be in a pool's list */
	take_pool();
	CHECK(!take_client());
	worlds_close();
}

TEST(authenticated_client_requires_a_pool)
{
	REQUIRE(worlds_begin(INI));
	taking->pool = NULL;
	pack_client();
	CHECK(!take_client());
	worlds_close();
}

/* Each truncated record is refused, and everything is undone. */
TEST(truncated_client_record)
{
	REQUIRE(worlds_begin(INI));
	pack_client();
	for (size_t n = 0; n < bytes_size(&record); n++) {
		if (take_n(client_record_unpack, n))
			UNIT_FAIL("%zu bytes are taken", n);
		taken_undo();
		take_pool();
	}
	CHECK(take_client());
	worlds_close();
}

TEST(client_without_a_pool)
{
	REQUIRE(worlds_begin(INI));
	pack_client();
	taking->no_place = REASON_DATABASE_REMOVED;
	CHECK(take_n(client_record_unpack, bytes_size(&record)));
	CHECK(!last_client());
	CHECK_INT(taking->rejected_count, 1);
	worlds_close();
}

/* ---- servers ---- */

TEST(idle_server)
{
	REQUIRE(worlds_begin_idle(INI));
	CHECK(handover_includes(&server->peer));
	server->peer.stream.write_failed = true;
	CHECK(!handover_includes(&server->peer));
	server->peer.stream.write_failed = false;
	server->pooled.cancels = 1;
	CHECK(!handover_includes(&server->peer));
	server->pooled.cancels = 0;
	server->pooled.is_cancel = true;
	CHECK(!handover_includes(&server->peer));
	server->pooled.is_cancel = false;
	CHECK(handover_includes(&server->peer));
	worlds_close();
}

TEST(server_with_a_client)
{
	REQUIRE(worlds_begin_in_transaction(INI));
	CHECK(handover_includes(&server->peer));
	client->peer.stream.write_failed = true;
	CHECK(!handover_includes(&server->peer));
	client->peer.stream.write_failed = false;
	server->pooled.state = SERVER_BEING_CANCELED;
	CHECK(!handover_includes(&server->peer));
	server->pooled.state = SERVER_ACTIVE;
	worlds_close();
}

TEST(server_being_opened)
{
	REQUIRE(worlds_begin_idle(INI));
	server->pooled.state = SERVER_LOGIN;
	CHECK(!handover_includes(&server->peer));
	server->pooled.state = SERVER_IDLE;
	worlds_close();
}

/* ---- received servers ---- */

TEST(server_under_test)
{
	struct server *took;

	REQUIRE(worlds_begin_idle(INI));
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
	REQUIRE(worlds_begin_idle(INI));
	pack_server();
	for (int state = 0; state < SERVER_STATES + 2; state++) {
		/* the last tests have a server in the state LISTENING */
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

	REQUIRE(worlds_begin_idle(INI));
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

	REQUIRE(worlds_begin_idle(INI));
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
	const char *name = close_reason_rows[REASON_DATABASE_CHANGED].name;
	struct server *took;
	uint8_t *at;

	REQUIRE(worlds_begin_idle(INI));
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

	REQUIRE(worlds_begin_idle(INI));
	server->pooled.dedicated = 5;
	pack_server();
	server->pooled.dedicated = 0;
	took = take_server();
	REQUIRE(took);
	CHECK_INT(took->pooled.dedicated, 5);
	worlds_close();
}

TEST(invalid_task)
{
	static const struct server_task foreign = { .states = TASK_IN(IDLE) };

	REQUIRE(worlds_begin_idle(INI));
	server->task = &foreign;
	pack_server();
	server->task = NULL;
	CHECK(!take_server());
	worlds_close();
}

TEST(unknown_pool)
{
	REQUIRE(worlds_begin_idle(INI));
	pack_server();
	taking->pool = NULL;
	CHECK(!take_server());
	CHECK(!last_server());
	worlds_close();
}

TEST(server_without_a_pool)
{
	REQUIRE(worlds_begin_idle(INI));
	pack_server();
	taking->no_place = REASON_DATABASE_REMOVED;
	CHECK(take_n(server_record_unpack, bytes_size(&record)));
	CHECK(!last_server() && !taking->in_message);
	CHECK_INT(taking->rejected_count, 1);
	server->peer.passing = 5;
	pack_server();
	server->peer.passing = 0;
	CHECK(take_n(server_record_unpack, bytes_size(&record)));
	CHECK(taking->in_message);
	CHECK_INT(taking->rejected_count, 2);
	/* the rest of the message is discarded */
	server->peer.passing = 5;
	server->peer.passing_dropped = true;
	pack_server();
	server->peer.passing = 0;
	server->peer.passing_dropped = false;
	CHECK(take_n(server_record_unpack, bytes_size(&record)));
	CHECK(!taking->in_message);
	worlds_close();
}

/* Each truncated record is refused, and everything is undone. */
TEST(truncated_server_record)
{
	REQUIRE(worlds_begin_idle(INI));
	pack_server();
	for (size_t n = 0; n < bytes_size(&record); n++) {
		if (take_n(server_record_unpack, n))
			UNIT_FAIL("%zu bytes are taken", n);
		taken_undo();
		take_pool();
	}
	CHECK(take_server());
	worlds_close();
}

TEST(out_of_memory)
{
	REQUIRE(worlds_begin_idle(INI));
	pack_server();
	for (int more = 0; more < 100; more++) {
		bool taken;

		whole_memory_ends(more);
		taken = take_n(server_record_unpack, bytes_size(&record));
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

/* ---- the listener of a pool ---- */

static struct notify_server *listener;

TEST(listener_and_clients_are_kept_together)
{
	listener = worlds_begin_listening();
	REQUIRE(listener);
	CHECK(handover_is_calm(whole.world));
	listeners_decide(whole.world);
	CHECK(handover_includes(&client->peer) && handover_includes(&server->peer));
	client->peer.stream.write_failed = true;
	listeners_decide(whole.world);
	CHECK(!handover_includes(&server->peer));
	client->peer.stream.write_failed = false;
	CHECK(!handover_includes(&client->peer));
	worlds_close();
}

TEST(listener_with_a_pending_query_delays_the_hand_over)
{
	listener = worlds_begin_listening();
	REQUIRE(listener);
	server_task_to(server, &task_listen);
	CHECK(!handover_is_calm(whole.world));
	listeners_decide(whole.world);
	CHECK(!handover_includes(&server->peer));
	server_task_to(server, NULL);
	list_append(&listener->movers, &client->session->notify_client->moving);
	CHECK(!handover_is_calm(whole.world));
	list_remove(&client->session->notify_client->moving);
	worlds_close();
}

UNIT_MAIN
