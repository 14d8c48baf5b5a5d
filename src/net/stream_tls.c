/*
 * TLS inside a stream.
 *
 * OpenSSL uses a custom BIO. Writes to the BIO never block: records are collected in a shared
 * buffer during a call and sent at its end, or when the buffer is full. Bytes that the socket does
 * not accept wait encrypted in the stream's `out`, like bytes without TLS. Therefore writing is the
 * same with and without TLS, and several records are sent with one system call. No SSL_write is
 * ever repeated. TLS never waits for the socket to become writable, neither in a handshake nor when
 * a read must answer (KeyUpdate). The owner limits `out` as without TLS, by not reading from the
 * other side while bytes wait.
 *
 * OpenSSL reads ahead, so one recv gets many records, and it frees its buffer when the buffer is
 * empty. epoll does not see buffered bytes; `tls_buffered` is true from the time a read leaves some
 * until a read finds no complete record. An incomplete record does not count, because the socket
 * will announce its rest.
 *
 * OpenSSL processes records without data internally, one after the other, and answers many of them
 * before it returns. Peers that send only such records are limited in two ways. One call reads a
 * limited number of bytes from the socket, and the rest in later turns. And after OWN_MOST messages
 * of TLS itself (KeyUpdate, new tickets, alerts, renegotiation requests: RFC 8446 section 4.6, RFC
 * 5246 section 7.2) the stream fails, so that the answers in `out` are limited too. Data resets the
 * count, unless the peer does not read the answers.
 *
 * Both a close_notify and an end of the connection between two records read as STREAM_EOF (many
 * PostgreSQL clients close without close_notify, and the protocol above TLS has its own lengths);
 * an end within a record is a failure.
 */
#include "net/stream_tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/objects.h>
#include <openssl/ssl3.h>
#include <openssl/x509v3.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/text.h"
#include "net/tls_context.h"

#define RECORD ((size_t)SSL3_RT_MAX_PLAIN_LENGTH)

/* Records to be sent: room for four full records. Empty between calls. */
static struct {
	uint8_t data[4 * (RECORD + 512)];
	size_t used;
} wire;

/* Collects small pieces for one record. */
static uint8_t gathered[RECORD];

/* Number of bytes that the current call may still read from the socket. */
static size_t allowance;

/* Far more than any peer needs to update its keys; a KeyUpdate counts twice if it requests an
   answer. */
#define OWN_MOST 64
static const char own_too_often[] = "too many TLS messages without data";

/* Sets the text of stream_error. */
static void set_reason(struct stream *stream, const char *text)
{
	mem_free(stream->reason);
	stream->reason = mem_copy_string(text);
}

static void empty_wire(struct stream *stream)
{
	struct iovec all = { wire.data, wire.used };

	wire.used = 0;
	if (all.iov_len > 0)
		stream_send(stream, &all, 1);	/* a failure is recorded in write_failed */
}

/* ---- the BIO ---- */

static int bio_write(BIO *bio, const char *data, int size)
{
	struct stream *stream = BIO_get_data(bio);
	size_t length = (size_t)size;

	if (size <= 0)
		return 0;
	for (size_t done = 0; done < length;) {
		size_t room = sizeof wire.data - wire.used;
		size_t part = length - done < room ? length - done : room;

		memcpy(wire.data + wire.used, data + done, part);
		wire.used += part;
		done += part;
		if (wire.used == sizeof wire.data)
			empty_wire(stream);
	}
	return size;
}

static int read_socket(BIO *bio, struct stream *stream, char *buffer, int size)
{
	ssize_t got;

	BIO_clear_retry_flags(bio);
	if (allowance == 0) {
		/* the socket stays readable, so an event follows */
		BIO_set_retry_read(bio);
		return -1;
	}
	got = recv(stream->fd, buffer, (size_t)size, MSG_DONTWAIT);
	if (got > 0) {
		allowance -= (size_t)got < allowance ? (size_t)got : allowance;
		return (int)got;
	}
	if (got == 0)
		stream->tls_eof = 1;
	else if (stream_is_to_wait(errno))
		BIO_set_retry_read(bio);
	else
		stream->error = errno;
	return (int)got;
}

static int bio_read(BIO *bio, char *buffer, int size)
{
	return read_socket(bio, BIO_get_data(bio), buffer, size);
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
	const struct stream *stream = BIO_get_data(bio);

	(void)number, (void)pointer;
	switch (command) {
	case BIO_CTRL_FLUSH:
		return 1;	/* the function that wrote sends the collected records */
	case BIO_CTRL_EOF:
		return stream->tls_eof;
	default:
		return 0;
	}
}

/* Makes the method, which all connections share and which is never freed. NULL: no memory. */
static const BIO_METHOD *method_new(const char *name, int (*write)(BIO *, const char *, int),
				    int (*read)(BIO *, char *, int),
				    long (*control)(BIO *, int, long, void *),
				    int (*destroy)(BIO *))
{
	BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, name);

	if (method &&
	    !(BIO_meth_set_write(method, write) && BIO_meth_set_read(method, read) &&
	      BIO_meth_set_ctrl(method, control) && BIO_meth_set_destroy(method, destroy))) {
		BIO_meth_free(method);
		method = NULL;
	}
	return method;
}

/* ---- the reading BIO for a handshake with bytes read before ---- */

/* Bytes that were read before the caller knew that they are TLS. They come before the bytes of the
   socket; when they are used up and the handshake is done, the other BIO replaces this one. */
struct begun {
	struct stream *stream;
	size_t at, size;
	uint8_t data[];
};

static int begun_read(BIO *bio, char *buffer, int size)
{
	struct begun *begun = BIO_get_data(bio);
	size_t left = begun->size - begun->at;

	if (left == 0 || size <= 0)
		return read_socket(bio, begun->stream, buffer, size);
	if (left > (size_t)size)
		left = (size_t)size;
	BIO_clear_retry_flags(bio);
	memcpy(buffer, begun->data + begun->at, left);
	begun->at += left;
	return (int)left;
}

static long begun_control(BIO *bio, int command, long number, void *pointer)
{
	const struct begun *begun = BIO_get_data(bio);

	(void)number, (void)pointer;
	return command == BIO_CTRL_EOF && begun->at == begun->size && begun->stream->tls_eof;
}

static int begun_destroy(BIO *bio)
{
	mem_free(BIO_get_data(bio));
	BIO_set_data(bio, NULL);
	return 1;
}

/* ---- messages of TLS itself ---- */

const char *stream_abuse(const struct stream *stream)
{
	return stream->tls_own > OWN_MOST ? own_too_often : NULL;
}

/* Callback of OpenSSL for every alert and at the end of every message of TLS itself, but not for
   records with data. */
static void on_own_event(const SSL *ssl, int where, int value)
{
	struct stream *stream = BIO_get_data(SSL_get_wbio(ssl));

	(void)value;
	if (stream->phase != STREAM_OPEN || !(where & (SSL_CB_ALERT | SSL_CB_EXIT)) ||
	    stream_abuse(stream))
		return;
	/* OpenSSL cannot be stopped here, but it stops at the next record if the peer seems to have
	   closed the connection. */
	if (++stream->tls_own > OWN_MOST)
		SSL_set_shutdown(stream->ssl, SSL_get_shutdown(ssl) | SSL_RECEIVED_SHUTDOWN);
}

/* ---- certificates ---- */

/*
 * Checks a peer's certificates before OpenSSL reads them.
 *
 * OpenSSL decodes the key of each certificate when the message is complete, before any signature is
 * checked. An elliptic curve key may contain explicit curve parameters, or a compressed point, for
 * which a square root modulo a number chosen by the peer is computed. One such key of 600 bytes
 * takes a second, a message of 100 KB takes two minutes, and blocks the event loop. Some hundred
 * ordinary keys take a quarter of a second. Therefore each message is checked first (below), and
 * refused if
 *
 * - it has more than CERTIFICATES_MOST certificates;
 * - a key has parameters that are not just a name (RFC 5480 section 2.1.1 allows no others), unless
 *   OpenSSL only copies the parameters of this kind of key;
 * - a point is not uncompressed (RFC 8422 section 5.1.2 has deprecated the other forms);
 * - a certificate is not in DER up to its key: OpenSSL might interpret it differently from this
 *   parser.
 */

#define CERTIFICATES_MOST 16

enum {
	DER_INTEGER = 0x02,
	DER_BITS = 0x03,
	DER_NULL = 0x05,
	DER_NAME = 0x06,
	DER_SEQUENCE = 0x30,
	DER_VERSION = 0xa0
};
#define POINT_UNCOMPRESSED 0x04

/* id-ecPublicKey 1.2.840.10045.2.1 */
static const uint8_t of_curve[] = { 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01 };
/* RSASSA-PSS 1.2.840.113549.1.1.10, DSA 1.2.840.10040.4.1 */
static const uint8_t of_pss[] = { 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a };
static const uint8_t of_dsa[] = { 0x2a, 0x86, 0x48, 0xce, 0x38, 0x04, 0x01 };

static const char is_no_der[] = "a certificate is not in DER";

struct part {
	const uint8_t *at, *end;
};

static size_t left_in(const struct part *p)
{
	return (size_t)(p->end - p->at);
}

/* Takes a number of `width` bytes, and that number of bytes. False: incomplete. */
static bool take_counted(struct part *from, size_t width, struct part *to)
{
	size_t size = 0;

	if (left_in(from) < width)
		return false;
	for (size_t i = 0; i < width; i++)
		size = size << 8 | *from->at++;
	if (size > left_in(from))
		return false;
	*to = (struct part){ from->at, from->at + size };
	from->at += size;
	return true;
}

/* Takes the content of the next element. False: another tag, or malformed. */
static bool tls_stream_take(struct part *from, uint8_t tag, struct part *to)
{
	size_t width;

	if (left_in(from) < 2 || from->at[0] != tag)
		return false;
	width = from->at[1] & 0x7f;
	if (!(from->at[1] & 0x80)) {
		from->at++;
		return take_counted(from, 1, to);
	}
	/* 0x80 is an indefinite length; longer lengths do not occur */
	if (width == 0 || width > 3)
		return false;
	from->at += 2;
	return take_counted(from, width, to);
}

#define IS(part, oid) (left_in(&(part)) == sizeof(oid) && memcmp((part).at, oid, sizeof(oid)) == 0)

/* Certificate (RFC 5280 section 4.1), as far as its key. */
static const char *certificate_fault(struct part all)
{
	struct part certificate, signed_part, key, skipped, algorithm, name, parameters, point;

	if (!tls_stream_take(&all, DER_SEQUENCE, &certificate) ||
	    !tls_stream_take(&certificate, DER_SEQUENCE, &signed_part))
		return is_no_der;
	tls_stream_take(&signed_part, DER_VERSION, &skipped);
	if (!tls_stream_take(&signed_part, DER_INTEGER, &skipped))
		return is_no_der;
	/* algorithm, issuer, validity, subject */
	for (int i = 0; i < 4; i++)
		if (!tls_stream_take(&signed_part, DER_SEQUENCE, &skipped))
			return is_no_der;
	/* SubjectPublicKeyInfo */
	if (!tls_stream_take(&signed_part, DER_SEQUENCE, &key))
		return is_no_der;
	if (!tls_stream_take(&key, DER_SEQUENCE, &algorithm) ||
	    !tls_stream_take(&algorithm, DER_NAME, &name) ||
	    !tls_stream_take(&key, DER_BITS, &point))
		return is_no_der;
	if (left_in(&algorithm) > 0 && !IS(name, of_pss) && !IS(name, of_dsa) &&
	    !tls_stream_take(&algorithm, DER_NULL, &parameters) &&
	    !tls_stream_take(&algorithm, DER_NAME, &parameters))
		return "the key of a certificate has parameters that are not a name";
	/* before the point: the number of unused bits in the last byte */
	if (IS(name, of_curve) && (left_in(&point) < 2 || point.at[1] != POINT_UNCOMPRESSED))
		return "the key of a certificate is a point that is not uncompressed";
	return NULL;
}

const char *tls_certificates_fault(const uint8_t *body, size_t size, bool is_13)
{
	struct part message = { body, body + size }, list, certificate, skipped;
	const char *fault = NULL;

	/* OpenSSL reports a malformed message */
	if ((is_13 && !take_counted(&message, 1, &skipped)) || !take_counted(&message, 3, &list))
		return NULL;
	for (int count = 0; !fault && take_counted(&list, 3, &certificate); count++) {
		fault = count < CERTIFICATES_MOST ? certificate_fault(certificate)
						  : "there are more than 16 certificates";
		if (is_13 && !take_counted(&list, 2, &skipped))
			break;
	}
	return fault;
}

/* ---- messages that are expensive to read ---- */

/*
 * Checks handshake messages that a peer can make expensive to read:
 *
 * - Certificate: see above;
 * - ServerKeyExchange of TLS 1.2 (RFC 5246 section 7.4.3) with a Diffie-Hellman group chosen by the
 *   server: a group of 8192 bits takes a hundred times as long as a curve. TLS 1.3 has named
 *   groups; tls.c chooses the groups to offer.
 *
 * OpenSSL passes each message to a callback before it reads it. The callback cannot fail, but
 * OpenSSL reads the same bytes afterwards: the callback overwrites the first byte of the body,
 * which makes a length invalid.
 */

#define MESSAGE_HEADER 4
#define GROUP_MOST (3072 / 8)		/* size of the prime in bytes */

/* Why on_tls_stream_message refused a message in the current call of OpenSSL; NULL: it refused no
   message. */
static const char *tls_stream_message_fault;

static void on_tls_stream_message(int is_ours, int version, int kind, const void *data, size_t size,
				  SSL *ssl, void *context)
{
	/* OpenSSL reads `data` next, and declares it const only here */
	union { const void *in; uint8_t *out; } message = { data };
	const uint8_t *body = message.out + MESSAGE_HEADER;
	const SSL_CIPHER *cipher;
	const char *fault = NULL;

	(void)version, (void)context;
	if (is_ours || kind != SSL3_RT_HANDSHAKE || size <= MESSAGE_HEADER)
		return;
	size -= MESSAGE_HEADER;
	if (message.out[0] == SSL3_MT_CERTIFICATE) {
		fault = tls_certificates_fault(body, size, SSL_version(ssl) == TLS1_3_VERSION);
	} else if (message.out[0] == SSL3_MT_SERVER_KEY_EXCHANGE) {
		/* the body begins with the length of the prime */
		cipher = SSL_get_pending_cipher(ssl);
		if (cipher && SSL_CIPHER_get_kx_nid(cipher) == NID_kx_dhe && size >= 2 &&
		    (body[0] << 8 | body[1]) > GROUP_MOST)
			fault = "the Diffie-Hellman group has more than 3072 bits";
	}
	if (!fault)
		return;
	tls_stream_message_fault = fault;
	message.out[MESSAGE_HEADER] = 0xff;
}

/* ---- beginning ---- */

/* Handles a failed call of OpenSSL without any other reason; returns false. */
static bool fail_without_memory(struct stream *stream)
{
	ERR_clear_error();
	stream->error = ENOMEM;
	return false;
}

/* Creates stream->ssl. False: no memory. */
static bool tls_stream_begin(struct stream *stream, struct tls_context *context, bool accepting)
{
	static const BIO_METHOD *method;
	BIO *bio;

	if (!method)
		method = method_new("pgweir stream", bio_write, bio_read, bio_control, NULL);
	bio = method ? BIO_new(method) : NULL;
	ERR_clear_error();
	stream->ssl = SSL_new(context->ssl);
	if (!stream->ssl || !bio) {
		BIO_free(bio);
		return fail_without_memory(stream);
	}
	stream->context = tls_context_hold(context);
	BIO_set_data(bio, stream);
	BIO_set_init(bio, 1);
	SSL_set_bio(stream->ssl, bio, bio);
	SSL_set_info_callback(stream->ssl, on_own_event);
#ifdef SSL_OP_NO_RX_CERTIFICATE_COMPRESSION
	/* a compressed certificate cannot be checked */
	SSL_set_options(stream->ssl, SSL_OP_NO_RX_CERTIFICATE_COMPRESSION);
#endif
	SSL_set_msg_callback(stream->ssl, on_tls_stream_message);
	if (accepting)
		SSL_set_accept_state(stream->ssl);
	else
		SSL_set_connect_state(stream->ssl);
	return true;
}

bool stream_secure_accept(struct stream *stream, struct tls_context *context, const void *data,
			  size_t size)
{
	static const BIO_METHOD *method;
	struct begun *begun;
	BIO *bio;

	ASSERT(stream->phase == STREAM_OPEN && !stream->ssl);
	if (!tls_stream_begin(stream, context, true))
		return false;
	if (!data)
		return stream_secure(stream);
	begun = mem_try(sizeof *begun + size);
	if (!method)
		method = method_new("pgweir stream that has begun", NULL, begun_read, begun_control,
				    begun_destroy);
	bio = method && begun ? BIO_new(method) : NULL;
	if (!bio) {
		mem_free(begun);
		return fail_without_memory(stream);
	}
	begun->stream = stream;
	begun->size = size;
	memcpy(begun->data, data, size);
	BIO_set_data(bio, begun);
	BIO_set_init(bio, 1);
	SSL_set0_rbio(stream->ssl, bio);
	/* demands ALPN */
	SSL_set_app_data(stream->ssl, begun);
	return stream_secure(stream);
}

/* ---- names ---- */

/*
 * The server name that a connecting side sends (RFC 6066, section 3), and the check that the
 * certificate contains this name (RFC 6125).
 */

bool stream_secure_connect(struct stream *stream, struct tls_context *context,
			   const char *server_name, bool verify_name, SSL_SESSION *session)
{
	struct in6_addr any;
	bool named = server_name && *server_name;
	bool ip = named && (inet_pton(AF_INET, server_name, &any) == 1 ||
			    inet_pton(AF_INET6, server_name, &any) == 1);

	ASSERT(stream->phase == STREAM_OPEN && !stream->ssl);
	if (!tls_stream_begin(stream, context, false))
		return false;
	/* not the macro SSL_set_tlsext_host_name, because it removes const, which compilers warn
	   about */
	if (named && !ip &&
	    SSL_ctrl(stream->ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
		     (void *)(uintptr_t)server_name) != 1)
		return fail_without_memory(stream);
	if (verify_name) {
		SSL_set_verify(stream->ssl, SSL_VERIFY_PEER, NULL);
		SSL_set_hostflags(stream->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
		if (!named) {
			set_reason(stream, "no server name to verify");
			return false;
		}
		/* Checked after the handshake, because the common name of the certificate is used
		   if there are no alternative names. */
		if (ip && !(stream->verify_ip = mem_copy_string(server_name)))
			return fail_without_memory(stream);
		if (!ip && !SSL_set1_host(stream->ssl, server_name))
			return fail_without_memory(stream);
	}
	if (named)
		tls_sessions_use(stream->ssl, server_name, verify_name);
	if (session)
		SSL_set_session(stream->ssl, session);
	return stream_secure(stream);
}

/* Looks for an address among the addresses of the certificate, or in the common name if the
   certificate has no alternative names: many certificates of PostgreSQL servers have only a common
   name. */
static bool is_made_out_to(const struct stream *stream, const char *ip)
{
	X509 *certificate = SSL_get1_peer_certificate(stream->ssl);
	char common_name[256];
	bool matches;

	if (!certificate)
		return false;
	matches = X509_check_ip_asc(certificate, ip, 0) == 1;
	if (!matches && X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1) < 0)
		matches = tls_peer_common_name(stream->ssl, common_name, sizeof common_name) &&
			  strcmp(common_name, ip) == 0;
	X509_free(certificate);
	return matches;
}

/* ---- errors ---- */

/* Stores OpenSSL's reason for a failed call in stream->reason and empties its error queue. */
static void keep_reason(struct stream *stream)
{
	unsigned long code = ERR_get_error();
	const char *reason = code ? ERR_reason_error_string(code) : NULL;
	long verified = SSL_get_verify_result(stream->ssl);
	const char *refused = tls_stream_message_fault;
	char text[256];

	ERR_clear_error();
	tls_stream_message_fault = NULL;
	if (refused)
		snprintf(text, sizeof text, "refused: %s", refused);
	else if (code && ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED &&
		 verified != X509_V_OK)
		snprintf(text, sizeof text, "%s: %s", reason ? reason : "verification failed",
			 X509_verify_cert_error_string(verified));
	else
		snprintf(text, sizeof text, "%s", reason ? reason : "TLS protocol error");
	set_reason(stream, text);
}

/* ---- handshake ---- */

enum stream_tls_step stream_tls_handshake(struct stream *stream)
{
	BIO *from = SSL_get_rbio(stream->ssl), *to = SSL_get_wbio(stream->ssl);
	int result, error;

	ERR_clear_error();
	allowance = sizeof wire.data;
	result = SSL_do_handshake(stream->ssl);
	error = result == 1 ? SSL_ERROR_NONE : SSL_get_error(stream->ssl, result);
	empty_wire(stream);
	if (error == SSL_ERROR_NONE) {
		if (stream->verify_ip && !is_made_out_to(stream, stream->verify_ip)) {
			set_reason(stream, "certificate verify failed: IP address mismatch");
			return STREAM_TLS_FAILED;
		}
		if (from != to) {
			const struct begun *begun = BIO_get_data(from);

			if (begun->at == begun->size && BIO_up_ref(to))
				SSL_set0_rbio(stream->ssl, to);
		}
		SSL_set_msg_callback(stream->ssl, NULL);
		stream->tls_buffered = SSL_has_pending(stream->ssl) != 0;
		return STREAM_TLS_DONE;
	}
	if (error == SSL_ERROR_WANT_READ)
		return stream->write_failed ? STREAM_TLS_FAILED : STREAM_TLS_MORE;
	if (stream->tls_eof)
		set_reason(stream, "the peer closed the connection during the TLS handshake");
	else if (error == SSL_ERROR_SSL)
		keep_reason(stream);
	ERR_clear_error();
	return STREAM_TLS_FAILED;
}

/* ---- reading and writing ---- */

/* Converts a failure of SSL_read. The end of the stream is stored, because the socket reports it
   only once. */
static ssize_t judge_read(struct stream *stream)
{
	int error = SSL_get_error(stream->ssl, 0);

	stream->tls_buffered = 0;
	if (error == SSL_ERROR_WANT_READ && !stream_abuse(stream))
		return STREAM_AGAIN;
	stream->tls_end = STREAM_FAILED;
	if (stream_abuse(stream))
		set_reason(stream, stream_abuse(stream));
	/* an incomplete record; "RB": the header was read completely, and nothing of the body */
	else if (stream->tls_eof && (SSL_has_pending(stream->ssl) ||
				     strcmp(SSL_rstate_string(stream->ssl), "RB") == 0))
		set_reason(stream, "the connection ended within a TLS record");
	else if (stream->tls_eof || error == SSL_ERROR_ZERO_RETURN)
		stream->tls_end = STREAM_EOF;
	else if (error == SSL_ERROR_SSL)
		keep_reason(stream);
	ERR_clear_error();
	return stream->tls_end;
}

static ssize_t read_data(struct stream *stream, size_t size)
{
	empty_wire(stream);
	if (stream_unsent(stream) == 0 && !stream_abuse(stream))
		stream->tls_own = 0;
	return (ssize_t)size;
}

ssize_t stream_tls_read(struct stream *stream, void *buffer, size_t size)
{
	size_t total = 0, got;

	if (stream->tls_end) {
		stream->tls_buffered = 0;
		return stream->tls_end;
	}
	ERR_clear_error();
	allowance = size + sizeof wire.data;
	do {
		if (SSL_read_ex(stream->ssl, (uint8_t *)buffer + total, size - total, &got) != 1) {
			ssize_t verdict = judge_read(stream);

			if (total == 0) {
				empty_wire(stream);
				return verdict;
			}
			/* The next read returns the end, and no event would announce it. */
			stream->tls_buffered = verdict != STREAM_AGAIN;
			return read_data(stream, total);
		}
		total += got;
		stream->tls_buffered = SSL_has_pending(stream->ssl) != 0;
	} while (total < size && stream->tls_buffered);
	return read_data(stream, total);
}

static bool encrypt(struct stream *stream, const void *data, size_t size)
{
	size_t written;

	if (size == 0 || SSL_write_ex(stream->ssl, data, size, &written) == 1)
		return true;
	keep_reason(stream);
	stream->write_failed = 1;
	stream->error = EPROTO;
	return false;
}

bool stream_tls_write(struct stream *stream, const struct iovec *pieces, int count)
{
	size_t used = 0;
	bool ok = true;

	ERR_clear_error();
	/* encrypts whole records from the caller's memory, and the rest of each piece together with
	   the next pieces */
	for (int i = 0; ok && i < count; i++) {
		const uint8_t *data = pieces[i].iov_base;
		size_t left = pieces[i].iov_len, part;

		for (; ok && left > 0; data += part, left -= part) {
			if (used == 0 && (left >= RECORD || i == count - 1)) {
				part = i == count - 1 ? left : left - left % RECORD;
				ok = encrypt(stream, data, part);
				continue;
			}
			part = left < RECORD - used ? left : RECORD - used;
			memcpy(gathered + used, data, part);
			used += part;
			if (used == RECORD) {
				ok = encrypt(stream, gathered, used);
				used = 0;
			}
		}
	}
	ok = ok && encrypt(stream, gathered, used);
	empty_wire(stream);
	return ok && !stream->write_failed;
}

void stream_tls_end(struct stream *stream)
{
	ERR_clear_error();
	/* After unsent bytes, a close_notify could not be sent. */
	if (stream->phase == STREAM_OPEN && !stream->write_failed &&
	    stream->tls_end != STREAM_FAILED) {
		if (stream_unsent(stream) == 0) {
			SSL_shutdown(stream->ssl);
			empty_wire(stream);
		} else {
			/* Otherwise OpenSSL would consider the session broken. */
			SSL_set_shutdown(stream->ssl, SSL_SENT_SHUTDOWN);
		}
	}
	ERR_clear_error();
	SSL_free(stream->ssl);
	stream->ssl = NULL;
	tls_context_drop(&stream->context);
	mem_free(stream->verify_ip);
	stream->verify_ip = NULL;
}

const char *stream_tls_text(const struct stream *stream, char *buf, size_t size)
{
	if (stream->ssl && stream->phase == STREAM_OPEN)
		snprintf(buf, size, "%s/%s", SSL_get_version(stream->ssl),
			 SSL_get_cipher_name(stream->ssl));
	else
		text_copy(buf, size, "");
	return buf;
}
