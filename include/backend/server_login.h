#ifndef BACKEND_SERVER_LOGIN_H
#define BACKEND_SERVER_LOGIN_H

#include "backend/derivation.h"
#include "conn/world.h"
#include "pg/scram.h"
#include "pool/host.h"

/* Maximum number of start-up parameters of a replication client that are sent to its server
   unchanged. */
#define REPLICATION_PAIRS 32

/*
 * Login at a server. Promise: a message out of order ends the server with a precise reason.
 */
enum dial_step {
#define DIAL_STEP(id, words, moves) DIAL_##id,
#include "tbl/dial_step.tbl"
#undef DIAL_STEP
	DIAL_STEPS
};

/* The state of the server after a refused login: not ready (AWAY), or without a free connection
   (FULL). */
enum server_refusal { SERVER_REFUSAL_OTHER, SERVER_REFUSAL_AWAY, SERVER_REFUSAL_FULL };

/* Data of a server connection that is being opened. */
struct dial {
	struct server *server;		/* the server it belongs to */
	enum dial_step step;		/* set by dial_step_to */
	char host[256];
	/* places in the list of hosts, in the order of this dial; NULL: only `host` */
	unsigned *order;
	unsigned order_count, order_at;
	bool is_reached;		/* the present host has taken a connection */
	/* the dial has passed over a host, because its budget is used up */
	bool has_skipped;
	unsigned generation;		/* of the pool, when the dial began */
	/* of two secrets in the user list: the login uses the old one; it has used the other one
	   before */
	bool uses_old, has_tried_both;
	usec_t begun_at;		/* when StartupMessage was sent */
	/* when the next address or host is tried; 0: there is none, or no limit */
	usec_t way_ends;
	int port;
	struct dns_request *request;
	struct address one, *addresses;	/* addresses: own array, or &one */
	int address_count, next_address;
	/* a reference, because a RELOAD may replace it; a cancel request uses the context of its
	   target */
	struct tls_context *tls;
	int error;			/* errno of the last failed connect */
	/* why the last address has failed, for struct host_failure; written by
	   note_dead_address() */
	enum close_reason failed_why;
	char failed_text[HOST_WHY];
	/* AWAY and FULL end without a change of the configuration */
	enum server_refusal refusal;
	struct scram_prover scram;	/* from DIAL_SASL on */
	struct derivation_wait derivation;	/* DIAL_DERIVE */
	/* DIAL_DERIVE: the server's message, which is answered after the derivation */
	struct bytes challenge;
	uint8_t derived_of[32];		/* keyed digest of the secret of the key that is derived */
	void (*connected)(struct server *server);	/* of the connection for a cancel request */
	/* start-up parameters of its only client (replication): name\0value\0 ... */
	struct bytes kept;
	/* ParameterStatus messages of parameters that are not tracked */
	struct bytes welcome;
};

/* The server is connected: sends the StartupMessage. */
void server_login_begin(struct server *server);
/* Reads and processes messages of the server until ReadyForQuery. */
void server_login_read(struct server *server, bool from_socket);

#endif
