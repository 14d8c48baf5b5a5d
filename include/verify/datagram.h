#ifndef VERIFY_DATAGRAM_H
#define VERIFY_DATAGRAM_H

#include "base/bytes.h"
#include "base/clock.h"
#include "conf/ldap.h"
#include "pg/password.h"

/*
 * The messages between pgweir and its verifiers: one question, one answer, each in one datagram.
 * Both sides check every length, because a verifier executes code of other authors.
 */
enum verify_method {
	VERIFY_PAM,
	VERIFY_LDAP,
	VERIFY_SCRAM			/* no service: derives a key, which takes some time */
};
extern const char *const verify_method_names[];	/* by enum verify_method: "PAM", "LDAP", "SCRAM" */

/* Maximum size of datagrams, in bytes. */
#define VERIFY_QUESTION_MOST (96 * 1024)
#define VERIFY_ANSWER_MOST 1024

struct verify_question {
	enum verify_method method;
	const char *user, *password;	/* must not be empty */
	const char *service;		/* PAM: service name */
	/* PAM: address of the user for PAM_RHOST; NULL: a Unix socket */
	const char *remote;
	const struct ldap_options *ldap;	/* LDAP */
	usec_t ldap_timeout;		/* LDAP: time limit per server */
	const uint8_t *salt;		/* SCRAM: salt of the secret to compare with ... */
	size_t salt_size;		/* ... 1..SCRAM_SALT_MAX ... */
	uint32_t iterations;		/* ... 1..SCRAM_ITERATIONS_MAX */
	/* not sent: asked by pgweir itself; waits in a separate queue without a limit
	   (verifier.c) */
	bool is_own;
};

enum verify_verdict {
	VERIFIED_YES,			/* the user is authenticated; SCRAM: the key was derived */
	/* the user is not authenticated, or not allowed to log in */
	VERIFIED_NO,
	VERIFIED_UNKNOWN,			/* the question could not be answered */
	/* the question was removed from the queue; never the answer of a verifier */
	VERIFIED_DISPLACED
};

struct verify_answer {
	enum verify_verdict verdict;
	char why[512];			/* for the log; "" with YES */
	bool has_key;			/* only for SCRAM with YES */
	uint8_t salted[SCRAM_KEY];	/* SaltedPassword; a secret */
};
/* Sets the verdict and the text, which may be truncated, without a key. */
void verify_answer_set(struct verify_answer *answer, enum verify_verdict verdict,
		       const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The answer will contain `ticket`. Appends to `to`, which is `failed` without memory; wipe it
   after use. False: too long. */
bool verify_question_write(struct bytes *to, uint64_t ticket,
			   const struct verify_question *question);
/* False: not a question. Its texts point into `data`, its options to `ldap`. */
bool verify_question_read(const uint8_t *data, size_t size, uint64_t *ticket,
			  struct verify_question *question, struct ldap_options *ldap);
/* A message with a key must be wiped after use. */
void verify_answer_write(struct bytes *to, uint64_t ticket, const struct verify_answer *answer);
/* False: not an answer. */
bool verify_answer_read(const uint8_t *data, size_t size, uint64_t *ticket,
			struct verify_answer *answer);

#endif
