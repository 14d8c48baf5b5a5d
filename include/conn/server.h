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

/* Bits of session.unknown. */
enum {
#define SESSION_UNKNOWN(id, bit) UNKNOWN_##id = bit,
#include "tbl/session_fact.tbl"
};

/* Special values of server->session.values_of: several clients have used the server; and, after a handover, the linked client. */
#define VALUES_MIXED UINT64_MAX
#define VALUES_OF_LINK (UINT64_MAX - 1)

/* Bits of session.doubts besides the PIN_ bits. FACT_CHANNELS: pgweir has LISTENed there to the channels of the client, and must UNLISTEN at the end of
   the link. */
enum { FACT_ROLE = 1 << PINS, FACT_CHANNELS = 1 << (PINS + 2) };

/* What commands change for other sessions at the end of their transaction: what texts mean (pg_tag_changes_meaning), with what a session begins
   (pg_tag_changes_sessions), which functions of the database change a session (a text may define functions or triggers without a tag that says so). */
enum { CHANGES_MEANING = 1, CHANGES_SESSIONS = 2, CHANGES_FUNCTIONS = 4 };

/* What is known of the session of a server; room state has the rules. */
struct server_session {
	uint8_t unknown;		/* UNKNOWN_ bits: what the next link has to set; written by session_set_unknown and session_set_known */
	uint8_t plain_set;		/* SET_ bits of the oldest message that is not answered, if it is a Query with one SET */
	uint16_t doubts;		/* PIN_ and FACT_ bits: its client, which keeps_state, may have changed these; written by session_add_doubt and
					   session_clear_doubt */
	uint8_t changes;		/* CHANGES_ bits: what its client's transaction may have changed for other sessions */
	/* facts about the link, false when it begins: next to each other, because they are reset together */
	bool was_reset;			/* its client has reset parameters */
	bool channels_restored;		/* the server has LISTENed to all channels of its client */
	bool text_was_cut;		/* its client has sent SQL that could not be examined to its end */
	bool sets_null;			/* the client's next text calls set_config with NULL */
	bool has_failed;		/* there was an error */
	/* other facts */
	bool meaning_in_doubt;		/* its client may have changed the meaning of SQL texts: search_path, role, tables; until the end of the link */
	bool meanings_prepared;		/* a text that may change the meaning of texts has been prepared */
	bool roles_prepared;		/* a text that may set a role has been prepared */
	bool values_may_be_own;		/* what its client asks of sequences may be proven to be its own ... */
	bool values_are_own;		/* ... and has been, for the client's next text */
	uint32_t discards_in;		/* DISCARD SEQUENCES has been sent in this batch of its client, plus one; 0: in none */
	uint64_t reported;		/* bit i: the server has reported tracked parameter i */
	uint64_t set_there;		/* bit i: the session has set tracked parameter i, so a RESET may change the parameter */
	uint64_t doubted_by;		/* id of the client that may have left unknown state, or 0 */
	uint64_t values_of;		/* id of the only client that has had the server since the session had no values of sequences; 0: none has */
	char *drawn;			/* OIDs of the sequences whose last value in this session was drawn by its client, with commas; NULL: unknown */
	struct session_answer *answer;	/* of task_state; NULL: it is not executed */
	struct functions_question *functions;	/* of task_functions; NULL: it is not executed */
	char *role;			/* the role at the start of the session, as server_session.c notes it; NULL: the role of the login */
	char *search_path;		/* after connect_query, in hexadecimal, as server_session.c notes it; NULL: not known */
};

/*
 * A server connection. Its phase is pooled.state; the answers it owes are in the ledger. Invariant: an idle server has no client, owes
 * nothing and is in no transaction.
 */
struct server {
	struct pool_server pooled;
	struct peer peer;
	struct ledger ledger;
	struct prepared_server *prepared;	/* NULL: nothing has been prepared on it */
	uint32_t batch;			/* Syncs its clients have sent */
	uint64_t unnamed_of;		/* id of the client that used its unnamed statement last; 0: not known */
	struct server_session session;
	const struct params *params;	/* values its session has ... */
	const struct params *first_params;	/* ... and had when it had logged in; NULL before */
	struct welcome *welcome;	/* other parameters reported at its login; NULL before. See backend/welcome.h */
	struct dial *dial;		/* until the login has ended */
	const struct server_task *task;	/* set by server_task_to; NULL: none */
	bool task_failed, task_answered;
	char *task_words;		/* ... the server's words, where a client's parameters were to be set; NULL: not known */
	bool needs_reset;		/* a session is over: server_reset_query runs before anything else */
	usec_t task_since;
	struct lookup *lookup;		/* which sent the query of task_lookup */
	bool was_ended;			/* it says that an administrator or a shutdown has ended it: nothing is wrong with the next one */
	bool said_fatal;		/* its last ErrorResponse was FATAL: the client knows why the connection ends */
	char status;			/* of the last ReadyForQuery: I T E */
	uint8_t minor;			/* it speaks protocol 3.minor with us */
	uint8_t replication;		/* enum pg_replication: the kind of connection */
	bool tls_direct;		/* TLS began, or is to begin, without an SSLRequest; so it does for cancels */
	uint32_t backend_pid;		/* of its process, as BackendKeyData says it; 0: it was not told */
	uint32_t told_pid;		/* process id that its last client was told; 0: none has had it. See state/notify_server.c */
	bool notifies;			/* its client may have sent notifications: no other client gets it before all listeners have them ... */
	uint64_t notified;		/* ... and that has left it as this one: world->notified */
	UT_hash_handle by_backend_pid;
	uint8_t *cancel_key;		/* as the server gave it; NULL: it gave none */
	size_t cancel_key_size;
	char *host;			/* name it was dialled by, for TLS; NULL: Unix socket */
	struct client *carries_for;	/* is_cancel: the request */
	struct address *address;	/* where it is connected to; cancels go there too */
};

static inline struct server *server_of(struct pool_server *p) { return LIST_OBJECT(p, struct server, pooled); }

/* Makes a server connection that is to be opened, in LOGIN on its pool's list, with the start-up parameters of `client` unless NULL. NULL:
   no memory. */
struct server *server_new(struct pool *pool, struct world *world, bool is_cancel, const struct client *client);
/* Adds the server, whose backend_pid is known, to world->by_backend_pid. False: no memory. */
bool server_enlist(struct server *server);
/* Removes the server from world->by_backend_pid, if it is there. */
void server_delist(struct server *server);
/* ParameterStatus: keeps the value, if the parameter is tracked. Without memory the server's close_reason says so: its session is not
   known any more. */
void server_parameter(struct server *server, const char *name, const char *value);
/* If pgweir itself broke the connection because the server made endless TLS work: sets *why and *detail (a constant text) accordingly. */
void server_name_abuse(const struct server *server, enum close_reason *why, const char **detail);
/* Records that it ends, and why, as client_end() does; its client, where it has one, ends for the same reason. */
void server_end(struct server *server, enum close_reason why, const char *detail);
/* Another process has taken its socket and its client's socket: the reap closes both without sending anything. */
void server_hand_over(struct server *server);
/* Ends a server and unlinks its client, which stays (IDLE) or, with client_dies, is ending as well. */
void server_end_leaving(struct server *server, enum close_reason why, bool client_dies);
/* Ends a server that says why in an unrequested ErrorResponse (its body, or the beginning of it). A client that it still
   has stays. */
void server_end_with_words(struct server *server, const uint8_t *error, size_t size);
/* Ends a server without a client that has sent a message of this type unasked. */
void server_end_dirty(struct server *server, uint8_t type);
/* "S-0xID: db/user@host:port", as client_text(). */
const char *server_text(const struct server *server, char *buf, size_t size);
/* Logs an ErrorResponse of this server, printable and shortened, as a warning: "S-...: `context`: FATAL the message". */
void server_log_error(const struct server *server, const char *context, const struct pg_error *error);

#endif
