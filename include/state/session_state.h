#ifndef STATE_SESSION_STATE_H
#define STATE_SESSION_STATE_H

#include "conn/gather.h"
#include "conn/verdict.h"
#include "conn/world.h"
#include "pg/frame.h"
#include "pg/message.h"
#include "sql/state_functions.h"

/*
 * The state of a client's session (session_state = full). Promise: state that a client makes in one
 * transaction is there in its next transaction, on any server, and no other client sees it. The
 * functions are for a client with keeps_state and for its server. See session_state.c.
 */
#define SESSION_NAMES_MOST 100		/* parameters with a dot that one client may name */

/* The session of a client with keeps_state. */
struct client_session {
	const struct params *first;	/* its start-up parameters, which RESET restores */
	/* of parameters with a dot that its texts contain, each with its NUL */
	struct bytes names;
	struct bytes places;		/* for each name a struct session_place */
	int count;
	struct state_names told;	/* the names from functions of the database ... */
	unsigned told_of;		/* ... at this reading: functions->readings */
	bool has_prepared;		/* it has prepared a statement */
	uint64_t prepared_as_of;	/* ... when this was functions->hash */
	/* PIN_ bits, FACT_ROLE and CALLS_ bits that its prepared statements may change without a
	   command tag */
	uint16_t calls;
	uint16_t unnamed_calls;		/* the same of its unnamed statement */
	struct notify_client *notify_client;	/* its channels; NULL: none. See notify.h */
	/* one of its prepared statements may UNLISTEN or begin a transaction */
	bool unlistens;
	/* bit 1 << enum text_of: ... or a text with possible notifications */
	uint8_t notifies;
	bool draws : 1;			/* ... or a statement that calls nextval */
	/* ... or a statement that inserts rows, whose columns may have sequences */
	bool fills : 1;
	bool unnamed_fills : 1;		/* its unnamed statement does one of both */
	/* one of its prepared statements asks for the last value of a sequence */
	bool prepared_reads;
	/* one of its messages since the last release check may draw values */
	bool draws_now;
	/* it has called setval, or has prepared a statement that does */
	bool sets_values;
	/* task_values runs before its next message, not after its transaction */
	bool asks_values_first;
	/* its values of sequences; NULL: it has lost none with a server. See
	   state/session_values.h */
	struct sequence_values *values;
	uint8_t pins_logged;		/* pins with a log line */
	bool pin_is_granted;		/* max_pinned has let it keep the server that it has */
	usec_t pinned_since;		/* monotonic; while pooled.pins is not 0 */
	usec_t asked_at;		/* activity.last at the last query of its state */
	/* of its next text, which takes more than one turn to read; NULL: none. See
	   session_state.c */
	struct text_progress *progress;
};

/* Bits of client_session.calls besides PIN_ bits and FACT_ROLE: a prepared statement with any
   effect; a statement that may define functions or triggers. */
enum { CALLS_ANYTHING = 1 << (PINS + 1), CALLS_DEFINES = 1 << (PINS + 2) };

/* The only writers of session.stale and session.dirty. */
static inline void session_set_stale(struct server *s, unsigned bits)
{
	s->session.stale |= (uint8_t)bits;
}
static inline void session_set_known(struct server *s, unsigned bits)
{
	s->session.stale &= (uint8_t)~bits;
}
static inline void session_set_dirty(struct server *s, unsigned facts)
{
	s->session.dirty |= (uint16_t)facts;
}
static inline void session_set_clean(struct server *s, unsigned facts)
{
	s->session.dirty &= (uint16_t)~facts;
}

/* The message of a text: a Query, a Parse without a name, a Parse with a name. */
enum text_of { TEXT_OF_QUERY, TEXT_OF_UNNAMED, TEXT_OF_NAMED };

/* The server is assigned to the client, in any pool; sets keeps_state. */
void session_state_begin(struct server *server, struct client *client);
/* A Query or Parse is about to be sent; `text` is the first `size` bytes of its SQL. VERDICT_WAIT:
   it must wait, because the session may have values of sequences of another client
   (STALE_SEQUENCES), or lacks the channels of the client. VERDICT_LATER: the client has used its
   share of this turn, and the same text is to be passed again in a later turn of the same link. */
enum verdict session_state_text(struct server *server, struct client *client, const uint8_t *text,
				size_t size, enum text_of of);
/* Whether the search of the client's next text is not over (VERDICT_LATER of
   session_state_text()). */
static inline bool session_is_searching(const struct client *c)
{
	return c->session && c->session->progress;
}
/* At the beginning of a link, and after its server has read the functions of the database: notes
   the facts that prepared statements of the client may change. */
void session_note_prepared(struct server *server, struct client *client);
/* The text of a Query or Parse has the flag session.is_filled: it resets parameters by
   set_config('name', NULL, ...), which would set the server's start-up values, or the Query asks
   for the last value of a sequence. Appends the text with the client's values instead. False:
   nothing changes. */
bool session_state_fill(struct server *server, struct client *client, const uint8_t *text,
			size_t size, bool is_query, struct bytes *filled);
/* session_state_text() has returned VERDICT_WAIT, and the server owes nothing. Begins the task that
   the text waits for: a task of session_values_prepare(), or task_relisten. */
void session_text_prepare(struct server *server, struct client *client, const uint8_t *text,
			  size_t size);
/* A command of the client with this tag is complete; `is_reset`: it has reset parameters. TAG_CODE:
   also a function call. */
void session_note_command(struct server *server, enum pg_tag tag, bool is_reset);
/* Sets the pins of the client; the log has a line for each new reason. */
void session_pin(struct client *client, unsigned pins);
/* The client keeps its server until it leaves. `label`: the reason, for the log. */
void session_keep_server(struct client *client, enum pin why, const char *label);
/* Whether the client must give up a server that it keeps for values of sequences only, because the
   server is to be closed or max_pinned is exceeded. */
bool session_must_yield(const struct client *client);
/* No fact is in doubt. True: the client keeps the server after its transaction, or ends because
   max_pinned is reached. */
bool session_state_keeps_server(struct client *client);
/* After a handover: makes the session of the client from these facts, with a reference to `first`;
   `names` has `size` bytes. False: the names are malformed, or there is no memory. */
bool session_state_unpack(struct client *client, const struct client_session *facts,
			  const struct params *first, const char *names, size_t size);
void session_state_free(struct client *client);

#endif
