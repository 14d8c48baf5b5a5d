#ifndef BACKEND_DERIVATION_H
#define BACKEND_DERIVATION_H

#include "base/list.h"
#include "verify/verifier.h"

/*
 * SaltedPasswords of SCRAM (RFC 5802, section 3), which take thousands of hashes on purpose: derived by processes of their own
 * (struct derivations), so that the loop goes on meanwhile.
 */
struct address;
struct derivation;
struct user;
struct world;

struct derivations {
	struct verifiers *derivers;		/* the processes */
	struct derivation *under_way;		/* uthash */
	struct derivation_budget *budgets;	/* uthash: what each server may still cause */
};
/* NULL: no memory. */
struct derivations *derivations_new(struct event_base *base, const struct verify_limits *limits);
/* Ends those that are still under way, for which nothing waits. */
void derivations_free(struct derivations **derivations);
/* About ten times a second. What has been asked for long ago counts no more. */
void derivations_tick(struct derivations *derivations, usec_t now);

/* In whatever waits for one; zeros, but for `node`. */
struct peer;

struct derivation_wait {
	struct list node;
	struct derivation *derivation;	/* NULL: it does not wait */
	struct peer *peer;		/* the connection that waits */
	/* The answer has come, the wait is over, and the connection is not ending. With VERIFIED_YES it has the key. May ask again, and end other waits. */
	void (*done)(struct derivation_wait *wait, const struct verify_answer *answer);
};
void derivation_wait_init(struct derivation_wait *wait, struct peer *peer);

struct derivation_question {
	const char *user;		/* for SHOW VERIFIERS */
	const char *password;		/* in clear, not empty */
	const uint8_t *salt;
	size_t salt_size;		/* bytes, 1..SCRAM_SALT_MAX */
	uint32_t iterations;		/* 1..SCRAM_ITERATIONS_MAX */
};
/* Asks for one; `done` is called from the event loop, not from here. What is asked for already is not asked for twice. `source` is the address
   of a client, for which max_auth_queue holds; NULL: a question of pgweir's own for a login to the server at `server`: those of all
   databases on one host have one turn. Anything but VERIFIERS_ASKED: it does not wait. */
enum verify_refusal derivation_ask(struct world *world, const struct derivation_question *question, const struct verify_source *source,
				   const struct address *server, struct derivation_wait *wait);
/* Whether a login of this user to the server may ask for one. A server that shows another salt each time would have keys derived for each
   of its connections. Each key counts, not each connection that waits for it: many log in at once when a server has come back with
   another salt. True counts it. */
bool derivation_may_ask(struct world *world, const struct derivation_question *question, const struct address *server, const struct user *user);
/* Waits no more. Fine when it does not. */
void derivation_leave(struct derivation_wait *wait);
/* The last resort where the processes fail (the system has no more of them): derives within the loop, if the count is at most
   DERIVATION_IN_LOOP (some milliseconds). Not for what clients that are not authenticated can ask for as often as they like.
   False: more, or no memory. */
#define DERIVATION_IN_LOOP 20000
bool derivation_in_loop(const struct derivation_question *question, uint8_t salted[SCRAM_KEY]);

#endif
