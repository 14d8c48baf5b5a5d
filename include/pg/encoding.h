#ifndef PG_ENCODING_H
#define PG_ENCODING_H

/*
 * Names of character sets as PostgreSQL spells them.
 */

/* What a server reports for client_encoding after it was set to `name`: "UTF8" for "utf-8". A name that PostgreSQL does not know, and
   "UNICODE" for old drivers, come back as they are. */
const char *pg_encoding_spelled(const char *name);

#endif
