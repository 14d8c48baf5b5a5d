/*
 * Messages that pgweir sends to a server between the messages of a client. Each message is entered in the ledger, so that the relay removes its
 * answers from the answers to the client, and passes them to the feature with this mark.
 *
 * Invariant: after a Query, or a Parse without a name, the unnamed statement of the server belongs to no client; each Sync ends a batch.
 */
#include "conn/journal.h"

#include "base/assert.h"
#include "pg/frame.h"
#include "pg/message.h"

bool journal_send(struct server *s, enum ledger_mark mark, const struct bytes *messages)
{
	struct pg_frames all = pg_frames_of(messages);
	struct pg_frame f;

	ASSERT(ledger_enters(&s->ledger));
	if (messages->failed)
		return false;
	while (pg_frames_next(&all, PG_LENGTH_LIMIT, &f) == PG_OK) {
		if (f.type == PGC_QUERY || (f.type == PGC_PARSE && f.body[0] == 0))
			s->unnamed_of = 0;
		if (f.type == PGC_SYNC)
			s->batch++;
		if (!ledger_sent_marked(&s->ledger, f.type, f.size > 0 ? f.body[0] : 0, OWED_TO_POOLER, mark))
			return false;
	}
	ASSERT(all.left == 0);
	return stream_write_bytes(&s->peer.stream, bytes_front(messages), bytes_size(messages));
}
