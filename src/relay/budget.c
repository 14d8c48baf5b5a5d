/*
 * What one turn of the loop may do for a connection that streams.
 *
 * A few streams pass on sbuf_loopcnt full reads of the buffer each, which is where bulk data is fast. All together have RELAY_READS of
 * them: more streams than that have one read each, and a smaller one, so what a turn passes on grows no further than
 * RELAY_LEAST_PIECE for each stream.
 *
 * How long bytes take hangs on the messages in them. Those that are looked at one by one are counted, too: a walk over the buffer is cut
 * short where it has had its share of RELAY_LOOKS, and goes on in the next turn. Else a read of messages of a few bytes would take a
 * hundred times as long as one of data.
 *
 * Notifications cost what their number of receivers is: state/notify_client.c counts those.
 *
 * How many stream is known from the turn before, so that all have the same share: within a turn, epoll names those
 * first that it has named first before. Where a crowd begins at once, the rest of that turn goes by its own count.
 *
 * Invariant: a connection that has something has at least one read in each turn, and one message looked at.
 */
#include "relay/relay.h"

bool relay_one_more(struct world *w, int64_t rounds)
{
	int64_t most = w->conf->settings.sbuf_loopcnt;

	w->is_shared = true;
	w->reads++;
	if (rounds == 1)
		w->streams++;
	if (most == 0)
		return true;
	return rounds < most && w->reads < RELAY_READS && (rounds + 1) * w->streams_before <= RELAY_READS;
}

void relay_looked_at_many(struct world *w, uint32_t count, bool is_cut)
{
	w->is_shared = true;
	w->looks += count;
	w->cut += is_cut;
	if (w->looks >= RELAY_LOOKS)
		w->looks_each = RELAY_LEAST_LOOKS;
}

void relay_share_turn(struct world *w)
{
	uint32_t cut = w->cut > 0 ? w->cut : 1;
	size_t piece = READ_BUFFER;

	w->streams_before = w->streams;
	w->streams = w->reads = w->looks = w->cut = 0;
	if (w->streams_before > RELAY_READS && w->conf->settings.sbuf_loopcnt != 0)
		piece = (size_t)READ_BUFFER * RELAY_READS / w->streams_before;
	w->piece = piece > RELAY_LEAST_PIECE ? piece : RELAY_LEAST_PIECE;
	w->looks_each = RELAY_LOOKS / cut > RELAY_LEAST_LOOKS ? RELAY_LOOKS / cut : RELAY_LEAST_LOOKS;
	w->is_shared = w->streams_before > 0 || cut > 1;
}
