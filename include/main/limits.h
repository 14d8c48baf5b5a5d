#ifndef MAIN_LIMITS_H
#define MAIN_LIMITS_H

#include <stdint.h>

/* Raises RLIMIT_NOFILE so that `count` descriptors can be open at once, if it is lower: the soft limit, and the hard
   one too where that is permitted; else as far as possible. Call it before root is given up. */
void limits_need_descriptors(uint64_t count);

/* Logs the limit in force beside what is needed, and, when that is more, how to raise it. Call it when the log file is open. */
void limits_log(uint64_t count, int64_t max_client_conn);

#endif
