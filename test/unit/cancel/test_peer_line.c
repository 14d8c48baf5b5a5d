/* The queue of cancel requests for a peer: number of queued and active requests, and displacement in a full queue. */
#include "cancel/peer_line.h"

#include "cancel/cancel.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "default_pool_size=3\n")
#define CALLS 4

static struct cancels *all;
static struct peer_line *line;
static struct peer_call call[CALLS];
static struct conf_peer peer;

static void begin(int64_t pool_size)
{
	whole_open(INI);
	all = whole.world->cancels;
	line = peer_line_get(all, 7);
	FUZZ_CHECK(line);
	peer = (struct conf_peer){ .id = 7, .pool_size = pool_size };
	memset(call, 0, sizeof(call));
	for (int i = 0; i < CALLS; i++) {
		FUZZ_CHECK(house_connect(&whole));
		call[i].canceller = whole_last_client();
	}
}

static void end(void)
{
	CHECK(peer_line_is_empty(line));
	peer_line_free(all, line);
	whole_close();
}

/* Makes a request in each phase: queued, connecting, sent. */
static const char *counts(void)
{
	static char text[64];
	const struct peer_count n = peers_count(all, 7);

	snprintf(text, sizeof(text), "%d %d %d", n.queued, n.connecting, n.handed_over);
	return text;
}

TEST(each_peer_has_one_queue)
{
	begin(1);
	CHECK(peer_line_get(all, 7) == line);
	CHECK_INT(peers_count(all, 8).queued, 0);
	end();
}

TEST(no_queue_without_memory)
{
	begin(1);
	whole_memory_ends(0);
	CHECK(!peer_line_get(all, 8));
	CHECK(!peer_call_join(&call[0], line));
	CHECK(whole_memory_is_back() > 0);
	CHECK_TEXT(counts(), "0 0 0");
	end();
}

TEST(requests_are_counted_by_phase)
{
	begin(1);
	CHECK(peer_call_join(&call[0], line) && peer_call_join(&call[1], line));
	CHECK_TEXT(counts(), "2 0 0");
	CHECK(!peer_line_is_empty(line));
	peer_call_become(&call[0], CALL_CONNECTS);
	CHECK_TEXT(counts(), "1 1 0");
	peer_call_become(&call[0], CALL_HANDED_OVER);
	CHECK_TEXT(counts(), "1 0 1");
	peer_call_leave(&call[1]);
	CHECK_TEXT(counts(), "0 0 1");
	CHECK(!peer_line_is_empty(line));
	peer_call_leave(&call[0]);
	end();
}

TEST(queued_requests_start_in_order)
{
	begin(1);
	CHECK(!peer_line_next(line));
	CHECK(peer_call_join(&call[0], line) && peer_call_join(&call[1], line));
	CHECK(peer_line_next(line) == &call[0]);
	peer_call_become(&call[0], CALL_CONNECTS);
	CHECK(peer_line_next(line) == &call[1]);
	peer_call_leave(&call[0]);
	peer_call_leave(&call[1]);
	end();
}

TEST(ended_request_is_skipped)
{
	begin(1);
	CHECK(peer_call_join(&call[0], line) && peer_call_join(&call[1], line));
	client_end(call[0].canceller, REASON_CLIENT_EOF, NULL);
	CHECK(peer_line_next(line) == &call[1]);
	peer_call_leave(&call[1]);
	CHECK(!peer_line_next(line));
	peer_call_leave(&call[0]);
	end();
}

/* ---- bounds ---- */

/* Sets the limit of active requests; 0: no limit. */
static int room(int64_t pool_size)
{
	int count = 0;

	begin(pool_size);
	while (count < CALLS && peer_line_has_room(whole.world, line, &peer)) {
		CHECK(peer_call_join(&call[count], line));
		peer_call_become(&call[count], count % 2 ? CALL_HANDED_OVER : CALL_CONNECTS);
		count++;
	}
	for (int i = 0; i < count; i++)
		peer_call_leave(&call[i]);
	end();
	return count;
}

TEST(pool_size_limits_active_requests)
{
	CHECK_INT(room(1), 1);
	CHECK_INT(room(2), 2);
	CHECK_INT(room(0), CALLS);
	CHECK_INT(room(CONF_UNSET), 3);
}

/* A queue filled to its limit with requests from one address. */
#define LEAST 100
static struct peer_call crowd[3 * LEAST];

static int fill(void)
{
	int count = 0;

	while (count < 3 * LEAST && peer_line_make_room(whole.world, line, &peer, call[1].canceller)) {
		memset(&crowd[count], 0, sizeof(crowd[count]));
		crowd[count].canceller = call[0].canceller;
		CHECK(peer_call_join(&crowd[count], line));
		count++;
	}
	return count;
}

static void empty(int count)
{
	for (int i = 0; i < count; i++)
		peer_call_leave(&crowd[i]);
}

static int places(int64_t pool_size)
{
	int count;

	begin(pool_size);
	/* a request that can start at once needs no place in the queue */
	CHECK(peer_line_make_room(whole.world, line, &peer, call[0].canceller));
	line->count.connecting = (int)pool_size;
	count = fill();
	CHECK(!peer_is_ending(&call[0].canceller->peer));
	empty(count);
	line->count.connecting = 0;
	end();
	return count;
}

TEST(queue_length_is_limited)
{
	CHECK_INT(places(1), LEAST);
	CHECK_INT(places(LEAST / 2), LEAST);
	CHECK_INT(places(LEAST), 2 * LEAST);
}

TEST(full_queue_displaces_a_request_for_another_address)
{
	struct brief_address own;
	struct address other;
	int count;

	begin(1);
	own = call[2].canceller->peer.remote;
	line->count.connecting = 1;
	count = fill();
	CHECK(address_from_ip(&other, "10.1.2.3", 1));
	brief_address_of(&call[2].canceller->peer.remote, &other, 0);
	CHECK(peer_line_make_room(whole.world, line, &peer, call[2].canceller));
	CHECK_INT(call[0].canceller->peer.end_reason, REASON_CANCEL_CROWD);
	call[2].canceller->peer.remote = own;
	empty(count);
	line->count.connecting = 0;
	end();
}

TEST(full_queue_is_logged_again_after_it_was_empty)
{
	begin(1);
	CHECK(peer_call_join(&call[0], line) && peer_call_join(&call[1], line));
	line->is_told = true;
	peer_call_leave(&call[0]);
	CHECK(line->is_told);
	peer_call_leave(&call[1]);
	CHECK(!line->is_told);
	end();
}

UNIT_MAIN
