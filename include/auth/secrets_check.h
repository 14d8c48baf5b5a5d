#ifndef AUTH_SECRETS_CHECK_H
#define AUTH_SECRETS_CHECK_H

#include "conf/userlist.h"

/* Adds warnings for malformed secrets, for secrets that auth_type does not allow, and for an auth_user without a secret. `list`: of
   auth_file, or NULL. No secret appears in a warning. */
void secrets_check(const struct conf *conf, const struct userlist *list, struct conf_problems *problems);

#endif
