#ifndef MAIN_PRECHECK_H
#define MAIN_PRECHECK_H

#include "conf/conf.h"

/*
 * What else a start needs besides a configuration without faults, for --check: the account, the files that are written, the
 * addresses. Nothing is written or listened on. A running pooler, with its pidfile locked and its ports in use, is no fault.
 */

/* Becomes `user` (NULL, "": stays), as a start does before it reads or writes further files. An account that no start can become
   is an error; one that only this process cannot become is a warning. */
void precheck_user(const char *user, struct conf_problems *problems);
/* Checks everything else, as the present user. */
void precheck_start(const struct settings *settings, struct conf_problems *problems);

#endif
