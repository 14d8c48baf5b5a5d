/* Client messages to the server: truncated anywhere, in sequence, too long, or invalid. */
#include "relay/relay.h"

#include "state/session_state.h"

#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "max_packet_size=10000\n")

static struct house_end *near, *far;
static struct client *client;
static struct server *server;

static bool begin(void)
{
	whole_open(INI);
	client = whole_login(&near);
	server = whole_last_server();
	far = house_server(&whole);
	if (!client || !server || !far)
		return false;
	whole_client_got(near);
	whole_server_got(far);
	return true;
}

static void say(const char *bytes, size_t size)
{
	house_send(&whole, near, bytes, size);
	house_settle(&whole);
}

#define SAY(bytes) say(bytes, sizeof(bytes) - 1)
#define QUERY "Q\0\0\0\10one\0"
#define ANSWER "T D C(SELECT 1) Z(I)"
#define PARSE "P\0\0\0\13\0one\0\0\0"
#define BIND "B\0\0\0\14\0\0\0\0\0\0\0\0"
#define EXECUTE "E\0\0\0\11\0\0\0\0\0"
#define SYNC "S\0\0\0\4"
#define TERMINATE "X\0\0\0\4"

TEST(message_in_single_bytes)
{
	REQUIRE(begin());
	house_feed(&whole, near, QUERY, sizeof(QUERY) - 1, FUZZ_SINGLE);
	CHECK_TEXT(whole_client_got(near), ANSWER);
	CHECK_TEXT(whole_server_got(far), "Q(one)");
	whole_close();
}

/* No server is assigned for an incomplete message. */
TEST(header_without_body)
{
	REQUIRE(begin());
	SAY("Q\0\0\0");
	CHECK_INT(client->pooled.state, CLIENT_IDLE);
	CHECK(!client->pooled.link);
	SAY("\10one\0");
	CHECK_TEXT(whole_client_got(near), ANSWER);
	whole_close();
}

TEST(many_messages_in_a_row)
{
	REQUIRE(begin());
	SAY(QUERY QUERY QUERY);
	CHECK_TEXT(whole_client_got(near), ANSWER " " ANSWER " " ANSWER);
	CHECK_TEXT(whole_server_got(far), "Q(one) Q(one) Q(one)");
	CHECK(!client->pooled.link);
	whole_close();
}

TEST(batch_of_the_extended_protocol)
{
	REQUIRE(begin());
	SAY(PARSE BIND EXECUTE SYNC);
	CHECK_TEXT(whole_client_got(near), "1 2 D C(SELECT 1) Z(I)");
	CHECK(!client->pooled.link);
	whole_close();
}

/* The server remains linked until the Sync, even if it has answered everything so far. */
TEST(batch_without_sync)
{
	REQUIRE(begin());
	SAY(PARSE BIND EXECUTE "H\0\0\0\4");
	CHECK_TEXT(whole_client_got(near), "1 2 D C(SELECT 1)");
	CHECK(client->pooled.link == &server->pooled);
	SAY(SYNC);
	CHECK_TEXT(whole_client_got(near), "Z(I)");
	CHECK(!client->pooled.link);
	whole_close();
}

TEST(terminate)
{
	REQUIRE(begin());
	SAY(QUERY);
	CHECK_TEXT(whole_client_got(near), ANSWER);
	SAY(TERMINATE);
	CHECK(near->is_gone && !far->is_gone);
	/* the message is for pgweir */
	CHECK_TEXT(whole_server_got(far), "Q(one)");
	CHECK_INT(server->pooled.state, SERVER_IDLE);
	whole_close();
}

/* Nothing waits for the answer, and no other client may get it. */
TEST(terminate_after_a_query)
{
	REQUIRE(begin());
	SAY(QUERY TERMINATE);
	CHECK(near->is_gone && far->is_gone);
	whole_close();
}

/* ---- invalid messages ---- */

TEST(invalid_message_length)
{
	REQUIRE(begin());
	SAY("Q\0\0\0\3");
	CHECK(near->is_gone && !far->is_gone);
	CHECK(strncmp(whole_client_got(near), "E(08P01 ", 8) == 0);
	CHECK_TEXT(whole_server_got(far), "");
	whole_close();
}

TEST(message_too_long)
{
	REQUIRE(begin());
	SAY("Q\0\0\47\20");		/* 10,000 including the length word */
	CHECK(!near->is_gone);
	whole_close();
	REQUIRE(begin());
	SAY("Q\0\0\47\22");
	CHECK(near->is_gone);
	whole_close();
}

TEST(invalid_message_type)
{
	REQUIRE(begin());
	SAY("?\0\0\0\4");
	CHECK(near->is_gone && !far->is_gone);
	CHECK(strncmp(whole_client_got(near), "E(08P01 ", 8) == 0);
	CHECK_TEXT(whole_server_got(far), "");
	whole_close();
}

/* If earlier queries are not answered yet, the server is closed: its state is unknown. */
TEST(invalid_message_after_a_query)
{
	REQUIRE(begin());
	SAY(QUERY "?\0\0\0\4");
	CHECK(near->is_gone);
	CHECK_TEXT(whole_server_got(far), "Q(one)");
	whole_close();
}

/* ---- a text that is read in parts ---- */

#define FULL_INI "[databases]\nd = " HOUSE_SERVER "user=u pool_size=1 session_state=full" HOUSE_SETTINGS "auth_type=any\npool_mode=transaction\n"
#define LONG "SET a.b = 1;"

/* The messages after the text wait; the client may end while the text is read. */
TEST(long_text_of_several_turns)
{
	static char message[100 * 1024];
	size_t size = PG_HEADER;

	whole_open(FULL_INI);
	client = whole_login(&near);
	REQUIRE(client);
	while (size + sizeof(LONG) < sizeof(message)) {
		memcpy(message + size, LONG, sizeof(LONG));
		size += sizeof(LONG) - 1;
	}
	size++;
	message[0] = PGC_QUERY;
	pg_u32_put((uint8_t *)message + 1, (uint32_t)(size - 1));
	house_send(&whole, near, message, size);
	say(QUERY, sizeof(QUERY) - 1);
	CHECK_TEXT(whole_client_got(near), ANSWER " " ANSWER);
	CHECK(!client->session->progress);
	CHECK(whole.world->share.cut == 0 && whole.world->share.looks_each == LOOKS_OF_TURN);
	house_send(&whole, near, message, size);
	house_hang_up(near);
	house_settle(&whole);
	CHECK(list_is_empty(&whole.world->peers.clients));
	whole_close();
}

/* ---- a client that waits ---- */

TEST(input_of_a_waiting_client_is_held)
{
	struct house_end *other_end, *other_far;
	struct client *other;

	whole_open(INI);
	other = whole_in_transaction(&other_end, &other_far);
	REQUIRE(other);
	client = whole_login(&near);
	REQUIRE(client);
	whole_client_got(near);
	SAY(QUERY QUERY);
	CHECK_INT(client->pooled.state, CLIENT_WAITING);
	CHECK_INT(bytes_size(&client->peer.held), 2 * (sizeof(QUERY) - 1));
	whole_query(other_end, "C");
	CHECK_TEXT(whole_client_got(near), ANSWER " " ANSWER);
	CHECK_INT(bytes_size(&client->peer.held), 0);
	whole_close();
}

/* The server has the beginning of the message and waits for the rest: it cannot be reused. */
TEST(client_disconnects_within_a_message)
{
	REQUIRE(begin());
	SAY("Q\0\0\0\20one");
	CHECK(client->pooled.link == &server->pooled);
	house_hang_up(near);
	house_settle(&whole);
	CHECK(list_is_empty(&whole.world->peers.clients));
	CHECK(far->is_gone);
	whole_close();
}

UNIT_MAIN
