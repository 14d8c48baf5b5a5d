/*
 * Clients and servers in a handover record: the members of the connection are the same in the other process, and an invalid record is refused.
 */
#include "conn/connection_record.h"
#include "two_worlds.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "")

/* ---- clients ---- */

TEST(client_fields_are_handed_over)
{
	struct client *took;

	REQUIRE(worlds_begin(INI));
	client->login_facts.since = 11;
	client->activity.last = 12;
	client->activity.query_started = 13;
	client->activity.transaction_started = 14;
	client->pooled.since = 15;
	client->peer.connected_at = 16;
	client->peer.request_at = 17;
	client->login_facts.minor = 2;
	client->pooled.notified = true;
	client->activity.in_transaction = true;
	client->console.may_show = true;
	client->collects = 12345;
	pack_client();
	took = take_client();
	REQUIRE(took);
	CHECK_INT(took->pooled.state, CLIENT_IDLE);
	CHECK_INT(took->peer.id, client->peer.id);
	CHECK(took->peer.is_client && took->pooled.pool == taking->pool);
	CHECK_TEXT(took->pooled.login_user->name, "u");
	CHECK_INT(took->login_facts.since, 11);
	CHECK_INT(took->activity.last, 12);
	CHECK_INT(took->activity.query_started, 13);
	CHECK_INT(took->activity.transaction_started, 14);
	CHECK_INT(took->pooled.since, 15);
	CHECK_INT(took->peer.connected_at, 16);
	CHECK_INT(took->peer.request_at, 17);
	CHECK_INT(took->login_facts.minor, 2);
	CHECK(took->pooled.notified && took->activity.in_transaction && took->console.may_show && !took->console.is_admin && !took->console.is_connected);
	CHECK_INT(took->collects, 12345);
	CHECK_TEXT(params_get(took->params, params_index(fresh.world->params, "TimeZone")), "UTC");
	/* a cancel request with the client's old key finds the client */
	CHECK(took->cancel_key.is_valid && took->cancel_key.pid == client->cancel_key.pid && took->cancel_key.size == client->cancel_key.size);
	CHECK(cancel_find(fresh.world, client->cancel_key.pid, client->cancel_key.secret, client->cancel_key.size) == took);
	client->activity.in_transaction = false;
	worlds_close();
}

TEST(queued_client)
{
	struct house_end *other_near, *other_far;
	struct client *took;

	worlds_open(INI);
	REQUIRE(whole_in_transaction(&other_near, &other_far));
	client = whole_login(&near);
	REQUIRE(client);
	whole_query(near, "one");
	REQUIRE(client->pooled.state == CLIENT_WAITING);
	take_pool();
	pack_client();
	took = take_client();
	REQUIRE(took);
	CHECK_INT(took->pooled.state, CLIENT_WAITING);
	CHECK_INT(bytes_size(&took->peer.held), bytes_size(&client->peer.held));
	CHECK(memcmp(bytes_front(&took->peer.held), bytes_front(&client->peer.held), bytes_size(&took->peer.held)) == 0);
	worlds_close();
}

TEST(unsent_bytes_are_kept)
{
	REQUIRE(worlds_begin(INI));
	bytes_append_text(&client->peer.stream.out, "rest");
	pack_client();
	bytes_free(&client->peer.stream.out);
	REQUIRE(take_client());
	CHECK_INT(taking->unsent_count, 1);
	CHECK_INT(bytes_size(&last_client()->peer.stream.out), 0);
	worlds_close();
}

/* ---- servers ---- */

TEST(server_fields_are_handed_over)
{
	struct server *took;

	REQUIRE(worlds_begin_idle(INI));
	server->pooled.since = 11;
	server->pooled.opened = 12;
	server->batch = 13;
	server->minor = 2;
	server->last_client_pid = 14;
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
	CHECK(!took->needs_reset && !took->said_fatal);
	CHECK_INT(took->minor, 2);
	CHECK_INT(took->status, 'I');
	CHECK_INT(took->backend_pid, BACKEND_PID);
	CHECK_INT(took->last_client_pid, 14);
	CHECK_INT(took->task_since, 15);
	CHECK_INT(took->pooled.close_reason, REASON_NONE);
	CHECK(took->cancel_key_size == strlen(BACKEND_KEY) && memcmp(took->cancel_key, BACKEND_KEY, took->cancel_key_size) == 0);
	REQUIRE(took->address);
	CHECK(took->address->size == server->address->size && memcmp(&took->address->u, &server->address->u, took->address->size) == 0);
	CHECK(took->welcome && took->welcome != server->welcome);
	CHECK_TEXT(params_get(took->params, params_index(fresh.world->params, "TimeZone")), "UTC");
	CHECK_TEXT(params_get(took->first_params, params_index(fresh.world->params, "TimeZone")), "UTC");
	CHECK_INT(taking->pool->server_count[SERVER_IDLE], 1);
	/* its notifications are found */
	CHECK(HASH_HAS(by_backend_pid, took));
	worlds_close();
}

TEST(server_in_a_transaction)
{
	struct server *took;

	REQUIRE(worlds_begin_in_transaction(INI));
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

TEST(invalid_transaction_status)
{
	REQUIRE(worlds_begin_idle(INI));
	server->status = 'X';
	pack_server();
	server->status = 'I';
	CHECK(!take_server());
	worlds_close();
}

UNIT_MAIN
