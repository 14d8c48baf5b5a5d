/* Limits of one turn for connections that stream: reads, and messages that are processed one by one. */
#include "relay/relay.h"
#include "unit.h"

#include <string.h>

static struct world world;
static struct conf conf;

static void begin(int64_t sbuf_loopcnt)
{
	memset(&world, 0, sizeof(world));
	conf.settings.sbuf_loopcnt = sbuf_loopcnt;
	world.conf = &conf;
	relay_share_turn(&world);
}

/* Counts reads of `streams` connections in one turn, each with more data than the turn reads. */
static int64_t reads_of_a_turn(int streams)
{
	int64_t reads = 0;

	relay_begin_turn(&world);
	for (int i = 0; i < streams; i++) {
		int64_t rounds = 1;

		while (relay_one_more(&world, rounds))
			rounds++;
		reads += rounds;
	}
	return reads;
}

TEST(few_streams_have_sbuf_loopcnt_full_reads_each)
{
	begin(5);
	for (int turn = 0; turn < 3; turn++) {
		CHECK_INT(reads_of_a_turn(3), 15);
		CHECK_INT(world.share.piece, READ_BUFFER);
	}
}

TEST(total_number_of_full_reads_is_limited)
{
	begin(5);
	for (int turn = 0; turn < 3; turn++)
		CHECK(reads_of_a_turn(RELAY_READS) <= 2 * RELAY_READS);
	CHECK_INT(reads_of_a_turn(RELAY_READS), RELAY_READS);
	CHECK_INT(world.share.piece, READ_BUFFER);
}

TEST(many_streams_have_one_smaller_read_each)
{
	begin(5);
	reads_of_a_turn(4 * RELAY_READS);
	CHECK_INT(reads_of_a_turn(4 * RELAY_READS), 4 * RELAY_READS);
	CHECK_INT(world.share.piece, READ_BUFFER / 4);
	reads_of_a_turn(1000);
	CHECK_INT(reads_of_a_turn(1000), 1000);
	CHECK_INT(world.share.piece, RELAY_LEAST_PIECE);
}

TEST(many_new_streams_are_limited_in_their_first_turn)
{
	begin(5);
	CHECK(reads_of_a_turn(100) <= 100 + RELAY_READS);
}

TEST(share_grows_when_streams_end)
{
	begin(5);
	reads_of_a_turn(100);
	reads_of_a_turn(2);
	CHECK_INT(reads_of_a_turn(2), 10);
	CHECK_INT(world.share.piece, READ_BUFFER);
}

TEST(without_a_limit_a_stream_keeps_reading)
{
	begin(0);
	for (int64_t rounds = 1; rounds < 1000; rounds++)
		CHECK(relay_one_more(&world, rounds));
	reads_of_a_turn(0);
	CHECK_INT(world.share.piece, READ_BUFFER);
}

/* `walks` connections each process as many messages as they may. Returns the total of this turn. */
static uint64_t looks_of_a_turn(int walks)
{
	uint64_t looks = 0;

	relay_begin_turn(&world);
	for (int i = 0; i < walks; i++) {
		looks += world.share.looks_each;
		relay_looked(&world, world.share.looks_each, true);
	}
	return looks;
}

TEST(processed_messages_are_shared_between_senders)
{
	begin(5);
	CHECK_INT(looks_of_a_turn(1), LOOKS_OF_TURN);
	for (int turn = 0; turn < 2; turn++)
		CHECK(looks_of_a_turn(10) <= LOOKS_OF_TURN + 10 * LEAST_LOOKS);
	CHECK_INT(world.share.looks_each, LOOKS_OF_TURN / 10);
	looks_of_a_turn(1000);
	CHECK_INT(looks_of_a_turn(1000), 1000 * LEAST_LOOKS);
	looks_of_a_turn(1);
	CHECK_INT(looks_of_a_turn(1), LOOKS_OF_TURN);
}

TEST(few_messages_are_not_counted)
{
	begin(5);
	relay_looked(&world, LEAST_LOOKS - 1, false);
	CHECK_INT(world.share.looks, 0);
	CHECK(!world.share.is_limited);
}

UNIT_MAIN
