#ifndef PG_BOOLEAN_H
#define PG_BOOLEAN_H

/*
 * Values of boolean parameters as PostgreSQL reads and spells them.
 */

/* What a server reports for a boolean parameter that was set to `value`: "on" or "off". NULL: it would be refused. */
const char *pg_boolean_spelled(const char *value);

#endif
