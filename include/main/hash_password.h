#ifndef MAIN_HASH_PASSWORD_H
#define MAIN_HASH_PASSWORD_H

#include "main/options.h"

/* --hash-password: reads a password from standard input, or from the terminal without echo, and prints the secret to stdout, for
   options->secret_user as a line of auth_file. Returns the exit status. */
int hash_password(const struct options *options);

#endif
