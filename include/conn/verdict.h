#ifndef CONN_VERDICT_H
#define CONN_VERDICT_H

/*
 * The verdict on a message. Room relay acts on it; rooms below it that examine a message, for
 * example prepared and state, return it.
 */
enum verdict {
	VERDICT_PASS,		/* forward the message */
	VERDICT_SWALLOW,	/* do not forward the message */
	VERDICT_MORE,		/* more of the message must arrive */
	/* the client gets no server yet, or its server must answer first; of a server: a
	   ReadyForQuery is held back */
	VERDICT_WAIT,
	VERDICT_GONE,		/* the client or the server has ended */
	VERDICT_NO_MEMORY,	/* the ledger may be wrong */
	/* in the next turn: the connection has used its share of this turn */
	VERDICT_LATER,
	VERDICT_INVALID,	/* the server may not send the message now */
	VERDICT_BROKEN,		/* the socket of the server is broken */
	/* messages of servers */
	VERDICT_READY,		/* a ReadyForQuery for the client */
	/* a ReadyForQuery in an open transaction, in statement mode */
	VERDICT_REFUSE,
	VERDICT_FATAL,		/* an error without a request: the server is about to end */
	/* the answer to task_leave (relay/release.h), the last message of the server */
	VERDICT_LAST
};

#endif
