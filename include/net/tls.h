#ifndef NET_TLS_H
#define NET_TLS_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * TLS contexts, made from plain strings (this room knows no settings). A context is shared by
 * reference: connections keep the one they began with while a RELOAD makes the next.
 */
struct tls_config {
	bool server_side;		/* pgweir accepts (clients) rather than connects (servers) */
	const char *ca_file, *cert_file, *key_file;	/* NULL: none */
	const char *protocols;		/* "secure", "all", "legacy", or names with commas or blanks or ':' */
	const char *ciphers;		/* TLS 1.2 and below: default secure fast normal all, or an OpenSSL list */
	const char *tls13_ciphers;	/* NULL or "": the library's */
	const char *ecdh_curve;		/* auto none NAME */
	const char *dh_params;		/* auto none legacy */
	bool verify_peer;		/* refuse a peer without a valid certificate */
	bool request_peer;		/* ask a client for a certificate, check it when it comes */
};

struct tls_context;

/* NULL with a text that names the file or value at fault. */
struct tls_context *tls_context_new(const struct tls_config *config, char *why, size_t why_size);
struct tls_context *tls_context_hold(struct tls_context *context);
void tls_context_drop(struct tls_context **context);
/* True when the files named in `config` have other contents, or the strings differ, from what this context was made of. */
bool tls_context_differs(const struct tls_context *context, const struct tls_config *config);
SSL_CTX *tls_context_ssl(const struct tls_context *context);
/* Common name of the certificate the peer showed, into buf; false when there is none, or it holds a NUL. */
bool tls_peer_common_name(SSL *ssl, char *buf, size_t size);
/* True when the peer showed a certificate that verified. */
bool tls_peer_is_verified(SSL *ssl);
/* Accepted words for the setting types; false when the value is not one. */
bool tls_protocols_are_valid(const char *protocols);
bool tls_ciphers_are_valid(const char *ciphers);
bool tls13_ciphers_are_valid(const char *ciphers);
bool tls_curve_is_valid(const char *curve);

#endif
