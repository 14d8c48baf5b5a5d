#ifndef CONF_PATTERN_PARTS_H
#define CONF_PATTERN_PARTS_H

#include "base/mem.h"

#include <stdint.h>

/*
 * The tree of a regular expression: pattern_read.c parses the text into the tree, and pattern.c
 * turns the tree into a net of states and runs it. For these two files only.
 */

/* A set of bytes. */
struct pattern_set {
	uint32_t bits[8];
};
static inline bool pattern_set_has(const struct pattern_set *set, uint8_t byte)
{
	return set->bits[byte / 32] >> byte % 32 & 1;
}

/* A condition on a position in the text. */
enum pattern_test {
	PATTERN_ANYWHERE,
	PATTERN_AT_START, PATTERN_AT_END,		/* of the text: ^ \A and $ \Z */
	PATTERN_AT_WORD_START, PATTERN_AT_WORD_END,	/* \m \M */
	PATTERN_AT_WORD_EDGE, PATTERN_OFF_WORD_EDGE	/* \y \Y */
};

#define PATTERN_MANY 65535		/* no upper bound of a repetition */

enum pattern_kind {
	/* its children in sequence; no children: the empty text */
	PATTERN_NODE_CHAIN,
	PATTERN_NODE_CHOICE,			/* a match of one of its children */
	PATTERN_NODE_REPEAT,			/* its only child, `least` to `most` times */
	PATTERN_NODE_GROUP,			/* parentheses around its only child */
	PATTERN_NODE_SET,			/* one byte */
	PATTERN_NODE_TEST			/* a position */
};

struct pattern_node {
	enum pattern_kind kind;
	uint16_t least, most;		/* REPEAT */
	bool is_first_group;		/* GROUP: the group that \1 refers to */
	bool has_first_group;		/* the node or a node below is the first group */
	enum pattern_test test;		/* TEST */
	struct pattern_set set;		/* SET */
	struct pattern_node *child, *next;
	/* The states where the part of the node in the net begins and ends; if the node is
	   repeated, of its last copy. */
	uint16_t begin, end;
};

struct pattern_tree {
	struct pattern_node *root;
	int groups;			/* number of capturing groups */
	bool repeats_first_group;	/* the first group may match more than once */
};

/* Parses an expression into a tree in the arena. Returns NULL, or why it is not supported. */
const char *pattern_read(struct pattern_tree *tree, const char *text, struct arena *arena);

#endif
