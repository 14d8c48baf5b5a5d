#ifndef PG_SCRAM_H
#define PG_SCRAM_H

#include "base/bytes.h"
#include "pg/frame.h"
#include "pg/password.h"

/*
 * SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677), both roles, as pure exchanges: bytes in,
 * bytes out. Nonces and channel bindings are handed in, so there is neither randomness nor a clock nor TLS.
 * Every length that a peer chooses is bounded here.
 */
#define SCRAM_NONCE_RAW 18	/* random bytes that make a nonce of 24 base64 characters */
#define SCRAM_NONCE_TEXT 1024	/* longest nonce of both sides together that a client may make, and a NUL; there are clients of 127 */
#define SCRAM_MESSAGE_MAX 2048	/* longest message accepted from a peer */
#define SCRAM_BINDING_MAX 64	/* bytes of a channel binding: the longest hash of a certificate */

/* What binds an exchange to the TLS connection below it: tls-server-end-point, RFC 5929. */
struct scram_binding {
	size_t size;		/* bytes; 0: there is none */
	uint8_t data[SCRAM_BINDING_MAX];
};

enum scram_result {
	SCRAM_CONTINUE,		/* send `out` and wait for the next message */
	SCRAM_PENDING,		/* the side that proves: keys have to be derived first, then the same message is taken again */
	SCRAM_DONE,		/* proven; send `out` when it is not empty */
	SCRAM_WRONG,		/* well-formed, but the proof or signature does not hold: *why says which */
	SCRAM_UNBOUND,		/* the two sides do not agree on the channel that they speak over, as when an attacker stands between: *why */
	SCRAM_NO_KEYS,		/* the side that proves: it has no keys for the server's salt and count, and cannot derive any: *why */
	SCRAM_INVALID		/* malformed, or no memory: *why says what, in the words of PostgreSQL's log */
};

/* The side that checks: pgweir towards its client. */
struct scram_verifier {
	struct scram_secret secret;
	bool mock;			/* unknown user: same flow, never succeeds */
	uint8_t step;
	char *client_first_bare;
	char *server_first;
	char nonce[SCRAM_NONCE_TEXT];	/* ours; after the first message the client's and ours */
	struct scram_binding binding;	/* the caller's to set when SCRAM-SHA-256-PLUS is offered; none: it is not */
	bool plus;			/* the caller's to set, before the first step: the client has chosen that */
	char gs2;			/* 'n', 'y' or 'p' as the client sent it */
	uint8_t client_key[SCRAM_KEY];	/* after SCRAM_DONE: what the client proved to own */
};
/* `secret` is copied. Free with scram_verifier_clear, which wipes. */
void scram_verifier_init(struct scram_verifier *v, const struct scram_secret *secret, bool mock,
			 const uint8_t nonce[SCRAM_NONCE_RAW]);
/* Takes the next message of the client: the initial response, which may be NULL when the client sent none (it is then
   asked for by an empty challenge), and the final message. Appends to `out` what AuthenticationSASLContinue or, with
   SCRAM_DONE, AuthenticationSASLFinal carries; nothing otherwise. After any result but SCRAM_CONTINUE the exchange is
   over and each further step is SCRAM_INVALID. *why is a constant text. */
enum scram_result scram_verifier_step(struct scram_verifier *v, const char *message, size_t size, struct bytes *out,
				      const char **why);
void scram_verifier_clear(struct scram_verifier *v);

/* The side that proves: pgweir towards a server. */
struct scram_prover {
	bool may_derive;		/* the caller can derive the keys for any salt and count: it has the password */
	bool have_keys;			/* the two keys below are to be used as they are */
	uint8_t client_key[SCRAM_KEY], server_key[SCRAM_KEY];	/* after the second step: those that were used */
	uint8_t step;
	/* The caller's to set, before the first step: how the client stands to channel binding. 'n', as left by init: it has none;
	   'y': it has, but the server offers no SCRAM-SHA-256-PLUS; 'p': that was chosen, and `binding` is set. */
	char gs2;
	struct scram_binding binding;
	char nonce[64];			/* ours */
	char *client_first_bare;
	char *auth_message;
	/* what the server asked for, so that the caller can keep the keys by it once the exchange is done: */
	uint32_t iterations;
	size_t salt_size;
	uint8_t salt[SCRAM_SALT_MAX];
};
/* The keys are a client's ClientKey and the secret's ServerKey. A caller that kept keys for the salt and count a server asks for
   hands them in through `cached`: asked in the second step with what the server sent; true when it filled in both keys. May be
   NULL. Where they are not kept, the second step is SCRAM_PENDING for a caller that may derive them: it sets both keys and
   have_keys, for the prover's salt, salt_size and iterations, and takes the step again. For others it is SCRAM_NO_KEYS. */
typedef bool scram_cached_keys(void *context, const uint8_t *salt, size_t salt_size, uint32_t iterations,
			       uint8_t client_key[SCRAM_KEY], uint8_t server_key[SCRAM_KEY]);
void scram_prover_init(struct scram_prover *p, const uint8_t nonce[SCRAM_NONCE_RAW]);
/* First call: message NULL. Then AuthenticationSASLContinue's data, then AuthenticationSASLFinal's. Appends to `out` what
   SASLInitialResponse and SASLResponse carry. It refuses a server that asks for more than SCRAM_ITERATIONS_MAX. Results as of scram_verifier_step; SCRAM_DONE means that the server has
   proven to know the secret too, and has no output. */
enum scram_result scram_prover_step(struct scram_prover *p, const char *message, size_t size, scram_cached_keys *cached,
				    void *context, struct bytes *out, const char **why);
void scram_prover_clear(struct scram_prover *p);

#endif
