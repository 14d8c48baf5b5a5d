#ifndef CONN_CLIENT_H
#define CONN_CLIENT_H

#include "conn/peer.h"
#include "pg/params.h"
#include "pool/pool.h"

#define CANCEL_KEY 4			/* bytes of the secret in BackendKeyData, protocol 3.0 */
/* ... protocol 3.2, where the server chooses the length; at least 176 of its bits are random */
#define CANCEL_KEY_LONG 24
#define SERVER_PID_MOST 4194304		/* the highest process ID on Linux */

/* The state of a console client; admin/console.c is the only writer. */
enum console_state {
#define CONSOLE_STATE(id, name, moves) CONSOLE_##id,
#include "tbl/console_state.tbl"
#undef CONSOLE_STATE
	CONSOLE_STATES
};

struct server;
struct prepared_client;
struct client_session;
struct request;
struct cancel_request;
struct login;				/* data needed only during the login: auth/login_state.h */

/* The names in the start-up packet. The first member of struct login; NULL before the packet has
   arrived. */
struct client_names {
	char *user, *database;
};

/* The beginning of a query, and the number of its shared prepared statement; 0: none. */
struct query_note {
	uint64_t statement;
	char text[];
};

/* The parts of a login: their times are part of EXPLAIN CLIENT. */
enum login_part {
	PART_CLIENT,			/* the client has to send a start-up packet or a password */
	PART_TLS,			/* handshake, and the wait for its turn */
	PART_LOOKUP,			/* auth_query */
	PART_CHECK,			/* PAM, LDAP, or the derivation of a key */
	PART_SERVER,			/* wait for the parameters of a server, or for a server */
	LOGIN_PARTS
};

/* Facts about the current link; independent of each other. link_begin() of room relay sets them. */
struct link_facts {
	/* the server is assigned for a transaction or statement only */
	bool shares_server;
	/* the state of the session is restored on the next server (setting session_state) */
	bool keeps_state;
	/* the server has statements of other clients: names of statements are replaced */
	bool shares_names;
};

/* What the start-up packet and the login have shown. Rooms login and auth write it. */
struct login_facts {
	usec_t since;			/* monotonic: when the client connected */
	/* duration of each part of the login, about, as latency_bucket() */
	uint8_t took[LOGIN_PARTS];
	uint8_t minor;			/* protocol version 3.minor */
	uint8_t replication;		/* enum pg_replication, from the start-up packet */
	/* counted for its address (auth/client_address.c); cancel requests are not */
	bool is_counted;
};

/* The rights and the state of a console client. Room auth writes the rights. */
struct console_facts {
	uint8_t state;			/* enum console_state; written by admin/console.c */
	bool is_connected : 1;		/* to the database of the console; written by room login */
	/* all commands are allowed; only SHOW is allowed */
	bool is_admin : 1, may_show : 1;
};

/* Times for the timeouts of the client. The functions below write them. */
struct client_activity {
	usec_t query_started, transaction_started;	/* monotonic; 0: none */
	/* monotonic: last ReadyForQuery or request, for client_idle_timeout */
	usec_t last;
	bool in_transaction;		/* as of the last ReadyForQuery sent */
};

/* The last wait for a server. core/policy.c writes it. */
struct last_wait {
	uint32_t ended_at;		/* monotonic, in seconds */
	uint8_t took;			/* as latency_bucket(); 0: there was none */
	uint8_t limit;			/* enum pool_limit: the cause */
};

/* The key by which a CancelRequest names the client. cancel/cancel_key.c writes it. */
struct cancel_key {
	UT_hash_handle hh;		/* in the table of cancel keys */
	/* process ID in its BackendKeyData: random, above SERVER_PID_MOST; or, with session_link =
	   login, of its server */
	uint32_t pid;
	uint8_t secret[CANCEL_KEY_LONG];
	uint8_t size;			/* of the secret, in bytes: CANCEL_KEY or CANCEL_KEY_LONG */
	bool is_valid;			/* and the client is in the table */
};

/* Reasons why a message of the client must be looked at. Both are 0 for most clients. */
union client_minds {
	struct {
		/* messages are discarded until one of this type: see cancel_refuse_waiting(). 0:
		   none */
		uint8_t refused_until;
		bool keeps_request;	/* client->request is not NULL */
	};
	uint16_t messages;		/* one of these */
};

/*
 * A client connection. Its state is pooled.state (tbl/client_state.tbl), and its server is
 * pooled.link. Members that one room writes are in a struct of that room; members that only some
 * clients need are in an object that is made for these.
 */
struct client {
	struct pool_client pooled;	/* state, pool, server; written by room pool */
	struct peer peer;
	/* the parameters of the client, as reported to it: a shared set (pg/params.h); NULL before
	   its login */
	const struct params *params;
	/* state of its session; NULL before its first link with keeps_state. See
	   state/session_state.h */
	struct client_session *session;
	/* its prepared statements; NULL before the first one. See prepared/prepared.h */
	struct prepared_client *prepared;
	/* its request, if it asks for a role (conn/client_request.h); NULL: none is kept. See
	   client_prepare_request() */
	struct request *request;
	/* size in bytes of a message that must be received completely although the read buffer is
	   smaller; 0: none */
	uint32_t collects;
	struct link_facts link_facts;
	/* SQL texts of the client contain names of its statements: command tags and errors are
	   examined */
	bool names_sql;
	union client_minds minds;
	/* the server has the beginning of a message, and its end was received but not sent */
	bool half_sent;
	bool error_sent : 1;		/* the client has received the error for its end */
	/* its session has default_transaction_read_only = on: written by client_set_reading() */
	bool reads_only : 1;
	/* values of sequences with a server: see state/session_values.h */
	bool has_lost_values : 1;
	struct console_facts console;
	struct last_wait last_wait;
	struct client_activity activity;
	/* the query that runs (relay/duration.c); NULL: none, or unknown */
	struct query_note *query;
	struct login_facts login_facts;
	struct login *login;		/* NULL after the login */
	struct cancel_key cancel_key;
	/* of a cancel request, from the moment when its target is known; NULL: see
	   cancel/cancel.c */
	struct cancel_request *cancel_request;
};

static inline const struct client_names *client_names(const struct client *c)
{
	return (const struct client_names *)(const void *)c->login;
}
static inline struct client *client_of(struct pool_client *p)
{
	return LIST_OBJECT(p, struct client, pooled);
}

/* The value of in_hot_standby that a client with a role gets, whatever its servers say; NULL: the
   value of the server. */
#define STANDBY_PARAMETER "in_hot_standby"
static inline const char *client_standby(const struct client *c)
{
	if (c->pooled.target == TARGET_ANY)
		return NULL;
	return c->pooled.target == TARGET_PRIMARY || c->pooled.target == TARGET_READ_WRITE ? "off"
											   : "on";
}

/* Whether ordinary events of the client are logged: it belongs to the fraction `sample`
   (log_sample) of all clients. */
static inline bool client_is_sampled(const struct client *c, int64_t sample)
{
	return (c->peer.id * 0x9e3779b97f4a7c15 >> 32) * FRACTION_ONE >> 32 < (uint64_t)sample;
}

/* The session of the client has got this value of default_transaction_read_only. */
static inline void client_set_reading(struct client *c, const char *value)
{
	c->reads_only = strcmp(value, "on") == 0;
}

/* The client has sent a request, or has got ReadyForQuery. */
static inline void client_note_activity(struct client *c, usec_t now) { c->activity.last = now; }
/* A query or a transaction of the client has begun; 0: none runs. */
static inline void client_query_began(struct client *c, usec_t now)
{
	c->activity.query_started = now;
}
static inline void client_transaction_began(struct client *c, usec_t now)
{
	c->activity.transaction_started = now;
}
/* The client gets a ReadyForQuery. `next`: when its next query began; 0: all are answered. */
static inline void client_ready_sent(struct client *c, bool in_transaction, usec_t next, usec_t now)
{
	c->activity.query_started = next;
	c->activity.in_transaction = in_transaction;
	c->activity.last = now;
}
/* The client has left its transaction, and no ReadyForQuery tells it so. */
static inline void client_left_transaction(struct client *c)
{
	c->activity.in_transaction = false;
	c->activity.transaction_started = 0;
}
/* The client connects, or sends a cancel request. */
static inline void client_login_begins(struct client *c, usec_t now) { c->login_facts.since = now; }
/* A message of `size` bytes is received completely before it is handled; 0: the message has been
   received. */
static inline void client_collect(struct client *c, uint32_t size) { c->collects = size; }
/* The client gets no other error for its end. */
static inline void client_note_error_sent(struct client *c) { c->error_sent = true; }

/* Creates a client for a socket received from another process, in world->peers.clients and in state
   STARTUP; the caller sets its id. NULL: no memory, and the socket is closed. */
struct client *client_adopt(struct world *world, int fd);
/* Makes client->request, unless the client asks for no role. After its login, and after a RELOAD.
   Without memory the client ends. */
void client_prepare_request(struct client *client);
/* Records that the client ends, and the reason; a later call has no effect. From now on the
   connection is stopped, and does not count in the pool unless it has a server. The reap of this
   turn (core/reap.c) sends the ErrorResponse of the reason, returns or ends the server, and closes
   the socket. `detail` replaces %s in the text of the reason; NULL: none. */
void client_end(struct client *client, enum close_reason why, const char *detail);
/* Ends a client with an impossible message header. The log and the client get the first `n` bytes,
   at most 8, in hexadecimal. */
void client_end_bad_header(struct client *client, const uint8_t *at, size_t n);
/* Another process has received the socket: the reap closes the socket without a message. */
void client_hand_over(struct client *client);
/* Writes application_name with the address of the client (setting application_name_add_host) to
   `buf` of NAME_WITH_HOST bytes. Does not change the value if it ends with the address already.
   Returns buf. */
#define NAME_WITH_HOST 1024
const char *client_name_with_host(const struct client *client, const char *value, char *buf);
/* Sends messages of pgweir to the client; does nothing for a stopped client. False: the client is
   ending. */
bool client_send(struct client *client, const struct bytes *bytes);
/* Writes "C-0xID: db/user@host:port" for the log, the names as printable_name() writes them; `size`
   is 256. Returns buf. */
const char *client_text(const struct client *client, char *buf, size_t size);

#endif
