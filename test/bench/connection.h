#ifndef BENCH_CONNECTION_H
#define BENCH_CONNECTION_H

#include "wire.h"

#include <stdint.h>

#include "base/bytes.h"

/* A client's connection: TLS, login, and those messages of the server that matter to a load generator. */
#define CARRY_MOST 512			/* the longest message that is read whole */

struct scram_prover;

enum connection_phase { ASKING_TLS, SHAKING_HANDS, LOGGING_IN, LOGGED_IN };

struct connection {
	struct wire wire;
	enum connection_phase phase;
	unsigned generation;		/* how many times it has connected */
	uint32_t skip;			/* bytes of a message that are still to come and are not looked at */
	size_t carried;			/* bytes of an incomplete message */
	uint8_t carry[CARRY_MOST];
	bool is_again;			/* has more to read that no event will announce */
	struct connection *next_again;
	struct bytes startup;		/* sent when TLS is up */
	struct scram_prover *prover;	/* during a login that asks for it */
	SSL_SESSION *ticket;
};

/* Parameters shared by all connections. */
struct connection_target {
	const char *host, *port, *password;	/* password: NULL for none */
	const char *from;			/* address that connections come from, because ports are finite; NULL: any */
	bool tls, offers_ticket;
	/* Events of a connection; each callback may close the connection, and reconnect. */
	void (*logged_in)(struct connection *c, bool resumed);	/* resumed: its TLS session, from a ticket */
	void (*ready)(struct connection *c);			/* a ReadyForQuery after the login */
	void (*received)(struct connection *c, size_t bytes);
	void (*error)(struct connection *c, const char *message);	/* an ErrorResponse; the connection continues */
	void (*broken)(struct connection *c, const char *why);	/* already closed */
};

/* To be called once, before anything else. `target` is not copied. */
void connections_begin(const struct connection_target *target);
/* Waits for events for at most this number of milliseconds, and handles them. */
void connections_wait(int milliseconds);
/* Opens a connection. A zeroed struct is a connection that was never open. */
void connection_dial(struct connection *c, const char *user, const char *database);
/* Sends all of it. */
void connection_send(struct connection *c, const struct bytes *bytes);
/* From now on nothing of it is read but by connection_read. */
void connection_hold(struct connection *c);
/* Reads and handles available data, at most this number of bytes (READ_SIZE of connection.c). */
void connection_read(struct connection *c, size_t most);
/* Says Terminate and closes. */
void connection_leave(struct connection *c);

#endif
