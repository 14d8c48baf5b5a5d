#ifndef VERIFY_MESSAGE_H
#define VERIFY_MESSAGE_H

#include "base/bytes.h"
#include "base/clock.h"
#include "conf/ldap.h"
#include "pg/password.h"

/*
 * What pgweir and its verifiers say to each other: one question, one answer, each in one datagram. Both ends check every
 * length, although both are this program: a verifier runs code that is not ours.
 */
enum verify_method {
	VERIFY_PAM,
	VERIFY_LDAP,
	VERIFY_SCRAM			/* no service is asked: a key is derived, which takes a while */
};
/* "PAM", "LDAP", "SCRAM" */
const char *verify_method_name(enum verify_method method);

/* Longest datagrams, in bytes. */
#define VERIFY_QUESTION_MOST (96 * 1024)
#define VERIFY_ANSWER_MOST 1024

struct verify_question {
	enum verify_method method;
	const char *user, *password;	/* neither may be empty */
	const char *service;		/* PAM: name of the service */
	const char *remote;		/* PAM: where the user comes from, for PAM_RHOST; NULL: from this machine, over a Unix socket */
	const struct ldap_options *ldap;	/* LDAP */
	usec_t ldap_timeout;		/* LDAP: what each server may take */
	const uint8_t *salt;		/* SCRAM: of the secret that the password is to be compared with ... */
	size_t salt_size;		/* ... 1..SCRAM_SALT_MAX ... */
	uint32_t iterations;		/* ... 1..SCRAM_ITERATIONS_MAX */
	bool is_own;			/* not sent: pgweir itself asks, and has a line of its own, without a bound (verifier.c) */
};

enum verify_verdict {
	VERIFY_YES,			/* the user is authenticated; SCRAM: here is the key */
	VERIFY_NO,			/* it is not, or may not come in */
	VERIFY_UNKNOWN,			/* it could not be found out */
	VERIFY_DISPLACED		/* no service was asked; said by no verifier */
};

struct verify_answer {
	enum verify_verdict verdict;
	char why[512];			/* for the log; "" with YES */
	bool has_key;			/* SCRAM, with YES, and only there */
	uint8_t salted[SCRAM_KEY];	/* SaltedPassword; a secret */
};
/* Sets verdict and text, cut to its size; no key. */
void verify_answer_set(struct verify_answer *answer, enum verify_verdict verdict, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* `ticket` comes back with the answer. Appends to `to`, which is `failed` when there is no memory; wipe it after use. False: too long. */
bool verify_question_write(struct bytes *to, uint64_t ticket, const struct verify_question *question);
/* False: it is no question. Its texts point into `data`, its options to `ldap`. */
bool verify_question_read(const uint8_t *data, size_t size, uint64_t *ticket, struct verify_question *question, struct ldap_options *ldap);
/* One with a key is to be wiped after use. */
void verify_answer_write(struct bytes *to, uint64_t ticket, const struct verify_answer *answer);
/* False: it is no answer. */
bool verify_answer_read(const uint8_t *data, size_t size, uint64_t *ticket, struct verify_answer *answer);

#endif
