#ifndef BACKEND_DERIVATION_H
#define BACKEND_DERIVATION_H

#include "base/list.h"
#include "pg/scram.h"
#include "verify/verifier.h"

/*
 * Derivation of SCRAM SaltedPasswords (RFC 5802, section 3), which take thousands of hashes on
 * purpose. Promise: processes of their own derive them (struct derivations), so that the event loop
 * does not block.
 */
struct address;
struct derivation;
struct peer;
struct user;
struct world;

struct derivations {
	struct verifiers *derivers;		/* the processes */
	struct derivation *under_way;		/* uthash */
	/* uthash: derivations that each server may still cause */
	struct derivation_budget *budgets;
};
/* NULL: no memory. */
struct derivations *derivations_new(struct event_base *base, const struct verify_limits *limits);
/* Cancels all derivations; no connection waits for one. */
void derivations_free(struct derivations **derivations);
/* Called about ten times a second: timeouts of the processes, budgets that are full again. */
void derivations_tick(struct derivations *derivations, usec_t now);

/* The wait of a connection for a derivation; embedded in its struct. */
struct derivation_wait {
	struct list node;
	struct derivation *derivation;	/* NULL: it does not wait */
	struct peer *peer;		/* the connection that waits */
	/* The answer has come, the wait is over, and the connection is not ending. With
	   VERIFIED_YES the answer has the key. May ask again, and may end other waits. */
	void (*done)(struct derivation_wait *wait, const struct verify_answer *answer);
};
static inline void derivation_wait_init(struct derivation_wait *wait, struct peer *peer)
{
	*wait = (struct derivation_wait){ .peer = peer };
	list_init(&wait->node);
}

struct derivation_question {
	const char *user;		/* for SHOW VERIFIERS */
	const char *password;		/* in clear, not empty */
	const uint8_t *salt;
	size_t salt_size;		/* bytes, 1..SCRAM_SALT_MAX */
	uint32_t iterations;		/* 1..SCRAM_ITERATIONS_MAX */
};
/* A login at a server, which needs the key. */
struct derivation_login {
	const struct address *server;
	const struct user *user;	/* as which pgweir logs in */
};
/* Asks for a derivation, or waits for an equal derivation in progress. `done` is called from the
   event loop, not from this call. Either `source` is the address of a client, for which
   max_auth_queue applies; or `login` is given, and all databases of one host share one turn. The
   derivations that a server may cause for a user are limited (VERIFIERS_TOO_MANY); connections that
   wait for one key count once. VERIFIERS_ASKED: the wait has begun; otherwise it has not. */
enum verify_refusal derivation_ask(struct world *world, const struct derivation_question *question,
				   const struct verify_source *source,
				   const struct derivation_login *login,
				   struct derivation_wait *wait);
/* Ends the wait, if there is one. */
void derivation_leave(struct derivation_wait *wait);
/* For use when no process can be started: derives in the event loop if the count is at most
   DERIVATION_IN_LOOP (some milliseconds). Must not be reachable for unauthenticated clients without
   a limit. False: the count is higher, or there is no memory. */
#define DERIVATION_IN_LOOP 20000
static inline bool derivation_in_loop(const struct derivation_question *q,
				      uint8_t salted[SCRAM_KEY])
{
	return q->iterations <= DERIVATION_IN_LOOP &&
	       scram_salted_derive(q->password, q->salt, q->salt_size, q->iterations, salted);
}

#endif
