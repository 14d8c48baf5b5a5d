#ifndef BACKEND_SERVER_LOGIN_H
#define BACKEND_SERVER_LOGIN_H

#include "backend/derivation.h"
#include "backend/dial_step.h"
#include "conn/world.h"
#include "pg/scram.h"

/* The most start-up parameters of a replication client that go to its server as they came. */
#define REPLICATION_PAIRS 32

/* What a server that refuses the login has said of itself. */
enum server_refusal { SERVER_REFUSAL_OTHER, SERVER_REFUSAL_AWAY, SERVER_REFUSAL_FULL };

/* What a server connection needs only while it is being opened. */
struct dial {
	struct server *server;		/* the server it belongs to */
	enum dial_step step;		/* set by dial_step_to */
	char host[256];
	unsigned *order;		/* places in the list of hosts, in the order in which they are tried; NULL: only `host` */
	unsigned order_count, order_at;
	bool is_reached;		/* the present host has taken a connection */
	unsigned generation;		/* of the pool, when the dial began */
	usec_t way_ends;		/* then the next address or host is tried; 0: there is none, or no limit */
	int port;
	struct dns_request *request;
	struct address one, *addresses;	/* addresses: own array, or &one */
	int address_count, next_address;
	struct tls_context *tls;	/* held: a RELOAD may bring another one, or none, before it is used; a cancel
					   request goes the way its target went */
	int error;			/* errno of the last address that could not be connected to */
	enum server_refusal refusal;	/* AWAY: it is not ready, FULL: nor has it a place; that passes by itself */
	struct scram_prover scram;	/* from DIAL_SASL on */
	struct derivation_wait derivation;	/* DIAL_DERIVE */
	struct bytes challenge;		/* DIAL_DERIVE: the server's message that is answered afterwards */
	uint8_t derived_of[32];		/* keyed digest of the secret of the key that is derived */
	void (*connected)(struct server *server);	/* of the connection for a cancel request */
	struct bytes kept;		/* start-up parameters of its only client (replication): name\0value\0 ... */
	struct bytes welcome;		/* ParameterStatus messages of parameters that are not tracked */
};

/* The connection stands: sends the StartupMessage. */
void server_login_begin(struct server *server);
/* Ends it for saying what it must not say. */
void server_login_broken(struct server *server, const char *detail);
/* Takes what the server says until ReadyForQuery. */
void server_login_read(struct server *server, bool from_socket);

#endif
