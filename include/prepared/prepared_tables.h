#ifndef PREPARED_PREPARED_TABLES_H
#define PREPARED_PREPARED_TABLES_H

#include "prepared/prepared.h"

/*
 * The tables behind prepared.c and prepared_answers.c: a client's names, a server's set, and its journal of what is under way.
 */

enum prepared_what {
	OP_PARSE,		/* the client's Parse, sent under the statement's name */
	OP_REPLAY,		/* a Parse of the pooler's, for a server that does not have the statement */
	OP_KNOWN,		/* local reply: the client's Parse of a statement that the server has */
	OP_CLOSE,		/* local reply: the client's Close */
	OP_EVICT,		/* a Close of the pooler's */
	OP_USE,			/* Bind or Describe */
	OP_AGAIN,		/* the client's Parse of a name that it has: fails */
	OP_UNNAMED,		/* the client's Parse of its unnamed statement, or its Close */
	OP_UNNAMED_REPLAY,	/* a Parse of the pooler's of the same */
	OP_UNNAMED_QUERY,	/* a Query of the client's, which ends it */
	OP_AHEAD,		/* Close, Parse or Sync of the pooler's ahead of SQL that names statements */
	OP_DESCRIBE,		/* a Describe of the pooler's: the types are to be those that the client was told */
	OP_CHANGED,		/* in place of a use of a statement with other types than the client was told: fails */
	OP_TOO_LONG		/* in place of a client's message with a name that is too long: fails */
};

/* A change of what the client has for its unnamed statement. */
static inline bool op_changes_unnamed(const struct prepared_op *op)
{
	return op->what == OP_UNNAMED || op->what == OP_UNNAMED_QUERY;
}

/* The error of a statement with other types than its client was told, as PostgreSQL says it, with the routine, by which drivers know what to do. */
void error_build_changed(struct bytes *out);

/* Both make it if it is not there. NULL: no memory, or no randomness. */
struct prepared_client *prepared_client_of(struct client *client);
struct prepared_server *prepared_server_of(struct server *server);

/* A change of the unnamed statement (OP_UNNAMED, OP_UNNAMED_QUERY) is sent, and written into the journal: `kept` is false, or the text
   is to be appended to of->text, which is empty (false: no memory); has been done; will not be done. */
bool unnamed_sent(struct prepared_client *of, struct prepared_server *on, enum prepared_what what, bool kept, uint32_t batch);
void unnamed_done(struct prepared_client *of, const struct prepared_op *op);
void unnamed_undone(struct prepared_client *of);
/* What it is is not known any more: there is none that could be given to another server. */
void unnamed_forgotten(struct prepared_client *of);

/* Sizes of names count the NUL at their end. NULL: no such name. */
struct prepared_name *name_find(const struct prepared_client *of, const char *text, size_t size);
/* A name that stands for nothing yet; in the table, or, with of NULL, only for the journal to refer to (the caller drops its
   reference). NULL: no memory. */
size_t name_cost(size_t name_size, size_t body_size);	/* bytes of memory that a name of the table is counted for */
struct prepared_name *name_new(struct prepared_client *of, const char *text, size_t size);
/* It is counted for this statement from now on; for a hand-over: name_sent does it, too. */
void name_charge(struct prepared_client *of, struct prepared_name *name, const struct statement *statement);
/* A message that makes the name stand for this (NULL: nothing) is sent; has been done; will not be done. The last two may end the
   name: refer to it no more, unless the journal does. */
void name_sent(struct world *world, struct prepared_client *of, struct prepared_name *name, struct statement *statement, uint32_t batch);
void name_done(struct world *world, struct prepared_client *of, struct prepared_name *name, struct statement *statement);
void name_undone(struct world *world, struct prepared_client *of, struct prepared_name *name);
/* It stands for this one, of the same text, from now on; while a change of it is in flight, in what is sent until that is answered. What
   it stood for at first is remembered, unless that stood apart, so that it is not known under which parameters it was read. */
void name_moves(struct world *world, struct prepared_client *of, struct prepared_name *name, struct statement *statement);
/* What it stands for is not known any more: for nothing, as soon as nothing that changes it is in flight. It may end as above. */
void name_forgotten(struct world *world, struct prepared_client *of, struct prepared_name *name);
/* As of the last answer it stands for this (NULL: for nothing). For a hand-over; the others do it by themselves. */
void name_is_certain(struct world *world, struct prepared_client *of, struct prepared_name *name, struct statement *statement);
/* Every name stands for nothing, as of now. Takes time for each of those that stood for something, and not for what is in flight. */
void names_gone(struct world *world, struct prepared_client *of);
void name_drop(struct world *world, struct prepared_name **name);
/* The client's record of the SQL that names statements ends. */
void sql_forget(struct world *world, struct prepared_client *of);
/* It is this one to a server. */
bool name_is_same(const struct prepared_name *name, const char *text);

size_t entry_cost(const struct statement *statement);	/* bytes of memory that an entry for it is counted for */
struct prepared_entry *entry_find(const struct prepared_server *of, const struct statement *statement);
/* The statement's Parse is sent. False: no memory. */
bool entry_parse_sent(struct prepared_server *of, struct statement *statement, uint32_t batch);
void entry_close_sent(struct prepared_server *of, struct prepared_entry *entry, uint32_t batch);
/* It is used: the last to be closed. */
void entry_used(struct prepared_server *of, struct prepared_entry *entry);
/* Its Parse (there) or Close has been done; will not be done. The entry may end. */
void entry_done(struct world *world, struct prepared_server *of, const struct statement *statement, bool there);
void entry_undone(struct world *world, struct prepared_server *of, const struct statement *statement);
/* It has been read so. */
void entry_was_read(struct prepared_server *of, struct prepared_entry *entry, enum reading reading);
/* For a hand-over: it is there as of the last answer. */
void entry_is_certain(struct prepared_server *of, struct prepared_entry *entry, bool there);
/* Of all entries with an unsure reading it is this now. */
void readings_are(struct prepared_server *of, enum reading reading);
/* It is READING_OTHER now: of all entries, and of what is under way. */
void readings_differ(struct prepared_server *of);
/* The same for those with a text that may mean another thing. */
void readings_may_differ(struct prepared_server *of);
/* Nothing is there, as of now. Takes time as names_gone. */
void entries_gone(struct world *world, struct prepared_server *of);

/* Writes down an entry with MARK_PREPARED of the ledger; holds name and statement. False: no memory. */
bool op_push(struct prepared_server *of, enum prepared_what what, struct prepared_name *name, struct statement *statement);
/* The i-th oldest. */
struct prepared_op *op_at(const struct prepared_server *of, uint32_t i);
/* How the i-th oldest, a Parse of the pooler's, will have been read, by what is known now. */
enum reading op_reading(const struct prepared_server *of, uint32_t i);
/* Takes off the oldest, with the reading of now; the caller releases it. */
struct prepared_op op_take(struct prepared_server *of);
void op_release(struct world *world, struct prepared_op *op);

#endif
