/* A server connection: its initial state, messages of pgweir (their ledger entries, and the routing of their answers), its single end, and the effect
   of its end on the client. */
#include "conn/server.h"

#include "conn/world.h"
#include "logins.h"
#include "pg/message.h"
#include "whole.h"

#include <sys/socket.h>
#include <unistd.h>

#define INI WHOLE_INI("", "")
#define SESSION_INI "[databases]\nd = " HOUSE_SERVER "user=u" HOUSE_SETTINGS "auth_type=any\npool_mode=session\n"

static struct house_end *client, *server;
static struct client *c;
static struct server *s;

static void begin_linked(void)
{
	whole_open(INI);
	c = whole_in_transaction(&client, &server);
	CHECK(c);
	s = server_of(c->pooled.link);
}

static void begin_idle(void)
{
	whole_open(INI);
	CHECK(whole_login(&client));
	c = whole_last_client();
	server = house_server(&whole);
	s = whole_last_server();
	CHECK(!s->pooled.link);
}

TEST(new_server)
{
	uint64_t id;

	begin_idle();
	id = whole.world->peers.last_id;
	s = server_new(c->pooled.pool, whole.world, false, NULL);
	REQUIRE(s && s == whole_last_server());
	CHECK(s->peer.id == id + 1 && whole.world->peers.last_id == id + 1);
	CHECK_INT(s->pooled.state, SERVER_LOGIN);
	CHECK_INT(s->status, 'I');
	CHECK_INT(s->peer.stream.fd, -1);
	CHECK(!s->pooled.is_cancel && s->pooled.dedicated == 0 && s->replication == 0);
	server_end(s, REASON_CONNECT_FAILED, "no way");
	house_settle(&whole);
	whole_close();
}

/* The client's start-up parameters go to the server if the server belongs to this client alone. */
TEST(parameters_of_the_client)
{
	const char *const pairs[] = { "user", "u", "database", "d", "DateStyle", "German" };
	struct bytes out = BYTES_EMPTY;

	whole_open(SESSION_INI);
	client = house_connect(&whole);
	pg_build_startup(&out, 3u << 16, pairs, 6);
	login_send(client, &out);
	c = whole_last_client();
	s = server_new(c->pooled.pool, whole.world, false, c);
	REQUIRE(s);
	CHECK(s->pooled.startup == c->pooled.startup);
	server_end(s, REASON_CONNECT_FAILED, NULL);
	s = server_new(c->pooled.pool, whole.world, false, NULL);
	REQUIRE(s);
	CHECK(s->pooled.startup != c->pooled.startup);
	server_end(s, REASON_CONNECT_FAILED, NULL);
	house_settle(&whole);
	whole_close();
}

TEST(out_of_memory)
{
	begin_idle();
	whole_memory_ends(0);
	CHECK(!server_new(c->pooled.pool, whole.world, false, NULL));
	CHECK(whole_memory_is_back() > 0);
	CHECK(whole_last_server() == s);
	whole_close();
}

TEST(server_name_in_the_log)
{
	char text[256], want[64];

	begin_idle();
	snprintf(want, sizeof(want), "S-0x%llx: d/u@127.0.0.1:5432", (unsigned long long)s->peer.id);
	CHECK_TEXT(server_text(s, text, sizeof(text)), want);
	whole_close();
}

/* ---- the end ---- */

TEST(idle_server_ends)
{
	begin_idle();
	server_end(s, REASON_SERVER_LIFETIME, NULL);
	server_end(s, REASON_SERVER_CRASHED, NULL);
	CHECK_INT(s->peer.end_reason, REASON_SERVER_LIFETIME);
	CHECK_INT(s->pooled.state, SERVER_DEAD);
	house_settle(&whole);
	CHECK(server->is_gone && !client->is_gone);
	whole_close();
}

TEST(client_ends_with_its_server)
{
	begin_linked();
	server_end(s, REASON_SERVER_CRASHED, NULL);
	CHECK(peer_is_ending(&c->peer));
	CHECK_INT(c->peer.end_reason, REASON_SERVER_CRASHED);
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(client), "E(08P01 server conn crashed?)");
	CHECK(server->is_gone);
	whole_close();
}

TEST(client_is_kept_when_its_server_ends)
{
	begin_linked();
	server_end_leaving(s, REASON_SERVER_CRASHED, false);
	CHECK(!c->pooled.link && c->pooled.state == CLIENT_IDLE);
	CHECK_INT(s->peer.ended_in, SERVER_ACTIVE);
	house_settle(&whole);
	CHECK(server->is_gone && !client->is_gone);
	CHECK_TEXT(whole_ask(client, "SELECT 1"), "T D C(SELECT 1) Z(I)");
	whole_close();
}

TEST(handed_over_server_is_removed)
{
	begin_linked();
	server_hand_over(s);
	house_settle(&whole);
	CHECK(server->is_gone && client->is_gone);
	CHECK_TEXT(whole_client_got(client), "");
	CHECK_TEXT(whole_server_got(server), "");
	whole_close();
}

/* ---- messages of pgweir between a client's messages ---- */

static struct server bare;
static int other;

static void begin_bare(void)
{
	int pair[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
	bare = (struct server){ .peer.stream = { .fd = pair[0], .phase = STREAM_OPEN }, .unnamed_of = 7, .batch = 3 };
	other = pair[1];
	ledger_clear(&bare.ledger);
}

static void end_bare(void)
{
	ledger_clear(&bare.ledger);
	close(bare.peer.stream.fd);
	close(other);
}

static const uint8_t batch[] = {
	PGC_PARSE, 0, 0, 0, 8, 'x', 0, 0, 0, PGC_BIND, 0, 0, 0, 4, PGC_EXECUTE, 0, 0, 0, 4, PGC_SYNC, 0, 0, 0, 4,
};

static void send_batch(void)
{
	struct bytes out = BYTES_EMPTY;
	uint8_t got[2 * sizeof(batch)];

	bytes_append(&out, batch, sizeof(batch));
	CHECK(server_send(&bare, MARK_TASK, &out));
	CHECK_INT(read(other, got, sizeof(got)), sizeof(batch));
	CHECK(memcmp(got, batch, sizeof(batch)) == 0);
	bytes_free(&out);
}

/* Checks that the answer belongs to a message of this owner and mark, and whether it completes the message. */
static void answer(char type, enum ledger_owner owner, enum ledger_mark mark, bool ends)
{
	enum ledger_owner told;

	CHECK_INT(ledger_next_mark(&bare.ledger), mark);
	CHECK(ledger_received(&bare.ledger, (uint8_t)type, &told) == LEDGER_ANSWER);
	CHECK_INT(told, owner);
	CHECK_INT(bare.ledger.mark, ends ? mark : LEDGER_UNMARKED);
	ledger_check(&bare.ledger);
}

TEST(answers_of_pooler_and_client_are_separated)
{
	begin_bare();
	CHECK(ledger_sent_query(&bare.ledger));
	send_batch();
	CHECK(ledger_sent_query(&bare.ledger));
	CHECK_INT(bare.batch, 4);
	CHECK_INT(bare.unnamed_of, 7);
	answer('C', OWED_TO_CLIENT, LEDGER_UNMARKED, false);
	answer('Z', OWED_TO_CLIENT, LEDGER_UNMARKED, false);
	answer('1', OWED_TO_POOLER, MARK_TASK, true);
	answer('2', OWED_TO_POOLER, MARK_TASK, true);
	answer('D', OWED_TO_POOLER, MARK_TASK, false);
	answer('C', OWED_TO_POOLER, MARK_TASK, true);
	CHECK(!bare.ledger.mark_failed);
	answer('Z', OWED_TO_POOLER, MARK_TASK, true);
	answer('C', OWED_TO_CLIENT, LEDGER_UNMARKED, false);
	answer('Z', OWED_TO_CLIENT, LEDGER_UNMARKED, false);
	CHECK(ledger_is_empty(&bare.ledger));
	end_bare();
}

/* Each feature learns how many of its messages the server skips; the Sync is answered. */
TEST(error_reports_skipped_messages_by_mark)
{
	begin_bare();
	CHECK(ledger_sent_marked(&bare.ledger, PGC_PARSE, 0, OWED_TO_CLIENT, MARK_PREPARED));
	CHECK(ledger_sent_marked(&bare.ledger, PGC_BIND, 0, OWED_TO_CLIENT, MARK_PREPARED));
	send_batch();
	answer('E', OWED_TO_CLIENT, MARK_PREPARED, true);
	CHECK(bare.ledger.mark_failed);
	CHECK_INT(bare.ledger.marks_skipped[LEDGER_UNMARKED], 4);
	CHECK_INT(bare.ledger.marks_skipped[MARK_PREPARED], 1);
	CHECK_INT(bare.ledger.marks_skipped[MARK_TASK], 3);
	answer('Z', OWED_TO_POOLER, MARK_TASK, true);
	CHECK(!bare.ledger.mark_failed && bare.ledger.marks_skipped[LEDGER_UNMARKED] == 0);
	CHECK(ledger_is_empty(&bare.ledger));
	end_bare();
}

/* ReadyForQuery completes a Query after any answer; the client's unnamed statement is dropped. */
TEST(pooler_query)
{
	struct bytes out = BYTES_EMPTY;

	begin_bare();
	pg_build_string(&out, 'Q', "SELECT 1");
	CHECK(server_send(&bare, MARK_TASK, &out));
	CHECK_INT(bare.unnamed_of, 0);
	CHECK_INT(bare.batch, 3);
	answer('E', OWED_TO_POOLER, MARK_TASK, false);
	answer('Z', OWED_TO_POOLER, MARK_TASK, true);
	CHECK(!bare.ledger.mark_failed && ledger_is_empty(&bare.ledger));
	bytes_free(&out);
	end_bare();
}

TEST(failed_message_is_not_sent)
{
	struct bytes out = BYTES_EMPTY;
	uint8_t got;

	begin_bare();
	out.failed = true;
	CHECK(!server_send(&bare, MARK_TASK, &out));
	CHECK(ledger_is_empty(&bare.ledger) && read(other, &got, 1) < 0);
	end_bare();
}

UNIT_MAIN
