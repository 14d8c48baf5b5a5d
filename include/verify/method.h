#ifndef VERIFY_METHOD_H
#define VERIFY_METHOD_H

#include "verify/message.h"

/*
 * The authentication methods. They block for an unlimited time, so only a verifier calls them. A build without the library has
 * the same function, which answers VERIFIED_UNKNOWN.
 */

/* Runs PAM authentication and account management for question->service. The password answers every prompt without echo. */
void verify_pam(const struct verify_question *question, struct verify_answer *answer);
/* Derives SaltedPassword. The first call lowers the priority of the process (nice). */
void verify_scram(const struct verify_question *question, struct verify_answer *answer);
/* Binds as the user at the first server that can be reached. `give_up` is called from a signal handler if the library hangs,
   and must not return. Uses SIGALRM and the process's timer. */
void verify_ldap(const struct verify_question *question, struct verify_answer *answer, void (*give_up)(void));

#endif
