#ifndef SECURE_H
#define SECURE_H

#include "base/bytes.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The target's end of a TLS connection, run by OpenSSL over memory: the target moves the encrypted bytes in both directions. TLS 1.2 or 1.3, session
 * tickets, a fixed certificate, and its own deterministic randomness.
 */
struct secure {
	SSL *ssl;
	bool has_alpn, is_done;		/* done: the handshake */
	bool has_ended;			/* close_notify, or an error: nothing more is taken */
	int alert;			/* the last received alert: level << 8 | description; 0: none */
};

enum secure_side { SECURE_CONNECTS, SECURE_ACCEPTS };
enum secure_version { SECURE_13, SECURE_12 };

struct secure_options {
	enum secure_side side;
	enum secure_version version;	/* the most that it speaks */
	bool has_alpn;			/* agrees on PostgreSQL's protocol, or names it */
	bool is_impostor;		/* shows a certificate that pgweir does not trust */
	bool shows_certificate;		/* SECURE_CONNECTS: where it is asked for one */
	SSL_SESSION *session;		/* to be resumed; NULL: none */
};

/* The sandbox has files cert and key: the certificate that both sides show, its own CA, made out to 127.0.0.1 for ever. Comes before
   anything is drawn. */
void secure_prepare(void);

struct secure *secure_new(const struct secure_options *options);
/* Sets *s to NULL; NULL inside is fine. */
void secure_free(struct secure **s);
/* Reads encrypted bytes, appends the decrypted data, and produces the answers (secure_out). */
void secure_take(struct secure *s, const void *data, size_t size, struct bytes *said);
/* Begins the handshake, where that is this side's. */
void secure_begin(struct secure *s);
/* Says it, in records. False: the handshake isn't done, or all is over. */
bool secure_say(struct secure *s, const void *data, size_t size);
/* Other messages. */
void secure_say_end(struct secure *s);
void secure_change_key(struct secure *s, bool both);
void secure_renegotiate(struct secure *s);
/* Moves the encrypted output to the end of `wire`. */
void secure_out(struct secure *s, struct bytes *wire);
bool secure_is_resumed(const struct secure *s);
/* A session to be resumed later, which the caller frees. NULL: none. */
SSL_SESSION *secure_session(struct secure *s);

#endif
