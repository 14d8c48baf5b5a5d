#ifndef PREPARED_PREPARED_H
#define PREPARED_PREPARED_H

#include "conn/gather.h"
#include "pg/frame.h"
#include "pg/meaning.h"
#include "pg/statement.h"
#include "pg/statement_sql.h"

/*
 * Prepared statements of the protocol where a server is lent for a transaction: a client's names, the statements that a server
 * has, and what both will be once the answers under way have come. See prepared.c.
 */

/*
 * A name that a client has given. `sent` is what it stands for in the messages that are sent now, `certain` what it stood for as of
 * the last answer; NULL: nothing. They differ only while messages that change it are `in_flight`, all of them of one batch.
 */
struct prepared_name {
	UT_hash_handle hh;
	struct statement *sent, *certain;
	struct statement *first;	/* before it moved to the same text under other parameters, which may be those again; else NULL */
	uint32_t in_flight;
	uint32_t batch;			/* of the last change, among the server's */
	uint32_t refs;			/* the table's, and the journal's */
	uint32_t cost;			/* its part of the client's `bytes` */
	uint64_t told, certain_told;	/* hashes of the types that `sent` and `certain` had where they were parsed; 0: they are not known */
	uint32_t place;			/* in the record of a hand-over */
	struct list held;		/* on the client's list of that name exactly while `certain` is something */
	bool listed;			/* the client's table holds it */
	char text[];
};

/* Texts of the unnamed statement: as sent; and each that it may be instead while changes are in flight. */
enum { UNNAMED_SENT = 1, UNNAMED_OTHER = 2 };

/* A prepared statement that SQL names: see prepared_sql.c. */
struct prepared_sql_name {
	struct prepared_name *name;	/* NULL: unknown to pgweir */
	bool drops;			/* by DEALLOCATE */
	uint8_t end_size;
	bool differs;			/* its types here are not those that the client was told: the SQL fails */
	char end[STATEMENT_END_MOST];	/* of the name in its place on the server */
};

/* The names in the last SQL of a client that may name statements of its own. */
struct prepared_sql {
	uint64_t server;		/* id of the server that got the SQL */
	uint32_t batch;			/* batch of the SQL */
	uint32_t number;		/* of the change of the unnamed statement that it is the text of; 0: of none */
	uint64_t statement;		/* number of the statement that it is the text of; 0: of none */
	uint32_t count, dropped;	/* of the names; and those up to which DEALLOCATE has been done */
	struct prepared_sql_name names[];
};

/* What is known of the types of an unnamed statement. */
struct unnamed_meaning {
	uint64_t told;			/* hash of those that the client was told; 0: it was not told */
	uint64_t at;			/* world->meanings when the text was sent */
	bool doubted;			/* a transaction since then may have changed the meaning of texts */
	bool differs;			/* on a server later they were not those that the client was told */
};

/* What a client has prepared; made by its first Parse. */
struct prepared_client {
	struct prepared_name *names;	/* uthash */
	struct list held;		/* those that stand for something as of the last answer */
	size_t bytes;			/* of the names, with the texts that they stand for: for max_prepared_memory */
	/* the unnamed statement, as far as it can be given to another server: body of its Parse, behind the name */
	struct bytes text, certain;	/* as sent; and, while changes are in flight, as of the last answer */
	bool kept, certain_kept;	/* there is one, and this is it */
	uint32_t in_flight, batch;	/* changes that are not answered, and the batch of the last */
	uint32_t number;		/* counts the changes */
	struct unnamed_meaning meaning, certain_meaning;
	uint64_t awaited;		/* number of the statement that is parsed and described for the message that waits; 0: of none */
	bool sql_waits;			/* the SQL that names statements waits until these are described */
	uint8_t unnamed_deallocates;	/* UNNAMED_ bits: which of the texts may be DEALLOCATE ALL or DISCARD ALL */
	bool deallocates;		/* so may what is under way, or a portal of this transaction: see sending_names_may_go() */
	size_t put_by;			/* bytes of texts in the journal, at most */
	uint64_t doubted_on;		/* id of the server that may have passed over the last change, a Parse; 0: of none ... */
	uint32_t doubted_batch;		/* ... in this batch of that server's */
	/* name of the last Parse with one that a server may have passed over, in the `batch` of the name (it is not listed, and is not
	   handed over); NULL: of none. And the id of that server */
	struct prepared_name *doubted_name;
	uint64_t named_on;
	struct prepared_sql *sql;	/* NULL: there is none */
};

/* Under which parameters a server has read the text of a statement. */
enum reading {
	READING_OWN,			/* those of the statement */
	READING_UNSURE,			/* ... unless the server reports others in front of the next ReadyForQuery, or an error undoes them */
	READING_OTHER			/* it means something else: not for use */
};

/* A statement that a server has, in the same manner. */
struct prepared_entry {
	UT_hash_handle hh;
	struct list use;		/* the least recently used is first; only while `sent` */
	struct list held;		/* on one of the server's three lists of what is `certain`, by its reading */
	struct statement *statement;
	uint32_t in_flight;
	uint32_t batch;
	bool sent, certain;		/* it is there */
	uint8_t reading;		/* enum reading: of what is certain */
	bool described;			/* a Describe of the pooler's is not answered yet */
	uint64_t types;			/* hash of the types that the server has described; 0: it has not */
};

/* An entry with MARK_PREPARED of the server's ledger. */
struct prepared_op {
	uint8_t what;			/* enum prepared_what */
	bool last;			/* change of the unnamed statement: there is no later one */
	uint8_t reading;		/* enum reading: a Parse of the pooler's */
	bool kept : 1;			/* it leaves one with the text `text`, when that is not the last */
	bool alone : 1;			/* a Sync of the pooler's follows: an error of it is not the client's */
	struct bytes *text;		/* owned */
	struct prepared_name *name;	/* NULL: it is not about a client's name */
	struct statement *statement;	/* NULL: it is not about one */
};

/* What a server has; made by the first Parse that reaches it. */
struct prepared_server {
	struct prepared_entry *set;	/* uthash */
	struct list used;
	struct list held;		/* those that are there as of the last answer, but for ... */
	struct list doubted, doubted_literals;	/* ... those with the reading READING_UNSURE; statement_may_differ tells them apart */
	bool unsure;			/* there are such */
	uint32_t count;			/* of the set, as sent */
	size_t bytes;			/* of these, with their texts: for max_prepared_memory */
	uint32_t set_in;		/* one more than the batch in which SET or RESET was heard last; 0: none was */
	uint32_t missed_in;		/* the same of a message that named a statement which its client has not */
	struct prepared_op *ops;	/* ring: these entries of the ledger, in order */
	uint32_t op_count, op_capacity;	/* the latter a power of two */
	size_t under_way;		/* bytes of texts and names that the journal may be the last to hold */
	uint64_t op_first;		/* number of the oldest; they are counted from the first that there ever was */
	uint64_t types;			/* hash of a ParameterDescription, until its RowDescription comes */
	uint64_t differ_before;		/* those before this number that are READING_UNSURE are READING_OTHER by now */
	uint64_t literals_differ_before;	/* the same, of statements for which statement_may_differ says so */
	uint32_t unnamed_number;	/* of that client's changes, the last one */
	uint32_t unnamed_in_flight, unnamed_batch;
	bool unnamed_sure;		/* that client had to do with it even if what is in flight is skipped */
	bool unnamed_described;		/* a Describe of the pooler's, behind a replay, is not answered yet */
	struct statement_names names;	/* of the statements there */
};

enum prepared_verdict {
	PREPARED_PASS,			/* the frame goes on, less `skip` bytes for which others have been gathered */
	PREPARED_SWALLOW,		/* ... does not go on: its answer is a local reply, or that of what has been gathered */
	PREPARED_MORE,			/* cannot be decided before more of it is here */
	PREPARED_WAIT,			/* cannot be decided before more answers have come, or sent before the server has taken what it was */
	PREPARED_TOO_MUCH,		/* more than max_prepared_memory: its client ends */
	PREPARED_NO_MEMORY
};

/* A Parse, Bind, Describe or Close goes from a client to the server that is lent to it for the transaction. Enters it in the
   ledger, and gathers what has to go in front. */
enum prepared_verdict prepared_send(struct client *client, struct server *server, const struct pg_frame *frame, struct gather *gather,
				    size_t *skip);
/* Of such a message more has to be here before it may go anywhere, and until then its client needs no server. Not so a Parse too
   large for the read buffer, which is collected, or passes, while its client has one. */
bool prepared_lacks(const struct pg_frame *frame);
/* As prepared_send, for a Parse of the unnamed statement, that is here as a whole and has its place in the ledger: what is behind the
   name. It goes on as it is. False: no memory. */
bool prepared_send_unnamed_parse(struct client *client, struct server *server, const uint8_t *text, size_t size);
/* A Bind or Describe of the unnamed statement may go to the server as it is. */
bool prepared_has_unnamed(const struct client *client, const struct server *server);
/* A Query of this client, of which `size` bytes are here, may name prepared statements or make its session forget them: it is for
   prepared_send_sql. */
static inline bool prepared_may_be_named(const struct client *c, const uint8_t *text, size_t size)
{
	return c->prepared && c->prepared->names && c->shares_names && deallocate_or_execute_is_mentioned(text, size);
}
/* The same for its Parse of the unnamed statement, of this text. */
static inline bool prepared_may_name(const struct client *c, const uint8_t *text, size_t size)
{
	return c->prepared && c->prepared->names && statement_sql_may_be_parsed(text, size);
}
/* SQL of the client, of a Query or of an unnamed statement, goes to the server. A single statement outside of a transaction is a transaction of its
   own: a set_config in it changes nothing for the texts after it. */
static inline void prepared_look_for_settings(const struct client *c, struct server *s, const uint8_t *text, size_t size)
{
	if (size < MEANING_SHORTEST || !c->shares_names || s->session.meaning_in_doubt)
		return;
	/* no statement follows a semicolon at the end */
	if (s->status != 'I' || !ledger_is_empty(&s->ledger) || memchr(text, ';', size - 2))
		s->session.meaning_in_doubt = meaning_is_configured(text, size);
}
/* As prepared_send, for such a Query. */
enum prepared_verdict prepared_send_sql(struct client *client, struct server *server, const struct pg_frame *frame, struct gather *gather);
/* As prepared_send_unnamed_parse, for any other Query, which ends the unnamed statement. False: no memory. */
bool prepared_send_query(struct client *client, struct server *server);
/* The server has reported other parameters for its client; or an error may have undone a change before it was reported. */
void prepared_parameters_changed(struct server *server);
void prepared_changes_undone(struct server *server);
/* The client's SET or RESET is complete: of a change that is taken back before the next ReadyForQuery nothing will be reported. */
void prepared_set_heard(struct server *server);

enum prepared_answer {
	PREPARED_NORMAL,		/* as its owner in the ledger says */
	PREPARED_RELAY,			/* to the client, whichever side asked */
	PREPARED_TOLD,			/* the client has been told in other words: drop it */
	PREPARED_BROKEN
};
/* The ledger has news of messages with MARK_PREPARED, as the last answer, `frame`, gave them (an ErrorResponse as a whole, if it is not longer
   than the relay reads). */
enum prepared_answer prepared_answered(struct server *server, struct client *client, const struct pg_frame *frame);
/* ParameterDescription, RowDescription or NoData, here as a whole, to a message with MARK_PREPARED; to be called before prepared_answered. */
void prepared_described(struct server *server, const struct pg_frame *frame);
/* As prepared_answered, for such a message after its answer has passed (ledger_passes). */
void prepared_passed(struct server *server, struct client *client);
/* DEALLOCATE ALL or DISCARD ALL has been done for the client (NULL: for the pooler). */
void prepared_all_gone(struct server *server, struct client *client);
/* DEALLOCATE of one statement has been done for the client. */
void prepared_one_gone(struct server *server, struct client *client);
/* An error for the client, here as a whole, of a message that is not marked: the client gets its own names instead of the server's names. */
enum prepared_answer prepared_sql_failed(struct server *server, struct client *client, const struct pg_frame *frame);
/* A command has changed something in the server's database (pg_tag_changes_meaning): the parameters of a text may have other types now, of
   which no error tells ($1 that was a date takes no time of the day). The next Parse of a text makes a new statement; a client that knows
   one goes on with it, as on a connection of its own. To be called after the command, and again after its transaction. */
void prepared_meaning_changed(struct server *server);
/* A transaction may have defined functions or triggers without a command tag that says so: those of the database are read again. */
void prepared_functions_changed(struct server *server);
/* Gives the local replies that are due, five bytes each: their number of bytes, at *from, valid for ever; 0: none. */
size_t prepared_local_reply(struct server *server, const void **from);

/* The client has no server any more: its memory shrinks to what it needs. */
void prepared_client_rests(struct client *client);
/* The ledger is lost: so is what was under way. */
void prepared_lose(struct server *server, struct client *client);
void prepared_server_free(struct server *server);
void prepared_client_free(struct client *client);
/* Nothing is under way on it: so it is between two links. */
bool prepared_is_quiet(const struct server *server);
/* For SHOW: names of a client, statements of a server. */
unsigned prepared_client_count(const struct client *client);
unsigned prepared_server_count(const struct server *server);

#endif
