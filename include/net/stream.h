#ifndef NET_STREAM_H
#define NET_STREAM_H

#include "base/bytes.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/*
 * A non-blocking byte stream: a socket, one libevent registration, optional TLS, and the bytes that
 * the socket did not accept yet. A stream knows no messages.
 *
 * Reading is by pull: `on_readable` announces that stream_read may return bytes. stream_write sends
 * to the socket at once; bytes that the socket does not accept wait in `out`, and `on_drained`
 * announces that `out` is empty. In the steady state there is no epoll_ctl, no timer, no allocation
 * and no copy.
 *
 * Callbacks are called from the event loop, never within a call of this header, and never after
 * stream_close. A callback may close its own stream. Each event of the loop makes at most one
 * callback, as its last action.
 */
struct stream;
struct tls_context;

enum {
	STREAM_AGAIN = 0,	/* nothing to read now: on_readable will be called */
	STREAM_EOF = -1,	/* the peer has closed its side */
	STREAM_FAILED = -2	/* see stream_error */
};

struct stream_ops {
	void (*on_readable)(struct stream *stream);
	/* `out` is empty: the socket accepted all bytes, or they were discarded because the
	   connection is broken. In the second case stream_write returns false from now on, and
	   stream_read returns the remaining input of the peer, then STREAM_FAILED. */
	void (*on_drained)(struct stream *stream);
	/* stream_connect or a TLS handshake has ended; error is NULL or a short text ("connect
	   failed", a reason from OpenSSL) */
	void (*on_connected)(struct stream *stream, const char *error);
	void (*on_secured)(struct stream *stream, const char *error);
	/* May be NULL. Called when a handshake of the accepting side has input that may be
	   expensive to process. True: the step is made now. False: the handshake waits for
	   stream_secure_go_on. Must not close the stream. */
	bool (*request_step)(struct stream *stream);
};

enum stream_phase { STREAM_CLOSED, STREAM_CONNECTING, STREAM_SECURING, STREAM_OPEN };
/* The next step of a handshake: asks request_step when there is input, waits for
   stream_secure_go_on, or was granted. */
enum stream_step { STREAM_STEP_ASKS, STREAM_STEP_WAITS, STREAM_STEP_GRANTED };

struct stream {
	const struct stream_ops *ops;
	int fd;				/* -1: closed */
	uint8_t phase;			/* enum stream_phase */
	uint8_t reading;		/* the owner wants on_readable */
	uint8_t armed;			/* events registered with libevent now */
	uint8_t write_failed;		/* a write to a broken connection has failed */
	uint8_t tls_eof : 1;		/* the socket has reached its end, below TLS */
	uint8_t tls_step : 2;		/* enum stream_step, of a handshake */
	uint8_t tls_buffered;		/* TLS may return bytes without a socket event */
	uint8_t tls_own;		/* TLS messages without data since the last data */
	/* 0, or STREAM_EOF or STREAM_FAILED: the result of all further reads */
	int8_t tls_end;
	int error;			/* errno of the last failure */
	struct event event;
	SSL *ssl;			/* NULL: no TLS */
	struct tls_context *context;	/* the context of `ssl`, with a reference */
	/* the IP address that the peer's certificate must contain, owned; NULL: not checked */
	char *verify_ip;
	/* not accepted by the socket yet; with TLS, already encrypted */
	struct bytes out;
	char *reason;			/* text of the last TLS error, owned */
};

/* Initialises a stream in zeroed memory as closed, so that stream_close() does nothing. */
static inline void stream_init(struct stream *stream) { stream->fd = -1; }
/* Takes ownership of a connected, non-blocking socket. Reading is on. False: no memory; the caller
   keeps the descriptor. */
bool stream_open(struct stream *stream, struct event_base *base, int fd,
		 const struct stream_ops *ops);
/* Creates a socket and begins to connect. on_connected follows from the event loop, except after
   false (errno; the stream need not be closed then). Reading is on as soon as the connection is
   established. `options` may be NULL. */
struct socket_options;
bool stream_connect(struct stream *stream, struct event_base *base, const struct sockaddr *address,
		    socklen_t size, const struct socket_options *options,
		    const struct stream_ops *ops);
/* Closes the socket and frees the memory of the stream. TLS: sends close_notify if this does not
   block. May be called twice. */
void stream_close(struct stream *stream);

/* Reads at most `size` bytes; size must not be 0. Returns the number of bytes, STREAM_AGAIN,
   STREAM_EOF or STREAM_FAILED. */
static inline ssize_t stream_read(struct stream *stream, void *buffer, size_t size);
/* Whether TLS has buffered bytes that no socket event will announce. If the reader stops early, it
   must then continue without an event. stream_set_reading(true) calls on_readable from the event
   loop in this case. */
static inline bool stream_has_buffered(const struct stream *stream)
{
	return stream->tls_buffered && stream->phase == STREAM_OPEN;
}
/* Sends the pieces in order, after the bytes in `out`. Bytes that the socket does not accept are
   copied to `out`. False: the connection is broken or not open yet (connecting, in a handshake), or
   no memory; the owner closes the stream. */
bool stream_write(struct stream *stream, const struct iovec *pieces, int count);
static inline bool stream_write_bytes(struct stream *stream, const void *data, size_t size);
/* Returns the number of bytes in `out`. */
static inline size_t stream_unsent(const struct stream *s) { return bytes_size(&s->out); }
/* Turns on_readable on and off. Turning off is lazy: the registration is changed only when the
   socket becomes readable. */
static inline void stream_set_reading(struct stream *stream, bool on);

/* Begin TLS as the accepting or the connecting side; on_secured follows. False: no memory. The
   connecting side sends `server_name` as SNI if it is a name and not an address, and with
   `verify_name` checks the certificate for it (DNS name or IP address), independent of the context.
   `session` is resumed if the peer agrees; NULL: the last session of `server_name` in the same
   context. Bytes in `out` are sent before, in clear. */
/* `begun`: if the peer began with TLS at once, its first `size` bytes, which were read already;
   they are copied. Such a peer must offer PostgreSQL's protocol (ALPN) in its hello, or it gets the
   alert no_application_protocol. NULL: none. */
bool stream_secure_accept(struct stream *stream, struct tls_context *context, const void *begun,
			  size_t size);
bool stream_secure_connect(struct stream *stream, struct tls_context *context,
			   const char *server_name, bool verify_name, SSL_SESSION *session);
/* Continues a handshake after request_step returned false, from the event loop. */
void stream_secure_go_on(struct stream *stream);
/* Writes "TLSv1.3/TLS_AES_256_GCM_SHA384" or "" to buf. */
const char *stream_tls_text(const struct stream *stream, char *buf, size_t size);
/* Returns why the last call or callback failed, for a log line. Valid until the next call. */
static inline const char *stream_error(const struct stream *stream)
{
	return stream->reason ? stream->reason : strerror(stream->error);
}
/* Returns a constant text if stream_read failed because the peer sent too many TLS messages without
   data, otherwise NULL. */
const char *stream_abuse(const struct stream *stream);

/*
 * The common case of each function, inlined; stream.c has the rest.
 */
ssize_t stream_read_rest(struct stream *stream, void *buffer, size_t size);
ssize_t stream_read_nothing(struct stream *stream, ssize_t got);
bool stream_write_general(struct stream *stream, const void *data, size_t size);
/* Completes a write: the socket was offered all bytes and accepted `sent` of them, or failed (-1,
   errno). */
bool stream_write_rest(struct stream *stream, const void *data, size_t size, ssize_t sent);
void stream_change_reading(struct stream *stream, bool on);

static inline ssize_t stream_read(struct stream *stream, void *buffer, size_t size)
{
	ssize_t got;

	if (stream->phase != STREAM_OPEN || stream->ssl)
		return stream_read_rest(stream, buffer, size);
	got = recv(stream->fd, buffer, size, MSG_DONTWAIT);
	return got > 0 ? got : stream_read_nothing(stream, got);
}

static inline bool stream_write_bytes(struct stream *stream, const void *data, size_t size)
{
	ssize_t sent;

	if (stream->phase != STREAM_OPEN || stream->ssl || stream->write_failed ||
	    stream_unsent(stream) > 0)
		return stream_write_general(stream, data, size);
	sent = send(stream->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	return sent == (ssize_t)size || stream_write_rest(stream, data, size, sent);
}

static inline void stream_set_reading(struct stream *stream, bool on)
{
	/* in the common case reading is on already */
	if (!(on && stream->reading && (stream->armed & EV_READ) && !stream->tls_buffered))
		stream_change_reading(stream, on);
}

#endif
