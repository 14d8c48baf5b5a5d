#ifndef AUTH_AUTH_RULE_H
#define AUTH_AUTH_RULE_H

#include "auth/login_state.h"

/* The line of auth_hba_file for a client, with auth_type hba. */

/* Sets login->rule and login->method by the first line that matches. False: no usable line; the
   client has ended. */
bool auth_rule_choose(struct client *client);
/* Whether the client has shown a valid certificate whose common name is the user, or is mapped to
   the user by the line. */
bool auth_certificate_fits(const struct client *client);
/* Writes for the log which line refused the client, or that none matches. False: auth_hba_file was
   not used. */
bool auth_rule_text(const struct client *client, char *buf, size_t size);

#endif
