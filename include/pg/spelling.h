#ifndef PG_SPELLING_H
#define PG_SPELLING_H

/*
 * Values of parameters as PostgreSQL spells them when it reports them, whatever a client has written.
 */

/* What a server reports for a boolean parameter that was set to `value`: "on" or "off". NULL: it would be refused. */
const char *pg_boolean_spelled(const char *value);
/* What a server reports for the parameter of this name that was set to `value`, for those that it reports under a fixed spelling:
   client_encoding, standard_conforming_strings, IntervalStyle. Values that it would refuse, and those of other parameters, come
   back as they are. */
const char *pg_spelled(const char *name, const char *value);

#endif
