/* A link from beginning to end: sharing, when a server is clean, and the server's state after its client disconnects. */
#include "relay/link.h"
#include "relay/client_message.h"
#include "relay/release.h"

#include "state/session_restore.h"
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

TEST(servers_are_shared_between_clients)
{
	REQUIRE(begin(INI));
	CHECK(client->link_facts.shares_server && client->link_facts.shares_names && link_will_share(client));
	end();
	REQUIRE(begin(SESSION_INI));
	CHECK(!client->link_facts.shares_server && !client->link_facts.shares_names && !link_will_share(client));
	end();
}

TEST(replication_client_does_not_share_its_server)
{
	REQUIRE(begin(INI));
	client->login_facts.replication = 1;
	CHECK(!link_will_share(client));
	client->login_facts.replication = 0;
	end();
}

/* ---- clean ---- */

TEST(a_server_in_a_transaction_is_not_lent_to_others)
{
	REQUIRE(begin(INI));
	CHECK(!server_is_clean(server));
	release_if_over(server);
	CHECK(client->pooled.link == &server->pooled);
	whole_query(near, "C");
	CHECK(!client->pooled.link && server_is_clean(server));
	CHECK_INT(server->pooled.state, SERVER_IDLE);
	end();
}

/* The reasons for which the idle server of a client is not clean, one by one. */
TEST(reasons_for_which_a_server_is_not_clean)
{
	REQUIRE(begin(SESSION_INI));
	whole_query(near, "C");
	CHECK(client->pooled.link && server_is_clean(server));
	server->status = 'E';
	CHECK(!server_is_clean(server));
	server->status = 'I';
	server->said_fatal = true;
	CHECK(!server_is_clean(server));
	server->said_fatal = false;
	server->peer.passing = 1;
	CHECK(!server_is_clean(server));
	server->peer.passing = 0;
	server->task = &task_params;
	CHECK(!server_is_clean(server));
	server->task = NULL;
	client->half_sent = true;
	CHECK(!server_is_clean(server));
	client->half_sent = false;
	client->peer.passing = 1;
	CHECK(!server_is_clean(server));
	/* the discarded rest of a message does not affect the server */
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
	CHECK(client->pooled.link == &server->pooled);
	whole_server_got(far);
	client_leaves();
	CHECK_TEXT(whole_server_got(far), "Q(DISCARD ALL)");
	CHECK_INT(server->pooled.state, SERVER_IDLE);
	end();
}

/* ---- a client that leaves ---- */

TEST(server_in_a_transaction_is_closed)
{
	REQUIRE(begin(INI));
	client_leaves();
	CHECK(far->is_gone);
	CHECK_TEXT(whole_server_got(far), "X");
	end();
}

TEST(server_with_a_pending_answer_is_closed_silently)
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

TEST(server_without_pending_answers_is_kept)
{
	REQUIRE(begin(INI));
	whole_query(near, "C");
	client_leaves();
	CHECK(!far->is_gone);
	CHECK_INT(server->pooled.state, SERVER_IDLE);
	end();
}

/* ---- the last question ---- */

static const uint8_t reply[] = { '1', 0, 0, 0, 4, 't', 0, 0, 0, 22, 0, 4, 'p', 'g', 'w', 'e', 'i', 'r', ':', ' ', 'a', 'l', 'l', ' ', 's', 'a', 'i', 'd' };

TEST(reply_to_the_last_pooler_query)
{
	uint8_t other[sizeof(reply)];

	REQUIRE(begin(SESSION_INI));
	whole_query(near, "C");
	/* no query was sent */
	CHECK_INT(release_look_for_reply(server, reply, sizeof(reply)), PG_BAD);
	server->task = &task_leave;
	CHECK_INT(release_look_for_reply(server, reply, sizeof(reply)), PG_OK);
	CHECK_INT(release_look_for_reply(server, reply, 1), PG_MORE);
	CHECK_INT(release_look_for_reply(server, reply, sizeof(reply) - 1), PG_MORE);
	for (size_t i = 0; i < sizeof(reply); i++) {
		memcpy(other, reply, sizeof(reply));
		other[i] ^= 1;
		CHECK_INT(release_look_for_reply(server, other, sizeof(other)), PG_BAD);
		if (i > 0)
			CHECK_INT(release_look_for_reply(server, other, i), PG_MORE);
	}
	server->task = NULL;
	end();
}

/* The message waits until the client has another server. */
static bool waits_for_another(void)
{
	const struct pg_frame f = { PGC_FLUSH, 0, (const uint8_t *)"", 0 };
	struct gather g;
	struct ledger before = server->ledger;
	enum verdict verdict;
	size_t skip = 0;

	gather_begin(&g, &server->peer.stream);
	server->ledger.lost = true;
	verdict = relay_take(client, &f, &g, &skip);
	server->ledger = before;
	return verdict == VERDICT_WAIT;
}

TEST(conditions_for_releasing_a_server)
{
	REQUIRE(begin(INI));
	/* no other server would know the transaction */
	CHECK(!waits_for_another());
	server->status = 'I';
	CHECK(waits_for_another());
	server->session.dirty = PIN_LOCK;
	CHECK(!waits_for_another());
	server->session.dirty = 0;
	client->pooled.pins = PIN_LISTENING;
	CHECK(!waits_for_another());
	client->pooled.pins = 0;
	server->ledger.open = true;
	CHECK(!waits_for_another());
	server->ledger.open = false;
	client->link_facts.shares_server = false;
	CHECK(!waits_for_another());
	client->link_facts.shares_server = true;
	server->status = 'T';
	end();
}

UNIT_MAIN
