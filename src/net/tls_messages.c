/*
 * Checks handshake messages that a peer can make expensive to read:
 *
 * - Certificate: see below;
 * - ServerKeyExchange of TLS 1.2 (RFC 5246 section 7.4.3) with a Diffie-Hellman group chosen by the server: a group of 8192
 *   bits takes a hundred times as long as a curve. TLS 1.3 has named groups; tls.c chooses the groups to offer.
 *
 * OpenSSL passes each message to a callback before it reads it. The callback cannot fail, but OpenSSL reads the same bytes
 * afterwards: the callback overwrites the first byte of the body, which makes a length invalid.
 */
#include "net/tls_messages.h"

#include <openssl/objects.h>
#include <openssl/ssl3.h>
#include <stdint.h>
#include <string.h>

/* ---- certificates ---- */

/*
 * Checks a peer's certificates before OpenSSL reads them.
 *
 * OpenSSL decodes the key of each certificate when the message is complete, before any signature is checked. An elliptic curve
 * key may contain explicit curve parameters, or a compressed point, for which a square root modulo a number chosen by the peer
 * is computed. One such key of 600 bytes takes a second, a message of 100 KB takes two minutes, and blocks the event loop. Some
 * hundred ordinary keys take a quarter of a second. Therefore each message is checked first (below), and refused if
 *
 * - it has more than CERTIFICATES_MOST certificates;
 * - a key has parameters that are not just a name (RFC 5480 section 2.1.1 allows no others), unless OpenSSL only copies the
 *   parameters of this kind of key;
 * - a point is not uncompressed (RFC 8422 section 5.1.2 has deprecated the other forms);
 * - a certificate is not in DER up to its key: OpenSSL might interpret it differently from this parser.
 */

#define CERTIFICATES_MOST 16

enum { DER_INTEGER = 0x02, DER_BITS = 0x03, DER_NULL = 0x05, DER_NAME = 0x06, DER_SEQUENCE = 0x30, DER_VERSION = 0xa0 };
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
static bool take(struct part *from, uint8_t tag, struct part *to)
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

	if (!take(&all, DER_SEQUENCE, &certificate) || !take(&certificate, DER_SEQUENCE, &signed_part))
		return is_no_der;
	take(&signed_part, DER_VERSION, &skipped);
	if (!take(&signed_part, DER_INTEGER, &skipped))
		return is_no_der;
	/* algorithm, issuer, validity, subject */
	for (int i = 0; i < 4; i++)
		if (!take(&signed_part, DER_SEQUENCE, &skipped))
			return is_no_der;
	/* SubjectPublicKeyInfo */
	if (!take(&signed_part, DER_SEQUENCE, &key))
		return is_no_der;
	if (!take(&key, DER_SEQUENCE, &algorithm) || !take(&algorithm, DER_NAME, &name) || !take(&key, DER_BITS, &point))
		return is_no_der;
	if (left_in(&algorithm) > 0 && !IS(name, of_pss) && !IS(name, of_dsa) && !take(&algorithm, DER_NULL, &parameters) &&
	    !take(&algorithm, DER_NAME, &parameters))
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
		fault = count < CERTIFICATES_MOST ? certificate_fault(certificate) : "there are more than 16 certificates";
		if (is_13 && !take_counted(&list, 2, &skipped))
			break;
	}
	return fault;
}

/* ---- messages ---- */

#define HEADER 4
#define GROUP_MOST (3072 / 8)		/* size of the prime in bytes */

/* Set by the current call of OpenSSL. */
static const char *refused;

static void on_message(int is_ours, int version, int kind, const void *data, size_t size, SSL *ssl, void *context)
{
	union { const void *in; uint8_t *out; } message = { data };	/* OpenSSL reads `data` next, and declares it const only here */
	const uint8_t *body = message.out + HEADER;
	const SSL_CIPHER *cipher;
	const char *fault = NULL;

	(void)version, (void)context;
	if (is_ours || kind != SSL3_RT_HANDSHAKE || size <= HEADER)
		return;
	size -= HEADER;
	if (message.out[0] == SSL3_MT_CERTIFICATE) {
		fault = tls_certificates_fault(body, size, SSL_version(ssl) == TLS1_3_VERSION);
	} else if (message.out[0] == SSL3_MT_SERVER_KEY_EXCHANGE) {
		/* the body begins with the length of the prime */
		cipher = SSL_get_pending_cipher(ssl);
		if (cipher && SSL_CIPHER_get_kx_nid(cipher) == NID_kx_dhe && size >= 2 && (body[0] << 8 | body[1]) > GROUP_MOST)
			fault = "the Diffie-Hellman group has more than 3072 bits";
	}
	if (!fault)
		return;
	refused = fault;
	message.out[HEADER] = 0xff;
}

void tls_messages_watch(SSL *ssl, bool on)
{
#ifdef SSL_OP_NO_RX_CERTIFICATE_COMPRESSION
	/* a compressed certificate cannot be checked */
	SSL_set_options(ssl, SSL_OP_NO_RX_CERTIFICATE_COMPRESSION);
#endif
	SSL_set_msg_callback(ssl, on ? on_message : NULL);
}

const char *tls_messages_refused(void)
{
	const char *fault = refused;

	refused = NULL;
	return fault;
}
