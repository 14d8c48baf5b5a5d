#ifndef VERIFY_LDAP_H
#define VERIFY_LDAP_H

#include "verify/message.h"

/* Binds as the user at the first server that can be reached. `give_up` is called from a signal handler if the library hangs,
   and must not return. Uses SIGALRM and the process's timer. Blocks for an unlimited time, so only a verifier calls it. A build
   without the library answers VERIFIED_UNKNOWN. */
void verify_ldap(const struct verify_question *question, struct verify_answer *answer, void (*give_up)(void));

#endif
