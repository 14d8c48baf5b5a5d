#ifndef PG_PARAMS_H
#define PG_PARAMS_H

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hash.h"

#include <stdbool.h>

/*
 * Session parameters. A set of values is immutable, shared and unique: two connections with the
 * same values have the same pointer, so that the hot path compares pointers, and ten thousand
 * clients of one application share one set. A value may be absent (unknown, or never set).
 *
 * Tracked parameters have a place in every set, and pgweir records the values that servers report.
 * Other parameters are in a set only if a client has asked for them by name; they follow the client
 * from server to server, too.
 */
struct params {			/* a set; users of this header call the functions below */
	UT_hash_handle hh;
	struct params *self;		/* not const, for the reference count */
	size_t references;
	uint32_t tracked, others;
	/* the key: the value of each tracked parameter (NULL: absent), then name and value of each
	   other one */
	const char *values[];
};

struct params_table {		/* the tracked names, and all sets in use */
	int count;
	char **names;
	struct params *sets;		/* a hash table */
	struct params_text *texts;	/* a hash table of names and values */
	const struct params *none;	/* holds a reference */
};

/* that one client may ask for: a SELECT has fewer than 1,665 columns */
#define PARAMS_OTHERS_MOST 200

/* of an untracked parameter; PostgreSQL has no limit for names with a dot */
#define PARAMS_NAME_LONGEST 200

/* An untracked parameter. */
struct params_pair {
	const char *name, *value;	/* in a set the name is in lower case */
};

/* Indexes of the parameters that every table tracks. */
enum {
	PARAM_CLIENT_ENCODING, PARAM_DATESTYLE, PARAM_TIMEZONE, PARAM_STANDARD_CONFORMING_STRINGS,
	PARAM_APPLICATION_NAME, PARAM_SEARCH_PATH, PARAM_FIXED
};

/* `extra`: a list of further names with commas (track_extra_parameters), may be NULL; repeated
   names are ignored. NULL: no memory. */
struct params_table *params_table_new(const char *extra);
/* Frees the table with all sets. Sets *table to NULL. */
void params_table_free(struct params_table **table);
static inline int params_count(const struct params_table *table) { return table->count; }
/* Returns the name in the server's spelling ("DateStyle"). */
static inline const char *params_name(const struct params_table *table, int index)
{
	ASSERT(index >= 0 && index < table->count);
	return table->names[index];
}
/* Returns the index of a name in any case, or -1 if it is not tracked. */
int params_index(const struct params_table *table, const char *name);

static inline const struct params *params_hold(const struct params *set)
{
	set->self->references++;
	return set;
}
/* Returns a reference to the set without values. */
static inline const struct params *params_none(struct params_table *table)
{
	return params_hold(table->none);
}
/* Drops a reference and sets *set to NULL; NULL is allowed. */
void params_drop(struct params_table *table, const struct params **set);
/* Moves the reference `set` to *place, and drops the reference there. */
static inline void params_replace(struct params_table *table, const struct params **place,
				  const struct params *set)
{
	const struct params *old = *place;

	*place = set;
	params_drop(table, &old);
}
/* Returns the value; NULL: absent. */
static inline const char *params_get(const struct params *set, int index)
{
	return set->values[index];
}
/* Returns the number of parameters that are not tracked, and one of them, in the order of their
   names. */
static inline size_t params_others(const struct params *set) { return set->others; }
static inline struct params_pair params_other(const struct params *set, size_t index)
{
	ASSERT(index < set->others);
	return (struct params_pair){ set->values[set->tracked + 2 * index],
				     set->values[set->tracked + 2 * index + 1] };
}
/* Returns the value of an untracked parameter, by its name in any case. NULL: absent. */
const char *params_other_value(const struct params *set, const char *name);

/* Each of these returns a reference to a set. NULL: no memory. */

/* ... with these values, one for each tracked name (NULL: absent), and these other parameters; of
   several with one name, in any case, the last. All are copied. The names are PARAMS_SETTABLE. */
const struct params *params_of_values(struct params_table *table, const char *const *values,
				      const struct params_pair *others, size_t count);
/* ... `base` with one other value (NULL: absent). */
const struct params *params_with(struct params_table *table, const struct params *base, int index,
				 const char *value);
/* ... with the tracked values of one set, and the other parameters of another. */
const struct params *params_with_others(struct params_table *table, const struct params *tracked,
					const struct params *others);
/* ... with the values of `over`, or of `under` where `over` has none. */
const struct params *params_overlay(struct params_table *table, const struct params *under,
				    const struct params *over);
/* ... with the parameters of `set` that affect the meaning of a statement. */
const struct params *params_for_reading(struct params_table *table, const struct params *set);
/* Returns whether a prepared statement has the same meaning under both sets. */
bool params_read_alike(const struct params_table *table, const struct params *a,
		       const struct params *b);

/* An other parameter: the role of the session, if it is not the role that the session began with.
   The value is a note of state/server_session.h, not a value of PostgreSQL's parameter, so
   params_sql() skips it. No client can ask for this name. */
#define PARAMS_ROLE "role"
/* The possible uses of a parameter of this name. */
enum params_kind {
	PARAMS_MALFORMED,		/* the name needs quotes in SQL, or is too long */
	PARAMS_FIXED,			/* the session cannot set and restore it */
	/* a session can set and restore it, but it ends or delays server connections without a
	   client */
	PARAMS_RESTORABLE,
	/* a client may also ask for it although it is not tracked */
	PARAMS_SETTABLE
};
enum params_kind params_kind_of(const char *name);

/* Appends the SQL that changes a session from `have` to `want`: "" if nothing differs.
   pg_catalog.set_config with E'' quotes keeps lists, quotes, backslashes and empty values with
   either value of standard_conforming_strings. A value with a backslash and bytes beyond ASCII is
   in dollar quotes, because in some encodings a backslash may be half a character. Parameters that
   `want` lacks are RESET. Bit i of `unknown`: the value of tracked parameter i is unknown, so that
   it is set or RESET in any case; a name of track_extra_parameters only if the server knows the
   parameter and its value has changed. With any such bit the parameters that are not tracked are
   set again, too. `noted`: the value for search_path in place of a RESET, in hexadecimal and in the
   encoding of the database; NULL: RESET. Returns the number of parameters. */
int params_sql(const struct params_table *table, const struct params *have,
	       const struct params *want, uint64_t unknown, const char *noted, struct bytes *sql);
/* Appends the SQL that sets parameters again after a RESET of the session: the parameters of
   `first` that differ from the initial ones (`without`). A parameter with a dot, and
   statement_timeout, count as RESET only if `was_reset`. Returns the number of parameters that may
   be set; 0: no SQL. */
int params_sql_after_reset(const struct params_table *table, const struct params *without,
			   const struct params *first, bool was_reset, struct bytes *sql);

/* Packs a set for another process, by name: that process may track other parameters. */
void params_pack(struct bytes *out, const struct params_table *table, const struct params *set);
/* Returns a reference. NULL: in->bad, or no memory. */
const struct params *params_unpack(struct unpack *in, struct params_table *table);
/* Pack and unpack a set of tracked parameters, bit i for parameter i, by name. A name is dropped if
   this process does not track it. */
void params_pack_bits(struct bytes *out, const struct params_table *table, uint64_t bits);
uint64_t params_unpack_bits(struct unpack *in, const struct params_table *table);

#endif
