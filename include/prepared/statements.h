#ifndef PREPARED_STATEMENTS_H
#define PREPARED_STATEMENTS_H

#include "base/list.h"
#include "prepared/prepared.h"

#include <string.h>

/*
 * The tables of the room: names and unnamed statement of a client; entries and journal of a server.
 * See statements.c.
 */

/* The kinds of messages in the journal. The values are part of the handover record. */
enum op_kind {
	OP_PARSE,		/* Parse of the client, sent under the server's name */
	OP_REPARSE,		/* Parse by pgweir of a statement missing on the server */
	OP_KNOWN,		/* local reply to a Parse of a statement known to the server */
	OP_CLOSE,		/* Close of the client, usually a local reply */
	OP_EVICT,		/* Close by pgweir */
	OP_USE,			/* Bind or Describe of the client */
	OP_DUPLICATE,		/* Parse of a name in use: fails */
	OP_UNNAMED,		/* Parse or Close of the unnamed statement */
	OP_UNNAMED_REPARSE,	/* Parse by pgweir of the client's unnamed statement */
	OP_UNNAMED_QUERY,	/* Query of the client, which ends the unnamed statement */
	/* Close, Parse or Sync by pgweir before SQL that names statements */
	OP_BEFORE_SQL,
	OP_DESCRIBE,		/* Describe by pgweir, to compare types */
	/* in place of a use of a statement with other types than the client received: fails */
	OP_TYPES_DIFFER,
	OP_NAME_TOO_LONG,	/* in place of a message with a long name: fails */
	/* Describe by pgweir before a Bind of the unnamed statement, to know its types */
	OP_LEARN
};

static inline bool op_changes_entry(const struct prepared_op *op)
{
	return op->kind == OP_PARSE || op->kind == OP_REPARSE || op->kind == OP_EVICT;
}
static inline bool op_changes_unnamed(const struct prepared_op *op)
{
	return op->kind == OP_UNNAMED || op->kind == OP_UNNAMED_QUERY;
}
static inline bool op_changes_name(const struct prepared_op *op)
{
	return op->name && (op->kind == OP_PARSE || op->kind == OP_KNOWN || op->kind == OP_CLOSE);
}

/* Return the table, and create it on first use. NULL: no memory, or no random bytes for the
   server's names. */
static inline struct prepared_client *prepared_client_of(struct client *c)
{
	if (c->prepared || !(c->prepared = mem_try(sizeof(*c->prepared))))
		return c->prepared;
	list_init(&c->prepared->confirmed_names);
	return c->prepared;
}
struct prepared_server *prepared_server_of(struct server *server);

/* ---- the unnamed statement of a client ---- */

/* A change (OP_UNNAMED, OP_UNNAMED_QUERY) is sent: enters it in the journal. With `has_text` the
   caller appends the new text to client->text, which is empty now. False: no memory. */
bool unnamed_change_sent(struct prepared_client *client, struct prepared_server *server,
			 enum op_kind kind, bool has_text, uint32_t batch);
/* A change, or a Parse by pgweir, is sent: the server's unnamed statement becomes this client's,
   unless the message is skipped. `had`: it is already. */
void unnamed_parse_sent(struct client *client, struct server *server, bool had);
/* The text is unknown from now on, except for changes in flight. */
static inline void unnamed_forget(struct prepared_client *c)
{
	c->has_confirmed_text = false;
	if (c->in_flight == 0)
		c->has_text = false;
}

/* ---- names of a client ---- */

/* Significant bytes of a name: NAMEDATALEN of PostgreSQL without the NUL. PostgreSQL truncates
   names in its table, but not in errors. */
#define NAME_SIGNIFICANT 63

static inline bool name_is_same(const struct prepared_name *n, const char *text)
{
	return strncmp(n->text, text, NAME_SIGNIFICANT) == 0;
}
/* Bytes that a name counts for in prepared_client.bytes; name_size includes the NUL. */
static inline size_t name_cost(size_t name_size, size_t body_size)
{
	return sizeof(struct prepared_name) + name_size + sizeof(struct statement) + body_size;
}
/* `size` includes the NUL. NULL: no such name. */
struct prepared_name *name_find(const struct prepared_client *client, const char *text,
				size_t size);
/* Returns a new name without a statement. With a client it is in the table, which owns the
   reference; with NULL the caller owns it: name_drop(). NULL: no memory. */
struct prepared_name *name_new(struct prepared_client *client, const char *text, size_t size);
/* The only writer of name->sent. */
void name_set_sent(struct world *world, struct prepared_name *name, struct statement *statement);
/* Drops a reference and sets *name to NULL; NULL is allowed. */
void name_drop(struct world *world, struct prepared_name **name);
/* A message is sent after which the name has this statement (NULL: none). */
void name_change_sent(struct world *world, struct prepared_client *client,
		      struct prepared_name *name, struct statement *statement, uint32_t batch);
/* The name has this statement of the same text from now on; while a change is in flight, only until
   its answer. Keeps the first statement in `original`, unless that is private. */
void name_move(struct world *world, struct prepared_client *client, struct prepared_name *name,
	       struct statement *statement);
/* The statement is unknown from now on, except for changes in flight. The name may be freed, as by
   op_change_ended(). */
void name_forget(struct world *world, struct prepared_client *client, struct prepared_name *name);
/* Sets the statements of a new name of the table from a handover; NULL is allowed. */
void name_restore(struct world *world, struct prepared_client *client, struct prepared_name *name,
		  struct statement *sent, struct statement *confirmed);
/* Frees the client's record of SQL that names statements. */
void sql_record_free(struct world *world, struct prepared_client *client);

/* ---- entries of a server ---- */

/* NULL: the statement has no entry. */
static inline struct prepared_entry *entry_find(const struct prepared_server *s,
						const struct statement *st)
{
	struct prepared_entry *found;

	HASH_FIND_BYHASHVALUE(hh, s->entries, &st->number, sizeof(st->number), (unsigned)st->number,
			      found);
	return found;
}
/* Bytes that an entry counts for in prepared_server.bytes. */
static inline size_t entry_cost(const struct statement *st)
{
	return sizeof(struct prepared_entry) + sizeof(*st) + st->size;
}
/* Whether the server has the statement when it reads the next message, and may use it. NULL:
   false. */
static inline bool entry_is_usable(const struct prepared_entry *e)
{
	return e && e->sent && (e->validity != PARSE_INVALID || e->in_flight > 0);
}
/* Moves a present entry to the end of the eviction order. */
static inline void entry_used(struct prepared_server *s, struct prepared_entry *e)
{
	list_remove(&e->lru_link);
	list_append(&s->lru, &e->lru_link);
}
/* A Parse (`present`) or Close of the statement is sent. False: no memory; a Close does not
   fail. */
bool entry_change_sent(struct prepared_server *server, struct statement *statement, bool present,
		       uint32_t batch);
/* Sets the confirmed state. */
void entry_confirm(struct prepared_server *server, struct prepared_entry *entry, bool present,
		   enum parse_validity validity);

/* ---- the journal of a server ---- */

/* Returns the i-th oldest operation. */
static inline struct prepared_op *op_at(const struct prepared_server *s, uint32_t i)
{
	return &s->ops[(s->op_first + i) & (s->op_capacity - 1)];
}
/* Appends an operation, with references to name and statement, for a message in the ledger with
   MARK_PREPARED. False: no memory. */
bool op_push(struct prepared_server *server, enum op_kind kind, struct prepared_name *name,
	     struct statement *statement);
/* Returns the validity of the i-th oldest operation, a Parse by pgweir, after the parameters that
   the server has reported so far. */
enum parse_validity op_validity(const struct prepared_server *server, uint32_t i);
/* Removes the oldest operation and returns it with its current validity; op_release() frees it. */
struct prepared_op op_take(struct prepared_server *server);
void op_release(struct world *world, struct prepared_op *op);
/* The changes of the operation that was taken succeeded (`done`), or failed or were skipped. Frees
   the entry if it is absent, and the name if it has no statement and no reference of the journal.
   Client NULL: the client has gone. */
void op_change_ended(struct world *world, struct prepared_server *server,
		     struct prepared_client *client, const struct prepared_op *op, bool done);

#endif
