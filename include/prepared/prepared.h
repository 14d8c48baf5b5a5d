#ifndef PREPARED_PREPARED_H
#define PREPARED_PREPARED_H

#include "conn/gather.h"
#include "conn/verdict.h"
#include "pg/frame.h"
#include "pg/message.h"
#include "pg/request_text.h"
#include "sql/sql_commands.h"
#include "sql/statement.h"

/*
 * Prepared statements of the protocol ("Extended Query" in the PostgreSQL documentation) for
 * clients that share a server, and the entry points of the room: send.c handles messages of
 * clients, answer.c handles answers of servers. statements.c explains the states of a name and of
 * an entry.
 */

/*
 * A statement name of a client. `sent` is its statement after the messages sent so far, `confirmed`
 * after the last answer; NULL: none. They differ only while changes are in flight, all of them in
 * one batch.
 */
struct prepared_name {
	UT_hash_handle hh;
	struct statement *sent, *confirmed;
	/* the statement that the name had before it moved to the same text under other parameters;
	   else NULL */
	struct statement *original;
	uint32_t in_flight;		/* changes without an answer */
	uint32_t batch;			/* server->batch of the last change */
	uint32_t refs;			/* of the table, the journal and struct prepared_sql */
	uint32_t cost;			/* its part of prepared_client.bytes */
	/* hashes of the types that the client received for `sent` and `confirmed`; 0: unknown */
	uint64_t types, confirmed_types;
	uint32_t handover_index;	/* in the record of a handover */
	/* in prepared_client.confirmed_names while `confirmed` is not NULL */
	struct list confirmed_link;
	bool in_table;			/* of its client */
	char text[];
};

/*
 * Why a Bind or Describe of the unnamed statement takes the careful path. The text sent last, or
 * any text that is current if changes in flight fail, may be DEALLOCATE ALL or DISCARD ALL, or name
 * statements, or ask for values of sequences. Another cause: the client has bound its statement
 * again without a Parse, so pgweir asks for the types of its texts; or it has sent a Parse with
 * SIGNAL_PREPARED (sql/signal_text.h).
 */
enum {
	UNNAMED_SENT = 1,
	UNNAMED_OTHER = 2,
	UNNAMED_DEALLOCATES = UNNAMED_SENT | UNNAMED_OTHER,
	UNNAMED_REUSED = 4,
	UNNAMED_SIGNALS = 8,
	UNNAMED_LASTS = UNNAMED_REUSED | UNNAMED_SIGNALS	/* for the rest of the connection */
};

/* A prepared statement that SQL names: see rewrite.c. */
struct prepared_sql_name {
	struct prepared_name *name;	/* NULL: not a name of the client */
	bool drops;			/* the command is DEALLOCATE */
	uint8_t end_size;
	/* the types differ from the types that the client received: the SQL must fail */
	bool types_differ;
	/* of the server's name that replaces the client's; "": none */
	char end[STATEMENT_END_MOST];
};

/* The last SQL with names of statements that a client sent. */
struct prepared_sql {
	uint64_t server;		/* id of its server */
	uint32_t batch;
	/* the change of the unnamed statement that has this text; 0: none */
	uint32_t number;
	/* the number of the statement that has this text; 0: none */
	uint64_t statement;
	/* all names; names up to the last that DEALLOCATE has dropped */
	uint32_t count, deallocated;
	struct prepared_sql_name names[];
};

/* The types of a client's unnamed statement. */
struct unnamed_types {
	/* of the first types that a server described; 0: none yet */
	uint64_t hash;
	bool told;			/* the client has received these types */
	uint64_t meanings;		/* world->meanings when the text was sent */
	/* a later transaction may have changed the meaning of texts */
	bool in_doubt;
	bool differ;			/* another server described other types */
};

/* The prepared statements of a client. */
struct prepared_client {
	struct prepared_name *names;	/* uthash */
	struct list confirmed_names;
	size_t bytes;			/* of names and their texts: for max_prepared_memory */
	/* texts of the unnamed statement, as in a Parse after the name: the current text, and while
	   changes are in flight the confirmed one */
	struct bytes text, confirmed_text;
	bool has_text, has_confirmed_text;	/* such a text exists and was stored */
	/* changes of the unnamed statement without an answer; the batch of the last */
	uint32_t in_flight, batch;
	uint32_t number;		/* counts changes of the unnamed statement */
	struct unnamed_types unnamed_types, confirmed_unnamed_types;
	/* number of the statement that is parsed and described for the waiting message; 0: none */
	uint64_t awaited;
	/* SQL with names waits until their statements are described */
	bool sql_waits;
	uint8_t unnamed_care;		/* UNNAMED_ bits */
	/* a waiting message has ended the client with this number (pg_terminate_backend); 0:
	   none */
	uint32_t signal_done;
	/* a message in flight, or an open portal, may be DEALLOCATE ALL or DISCARD ALL */
	bool deallocates;
	size_t journal_texts;		/* bytes of texts that the journal holds, at most */
	/* the last Parse of the unnamed statement that a COPY may have swallowed: id of the server
	   (0: none) and batch */
	uint64_t uncertain_server;
	uint32_t uncertain_batch;
	/* the last such Parse with a name: the name with its batch, not in the table and not handed
	   over (NULL: none), and id of the server */
	struct prepared_name *uncertain_name;
	uint64_t uncertain_name_server;
	struct prepared_sql *sql;	/* NULL: none */
};

/* Whether the server parsed a text under the parameters of the statement. */
enum parse_validity {
	PARSE_VALID,
	/* yes, unless the server reports other parameters before ReadyForQuery, or an error resets
	   them */
	PARSE_UNCERTAIN,
	/* no: the text has another meaning, and the entry is not used */
	PARSE_INVALID
};

/* A statement on a server: `sent`, `confirmed`, `in_flight` and `batch` as in struct
   prepared_name. */
struct prepared_entry {
	UT_hash_handle hh;
	struct list lru_link;		/* in prepared_server.lru while `sent` */
	/* in one of three lists of prepared_server while `confirmed` */
	struct list confirmed_link;
	struct statement *statement;
	uint32_t in_flight;
	uint32_t batch;
	bool sent, confirmed;		/* present on the server */
	uint8_t validity;		/* enum parse_validity, of the confirmed Parse */
	bool describing;		/* a Describe by pgweir has no answer yet */
	/* hash of the types that the server described; 0: unknown */
	uint64_t types;
};

/* A message with MARK_PREPARED in the server's ledger. */
struct prepared_op {
	uint8_t kind;			/* enum op_kind */
	bool is_last_change;		/* the last change of the unnamed statement */
	uint8_t validity;		/* enum parse_validity, of a Parse by pgweir */
	/* the change leaves an unnamed statement, and its text is stored: in `text`, or in the
	   client for the last change */
	bool has_text : 1;
	/* a Sync by pgweir follows: the client does not get an error */
	bool is_internal : 1;
	struct bytes *text;		/* owned */
	struct prepared_name *name;	/* NULL: none */
	struct statement *statement;	/* NULL: none */
};

/* The prepared statements of a server. */
struct prepared_server {
	struct prepared_entry *entries;	/* uthash */
	struct list lru;		/* least recently used first */
	struct list confirmed;		/* confirmed entries, except ... */
	/* PARSE_UNCERTAIN; the second list: statement_may_differ() */
	struct list uncertain, uncertain_literals;
	bool has_uncertain;		/* entries may be in these two lists */
	uint32_t count;			/* of entries that are present as sent */
	/* of these entries and their texts: for max_prepared_memory */
	size_t bytes;
	/* 1 + the batch of the last completed SET or RESET of a client; 0: none */
	uint32_t set_batch;
	/* 1 + the batch of the last message with an unknown name; 0: none */
	uint32_t missing_name_batch;
	struct prepared_op *ops;	/* the journal: a ring, oldest first */
	uint32_t op_count, op_capacity;	/* the capacity is a power of two */
	size_t journal_bytes;		/* of texts and names that only the journal may hold */
	/* number of the oldest operation, counted from the start of the connection */
	uint64_t op_first;
	/* hash of a ParameterDescription, until the RowDescription arrives */
	uint64_t types;
	/* operations before this number that are PARSE_UNCERTAIN are PARSE_INVALID */
	uint64_t invalid_before;
	/* ... and, for statements with statement_may_differ(), operations before this number */
	uint64_t literals_invalid_before;
	/* prepared_client.number of the client in server->unnamed_of */
	uint32_t unnamed_number;
	uint32_t unnamed_in_flight, unnamed_batch;
	/* the unnamed statement is that client's also if the messages in flight are skipped */
	bool unnamed_confirmed;
	bool unnamed_describing;	/* a Describe by pgweir has no answer yet */
	struct statement_names names;
};

/* ---- messages of clients: send.c, unnamed.c ---- */

/* Handles a Parse, Bind, Describe or Close of a client for its server: enters it in the ledger and
   gathers the messages before it. VERDICT_PASS: forward the frame without its first *skip bytes,
   whose replacement is gathered; SWALLOW: a local reply or a gathered message replaces the frame;
   MORE: more of the frame is needed; WAIT: call again after more answers, or after the server has
   taken the bytes sent so far; GONE: the client has ended, by max_prepared_memory; NO_MEMORY. */
enum verdict prepared_send(struct client *client, struct server *server,
			   const struct pg_frame *frame, struct gather *gather, size_t *skip);
/* Whether more of a message about a prepared statement must arrive before it is handled, so that
   its client needs no server yet. False for a Parse if the read buffer is too small for it: it is
   collected or forwarded while the client has a server. */
bool prepared_is_incomplete(const struct pg_frame *frame);
/* Handles a complete Parse of the unnamed statement, which the caller forwards unchanged: `text` is
   its body after the name. False: no memory. */
bool prepared_send_unnamed_parse(struct client *client, struct server *server, const uint8_t *text,
				 size_t size);
/* Handles a Query for which prepared_query_may_name() is true. */
enum verdict prepared_send_sql(struct client *client, struct server *server,
			       const struct pg_frame *frame, struct gather *gather);
/* Finds the text that a message of the client brings or names: see request_text_read(). The name in
   a Bind stands for the client's last statement of this name or, if a Close is in flight, for the
   statement on the server. */
bool prepared_request_text(const struct client *client, const struct pg_frame *frame,
			   struct request_text *text);
/* The client sends a Parse with SIGNAL_PREPARED; or, after a handover, whether it has sent one is
   found out. */
void prepared_note_signals(struct client *client);
void prepared_find_signals(struct client *client);
/* Enters any other Query in the ledger; the Query ends the unnamed statement. False: no memory. */
bool prepared_send_query(struct client *client, struct server *server);

/* Whether a Bind or Describe of the unnamed statement may be forwarded unchanged. */
static inline bool prepared_has_unnamed(const struct client *c, const struct server *s)
{
	const struct prepared_client *pc = c->prepared;
	const struct prepared_server *ps = s->prepared;

	return ps && pc && !pc->unnamed_care && s->unnamed_of == c->peer.id &&
	       ps->unnamed_number == pc->number &&
	       (ps->unnamed_batch == s->batch ||
		(s->status == 'I' && ledger_is_empty(&s->ledger))) &&
	       (ps->unnamed_in_flight == 0 || ps->unnamed_confirmed ||
		ps->unnamed_batch == s->batch);
}
/* Whether the text of a Query may name or deallocate prepared statements of the client, as EXECUTE
   does: see prepared_send_sql(). `text` holds the first `size` bytes of it. */
static inline bool prepared_query_may_name(const struct client *c, const uint8_t *text, size_t size)
{
	return c->link_facts.shares_names &&
	       (c->prepared && c->prepared->names ? deallocate_is_mentioned(text, size, true)
						  : deallocate_begins(text, size));
}
/* Whether a Query names statements of the client, other than by a DEALLOCATE at its beginning. */
static inline bool prepared_query_has_names(const struct client *c, const uint8_t *text,
					    size_t size)
{
	return c->prepared && c->prepared->names && c->link_facts.shares_names &&
	       deallocate_is_mentioned(text, size, true);
}
/* Whether the text of a Parse of the unnamed statement may name statements of the client: see
   prepared_send(). */
static inline bool prepared_parse_may_name(const struct client *c, const uint8_t *text, size_t size)
{
	return c->prepared && c->prepared->names ? statement_sql_may_be_parsed(text, size)
						 : deallocate_begins(text, size);
}
/* Whether the text of a Parse names statements of the client, other than by a DEALLOCATE at its
   beginning. */
static inline bool prepared_parse_has_names(const struct client *c, const uint8_t *text,
					    size_t size)
{
	return c->prepared && c->prepared->names && statement_sql_may_be_parsed(text, size);
}
/* The text of a Query, or of a Parse of the unnamed statement, is sent: if it has set_config, the
   meaning of later texts is in doubt. A single statement outside of a transaction is a transaction
   of its own, and its set_config has no effect on later texts. */
static inline void prepared_note_settings(const struct client *c, struct server *s,
					  const uint8_t *text, size_t size)
{
	if (size < MEANING_SHORTEST || !c->link_facts.shares_names || s->session.meaning_in_doubt)
		return;
	/* no statement follows a semicolon at the end */
	if (s->status != 'I' || !ledger_is_empty(&s->ledger) || memchr(text, ';', size - 2))
		server_doubt_meaning(s, meaning_is_configured(text, size));
}

/* ---- answers of servers: answer.c ---- */

/* Handles the ledger's result for messages with MARK_PREPARED after the answer `frame`. An
   ErrorResponse is complete, unless it is longer than the relay reads. VERDICT_PASS: forward the
   answer to the client, whatever its owner in the ledger is; SWALLOW: the client has another
   message in its place, or needs none; MORE: its owner decides; INVALID: the server violated the
   protocol, or there is no memory. */
enum verdict prepared_answered(struct server *server, struct client *client,
			       const struct pg_frame *frame);
/* Handles the success of the oldest message with MARK_PREPARED, whose answer ledger_passes() has
   crossed off: the client gets it. */
void prepared_passed(struct server *server, struct client *client);
/* Stores the types in a ParameterDescription, RowDescription or NoData that answers a message with
   MARK_PREPARED. Called before prepared_answered(). */
void prepared_described(struct server *server, const struct pg_frame *frame);
/* Rewrites the server's error of SQL that names statements, and sends it to the client:
   VERDICT_SWALLOW; VERDICT_PASS: the error needs no change; VERDICT_INVALID: no memory. */
enum verdict prepared_sql_failed(struct server *server, struct client *client,
				 const struct pg_frame *frame);
/* Crosses off the local reply that is due and returns its size; *from points to static bytes. 0:
   none is due. */
size_t prepared_local_reply(struct server *server, const void **from);
/* The ledger of the server is lost: the results of all messages in flight are unknown. If the
   ledger is not lost, the server is about to end, and all messages in flight count as skipped: its
   client has the statements that it had before. */
void prepared_lose(struct server *server, struct client *client);
/* A command changed definitions in the server's database (pg_tag_changes_meaning()): the next Parse
   of each text makes a new statement, because the same text may have other types now without an
   error. Example: SELECT * FROM t after ALTER TABLE t ADD COLUMN. Clients keep the statements that
   they have, as on their own connections. Called after the command and again after its transaction.
   With `functions_only`, a transaction may have defined functions or triggers: only the functions
   of the database are read again. */
void prepared_meaning_changed(struct server *server, bool functions_only);

/* ---- the tables: statements.c ---- */

enum parameter_event {
	PARAMETERS_UNCHANGED,		/* the server owes nothing, and has reported no change */
	PARAMETERS_REPORTED,		/* the server reported other parameters */
	/* an error may have reset parameters before they were reported */
	PARAMETERS_RESET,
	/* SET or RESET of the client is complete; if it is undone before ReadyForQuery, nothing is
	   reported */
	PARAMETERS_SET
};
/* Updates the validity of statements on the server. */
void prepared_parameters_changed(struct server *server, enum parameter_event event);
/* DEALLOCATE ALL or DISCARD ALL (`all`), or DEALLOCATE of one statement, is complete. Client NULL:
   the command was pgweir's. */
void prepared_deallocated(struct server *server, struct client *client, bool all);
/* The client has no server any more: frees memory that it does not need. The client has a table. */
void prepared_client_trim(struct client *client);
/* Free the tables; NULL tables are allowed. */
void prepared_server_free(struct server *server);
void prepared_client_free(struct client *client);

/* Whether no message with MARK_PREPARED is in flight, as it is between two links. */
static inline bool prepared_is_quiet(const struct server *s)
{
	return !s->prepared || (s->prepared->op_count == 0 && s->prepared->unnamed_in_flight == 0);
}
/* For SHOW: names of a client; statements on a server. */
static inline unsigned prepared_client_count(const struct client *c)
{
	return c->prepared ? HASH_COUNT(c->prepared->names) : 0;
}
static inline unsigned prepared_server_count(const struct server *s)
{
	return s->prepared ? s->prepared->count : 0;
}

#endif
