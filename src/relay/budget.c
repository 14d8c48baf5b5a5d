/*
 * What one turn of the loop may do for a connection that streams.
 *
 * A few streams pass on sbuf_loopcnt full reads of the buffer each, which is where bulk data is fast. A thousand of
 * them would hold up all others for the time of a thousand times as much, so from RELAY_STREAMS on each has one read, and a
 * smaller one: what a turn passes on grows no further than RELAY_LEAST_PIECE for each stream.
 *
 * How many stream is known from the turn before, so that all have the same share: within a turn, epoll names those
 * first that it has named first before. Where a crowd begins at once, the rest of that turn goes by its own count.
 *
 * Invariant: a connection that has something has at least one read in each turn.
 */
#include "relay/relay.h"

bool relay_one_more(struct world *w, int64_t rounds)
{
	int64_t most = w->conf->settings.sbuf_loopcnt;

	if (rounds == 1)
		w->streams++;
	if (most == 0)
		return true;
	return rounds < most && w->streams <= RELAY_STREAMS && w->streams_before <= RELAY_STREAMS;
}

void relay_share_turn(struct world *w)
{
	size_t piece = READ_BUFFER;

	w->streams_before = w->streams;
	w->streams = 0;
	if (w->streams_before > RELAY_STREAMS && w->conf->settings.sbuf_loopcnt != 0)
		piece = (size_t)READ_BUFFER * RELAY_STREAMS / w->streams_before;
	w->piece = piece > RELAY_LEAST_PIECE ? piece : RELAY_LEAST_PIECE;
}
