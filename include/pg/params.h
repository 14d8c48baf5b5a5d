#ifndef PG_PARAMS_H
#define PG_PARAMS_H

#include "base/bytes.h"

#include <stdbool.h>

/*
 * Session parameters. A set of values is immutable, shared and unique: two
 * connections with the same values hold the same pointer, so the question
 * on the hot path, "must anything be SET?", is one comparison, and ten thousand
 * clients of one application hold one set. A value may be absent (not known, or never set).
 *
 * Tracked parameters have a place in every set, and pgweir notes what servers report of them. Others are in a set only where a client
 * has asked for them by name; they follow the client from server to server all the same.
 */
struct params_table;		/* the tracked names, and all sets in use */
struct params;			/* a set */

#define PARAMS_OTHERS_MOST 200		/* in what one client asks for: a SELECT has room for less than 1,665 columns */

#define PARAMS_NAME_LONGEST 200		/* of a parameter that is not tracked; names of extensions' parameters have no limit of their own */

/* A parameter that is not tracked. */
struct params_pair {
	const char *name, *value;	/* the name in lower case, in a set */
};

/* Fixed places of the parameters that every table tracks. */
enum {
	PARAM_CLIENT_ENCODING, PARAM_DATESTYLE, PARAM_TIMEZONE, PARAM_STANDARD_CONFORMING_STRINGS,
	PARAM_APPLICATION_NAME, PARAM_SEARCH_PATH, PARAM_FIXED
};

/* `extra`: a comma list of further names (track_extra_parameters), may be NULL; names that are there already
   are passed over. NULL: no memory. */
struct params_table *params_table_new(const char *extra);
/* Frees all, sets that are still held included. Sets *table to NULL. */
void params_table_free(struct params_table **table);
int params_count(const struct params_table *table);
/* The canonical spelling ("DateStyle"). */
const char *params_name(const struct params_table *table, int index);
/* Place of a name in any case, or -1 when it is not tracked. */
int params_index(const struct params_table *table, const char *name);

/* The set without any value; never fails once the table exists. Counts as a reference. */
const struct params *params_none(struct params_table *table);
const struct params *params_hold(const struct params *set);
/* Gives a reference back and sets *set to NULL; NULL is fine. */
void params_drop(struct params_table *table, const struct params **set);
/* Puts a set that is held, and the hold with it, where another one is held; drops that one. */
void params_replace(struct params_table *table, const struct params **place, const struct params *set);
/* Value, or NULL when absent. */
const char *params_get(const struct params *set, int index);
/* A reference to the set that has these values, as many as there are tracked names (NULL: absent), and these others; of several
   with one name, in any case, the last counts (names: params_is_settable). All are copied. NULL when there is no memory. */
const struct params *params_of_values(struct params_table *table, const char *const *values, const struct params_pair *others, size_t count);
/* The parameters that are not tracked, in the order of their names. */
size_t params_others(const struct params *set);
struct params_pair params_other(const struct params *set, size_t index);
/* They have the same others, with the same values. */
bool params_same_others(const struct params *a, const struct params *b);
/* For a walk over those of two sets: whose comes first in the order of names, a's i-th (< 0), b's j-th (> 0), or both (0); an index
   may be the number of them. */
int params_other_order(const struct params *a, size_t i, const struct params *b, size_t j);
/* Value of one by its name in any case. NULL: absent. */
const char *params_other_value(const struct params *set, const char *name);
/* Among the others of a set: the role that the session acts as, where it is not the one that it began with. Its value is a note of
   state/role.h, and not a value of PostgreSQL's parameter, so params_sql passes it over. No client can ask for it by this name. */
#define PARAMS_ROLE "role"
/* A parameter may have this name: letters, digits and '_', in parts with dots between them. It needs no quotes in SQL. */
bool params_has_form(const char *name);
/* ... and a session can set it, and give it back later. */
bool params_can_be_restored(const char *name);
/* ... and a client may ask for it, although it is not tracked: it ends or delays no server connection that others have. */
bool params_is_settable(const char *name);
/* A reference to the set that is `base` with this one value (NULL: absent). NULL when there is no memory. `base` is untouched. */
const struct params *params_with(struct params_table *table, const struct params *base, int index, const char *value);
/* A reference to the set that has the tracked values of one set, and the others of another. NULL: no memory. */
const struct params *params_with_others(struct params_table *table, const struct params *tracked, const struct params *others);
/* A statement that is prepared under one of them means the same under the other. */
bool params_read_alike(const struct params_table *table, const struct params *a, const struct params *b);
/* A reference to the set that has of this one what the meaning of a statement hangs on. NULL: no memory. */
const struct params *params_for_reading(struct params_table *table, const struct params *set);
/* A reference to the set with the values of `over` where present, of `under` elsewhere. NULL: no memory. */
const struct params *params_overlay(struct params_table *table, const struct params *under, const struct params *over);
/* Appends the SQL that takes a session from `have` to `want`: "" when nothing differs. Values go through
   pg_catalog.set_config with E'' quoting, so lists, quotes, backslashes and empty values survive whatever
   standard_conforming_strings says (a backslash among bytes beyond ASCII: dollar quotes, which also hold in
   encodings where it may be half a character); what `want` lacks is RESET. Bit i of `unknown`: it is not known what the session
   has of tracked parameter i, so that it is set or RESET whatever `have` says; of the names in track_extra_parameters, only if the
   server knows it and it has been changed. Where a bit is set the parameters that are not tracked are set again, too. `noted`: where search_path would be RESET it gets this value,
   which is in hexadecimal, in the encoding of the database; NULL: it is RESET. Returns the number of parameters. */
int params_sql(const struct params_table *table, const struct params *have, const struct params *want, uint64_t unknown, const char *noted,
	       struct bytes *sql);
/* Appends the SQL that sets what `first` has, and a session that began with `without` has not by itself, where it has been RESET in the session: it is
   not set there any more. A parameter with a dot, and statement_timeout, count as RESET only if `was_reset`. Returns the number of parameters that
   may be set: 0, and there is no SQL. */
int params_sql_after_reset(const struct params_table *table, const struct params *without, const struct params *first, bool was_reset,
			   struct bytes *sql);
/* Number of sets alive, the one without any value included; for SHOW MEM and tests. */
size_t params_sets(const struct params_table *table);

#endif
