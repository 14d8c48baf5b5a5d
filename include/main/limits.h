#ifndef MAIN_LIMITS_H
#define MAIN_LIMITS_H

#include <stdint.h>

/* Raises RLIMIT_NOFILE so that `count` descriptors can be open at once, if it is lower: the soft limit, and the hard
   one too where that is permitted. When it can't be done it is raised as far as possible and a warning says what is
   missing and how to get it. Returns the limit in force. Call it before root is given up. */
uint64_t limits_need_descriptors(uint64_t count);

#endif
