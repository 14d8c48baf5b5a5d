#ifndef SESSION_POLICY_H
#define SESSION_POLICY_H

#include "pool/pool.h"

/* Carries out what the pool room decides: see policy.c. For world_new. */
extern const struct pool_ops policy_ops;

#endif
