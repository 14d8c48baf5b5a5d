#ifndef CONF_PATTERN_PARTS_H
#define CONF_PATTERN_PARTS_H

#include "base/mem.h"

#include <stdint.h>

/*
 * The parts of a regular expression: the tree that pattern_read.c makes of its text, and the net of states that pattern_net.c
 * makes of the tree and walks. For these two files and pattern.c only.
 */

/* Which bytes an atom matches. */
struct pattern_set {
	uint32_t bits[8];
};
static inline bool pattern_set_has(const struct pattern_set *set, uint8_t byte)
{
	return set->bits[byte / 32] >> byte % 32 & 1;
}

/* What must be true of a position without taking a byte there. */
enum pattern_test {
	PATTERN_ANYWHERE,
	PATTERN_AT_START, PATTERN_AT_END,		/* of the text: ^ \A and $ \Z */
	PATTERN_AT_WORD_START, PATTERN_AT_WORD_END,	/* \m \M */
	PATTERN_AT_WORD_EDGE, PATTERN_OFF_WORD_EDGE	/* \y \Y */
};

#define PATTERN_MANY 65535		/* no upper bound of a repetition */

enum pattern_kind {
	PATTERN_CHAIN,			/* its children one behind the other; none: the empty text */
	PATTERN_CHOICE,			/* one of its children */
	PATTERN_REPEAT,			/* its only child, `least` to `most` times */
	PATTERN_GROUP,			/* parentheses around its only child */
	PATTERN_SET,			/* one byte */
	PATTERN_TEST			/* a position */
};

struct pattern_node {
	enum pattern_kind kind;
	uint16_t least, most;		/* REPEAT */
	bool is_first_group;		/* GROUP: \1 is what it matches */
	bool has_first_group;		/* it, or a node below, is the first group */
	enum pattern_test test;		/* TEST */
	struct pattern_set set;		/* SET */
	struct pattern_node *child, *next;
	/* states of the net between which the node's part of it lies (that of the last copy of it, where it is repeated) */
	uint16_t begin, end;
};

struct pattern_tree {
	struct pattern_node *root;
	int groups;			/* pairs of parentheses that capture */
	bool repeats_first_group;	/* the first of them may match more than once */
};

/* Reads an expression into a tree that lies in the arena. Returns NULL, or why it cannot be used. */
const char *pattern_read(struct pattern_tree *tree, const char *text, struct arena *arena);

/* States with arcs between them: a state is reached from another by a byte of a set, or without one where a test holds. */
struct pattern_net;

/* Makes the net of a tree, which then must live as long as the net does, and sets begin and end of its nodes. The net lies in
   the arena too. NULL: why says it. */
struct pattern_net *pattern_net_new(struct pattern_tree *tree, struct arena *arena, const char **why);

/* A walk over a text from byte `from` to byte `to`: it begins in state `start`, and asks where `goal` is reached. */
struct pattern_walk {
	const char *text;
	size_t length, from, to;	/* tests look at the whole text, `length` bytes */
	uint16_t start, goal;
	bool is_backward;		/* from `to` down to `from`, against the arcs */
	bool begins_anywhere;		/* it begins at each position, not only at the first one */
	bool *reached;			/* for each position of the text: `goal` is reached there; NULL: any place is enough */
};
/* True when `goal` is reached. The time is bounded by the length of the text times the size of the net. */
bool pattern_net_walk(const struct pattern_net *net, const struct pattern_walk *walk);

#endif
