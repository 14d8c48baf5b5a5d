#ifndef NET_TLS_MESSAGES_H
#define NET_TLS_MESSAGES_H

#include <openssl/ssl.h>

/* Refuses handshake messages of a peer that would block the event loop for a long time. */

/* From now on such a message makes the handshake fail. */
void tls_messages_watch(SSL *ssl);
/* The handshake is done: stops the checks. */
void tls_messages_watch_no_more(SSL *ssl);
/* Returns why the failed call of OpenSSL refused a message, and clears the reason; NULL: it did not refuse a message. */
const char *tls_messages_refused(void);

#endif
