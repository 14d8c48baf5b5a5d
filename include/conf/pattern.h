#ifndef CONF_PATTERN_H
#define CONF_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A regular expression of an HBA or ident file, as PostgreSQL writes them. It may match anywhere in a text unless ^ and $ say
 * otherwise. Bytes are compared, not characters of a locale.
 */
struct pattern;

/* Compiles; NULL with a reason in `why`. */
struct pattern *pattern_new(const char *text, char *why, size_t why_size);
/* Frees and sets *pattern to NULL. NULL inside is fine. */
void pattern_free(struct pattern **pattern);
bool pattern_matches(const struct pattern *pattern, const char *text);
/* The same; *start and *size (bytes) are what the first pair of parentheses matched. *start is -1 when it took no part. */
bool pattern_captures(const struct pattern *pattern, const char *text, long *start, size_t *size);
/* True when the expression has a pair of parentheses. */
bool pattern_has_group(const struct pattern *pattern);

#endif
