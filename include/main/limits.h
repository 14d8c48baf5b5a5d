#ifndef MAIN_LIMITS_H
#define MAIN_LIMITS_H

#include <stdint.h>

/* Raises RLIMIT_NOFILE so that `count` descriptors can be open at once, if it is lower: the soft limit, and the hard
   one too where that is permitted; else as far as possible. Returns the limit in force. Call it before root is given up. */
uint64_t limits_need_descriptors(uint64_t count);

/* Says what is missing and how to get it, when `limit` is below `count`. Call it when the log file is open. */
void limits_warn(uint64_t count, uint64_t limit);

#endif
