#ifndef CONF_SQL_NAMES_H
#define CONF_SQL_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Finds a name in an SQL text that the server resolves by search_path: an operator that is not written as OPERATOR(schema.op),
 * or a function without a schema. "a = lower(b)" has two such names, "a OPERATOR(pg_catalog.=) pg_catalog.lower(b)" has none.
 * Copies the first name to `name`, truncated to `size` bytes. Returns false if there is no such name. The text need not be
 * valid SQL.
 *
 * "Lexical Structure" in the PostgreSQL documentation, with standard_conforming_strings on.
 */
bool sql_unqualified_name(const char *sql, char *name, size_t size);
/* The same for functions only. */
bool sql_unqualified_function(const char *sql, char *name, size_t size);

#endif
