#ifndef NET_STREAM_H
#define NET_STREAM_H

#include "base/bytes.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/uio.h>

/*
 * A non-blocking byte stream: a socket, one libevent registration, TLS when it
 * is on, and bytes that the socket did not take yet. It knows no messages.
 *
 * Reading is by pull: `on_readable` says that stream_read may give something.
 * Writing goes to the socket at once; what it does not take waits in `out` and
 * `on_drained` says when that has become empty. In the steady state there is
 * no epoll_ctl, no timer, no allocation and no copy.
 *
 * Callbacks never run inside a call of this header, always from the event loop, and
 * never after stream_close. A callback may close its own stream. Each event of the loop
 * makes at most one callback, as the last thing it does.
 */
struct stream;
struct tls_context;

enum {
	STREAM_AGAIN = 0,	/* nothing now: on_readable will come */
	STREAM_EOF = -1,	/* the peer has closed its side */
	STREAM_FAILED = -2	/* stream_error says why */
};

struct stream_ops {
	void (*on_readable)(struct stream *stream);
	/* `out` has become empty: taken by the socket, or given up because the peer is dead. In the second case stream_write
	   returns false from now on, and stream_read what the peer still had to say, then STREAM_FAILED. */
	void (*on_drained)(struct stream *stream);
	/* stream_connect or a TLS handshake ended; error is NULL or a short text ("connect failed", an OpenSSL reason) */
	void (*on_connected)(struct stream *stream, const char *error);
	void (*on_secured)(struct stream *stream, const char *error);
	/* May be NULL. An accepting side's handshake has input, and what the input asks for may be expensive. True: the step is made now.
	   False: the handshake stands still until stream_secure_go_on. Does not close the stream. */
	bool (*may_step)(struct stream *stream);
};

enum stream_phase { STREAM_CLOSED, STREAM_CONNECTING, STREAM_SECURING, STREAM_OPEN };
/* The next step of a handshake: is asked for when there is input, waits for stream_secure_go_on, may be made. */
enum stream_step { STREAM_STEP_ASKS, STREAM_STEP_WAITS, STREAM_STEP_GRANTED };

struct stream {
	const struct stream_ops *ops;
	int fd;				/* -1: closed */
	uint8_t phase;			/* enum stream_phase */
	uint8_t reading;		/* the owner wants on_readable */
	uint8_t armed;			/* events registered with libevent now */
	uint8_t write_failed;		/* an earlier write met a dead peer */
	uint8_t tls_eof : 1;		/* the socket has ended below TLS */
	uint8_t tls_step : 2;		/* enum stream_step, of a handshake */
	uint8_t tls_buffered;		/* TLS may give something without the socket's help */
	uint8_t tls_own;		/* events of TLS's own since there were data */
	int8_t tls_end;			/* 0, or STREAM_EOF or STREAM_FAILED: every further read says so */
	int error;			/* errno of the last failure */
	struct event event;
	SSL *ssl;			/* NULL: clear */
	struct tls_context *context;	/* what `ssl` was made of, held */
	char *verify_ip;		/* IP address that the peer's certificate must name, owned; NULL: none */
	struct bytes out;		/* not yet taken by the socket; under TLS encrypted already */
	char *reason;			/* text of the last TLS failure, owned */
};

/* Takes over a connected, non-blocking socket. Reading is on. False when there is no memory
   (the descriptor then stays the caller's). */
bool stream_open(struct stream *stream, struct event_base *base, int fd, const struct stream_ops *ops);
/* Makes a socket and begins to connect; on_connected follows, from the loop, in any case but false (errno; nothing to
   close then). Reading is on as soon as it is connected. `options` may be NULL. */
struct socket_options;
bool stream_connect(struct stream *stream, struct event_base *base, const struct sockaddr *address, socklen_t size,
		    const struct socket_options *options, const struct stream_ops *ops);
/* Closes the socket and frees what the stream holds. TLS: sends close_notify if that
   does not block. Safe to call twice. */
void stream_close(struct stream *stream);

/* Reads at most `size` bytes, which is not 0. Count, STREAM_AGAIN, STREAM_EOF or STREAM_FAILED. */
static inline ssize_t stream_read(struct stream *stream, void *buffer, size_t size);
/* True when bytes lie already decrypted inside TLS: no socket event will announce them. A reader that
   stops early must come back by itself while this holds. stream_set_reading(true) brings on_readable
   from the loop when it holds. */
static inline bool stream_has_buffered(const struct stream *stream)
{
	return stream->tls_buffered && stream->phase == STREAM_OPEN;
}
/* Sends the pieces in order, what is still in `out` first. Whatever the socket does not take is copied to `out`.
   False when the connection is broken, not yet open (connecting, in a handshake), or memory ran out; the owner closes it. */
bool stream_write(struct stream *stream, const struct iovec *pieces, int count);
static inline bool stream_write_bytes(struct stream *stream, const void *data, size_t size);
/* Bytes that wait in `out`. */
static inline size_t stream_unsent(const struct stream *s) { return bytes_size(&s->out); }
/* Turns on_readable on and off. Off is lazy: the registration is taken back only when the socket does become readable. */
static inline void stream_set_reading(struct stream *stream, bool on);

/* Begins TLS as the accepting or the connecting side; on_secured follows. False: no memory.
   A connecting side sends `server_name` as SNI when it is a name, and where `verify_name` is set checks
   the certificate for it (DNS name or IP address), whatever the context asks for. `session` is resumed where the peer
   agrees; NULL: the last one that `server_name` gave to a connection of the same context. What waits in `out` goes first, in clear. */
bool stream_secure_accept(struct stream *stream, struct tls_context *context);
/* The same where the peer began with TLS at once and the beginning was read as if in clear: `size` bytes, copied. Such a peer has to
   name PostgreSQL's protocol (ALPN) in its hello, or is sent the alert no_application_protocol. */
bool stream_secure_accept_begun(struct stream *stream, struct tls_context *context, const void *begun, size_t size);
bool stream_secure_connect(struct stream *stream, struct tls_context *context, const char *server_name, bool verify_name, SSL_SESSION *session);
/* The step that may_step has refused is made, from the loop. */
void stream_secure_go_on(struct stream *stream);
/* "TLSv1.3/TLS_AES_256_GCM_SHA384" or "" into buf. */
const char *stream_tls_text(const struct stream *stream, char *buf, size_t size);
/* Why the last call or callback failed, for a log line. Valid until the next call. */
const char *stream_error(const struct stream *stream);
/* A constant text when the peer made TLS work without end, and stream_read failed for that; else NULL. */
const char *stream_abuse(const struct stream *stream);

/*
 * What mostly happens, in the few instructions that it takes; stream.c has the rest of each.
 */
ssize_t stream_read_rest(struct stream *stream, void *buffer, size_t size);
ssize_t stream_read_nothing(struct stream *stream, ssize_t got);
bool stream_write_later(struct stream *stream, const void *data, size_t size);
/* The socket has been offered all of it, and has taken `sent` bytes, or refused (-1, errno). */
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

	if (stream->phase != STREAM_OPEN || stream->ssl || stream->write_failed || stream_unsent(stream) > 0)
		return stream_write_later(stream, data, size);
	sent = send(stream->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	return sent == (ssize_t)size || stream_write_rest(stream, data, size, sent);
}

static inline void stream_set_reading(struct stream *stream, bool on)
{
	/* mostly it is on already */
	if (!(on && stream->reading && (stream->armed & EV_READ) && !stream->tls_buffered))
		stream_change_reading(stream, on);
}

#endif
