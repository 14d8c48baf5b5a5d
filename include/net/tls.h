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
/* Common name of the certificate the peer showed, in UTF-8 into buf; false when there is none, it does not fit, or it holds a NUL. */
bool tls_peer_common_name(SSL *ssl, char *buf, size_t size);
/* True when the peer showed a certificate that verified. */
bool tls_peer_is_verified(SSL *ssl);
/* Accepted words for the setting types; false when the value is not one. */
bool tls_protocols_are_valid(const char *protocols);
bool tls_ciphers_are_valid(const char *ciphers);
bool tls13_ciphers_are_valid(const char *ciphers);
bool tls_curve_is_valid(const char *curve);

#endif
