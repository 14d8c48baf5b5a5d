#ifndef NET_TLS_MESSAGES_H
#define NET_TLS_MESSAGES_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Refuses handshake messages of a peer that would block the event loop for a long time. */

/* With `on`, from now on such a message makes the handshake fail; off when the handshake is done. */
void tls_messages_watch(SSL *ssl, bool on);
/* Returns why the failed call of OpenSSL refused a message, and clears the reason; NULL: it did not refuse a message. */
const char *tls_messages_refused(void);
/* Checks the body of a peer's Certificate message (RFC 8446 section 4.4.2; is_13 false: RFC 5246 section 7.4.2) for contents
   that make certificates expensive to read. Returns a description of the fault, or NULL; the message may still be malformed. */
const char *tls_certificates_fault(const uint8_t *body, size_t size, bool is_13);

#endif
