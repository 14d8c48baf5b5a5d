/*
 * A non-blocking byte stream over a socket: connecting, the switch to TLS, reading, writing,
 * closing.
 *
 * One libevent registration is used for the whole life of a stream and does not change in the
 * steady state. EV_READ stays registered even while the owner has turned reading off, until the
 * socket becomes readable. EV_WRITE is registered only while bytes wait in `out`. An exchange of
 * short messages therefore costs one recv and one send each and no epoll_ctl, and a short pause of
 * reading costs nothing.
 *
 * Invariants: `armed` equals the registration at libevent. Outside a handler, EV_WRITE is armed
 * exactly while the stream connects or `out` is not empty, and `out` has memory exactly then: an
 * idle stream has no buffer. This costs one allocation each time a peer is slower than its input.
 * After a failed write, `out` is empty and no write is attempted; a broken socket is always
 * readable, so stream_read reports the failure after the last input of the peer.
 *
 * A handler makes at most one callback, as its last action, because a callback may close the stream
 * and free its memory. The level-triggered registration reports unhandled events again.
 */
#include "net/stream.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/inline.h"
#include "base/mem.h"
#include "net/address.h"
#include "net/stream_tls.h"
#include "net/tls_context.h"

static void on_stream_event(evutil_socket_t fd, short what, void *arg);

/* ---- registration ---- */

static short wanted_events(const struct stream *stream)
{
	short want = EV_READ;

	if (stream->phase == STREAM_OPEN) {
		/* EV_READ stays registered when reading was turned off: see on_other_event. */
		if (!stream->reading)
			want = stream->armed & EV_READ;
	} else if (stream->phase == STREAM_CONNECTING) {
		return EV_WRITE;
	} else if (stream->tls_step == STREAM_STEP_WAITS) {
		want = 0;
	}
	if (stream_unsent(stream) > 0)
		want |= EV_WRITE;
	return want;
}

/* Activates on_readable for bytes that no socket event announces. */
static void announce_buffered(struct stream *stream)
{
	if (stream->phase == STREAM_OPEN && stream->reading && stream->tls_buffered)
		event_active(&stream->event, EV_READ, 0);
}

static bool register_events(struct stream *stream, short want)
{
	if (want == stream->armed)
		return true;
	event_del(&stream->event);
	stream->armed = 0;
	if (want) {
		event_assign(&stream->event, event_get_base(&stream->event), stream->fd,
			     want | EV_PERSIST, on_stream_event, stream);
		if (event_add(&stream->event, NULL) != 0) {
			stream->error = errno ? errno : ENOMEM;
			stream->write_failed = 1;
			return false;
		}
		stream->armed = (uint8_t)want;
	}
	/* event_del has also removed a pending activation. */
	announce_buffered(stream);
	return true;
}

static bool arm(struct stream *stream)
{
	return register_events(stream, wanted_events(stream));
}

/* ---- opening and closing ---- */

static bool begin(struct stream *stream, struct event_base *base, int fd, enum stream_phase phase,
		  const struct stream_ops *ops)
{
	memset(stream, 0, sizeof *stream);
	stream->ops = ops;
	stream->fd = fd;
	stream->phase = (uint8_t)phase;
	stream->reading = 1;
	event_assign(&stream->event, base, fd, 0, on_stream_event, stream);
	if (arm(stream))
		return true;
	stream->phase = STREAM_CLOSED;
	stream->fd = -1;
	errno = stream->error;
	return false;
}

bool stream_open(struct stream *stream, struct event_base *base, int fd,
		 const struct stream_ops *ops)
{
	return begin(stream, base, fd, STREAM_OPEN, ops);
}

bool stream_connect(struct stream *stream, struct event_base *base, const struct sockaddr *address,
		    socklen_t size, const struct socket_options *options,
		    const struct stream_ops *ops)
{
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int saved;

	memset(stream, 0, sizeof *stream);
	stream->fd = -1;
	if (fd < 0)
		return false;
	/* A Unix socket with a full backlog returns EAGAIN, and no event announces that it has
	   room: this is a failure. */
	if ((!options || socket_apply_options(fd, address->sa_family, options)) &&
	    (connect(fd, address, size) == 0 || errno == EINPROGRESS || errno == EINTR) &&
	    begin(stream, base, fd, STREAM_CONNECTING, ops))
		return true;
	saved = errno;
	close(fd);
	stream->error = errno = saved;
	return false;
}

void stream_close(struct stream *stream)
{
	if (stream->phase == STREAM_CLOSED)
		return;
	if (stream->ssl)
		stream_tls_end(stream);
	event_del(&stream->event);
	close(stream->fd);
	bytes_free(&stream->out);
	mem_free(stream->reason);
	stream->reason = NULL;
	stream->fd = -1;
	stream->phase = STREAM_CLOSED;
	stream->armed = 0;
}

/* ---- the socket ---- */

/* Tries once. Returns the number of bytes sent (0: the socket is full), or -1 with `error` set. */
static ssize_t send_pieces(struct stream *stream, const struct iovec *pieces, int count)
{
	const struct msghdr message = {
		/* the member is not const by an oversight in POSIX */
		.msg_iov = (struct iovec *)(uintptr_t)pieces,
		.msg_iovlen = count < IOV_MAX ? (size_t)count : IOV_MAX,
	};
	ssize_t sent = count == 1 ? send(stream->fd, pieces->iov_base, pieces->iov_len,
					 MSG_NOSIGNAL | MSG_DONTWAIT)
				  : sendmsg(stream->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (sent >= 0)
		return sent;
	if (stream_is_to_wait(errno))
		return 0;
	stream->error = errno;
	return -1;
}

static bool fail_writing(struct stream *stream)
{
	stream->write_failed = 1;
	bytes_free(&stream->out);
	return false;
}

/* Appends the bytes after the first `taken` bytes to `out`. */
static bool stream_keep(struct stream *stream, const struct iovec *pieces, int count, size_t taken)
{
	for (; count > 0; count--, pieces++) {
		if (taken >= pieces->iov_len) {
			taken -= pieces->iov_len;
			continue;
		}
		bytes_append(&stream->out, (const uint8_t *)pieces->iov_base + taken,
			     pieces->iov_len - taken);
		taken = 0;
	}
	if (!stream->out.failed)
		return true;
	stream->error = ENOMEM;
	return fail_writing(stream);
}

bool stream_send(struct stream *stream, const struct iovec *pieces, int count)
{
	ssize_t sent;

	if (stream->write_failed)
		return false;
	if (stream_unsent(stream) > 0 || count == 0)
		return stream_keep(stream, pieces, count, 0);
	sent = send_pieces(stream, pieces, count);
	if (sent < 0)
		return fail_writing(stream);
	/* in the common case there is one piece, and the socket accepted all of it */
	return (count == 1 && (size_t)sent == pieces->iov_len) ||
	       stream_keep(stream, pieces, count, (size_t)sent);
}

/* Tries once to send `out`. */
static void stream_flush(struct stream *stream)
{
	struct iovec rest = { bytes_front(&stream->out), stream_unsent(stream) };
	ssize_t sent = send_pieces(stream, &rest, 1);

	if (sent < 0) {
		fail_writing(stream);
		return;
	}
	bytes_consume(&stream->out, (size_t)sent);
	if (stream_unsent(stream) == 0)
		bytes_free(&stream->out);
}

/* ---- reading and writing ---- */

ssize_t stream_read_nothing(struct stream *stream, ssize_t got)
{
	/* after the remaining input, a stream with a failed write reports the failure */
	if (stream->write_failed)
		return STREAM_FAILED;
	if (got == 0)
		return STREAM_EOF;
	if (stream_is_to_wait(errno))
		return STREAM_AGAIN;
	stream->error = errno;
	return STREAM_FAILED;
}

ssize_t stream_read_rest(struct stream *stream, void *buffer, size_t size)
{
	int write_error = stream->error;
	ssize_t got;

	ASSERT(size > 0);
	if (stream->phase != STREAM_OPEN)
		return stream->phase == STREAM_CLOSED || stream->armed == 0 ? STREAM_FAILED
									    : STREAM_AGAIN;
	got = stream_tls_read(stream, buffer, size);
	/* TLS may have written an answer, and the socket may be full */
	if (!stream->write_failed && stream_unsent(stream) > 0 && !arm(stream))
		return STREAM_FAILED;
	if (got > 0 || !stream->write_failed)
		return got;
	stream->error = write_error;
	return STREAM_FAILED;
}

bool stream_write(struct stream *stream, const struct iovec *pieces, int count)
{
	if (stream->phase != STREAM_OPEN || stream->write_failed)
		return false;
	if (stream->ssl ? !stream_tls_write(stream, pieces, count)
			: !stream_send(stream, pieces, count))
		return false;
	return arm(stream);
}

bool stream_write_general(struct stream *stream, const void *data, size_t size)
{
	const struct iovec piece = { (void *)(uintptr_t)data, size };

	return stream_write(stream, &piece, 1);
}

bool stream_write_rest(struct stream *stream, const void *data, size_t size, ssize_t sent)
{
	const struct iovec piece = { (void *)(uintptr_t)data, size };

	if (sent < 0 && !stream_is_to_wait(errno)) {
		stream->error = errno;
		return fail_writing(stream);
	}
	return stream_keep(stream, &piece, 1, sent < 0 ? 0 : (size_t)sent) && arm(stream);
}

void stream_change_reading(struct stream *stream, bool on)
{
	stream->reading = on;
	if (!on || stream->phase != STREAM_OPEN)
		return;
	if (arm(stream))
		announce_buffered(stream);
	else
		event_active(&stream->event, EV_READ, 0); /* stream_read reports the failure */
}

/* ---- events ---- */

static void on_connecting_event(struct stream *stream)
{
	int error = 0;
	socklen_t size = sizeof error;

	if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
		error = errno;
	if (error == 0) {
		stream->phase = STREAM_OPEN;
		if (arm(stream)) {
			stream->ops->on_connected(stream, NULL);
			return;
		}
		stream->phase = STREAM_CONNECTING;
		error = stream->error;
	}
	stream->error = error;
	register_events(stream, 0);
	stream->ops->on_connected(stream, "connect failed");
}

static void step_of_handshake(struct stream *stream)
{
	usec_t began = clock_monotonic();
	enum stream_tls_step step = stream_tls_handshake(stream);

	if (stream->context->server_side)
		tls_accepting_spent += clock_monotonic() - began;
	if (step == STREAM_TLS_DONE)
		stream->phase = STREAM_OPEN;
	if (step != STREAM_TLS_FAILED && arm(stream)) {
		if (step == STREAM_TLS_DONE) {
			announce_buffered(stream);
			stream->ops->on_secured(stream, NULL);
		}
		return;
	}
	stream->phase = STREAM_SECURING;
	register_events(stream, 0);
	stream->ops->on_secured(stream, stream_error(stream));
}

static void on_securing_event(struct stream *stream, short what)
{
	enum stream_step step = (enum stream_step)stream->tls_step;
	bool may_step = false, may_be_expensive;

	if ((what & EV_WRITE) && stream_unsent(stream) > 0)
		stream_flush(stream);
	/* asks the owner, once per step */
	if (what & EV_READ) {
		/* An accepting side makes at most one expensive operation (signing, decryption, key
		   agreement) before it sends its Finished. The message that causes it can be any
		   message: with TLS 1.2 it may follow the first messages, with both versions it may
		   follow a HelloRetryRequest, and it follows the last piece of a hello. With TLS
		   1.3, a requested client certificate follows the Finished. */
		may_be_expensive = SSL_is_server(stream->ssl) &&
				   (SSL_get_finished(stream->ssl, NULL, 0) == 0 ||
				    SSL_get_verify_mode(stream->ssl) != SSL_VERIFY_NONE);
		may_step = step == STREAM_STEP_GRANTED || !stream->ops->request_step ||
			   !may_be_expensive;
		stream->tls_step = STREAM_STEP_ASKS;
		if (!may_step)
			may_step = step == STREAM_STEP_ASKS && stream->ops->request_step(stream);
		if (!may_step)
			stream->tls_step = STREAM_STEP_WAITS;
	}
	if (may_step || stream->write_failed || !arm(stream))
		step_of_handshake(stream);
}

/* Handles each event but the common one: an open stream is readable. */
static NEVER_INLINE void on_other_event(struct stream *stream, short what)
{
	ASSERT(stream->phase != STREAM_CLOSED);
	if (stream->phase == STREAM_CONNECTING) {
		on_connecting_event(stream);
		return;
	}
	if (stream->phase == STREAM_SECURING) {
		on_securing_event(stream, what);
		return;
	}
	if ((what & EV_WRITE) && stream_unsent(stream) > 0) {
		stream_flush(stream);
		if (stream_unsent(stream) == 0) {
			arm(stream);
			stream->ops->on_drained(stream);
			return;
		}
	}
	if (!(what & EV_READ))
		return;
	if (stream->reading)
		stream->ops->on_readable(stream);
	else
		register_events(stream, stream->armed & EV_WRITE);
}

static void on_stream_event(evutil_socket_t fd, short what, void *arg)
{
	struct stream *stream = arg;

	(void)fd;
	if (what == EV_READ && stream->phase == STREAM_OPEN && stream->reading)
		stream->ops->on_readable(stream);
	else
		on_other_event(stream, what);
}

/* ---- TLS ---- */

bool stream_secure(struct stream *stream)
{
	stream->phase = STREAM_SECURING;
	stream->tls_step = STREAM_STEP_GRANTED;
	if (!arm(stream)) {
		stream->phase = STREAM_OPEN;
		return false;
	}
	/* The first step is made from the event loop too, and does not need a ready socket. */
	event_active(&stream->event, EV_READ, 0);
	return true;
}

void stream_secure_go_on(struct stream *stream)
{
	if (stream->phase != STREAM_SECURING || stream->tls_step != STREAM_STEP_WAITS)
		return;
	stream->tls_step = STREAM_STEP_GRANTED;
	if (!arm(stream))
		event_active(&stream->event, EV_READ, 0);	/* the step reports the failure */
}

