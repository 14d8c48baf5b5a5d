#ifndef CONN_CLIENT_H
#define CONN_CLIENT_H

#include "conn/peer.h"
#include "pg/params.h"
#include "pool/pool.h"

#define CANCEL_KEY 4			/* bytes of the secret in BackendKeyData for protocol 3.0 */
#define SERVER_PID_MOST 4194304		/* the highest number of a server process on Linux */
#define CANCEL_KEY_LONG 24		/* ... from 3.2 on, where each server chooses its length; 176 bits of it or more are random */

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
struct login;				/* data needed only during the login: auth/login_state.h */

/* The names in the start-up packet, before the client has a pool: the first member of struct login. NULL before its start-up packet. */
struct client_names {
	char *user, *database;
};

/*
 * A client connection. Its phase is pooled.state and nothing else; the link to a server is pooled.link.
 */
struct client {
	struct pool_client pooled;
	struct peer peer;
	const struct params *params;	/* values it believes in; NULL before login */
	struct client_session *session;	/* NULL: it has not had a server with keeps_state; see state/session_state.h */
	struct prepared_client *prepared;	/* NULL: it has prepared nothing yet */
	uint32_t collects;		/* size of a frame that is taken as a whole although it is larger than the read buffer; else 0 */
	/* facts about the current link, set when it begins; independent of each other */
	bool shares_server;		/* the server is lent for a transaction or statement, and goes back with its end */
	bool keeps_state;		/* its session state is restored on the next server (session_state) */
	bool hears;			/* it listens: see state/notify_server.h */
	bool shares_names;		/* others prepare statements on that server, too: no name goes there as the client gave it */
	bool names_sql;			/* SQL of it names statements of its own: its command tags and errors are looked at */
	uint8_t minor;			/* it speaks protocol 3.minor */
	uint8_t cancel_key_size;	/* bytes of the key in use: CANCEL_KEY or CANCEL_KEY_LONG */
	struct login *login;		/* until login has ended */
	uint32_t cancel_pid;		/* random, above SERVER_PID_MOST; with session_link = login the process id of its server */
	uint8_t cancel_key[CANCEL_KEY_LONG];
	bool has_cancel_key;
	bool is_admin, may_show;	/* console: all commands; SHOW only */
	bool is_console;
	UT_hash_handle by_cancel_pid;
	uint8_t console_state;		/* enum console_state */
	uint8_t replication;		/* enum pg_replication */
	uint8_t refused_until;		/* messages of the client are discarded up to this type (see cancel_refuse_waiting()); 0: none */
	bool half_sent;			/* its server has the beginning of a frame, and the end is taken but not written yet */
	bool error_sent;			/* knows already why it ends */
	bool is_counted;		/* in the address that it comes from; cancel requests are not */
	bool in_transaction;		/* as of the last ReadyForQuery sent */
	usec_t query_started, transaction_started;	/* monotonic; 0: none */
	usec_t login_since;		/* monotonic: when it connected */
	usec_t last_active;		/* monotonic: last ReadyForQuery or request, for client_idle_timeout */
	/* cancel requests only: */
	struct server *cancel_target;	/* aims at this one */
	struct peer_call *peer_call;	/* on its way to another pooler; see cancel.c */
	struct server *cancel_carrier;	/* the connection that carries it */
};

static inline const struct client_names *client_names(const struct client *c) { return (const struct client_names *)(const void *)c->login; }
static inline struct client *client_of(struct pool_client *p) { return LIST_OBJECT(p, struct client, pooled); }

/* A client of this socket that is nothing but on every list it has to be on; without an id. NULL: no memory, the socket is closed. */
struct client *client_adopt(struct world *world, int fd);
/* Records that it ends, and why; the first reason holds. The reap of this turn (reap.h) tells the client (ErrorResponse, unless the
   reason is one of its own leaving), gives its server back or ends it, and closes the socket. `detail` fills the %s of the
   reason's text. From now on the connection is stopped, and counts no more in the pool room unless it has a server. */
void client_end(struct client *client, enum close_reason why, const char *detail);
/* Another process has its socket: the reap closes it here without a word. */
void client_hand_over(struct client *client);
/* As client_end, for an impossible message header; the log and the client get the first n bytes in hexadecimal. */
void client_end_bad_header(struct client *client, const uint8_t *at, size_t n);
/* Writes application_name with the address of the client (application_name_add_host) to buf: NAME_WITH_HOST bytes. A value that ends in
   the address already stays as it is. Returns buf. */
#define NAME_WITH_HOST 1024
const char *client_name_with_host(const struct client *client, const char *value, char *buf);
/* Sends bytes that the pooler has built to the client. False: the client is gone (client_end was called). */
bool client_send(struct client *client, const struct bytes *bytes);
/* "C-0xID: db/user@host:port" for lines of the log, the names as printable_name() has them; `size` is 256. Returns buf. */
const char *client_text(const struct client *client, char *buf, size_t size);

/* A client that connected before the shutdown began, or over TCP (those sockets are closed by then), may still log in if the shutdown waits
   for clients. */
bool client_is_in_time(const struct client *client);

#endif
