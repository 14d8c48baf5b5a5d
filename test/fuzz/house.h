#ifndef HOUSE_H
#define HOUSE_H

#include "fuzz.h"
#include "core/lifecycle.h"
#include "verify/verifier.h"

/*
 * All of pgweir in one process with the target: a real world with its pools, sessions and console. The target
 * plays its clients and servers over sockets of its own. The turn is main's, but for the tick, which
 * comes when the target says so. sandbox_begin comes before.
 */
/* Settings of every configuration: no listening socket, and in [databases] some server; each address leads to this process. */
#define HOUSE_SETTINGS_SSL "\n[pgbouncer]\nlisten_port=6432\nlisten_addr=127.0.0.1\nunix_socket_dir=\nsession_state=off\nclient_gone=close\n"
#define HOUSE_SETTINGS HOUSE_SETTINGS_SSL "server_tls_sslmode=disable\n"
#define HOUSE_SERVER "host=127.0.0.1 port=5432 "
/* The same, but TLS for each client and server that wants it. */
#define HOUSE_SETTINGS_TLS HOUSE_SETTINGS_SSL HOUSE_CLIENT_TLS "server_tls_sslmode=prefer\n"
#define HOUSE_CLIENT_TLS "client_tls_sslmode=prefer\nclient_tls_cert_file=cert\nclient_tls_key_file=key\n"
#define HOUSE_ENDS 16		/* connections of one input */

struct backend;
struct secure;
struct secure_options;

/* The target's end of a connection. */
struct house_end {
	int fd;				/* -1: closed by us */
	bool is_server, is_gone;	/* pgweir has closed */
	bool begins;			/* a server: nothing has come yet that tells whether TLS is wanted */
	bool awaits_answer;		/* an SSLRequest is pending: an 'S' is clear text, and the following bytes are TLS */
	bool holds;			/* the target sends the output of this end's OpenSSL itself */
	struct secure *secure;		/* TLS; NULL: clear */
	struct bytes got;		/* all that pgweir has said */
	struct bytes wire;		/* how it came */
	size_t seen;			/* of `got`, by the backend or the target */
	struct backend *backend;	/* answers for it; NULL: none does */
};

struct house {
	struct event_base *base;
	struct shared *shared;
	struct world *world;
	struct console *console;
	struct house_end ends[HOUSE_ENDS];
	int end_count;
	/* Whether a backend answers for each server that pgweir opens (from the next on); false: none does. */
	bool servers_answer;
	bool holds_answers;		/* backends say nothing for now */
	/* TLS options of new connections; NULL: clear text. */
	const struct secure_options *secures_clients, *secures_servers;
};

/* Replaces the verifiers: its answer to a request for PAM or LDAP, and the last such request. */
struct house_verifier {
	enum verify_refusal refusal;	/* VERIFIERS_ASKED: it answers in the next turn, with ... */
	enum verify_verdict verdict;
	char asked[300];		/* METHOD USER/PASSWORD SERVICE REMOTE, "-" for missing values */
};
extern struct house_verifier house_verifier;

/* Opens it with this configuration, a constant text. It may name secure.h's certificate: files cert and key. */
void house_open(struct house *h, const char *ini);
/* Ends everything, and checks that nothing is left. */
void house_close(struct house *h);

/* A client connects; NULL: too many ends. */
struct house_end *house_connect(struct house *h);
/* The last server that pgweir has opened; NULL: none. */
struct house_end *house_server(struct house *h);
/* TLS for new connections, if the configuration allows it: a set of these. */
enum { HOUSE_TLS_CLIENTS = 1, HOUSE_TLS_SERVERS = 2, HOUSE_TLS_12 = 4 };
void house_choose_tls(struct house *h, unsigned choice);
/* Asks for TLS, on a connection on which nothing has been said, and gets it. */
void house_secure(struct house *h, struct house_end *e, const struct secure_options *options);
/* Accepts TLS on a server's connection; the bytes received so far are the beginning. */
void house_secure_server(struct house *h, struct house_end *e, const struct secure_options *options);
/* Sends data from that end, in TLS if active; unsent bytes are tried again in later turns. */
void house_send(struct house *h, struct house_end *e, const void *data, size_t size);
/* The same, split in this way, with all turns run after each piece. TLS is split twice: into records, and the records in transit. */
void house_feed(struct house *h, struct house_end *e, const void *data, size_t size, enum fuzz_cut cut);
/* The same, below TLS. */
void house_send_raw(struct house *h, struct house_end *e, const void *data, size_t size);
void house_feed_raw(struct house *h, struct house_end *e, const void *data, size_t size, enum fuzz_cut cut);
void house_hang_up(struct house_end *e);
/* Turns until nothing moves. */
void house_settle(struct house *h);
/* The same, and time passes: time-outs, lifetimes, statistics. */
void house_tick(struct house *h, usec_t time);

/* Logs in a client with this name and protocol 3.minor, and removes its welcome from `got`. NULL: the login was refused. */
struct house_end *house_login(struct house *h, const char *user, const char *database, unsigned minor);
/* Returns the bytes sent to this end since `seen`, and advances `seen`. */
struct bytes house_news(struct house_end *e);
/* Takes messages of these types, whole or not, off the end. */
void house_trim_end(struct bytes *news, const char *types);
/*
 * An ErrorResponse keeps its complete and non-empty fields: fragmented fatal errors, and reworded errors, are rebuilt field by field, others are
 * forwarded unchanged. An incomplete ErrorResponse at the end is removed, because the part that is sent before the rest arrives depends on the
 * message that it answers.
 */
void house_trim_errors(struct bytes *news);
/* Takes NoticeResponse, NotificationResponse and ParameterStatus out, at any place: they go to the client that has the server when they
   come, and a client gets the server when its query comes. */
void house_drop_async_messages(struct bytes *news);
/*
 * After the beginning of a COPY: messages other than data and its end may be ignored with the COPY, or be answered after it, and the order depends on
 * timing. Both texts end at the beginning of a COPY.
 */
void house_trim_after_copy(struct bytes *one, struct bytes *other);
/*
 * Removes ParseComplete and CloseComplete at the end: if the pooler sends them itself, without a Flush or Sync, they come now or with the next
 * answer.
 */
void house_trim_pooler_answers(struct bytes *news);

/* The outcome of a play, compared with the outcome of the same play with another split. */
struct house_outcome {
	struct bytes client, server;	/* the client's messages since `seen`, and the server's from its first byte on */
	bool client_is_gone, server_is_gone;
};
/* The outcome of these two; NULL: no such end. The caller frees it. */
struct house_outcome house_outcome_of(const struct house_end *client, const struct house_end *server);
void house_outcome_free(struct house_outcome *o);

/* Another client connects, sends queries, and gets exactly the answers to its queries, after any input. */
void house_check_next_client(struct house *h, const char *database);
/* And with session_state = full another client finds the initial value of work_mem (backend.h). */
void house_check_initial_settings(struct house *h, const char *database);

#endif
