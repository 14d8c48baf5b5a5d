/*
 * Cancel requests between a process and the processes that it has replaced: a request goes to all predecessors with the canceller's connection, an
 * unreachable predecessor is given up, and records of a successor are validated.
 */
#include "cancel/predecessors.h"

#include "base/bytes.h"
#include "unit.h"
#include "whole.h"

#include <sys/socket.h>
#include <unistd.h>

#define INI WHOLE_INI("pool_size=1", "")

static const uint8_t key[] = { 1, 2, 3, 4 };
static const struct pg_startup request = { .kind = STARTUP_CANCEL, .cancel_pid = 99, .cancel_key = key, .cancel_key_size = 4 };

/* Both ends of a channel. */
static struct records *far;

static struct records *channel(void)
{
	int fds[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	far = records_new(fds[1]);
	return records_new(fds[0]);
}

/* Adds a predecessor and returns the other end of its channel, which the test plays. */
static struct records *add(void)
{
	struct records *near = channel();

	CHECK(predecessors_add(whole.world, &near));
	CHECK(!near);
	return far;
}

static bool is_none(void)
{
	return list_is_empty(&whole.world->cancels->predecessors);
}

static struct client *canceller(struct house_end **end)
{
	*end = house_connect(&whole);
	return whole_last_client();
}

/* ---- to predecessors ---- */

TEST(without_predecessors_nothing_is_sent)
{
	struct house_end *end;
	struct client *c;

	whole_open(INI);
	c = canceller(&end);
	CHECK(!predecessors_forward(c, &request));
	CHECK(!peer_is_ending(&c->peer));
	whole_close();
}

TEST(request_goes_to_all_predecessors)
{
	struct records *first, *second;
	struct house_end *end;
	struct record r;

	whole_open(INI);
	first = add();
	second = add();
	CHECK(predecessors_forward(canceller(&end), &request));
	house_settle(&whole);
	for (int i = 0; i < 2; i++) {
		struct unpack in;
		size_t size;
		const uint8_t *got;

		REQUIRE(records_next(i ? second : first, &r, 0) == RECORDS_OK);
		CHECK_INT(r.type, PREDECESSOR_CANCEL);
		in = unpack_of(r.body, r.size);
		CHECK_INT(unpack_u32(&in), 99);
		got = unpack_blob(&in, &size);
		CHECK(size == 4 && memcmp(got, key, 4) == 0 && unpack_is_done(&in));
		/* the canceller's connection ends when the last predecessor has closed it */
		CHECK(!end->is_gone);
		REQUIRE(r.fd >= 0);
		close(r.fd);
		house_settle(&whole);
	}
	CHECK(end->is_gone && bytes_size(&end->got) == 0);
	records_free(&first);
	records_free(&second);
	house_settle(&whole);
	CHECK(is_none());
	whole_close();
}

TEST(ended_predecessor_is_removed)
{
	struct records *other;
	struct house_end *end;

	whole_open(INI);
	other = add();
	records_free(&other);
	/* pgweir notices the end with the request or earlier */
	CHECK(predecessors_forward(canceller(&end), &request));
	CHECK(is_none());
	house_settle(&whole);
	CHECK(end->is_gone);
	whole_close();
}

TEST(data_from_a_predecessor_is_ignored)
{
	struct records *other;
	int fds[2];
	char byte;

	whole_open(INI);
	other = add();
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	CHECK(records_send(other, 'x', NULL, fds[0], 1000));
	close(fds[0]);
	house_settle(&whole);
	CHECK(!is_none());
	/* a descriptor in the message is closed */
	CHECK_INT(recv(fds[1], &byte, 1, MSG_DONTWAIT), 0);
	close(fds[1]);
	records_free(&other);
	house_settle(&whole);
	CHECK(is_none());
	whole_close();
}

/* The channel is full: the request is dropped, and the canceller is not told of success. */
TEST(full_channel_drops_the_request)
{
	struct records *other;
	struct house_end *end;
	int forwarded = 0;

	whole_open(INI);
	other = add();
	do {
		CHECK(predecessors_forward(canceller(&end), &request));
		CHECK(++forwarded < 10000);
		world_wake(whole.world);
		if (whole.end_count == HOUSE_ENDS)
			whole.end_count--, house_hang_up(end);
		house_settle(&whole);
	} while (whole.world->pools->ended[REASON_CANCEL_LOST] == 0);
	/* the predecessor is kept: the next request may fit again */
	CHECK(!is_none());
	records_free(&other);
	whole_close();
}

TEST(out_of_memory_drops_the_request)
{
	struct records *near;

	whole_open(INI);
	near = channel();
	whole_memory_ends(0);
	CHECK(!predecessors_add(whole.world, &near));
	CHECK_INT(whole_memory_is_back(), 1);
	CHECK(!near && is_none());
	records_free(&far);
	whole_close();
}

TEST(predecessors_are_handed_over)
{
	struct records *to, *first, *second, *got;
	struct record r;
	int count = 0;

	whole_open(INI);
	first = add();
	second = add();
	to = channel();
	got = far;
	CHECK(predecessors_send(whole.world->cancels, to, 'p', 1000));
	while (records_next(got, &r, 0) == RECORDS_OK) {
		CHECK(r.type == 'p' && r.fd >= 0);
		close(r.fd);
		count++;
	}
	CHECK_INT(count, 2);
	records_free(&to);
	records_free(&got);
	records_free(&first);
	records_free(&second);
	whole_close();
}

/* ---- from the successor ---- */

static struct records *follow(void)
{
	struct records *near = channel();

	CHECK(predecessors_follow(whole.world, &near));
	CHECK(!near && whole.world->successor);
	return far;
}

/* Sends the request as the successor does, with this descriptor (-1: none). */
static void send_request(struct records *from, uint32_t pid, const uint8_t *of, size_t size, int fd)
{
	struct bytes body = BYTES_EMPTY;

	bytes_append_u32(&body, pid);
	pack_blob(&body, of, size);
	CHECK(records_send(from, PREDECESSOR_CANCEL, &body, fd, 1000));
	bytes_free(&body);
	house_settle(&whole);
}

/* The client's query is cancelled by a request with or without a canceller's connection. */
static void check_cancel(bool with_connection)
{
	struct house_end *end;
	struct records *from;
	struct client *c;
	int fds[2];
	char byte;

	whole_open(INI);
	from = follow();
	c = whole_login(&end);
	REQUIRE(c);
	whole.holds_answers = true;
	whole_query(end, "SELECT 1");
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	send_request(from, c->cancel_key.pid, c->cancel_key.secret, c->cancel_key.size, with_connection ? fds[0] : -1);
	close(fds[0]);
	/* a second connection was opened and carried the request */
	CHECK_INT(whole.end_count, 3);
	CHECK(whole.ends[2].is_server && whole.ends[2].backend->has_ended);
	/* the canceller's connection ends */
	CHECK_INT(recv(fds[1], &byte, 1, 0), 0);
	close(fds[1]);
	records_free(&from);
	whole_close();
}

TEST(request_from_the_successor_cancels)
{
	check_cancel(true);
	check_cancel(false);
}

TEST(request_with_unknown_key_is_closed)
{
	struct records *from;
	int fds[2];
	char byte;

	whole_open(INI);
	from = follow();
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	send_request(from, 12345, key, 4, fds[0]);
	close(fds[0]);
	CHECK_INT(recv(fds[1], &byte, 1, 0), 0);
	CHECK(list_is_empty(&whole.world->peers.clients));
	close(fds[1]);
	records_free(&from);
	whole_close();
}

TEST(invalid_record_closes_the_channel)
{
	struct records *from;
	struct bytes body = BYTES_EMPTY;

	whole_open(INI);
	from = follow();
	bytes_append_u8(&body, 1);
	CHECK(records_send(from, PREDECESSOR_CANCEL, &body, -1, 1000));
	bytes_free(&body);
	house_settle(&whole);
	CHECK(list_is_empty(&whole.world->peers.clients));
	records_free(&from);
	whole_close();
}

TEST(successor_disconnects)
{
	struct house_end *end;
	struct records *from;

	whole_open(INI);
	from = follow();
	REQUIRE(whole_login(&end));
	records_free(&from);
	house_settle(&whole);
	/* the clients keep their connections */
	CHECK_TEXT(whole_ask(end, "SELECT 1"), "T D C(SELECT 1) Z(I)");
	CHECK(whole.world->successor);
	whole_close();
}

UNIT_MAIN
