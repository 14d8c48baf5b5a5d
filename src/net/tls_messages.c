/*
 * Checks handshake messages that a peer can make expensive to read:
 *
 * - Certificate: see tls_certificates.c;
 * - ServerKeyExchange of TLS 1.2 (RFC 5246 section 7.4.3) with a Diffie-Hellman group chosen by the server: a group of 8192
 *   bits takes a hundred times as long as a curve. TLS 1.3 has named groups; tls_options.c chooses the groups to offer.
 *
 * OpenSSL passes each message to a callback before it reads it. The callback cannot fail, but OpenSSL reads the same bytes
 * afterwards: the callback overwrites the first byte of the body, which makes a length invalid.
 */
#include "net/tls_messages.h"

#include <openssl/objects.h>
#include <openssl/ssl3.h>
#include <stdint.h>

#include "net/tls_certificates.h"

#define HEADER 4
#define GROUP_MOST (3072 / 8)		/* size of the prime in bytes */

/* Set by the current call of OpenSSL. */
static const char *refused;

/* OpenSSL reads `data` next, and declares it const only in this prototype. */
static void spoil(const void *data)
{
	union { const void *in; uint8_t *out; } message = { data };

	message.out[HEADER] = 0xff;
}

/* The body begins with the length of the prime. */
static const char *group_fault(const SSL *ssl, const uint8_t *body, size_t size)
{
	const SSL_CIPHER *cipher = SSL_get_pending_cipher(ssl);

	if (!cipher || SSL_CIPHER_get_kx_nid(cipher) != NID_kx_dhe || size < 2 || (body[0] << 8 | body[1]) <= GROUP_MOST)
		return NULL;
	return "the Diffie-Hellman group has more than 3072 bits";
}

static const char *fault_of(const SSL *ssl, uint8_t kind, const uint8_t *body, size_t size)
{
	switch (kind) {
	case SSL3_MT_CERTIFICATE:
		return tls_certificates_fault(body, size, SSL_version(ssl) == TLS1_3_VERSION);
	case SSL3_MT_SERVER_KEY_EXCHANGE:
		return group_fault(ssl, body, size);
	default:
		return NULL;
	}
}

static void on_message(int is_ours, int version, int kind, const void *data, size_t size, SSL *ssl, void *context)
{
	const uint8_t *message = data;
	const char *fault;

	(void)version, (void)context;
	if (is_ours || kind != SSL3_RT_HANDSHAKE || size <= HEADER)
		return;
	fault = fault_of(ssl, *message, message + HEADER, size - HEADER);
	if (!fault)
		return;
	refused = fault;
	spoil(data);
}

void tls_messages_watch(SSL *ssl)
{
#ifdef SSL_OP_NO_RX_CERTIFICATE_COMPRESSION
	/* a compressed certificate cannot be checked */
	SSL_set_options(ssl, SSL_OP_NO_RX_CERTIFICATE_COMPRESSION);
#endif
	SSL_set_msg_callback(ssl, on_message);
}

void tls_messages_watch_no_more(SSL *ssl)
{
	SSL_set_msg_callback(ssl, NULL);
}

const char *tls_messages_refused(void)
{
	const char *fault = refused;

	refused = NULL;
	return fault;
}
