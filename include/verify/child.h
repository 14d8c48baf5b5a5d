#ifndef VERIFY_CHILD_H
#define VERIFY_CHILD_H

#include <stdbool.h>

/*
 * The inside of a verifier: the process that asks PAM and LDAP, or derives keys. It is a new execution of this program with
 * VERIFY_CHILD_OPTION and its parent's process id as arguments, and the socket to its parent as standard input.
 */
#define VERIFY_CHILD_OPTION "--verifier"

/* Whether this is the command line of a verifier. */
bool verify_child_is_wanted(int argc, char *const *argv);
/* Answers questions until its parent closes the socket. Returns the exit status. */
int verify_child_run(char **argv);

#endif
