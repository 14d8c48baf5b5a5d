#ifndef VERIFY_LDAP_BIND_H
#define VERIFY_LDAP_BIND_H

#include "verify/datagram.h"

/* Asks the LDAP servers of the question, in turn, whether the password is right: see ldap_bind.c.
   `fd` and `ticket` are for an answer in time if the library hangs. Only with HAVE_LDAP. */
void verify_ldap(int fd, uint64_t ticket, const struct verify_question *question,
		 struct verify_answer *answer);

#endif
