#ifndef PG_SCRAM_H
#define PG_SCRAM_H

#include "base/bytes.h"
#include "pg/frame.h"
#include "pg/password.h"

/*
 * SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677) of both sides. The functions are pure:
 * the caller provides nonces and channel bindings. Each length that a peer chooses is bounded.
 */
#define SCRAM_NONCE_RAW 18	/* random bytes of a nonce, which has 24 base64 characters */
/* the longest nonce of both sides together, and a NUL; some clients send 127 characters */
#define SCRAM_NONCE_TEXT 1024
#define SCRAM_MESSAGE_MAX 2048	/* the longest message accepted from a peer */
#define SCRAM_BINDING_MAX 64	/* bytes of a channel binding: the longest hash of a certificate */

#define SCRAM_PREFIX "SCRAM-SHA-256$"		/* of a secret as text */
/* characters for n bytes in base64 (RFC 4648 section 4), padded, without blanks and line breaks */
#define BASE64_SIZE(n) (((n) + 2) / 3 * 4)

/* Decodes all `length` characters of `text` into at most `size` bytes, and sets *got to their
   number. False: a character outside of base64, wrong padding, unused bits that are not zero, or
   too many bytes. */
bool base64_decode(void *to, size_t size, size_t *got, const char *text, size_t length);
/* False: the text is not a valid SCRAM secret. */
bool scram_secret_read(const char *text, struct scram_secret *out);
/* Writes "SCRAM-SHA-256$..." with a NUL; false: `size` is too small. */
bool scram_secret_write(const struct scram_secret *secret, char *to, size_t size);
/* Computes SaltedPassword from the password after SASLprep (RFC 5802 section 3, RFC 7677), which
   takes long. False: no memory, or the size of the salt or the count is out of bounds. */
bool scram_salted_derive(const char *password, const uint8_t *salt, size_t salt_size,
			 uint32_t iterations, uint8_t salted[SCRAM_KEY]);
/* Computes the keys, which is fast. With ClientKey a client can log in at each server with this
   secret. False: no memory; the keys are then zeros. */
bool scram_keys_of_salted(const uint8_t salted[SCRAM_KEY], uint8_t client_key[SCRAM_KEY],
			  uint8_t stored_key[SCRAM_KEY], uint8_t server_key[SCRAM_KEY]);

/* Binds an exchange to its TLS connection: tls-server-end-point, RFC 5929. */
struct scram_binding {
	size_t size;		/* bytes; 0: there is no binding */
	uint8_t data[SCRAM_BINDING_MAX];
};

enum scram_result {
	SCRAM_CONTINUE,		/* send `out`, and wait for the next message */
	/* of the prover: derive the keys, then repeat the step with the same message */
	SCRAM_PENDING,
	SCRAM_DONE,		/* proven; send `out` if it is not empty */
	SCRAM_WRONG,		/* the proof or the signature is wrong: *why */
	/* the two sides see different channels, possibly because of an attacker in between: *why */
	SCRAM_UNBOUND,
	/* of the prover: it has no keys for the salt and count of the server, and cannot derive
	   them: *why */
	SCRAM_NO_KEYS,
	SCRAM_INVALID		/* malformed, or no memory: *why in the words of PostgreSQL */
};

/* The side that checks a proof: pgweir for its client. */
struct scram_verifier {
	struct scram_secret secret;
	/* a second secret with the same salt and count, allocated and set by the caller before the
	   first step; NULL: none */
	struct scram_secret *other;
	bool is_other;			/* the client has proven `other` */
	/* for an unknown user: the exchange is the same, and never succeeds */
	bool mock;
	uint8_t step;
	char *client_first_bare;
	char *server_first;
	/* of pgweir; after the first message, of the client and pgweir */
	char nonce[SCRAM_NONCE_TEXT];
	/* set by the caller before the first step if SCRAM-SHA-256-PLUS is offered */
	struct scram_binding binding;
	/* set by the caller before the first step: the client has chosen SCRAM-SHA-256-PLUS */
	bool plus;
	char gs2;			/* 'n', 'y' or 'p', from the client */
	uint8_t client_key[SCRAM_KEY];	/* proven by the client, after SCRAM_DONE */
};
/* Copies `secret`. Free with scram_verifier_clear, which wipes. */
void scram_verifier_init(struct scram_verifier *v, const struct scram_secret *secret, bool mock,
			 const uint8_t nonce[SCRAM_NONCE_RAW]);
/* Takes the next message of the client: the initial response (NULL if the client sent none: it is
   then asked for by an empty challenge), and the final message. Appends to `out` the data of
   AuthenticationSASLContinue or, with SCRAM_DONE, of AuthenticationSASLFinal; nothing with other
   results. After any result but SCRAM_CONTINUE the exchange is over, and each further step is
   SCRAM_INVALID. *why is a constant text. */
enum scram_result scram_verifier_step(struct scram_verifier *v, const char *message, size_t size,
				      struct bytes *out, const char **why);
void scram_verifier_clear(struct scram_verifier *v);

/* The side that proves: pgweir for a server. */
struct scram_prover {
	/* the caller has the password, and can derive the keys for any salt and count */
	bool may_derive;
	bool have_keys;			/* the two keys below are set */
	/* after the second step: the keys that were used */
	uint8_t client_key[SCRAM_KEY], server_key[SCRAM_KEY];
	uint8_t step;
	/* Set by the caller before the first step: 'n', as left by init: no channel binding; 'y':
	   pgweir supports it, but the server offers no SCRAM-SHA-256-PLUS; 'p': SCRAM-SHA-256-PLUS
	   is chosen, and `binding` is set. */
	char gs2;
	struct scram_binding binding;
	char nonce[64];			/* of pgweir */
	char *client_first_bare;
	char *auth_message;
	/* from the server; after the exchange the caller can cache the keys under them: */
	uint32_t iterations;
	size_t salt_size;
	uint8_t salt[SCRAM_SALT_MAX];
};
/* Looks up cached keys for the salt and count of the server: returns true after it has set the
   ClientKey and the ServerKey. Called in the second step; may be NULL. If there are no keys, and
   the caller may derive them, the step is SCRAM_PENDING: the caller sets both keys and have_keys,
   for the prover's salt, salt_size and iterations, and repeats the step. For other callers it is
   SCRAM_NO_KEYS. */
typedef bool scram_cached_keys(void *context, const uint8_t *salt, size_t salt_size,
			       uint32_t iterations, uint8_t client_key[SCRAM_KEY],
			       uint8_t server_key[SCRAM_KEY]);
void scram_prover_init(struct scram_prover *p, const uint8_t nonce[SCRAM_NONCE_RAW]);
/* The first call has message NULL, the next ones the data of AuthenticationSASLContinue and of
   AuthenticationSASLFinal. Appends to `out` the data of SASLInitialResponse and SASLResponse. A
   server with more than SCRAM_ITERATIONS_MAX iterations is refused. Results as of
   scram_verifier_step; SCRAM_DONE also means that the server knows the secret, and has no
   output. */
enum scram_result scram_prover_step(struct scram_prover *p, const char *message, size_t size,
				    scram_cached_keys *cached, void *context, struct bytes *out,
				    const char **why);
void scram_prover_clear(struct scram_prover *p);

#endif
