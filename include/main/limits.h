#ifndef MAIN_LIMITS_H
#define MAIN_LIMITS_H

#include <stdint.h>

/* Raises RLIMIT_NOFILE to at least `count`: the soft limit, and the hard limit if that is permitted; otherwise as far as
   possible. Called before root is given up. */
void limits_need_descriptors(uint64_t count);

/* Logs the limit and the necessary number, and how to raise the limit if it is too low. Called when the log file is open. */
void limits_log(uint64_t count, int64_t max_client_conn);

#endif
