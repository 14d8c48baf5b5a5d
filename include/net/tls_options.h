#ifndef NET_TLS_OPTIONS_H
#define NET_TLS_OPTIONS_H

#include "net/tls.h"

/* Applies protocols, ciphers, curve and DH of `config`. False with a text that names the faulty value. */
bool tls_options_apply(SSL_CTX *ssl, const struct tls_config *config, char *why, size_t why_size);

/* Called after loading the certificate: limits the DH group for TLS 1.2 to the necessary size. False: no memory. */
bool tls_options_bound_dh(SSL_CTX *ssl, const struct tls_config *config);

#endif
