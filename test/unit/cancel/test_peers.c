/*
 * Cancel requests for another process of the group: which requests are forwarded, their bytes, the limit of simultaneous requests, and the end of
 * each request.
 */
#include "cancel/cancel.h"

#include "base/bytes.h"
#include "cancel/cancel_inside.h"
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

/* Opens a canceller with a key of this process. */
static void begin(const char *ini, int id)
{
	whole_open(ini);
	/* the other process sends nothing until the test does */
	whole.servers_answer = false;
	memset(key, 0x55, sizeof(key));
	key[0] = (uint8_t)(id >> 6);
	key[1] = (uint8_t)((id & 0x3f) << 2 | 3);
	request = (struct pg_startup){ .kind = STARTUP_CANCEL, .cancel_pid = 99, .cancel_key = key, .cancel_key_size = CANCEL_KEY };
	connect_one();
}

static bool forward(void)
{
	bool forwarded;

	cancel_request(canceller, &request);
	forwarded = canceller->cancel_request->call != NULL;
	house_settle(&whole);
	far = house_server(&whole);
	return forwarded;
}

static bool is_told_it_is_done(void)
{
	return near->is_gone && bytes_size(&near->got) == 0;
}

/* ---- keys ---- */

TEST(key_has_the_peer_id_and_three_hops)
{
	struct house_end *end;
	const struct client *c;
	uint8_t asked[CANCEL_KEY];

	whole_open(INI);
	c = whole_login(&end);
	REQUIRE(c);
	CHECK(c->cancel_key.secret[0] == 0 && c->cancel_key.secret[1] == (1 << 2 | 3));
	/* the remaining hops do not change the key, the other bits do */
	memcpy(asked, c->cancel_key.secret, sizeof(asked));
	asked[1] -= 2;
	CHECK(cancel_find(whole.world, c->cancel_key.pid, asked, sizeof(asked)) == c);
	asked[3]++;
	CHECK(!cancel_find(whole.world, c->cancel_key.pid, asked, sizeof(asked)));
	whole_close();
}

TEST(without_a_group_all_bits_are_secret)
{
	struct house_end *end;
	const struct client *c;
	uint8_t asked[CANCEL_KEY];

	whole_open(ALONE_INI);
	c = whole_login(&end);
	REQUIRE(c);
	memcpy(asked, c->cancel_key.secret, sizeof(asked));
	asked[1] ^= 1;
	CHECK(!cancel_find(whole.world, c->cancel_key.pid, asked, sizeof(asked)));
	whole_close();
}

/* ---- which ---- */

TEST(request_without_a_group_is_not_forwarded)
{
	begin(ALONE_INI, 7);
	CHECK(!forward() && near->is_gone);
	whole_close();
}

TEST(key_of_an_unknown_peer_is_not_forwarded)
{
	static const struct { int id; size_t size; } keys[] = { { 1, CANCEL_KEY }, { 9, CANCEL_KEY }, { 7, 8 }, { 7, 3 }, { 7, 0 } };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		begin(INI, keys[i].id);
		request.cancel_key_size = (uint32_t)keys[i].size;
		CHECK(!forward());
		CHECK(!far && near->is_gone);
		whole_close();
	}
}

TEST(request_without_remaining_hops_is_not_forwarded)
{
	int hops = 0;

	begin(INI, 7);
	for (; key[1] & 3; hops++)
		key[1]--;
	CHECK_INT(hops, 3);
	CHECK(!forward());
	whole_close();
}

TEST(request_ends_without_memory)
{
	for (int more = 0; more < 3; more++) {
		begin(INI, 7);
		whole_memory_ends(more);
		cancel_request(canceller, &request);
		CHECK(whole_memory_is_back() > 0);
		CHECK(!canceller->cancel_request || !canceller->cancel_request->call);
		whole_close();
	}
}

/* ---- on its way ---- */

static void check_packet(size_t key_size)
{
	uint8_t once[CANCEL_KEY_LONG];
	struct unpack in;

	memcpy(once, key, sizeof(once));
	once[1]--;
	CHECK(memcmp(once, key, sizeof(once)) != 0);
	REQUIRE(far && bytes_size(&far->got) == PACKET - CANCEL_KEY + key_size);
	in = unpack_of(bytes_front(&far->got), bytes_size(&far->got));
	CHECK_INT(unpack_u32(&in), PACKET - CANCEL_KEY + key_size);
	CHECK_INT(unpack_u32(&in), 80877102);
	CHECK_INT(unpack_u32(&in), 99);
	CHECK(memcmp(in.at, once, key_size) == 0);
}

TEST(forwarded_key_has_one_hop_less)
{
	begin(INI, 7);
	CHECK(forward());
	CHECK_INT(canceller->pooled.state, CLIENT_WAITING_CANCEL);
	check_packet(CANCEL_KEY);
	whole_close();
	begin(INI, 7);
	request.cancel_key_size = CANCEL_KEY_LONG;
	CHECK(forward());
	check_packet(CANCEL_KEY_LONG);
	whole_close();
}

/* The canceller's connection ends when the other process has closed its own. */
TEST(canceller_ends_when_the_peer_closes)
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
	CHECK_INT(peers_count(whole.world->cancels, 7).handed_over, 0);
	whole_close();
}

TEST(canceller_disconnects_first)
{
	begin(INI, 7);
	CHECK(forward() && far);
	client_end(canceller, REASON_CLIENT_CLOSE, NULL);
	house_settle(&whole);
	CHECK(far->is_gone);
	CHECK_INT(peers_count(whole.world->cancels, 7).handed_over, 0);
	whole_close();
}

TEST(unreachable_peer)
{
	begin(INI, 8);
	CHECK(forward());
	CHECK(is_told_it_is_done());
	CHECK_INT(whole.world->pools->ended[REASON_CANCEL_UNKNOWN], 1);
	whole_close();
}

/* ---- more than the peer may have at a time ---- */

TEST(second_request_waits_for_the_first)
{
	struct house_end *first, *first_far;

	begin(INI, 7);
	CHECK(forward() && far);
	first = near;
	first_far = far;
	connect_one();
	CHECK(forward());
	CHECK(far == first_far);
	CHECK_INT(peers_count(whole.world->cancels, 7).queued, 1);
	/* the tick finds no free place either */
	peers_tick(whole.world);
	house_settle(&whole);
	CHECK_INT(peers_count(whole.world->cancels, 7).queued, 1);
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

TEST(queued_request_ends)
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
	/* no connection was opened for the ended request */
	CHECK(house_server(&whole) == first_far);
	whole_close();
}

/* ---- time ---- */

TEST(empty_queue_is_freed_by_the_tick)
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
