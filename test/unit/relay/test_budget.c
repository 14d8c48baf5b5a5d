/* What one turn may do for a connection that streams. */
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

/* Reads of `streams` connections in one turn, each with more data than the turn takes. */
static int64_t reads_of_a_turn(int streams)
{
	int64_t reads = 0;

	for (int i = 0; i < streams; i++) {
		int64_t rounds = 1;

		while (relay_one_more(&world, rounds))
			rounds++;
		reads += rounds;
	}
	relay_share_turn(&world);
	return reads;
}

TEST(few_streams_have_sbuf_loopcnt_full_reads_each)
{
	begin(5);
	for (int turn = 0; turn < 3; turn++) {
		CHECK_INT(reads_of_a_turn(RELAY_STREAMS), 5 * RELAY_STREAMS);
		CHECK_INT(world.piece, READ_BUFFER);
	}
}

TEST(many_streams_have_one_read_each_and_a_smaller_one)
{
	begin(5);
	reads_of_a_turn(4 * RELAY_STREAMS);
	CHECK_INT(reads_of_a_turn(4 * RELAY_STREAMS), 4 * RELAY_STREAMS);
	CHECK_INT(world.piece, READ_BUFFER / 4);
	reads_of_a_turn(1000);
	CHECK_INT(reads_of_a_turn(1000), 1000);
	CHECK_INT(world.piece, RELAY_LEAST_PIECE);
}

TEST(a_crowd_that_begins_at_once_is_bounded_in_its_first_turn)
{
	begin(5);
	CHECK_INT(reads_of_a_turn(100), 5 * RELAY_STREAMS + 100 - RELAY_STREAMS);
}

TEST(the_share_grows_again_when_the_crowd_has_gone)
{
	begin(5);
	reads_of_a_turn(100);
	reads_of_a_turn(2);
	CHECK_INT(world.piece, READ_BUFFER);
	CHECK_INT(reads_of_a_turn(2), 10);
}

TEST(without_a_limit_a_stream_reads_on)
{
	begin(0);
	for (int64_t rounds = 1; rounds < 1000; rounds++)
		CHECK(relay_one_more(&world, rounds));
	world.streams = 100;
	relay_share_turn(&world);
	CHECK_INT(world.piece, READ_BUFFER);
}

UNIT_MAIN
