#ifndef PG_STATEMENT_H
#define PG_STATEMENT_H

#include "base/hash.h"
#include "pg/frame.h"
#include "pg/params.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Prepared statements as servers know them: one for each distinct place, text, list of parameter types and set of session
 * parameters under which the text was parsed (a literal means another thing under another DateStyle). Each has a number of
 * its own, which is never given to another text, so clients that prepare the same thing in one place share it.
 *
 * A place is a database as of its last ALTER or DROP: what becomes known of a table in one database changes no statement of another.
 *
 * On a server its name is "PGWEIR_", the tag of the server connection, "_" and the number, as in
 * PGWEIR_k7qz3mflx2avd4py_12. The tag is random: a client that could guess the name could replace the statement by SQL
 * (DEALLOCATE and PREPARE in a DO block), and other clients would execute the replacement.
 */
#define STATEMENT_PREFIX "PGWEIR_"
#define STATEMENT_TAG 16				/* characters of a tag, of 32 each */
#define STATEMENT_HEAD 24				/* what all names on one server begin with, without a NUL */
#define STATEMENT_END_MOST 21				/* the rest of a name, with its NUL */
#define STATEMENT_NAME_MOST (STATEMENT_HEAD + STATEMENT_END_MOST)

struct statement {
	UT_hash_handle hh;
	uint64_t number;
	uint32_t refs;
	uint32_t size;			/* of the body */
	bool known;			/* the next Parse of this text finds it */
	bool apart;			/* it is not known under which parameters it was read */
	bool changed;			/* its result has another type since a change of a table: see statement_retire */
	bool deallocates;		/* it may be DEALLOCATE ALL or DISCARD ALL, or ... */
	bool configures;		/* its text has set_config of a parameter that may change what texts mean */
	bool names_others;		/* its text names prepared statements (pg/statement_sql.h), which are its client's: so it is apart */
	uint8_t end_size;		/* with the NUL */
	char end[STATEMENT_END_MOST];	/* of its name: the number as text */
	uint64_t place;			/* from here on the key */
	const struct params *params;
	uint8_t body[];			/* of Parse, behind the name: the text with its NUL, Int16 count, the types */
};

struct statements;			/* all of them */

/* No statement ever has a name that ends so. */
#define STATEMENT_NOWHERE "0"
/* Those with this and a number are there only for DEALLOCATE: prepared_sql.c. */
#define STATEMENT_GONE "gone"
/* This one is there only for a Parse of the same name to fail on; it is never executed. */
#define STATEMENT_AGAIN "again"

/* What names on one server begin with. */
struct statement_names {
	char head[STATEMENT_HEAD];
};
/* Those with a tag made of these random bytes. */
void statement_names_make(struct statement_names *names, const uint8_t random[STATEMENT_TAG]);
/* The tag, as statement_names_restore takes it. */
const uint8_t *statement_names_tag(const struct statement_names *names);
/* Those with this tag. False: no tag can be like this; names are then untouched. */
bool statement_names_restore(struct statement_names *names, const uint8_t tag[STATEMENT_TAG]);
/* Writes the name with this end (its size counts its NUL) to STATEMENT_NAME_MOST bytes at `to`. Returns its size, which
   counts it, too. */
static inline size_t statement_name(void *to, const struct statement_names *names, const char *end, size_t end_size)
{
	memcpy(to, names->head, STATEMENT_HEAD);
	memcpy((char *)to + STATEMENT_HEAD, end, end_size);
	return STATEMENT_HEAD + end_size;
}

/* `params`: the table the sets belong to; it must live longer. NULL: no memory. */
struct statements *statements_new(struct params_table *params);
/* None may be held any more. Sets *all to NULL. */
void statements_free(struct statements **all);
/* A place of which there is no statement yet, and that is never given again. Not 0. */
uint64_t statements_new_place(struct statements *all);
/* A reference to the statement with this Parse body (behind the name) in a place, for a session with these parameters; application_name,
   which changes no meaning, is left out of account. NULL: no memory. Give it back with statement_drop. */
struct statement *statement_take(struct statements *all, uint64_t place, const struct params *params, const uint8_t *body, size_t size);
/* The same, of one that no other client will ever find: under which parameters the text will be read is not known. */
struct statement *statement_apart(struct statements *all, uint64_t place, const struct params *params, const uint8_t *body, size_t size);
/* It is one for sessions with these parameters. */
bool statement_is_for(const struct statements *all, const struct statement *statement, const struct params *params);
/* A reference to the statement with the same text and types in this place for a session with these parameters: this one, if it is
   theirs, and the next Parse would find it. NULL: no memory. Give it back with statement_drop. */
struct statement *statement_under(struct statements *all, struct statement *statement, uint64_t place, const struct params *params);
/* A reference to one that another process, which this one takes the place of, has given this number: `known` there, or retired
   (`changed`). Its number is given to no other text from now on. NULL: no memory. */
struct statement *statement_restore(struct statements *all, uint64_t number, uint64_t place, bool known, bool changed,
				    const struct params *params, const uint8_t *body, size_t size);
/* The last number that was given, to a statement or a place; and: numbers up to this one have been given. */
uint64_t statements_last(const struct statements *all);
void statements_begin_behind(struct statements *all, uint64_t number);
/* Its text may mean another thing under other parameters: it has a literal, or bytes beyond ASCII. */
bool statement_may_differ(const struct statement *statement);
struct statement *statement_hold(struct statement *statement);
/* Gives a reference back and sets *statement to NULL; NULL is fine. */
void statement_drop(struct statements *all, struct statement **statement);
/* What it returns has changed its type ("cached plan must not change result type"): the next Parse of the text makes a new statement;
   a client that knows this one may have been told of the old type, and gets the error that a connection of its own would give. */
void statement_retire(struct statements *all, struct statement *statement);
/* For SHOW MEM: how many there are, and the bytes they take. */
size_t statements_count(const struct statements *all);
size_t statements_bytes(const struct statements *all);

/*
 * The parts of messages that name a statement ("Message Formats"). Strings lie in the body, with their NUL; sizes count it.
 */
struct statement_use {
	const char *portal;		/* Bind only, else NULL */
	size_t portal_size;
	const char *name;
	size_t name_size;
};
/* Of Parse, Bind, or Describe and Close of a statement, of which `here` bytes of a body of `size` have come. PG_MORE: not
   all here yet; PG_BAD: a string has no end. */
enum pg_verdict statement_use_read(uint8_t type, const uint8_t *body, size_t here, size_t size, struct statement_use *use);
/* True when this is what may follow the name in a Parse, and nothing else. */
bool statement_body_is_sound(const uint8_t *body, size_t size);

#endif
