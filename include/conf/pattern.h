#ifndef CONF_PATTERN_H
#define CONF_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A regular expression of an HBA or ident file, with PostgreSQL's semantics. It may match anywhere
 * in a text, unless ^ and $ restrict it. Bytes are compared, not characters of an encoding.
 * pattern_read.c lists the supported expressions.
 */
struct pattern;

/* the longest text that pattern_captures accepts, in bytes */
#define PATTERN_CAPTURE_MOST 1024

/* Compiles an expression. Returns NULL with a reason in `why`. Free with pattern_free. */
struct pattern *pattern_new(const char *text, char *why, size_t why_size);
/* Frees the pattern and sets *pattern to NULL; *pattern may be NULL. */
void pattern_free(struct pattern **pattern);
/* The time is bounded by the length of the text times the size of the expression. */
bool pattern_matches(const struct pattern *pattern, const char *text);
/* Whether the pattern matches the text. Sets *start and *size (bytes) to the match of the first
   group. *start is -1 if the group took no part in the match, and if pattern_group_fault is not
   NULL. A text longer than PATTERN_CAPTURE_MOST does not match. */
bool pattern_captures(const struct pattern *pattern, const char *text, long *start, size_t *size);
/* Returns NULL if the match of the first group is well defined, otherwise the reason why it is not.
   For (x)*, PostgreSQL's choice of the repetition depends on the internals of its engine, which
   pgweir does not reproduce. */
const char *pattern_group_fault(const struct pattern *pattern);

#endif
