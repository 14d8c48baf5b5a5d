/* Records with descriptors: whole, in pieces, many at once, larger than the socket buffer, and invalid. */
#include "unit.h"

#include "net/records.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE 20000

static struct records *here;
static int there;			/* the other end of the socket pair */

static void begin(void)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
		_exit(1);
	here = records_new(ends[0]);
	there = ends[1];
}

static void end(void)
{
	records_free(&here);
	if (there >= 0)
		close(there);
}

static bool is_null_device(int fd)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && stat("/dev/null", &b) == 0 && a.st_rdev == b.st_rdev && S_ISCHR(a.st_mode);
}

static int open_descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

TEST(each_descriptor_comes_with_its_record)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct bytes body = BYTES_EMPTY;
	struct records *sender;
	struct record r;

	begin();
	sender = records_new(there);
	bytes_append_text(&body, "first");
	CHECK(records_send(sender, 'a', &body, -1, 0));
	CHECK(records_send(sender, 'b', &body, null, 0));
	CHECK(records_send(sender, 'c', NULL, null, 0));
	CHECK(records_send(sender, 'd', &body, -1, 0));
	CHECK(records_next(here, &r, 0) == RECORDS_OK && r.type == 'a' && r.fd < 0 && r.size == 5);
	CHECK(records_next(here, &r, 0) == RECORDS_OK && r.type == 'b' && is_null_device(r.fd) && memcmp(r.body, "first", 5) == 0);
	CHECK(fcntl(r.fd, F_GETFD) == FD_CLOEXEC);
	close(r.fd);
	CHECK(records_next(here, &r, 0) == RECORDS_OK && r.type == 'c' && is_null_device(r.fd) && r.size == 0);
	close(r.fd);
	CHECK(records_next(here, &r, 0) == RECORDS_OK && r.type == 'd' && r.fd < 0);
	CHECK(records_next(here, &r, 0) == RECORDS_AGAIN);
	records_free(&sender);
	there = -1;
	CHECK(records_next(here, &r, 0) == RECORDS_END);
	bytes_free(&body);
	close(null);
	end();
}

TEST(a_record_may_come_byte_by_byte)
{
	static const char wire[] = "x\0\0\0\0\0\0\3abcy\0\0\0\0\0\0\0";
	struct record r;

	begin();
	for (size_t i = 0; i < sizeof wire - 1; i++) {
		enum records_verdict verdict;

		CHECK_INT(write(there, wire + i, 1), 1);
		verdict = records_next(here, &r, 0);
		if (i == 10)
			CHECK(verdict == RECORDS_OK && r.type == 'x' && r.size == 3 && memcmp(r.body, "abc", 3) == 0);
		else if (i == sizeof wire - 2)
			CHECK(verdict == RECORDS_OK && r.type == 'y' && r.size == 0);
		else
			CHECK(verdict == RECORDS_AGAIN);
	}
	end();
}

/* More than a socket holds: the child sends while the parent reads. */
TEST(records_may_be_larger_than_the_socket)
{
	size_t size = 3 * 1024 * 1024 + 7;
	struct bytes body = BYTES_EMPTY;
	struct record r;
	pid_t child;
	int status;

	begin();
	fflush(NULL);
	child = fork();
	if (child == 0) {
		int null = open("/dev/null", O_RDONLY);
		struct records *sender = records_new(there);
		bool ok = true;

		memset(bytes_reserve(&body, size), 'z', size);
		body.end += size;
		for (int i = 0; i < 3; i++)
			ok = ok && records_send(sender, 'L', &body, i == 1 ? null : -1, PATIENCE);
		_exit(ok ? 0 : 1);
	}
	close(there);
	there = -1;
	for (int i = 0; i < 3; i++) {
		REQUIRE(records_next(here, &r, PATIENCE) == RECORDS_OK);
		CHECK(r.size == size && r.body[0] == 'z' && r.body[size - 1] == 'z' && (r.fd >= 0) == (i == 1));
		if (r.fd >= 0)
			close(r.fd);
	}
	CHECK(records_next(here, &r, PATIENCE) == RECORDS_END);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	end();
}

TEST(end_of_stream_within_a_record_is_an_error)
{
	struct record r;

	for (size_t n = 1; n < 11; n++) {
		begin();
		CHECK_INT(write(there, "x\0\0\0\0\0\0\3abc", n), n);
		close(there);
		there = -1;
		CHECK(records_next(here, &r, 0) == RECORDS_BROKEN);
		CHECK_TEXT(here->error, "the other process has ended in the middle of a record");
		end();
	}
}

TEST(invalid_record_is_refused)
{
	static const char *const wires[] = { "x\1\0\0\0\0\0\0", "x\2\0\0\0\0\0\0", "x\0\1\0\0\0\0\0", "x\0\0\7\0\0\0\0" };
	struct record r;

	for (size_t i = 0; i < sizeof wires / sizeof wires[0]; i++) {
		begin();
		CHECK_INT(write(there, wires[i], 8), 8);
		CHECK(records_next(here, &r, 0) == RECORDS_BROKEN);
		end();
	}
}

TEST(announced_size_allocates_no_memory)
{
	struct record r;

	begin();
	CHECK_INT(write(there, "x\0\0\0\xff\xff\xff\xff", 8), 8);
	CHECK(records_next(here, &r, 0) == RECORDS_AGAIN);
	end();
}

TEST(unannounced_descriptor_is_refused_and_closed)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), before;
	union { struct cmsghdr align; char room[CMSG_SPACE(sizeof(int))]; } control = { .room = "" };
	char header[8] = "x";
	struct iovec piece = { header, sizeof header };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room };
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	struct record r;

	begin();
	before = open_descriptors();
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &null, sizeof(int));
	CHECK_INT(sendmsg(there, &message, 0), 8);
	CHECK(records_next(here, &r, 0) == RECORDS_BROKEN);
	end();
	CHECK_INT(open_descriptors(), before - 2);
	close(null);
}

TEST(blocked_reader_times_out)
{
	struct bytes body = BYTES_EMPTY;
	bool sent = true;

	begin();
	memset(bytes_reserve(&body, 65536), 'z', 65536);
	body.end += 65536;
	for (int i = 0; i < 100 && sent; i++)
		sent = records_send(here, 'x', &body, -1, 0);
	CHECK(!sent);
	CHECK_TEXT(here->error, "the other process does not read");
	bytes_free(&body);
	end();
}

/* After a record of which nothing was sent, another record may be sent. */
TEST(record_that_does_not_fit_may_fit_later)
{
	struct bytes body = BYTES_EMPTY, none = { .failed = true };
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), sent = 0;
	struct records *other;
	struct record r;

	begin();
	bytes_append(&body, "body", 4);
	while (records_send(here, 'x', &body, null, 0))
		sent++;
	CHECK(sent > 0);
	CHECK(!records_send(here, 'x', &body, null, 0) && !here->is_cut);
	CHECK_TEXT(here->error, "the other process does not read");
	other = records_new(there);
	for (int i = 0; i < sent; i++) {
		REQUIRE(records_next(other, &r, 0) == RECORDS_OK);
		CHECK(r.type == 'x' && r.size == 4 && r.fd >= 0);
		close(r.fd);
	}
	CHECK(records_next(other, &r, 0) == RECORDS_AGAIN);
	CHECK(!records_send(here, 'y', &none, -1, 0) && !here->is_cut);
	CHECK_TEXT(here->error, "out of memory");
	CHECK(records_send(here, 'z', NULL, -1, 0));
	CHECK(records_next(other, &r, 0) == RECORDS_OK);
	CHECK(r.type == 'z' && r.size == 0 && r.fd == -1);
	records_free(&other);
	there = -1;
	CHECK(!records_send(here, 'z', NULL, -1, 0) && here->is_cut);
	bytes_free(&body);
	close(null);
	end();
}

TEST(send_to_a_closed_peer_fails)
{
	struct record r;

	begin();
	close(there);
	there = -1;
	CHECK(!records_send(here, 'x', NULL, -1, 0));
	CHECK_TEXT(here->error, strerror(EPIPE));
	CHECK(records_next(here, &r, PATIENCE) == RECORDS_END);
	end();
}

UNIT_MAIN
