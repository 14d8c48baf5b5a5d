/*
 * A complete hand-over: reasons to refuse it, clients that continue in the other process without interruption, validation of records, and a failed
 * hand-over, after which the old process continues.
 */
#include "pg/build.h"
#include "two_worlds.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "admin_users=admin\n")
#define OTHER_INI "[databases]\ne = " HOUSE_SERVER "user=u" HOUSE_SETTINGS "auth_type=any\npool_mode=transaction\n"
#define PATIENCE 20000
#define ANSWER "T D C(SELECT 1) Z(I)"

static struct conf_problems problems;
static struct handover_counts counts;
static struct records *from, *to;

static void open_worlds(const char *ini, const char *other)
{
	int fds[2];

	whole_open(ini);
	house_open(&fresh, other);
	taking = handover_begin(fresh.world);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	from = records_new(fds[0]);
	to = records_new(fds[1]);
}

static void close_worlds(void)
{
	handover_undo(&taking);
	records_free(&from);
	records_free(&to);
	conf_problems_free(&problems);
	house_close(&fresh);
	whole.holds_answers = false;
	whole_close();
}

/* Takes all records, up to the first invalid record. */
static bool take_all(void)
{
	struct record r;

	while (!handover_is_whole(taking))
		if (records_wait(to, &r, PATIENCE) != RECORDS_OK || !handover_take(taking, &r, &problems))
			return false;
	return true;
}

/* Returns the end of the fresh world at the same index. */
static struct house_end *moved(const struct house_end *end)
{
	return &fresh.ends[end - whole.ends];
}

/* Finishes the hand-over in both processes. */
static void finish(void)
{
	handover_done(whole.world, &from);
	handover_finish(&taking, &to);
	CHECK(!taking && !from && !to);
	memcpy(fresh.ends, whole.ends, sizeof(fresh.ends));
	fresh.end_count = whole.end_count;
	whole.end_count = 0;
	house_settle(&whole);
	house_settle(&fresh);
}

static void hand_over(void)
{
	CHECK(handover_send(whole.world, from, PATIENCE, &counts));
	CHECK(take_all());
	finish();
}

static void say(struct house_end *end, uint8_t type, const char *body, size_t size)
{
	size_t mark = pg_begin(&record, type);

	bytes_append(&record, body, size);
	pg_end(&record, mark);
	house_send(&fresh, end, bytes_front(&record), bytes_size(&record));
	bytes_free(&record);
	house_settle(&fresh);
}

static const char *ask(struct house_end *end, const char *text)
{
	say(end, 'Q', text, strlen(text) + 1);
	return whole_client_got(end);
}

/* ---- when ---- */

TEST(refused_hand_over)
{
	struct database *d;

	open_worlds(INI, INI);
	CHECK(whole_login(&near));
	d = database_find(whole.world->pools, "d");
	REQUIRE(d);
	CHECK(!handover_refusal(whole.world));
	whole.world->drain = DRAIN_WAIT_CLIENTS;
	CHECK_TEXT(handover_refusal(whole.world), "it is shutting down");
	whole.world->drain = DRAIN_OFF;
	whole.world->pools->paused = true;
	CHECK_TEXT(handover_refusal(whole.world), "it is paused or suspended: RESUME it first");
	whole.world->pools->paused = false;
	whole.world->pools->suspended = true;
	CHECK_TEXT(handover_refusal(whole.world), "it is paused or suspended: RESUME it first");
	whole.world->pools->suspended = false;
	d->paused = true;
	CHECK_TEXT(handover_refusal(whole.world), "a database of it is paused: RESUME it first");
	d->paused = false;
	CHECK(!handover_refusal(whole.world));
	close_worlds();
}

TEST(hand_over_happens_once)
{
	open_worlds(INI, INI);
	CHECK(whole_login(&near));
	hand_over();
	CHECK_TEXT(handover_refusal(whole.world), "it has been replaced already");
	close_worlds();
}

TEST(hand_over_waits_for_unfinished_work)
{
	int *unauthenticated;

	open_worlds(INI, INI);
	CHECK(handover_is_calm(whole.world));
	client = whole_login(&near);
	REQUIRE(client);
	CHECK(handover_is_calm(whole.world));
	client->pooled.pool->cancel_logins = 1;
	CHECK(!handover_is_calm(whole.world));
	client->pooled.pool->cancel_logins = 0;
	client->pooled.pool->server_count[SERVER_BEING_CANCELED]++;
	CHECK(!handover_is_calm(whole.world));
	client->pooled.pool->server_count[SERVER_BEING_CANCELED]--;
	unauthenticated = whole.world->pools->unauthenticated_count;
	unauthenticated[CLIENT_AUTH]++;
	CHECK(!handover_is_calm(whole.world));
	unauthenticated[CLIENT_AUTH]--;
	/* a client that has sent part of its start-up packet */
	near = house_connect(&whole);
	house_settle(&whole);
	CHECK(handover_is_calm(whole.world));
	whole_last_client()->peer.stream.write_failed = true;
	CHECK(!handover_is_calm(whole.world));
	whole_last_client()->peer.stream.write_failed = false;
	close_worlds();
}

/* ---- connections that are handed over ---- */

TEST(idle_client_continues)
{
	open_worlds(INI, INI);
	CHECK(whole_login(&near));
	CHECK_TEXT(whole_ask(near, "one"), ANSWER);
	hand_over();
	CHECK_INT(counts.clients, 1);
	CHECK_INT(counts.servers, 1);
	CHECK_INT(counts.staying, 0);
	CHECK(list_is_empty(&whole.world->clients) && list_is_empty(&whole.world->servers));
	CHECK_TEXT(ask(moved(near), "two"), ANSWER);
	/* the client keeps its server */
	CHECK_INT(fresh.end_count, 2);
	close_worlds();
}

TEST(transaction_continues)
{
	open_worlds(INI, INI);
	REQUIRE(whole_in_transaction(&near, &far));
	hand_over();
	CHECK_TEXT(ask(moved(near), "two"), "T D C(SELECT 1) Z(T)");
	CHECK_TEXT(ask(moved(near), "C"), "C(COMMIT) Z(I)");
	close_worlds();
}

TEST(answer_in_progress_continues)
{
	open_worlds(INI, INI);
	CHECK(whole_login(&near));
	whole.holds_answers = true;
	whole_query(near, "one");
	CHECK(handover_send(whole.world, from, PATIENCE, &counts) && take_all());
	fresh.holds_answers = true;
	finish();
	CHECK_TEXT(whole_client_got(moved(near)), "");
	fresh.holds_answers = false;
	house_settle(&fresh);
	CHECK_TEXT(whole_client_got(moved(near)), ANSWER);
	close_worlds();
}

TEST(queued_client_is_served)
{
	struct house_end *waits;

	open_worlds(INI, INI);
	REQUIRE(whole_in_transaction(&near, &far));
	CHECK(whole_login(&waits));
	whole_query(waits, "one");
	hand_over();
	CHECK_TEXT(whole_client_got(moved(waits)), "");
	CHECK_TEXT(ask(moved(near), "C"), "C(COMMIT) Z(I)");
	CHECK_TEXT(whole_client_got(moved(waits)), ANSWER);
	close_worlds();
}

/* Messages that the relay has left for a later turn. */
TEST(held_messages_are_processed)
{
	static const char query[] = "Q\0\0\0\10two";

	open_worlds(INI, INI);
	client = whole_login(&near);
	REQUIRE(client);
	bytes_append(&client->peer.held, query, sizeof(query));
	hand_over();
	CHECK_TEXT(whole_client_got(moved(near)), ANSWER);
	close_worlds();
}

TEST(unsent_bytes_are_sent)
{
	open_worlds(INI, INI);
	client = whole_login(&near);
	REQUIRE(client);
	pg_build_notice(&client->peer.stream.out, "NOTICE", "00000", "late", NULL);
	CHECK(handover_send(whole.world, from, PATIENCE, &counts) && take_all());
	bytes_free(&client->peer.stream.out);
	finish();
	CHECK_TEXT(whole_client_got(moved(near)), "N(00000 late)");
	CHECK_TEXT(ask(moved(near), "two"), ANSWER);
	close_worlds();
}

TEST(clients_are_sorted_by_id)
{
	struct house_end *ends[3];
	uint64_t before = 0;

	open_worlds(INI, INI);
	for (int i = 0; i < 3; i++)
		CHECK(whole_login(&ends[i]));
	/* records follow the order of the pool's lists: a client with a server comes first */
	CHECK_TEXT(whole_ask(ends[2], "BEGIN"), "C(BEGIN) Z(T)");
	hand_over();
	LIST_EACH(node, &fresh.world->clients) {
		const struct peer *peer = LIST_OBJECT(node, struct peer, node);

		CHECK(peer->id > before);
		before = peer->id;
	}
	close_worlds();
}

TEST(connection_that_cannot_be_handed_over_ends)
{
	struct house_end *stays;

	open_worlds(INI, INI);
	CHECK(whole_login(&near));
	client = whole_login(&stays);
	REQUIRE(client);
	/* a socket that has failed is not handed over: its connection ends here */
	client->peer.stream.write_failed = true;
	CHECK(handover_send(whole.world, from, PATIENCE, &counts) && take_all());
	CHECK_INT(counts.clients, 1);
	CHECK_INT(counts.staying, 1);
	CHECK_INT(handover_counted(taking)->staying, 1);
	finish();
	CHECK(whole_last_client() == client);
	client->peer.stream.write_failed = false;
	close_worlds();
}

/* ---- connections without a destination ---- */

TEST(removed_database)
{
	open_worlds(INI, OTHER_INI);
	REQUIRE(whole_in_transaction(&near, &far));
	hand_over();
	CHECK(list_is_empty(&fresh.world->clients) && list_is_empty(&fresh.world->servers));
	CHECK(moved(near)->is_gone && moved(far)->is_gone);
	CHECK(strncmp(whole_client_got(moved(near)), "E(08P01 ", 8) == 0);
	close_worlds();
}

TEST(idle_servers_of_a_removed_database_are_terminated)
{
	open_worlds(INI, OTHER_INI);
	CHECK(whole_login(&near));
	CHECK_TEXT(whole_ask(near, "one"), ANSWER);
	far = house_server(&whole);
	hand_over();
	CHECK(moved(far)->backend->has_ended);
	close_worlds();
}

/* ---- invalid records ---- */

static bool take_one(uint8_t type, const void *body, size_t size, int fd)
{
	struct record r = { .type = type, .body = body, .size = size, .fd = fd };

	return handover_take(taking, &r, &problems);
}

TEST(unknown_record_type)
{
	open_worlds(INI, INI);
	CHECK(!take_one('?', "", 0, -1));
	CHECK_INT(problems.errors, 1);
	close_worlds();
}

TEST(unexpected_descriptor)
{
	char byte;

	open_worlds(INI, INI);
	CHECK(!take_one(HANDOVER_CLIENT, "", 0, -1));
	CHECK(take_one(HANDOVER_UNAUTHENTICATED, "", 0, -1));
	CHECK(!take_one(HANDOVER_UNAUTHENTICATED, "", 0, descriptor()));
	/* the descriptor is closed */
	CHECK_INT(recv(other_end, &byte, 1, 0), 0);
	other_end_close();
	close_worlds();
}

TEST(record_with_extra_bytes)
{
	open_worlds(INI, INI);
	CHECK(!take_one(HANDOVER_UNAUTHENTICATED, "x", 1, -1));
	close_worlds();
}

TEST(end_record_with_wrong_counts)
{
	static const uint8_t nothing[16] = { 0 }, one_client[16] = { [11] = 1 };

	open_worlds(INI, INI);
	/* the world record is missing */
	CHECK(!take_one(HANDOVER_END, nothing, sizeof(nothing), -1));
	CHECK(!handover_is_whole(taking));
	taking->has_world = true;
	CHECK(!take_one(HANDOVER_END, one_client, sizeof(one_client), -1));
	CHECK(!handover_is_whole(taking));
	CHECK(take_one(HANDOVER_END, nothing, sizeof(nothing), -1));
	CHECK(handover_is_whole(taking));
	/* the last record must be the end record */
	CHECK(!take_one(HANDOVER_UNAUTHENTICATED, "", 0, -1));
	close_worlds();
}

TEST(server_record_is_followed_by_its_client)
{
	struct record r;

	open_worlds(INI, INI);
	REQUIRE(whole_in_transaction(&near, &far));
	CHECK(handover_send(whole.world, from, PATIENCE, &counts));
	do {
		REQUIRE(records_wait(to, &r, PATIENCE) == RECORDS_OK);
		CHECK(handover_take(taking, &r, &problems));
	} while (r.type != HANDOVER_SERVER);
	CHECK(taking->server);
	CHECK(!take_one(HANDOVER_UNAUTHENTICATED, "", 0, -1));
	close_worlds();
}

/* ---- when it is not to be ---- */

TEST(old_process_continues_after_a_failure)
{
	open_worlds(INI, INI);
	REQUIRE(whole_in_transaction(&near, &far));
	CHECK(handover_send(whole.world, from, PATIENCE, &counts) && take_all());
	CHECK(!list_is_empty(&fresh.world->clients));
	handover_undo(&taking);
	CHECK(!taking);
	house_settle(&fresh);
	CHECK(list_is_empty(&fresh.world->clients) && list_is_empty(&fresh.world->servers));
	/* no client got a message */
	CHECK(!near->is_gone && !far->is_gone);
	CHECK_TEXT(whole_ask(near, "two"), "T D C(SELECT 1) Z(T)");
	CHECK_TEXT(whole_ask(near, "C"), "C(COMMIT) Z(I)");
	/* a second hand-over succeeds */
	handover_undo(&taking);
	close_worlds();
}

TEST(channel_fails)
{
	open_worlds(INI, INI);
	CHECK(whole_login(&near));
	records_free(&to);
	CHECK(!handover_send(whole.world, from, PATIENCE, &counts));
	CHECK_TEXT(whole_ask(near, "one"), ANSWER);
	close_worlds();
}

UNIT_MAIN
