#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

/* Microseconds. Signed, so that a difference may be negative. */
typedef int64_t usec_t;
#define USEC ((usec_t)1000000)

/* Reads the monotonic clock: microseconds since an arbitrary time, for intervals only. The turn
   reads it once and passes the value on. */
usec_t clock_monotonic(void);
/* Reads the wall clock: microseconds since 1970-01-01 00:00:00 UTC. */
usec_t clock_wall(void);
/* Writes wall time `when` as "2026-11-21 02:01:23 UTC" (local zone) into buf, or with
   milliseconds ("...23.820 UTC") when `millis`. Always terminates. Returns buf. */
char *clock_format(usec_t when, int millis, char *buf, size_t size);

#endif
