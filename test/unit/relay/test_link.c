/* A link from its beginning to its end: what is shared, when a server is clean, and what becomes of it when its client goes. */
#include "relay/link.h"

#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "")
#define SESSION_INI "[databases]\nd = " HOUSE_SERVER "user=u pool_size=1" HOUSE_SETTINGS "auth_type=any\npool_mode=session\nserver_reset_query=DISCARD ALL\n"

static struct house_end *near, *far;
static struct client *client;
static struct server *server;

static bool begin(const char *ini)
{
	whole_open(ini);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	whole_server_got(far);
	return client && server;
}

static void end(void)
{
	whole.holds_answers = false;
	house_settle(&whole);
	whole_close();
}

static void client_leaves(void)
{
	house_hang_up(near);
	house_settle(&whole);
}

/* ---- the beginning ---- */

TEST(what_is_shared)
{
	REQUIRE(begin(INI));
	CHECK(client->shares_server && client->shares_names && link_will_share(client));
	end();
	REQUIRE(begin(SESSION_INI));
	CHECK(!client->shares_server && !client->shares_names && !link_will_share(client));
	end();
}

TEST(a_client_of_replication_shares_nothing)
{
	REQUIRE(begin(INI));
	client->replication = 1;
	CHECK(!link_will_share(client));
	client->replication = 0;
	end();
}

/* ---- clean ---- */

TEST(a_server_in_a_transaction_is_not_lent_to_others)
{
	REQUIRE(begin(INI));
	CHECK(!server_is_clean(server));
	link_end_if_over(server);
	CHECK(client->policy.link == &server->policy);
	whole_query(near, "C");
	CHECK(!client->policy.link && server_is_clean(server));
	CHECK_INT(server->policy.state, SERVER_IDLE);
	end();
}

/* What a server that is idle for its client may still have to do, one by one. */
TEST(what_keeps_a_server_from_being_clean)
{
	REQUIRE(begin(SESSION_INI));
	whole_query(near, "C");
	CHECK(client->policy.link && server_is_clean(server));
	server->status = 'E';
	CHECK(!server_is_clean(server));
	server->status = 'I';
	server->said_fatal = true;
	CHECK(!server_is_clean(server));
	server->said_fatal = false;
	server->peer.passing = 1;
	CHECK(!server_is_clean(server));
	server->peer.passing = 0;
	server->task = TASK_PARAMS;
	CHECK(!server_is_clean(server));
	server->task = TASK_NONE;
	client->half_sent = true;
	CHECK(!server_is_clean(server));
	client->half_sent = false;
	client->peer.passing = 1;
	CHECK(!server_is_clean(server));
	/* the rest of a message that goes nowhere concerns no server */
	client->peer.passing_dropped = true;
	CHECK(server_is_clean(server));
	client->peer.passing = 0;
	client->peer.passing_dropped = false;
	CHECK(server_is_clean(server));
	end();
}

TEST(a_session_lasts_until_its_client_leaves)
{
	REQUIRE(begin(SESSION_INI));
	whole_query(near, "C");
	CHECK(client->policy.link == &server->policy);
	whole_server_got(far);
	client_leaves();
	CHECK_TEXT(whole_server_got(far), "Q(DISCARD ALL)");
	CHECK_INT(server->policy.state, SERVER_IDLE);
	end();
}

/* ---- a client that leaves ---- */

TEST(in_a_transaction_the_server_ends)
{
	REQUIRE(begin(INI));
	client_leaves();
	CHECK(far->is_gone);
	CHECK_TEXT(whole_server_got(far), "X");
	end();
}

TEST(with_an_answer_under_way_the_server_ends_without_a_word)
{
	REQUIRE(begin(INI));
	whole.holds_answers = true;
	whole_query(near, "one");
	whole_server_got(far);
	client_leaves();
	CHECK(far->is_gone);
	CHECK_TEXT(whole_server_got(far), "");
	end();
}

TEST(after_all_answers_the_server_stays)
{
	REQUIRE(begin(INI));
	whole_query(near, "C");
	client_leaves();
	CHECK(!far->is_gone);
	CHECK_INT(server->policy.state, SERVER_IDLE);
	end();
}

/* ---- the last question ---- */

static const uint8_t reply[] = { '1', 0, 0, 0, 4, 't', 0, 0, 0, 22, 0, 4, 'p', 'g', 'w', 'e', 'i', 'r', ':', ' ', 'a', 'l', 'l', ' ', 's', 'a', 'i', 'd' };

TEST(the_reply_to_the_last_question)
{
	uint8_t other[sizeof(reply)];

	REQUIRE(begin(SESSION_INI));
	whole_query(near, "C");
	/* nothing was asked */
	CHECK_INT(link_look_for_reply(server, reply, sizeof(reply)), PG_BAD);
	server->task = TASK_LEAVE;
	CHECK_INT(link_look_for_reply(server, reply, sizeof(reply)), PG_OK);
	CHECK_INT(link_look_for_reply(server, reply, 1), PG_MORE);
	CHECK_INT(link_look_for_reply(server, reply, sizeof(reply) - 1), PG_MORE);
	for (size_t i = 0; i < sizeof(reply); i++) {
		memcpy(other, reply, sizeof(reply));
		other[i] ^= 1;
		CHECK_INT(link_look_for_reply(server, other, sizeof(other)), PG_BAD);
		if (i > 0)
			CHECK_INT(link_look_for_reply(server, other, i), PG_MORE);
	}
	server->task = TASK_NONE;
	end();
}

TEST(when_a_server_may_be_left)
{
	REQUIRE(begin(INI));
	/* no other server would know the transaction */
	CHECK(!link_may_leave(server));
	server->status = 'I';
	CHECK(link_may_leave(server));
	server->state_doubts = PIN_LOCK;
	CHECK(!link_may_leave(server));
	server->state_doubts = 0;
	client->policy.pins = PIN_LISTENING;
	CHECK(!link_may_leave(server));
	client->policy.pins = 0;
	server->task = TASK_PARAMS;
	CHECK(!link_may_leave(server));
	server->task = TASK_NONE;
	server->ledger.open = true;
	CHECK(!link_may_leave(server));
	server->ledger.open = false;
	client->shares_server = false;
	CHECK(!link_may_leave(server));
	client->shares_server = true;
	server->status = 'T';
	end();
}

UNIT_MAIN
