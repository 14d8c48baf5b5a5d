/* A LISTEN server and its clients in a hand-over: they are handed over together, or not at all. */
#include "handover/handover_parts.h"

#include "state/notify_client.h"
#include "state/notify_server.h"
#include "state/session_state.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=3", "session_state=full\n")

static struct house_end *near, *far;
static struct client *client;
static struct server *server;
static struct notify_server *listener;

/* The client listens, and its server has become the pool's LISTEN server. */
static bool begin(void)
{
	whole_open(INI);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	if (!client || !server)
		return false;
	whole_query(near, "ALISTEN");
	whole_query(near, "C");
	listener = notify_server_of(client->pooled.pool);
	return listener && listener->server == server;
}

TEST(listener_and_clients_are_handed_over_together)
{
	REQUIRE(begin());
	listeners_decide(whole.world);
	CHECK(!listener_stays(client->pooled.pool) && listener_is_calm(client->pooled.pool));
	CHECK(client_may_be_given(client) && server_may_be_given(server));
	whole_close();
}

TEST(listener_and_clients_are_kept_together)
{
	REQUIRE(begin());
	client->peer.stream.write_failed = true;
	listeners_decide(whole.world);
	CHECK(listener_stays(client->pooled.pool) && !server_may_be_given(server));
	client->peer.stream.write_failed = false;
	CHECK(client_itself_may_be_given(client) && !client_may_be_given(client));
	whole_close();
}

TEST(listener_with_a_pending_query_delays_the_hand_over)
{
	REQUIRE(begin());
	server_task_to(server, &task_listen);
	CHECK(!listener_is_calm(client->pooled.pool));
	listeners_decide(whole.world);
	CHECK(listener_stays(client->pooled.pool));
	server_task_to(server, NULL);
	listeners_decide(whole.world);
	CHECK(!listener_stays(client->pooled.pool));
	list_append(&listener->movers, &client->session->notify_client->moving);
	CHECK(!listener_is_calm(client->pooled.pool));
	list_remove(&client->session->notify_client->moving);
	whole_close();
}

/* The state in the other process: a client without a LISTEN server, and a client without a channel. */
static struct unpack packed(struct bytes *out)
{
	notify_client_pack(out, client);
	bytes_append(&client->session->notify_client->pending, "A", 1);
	notify_client_forget(client);
	house_settle(&whole);
	return unpack_of(bytes_front(out), bytes_size(out));
}

TEST(channels_of_a_client_are_handed_over)
{
	struct bytes out = BYTES_EMPTY;
	struct unpack in;
	struct notify_client *h;

	REQUIRE(begin());
	h = client->session->notify_client;
	bytes_append(&h->pending, "A", 1);
	in = packed(&out);
	CHECK(!client->hears);
	notify_client_unpack(&in, client);
	CHECK(unpack_is_done(&in) && client->hears);
	h = client->session->notify_client;
	REQUIRE(h);
	CHECK(h->step == NOTIFY_RESTS && bytes_size(&h->pending) == 1);
	CHECK(!list_is_empty(&h->subscriptions));
	CHECK_TEXT(LIST_OBJECT(list_first(&h->subscriptions), struct subscription, of_client)->channel->name, "c");
	bytes_free(&h->pending);
	bytes_free(&out);
	whole_close();
}

TEST(invalid_channel_lists_are_refused)
{
	struct bytes out = BYTES_EMPTY, twice = BYTES_EMPTY;
	struct unpack in;

	REQUIRE(begin());
	in = packed(&out);
	in.end--;
	notify_client_unpack(&in, client);
	CHECK(in.bad);
	notify_client_forget(client);
	/* a channel listed twice */
	pack_bool(&twice, true);
	for (int i = 0; i < 2; i++) {
		pack_text(&twice, "c");
		pack_bool(&twice, true);
		pack_bool(&twice, false);
	}
	pack_text(&twice, NULL);
	in = unpack_of(bytes_front(&twice), bytes_size(&twice));
	notify_client_unpack(&in, client);
	CHECK(in.bad);
	bytes_free(&twice);
	bytes_free(&out);
	whole_close();
}

TEST(marker_requires_a_listener)
{
	struct bytes out = BYTES_EMPTY;
	struct unpack in;

	REQUIRE(begin());
	listener_pack(&out, server);
	in = unpack_of(bytes_front(&out), bytes_size(&out));
	/* the pool already has a LISTEN server */
	listener_unpack_server(&in, server);
	CHECK(in.bad);
	listener->server = NULL;
	in = unpack_of(bytes_front(&out), bytes_size(&out));
	listener_unpack_server(&in, server);
	CHECK(unpack_is_done(&in) && listener->server == server);
	bytes_free(&out);
	pack_text(&out, "short");
	in = unpack_of(bytes_front(&out), bytes_size(&out));
	listener->server = NULL;
	listener_unpack_server(&in, server);
	CHECK(in.bad);
	listener->server = server;
	bytes_free(&out);
	whole_close();
}

UNIT_MAIN
