#ifndef RELAY_RELEASE_H
#define RELAY_RELEASE_H

#include "conn/world.h"
#include "pg/frame.h"

/*
 * The end of a link: when the server of a client is free, and its next state. See release.c.
 */

/* The facts on which the decision depends. */
struct release_view {
	bool shares_server;		/* the server is lent for a transaction or statement */
	bool client_ends;		/* the client is ending */
	bool is_stream;			/* a replication client */
	bool is_stopped;		/* the connection, or its client, is ending */
	bool owes;			/* answers are owed, as far as the ledger knows */
	bool in_doubt;			/* the ledger does not know yet whether an answer is owed */
	bool is_lost;			/* ... and never will */
	bool in_batch;			/* messages without a Sync after them have been sent */
	bool in_transaction;
	bool has_task, task_ends_alone;	/* a task is executed; it can end without the client */
	bool said_fatal;		/* the server has sent a fatal error */
	bool in_answer;			/* a message of the server is incomplete */
	/* input of the server is not processed yet; ... complete messages */
	bool holds_input, holds_first;
	bool has_unsent;		/* bytes for the server wait to be sent */
	bool in_message;		/* a message of the client is incomplete ... */
	bool in_copy_data;		/* ... which is CopyData that can be completed */
	/* the client has sent a request, and the server has not got it */
	bool is_about_to_send;
	bool is_canceled;		/* cancel requests are on their way to the server */
	bool has_state;			/* the session has state of the client, or may have */
	bool is_pinned;			/* by PIN_PARAMETERS, as after RELEASE_PIN */
	/* the state stays in the session, because the client ends */
	bool leaves_state;
	bool needs_reset;		/* server_reset_query is to run after the link */
	/* the server is to be closed: server_lifetime, close_reason */
	bool is_spent;
	/* client_gone: a query or transaction may end without the client */
	bool may_finish;
};

enum release_what {
	RELEASE_KEEP,			/* the link continues */
	RELEASE_PIN,			/* ... until the client leaves: PIN_PARAMETERS */
	RELEASE_ASK,			/* the server is asked for the state of the client */
	RELEASE_SETTLE,			/* an empty query shows that nothing is owed */
	/* the link ends; the query and the transaction of the client end without it: finish.c */
	RELEASE_FINISH,
	/* the server ends after its answers, and the client gets another one */
	RELEASE_MOVE,
	/* the link ends; server_reset_query runs, then the server is idle */
	RELEASE_RESET,
	/* the link ends; after cancel requests and listeners the server is idle
	   (server_next_state) */
	RELEASE_RETURN,
	RELEASE_CLOSE			/* the link ends, and the server is closed */
};

struct release {
	enum release_what what;
	const char *why;
};

/* Pure: the verdict depends on the view only. For clients that stay and, with client_ends, for
   clients that end. */
struct release release_decide(const struct release_view *view);

/* An empty query: its answer resolves a doubt of the ledger. */
extern const struct server_task task_barrier;
/* A query whose answer separates the answers for the client from later answers, when the ledger
   does not know which answers the server owes. The client gets all messages of the server before
   the answer to the query. */
extern const struct server_task task_leave;

/* Ends the link if the server is free, or takes the next step towards that. In session mode only
   sets application_name, if it lacks the address. Nothing for a server without a client. */
void release_check(struct server *server);
/* release_check(), unless answers are pending. */
static inline void release_if_over(struct server *s)
{
	/* mostly the server has not answered yet */
	if (ledger_depth(&s->ledger) == 0)
		release_check(s);
}
/* Another client needs the server, which this client keeps only for values of sequences
   (session_values_may_yield). True: the server was free, and has returned to its pool, or returns
   after task_values. */
bool release_yielded(struct server *server);
/* For the reap: the client ends, and is left to the caller. The server returns to its pool, settles
   a doubt without the client, or ends. */
void release_ended_client(struct server *server);
/* The server is FINISHING: its client has left a query or transaction, and `lacks` bytes of its
   last CopyData are missing. `has_terminated`: the client has sent Terminate, and its query is not
   cancelled. The server may end. */
void finish_begin(struct server *server, uint32_t lacks, bool has_terminated);
/* Takes the next step after an answer, or after the end of a cancel request; nothing in other
   states. */
void finish_continue(struct server *server);
/* Cancels the query after client_gone_delay, and closes the server after client_gone_timeout. */
void finish_tick(struct server *server);
/* Whether nothing of a client is left in the server: no owed answer, no transaction, no incomplete
   message. */
bool server_is_clean(const struct server *server);
/* Whether the next message of the server, with n > 0 bytes at `at`, is the answer to task_leave,
   which follows all others. PG_OK: it is; PG_MORE: more bytes are needed; PG_BAD: it is not. */
enum pg_verdict release_look_for_reply(const struct server *server, const uint8_t *at, size_t n);

#endif
