#ifndef NET_TLS_CONTEXT_H
#define NET_TLS_CONTEXT_H

#include "net/tls.h"

/*
 * Functions of a TLS context for streams. Other rooms use net/tls.h.
 */

SSL_CTX *tls_context_ssl(const struct tls_context *context);
/* Adds the time of a handshake to tls_accepting_spent(), if the context accepts. */
void tls_context_spend(const struct tls_context *context, usec_t time);
/* Accepting side, before the handshake: the hello must offer application protocols (offered protocols are checked in any case). */
void tls_demand_alpn(SSL *ssl);
/* Connecting side, before the handshake: offers the session of `name`, if there is one, and keeps the sessions that the server
   sends. Sessions of connections with and without a check of the name are not mixed. */
void tls_sessions_use(SSL *ssl, const char *name, bool verify_name);

#endif
