/*
 * Records with descriptors, over a Unix stream socket.
 *
 * byte 0       type
 * byte 1       1: a descriptor follows; otherwise 0
 * bytes 2, 3   0
 * bytes 4..7   size of the body, in network byte order
 *              the body
 *
 * A descriptor is sent with the first byte of its record, and the kernel delivers it to the call
 * that reads this byte. Therefore a header is always read by a separate call, with room for one
 * descriptor, and never together with the end of the previous record. Otherwise a descriptor could
 * be assigned to the wrong record, or be lost in a read without room for it.
 *
 * Invariants: no memory is allocated for a size from the peer before the bytes arrive; a received
 * descriptor is returned with its record or closed.
 */
#include "net/records.h"

#include "base/mem.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define READ_MOST ((size_t)256 * 1024)	/* per call */
#define RETRY_MS 10			/* between two attempts if no event announces success */

struct records *records_new(int fd)
{
	struct records *r = mem_try(sizeof(*r));

	if (!r)
		return NULL;
	r->fd = fd;
	r->came = -1;
	r->error = "the other process has ended the connection";
	return r;
}

void records_free(struct records **place)
{
	struct records *r = *place;

	*place = NULL;
	if (!r)
		return;
	if (r->came >= 0)
		close(r->came);
	close(r->fd);
	bytes_wipe(&r->body);
	mem_free(r);
}

static bool is_to_wait(int error)
{
	return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

static enum records_verdict broken(struct records *r, const char *why)
{
	snprintf(r->error_text, sizeof(r->error_text), "%s", why);
	r->error = r->error_text;
	return RECORDS_BROKEN;
}

/* ---- reading ---- */

/* Takes the descriptor that was received with a header. If there are several, the others are
   closed. */
static void take_descriptor(struct records *r, struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (r->came < 0)
				r->came = fd;
			else
				close(fd);
		}
	}
}

/* Converts the result of recv. OK: some bytes, but possibly not all. */
static enum records_verdict records_judge(struct records *r, ssize_t got)
{
	if (got > 0)
		return RECORDS_OK;
	if (got < 0 && is_to_wait(errno))
		return RECORDS_AGAIN;
	if (got < 0)
		return broken(r, strerror(errno));
	return r->header_size == 0
		       ? RECORDS_END
		       : broken(r, "the other process has ended in the middle of a record");
}

static enum records_verdict read_header(struct records *r)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec piece = { r->header + r->header_size, RECORD_HEADER - r->header_size };
	struct msghdr message = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = sizeof(control.room),
	};
	ssize_t got = recvmsg(r->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	enum records_verdict verdict = records_judge(r, got);

	if (verdict != RECORDS_OK)
		return verdict;
	take_descriptor(r, &message);
	if (message.msg_flags & MSG_CTRUNC)
		return broken(r, "a descriptor could not be received: too many open files?");
	r->header_size += (size_t)got;
	return RECORDS_OK;
}

/* Reads at most `left` bytes of the body. */
static enum records_verdict read_body(struct records *r, size_t left)
{
	enum records_verdict verdict;
	ssize_t got;
	uint8_t *to;

	left = left < READ_MOST ? left : READ_MOST;
	to = bytes_reserve(&r->body, left);
	if (!to)
		return broken(r, "out of memory");
	got = recv(r->fd, to, left, MSG_DONTWAIT);
	verdict = records_judge(r, got);
	if (verdict != RECORDS_OK)
		return verdict;
	r->body.end += (size_t)got;
	return RECORDS_OK;
}

/* Reads the next available record without blocking. */
static enum records_verdict read_record(struct records *r, struct record *record)
{
	enum records_verdict verdict = RECORDS_OK;
	size_t size;

	if (r->handed_out) {
		/* The caller has used the last record. The memory of a large record is freed. */
		r->handed_out = false;
		r->header_size = 0;
		if (r->body.capacity > READ_MOST)
			bytes_wipe(&r->body);
		else
			bytes_consume(&r->body, bytes_size(&r->body));
	}
	while (r->header_size < RECORD_HEADER && verdict == RECORDS_OK)
		verdict = read_header(r);
	if (verdict == RECORDS_OK && (r->header[1] > 1 || r->header[2] || r->header[3] ||
				      (r->header[1] == 1) != (r->came >= 0)))
		return broken(r, "what came is no record");
	size = (size_t)r->header[4] << 24 | (size_t)r->header[5] << 16 | (size_t)r->header[6] << 8 |
	       r->header[7];
	while (verdict == RECORDS_OK && bytes_size(&r->body) < size)
		verdict = read_body(r, size - bytes_size(&r->body));
	if (verdict != RECORDS_OK)
		return verdict;
	*record = (struct record){ r->header[0], r->body.data ? bytes_front(&r->body) : r->header,
				   bytes_size(&r->body), r->came };
	r->came = -1;
	r->handed_out = true;
	return RECORDS_OK;
}

/* False: timeout. */
static bool records_wait_for(const struct records *r, short events, int patience)
{
	struct pollfd p = { .fd = r->fd, .events = events };
	int ready;

	do
		ready = poll(&p, 1, patience);
	while (ready < 0 && errno == EINTR);
	return ready > 0;
}

enum records_verdict records_next(struct records *r, struct record *record, int patience)
{
	for (;;) {
		enum records_verdict verdict = read_record(r, record);

		if (verdict != RECORDS_AGAIN || patience == 0)
			return verdict;
		if (!records_wait_for(r, POLLIN, patience))
			return broken(r, "the other process does not answer");
	}
}

/* ---- sending ---- */

static ssize_t send_some(struct records *r, struct iovec *pieces, int fd)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr message = { .msg_iov = pieces, .msg_iovlen = 2 };
	struct cmsghdr *c;

	if (fd >= 0) {
		memset(&control, 0, sizeof(control));
		message.msg_control = control.room;
		message.msg_controllen = sizeof(control.room);
		c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	return sendmsg(r->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool records_send(struct records *r, uint8_t type, const struct bytes *body, int fd, int patience)
{
	size_t size = body ? bytes_size(body) : 0;
	uint8_t header[RECORD_HEADER] = { type, fd >= 0 };
	struct iovec pieces[2] = { { header, RECORD_HEADER },
				   { size > 0 ? bytes_front(body) : NULL, size } };

	r->is_cut = false;
	if ((body && body->failed) || size > UINT32_MAX) {
		broken(r, "out of memory");
		return false;
	}
	for (int i = 0; i < 4; i++)
		header[RECORD_HEADER - 1 - i] = (uint8_t)(size >> 8 * i);
	while (pieces[0].iov_len + pieces[1].iov_len > 0) {
		ssize_t sent = send_some(r, pieces, fd);

		if (sent < 0 && is_to_wait(errno) && patience > 0 &&
		    records_wait_for(r, POLLOUT, patience))
			continue;
		/* too many descriptors are in transit in the system; the reader will receive
		   them */
		if (sent < 0 && errno == ETOOMANYREFS && patience >= RETRY_MS) {
			patience -= RETRY_MS;
			poll(NULL, 0, RETRY_MS);
			continue;
		}
		if (sent < 0) {
			r->is_cut |= !is_to_wait(errno) && errno != ETOOMANYREFS &&
				     errno != ENOBUFS && errno != ENOMEM;
			broken(r, is_to_wait(errno) ? "the other process does not read"
						    : strerror(errno));
			return false;
		}
		r->is_cut = true;
		for (int i = 0; i < 2; i++) {
			size_t done = (size_t)sent < pieces[i].iov_len ? (size_t)sent
								       : pieces[i].iov_len;

			if (done > 0)
				pieces[i].iov_base = (uint8_t *)pieces[i].iov_base + done;
			pieces[i].iov_len -= done;
			sent -= (ssize_t)done;
		}
		fd = -1;
	}
	return true;
}
