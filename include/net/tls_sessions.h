#ifndef NET_TLS_SESSIONS_H
#define NET_TLS_SESSIONS_H

#include <openssl/ssl.h>
#include <stdbool.h>

/*
 * The sessions that servers gave to the connections of one context, the last one of each server name,
 * so that the next connection to it needs no full handshake.
 */
struct tls_sessions;

/* Belongs to `ssl` from now on and is freed with it. False when there is no memory. */
bool tls_sessions_attach(SSL_CTX *ssl);
/* Offers the session kept for `name`, if there is one, on a connection that has not begun, and keeps the
   sessions that the server will give on it. One that was made without a check of the name is never used with one. */
void tls_sessions_use(SSL *ssl, const char *name, bool verify_name);

#endif
