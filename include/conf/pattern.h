#ifndef CONF_PATTERN_H
#define CONF_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A regular expression of an HBA or ident file, with the meaning that PostgreSQL gives it there. It may match anywhere in a
 * text unless ^ and $ say otherwise. Bytes are compared, not characters of an encoding. pattern_read.c says which expressions
 * are supported.
 */
struct pattern;

#define PATTERN_CAPTURE_MOST 1024	/* bytes of a text that pattern_captures takes */

/* Compiles; NULL with a reason in `why`. Free with pattern_free. */
struct pattern *pattern_new(const char *text, char *why, size_t why_size);
/* Frees and sets *pattern to NULL. NULL inside is fine. */
void pattern_free(struct pattern **pattern);
/* The time is bounded by the length of the text times the size of the expression, whatever they are. */
bool pattern_matches(const struct pattern *pattern, const char *text);
/* The same; *start and *size (bytes) are what the first pair of parentheses matched. *start is -1 when it took no part, and
   when pattern_group_fault has an answer. A text of more than PATTERN_CAPTURE_MOST bytes does not match. */
bool pattern_captures(const struct pattern *pattern, const char *text, long *start, size_t *size);
/* NULL when it is certain what the first pair of parentheses matches; else why not. Which of the
   repetitions of (x)* counts depends on how PostgreSQL's engine takes the expression apart, and is not followed here. */
const char *pattern_group_fault(const struct pattern *pattern);

#endif
