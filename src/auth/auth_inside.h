#ifndef AUTH_AUTH_INSIDE_H
#define AUTH_AUTH_INSIDE_H

#include "auth/client_address.h"

/* Functions between the files of this room. */

struct login;

/* ---- auth.c ---- */

/* The proof of the client is right: the login continues, and the client may end. */
void auth_accept_client(struct client *client);
/* Asks the client for its password in clear text. It may end. */
void auth_ask_password(struct client *client);

/* ---- auth_verify.c ---- */

/* auth_type ldap begins: asks for the password. The client may end. */
void auth_ask_ldap(struct client *client);
/* The PasswordMessage of a client with PAM or LDAP: asks a verifier. The client may end. */
void auth_verify_message(struct client *client, const uint8_t *body, size_t size);

/* ---- login_state.c ---- */

/* Whether the next step of the login is to be made by its client. */
bool login_waits_for_client(const struct login *login);

/* ---- client_address.c ---- */

void address_key_of(struct address_key *key, const struct brief_address *address);
/* Returns the address that the client is counted for. NULL: it is not counted. */
struct client_address *client_address_of(const struct client *client);
/* The login of the client is at another step: keeps the list of logins that wait for their client
   in the order of their waiting time. */
void client_address_step(struct client *client);

/* ---- refusal.c ---- */

/* The login does not wait for its refusal any longer. */
void refusal_forget(struct client *client);
/* Sends the refusal that has waited longest. False: no client waits. */
bool refusals_hurry(struct client_addresses *addresses);
/* Returns the number of remembered failures at the address, over all users. */
uint32_t refusal_failures(const struct world *world, const struct address_key *key);
/* Returns the next address with remembered failures. *row is 0 for the first call. NULL: there are
   no more. */
const struct failure *refusal_next_row(const struct world *world, int *row);

#endif
