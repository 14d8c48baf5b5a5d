#ifndef RELAY_CLIENT_MESSAGE_H
#define RELAY_CLIENT_MESSAGE_H

#include "conn/gather.h"
#include "conn/verdict.h"
#include "pg/message.h"

/*
 * Messages of clients (client_message.c), and answers of servers (server_message.c).
 */
/* The result of a walk over the read buffer: the bytes that are done, and what happens with the
   message after them. */
struct walk { size_t used; enum verdict verdict; };

/* Takes the next frame; the client may get a server. VERDICT_PASS: the frame is forwarded, and
   gathered bytes replace its first *skip bytes. */
enum verdict relay_take(struct client *client, const struct pg_frame *frame, struct gather *gather,
			size_t *skip);
/* Takes the complete messages at the front of n bytes that may pass unread, and that the caller
   then sends. The client is between two messages and is not being refused. VERDICT_PASS: as far as
   possible; VERDICT_WAIT: no message has been taken; VERDICT_GONE. */
struct walk relay_pass_plain(struct client *client, const uint8_t *at, size_t n);
/* Sends the client the local replies that are due (prepared_local_reply), between two messages of
   its server, up to READ_BUFFER unsent bytes; the others follow when the client has read these.
   False: the client has ended. */
bool relay_send_local_replies(struct client *client, struct server *server);

/* Whether pgweir may replace the next ErrorResponse by other words for the client. Example: the
   error names a prepared statement by the server's name, and the client knows another one. */
static inline bool answer_may_be_told(const struct server *s)
{
	const struct client *c = s->pooled.link && !s->pooled.link->is_internal
					 ? client_of(s->pooled.link)
					 : NULL;

	return ledger_next_mark(&s->ledger) != LEDGER_UNMARKED ||
	       (c && (c->names_sql | c->has_lost_values));
}
/* Takes the message at the front of n bytes, and reads its header into *frame. VERDICT_PASS,
   VERDICT_SWALLOW, VERDICT_MORE, VERDICT_INVALID (also without memory, with pooled.close_reason),
   VERDICT_FATAL, VERDICT_READY or VERDICT_LAST. */
enum verdict answer_look(struct server *server, const uint8_t *at, size_t n,
			 struct pg_frame *frame);

/* Logs the error of a server; `context`: the action of pgweir that has failed. */
void answer_log_error(const struct server *server, const char *context,
		      const struct pg_error *error);

#endif
