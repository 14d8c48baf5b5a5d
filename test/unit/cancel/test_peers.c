/* A cancel request for another process of the group: which ones are handed on, with what, how many at a time, and when each has its end. */
#include "cancel/peers.h"

#include "base/pack.h"
#include "cancel/cancel.h"
#include "cancel/peer_key.h"
#include "cancel/peer_line.h"
#include "unit.h"
#include "whole.h"

#define PEERS "[peers]\n7 = host=127.0.0.1 port=5432 pool_size=1\n8 = host=/nowhere/at/all port=5432\n1 = host=127.0.0.1 port=5432\n"
#define INI WHOLE_INI("pool_size=1", "peer_id=1\n" PEERS)
#define ALONE_INI WHOLE_INI("pool_size=1", "")
#define PACKET 16			/* bytes of a CancelRequest with a short key */

static uint8_t key[CANCEL_KEY_LONG];
static struct pg_startup request;
static struct house_end *near, *far;
static struct client *canceller;

static void connect_one(void)
{
	near = house_connect(&whole);
	house_settle(&whole);
	canceller = whole_last_client();
}

/* A canceller with a key that this process has made. */
static void begin(const char *ini, int id)
{
	whole_open(ini);
	/* the other process says nothing until the test does */
	whole.servers_answer = false;
	memset(key, 0x55, sizeof(key));
	peer_key_mark(id, key);
	request = (struct pg_startup){ .kind = STARTUP_CANCEL, .cancel_pid = 99, .cancel_key = key, .cancel_key_size = CANCEL_KEY };
	connect_one();
}

static bool forward(void)
{
	bool forwarded = peers_forward(canceller, &request);

	house_settle(&whole);
	far = house_server(&whole);
	return forwarded;
}

static bool is_told_it_is_done(void)
{
	return near->is_gone && bytes_size(&near->got) == 0;
}

/* ---- which ---- */

TEST(in_no_group)
{
	begin(ALONE_INI, 7);
	CHECK(!forward() && !near->is_gone);
	whole_close();
}

TEST(keys_that_no_peer_has_made)
{
	static const struct { int id; size_t size; } keys[] = { { 1, CANCEL_KEY }, { 9, CANCEL_KEY }, { 7, 8 }, { 7, 3 }, { 7, 0 } };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		begin(INI, keys[i].id);
		request.cancel_key_size = (uint32_t)keys[i].size;
		CHECK(!forward());
		CHECK(!canceller->peer_call && !far && !near->is_gone);
		whole_close();
	}
}

TEST(one_that_has_been_handed_on_often)
{
	int hops = 0;

	begin(INI, 7);
	for (; peer_key_has_hops(key); hops++)
		peer_key_hop(key);
	CHECK(hops > 0);
	CHECK(!forward());
	whole_close();
}

TEST(without_memory_it_ends_here)
{
	begin(INI, 7);
	for (int more = 0; more < 2; more++) {
		whole_memory_ends(more);
		CHECK(!peers_forward(canceller, &request));
		CHECK(whole_memory_is_back() > 0);
		CHECK(!canceller->peer_call);
	}
	whole_close();
}

/* ---- on its way ---- */

static void check_packet(size_t key_size)
{
	uint8_t once[CANCEL_KEY_LONG];
	struct unpack in;

	memcpy(once, key, sizeof(once));
	peer_key_hop(once);
	CHECK(memcmp(once, key, sizeof(once)) != 0);
	REQUIRE(far && bytes_size(&far->got) == PACKET - CANCEL_KEY + key_size);
	in = unpack_of(bytes_front(&far->got), bytes_size(&far->got));
	CHECK_INT(unpack_u32(&in), PACKET - CANCEL_KEY + key_size);
	CHECK_INT(unpack_u32(&in), 80877102);
	CHECK_INT(unpack_u32(&in), 99);
	CHECK(memcmp(in.at, once, key_size) == 0);
}

TEST(it_goes_with_one_hop_less)
{
	begin(INI, 7);
	CHECK(forward());
	CHECK_INT(canceller->policy.state, CLIENT_WAITING_CANCEL);
	check_packet(CANCEL_KEY);
	whole_close();
	begin(INI, 7);
	request.cancel_key_size = CANCEL_KEY_LONG;
	CHECK(forward());
	check_packet(CANCEL_KEY_LONG);
	whole_close();
}

/* The canceller sees its end when the other process has closed. */
TEST(its_end_is_that_of_the_other)
{
	begin(INI, 7);
	CHECK(forward() && far);
	CHECK(!near->is_gone);
	house_send(&whole, far, "?", 1);
	house_settle(&whole);
	CHECK(!near->is_gone);
	house_hang_up(far);
	house_settle(&whole);
	CHECK(is_told_it_is_done());
	CHECK(peer_line_is_empty(peer_line_get(whole.world->cancels, 7)));
	whole_close();
}

TEST(a_canceller_that_ends_first)
{
	begin(INI, 7);
	CHECK(forward() && far);
	client_end(canceller, REASON_CLIENT_CLOSE, NULL);
	house_settle(&whole);
	CHECK(far->is_gone);
	CHECK(peer_line_is_empty(peer_line_get(whole.world->cancels, 7)));
	whole_close();
}

TEST(a_peer_that_cannot_be_reached)
{
	uint64_t before = close_reason_counted(REASON_CANCEL_UNKNOWN);

	begin(INI, 8);
	CHECK(forward());
	CHECK(is_told_it_is_done());
	CHECK_INT(close_reason_counted(REASON_CANCEL_UNKNOWN), before + 1);
	whole_close();
}

/* ---- more than the peer may have at a time ---- */

TEST(the_second_waits_for_the_first)
{
	struct house_end *first, *first_far;

	begin(INI, 7);
	CHECK(forward() && far);
	first = near;
	first_far = far;
	connect_one();
	CHECK(forward());
	CHECK(far == first_far);
	CHECK_INT(canceller->peer_call->phase, CALL_WAITS);
	/* the tick finds no room either */
	peers_tick(whole.world);
	house_settle(&whole);
	CHECK_INT(canceller->peer_call->phase, CALL_WAITS);
	house_hang_up(first_far);
	house_settle(&whole);
	CHECK(first->is_gone && !near->is_gone);
	far = house_server(&whole);
	CHECK(far != first_far);
	check_packet(CANCEL_KEY);
	house_hang_up(far);
	house_settle(&whole);
	CHECK(is_told_it_is_done());
	whole_close();
}

TEST(one_that_ends_while_it_waits)
{
	struct house_end *first_far;

	begin(INI, 7);
	CHECK(forward() && far);
	first_far = far;
	connect_one();
	CHECK(forward());
	client_end(canceller, REASON_CLIENT_CLOSE, NULL);
	house_settle(&whole);
	house_hang_up(first_far);
	house_settle(&whole);
	/* nothing was opened for it */
	CHECK(house_server(&whole) == first_far);
	whole_close();
}

/* ---- time ---- */

TEST(an_address_that_takes_too_long)
{
	begin(INI, 7);
	CHECK(forward() && far);
	/* handed over: there is no second try */
	CHECK_INT(canceller->peer_call->phase, CALL_HANDED_OVER);
	CHECK_INT(canceller->peer_call->attempt_ends, 0);
	peers_tick(whole.world);
	CHECK(!peer_is_ending(&canceller->peer));
	canceller->peer_call->attempt_ends = whole.world->now + 1;
	peers_tick(whole.world);
	CHECK(!peer_is_ending(&canceller->peer));
	canceller->peer_call->attempt_ends = whole.world->now;
	peers_tick(whole.world);
	CHECK(peer_is_ending(&canceller->peer));
	house_settle(&whole);
	CHECK(is_told_it_is_done() && far->is_gone);
	whole_close();
}

TEST(an_empty_line_goes_with_the_tick)
{
	begin(INI, 7);
	CHECK(forward() && far);
	peers_tick(whole.world);
	CHECK(whole.world->cancels->lines);
	house_hang_up(far);
	house_settle(&whole);
	peers_tick(whole.world);
	CHECK(!whole.world->cancels->lines);
	whole_close();
}

UNIT_MAIN
