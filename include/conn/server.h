#ifndef CONN_SERVER_H
#define CONN_SERVER_H

#include "base/hash.h"
#include "conn/peer.h"
#include "conn/server_task.h"
#include "pg/message.h"
#include "pg/ledger.h"
#include "pg/params.h"
#include "pool/pool.h"

struct client;
struct world;
struct prepared_server;
struct lookup;
struct session_answer;
struct functions_question;
struct welcome;
struct dial;				/* data needed only while the connection is opened */

/* Bits of session.stale. */
enum {
#define SESSION_STALE(id, bit) STALE_##id = bit,
#include "tbl/session_fact.tbl"
};

/* Special value of server->session.values_of: several clients have used the server. */
#define VALUES_MIXED UINT64_MAX

/* Bits of session.dirty besides the PIN_ bits. FACT_CHANNELS: pgweir has sent LISTEN for the
   channels of the client, and must send UNLISTEN at the end of the link. */
enum { FACT_ROLE = 1 << PINS, FACT_CHANNELS = 1 << (PINS + 2) };

/* Effects of a command on other sessions after its transaction commits. It may change the meaning
   of SQL texts (pg_tag_changes_meaning), the initial state of sessions (TAG_ALTER_SESSIONS), or the
   tables that a text finds. It may also define functions or triggers, which its tag need not
   show. */
enum { CHANGES_MEANING = 1, CHANGES_SESSIONS = 2, CHANGES_FUNCTIONS = 4, CHANGES_TABLES = 8 };

/* The known state of the session of a server; written by room state unless noted. */
struct server_session {
	/* STALE_ bits: state that must be set before the client's next message; see
	   session_state.c. Written by session_set_stale and session_set_known */
	uint8_t stale;
	/* SET_ bits of the oldest unanswered message, if it is a Query with a single SET */
	uint8_t plain_set;
	/* PIN_ and FACT_ bits: state that its client, which keeps_state, may have changed; written
	   by session_set_dirty and session_set_clean */
	uint16_t dirty;
	/* CHANGES_ bits: changes by the transaction of its client that may concern other
	   sessions */
	uint8_t changes;
	/* Facts about the link, reset together when it begins. */
	bool was_reset;			/* the client has reset parameters */
	bool channels_restored;		/* pgweir has sent LISTEN for all channels of the client */
	/* the client has sent SQL that was not examined completely */
	bool text_was_cut;
	/* pgweir may have to put values of the client into its next text: see
	   session_state_fill() */
	bool is_filled;
	bool has_failed;		/* the server has sent an ErrorResponse */
	/* Other facts. */
	/* the client may have changed search_path, role or tables, and so the meaning of SQL texts;
	   until the end of the link */
	bool meaning_in_doubt;
	/* a prepared statement may change the meaning of SQL texts */
	bool meanings_prepared;
	bool roles_prepared;		/* a prepared statement may set a role */
	/* pgweir can prove that currval() and lastval() return values of its client ... */
	bool values_may_be_own;
	bool values_are_own;		/* ... and has proven it for the next text of the client */
	/* server->batch plus 1 when DISCARD SEQUENCES was sent; 0: not sent */
	uint32_t discards_in;
	/* bit i: the server reports tracked parameter i (ParameterStatus); written by
	   server_parameter() */
	uint64_t reported;
	/* bit i: the session has set tracked parameter i, so a RESET may change the parameter */
	uint64_t set_there;
	/* id of the client that has tainted the session; 0: none */
	uint64_t tainted_by;
	/* id of the only client that used the server since its session had no values of sequences;
	   0: none */
	uint64_t values_of;
	/* OIDs of the sequences from which its client took the last value of this session, with
	   commas; NULL: unknown */
	char *drawn;
	struct session_answer *answer;	/* of task_state; NULL: the task is not running */
	/* of task_functions; NULL: the task is not running */
	struct functions_question *functions;
	/* the role at the start of the session, in the form of server_session.c; NULL: the role of
	   the login */
	char *role;
	/* after connect_query, in hexadecimal (server_session.c); NULL: unknown */
	char *search_path;
};

/*
 * A server connection. Its state is pooled.state (tbl/server_state.tbl), and `ledger` has the
 * answers that the server owes.
 *
 * Invariant: an idle server has no client, owes no answer and is in no transaction.
 */
struct server {
	struct pool_server pooled;	/* state, pool, client; written by room pool */
	struct peer peer;
	/* the unanswered messages; written by room relay and by server_send() */
	struct ledger ledger;
	/* its prepared statements; NULL before the first one. See prepared/prepared.h */
	struct prepared_server *prepared;
	/* number of Syncs sent: the current batch of the extended protocol */
	uint32_t batch;
	/* id of the client that used the unnamed statement last; 0: unknown */
	uint64_t unnamed_of;
	struct server_session session;
	/* the parameters of its session, as far as they are known: a shared set (pg/params.h) */
	const struct params *params;
	const struct params *first_params;	/* ... after its login; NULL before */
	/* other parameters reported at its login; NULL before. See backend/welcome.h */
	struct welcome *welcome;
	/* data needed only while the connection is opened; NULL after the login. Written by
	   backend/dial.c */
	struct dial *dial;
	/* pgweir's query in progress; NULL: none. Written by server_task_to() */
	const struct server_task *task;
	bool task_failed;		/* the task has received an ErrorResponse */
	bool task_answered;		/* the ReadyForQuery of the task has arrived */
	/* the error message, for a task with keeps_error; owned; NULL: none */
	char *task_words;
	char task_sqlstate[6];		/* its SQLSTATE; "": none */
	bool needs_reset;		/* server_reset_query must run before the next use */
	usec_t task_since;		/* monotonic: when the task began */
	struct lookup *lookup;		/* the look-up of task_lookup; NULL: none */
	/* its ErrorResponse says that an administrator or a shutdown ended it: a new connection
	   probably works */
	bool was_ended;
	/* its last ErrorResponse was FATAL: the client knows why the connection ends */
	bool said_fatal;
	/* of the last ReadyForQuery: I, T or E; written by server_status_received() */
	char status;
	uint8_t minor;			/* protocol version 3.minor */
	uint8_t replication;		/* enum pg_replication: the kind of connection */
	/* TLS begins without an SSLRequest, also for cancel requests */
	bool tls_direct;
	uint32_t backend_pid;		/* process ID in its BackendKeyData; 0: none */
	/* cancel_key.pid of its last client; 0: no client yet. See server_session.c */
	uint32_t last_client_pid;
	/* its client may have sent notifications: the server is not assigned again before all
	   listeners have them ... */
	bool notifies;
	/* ... and this is the value of world->notify.releases when the client left */
	uint64_t notified;
	UT_hash_handle by_backend_pid;	/* in world->peers.by_backend_pid */
	uint8_t *cancel_key;		/* from its BackendKeyData; owned; NULL: none */
	size_t cancel_key_size;		/* bytes */
	/* the host name of the connection, for TLS; owned; NULL: Unix socket */
	char *host;
	struct client *carries_for;	/* connection for a cancel request: the request */
	/* pgweir's own cancel request: of its target, the connection for it; of that connection,
	   the target */
	struct server *own_cancel;
	/* monotonic: when that request was made; 0: none since the client has left */
	usec_t canceled_at;
	/* where it is connected to, also for cancel requests; owned */
	struct address *address;
};

static inline struct server *server_of(struct pool_server *p)
{
	return LIST_OBJECT(p, struct server, pooled);
}

/* A ReadyForQuery has arrived with this status of the transaction: I, T or E. */
static inline void server_status_received(struct server *s, char status) { s->status = status; }
/* The server has sent an ErrorResponse. */
static inline void server_error_received(struct server *s, bool is_fatal)
{
	s->session.has_failed = true;
	s->said_fatal = is_fatal;
}
/* The server begins to work for a client or a look-up. */
static inline void server_work_begins(struct server *s, usec_t now_wall)
{
	s->said_fatal = false;
	peer_requested(&s->peer, now_wall);
}
/* The server gets a Sync: the next messages are in another batch. */
static inline void server_sync_sent(struct server *s) { s->batch++; }
/* The task of the server has received an ErrorResponse. */
static inline void server_task_fails(struct server *s) { s->task_failed = true; }
/* The unnamed statement of the server belongs to this client from now on; 0: it is unknown. */
static inline void server_unnamed_to(struct server *s, uint64_t client) { s->unnamed_of = client; }
/* The transaction of the client on the server may concern other sessions: CHANGES_ bits. */
static inline void server_note_changes(struct server *s, unsigned changes)
{
	s->session.changes |= (uint8_t)changes;
}
/* The transaction is over: returns these bits, and clears them. */
static inline unsigned server_take_changes(struct server *s)
{
	unsigned changes = s->session.changes;

	s->session.changes = 0;
	return changes;
}
/* Whether server_reset_query must run before the next use. */
static inline void server_reset_to(struct server *s, bool is_needed) { s->needs_reset = is_needed; }
/* Messages of the client may have changed the meaning of its later SQL texts. */
static inline void server_doubt_meaning(struct server *s, bool may_have_changed)
{
	s->session.meaning_in_doubt |= may_have_changed;
}
/* The client leaves the server, and its doubts about the meaning of texts with it. */
static inline void server_trust_meaning(struct server *s) { s->session.meaning_in_doubt = false; }
/* A statement is prepared on the server that may set a role, or change the meaning of texts. */
static inline void server_note_prepared(struct server *s, bool sets_role, bool changes_meaning)
{
	s->session.roles_prepared |= sets_role;
	s->session.meanings_prepared |= changes_meaning;
}
/* The values of sequences in the session belong to this client, to several (VALUES_MIXED) or, if 0,
   to none. */
static inline void server_values_to(struct server *s, uint64_t client)
{
	s->session.values_of = client;
}
/* The next message of the client is a Query with a single SET (SET_ bits), or another one (0). */
static inline void server_note_plain_set(struct server *s, unsigned set)
{
	s->session.plain_set = (uint8_t)set;
}

/* Creates a server connection in state LOGIN, with the start-up parameters of `client` unless NULL;
   backend/dial.c opens it. NULL: no memory. */
struct server *server_new(struct pool *pool, struct world *world, bool is_cancel,
			  const struct client *client);
/* Adds the server with its backend_pid to world->peers.by_backend_pid. False: no memory. The reap
   removes it. */
bool server_enlist(struct server *server);
/* Keeps process ID and secret of a BackendKeyData, which replace earlier ones. False: no memory. */
bool server_key_received(struct server *server, uint32_t pid, const uint8_t *key, size_t size);
/* Forgets the report of the server at its login, except its parameters: the next address may lead
   to another server. */
void server_forget_login(struct server *server);
/* Handles a ParameterStatus: stores the value of a tracked parameter. Without memory sets
   pooled.close_reason, because the session of the server is unknown then. */
void server_parameter(struct server *server, const char *name, const char *value);
/* Sends complete messages of pgweir after all bytes already sent to the server, and enters them in
   its ledger with this mark. The caller has flushed the gathered bytes of a client; no message of
   the client is half sent, no COPY may begin before these messages (ledger_may_copy), and the
   server does not skip messages until a Sync (ledger_enters). False: the connection is broken, or
   no memory; the caller ends the connection. */
bool server_send(struct server *server, enum ledger_mark mark, const struct bytes *messages);
/* Records that the server ends, and the reason, as client_end() does. If the server has sent too
   many TLS messages without data, that is the reason. Its client ends for the same reason, because
   no other server knows the session. */
void server_end(struct server *server, enum close_reason why, const char *detail);
/* Another process has received the sockets of the server and of its client: the reap closes both
   without a message. */
void server_hand_over(struct server *server);
/* Ends a linked server; the client stays (IDLE) or, with client_dies, is ending too. */
void server_end_leaving(struct server *server, enum close_reason why, bool client_dies);
/* Writes "S-0xID: db/user@host:port" for the log, as client_text(). */
const char *server_text(const struct server *server, char *buf, size_t size);

#endif
