#ifndef VERIFY_METHOD_H
#define VERIFY_METHOD_H

#include "verify/message.h"

/*
 * The methods themselves. They block, for as long as modules and servers like: only a verifier calls them. A build without
 * the library has the same function, which answers VERIFY_UNKNOWN.
 */

/* Authentication and account management of PAM for question->service. The password answers every prompt that does not echo. */
void verify_pam(const struct verify_question *question, struct verify_answer *answer);
/* Derives SaltedPassword. From the first time on, other processes come first (nice). */
void verify_scram(const struct verify_question *question, struct verify_answer *answer);
/* Binds as the user at the first server that can be talked to. `give_up` is called from a signal handler when the library cannot be
   brought back, and must not return. Uses SIGALRM and the process's timer. */
void verify_ldap(const struct verify_question *question, struct verify_answer *answer, void (*give_up)(void));

#endif
