#ifndef PG_MESSAGE_H
#define PG_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The messages of protocol 3, one row each, in include/tbl/message.tbl. Whatever reads messages asks the row: is it legal here, has its
 * body to be seen, what will the server owe for it, which handler takes it, and may it pass unread.
 */

/* Names of the type bytes: PGC_ of what a client sends, PGS_ of what a server sends. */
enum pg_client_type {
#define CLIENT_MESSAGE(id, type, name, phases, look, owes, taken_by, unread) PGC_##id = (type),
#define SERVER_MESSAGE(id, type, name, phases, whole, taken_by)
#define ANSWER(id, to, at, does)
#include "tbl/message.tbl"
#undef CLIENT_MESSAGE
#undef SERVER_MESSAGE
};
enum pg_server_type {
#define CLIENT_MESSAGE(id, type, name, phases, look, owes, taken_by, unread)
#define SERVER_MESSAGE(id, type, name, phases, whole, taken_by) PGS_##id = (type),
#include "tbl/message.tbl"
#undef CLIENT_MESSAGE
#undef SERVER_MESSAGE
#undef ANSWER
};

/* What Describe and Close are about: the first byte of their bodies. */
#define PG_OF_STATEMENT 'S'
#define PG_OF_PORTAL 'P'

/* Where a message is legal. */
enum pg_phase {
	PG_LOGIN = 1,		/* behind the start-up message, before the first ReadyForQuery */
	PG_SESSION = 2,		/* from then on; of a client: outside of a COPY FROM */
	PG_COPY = 4		/* of a client: within one. What is legal there alone means nothing outside: it is left over */
};

/* The entry of a message in the ledger of the server that it is sent to (pg/ledger.h). Another process may be told these numbers. */
enum ledger_kind {
	LEDGER_PARSE, LEDGER_BIND, LEDGER_DESCRIBE, LEDGER_DESCRIBE_STATEMENT, LEDGER_EXECUTE, LEDGER_CLOSE,
	LEDGER_SYNC, LEDGER_QUERY, LEDGER_CALL,
	LEDGER_COPY_END,	/* a marker; no answer belongs to it */
	LEDGER_LOCAL_REPLY,	/* answered by the pooler, in its turn */
	LEDGER_NOTHING		/* no entry */
};

/* Which code takes a client's message that is looked at. */
enum pg_client_taker {
	TAKEN_BY_LOGIN,		/* login/ */
	TAKEN_BY_QUERY,		/* relay/request.c, these all: a query may set a role, and ends the unnamed statement */
	TAKEN_BY_STATEMENT,	/* prepared statements may hang on it: prepared/ */
	TAKEN_BY_REQUEST,	/* it is entered in the ledger, and goes on */
	TAKEN_BY_SYNC,		/* ... and ends a batch */
	TAKEN_BY_FLUSH,		/* ... and asks for the local replies, too */
	TAKEN_BY_COPY,		/* ... where a COPY is under way, or may be */
	TAKEN_BY_TERMINATE
};

/* When a client's message that is here as a whole may go on, by the short way, without being taken by that code. */
enum pg_unread {
	UNREAD_NEVER,
	/* with these work may begin: a client that has no server is lent one */
	UNREAD_ALWAYS,
	UNREAD_QUERY,		/* a query that cannot set a role */
	UNREAD_UNNAMED_PARSE,	/* of the unnamed statement, or where statements are not shared */
	UNREAD_UNNAMED_BIND,	/* ... and of the unnamed portal, with the client's statement at hand */
	UNREAD_PORTAL,		/* Describe of a portal */
	/* ... and with these not */
	UNREAD_SYNC,
	UNREAD_COPY_DATA	/* within a COPY */
};

struct pg_client_message {
	const char *name;	/* as the protocol documentation calls it; NULL: there is no such message */
	uint8_t type;
	uint8_t phases;		/* of enum pg_phase */
	uint8_t look;		/* bytes of the body that must be here before it may go on */
	uint8_t owes;		/* enum ledger_kind */
	uint8_t taken_by;	/* enum pg_client_taker */
};
extern const struct pg_client_message pg_client_messages[256];	/* by type */
extern const uint8_t pg_client_unread[256];			/* enum pg_unread by type: a table of its own, which is faster to ask */

/* Which code takes a server's message. */
enum pg_server_taker {
	TAKEN_AS_LOGIN,		/* backend/server_login.c */
	TAKEN_AS_ANSWER,	/* crossed off the ledger: the row below says how */
	TAKEN_AS_ASYNC,		/* at any moment, and answers nothing */
	TAKEN_AS_ERROR,
	TAKEN_AS_READY
};

struct pg_server_message {
	const char *name;
	uint8_t type;
	uint8_t phases;
	bool whole;		/* its body is looked at: wait until all of it is here */
	uint8_t taken_by;	/* enum pg_server_taker */
};
extern const struct pg_server_message pg_server_messages[256];	/* by type */

/* How far the answer to the oldest entry has come. Another process may be told these numbers. */
enum ledger_stage {
	STAGE_BEGIN,		/* also: between the statements of a Query */
	STAGE_TYPES,		/* ParameterDescription has come, RowDescription or NoData has not */
	STAGE_COPY_IN,
	STAGE_COPY_OUT,
	STAGE_COPY_BOTH,
	STAGE_ENDED,		/* Query, FunctionCall: only ReadyForQuery has not come */
	STAGES
};

/* What an answer does to the oldest entry. As far as LEDGER_CROSSES_OFF_ENDED the type of the answer says all: it may pass unread. */
enum ledger_effect {
	LEDGER_DOES_NOT_FIT,
	LEDGER_STAYS,
	LEDGER_ENDS_STATEMENT,
	LEDGER_CROSSES_OFF,
	LEDGER_CROSSES_OFF_ENDED,	/* only where a statement has ended */
	LEDGER_BEGINS_TYPES,
	LEDGER_BEGINS_COPY_IN,
	LEDGER_BEGINS_COPY_OUT,
	LEDGER_BEGINS_COPY_BOTH,
	LEDGER_ENDS_COPY_DATA,		/* the server's; CommandComplete follows */
	LEDGER_ENDS_COPY,
	LEDGER_ENDS_CALL
};
/* enum ledger_effect by stage, entry and type; to LEDGER_NOTHING nothing fits */
extern const uint8_t pg_answers[STAGES][LEDGER_NOTHING + 1][256];

/* Row of a message that a client sends in one of these phases; NULL: there is none of this type. */
static inline const struct pg_client_message *pg_client_message(uint8_t type, unsigned phases)
{
	return pg_client_messages[type].phases & phases ? &pg_client_messages[type] : NULL;
}
/* The same of a server. */
static inline const struct pg_server_message *pg_server_message(uint8_t type, unsigned phases)
{
	return pg_server_messages[type].phases & phases ? &pg_server_messages[type] : NULL;
}
/* Whether this is the transaction status of a ReadyForQuery. */
static inline bool pg_is_status(uint8_t byte)
{
	return byte == 'I' || byte == 'T' || byte == 'E';
}

#endif
