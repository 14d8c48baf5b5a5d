#ifndef NET_TLS_CERTIFICATES_H
#define NET_TLS_CERTIFICATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Checks the body of a peer's Certificate message (RFC 8446 section 4.4.2; is_13 false: RFC 5246 section 7.4.2) for contents
   that make certificates expensive to read. Returns a description of the fault, or NULL; the message may still be malformed. */
const char *tls_certificates_fault(const uint8_t *body, size_t size, bool is_13);

#endif
