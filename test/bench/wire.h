#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A nonblocking connection, plain or TLS, shared by nullpg and loadpg. */
struct wire {
	int fd;			/* -1: closed */
	SSL *ssl;		/* NULL: plain */
};

#define WIRE_LATER ((ssize_t)-1)	/* nothing now: wait for an event */
#define WIRE_ENDED ((ssize_t)0)

/*
 * Reads available data, at most `size` bytes. A result of `size` may leave bytes that no event will announce. Over TLS this also continues the
 * handshake.
 */
ssize_t wire_read(struct wire *w, void *to, size_t size);
/* Writes as much as the socket accepts. */
ssize_t wire_write(struct wire *w, const void *from, size_t size);
/* Writes all, waiting for room where need be: for requests, which are small. False when the connection has ended. */
bool wire_write_all(struct wire *w, const void *from, size_t size);
/* Begins TLS on an open connection, as server or as client; the next read or write does the handshake. A client may
   offer an earlier session (else NULL). */
void wire_start_tls(struct wire *w, SSL_CTX *context, bool as_server, SSL_SESSION *session);
/* The client's handshake: 1 done, WIRE_LATER, WIRE_ENDED. */
ssize_t wire_handshake(struct wire *w);
/* Over TLS a good-bye is said first. */
void wire_close(struct wire *w);

/* A context of a server with certificate and key, or (both NULL) of a client that takes any certificate. Exits when the
   files cannot be read. */
SSL_CTX *wire_context(const char *cert_file, const char *key_file);
/* As many open files as the system lets us have. */
void wire_many_descriptors(void);

#endif
