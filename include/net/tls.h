#ifndef NET_TLS_H
#define NET_TLS_H

#include "base/clock.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * TLS contexts, created from strings (this room knows no settings). A context is reference-counted:
 * connections keep their context when a RELOAD creates the next one.
 */
struct tls_config {
	/* pgweir accepts connections (of clients) instead of connecting (to servers) */
	bool server_side;
	/* accepting side: the application protocol is http/1.1, not PostgreSQL's */
	bool is_http;
	const char *ca_file, *cert_file, *key_file;	/* NULL: none */
	/* lists of revoked certificates of peers, from each authority of a chain; NULL: no check */
	const char *crl_file;
	/* "secure" (TLS 1.2 and 1.3; also "default", NULL, ""), "all" and "legacy" (TLS 1.0 and
	   later), or names tlsv1.0 ... tlsv1.3 separated by commas, blanks or ':'; a '!' before a
	   name removes it. TLS 1.0 and 1.1 also need "@SECLEVEL=0" in `ciphers`. */
	const char *protocols;
	/* TLS 1.2 and below: default secure fast normal all, or an OpenSSL list */
	const char *ciphers;
	const char *tls13_ciphers;	/* NULL or "": the library's default */
	const char *ecdh_curve;		/* auto none NAME */
	const char *dh_params;		/* auto none legacy */
	/* refuse peers without a valid certificate (connecting without ca_file: the system's
	   CAs) */
	bool verify_peer;
	/* ask clients for a certificate, and verify it if they send one */
	bool request_peer;
};

struct tls_context;

/* Reads the files. If neither the strings nor the contents of the files differ from `old`, returns
   `old` with one more reference; `old` may be NULL. Returns NULL and a text with the name of the
   faulty file or value. */
struct tls_context *tls_context_new(const struct tls_config *config, struct tls_context *old,
				    char *why, size_t why_size);
/* Whether the context has the strings, and was made of the present contents of the files. */
bool tls_context_fits(const struct tls_context *context, const struct tls_config *config);
struct tls_context *tls_context_hold(struct tls_context *context);
void tls_context_drop(struct tls_context **context);
/* The own certificate of a context, with its validity on the wall clock. */
struct tls_certificate {
	const char *file;
	usec_t from, to;
	bool expires_soon;		/* by the rule of tls_context_certificate() */
};
/* Describes the own certificate. It expires soon if less than 30 days and less than a quarter of
   its life are left. False: the context has none. */
bool tls_context_certificate(const struct tls_context *context, usec_t wall,
			     struct tls_certificate *certificate);
/*
 * For a connection to an HTTP server by another library: returns a TLS object that verifies the
 * certificate against the CAs of a connecting context, and against `name`, a host name or an IP
 * address. The caller frees it with SSL_free(). NULL: no memory.
 */
SSL *tls_http_new(struct tls_context *context, const char *name);
/* The total time of all handshakes on the accepting side, over all contexts; written by
   stream.c. */
extern usec_t tls_accepting_spent;

/* Results of the handshake. */
#define TLS_ALPN "postgresql"
enum tls_alpn { TLS_ALPN_NONE, TLS_ALPN_POSTGRESQL, TLS_ALPN_OTHER };
/* Returns the negotiated application protocol. */
enum tls_alpn tls_agreed_alpn(const SSL *ssl);
/* Channel binding tls-server-end-point: computes a hash of the accepting side's certificate on this
   connection; *size in bytes. False: no certificate, or the hash is not defined for it. */
#define TLS_END_POINT_MOST 64
bool tls_server_end_point(SSL *ssl, uint8_t hash[TLS_END_POINT_MOST], size_t *size);
/* Writes the common name of the peer's certificate in UTF-8 to buf. False: no common name, too
   long, or it contains a NUL. */
bool tls_peer_common_name(SSL *ssl, char *buf, size_t size);
/* Whether the peer sent a certificate, and it was verified. */
bool tls_peer_is_verified(const SSL *ssl);

#endif
