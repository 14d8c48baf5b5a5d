#ifndef NET_TLS_H
#define NET_TLS_H

#include "base/clock.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * TLS contexts, made from plain strings (this room knows no settings). A context is shared by
 * reference: connections keep the one they began with while a RELOAD makes the next.
 */
struct tls_config {
	bool server_side;		/* pgweir accepts (clients) rather than connects (servers) */
	const char *ca_file, *cert_file, *key_file;	/* NULL: none */
	/* "secure" (TLS 1.2 and 1.3; also "default", NULL, ""), "all" and "legacy" (from TLS 1.0 on), or names tlsv1.0 ... tlsv1.3 with
	   commas or blanks or ':' between, '!' before one takes it out. TLS 1.0 and 1.1 also need "@SECLEVEL=0" in `ciphers`. */
	const char *protocols;
	const char *ciphers;		/* TLS 1.2 and below: default secure fast normal all, or an OpenSSL list */
	const char *tls13_ciphers;	/* NULL or "": the library's */
	const char *ecdh_curve;		/* auto none NAME */
	const char *dh_params;		/* auto none legacy */
	bool verify_peer;		/* refuse a peer without a valid certificate (connecting, no ca_file: the system's CAs) */
	bool request_peer;		/* ask a client for a certificate, check it when it comes */
};

struct tls_context;

/* Reads the files, once. NULL with a text that names the file or value at fault. */
struct tls_context *tls_context_new(const struct tls_config *config, char *why, size_t why_size);
struct tls_context *tls_context_hold(struct tls_context *context);
void tls_context_drop(struct tls_context **context);
/* True when the files named in `config` have other contents, or the strings differ, from what this context was made of. */
bool tls_context_differs(const struct tls_context *context, const struct tls_config *config);
SSL_CTX *tls_context_ssl(const struct tls_context *context);
/* Time that all handshakes on the accepting side have taken so far, of this context and of those before it. */
usec_t tls_accepting_spent(void);
void tls_context_spend(const struct tls_context *context, usec_t time);
/* On an accepting connection, before its handshake: the hello must name application protocols (those it names are judged
   anyway). */
void tls_demand_alpn(SSL *ssl);

/* What the handshake has shown (tls_peer.c). */
#define TLS_ALPN "postgresql"
enum tls_alpn { TLS_ALPN_NONE, TLS_ALPN_POSTGRESQL, TLS_ALPN_OTHER };
/* The application protocol that both sides agreed on. */
enum tls_alpn tls_agreed_alpn(const SSL *ssl);
/* Channel binding tls-server-end-point: a hash of the certificate that the accepting side has shown on this connection, *size
   bytes. False: it showed none, or one for which the hash is not defined. */
#define TLS_END_POINT_MOST 64
bool tls_server_end_point(SSL *ssl, uint8_t hash[TLS_END_POINT_MOST], size_t *size);
/* Version, cipher and, of an exchange on an elliptic curve, its group: TLSv1.3/TLS_AES_256_GCM_SHA384/ECDH=X25519. Returns buf. */
const char *tls_agreed_text(SSL *ssl, char *buf, size_t size);
/* Common name of the certificate the peer showed, in UTF-8 into buf; false when there is none, it does not fit, or it holds a NUL. */
bool tls_peer_common_name(SSL *ssl, char *buf, size_t size);
/* True when the peer showed a certificate that verified. */
bool tls_peer_is_verified(SSL *ssl);

#endif
