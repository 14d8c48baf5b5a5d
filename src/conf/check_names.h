#ifndef CONF_CHECK_NAMES_H
#define CONF_CHECK_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Copies the first name to `name`, truncated to `size` bytes; with `only_functions` the first name
   of a function. False: there is no such name. */
bool unqualified_name(const char *sql, bool only_functions, char *name, size_t size);

#endif
