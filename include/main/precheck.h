#ifndef MAIN_PRECHECK_H
#define MAIN_PRECHECK_H

#include "conf/conf.h"

/*
 * Checks of --check beyond the configuration: the account, writable files, addresses. Writes nothing and does not listen. The
 * locked pidfile and the ports of a running pooler are not errors.
 */

/* Becomes `user` (NULL, "": no change), as a start does before it reads or writes further files. An account that no start could
   become is an error; an account that only this process cannot become is a warning. */
void precheck_user(const char *user, struct conf_problems *problems);
/* Makes the other checks as the current user. */
void precheck_start(const struct settings *settings, struct conf_problems *problems);

#endif
