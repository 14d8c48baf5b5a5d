#ifndef CORE_POLICY_H
#define CORE_POLICY_H

#include "pool/pool.h"

/* Carries out the verdicts of room pool: see policy.c. Argument for world_new. */
extern const struct pool_ops policy_ops;

#endif
