#ifndef NET_TLS_MESSAGES_H
#define NET_TLS_MESSAGES_H

#include <openssl/ssl.h>

/* Messages of a peer's handshake that would take the event loop's time are refused. */

/* From now on the handshake fails at such a message. */
void tls_messages_watch(SSL *ssl);
/* The handshake is done: no more of them come. */
void tls_messages_watch_no_more(SSL *ssl);
/* Why the call of OpenSSL that has failed has refused a message; NULL: it has not. Forgets it. */
const char *tls_messages_refused(void);

#endif
