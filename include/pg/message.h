#ifndef PG_MESSAGE_H
#define PG_MESSAGE_H

#include "pg/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The messages of protocol 3, one row each, in include/tbl/message.tbl: where a message is legal,
 * how much of its body must be read, which answers the server then owes, which code handles it, and
 * when it may be forwarded unread.
 */

/* Type bytes: PGC_ of messages of a client, PGS_ of messages of a server. */
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

/* The first byte of the body of Describe and Close. */
#define PG_OF_STATEMENT 'S'
#define PG_OF_PORTAL 'P'

/* The phases in which a message is legal. */
enum pg_phase {
	PG_LOGIN = 1,		/* after the start-up message, until the first ReadyForQuery */
	PG_SESSION = 2,		/* after that; of a client: outside of a COPY FROM */
	/* of a client: within a COPY FROM. Messages that are legal only there are ignored in
	   PG_SESSION: they may be late */
	PG_COPY = 4
};

/* The entry of a message in the ledger of its server (pg/ledger.h). A handover sends these
   numbers. */
enum ledger_kind {
	LEDGER_PARSE,
	LEDGER_BIND,
	LEDGER_DESCRIBE,
	LEDGER_DESCRIBE_STATEMENT,
	LEDGER_EXECUTE,
	LEDGER_CLOSE,
	LEDGER_SYNC,
	LEDGER_QUERY,
	LEDGER_CALL,
	LEDGER_COPY_END,    /* a marker, without an answer */
	LEDGER_LOCAL_REPLY, /* answered by pgweir when it is the oldest entry */
	LEDGER_NOTHING	    /* no entry */
};

/* When a complete message of a client may be forwarded by the fast path: see the functions pass_...
   in relay/client_message.c. */
enum pg_unread {
	UNREAD_NEVER,
	/* these may begin work: a client without a server gets one */
	UNREAD_ALWAYS,
	UNREAD_QUERY,		/* a query, which cannot set a role */
	UNREAD_UNNAMED_PARSE,	/* of the unnamed statement, or if statements are not shared */
	/* ... and of the unnamed portal, if the server has the client's statement */
	UNREAD_UNNAMED_BIND,
	UNREAD_PORTAL,		/* Describe of a portal */
	/* these do not */
	UNREAD_SYNC,
	UNREAD_COPY_DATA	/* within a COPY */
};

struct pg_client_message {
	const char *name;	/* in the protocol documentation; NULL: there is no such message */
	uint8_t type;
	uint8_t phases;		/* of enum pg_phase */
	/* bytes of the body that must have arrived before it is forwarded */
	uint8_t look;
	uint8_t owes;		/* enum ledger_kind */
};
extern const struct pg_client_message pg_client_messages[256];	/* by type */
/* The message may begin work and may be forwarded unread: a client without a server gets one. By
   type. */
extern const bool pg_client_begins[256];

/* The code that handles a message of a server. */
enum pg_server_taker {
	TAKEN_AS_LOGIN,		/* backend/server_login.c */
	TAKEN_AS_ANSWER,	/* crossed off the ledger: see pg_answers */
	TAKEN_AS_ASYNC,		/* sent at any time, and no answer */
	TAKEN_AS_ERROR,
	TAKEN_AS_READY
};

struct pg_server_message {
	const char *name;
	uint8_t type;
	uint8_t phases;
	bool whole;		/* its body is read: wait until it is complete */
	uint8_t taken_by;	/* enum pg_server_taker */
};
extern const struct pg_server_message pg_server_messages[256];	/* by type */

/* The progress of the answer to the oldest entry. A handover sends these numbers. */
enum ledger_stage {
	STAGE_BEGIN,		/* also: between the statements of a Query */
	STAGE_TYPES,		/* after ParameterDescription, before RowDescription or NoData */
	STAGE_COPY_IN,
	STAGE_COPY_OUT,
	STAGE_COPY_BOTH,
	STAGE_ENDED,		/* of Query, FunctionCall: only ReadyForQuery is missing */
	STAGE_COPY_LAST,	/* after the server's CopyDone of a CopyBoth; CopyData may follow */
	STAGES
};

/* The effect of an answer on the oldest entry. Answers with effects up to LEDGER_CROSSES_OFF_ENDED
   may be forwarded unread: their types suffice. */
enum ledger_effect {
	LEDGER_DOES_NOT_FIT,
	LEDGER_STAYS,
	LEDGER_ENDS_STATEMENT,
	LEDGER_CROSSES_OFF,
	LEDGER_CROSSES_OFF_ENDED,	/* only if a statement has ended */
	LEDGER_BEGINS_TYPES,
	LEDGER_BEGINS_COPY_IN,
	LEDGER_BEGINS_COPY_OUT,
	LEDGER_BEGINS_COPY_BOTH,
	/* of the server; CommandComplete follows, or other results */
	LEDGER_ENDS_COPY_DATA,
	LEDGER_BEGINS_COPY_LAST,
	LEDGER_ENDS_COPY,
	LEDGER_ENDS_CALL
};
/* enum ledger_effect by stage, entry and type; no answer fits LEDGER_NOTHING */
extern const uint8_t pg_answers[STAGES][LEDGER_NOTHING + 1][256];

/* Returns the row of a message of a client in one of these phases; NULL: no message of this type is
   legal. */
static inline const struct pg_client_message *pg_client_message(uint8_t type, unsigned phases)
{
	return pg_client_messages[type].phases & phases ? &pg_client_messages[type] : NULL;
}
/* Returns the row of a message of a server in one of these phases; NULL: no message of this type is
   legal. */
static inline const struct pg_server_message *pg_server_message(uint8_t type, unsigned phases)
{
	return pg_server_messages[type].phases & phases ? &pg_server_messages[type] : NULL;
}
/* Whether the byte is a transaction status of ReadyForQuery. */
static inline bool pg_is_status(uint8_t byte)
{
	return byte == 'I' || byte == 'T' || byte == 'E';
}

/*
 * Command tags (the text of CommandComplete) of commands with an effect beyond the command. Tags
 * that concern every link are recognised by their sizes first, with the NUL: the tags of most
 * statements (SELECT 1, BEGIN, COMMIT) have other sizes, and are not compared. Tags of shorter
 * sizes concern only clients with session_state = full.
 */
#define TAG_DO_SIZE sizeof("DO")
#define TAG_SET_SIZE sizeof("SET")
#define TAG_CALL_SIZE sizeof("CALL")
#define TAG_RESET_SIZE sizeof("RESET")
#define TAG_DISCARD_ALL_SIZE sizeof("DISCARD ALL")
#define TAG_DEALLOCATE_ALL_SIZE sizeof("DEALLOCATE ALL")
/* the shortest tag of CREATE, ALTER, DROP and similar commands; all longer tags are read */
#define TAG_DEFINITION_SIZE sizeof("DROP VIEW")
#define TAG_SIZES \
	(1ull << TAG_DO_SIZE | 1ull << TAG_SET_SIZE | 1ull << TAG_CALL_SIZE | \
	 1ull << TAG_RESET_SIZE | ~0ull << TAG_DEFINITION_SIZE)
#define TAG_ANY_SIZE (~1ull)
/* limit of bytes of a tag; all tags of PostgreSQL are shorter */
#define TAG_LONGEST 63

enum pg_tag {
	TAG_NOTHING,
	TAG_SET,		/* SET or RESET */
	TAG_CODE,		/* DO or CALL */
	TAG_DISCARD_ALL,
	TAG_DEALLOCATE_ALL,
	TAG_ALTER,		/* ALTER of anything else */
	/* ALTER ROLE or ALTER DATABASE, which may change the initial values of parameters of new
	   sessions */
	TAG_ALTER_SESSIONS,
	TAG_DROP,		/* DROP of anything */
	TAG_CREATE,		/* CREATE of a table, an index or a sequence */
	TAG_DEFINE,		/* CREATE of anything else: a view, a function, a type */
	TAG_DISCARD,		/* DISCARD of a part: TEMP, PLANS */
	TAG_DISCARD_SEQUENCES,
	TAG_PREPARE,
	TAG_DEALLOCATE,		/* of one statement */
	TAG_CLOSE,		/* CLOSE of one cursor, or of all */
	TAG_LISTEN,		/* LISTEN or UNLISTEN */
	TAG_LOAD
};

/* Whether a text may have another meaning after the command, without an error. Example: ALTER TABLE
   t ALTER a TYPE text gives $1 in WHERE a = $1 another type. Not CREATE TABLE: it changes only
   texts that named no table, or a table of another schema, and temporary tables are created in each
   transaction. */
static inline bool pg_tag_changes_meaning(enum pg_tag tag)
{
	return tag == TAG_ALTER || tag == TAG_ALTER_SESSIONS || tag == TAG_DROP ||
	       tag == TAG_DEFINE;
}

/* Whether a message of a server with this type and this size of its body may have a tag of enum
   pg_tag. `sizes`: TAG_ANY_SIZE, or TAG_SIZES for the tags that concern every link. */
static inline bool pg_tag_may_tell(uint8_t type, uint32_t size, uint64_t sizes)
{
	return type == PGS_COMPLETE && size <= TAG_LONGEST && (sizes >> size & 1);
}
/* The quick test of such a tag, of `size` bytes, at least 1: false for nearly all, by the first
   letter. */
static inline bool pg_tag_tells(const uint8_t *tag, uint32_t size)
{
	const uint32_t letters = 1u << ('A' - '@') | 1u << ('C' - '@') | 1u << ('D' - '@') |
				 1u << ('L' - '@') | 1u << ('P' - '@') | 1u << ('U' - '@');

	return (letters >> (*tag & 31) & 1) || size == TAG_SET_SIZE || size == TAG_RESET_SIZE;
}
/* Reads the `size` bytes of a tag for which pg_tag_may_tell() is true. */
enum pg_tag pg_tag_read(const uint8_t *tag, uint32_t size);

/*
 * The fields of ErrorResponse and NoticeResponse that pgweir reads: texts in the body; "" for a
 * missing field.
 */
struct pg_error {
	const char *severity;	/* field V, else S */
	const char *sqlstate;	/* field C */
	const char *message;	/* field M */
	const char *detail;	/* field D */
	const char *hint;	/* field H */
};

/* Reads a complete body. PG_BAD, and every text is "": a field does not end, or the list of fields
   does not end where the body ends. Never PG_MORE. */
enum pg_verdict pg_error_read(const uint8_t *body, size_t size, struct pg_error *out);

/* Whether the first n bytes of the body of an ErrorResponse have the severity FATAL or PANIC, so
   that the server closes the connection after the message. */
bool pg_error_is_fatal(const uint8_t *body, size_t n);

#endif
