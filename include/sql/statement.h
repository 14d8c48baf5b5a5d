#ifndef SQL_STATEMENT_H
#define SQL_STATEMENT_H

#include "base/bytes.h"
#include "base/hash.h"
#include "pg/frame.h"
#include "pg/params.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Prepared statements as servers know them: one for each place, text, list of parameter types and
 * set of session parameters under which the text was parsed (a literal has another meaning under
 * another DateStyle). Clients that prepare the same statement in one place share it. Each statement
 * has a number, which is never used for another text.
 *
 * A place is a database since its last ALTER or DROP: a changed table of one database does not
 * affect statements of another.
 *
 * The name on a server is "PGWEIR_", the tag of the server connection, "_" and the number, as in
 * PGWEIR_k7qz3mflx2avd4py_12. The tag is random, because a client must not guess the name: it could
 * replace the statement by other SQL (DEALLOCATE and PREPARE in a DO block), which other clients
 * would execute.
 */
#define STATEMENT_PREFIX "PGWEIR_"
#define STATEMENT_TAG 16				/* characters of a tag; each is one of 32 */
/* the common beginning of all names on one server, without a NUL */
#define STATEMENT_HEAD 24
#define STATEMENT_END_MOST 21				/* the rest of a name, with its NUL */
#define STATEMENT_NAME_MOST (STATEMENT_HEAD + STATEMENT_END_MOST)

struct statement {
	UT_hash_handle hh;
	uint64_t number;
	uint32_t refs;
	uint32_t size;			/* of the body */
	/* names of clients that are this statement; servers that have an entry of it. Written by
	   room prepared */
	uint32_t clients, servers;
	/* in the table: the next Parse of this text finds the statement */
	bool known : 1;
	/* private: the parameters under which the text was parsed are unknown */
	bool is_private : 1;
	/* a table was changed, and the result has another type: see statement_retire() */
	bool changed : 1;
	bool deallocates : 1;		/* may be DEALLOCATE ALL or DISCARD ALL, or ... */
	/* the text may change the meaning of texts by set_config */
	bool configures : 1;
	/* the text names prepared statements of its client (sql/sql_commands.h) */
	bool names_others : 1;
	/* the text asks for the last value of a sequence (sql/values_text.h) */
	bool reads_values : 1;
	/* one of both: servers get another text, which only the client's next message may use; the
	   statement is private */
	bool varies : 1;
	uint8_t end_size;		/* with the NUL */
	char end[STATEMENT_END_MOST];	/* the end of the name: the number as text */
	uint64_t place;			/* the key begins here */
	const struct params *params;
	/* of Parse, after the name: the text with its NUL, Int16 count, the types */
	uint8_t body[];
};

struct statements {			/* all statements */
	struct statement *table;
	struct params_table *params;
	uint64_t last_number;		/* of a statement or a place */
	size_t count, bytes;		/* of all statements, known or not */
};

/* No statement has a name with this end. */
#define STATEMENT_NOWHERE "0"
/* A name with this end and a number exists only to be deallocated: prepared/rewrite.c. */
#define STATEMENT_GONE "gone"
/* The name with this end exists only to make a Parse of the same name fail; it is never
   executed. */
#define STATEMENT_AGAIN "again"

/* The common beginning of the names on one server. */
struct statement_names {
	char head[STATEMENT_HEAD];
};
/* Makes a tag from these random bytes. */
void statement_names_make(struct statement_names *names, const uint8_t random[STATEMENT_TAG]);
/* Returns the tag, for statement_names_restore(). */
static inline const uint8_t *statement_names_tag(const struct statement_names *names)
{
	return (const uint8_t *)names->head + sizeof(STATEMENT_PREFIX) - 1;
}
/* False: the tag is malformed, and `names` is unchanged. */
bool statement_names_restore(struct statement_names *names, const uint8_t tag[STATEMENT_TAG]);
/* Writes the name with this end (end_size counts its NUL) to STATEMENT_NAME_MOST bytes at `to`.
   Returns its size with the NUL. */
static inline size_t statement_name(void *to, const struct statement_names *names, const char *end,
				    size_t end_size)
{
	memcpy(to, names->head, STATEMENT_HEAD);
	memcpy((char *)to + STATEMENT_HEAD, end, end_size);
	return STATEMENT_HEAD + end_size;
}

/* `params`: the table of the sets; it must live longer. NULL: no memory. Free with mem_free() when
   no references are left. */
struct statements *statements_new(struct params_table *params);
/* Returns a new place, not 0, which is never used again. */
static inline uint64_t statements_new_place(struct statements *all) { return ++all->last_number; }
/* Returns a reference to the statement with this Parse body (after the name) in a place, for a
   session with these parameters; application_name and names with a dot, which do not affect the
   meaning, are ignored. `is_private`: to a new statement that no other Parse finds, because the
   parameters under which the text will be parsed are unknown. NULL: no memory. Drop with
   statement_drop(). */
struct statement *statement_take(struct statements *all, uint64_t place,
				 const struct params *params, const uint8_t *body, size_t size,
				 bool is_private);
/* Whether the statement is for sessions with these parameters. */
static inline bool statement_is_for(const struct statements *all, const struct statement *s,
				    const struct params *params)
{
	return params_read_alike(all->params, s->params, params);
}
/* The last number that was given to a statement or a place. */
static inline uint64_t statements_last(const struct statements *all) { return all->last_number; }
/* Numbers up to this number are used. */
static inline void statements_begin_behind(struct statements *all, uint64_t number)
{
	if (number > all->last_number)
		all->last_number = number;
}
/* Whether the text may have another meaning under other parameters, because it has a literal or
   bytes beyond ASCII. Example: DATE '01/02/2026' depends on DateStyle. */
bool statement_may_differ(const struct statement *statement);
static inline struct statement *statement_hold(struct statement *s)
{
	s->refs++;
	return s;
}
/* Drops a reference and sets *statement to NULL; NULL is allowed. */
void statement_drop(struct statements *all, struct statement **statement);
/* The result has another type ("cached plan must not change result type"): the next Parse of the
   text makes a new statement. Clients with this statement may have been told the old type, and get
   the error that PostgreSQL would send. */
void statement_retire(struct statements *all, struct statement *statement);
/* Packs a statement for another process. */
void statement_pack(struct bytes *out, const struct params_table *table,
		    const struct statement *statement);
/* Returns a reference to a statement with the same number, name and text; the number, which another
   process has given, is not used again. NULL: in->bad, or no memory. */
struct statement *statement_unpack(struct unpack *in, struct params_table *table,
				   struct statements *all);

/*
 * The parts of messages that name a statement ("Message Formats"). Strings are in the body, with
 * their NUL; sizes count the NUL.
 */
struct statement_use {
	const char *portal;		/* Bind only, else NULL */
	size_t portal_size;
	const char *name;
	size_t name_size;
};
/* Reads a Parse, Bind, or Describe and Close of a statement; `here` bytes of a body of `size` have
   arrived. PG_MORE: incomplete; PG_BAD: a string has no end. */
enum pg_verdict statement_use_read(uint8_t type, const uint8_t *body, size_t here, size_t size,
				   struct statement_use *use);
/* Whether a complete Bind has its parameters and its result in text format. False for a malformed
   one. */
bool statement_bind_is_text(const uint8_t *body, size_t size);
/* Whether the bytes are exactly the part of a Parse after the name. */
bool statement_body_is_sound(const uint8_t *body, size_t size);

#endif
