#ifndef AUTH_DERIVE_H
#define AUTH_DERIVE_H

#include "auth/login_state.h"

/*
 * Logins of clients that need a key derived: a password in clear that is compared with a SCRAM secret, and a SCRAM login of a
 * user with a password stored in clear. The client's step is LOGIN_DERIVE until then.
 */

/* Compares the client's `password`, not empty, with the SCRAM secret `stored`, and accepts or refuses the client when that is done.
   Where login->stored is not that secret, because the user is unknown or has none, it is refused then. The client may end. */
void derive_and_compare(struct client *client, const char *password, const char *stored);
/* Derives the secret of the plain `password` that `keys` is to know for this user (keys_plain_secret), then calls auth_question
   again. The client may end. */
void derive_for_question(struct client *client, struct server_keys *keys, const char *password, const uint8_t salt[MOCK_SALT],
			 uint32_t iterations);
/* The login has lasted too long: says in the log that it waits for this, if it does. */
void derive_overdue(const struct client *client);
/* The login ends, however: it waits no more. */
void derive_forget(struct client *client);

#endif
