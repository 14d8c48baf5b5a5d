#ifndef NET_TLS_CONTEXT_H
#define NET_TLS_CONTEXT_H

#include "net/tls.h"

#include <openssl/evp.h>

/*
 * A TLS context, for streams. Other rooms use net/tls.h.
 */

/* The strings of a configuration; the first ones are names of files. */
enum {
	CONTEXT_CA,
	CONTEXT_CERTIFICATE,
	CONTEXT_KEY,
	CONTEXT_CRL,
	CONTEXT_FILES,
	CONTEXT_PROTOCOLS = CONTEXT_FILES,
	CONTEXT_CIPHERS,
	CONTEXT_TLS13_CIPHERS,
	CONTEXT_CURVE,
	CONTEXT_DH_PARAMS,
	CONTEXT_STRINGS
};

/* If a connection of the accepting side has application data (SSL_set_app_data), its hello must
   offer application protocols. Offered protocols are checked in any case. */
struct tls_context {
	int references;
	SSL_CTX *ssl;
	char *strings[CONTEXT_STRINGS];	/* as configured; NULL and "" are equal */
	unsigned char digests[CONTEXT_FILES][EVP_MAX_MD_SIZE];
	bool server_side, verify_peer, request_peer;
};

/* Connecting side, before the handshake: offers the session of `name`, if there is one, and keeps
   the sessions that the server sends. Sessions of connections with and without a check of the name
   are not mixed. */
void tls_sessions_use(SSL *ssl, const char *name, bool verify_name);

#endif
