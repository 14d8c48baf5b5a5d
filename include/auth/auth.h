#ifndef AUTH_AUTH_H
#define AUTH_AUTH_H

#include "auth/login_state.h"

/*
 * How a client authenticates. login.c calls the first three; the rest is for the files of the methods.
 */

/* The start-up packet has named the user: chooses the method, finds the user's secret and asks, accepts or refuses. */
void auth_begin(struct client *client);
/* Asks the question of login->method, or accepts or refuses at once. login->stored is the user's secret, or NULL. Called by auth_begin, or
   later, when the secret had to be waited for: nothing but time may have passed in between. */
void auth_question(struct client *client);
/* The wait for the user's secret is over: asks, accepts or refuses. */
void auth_looked_up(struct client *client);
/* A message of the exchange: 'p' with this body. */
void auth_message(struct client *client, const uint8_t *body, size_t size);

/* Sends login->out, the question, and waits for the answer in this step. The client may end. */
void auth_wait_for(struct client *client, enum login_step step);
/* The answer to a question was wrong: says why in the log, and refuses the client, which does not hear why. */
void auth_refuse(struct client *client);
/* The client is authenticated: continues with the console or the pool. The client may end. */
void auth_accept(struct client *client);

/* auth_hba.c: sets login->method by the line of auth_hba_file that holds. False: none does, and the client has ended. */
bool auth_choose_by_rule(struct client *client);
/* For the log: which line refused the client, or that none fits. False: auth_type is not hba, or nothing was asked yet. */
bool auth_rule_text(const struct client *client, char *buf, size_t size);
/* cert and peer: accepts or refuses at once. */
void auth_ask_certificate(struct client *client);
void auth_ask_system(struct client *client);

/* auth_secret.c: questions with an answer that is checked with login->stored, and that check. */
void auth_ask_plain(struct client *client);
void auth_ask_md5(struct client *client);
void auth_ask_scram(struct client *client);
void auth_secret_message(struct client *client, const uint8_t *body, size_t size);

/* Where the keys of the user that logs in are kept. */
struct server_keys *auth_keys_of(const struct client *client);

/* auth_verify.c: questions with an answer that PAM or LDAP checks. */
void auth_ask_pam(struct client *client);
/* With the options of login->rule or, without one, auth_ldap_options. */
void auth_ask_ldap(struct client *client);
void auth_verify_message(struct client *client, const uint8_t *body, size_t size);
/* client_login_timeout is over: if the login waits for PAM or LDAP, logs that. */
void auth_verify_overdue(const struct client *client);
/* The clients that wait for verifiers take turns by this: the address. */
struct verify_source auth_verify_source(const struct client *client);
/* The login ends, however: no client waits for an answer any more. */
void auth_verify_forget(struct client *client);

/* The limit for the logins that wait for look-ups, for verifiers and for derivations (each): max_auth_queue, or by default three quarters
   of max_client_conn. */
int auth_queue_most(const struct settings *settings);

#endif
