#ifndef NET_STREAM_TLS_H
#define NET_STREAM_TLS_H

#include "net/stream.h"

#include <errno.h>

/*
 * The TLS part of a stream, for stream.c only: the layer between the owner's bytes and the bytes on
 * the wire. The last part has the functions of stream.c that this layer uses.
 */

enum stream_tls_step { STREAM_TLS_FAILED = -1, STREAM_TLS_MORE = 0, STREAM_TLS_DONE = 1 };
/* Continues the handshake with the available bytes. */
enum stream_tls_step stream_tls_handshake(struct stream *stream);
/* The parts of stream_read() and stream_write() for a stream with TLS, in phase STREAM_OPEN. */
ssize_t stream_tls_read(struct stream *stream, void *buffer, size_t size);
bool stream_tls_write(struct stream *stream, const struct iovec *pieces, int count);
/* Sends close_notify if possible, and frees the TLS state. The socket is still open. */
void stream_tls_end(struct stream *stream);

/* Checks the body of a peer's Certificate message (RFC 8446 section 4.4.2; is_13 false: RFC 5246
   section 7.4.2) for contents that make certificates expensive to read. Returns a description of
   the fault, or NULL; the message may still be malformed. */
const char *tls_certificates_fault(const uint8_t *body, size_t size, bool is_13);

/* Sends bytes unchanged, after the bytes in `out`; the bytes that the socket does not accept are
   appended to `out`. Does not register events. False, with write_failed set: the connection is
   broken, or no memory. */
bool stream_send(struct stream *stream, const struct iovec *pieces, int count);
/* Whether recv or send is to be repeated when the socket is ready: no real error. */
static inline bool stream_is_to_wait(int error)
{
	return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}
/* Begins the handshake of stream->ssl. False: no memory. */
bool stream_secure(struct stream *stream);

#endif
