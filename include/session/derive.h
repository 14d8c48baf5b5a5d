#ifndef SESSION_DERIVE_H
#define SESSION_DERIVE_H

#include "session/login.h"

/*
 * Passwords in clear that have to be compared with SCRAM secrets: keys are derived by a verifier, and everybody else goes on.
 */
struct derivation;

/* Compares the client's `password`, not empty, with the SCRAM secret `stored`, and accepts or refuses the client when that is done: its
   step is LOGIN_VERIFY until then. Where login->stored is not that secret, because the user is unknown or has none, it is refused then.
   The client may end. */
void derive_begin(struct client *client, const char *password, const char *stored);
/* The login has lasted too long: says in the log that it waits for this, if it does. */
void derive_overdue(const struct client *client);
/* The login ends, however: it waits no more. */
void derive_forget(struct client *client);
/* Ends those that are still made, for nobody. */
void derivations_free(struct world *world);

#endif
