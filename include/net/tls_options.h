#ifndef NET_TLS_OPTIONS_H
#define NET_TLS_OPTIONS_H

#include "net/tls.h"

/* Puts the words of `config` (protocols, ciphers, curve, DH) into force. False with a text that names the value at fault. */
bool tls_options_apply(SSL_CTX *ssl, const struct tls_config *config, char *why, size_t why_size);

/* With the certificate loaded: no group for TLS 1.2 is larger than needed. False: no memory. */
bool tls_options_bound_dh(SSL_CTX *ssl, const struct tls_config *config);

#endif
