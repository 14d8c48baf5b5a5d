/* A client in a hand-over: which clients may be handed over, and that the client has the same state in the other process. */
#include "auth/login_state.h"
#include "cancel/cancel.h"
#include "two_worlds.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "admin_users=admin\n")

static bool begin(void)
{
	worlds_open(INI);
	client = whole_login(&near);
	far = house_server(&whole);
	if (!client)
		return false;
	take_pool();
	return true;
}

static bool begin_in_transaction(void)
{
	worlds_open(INI);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	take_pool();
	return client && server;
}

/* ---- which may be given ---- */

TEST(idle_client)
{
	REQUIRE(begin());
	CHECK(client_may_be_given(client));
	client->peer.stream.write_failed = true;
	CHECK(!client_may_be_given(client));
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
	CHECK(client_may_be_given(client));
	/* unsent messages of a login are kept in its login struct */
	bytes_append_u8(&client->login->out, 'S');
	CHECK(!client_may_be_given(client));
	bytes_free(&client->login->out);
	client->login->direct = true;
	CHECK(!client_may_be_given(client));
	client->login->direct = false;
	worlds_close();
}

/* A replication login continues until its server is ready. */
TEST(replication_login_in_progress)
{
	struct login login = { .out = BYTES_EMPTY };

	REQUIRE(begin());
	client->login = &login;
	CHECK(!client_may_be_given(client));
	client->login = NULL;
	worlds_close();
}

TEST(client_with_a_server)
{
	REQUIRE(begin_in_transaction());
	CHECK(client_may_be_given(client));
	server->peer.stream.write_failed = true;
	CHECK(!client_may_be_given(client));
	server->peer.stream.write_failed = false;
	server->pooled.cancels = 1;
	CHECK(!client_may_be_given(client));
	server->pooled.cancels = 0;
	worlds_close();
}

TEST(console_client)
{
	worlds_open(INI);
	near = house_login(&whole, "admin", "pgbouncer", 0);
	client = whole_last_client();
	REQUIRE(near && client && client->is_console);
	CHECK(client_may_be_given(client));
	worlds_close();
}

/* ---- received clients ---- */

TEST(client_fields_are_handed_over)
{
	struct client *took;

	REQUIRE(begin());
	client->login_since = 11;
	client->last_active = 12;
	client->query_started = 13;
	client->transaction_started = 14;
	client->pooled.since = 15;
	client->peer.connected_at = 16;
	client->peer.request_at = 17;
	client->minor = 2;
	client->pooled.notified = true;
	client->in_transaction = true;
	client->may_show = true;
	client->collects = 12345;
	pack_client();
	took = take_client();
	REQUIRE(took);
	CHECK_INT(took->pooled.state, CLIENT_IDLE);
	CHECK_INT(took->peer.id, client->peer.id);
	CHECK(took->peer.is_client && took->pooled.pool == taking->pool);
	CHECK_TEXT(took->pooled.login_user->name, "u");
	CHECK_INT(took->login_since, 11);
	CHECK_INT(took->last_active, 12);
	CHECK_INT(took->query_started, 13);
	CHECK_INT(took->transaction_started, 14);
	CHECK_INT(took->pooled.since, 15);
	CHECK_INT(took->peer.connected_at, 16);
	CHECK_INT(took->peer.request_at, 17);
	CHECK_INT(took->minor, 2);
	CHECK(took->pooled.notified && took->in_transaction && took->may_show && !took->is_admin && !took->is_console);
	CHECK_INT(took->collects, 12345);
	CHECK_TEXT(params_get(took->params, params_index(fresh.world->params, "TimeZone")), "UTC");
	/* a cancel request with the client's old key finds the client */
	CHECK(took->has_cancel_key && took->cancel_pid == client->cancel_pid && took->cancel_key_size == client->cancel_key_size);
	CHECK(cancel_find(fresh.world, client->cancel_pid, client->cancel_key, client->cancel_key_size) == took);
	client->in_transaction = false;
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

TEST(linked_client)
{
	struct server *took_server;
	struct client *took;

	REQUIRE(begin_in_transaction());
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
	REQUIRE(begin_in_transaction());
	pack_client();
	CHECK(!take_client());
	worlds_close();
	REQUIRE(begin_in_transaction());
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
	client->login_since = 19;
	pack_client();
	took = take_client();
	REQUIRE(took);
	CHECK_INT(took->pooled.state, CLIENT_STARTUP);
	CHECK(took->login && took->login->gss_asked && !took->login->ssl_asked);
	CHECK_INT(took->login_since, 19);
	/* a client that has not logged in cannot be in a pool's list */
	take_pool();
	CHECK(!take_client());
	worlds_close();
}

TEST(authenticated_client_requires_a_pool)
{
	REQUIRE(begin());
	taking->pool = NULL;
	pack_client();
	CHECK(!take_client());
	worlds_close();
}

TEST(duplicate_cancel_key_is_refused)
{
	struct client *took;

	REQUIRE(begin());
	pack_client();
	took = take_client();
	REQUIRE(took);
	CHECK(!take_client());
	worlds_close();
}

TEST(short_cancel_key_is_refused)
{
	REQUIRE(begin());
	client->cancel_key_size = 3;
	pack_client();
	client->cancel_key_size = CANCEL_KEY;
	CHECK(!take_client());
	worlds_close();
}

TEST(unsent_bytes_are_kept)
{
	REQUIRE(begin());
	bytes_append_text(&client->peer.stream.out, "rest");
	pack_client();
	bytes_free(&client->peer.stream.out);
	REQUIRE(take_client());
	CHECK_INT(taking->unsent_count, 1);
	CHECK_INT(bytes_size(&last_client()->peer.stream.out), 0);
	worlds_close();
}

/* Each truncated record is refused, and everything is undone. */
TEST(truncated_record)
{
	REQUIRE(begin());
	pack_client();
	for (size_t n = 0; n < bytes_size(&record); n++) {
		if (take_n(client_unpack, n))
			UNIT_FAIL("%zu bytes are taken", n);
		taken_undo();
		take_pool();
	}
	CHECK(take_client());
	worlds_close();
}

TEST(client_without_a_pool)
{
	REQUIRE(begin());
	pack_client();
	taking->no_place = REASON_DATABASE_REMOVED;
	CHECK(take_n(client_unpack, bytes_size(&record)));
	CHECK(!last_client());
	CHECK_INT(taking->rejected_count, 1);
	worlds_close();
}

/* ---- in the middle of a message ---- */

static bool is_in_message(void)
{
	struct bytes out = BYTES_EMPTY;
	bool is;

	peer_pack(&out, &client->peer);
	is = peer_is_in_message(unpack_of(bytes_front(&out), bytes_size(&out)));
	bytes_free(&out);
	return is;
}

TEST(partial_message)
{
	REQUIRE(begin());
	CHECK(!is_in_message());
	client->peer.passing = 5;
	CHECK(is_in_message());
	/* the rest of the message is discarded */
	client->peer.passing_dropped = true;
	CHECK(!is_in_message());
	client->peer.passing = 0;
	client->peer.passing_dropped = false;
	worlds_close();
}

UNIT_MAIN
