#ifndef AUTH_REFUSAL_H
#define AUTH_REFUSAL_H

#include "auth/client_address.h"
#include "base/clock.h"
#include "pool/close_reason.h"

/*
 * Failed logins: counted by address and by user there, and refused the later the more there have been (login_failure_delay).
 * No other client waits for that, and no login that succeeds does.
 */
struct refusals;			/* the counts, bounded and forgotten after a while, and the logins that wait */

/* NULL: no memory. */
struct refusals *refusals_new(void);
/* No login is left. */
void refusals_free(struct refusals **refusals);

/* The user has not been authenticated: the client ends with `why`, now or when its delay is over. Only where a proof (or a name that
   takes its place) was wrong, for the known and the unknown alike. The client may be gone afterwards. */
void refusal_begin(struct client *client, enum close_reason why);
/* Why a client with a waiting refusal ends; `otherwise` for all others. */
enum close_reason refusal_or(const struct client *client, enum close_reason otherwise);
/* The login ends, however. */
void refusal_forget(struct client *client);

/* Sends the refusals that are due at `now`; INT64_MAX: all, because the process ends or is replaced. */
void refusals_tick(struct refusals *refusals, usec_t now);
/* Sends the refusal that has waited longest. False: no client waits. */
bool refusals_hurry(struct refusals *refusals);

/* For SHOW: failures that are remembered for an address; and each address that has any. */
uint32_t failures_of(const struct world *world, const struct address_key *key);
void failures_each(const struct world *world, void (*visit)(void *context, const struct address_key *key, uint32_t count), void *context);

#endif
