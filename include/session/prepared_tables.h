#ifndef SESSION_PREPARED_TABLES_H
#define SESSION_PREPARED_TABLES_H

#include "session/prepared.h"

/*
 * The tables behind prepared.c and prepared_answers.c: a client's names, a server's set, and its journal of what is under way.
 */

enum prepared_what {
	OP_PARSE,		/* the client's Parse, sent under the statement's name */
	OP_REPLAY,		/* a Parse of the pooler's, for a server that does not have the statement */
	OP_KNOWN,		/* promised: the client's Parse of a statement that the server has */
	OP_CLOSE,		/* promised: the client's Close */
	OP_EVICT,		/* a Close of the pooler's */
	OP_USE,			/* Bind or Describe */
	OP_AGAIN,		/* the client's Parse of a name that it has: fails */
	OP_UNNAMED		/* a Parse of the pooler's of the client's unnamed statement */
};

/* Both give what is there already, or NULL: no memory. */
struct prepared_client *prepared_client_of(struct client *client);
struct prepared_server *prepared_server_of(struct server *server);

/* NULL: no such name. */
struct prepared_name *name_find(const struct prepared_client *of, const char *text, size_t size);
/* A name in state PENDING in place of `replaced` (NULL: none); takes over the reference to the statement. NULL: no memory. */
struct prepared_name *name_new(struct prepared_client *of, const char *text, size_t size, struct statement *statement,
			       struct prepared_name *replaced, uint32_t batch);
/* Takes it from the table. */
void name_unlist(struct world *world, struct prepared_client *of, struct prepared_name *name);
/* Its Parse was skipped or has failed: what it replaced has the name again. */
void name_undo(struct world *world, struct prepared_client *of, struct prepared_name *name);
void name_drop(struct world *world, struct prepared_name **name);

struct prepared_entry *entry_find(const struct prepared_server *of, const struct statement *statement);
/* The statement's Parse is sent: PENDING, most recently used. NULL: no memory. */
struct prepared_entry *entry_parse(struct prepared_server *of, struct statement *statement, uint32_t batch);
void entry_close(struct prepared_server *of, struct prepared_entry *entry, uint32_t batch);
void entry_remove(struct world *world, struct prepared_server *of, struct prepared_entry *entry);
/* That Parse, that Close was skipped or has failed. */
void entry_undo_parse(struct world *world, struct prepared_server *of, struct prepared_entry *entry);
void entry_undo_close(struct world *world, struct prepared_server *of, struct prepared_entry *entry);

/* Writes down a marked entry of the ledger; holds name and statement. False: no memory. */
bool op_push(struct prepared_server *of, enum prepared_what what, struct prepared_name *name, struct statement *statement);
/* The i-th oldest. */
struct prepared_op *op_at(const struct prepared_server *of, uint32_t i);
/* Takes off the oldest; the caller releases it. */
struct prepared_op op_take(struct prepared_server *of);
void op_release(struct world *world, struct prepared_op *op);

#endif
