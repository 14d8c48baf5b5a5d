#ifndef NET_STREAM_TLS_H
#define NET_STREAM_TLS_H

#include "net/stream.h"

#include <errno.h>

/*
 * The TLS half of a stream, for stream.c only: what stands between the owner's
 * bytes and the ones on the wire. The last part is what it asks of stream.c in turn.
 */

/* Makes stream->ssl. False when there is no memory; stream->reason then says so. */
bool stream_tls_begin(struct stream *stream, struct tls_context *context, bool accepting);
/* For an accepting side, before the first handshake step: as stream_secure_accept_begun. */
bool stream_tls_begun(struct stream *stream, const void *begun, size_t size);
/* For a failed call of OpenSSL that has no other reason; false. */
bool stream_tls_no_memory(struct stream *stream);

/* ---- stream_tls_names.c ---- */

/* For a connecting side: what stream_secure_connect was told. Comes between begin and the first handshake step. */
bool stream_tls_set_peer(struct stream *stream, const char *server_name, bool verify_name, SSL_SESSION *session);
/* The peer's certificate is for this IP address. */
bool stream_tls_is_made_out_to(const struct stream *stream, const char *ip);

/* ---- stream_tls.c ---- */

enum stream_tls_step { STREAM_TLS_FAILED = -1, STREAM_TLS_MORE = 0, STREAM_TLS_DONE = 1 };
/* What the peer sends next in the handshake may be expensive to answer. */
bool stream_tls_is_expensive(const struct stream *stream);
/* Takes the handshake as far as the bytes that are there allow. */
enum stream_tls_step stream_tls_handshake(struct stream *stream);
/* As stream_read and stream_write, in phase STREAM_OPEN. */
ssize_t stream_tls_read(struct stream *stream, void *buffer, size_t size);
bool stream_tls_write(struct stream *stream, const struct iovec *pieces, int count);
/* Says close_notify where that makes sense, and frees. The socket is still open. */
void stream_tls_end(struct stream *stream);

/* Hands bytes to the socket as they are, behind what waits in `out`; what it does not take waits there. Arms nothing.
   False, and write_failed set, when the connection is broken or memory ran out. */
bool stream_send(struct stream *stream, const struct iovec *pieces, int count);
/* Nothing is wrong: recv or send is to be tried again when the loop says so. */
static inline bool stream_is_to_wait(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }
/* Replaces the text that stream_error gives; NULL: errno speaks again. */
void stream_set_reason(struct stream *stream, const char *text);

#endif
