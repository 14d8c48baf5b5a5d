#ifndef NET_TLS_SESSIONS_H
#define NET_TLS_SESSIONS_H

#include <openssl/ssl.h>
#include <stdbool.h>

/*
 * The sessions that servers gave to the connections of one context: the last session of each server name, so that the next
 * connection needs no full handshake.
 */
struct tls_sessions;

/* Attaches the session store to `ssl`, which frees it. False: no memory. */
bool tls_sessions_attach(SSL_CTX *ssl);
/* On a connection before its handshake: offers the session of `name`, if there is one, and keeps the sessions that the server
   sends. Sessions of connections with and without a check of the name are not mixed. */
void tls_sessions_use(SSL *ssl, const char *name, bool verify_name);

#endif
