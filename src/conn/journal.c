/*
 * Messages that the pooler sends itself, between the messages of a client. Each is entered in the ledger in its place, so that its answers
 * are known among the client's: the relay takes them out, and tells the feature with that mark of them. This file updates the state of the
 * server connection that depends on such messages.
 *
 * Invariant: a Query or a Parse without a name leaves no client's unnamed statement on the server; a Sync ends a batch, whichever side
 * sends it.
 */
#include "conn/journal.h"

#include "base/assert.h"
#include "pg/frame.h"
#include "pg/message.h"

static bool enter(struct server *s, enum ledger_mark mark, const struct pg_frame *f)
{
	if (f->type == PGC_QUERY || (f->type == PGC_PARSE && f->body[0] == 0))
		s->unnamed_of = 0;
	if (f->type == PGC_SYNC)
		s->batch++;
	return ledger_sent_marked(&s->ledger, f->type, f->size > 0 ? f->body[0] : 0, OWED_TO_POOLER, mark);
}

bool journal_send(struct server *s, enum ledger_mark mark, const struct bytes *messages)
{
	struct pg_frames all = pg_frames_of(messages);
	struct pg_frame f;

	ASSERT(ledger_enters(&s->ledger));
	if (messages->failed)
		return false;
	while (pg_frames_next(&all, PG_LENGTH_LIMIT, &f) == PG_OK)
		if (!enter(s, mark, &f))
			return false;
	ASSERT(all.left == 0);
	return stream_write_bytes(&s->peer.stream, bytes_front(messages), bytes_size(messages));
}
