/*
 * The budget of a turn: the share of each connection in reads and in examined messages.
 *
 * A few streams pass RELAY_READS full reads of the buffer in a turn. With more streams each has one
 * read, which is smaller, but at least RELAY_LEAST_PIECE. Messages that are examined one by one are
 * counted too, and words of SQL texts (state/session_state.c). A walk over the buffer stops at its
 * share of LOOKS_OF_TURN, and continues in the next turn. The reason is that a read of tiny
 * messages takes a hundred times as long as a read of bulk data.
 *
 * The streams of the last turn are counted, so that all have the same share: epoll reports the
 * connections that it reported first last time first again. state/notify.c counts notifications.
 *
 * Invariant: a connection with input has at least one read in each turn, and one message is
 * examined.
 */
#include "relay/relay.h"

bool relay_one_more(struct world *w, int64_t rounds)
{
	int64_t most = w->conf->settings.sbuf_loopcnt;

	w->share.is_limited = true;
	w->share.reads++;
	if (rounds == 1)
		w->share.streams++;
	if (most == 0)
		return true;
	return rounds < most && w->share.reads < RELAY_READS &&
	       (rounds + 1) * w->share.streams_before <= RELAY_READS;
}

void relay_looked_at_many(struct world *w, uint32_t count, bool is_cut)
{
	w->share.is_limited = true;
	w->share.cut += is_cut;
	world_looked(w, count);
}

void relay_share_turn(struct world *w)
{
	uint32_t cut = w->share.cut > 0 ? w->share.cut : 1;
	size_t piece = READ_BUFFER;

	w->share.streams_before = w->share.streams;
	w->share.streams = w->share.reads = w->share.looks = w->share.cut = 0;
	if (w->share.streams_before > RELAY_READS && w->conf->settings.sbuf_loopcnt != 0)
		piece = (size_t)READ_BUFFER * RELAY_READS / w->share.streams_before;
	w->share.piece = piece > RELAY_LEAST_PIECE ? piece : RELAY_LEAST_PIECE;
	w->share.looks_each = LOOKS_OF_TURN / cut > LEAST_LOOKS ? LOOKS_OF_TURN / cut : LEAST_LOOKS;
	w->share.is_limited = w->share.streams_before > 0 || cut > 1;
}
