#ifndef AUTH_SECRETS_CHECK_H
#define AUTH_SECRETS_CHECK_H

#include "conf/userlist.h"

/* Adds warnings for secrets that no login can be checked with, or that are not what they look like, and for an auth_user
   without a secret. `list`: of auth_file, or NULL. No secret appears in a warning. */
void secrets_check(const struct conf *conf, const struct userlist *list, struct conf_problems *problems);

#endif
