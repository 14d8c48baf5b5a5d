#ifndef NET_STREAM_TLS_H
#define NET_STREAM_TLS_H

#include "net/stream.h"

#include <errno.h>

/*
 * The TLS part of a stream, for stream.c only: the layer between the owner's bytes and the bytes on the wire. The last part has
 * the functions of stream.c that this layer uses.
 */

/* Creates stream->ssl. False: no memory; stream->reason says so. */
bool stream_tls_begin(struct stream *stream, struct tls_context *context, bool accepting);
/* Accepting side, before the first step of the handshake: applies the first bytes of stream_secure_accept. */
bool stream_tls_begun(struct stream *stream, const void *begun, size_t size);

/* Connecting side, between begin and the first step of the handshake: applies the arguments of stream_secure_connect. */
bool stream_tls_set_peer(struct stream *stream, const char *server_name, bool verify_name, SSL_SESSION *session);

enum stream_tls_step { STREAM_TLS_FAILED = -1, STREAM_TLS_MORE = 0, STREAM_TLS_DONE = 1 };
/* Whether the next message of the handshake may be expensive to process. */
bool stream_tls_is_expensive(const struct stream *stream);
/* Continues the handshake with the available bytes. */
enum stream_tls_step stream_tls_handshake(struct stream *stream);
/* As stream_read and stream_write, in phase STREAM_OPEN. */
ssize_t stream_tls_read(struct stream *stream, void *buffer, size_t size);
bool stream_tls_write(struct stream *stream, const struct iovec *pieces, int count);
/* Sends close_notify if possible, and frees the TLS state. The socket is still open. */
void stream_tls_end(struct stream *stream);

/* Sends bytes unchanged, after the bytes in `out`; the bytes that the socket does not accept are appended to `out`. Does not
   register events. False, with write_failed set: the connection is broken, or no memory. */
bool stream_send(struct stream *stream, const struct iovec *pieces, int count);
/* Whether recv or send is to be repeated when the socket is ready: no real error. */
static inline bool stream_is_to_wait(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }
/* Sets the text of stream_error; NULL: use errno. */
void stream_set_reason(struct stream *stream, const char *text);

#endif
