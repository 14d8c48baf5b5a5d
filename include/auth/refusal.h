#ifndef AUTH_REFUSAL_H
#define AUTH_REFUSAL_H

#include "auth/client_address.h"
#include "base/clock.h"
#include "pool/close_reason.h"

/*
 * Failed logins: counted by address and by user at the address. The more failures, the later the refusal is sent (login_failure_delay).
 * Successful logins and other clients do not wait.
 */
struct refusals;			/* the counts, which are bounded and expire, and the logins with a delayed refusal */

/* NULL: no memory. */
struct refusals *refusals_new(void);
/* No login may be in progress. */
void refusals_free(struct refusals **refusals);

/* The proof of the client was wrong, or its user is unknown: ends the client with `why`, now or after the delay. Called for known and unknown
   users alike. The client may end. */
void refusal_begin(struct client *client, enum close_reason why);
/* The login ends, for any reason. */
void refusal_forget(struct client *client);

/* Sends the refusals that are due at `now`; INT64_MAX: all, because the process ends or is replaced. */
void refusals_tick(struct refusals *refusals, usec_t now);
/* Sends the refusal that has waited longest. False: no client waits. */
bool refusals_hurry(struct refusals *refusals);

/* For SHOW: the failures that are remembered for an address, and a visit to each address with failures and without clients. */
uint32_t failures_of(const struct world *world, const struct address_key *key);
void failures_each(const struct world *world, void (*visit)(void *context, const struct address_key *key, uint32_t count), void *context);

#endif
