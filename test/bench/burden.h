#ifndef BENCH_BURDEN_H
#define BENCH_BURDEN_H

#include "connection.h"

#include "base/clock.h"

/* Clients that are a burden: they request much and read little, or send their requests slowly. The clock drives them, not events. */
enum burden_kind {
	BURDEN_SLOW_READER,	/* asks, and reads BURDEN_SIP bytes in each BURDEN_STEP */
	BURDEN_NON_READER,	/* asks, and never reads */
	BURDEN_DRIBBLER,	/* sends a byte of its request in each second */
	BURDENS
};

#define BURDEN_STEP (USEC / 10)
#define BURDEN_SIP ((size_t)4096)

/* A connection that is logged in is one of these from now on. `request` is kept and not copied. */
void burden_add(struct connection *c, enum burden_kind kind, const struct bytes *request);
/* Performs the actions that are due. Must be called often. */
void burdens_tick(usec_t now);

#endif
