#ifndef STATE_SESSION_VALUES_H
#define STATE_SESSION_VALUES_H

#include "conn/gather.h"
#include "conn/verdict.h"
#include "pg/frame.h"
#include "state/session_state.h"

/*
 * The last values that a client has drawn from sequences (session_state = full). Promise: currval
 * and lastval return the value that a direct connection would return, or fail; they never return a
 * value of another client. See session_values.c.
 */
#define VALUES_MOST 64			/* sequences whose values are kept for one client */

/* currval of a sequence. */
struct sequence_value {
	int64_t value;
	uint32_t oid;
	/* lastval returns this value too; of several sequences: of one of them */
	bool is_last;
};

/* The values that were drawn on servers that the client has lost. */
struct sequence_values {
	struct sequence_value *all;	/* the oldest first */
	uint8_t count;
	/* id of the server that gave the last of them; 0: unknown */
	uint64_t at;
	uint32_t batch;			/* server->batch at that time */
	/* no later text of the client may have drawn values: see session_values_are_known() */
	bool are_fresh;
	/* since then a command of the client may have dropped sequences */
	bool drops;
};

/* The server is asked which sequences the transaction has used; DISCARD SEQUENCES; the server is
   asked for all values of the client. */
extern const struct server_task task_drawn, task_discard, task_values;

/* The client has sent a text, or is about to execute a statement, that may draw values: it keeps
   its server. */
void session_values_keep(struct client *client);
/* Whether session_values_begin() must be called even if the server has this client's values. */
static inline bool session_values_matter(const struct client *c)
{
	const struct client_session *state = c->session;

	return state->draws || state->fills || state->unnamed_fills || state->values;
}
/* The server is assigned to the client, which may keep state: decides whether the session may have
   values of other clients, or old ones. */
void session_values_begin(struct server *server, struct client *client, bool keeps_state);
/* The text asks for the last value of a sequence, by its own words (`said`) or by functions that it
   calls. False: the text must wait, because the session may have values of other clients
   (STALE_SEQUENCES), or because the client's values are not known. */
bool session_values_claim(struct server *server, struct client *client, unsigned said,
			  unsigned said_by_functions, enum text_of of, bool is_unproven);
/* session_values_claim() has returned false, and the server owes nothing: begins the task that the
   text waits for. */
void session_values_prepare(struct server *server, struct client *client, const uint8_t *text,
			    size_t size);
/* The client asks in the middle of a batch: gathers and enters DISCARD SEQUENCES. False: no memory,
   or a COPY is under way. */
bool session_values_discard(struct server *server, struct gather *gather);
/* The DISCARD SEQUENCES of session_values_discard() is complete. */
void session_values_discarded(struct server *server);
/* DISCARD SEQUENCES or DISCARD ALL of the client is complete. */
void session_values_forget(struct server *server, struct client *client);

/* Whether the client is pinned only by values of sequences: other clients may get the server. */
static inline bool session_values_may_yield(const struct client *c)
{
	return c->pooled.pins == PIN_SEQUENCE && c->session;
}
/* Whether the kept values are the client's last ones, as of its next message: no earlier message
   may have drawn others. The client has kept values. */
bool session_values_are_known(const struct server *server, const struct client *client);
/* The client is between two transactions. True: task_values has begun, because the client loses the
   server after it. */
bool session_values_ask(struct server *server, struct client *client);
/* Begins task_values for the next message of the client, which executes a statement that asks for
   values. False: the values are known, or cannot be asked for. True: the message waits for the
   task, or for the answers to earlier messages. */
bool session_values_ask_first(struct server *server, struct client *client);
/* Appends the text, of `size` bytes with its NUL, with the client's value in place of its call of
   currval or lastval. False: the text is sent as it is. */
bool session_values_fill(const struct server *server, const struct client *client,
			 const uint8_t *text, size_t size, struct bytes *filled);
/* The client has lost values with a server: from now on its errors of currval and lastval have a
   hint. */
static inline void session_values_lost(struct client *c) { c->has_lost_values = true; }
/* An ErrorResponse for a client with has_lost_values. VERDICT_SWALLOW: it was sent with a hint;
   VERDICT_PASS: it is another error. */
enum verdict session_values_hint(struct client *client, const struct pg_frame *frame);

/* Packs and unpacks the values for another process. False: malformed, or no memory. */
void session_values_pack(struct bytes *out, const struct sequence_values *values);
bool session_values_unpack(struct unpack *in, struct sequence_values **values);
void session_values_free(struct sequence_values **values);

#endif
