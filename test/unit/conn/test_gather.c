/*
 * Runs of the read buffer: adjacent runs are merged, everything is sent once and in order with inserted messages, and nothing more is sent to a
 * failed stream.
 */
#include "conn/gather.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("", "")

static struct house_end *end;
static struct client *client;
static struct gather g;
static uint8_t buffer[4096];

static bool begin(void)
{
	whole_open(INI);
	client = whole_login(&end);
	gather_begin(&g, &client->peer.stream);
	for (size_t i = 0; i < sizeof(buffer); i++)
		buffer[i] = (uint8_t)(i % 251);
	CHECK(client);
	return client != NULL;
}

/* Checks that the client gets exactly these bytes. */
static void check_got(const void *want, size_t size)
{
	struct bytes news;

	house_settle(&whole);
	news = house_news(end);
	CHECK_INT(bytes_size(&news), size);
	CHECK(bytes_size(&news) == size && (size == 0 || memcmp(bytes_front(&news), want, size) == 0));
}

TEST(adjacent_runs_are_merged)
{
	REQUIRE(begin());
	gather_add(&g, buffer, 10);
	gather_add(&g, buffer + 10, 20);
	CHECK_INT(g.count, 1);
	CHECK_INT(g.bytes, 30);
	gather_add(&g, buffer + 31, 5);
	CHECK_INT(g.count, 2);
	/* a run is merged with the last run only */
	gather_add(&g, buffer + 30, 1);
	CHECK_INT(g.count, 3);
	check_got("", 0);
	gather_flush(&g);
	CHECK(!g.broken && g.count == 0);
	memmove(buffer + 30, buffer + 31, 5);
	buffer[35] = 30;
	check_got(buffer, 36);
	whole_close();
}

TEST(nothing_is_flushed_twice)
{
	REQUIRE(begin());
	gather_flush(&g);
	check_got("", 0);
	gather_first(&g, buffer, 7);
	gather_flush(&g);
	gather_flush(&g);
	check_got(buffer, 7);
	/* a flushed run is not extended: the buffer may have been reused */
	gather_add(&g, buffer + 7, 3);
	CHECK_INT(g.count, 1);
	gather_flush(&g);
	check_got(buffer + 7, 3);
	whole_close();
}

TEST(full_list_of_pieces_is_flushed)
{
	uint8_t want[3 * GATHER_PIECES];

	REQUIRE(begin());
	for (int i = 0; i < 3 * GATHER_PIECES; i++) {
		want[i] = buffer[2 * i];
		gather_add(&g, buffer + 2 * (size_t)i, 1);
	}
	CHECK(g.count > 0 && g.count <= GATHER_PIECES);
	gather_flush(&g);
	check_got(want, sizeof(want));
	whole_close();
}

TEST(inserted_messages_keep_their_position)
{
	static uint8_t want[GATHER_SCRATCH * 3];
	size_t size = 0;

	REQUIRE(begin());
	/* enough to fill the scratch buffer twice, and the list of pieces */
	for (int i = 0; i < 2 * GATHER_PIECES; i++) {
		uint8_t own[17];

		memset(own, 'A' + i % 26, sizeof(own));
		gather_copy(&g, own, sizeof(own));
		memcpy(want + size, own, sizeof(own));
		size += sizeof(own);
		if (i % 3 == 0) {
			gather_add(&g, buffer + 5 * (size_t)i, 1);
			want[size++] = buffer[5 * i];
		}
		CHECK(g.scratch_used <= GATHER_SCRATCH);
	}
	CHECK_INT(g.bytes, size);
	gather_flush(&g);
	CHECK_INT(g.scratch_used, 0);
	check_got(want, size);
	whole_close();
}

TEST(insertion_as_large_as_the_scratch_buffer)
{
	REQUIRE(begin());
	gather_copy(&g, "x", 1);
	memset(gather_place(&g, GATHER_SCRATCH), 'y', GATHER_SCRATCH);
	gather_flush(&g);
	memset(buffer, 'y', GATHER_SCRATCH + 1);
	buffer[0] = 'x';
	check_got(buffer, GATHER_SCRATCH + 1);
	whole_close();
}

/* The place is filled after gather_place() returns: no flush may happen before. */
TEST(insertion_with_a_full_list)
{
	uint8_t *place;

	REQUIRE(begin());
	for (int i = 0; i < GATHER_PIECES; i++)
		gather_add(&g, buffer + 2 * (size_t)i, 1);
	place = gather_place(&g, 4);
	memcpy(place, "four", 4);
	gather_flush(&g);
	for (int i = 0; i < GATHER_PIECES; i++)
		buffer[i] = buffer[2 * i];
	memcpy(buffer + GATHER_PIECES, "four", 4);
	check_got(buffer, GATHER_PIECES + 4);
	whole_close();
}

TEST(nothing_is_sent_to_a_failed_stream)
{
	REQUIRE(begin());
	house_hang_up(end);
	/* the first write may not notice the closed stream yet */
	for (int i = 0; i < 3 && !g.broken; i++) {
		gather_add(&g, buffer, 100);
		gather_add(&g, buffer + 200, 100);
		gather_flush(&g);
	}
	CHECK(g.broken);
	gather_add(&g, buffer, 1);
	gather_flush(&g);
	CHECK(g.broken && g.count == 0);
	CHECK_INT(stream_unsent(&client->peer.stream), 0);
	whole_close();
}

TEST(current_frame_is_flushed)
{
	REQUIRE(begin());
	client->peer.passing = 10;
	CHECK_INT(gather_pass(&g, &client->peer, buffer, 4), 4);
	CHECK_INT(client->peer.passing, 6);
	CHECK_INT(gather_pass(&g, &client->peer, buffer + 4, 100), 6);
	CHECK_INT(client->peer.passing, 0);
	client->peer.passing = 3;
	client->peer.passing_dropped = true;
	CHECK_INT(gather_pass(&g, &client->peer, buffer + 10, 100), 3);
	client->peer.passing_dropped = false;
	CHECK_INT(g.bytes, 10);
	gather_flush(&g);
	check_got(buffer, 10);
	whole_close();
}

UNIT_MAIN
