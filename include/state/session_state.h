#ifndef STATE_SESSION_STATE_H
#define STATE_SESSION_STATE_H

#include "conn/gather.h"
#include "conn/world.h"
#include "pg/frame.h"
#include "pg/state_functions.h"
#include "pg/message.h"

/*
 * The state of a client's session that moves with the client from server to server, or keeps its server: see session_state.c. The client keeps_state,
 * and has this server.
 */
#define SESSION_NAMES_MOST 100		/* parameters with a dot that one client may name */

/* The session of a client that keeps_state. */
struct client_session {
	const struct params *first;	/* its start-up parameters, which a RESET restores */
	struct bytes names;		/* that it has named, with a dot, each with its NUL */
	struct bytes places;		/* of each of them, a struct session_place */
	int count;
	struct state_names told;	/* of those, by functions of the database ... */
	unsigned told_of;		/* ... as they were known then: functions->readings */
	unsigned prepared_as_of;	/* the same when it has prepared its statements, and one more; 0: it has none */
	uint16_t calls;			/* PIN_ bits, FACT_ROLE and CALLS_ANYTHING: it has prepared statements that may change these, and no command tag will say so */
	uint16_t unnamed_calls;		/* the same of its unnamed statement */
	struct notify_client *notify_client;	/* channels that it listens to; NULL: none. See notify_server.h */
	bool unlistens;			/* it has prepared a statement that may UNLISTEN or begin a transaction */
	uint8_t notifies;		/* bit 1 << enum text_of: ... or a text that may send notifications */
	bool draws;			/* ... or a statement that calls nextval */
	bool sets_values;		/* it has called setval, or has prepared a statement that does */
	bool reads_values;		/* it has asked for currval or lastval: it keeps its server for them, whoever waits */
	uint8_t pins_logged;		/* the log has them */
	bool pin_is_granted;		/* max_pinned has let it keep the server that it has */
	usec_t pinned_since;		/* monotonic; while pooled.pins is not 0 */
	usec_t asked_at;		/* last_active when the server was last asked */
};

/* Bits of client_session.calls besides PIN_ bits and FACT_ROLE: a prepared statement with any effect; a statement that may define functions or
   triggers. */
enum { CALLS_ANYTHING = 1 << (PINS + 1), CALLS_DEFINES = 1 << (PINS + 2) };

/* The only writers of session.unknown and session.doubts. */
static inline void session_set_unknown(struct server *s, unsigned bits) { s->session.unknown |= (uint8_t)bits; }
static inline void session_set_known(struct server *s, unsigned bits) { s->session.unknown &= (uint8_t)~bits; }
static inline void session_add_doubt(struct server *s, unsigned facts) { s->session.doubts |= (uint16_t)facts; }
static inline void session_clear_doubt(struct server *s, unsigned facts) { s->session.doubts &= (uint16_t)~facts; }

/* The message of a text: a Query, a Parse without a name, a Parse with a name. */
enum text_of { TEXT_OF_QUERY, TEXT_OF_UNNAMED, TEXT_OF_NAMED };

/* The server is asked for the state of its client; asked which sequences the transaction has used; DISCARD SEQUENCES. */
extern const struct server_task task_state, task_drawn, task_discard;

/* In a pool with session_state = full the server is lent to the client. */
void session_state_begin(struct server *server, struct client *client);
/* A Query or Parse is about to be sent; `text` is the first `size` bytes of its SQL. False: it must wait, because the session may have values of
   sequences of another client (UNKNOWN_SEQUENCES: session_values_begin), or lacks the channels of the client. */
bool session_state_text(struct server *server, struct client *client, const uint8_t *text, size_t size, enum text_of of);
/* The text resets parameters by set_config('name', NULL, ...), which would set the server's start-up values. Appends the text with the client's
   start-up values instead. False: they are the same. */
bool session_state_fill(struct client *client, const uint8_t *text, size_t size, struct bytes *filled);
/* That end has come: the next step of the client's channels is UNLISTEN. */
void session_state_leave_channels(struct server *server, struct client *client);
/* The server owes nothing. Values that are another client's are forgotten, or the values for which the client's next message asks, which has this
   text, are found to be its own. */
void session_values_begin(struct server *server, const uint8_t *text, size_t size);
/* The client asks in the middle of a batch: gathers and enters DISCARD SEQUENCES. False: no memory, or a COPY is under way. */
bool session_values_discard(struct server *server, struct gather *gather);
/* That DISCARD SEQUENCES is complete. */
void session_values_discarded(struct server *server);
/* All that it keeps its server for are values of sequences that it may never ask for: the server is for others, if these need it. */
bool session_state_may_yield(const struct client *client);
/* A command of the client's with this tag is complete; `is_reset`: it has reset parameters. TAG_CODE also stands for a function call. */
void session_state_told(struct server *server, enum pg_tag tag, bool is_reset);
/* Whether statements of the client may use temporary objects, which no other client sees. */
bool session_state_is_private(const struct server *server, const struct client *client);
/* The client's transaction is over. True: it may have changed the state of the session, and the server must be asked. */
bool session_state_check(struct server *server);
/* Begins task_state, which asks for the facts in doubt. The server may end. */
void session_state_ask(struct server *server);
/* Nothing is in doubt. True: the client keeps the server after its transaction, or ends, because max_pinned is reached. */
bool session_state_keeps_server(struct client *client);
/* The ledger of the server is lost, and the session has state of the client: the client keeps the server until it leaves. It may end, as above. */
void session_state_lose(struct client *client);
/* After a hand-over: makes a session for the client of these facts, with a hold on `first`; `names` are `size` bytes. False: it cannot be so, or
   there is no memory. */
bool session_state_restore(struct client *client, const struct client_session *facts, const struct params *first, const char *names, size_t size);
void session_state_free(struct client *client);

#endif
