#ifndef CONN_RETRY_H
#define CONN_RETRY_H

#include "base/bytes.h"
#include "base/clock.h"
#include "pool/host.h"
#include "sql/read_names.h"

/*
 * The request of a client that asks for a role: see relay/retry.c, which writes it.
 */
/* bytes of a request that are kept, and of an answer that is held back */
#define RETRY_MOST (16 * 1024)

enum read_step {
	AUTO_NOT,			/* any other request, or one for the primary */
	/* the primary is asked for the definitions that the text depends on, and gets the statement
	   afterwards */
	AUTO_ASKS,
	/* the last server was lost and may have executed the statement: the next one is asked about
	   the definitions first, and gets the statement if it only reads */
	AUTO_DOUBTED,
	/* the statement is for a standby, or for the primary if no standby suits */
	AUTO_AWAY
};

struct retry {
	/* messages of the client since the server owed nothing; empty if is_cut */
	struct bytes request;
	/* world->loop.turns when its first byte was sent; 0, the number of no turn, after the
	   server has sent something */
	uint64_t sent_in;
	/* bytes that the server got since it owed nothing, also if is_cut */
	size_t sent;
	bool is_cut;			/* the request is longer than RETRY_MOST */
	bool is_unsent;			/* the socket has refused the whole request */
	/* the request begins a transaction, the client may get another server, and has no part of
	   the answer */
	bool is_first;
	bool is_bound;			/* the session of the server may have state of the client */
	/* Of a client that waits for the verdict on its host, pooled.is_held. */
	/* the answer if the host is still the primary: ErrorResponse, and ReadyForQuery unless
	   fatal */
	struct bytes answer;
	size_t taken;			/* bytes of the request at the front of peer.held */
	struct host *host;		/* that has answered; a reference, or NULL */
	usec_t since;			/* when that was */
	bool is_fatal;
	/* A single statement that may only read: see relay/read_auto.h. */
	enum read_step step;
	bool says;			/* the answer to the question */
	bool is_canceled;		/* a cancel request was sent for the statement */
	/* the error of the answer is due to the client, and not to the text */
	bool is_ended;
	/* the question is about the names of all texts with a verdict */
	bool is_of_all;
	/* the text without its literals, by its hash; the whole text. Equal if it has none */
	uint64_t key, text_key;
	/* database->roles->written->definitions when the question was made ... */
	uint64_t definitions;
	usec_t asked_at;		/* ... and when that was */
	size_t size;			/* bytes of the request */
	struct bytes question;		/* for the catalogue */
	struct read_set names;		/* that the question is about, unless is_of_all */
};

#endif
