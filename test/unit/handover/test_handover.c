/*
 * A complete handover: when it may begin, and the order and the counts of its records. The scenes between two processes are in
 * test/wire/test_takeover.py and test_takeover_failures.py.
 */
#include "two_worlds.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "admin_users=admin\n")
#define PATIENCE 20000

static struct conf_problems problems;
static struct handover_counts counts;
static struct records *from, *to;

static void open_worlds(void)
{
	int fds[2];

	whole_open(INI);
	house_open(&fresh, INI);
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

	while (!taking->is_whole)
		if (records_next(to, &r, PATIENCE) != RECORDS_OK || !handover_take(taking, &r, &problems))
			return false;
	return true;
}

/* The handover in both processes. */
static void hand_over(void)
{
	CHECK(handover_send(whole.world, from, PATIENCE, &counts));
	CHECK(take_all());
	handover_done(whole.world, &from);
	handover_finish(&taking, &to);
	CHECK(!taking && !from && !to);
	memcpy(fresh.ends, whole.ends, sizeof(fresh.ends));
	fresh.end_count = whole.end_count;
	whole.end_count = 0;
	house_settle(&whole);
	house_settle(&fresh);
}

/* ---- when ---- */

TEST(hand_over_happens_once)
{
	open_worlds();
	CHECK(whole_login(&near));
	hand_over();
	CHECK_TEXT(handover_refusal(whole.world), "it has been replaced already");
	close_worlds();
}

TEST(hand_over_waits_for_unfinished_work)
{
	int *unauthenticated;

	open_worlds();
	CHECK(handover_is_calm(whole.world));
	client = whole_login(&near);
	REQUIRE(client);
	CHECK(handover_is_calm(whole.world));
	client->pooled.pool->apart_logins = 1;
	CHECK(!handover_is_calm(whole.world));
	client->pooled.pool->apart_logins = 0;
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

TEST(clients_are_sorted_by_id)
{
	struct house_end *ends[3];
	uint64_t before = 0;

	open_worlds();
	for (int i = 0; i < 3; i++)
		CHECK(whole_login(&ends[i]));
	/* records follow the order of the pool's lists: a client with a server comes first */
	CHECK_TEXT(whole_ask(ends[2], "BEGIN"), "C(BEGIN) Z(T)");
	hand_over();
	LIST_EACH(node, &fresh.world->peers.clients) {
		const struct peer *peer = LIST_OBJECT(node, struct peer, node);

		CHECK(peer->id > before);
		before = peer->id;
	}
	close_worlds();
}

/* ---- invalid records ---- */

static bool take_one(uint8_t type, const void *body, size_t size, int fd)
{
	struct record r = { .type = type, .body = body, .size = size, .fd = fd };

	return handover_take(taking, &r, &problems);
}

TEST(end_record_with_wrong_counts)
{
	static const uint8_t nothing[16] = { 0 }, one_client[16] = { [11] = 1 };

	open_worlds();
	/* the world record is missing */
	CHECK(!take_one(HANDOVER_END, nothing, sizeof(nothing), -1));
	CHECK(!taking->is_whole);
	taking->has_world = true;
	CHECK(!take_one(HANDOVER_END, one_client, sizeof(one_client), -1));
	CHECK(!taking->is_whole);
	CHECK(take_one(HANDOVER_END, nothing, sizeof(nothing), -1));
	CHECK(taking->is_whole);
	/* the last record must be the end record */
	CHECK(!take_one(HANDOVER_UNAUTHENTICATED, "", 0, -1));
	close_worlds();
}

TEST(server_record_is_followed_by_its_client)
{
	struct record r;

	open_worlds();
	REQUIRE(whole_in_transaction(&near, &far));
	CHECK(handover_send(whole.world, from, PATIENCE, &counts));
	do {
		REQUIRE(records_next(to, &r, PATIENCE) == RECORDS_OK);
		CHECK(handover_take(taking, &r, &problems));
	} while (r.type != HANDOVER_SERVER);
	CHECK(taking->server);
	CHECK(!take_one(HANDOVER_UNAUTHENTICATED, "", 0, -1));
	close_worlds();
}

UNIT_MAIN
