#ifndef CONF_SQL_NAMES_H
#define CONF_SQL_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Looks for names in an SQL text that the server finds by its search_path: an operator that is not written as
 * OPERATOR(schema.op), or a function without its schema. "a = lower(b)" has two, "a OPERATOR(pg_catalog.=) pg_catalog.lower(b)" none.
 * Copies the first one to `name`, cut to `size` bytes. False: there is none. The text need not be valid SQL.
 *
 * "Lexical Structure" in the PostgreSQL documentation, with standard_conforming_strings on.
 */
bool sql_unqualified_name(const char *sql, char *name, size_t size);
/* The same for functions alone. */
bool sql_unqualified_function(const char *sql, char *name, size_t size);

#endif
