#ifndef SIM_NEIGHBOURS_H
#define SIM_NEIGHBOURS_H

#include "machine.h"

/* The other poolers of the group ([peers]), to which cancel requests are handed on that bear their number. */

#define NEIGHBOUR_OWN_ID 1		/* of the pooler itself */
#define NEIGHBOUR_ID 2			/* the only one there is; another number is in no list */
#define NEIGHBOUR_ADDRESS 4		/* 10.0.0.4 */

void neighbours_begin(void);
void neighbours_end(void);
/* The next cancel request will be for a client of another pooler: its key of 4 bytes or more, which is drawn. True: it has to be handed
   on; false: it must end here, because no pooler has this number, or it has gone too far already. */
bool neighbours_draw_key(uint32_t *pid, uint8_t *key, size_t *size);
enum reception neighbours_asked(usec_t *delay);
struct actor *neighbours_connected(struct wire *wire);

#endif
