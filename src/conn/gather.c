/*
 * Runs of the read buffer.
 *
 * The relay walks over the messages of one read, and forwards most messages unchanged. Adjacent
 * messages form a run, and one writev sends all runs. The beginning of an incomplete message is
 * held by its peer until the next read. Small pieces that pgweir inserts, such as the new name of a
 * prepared statement, are written to a scratch memory. No other bytes are copied.
 *
 * Invariant: runs are in the read buffer, so they are flushed before the buffer is used again.
 */
#include "conn/gather.h"

#include "base/assert.h"

#include <string.h>

void gather_flush(struct gather *g)
{
	if (g->count == 1 && !g->broken)
		g->broken = !stream_write_bytes(g->to, g->pieces[0].iov_base, g->pieces[0].iov_len);
	else if (g->count > 1 && !g->broken)
		g->broken = !stream_write(g->to, g->pieces, g->count);
	g->count = 0;
	g->end = NULL;
	g->scratch_used = 0;
}

void gather_begin_run(struct gather *g, const uint8_t *from, size_t size)
{
	if (g->count == GATHER_PIECES)
		gather_flush(g);
	g->pieces[g->count++] = (struct iovec){ .iov_base = (void *)(uintptr_t)from,
						.iov_len = size };
}

uint8_t *gather_place(struct gather *g, size_t size)
{
	uint8_t *place;

	ASSERT(size <= GATHER_SCRATCH);
	/* a full list of pieces is flushed by gather_add, which would free the scratch under this
	   one */
	if (g->scratch_used + size > GATHER_SCRATCH || g->count == GATHER_PIECES)
		gather_flush(g);
	place = g->scratch + g->scratch_used;
	g->scratch_used += size;
	gather_add(g, place, size);
	return place;
}

