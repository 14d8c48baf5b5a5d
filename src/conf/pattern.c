/*
 * Regular expressions with PostgreSQL's semantics. The C library's engine is not used: it interprets some expressions
 * differently (\' and \< are anchors there and plain characters in PostgreSQL), depends on the locale, and can take time and
 * memory that grow with names chosen by clients.
 *
 * The match of the first group follows PostgreSQL's rules too. The whole match begins as far left as possible and is as long as
 * possible; then, from left to right, the part before the group matches as much as possible, and then the group. Of the
 * branches of a choice, the first branch that matches its whole part is used.
 */
#include "conf/pattern.h"

#include "conf/pattern_parts.h"

#include <stdio.h>
#include <string.h>

struct pattern {
	struct arena *arena;		/* contains this structure too */
	struct pattern_tree tree;
	struct pattern_net *net;
};

struct pattern *pattern_new(const char *text, char *why, size_t why_size)
{
	struct arena *arena = arena_new();
	struct pattern *pattern = arena ? arena_take(arena, sizeof(*pattern)) : NULL;
	const char *fault = "out of memory";

	if (pattern) {
		pattern->arena = arena;
		fault = pattern_read(&pattern->tree, text, arena);
	}
	if (!fault)
		pattern->net = pattern_net_new(&pattern->tree, arena, &fault);
	if (pattern && pattern->net)
		return pattern;
	snprintf(why, why_size, "%s", fault);
	if (arena)
		arena_free(&arena);
	return NULL;
}

void pattern_free(struct pattern **pattern)
{
	struct arena *arena = *pattern ? (*pattern)->arena : NULL;

	*pattern = NULL;
	if (arena)
		arena_free(&arena);
}

bool pattern_matches(const struct pattern *pattern, const char *text)
{
	struct pattern_walk walk = { .text = text, .length = strlen(text), .begins_anywhere = true };

	walk.to = walk.length;
	walk.start = pattern->tree.root->begin;
	walk.goal = pattern->tree.root->end;
	return pattern_net_walk(pattern->net, &walk);
}

/* ---- the first group ---- */

struct span {
	size_t from, to;
};

struct search {
	const struct pattern *pattern;
	const char *text;
	size_t length;
	bool forward[PATTERN_CAPTURE_MOST + 1], backward[PATTERN_CAPTURE_MOST + 1];	/* the positions that walks reached */
};

static bool walk_in(struct search *s, struct span span, uint16_t start, uint16_t goal, bool is_backward, bool anywhere)
{
	bool *reached = is_backward ? s->backward : s->forward;
	struct pattern_walk walk = {
		.text = s->text, .length = s->length, .from = span.from, .to = span.to, .start = start, .goal = goal,
		.is_backward = is_backward, .begins_anywhere = anywhere, .reached = reached,
	};

	memset(reached, 0, sizeof(s->forward));
	return pattern_net_walk(s->pattern->net, &walk);
}

/* Whether the net between two states matches the whole span. */
static bool matches_span(struct search *s, struct span span, uint16_t begin, uint16_t end)
{
	walk_in(s, span, begin, end, false, false);
	return s->forward[span.to];
}

/* Returns the last position where the net between `begin` and `middle` can end, such that the net between `middle` and `end`
   matches the rest of the span. */
static size_t split(struct search *s, struct span span, uint16_t begin, uint16_t middle, uint16_t end)
{
	size_t at = span.to;

	walk_in(s, span, begin, middle, false, false);
	walk_in(s, span, end, middle, true, false);
	while (at > span.from && !(s->forward[at] && s->backward[at]))
		at--;
	return at;
}

/* Finds the leftmost, longest match. False: the text does not match. */
static bool find_match(struct search *s, struct span *match)
{
	const struct pattern_node *root = s->pattern->tree.root;
	struct span all = { 0, s->length };

	if (!walk_in(s, all, root->end, root->begin, true, true))
		return false;
	while (!s->backward[all.from])
		all.from++;
	walk_in(s, all, root->begin, root->end, false, false);
	while (!s->forward[all.to])
		all.to--;
	*match = all;
	return true;
}

/* Returns the child of a chain that contains the group, and sets *span to its match. */
static const struct pattern_node *descend_chain(struct search *s, const struct pattern_node *chain, struct span *span)
{
	const struct pattern_node *child = chain->child;

	while (!child->has_first_group)
		child = child->next;
	if (child != chain->child)
		span->from = split(s, *span, chain->begin, child->begin, chain->end);
	if (child->next)
		span->to = split(s, *span, child->begin, child->end, chain->end);
	return child;
}

/* Returns the first branch that matches the span, or NULL if this branch does not contain the group. */
static const struct pattern_node *descend_choice(struct search *s, const struct pattern_node *choice, struct span span)
{
	const struct pattern_node *child = choice->child;

	while (child->next && !matches_span(s, span, child->begin, child->end))
		child = child->next;
	return child->has_first_group ? child : NULL;
}

/* Descends from a node to the group in it, and sets *span to the match of the group. NULL: the group takes no part in the match. */
static const struct pattern_node *descend(struct search *s, const struct pattern_node *node, struct span *span)
{
	while (node && !node->is_first_group) {
		switch (node->kind) {
		case PATTERN_NODE_CHAIN:
			node = descend_chain(s, node, span);
			break;
		case PATTERN_NODE_CHOICE:
			node = descend_choice(s, node, *span);
			break;
		case PATTERN_NODE_REPEAT:
			/* x{0}, x? and x{1}; groups with more repetitions are not supported */
			if (node->most == 0 || !matches_span(s, *span, node->child->begin, node->child->end))
				return NULL;
			node = node->child;
			break;
		case PATTERN_NODE_GROUP:
			node = node->child;
			break;
		case PATTERN_NODE_SET:
		case PATTERN_NODE_TEST:
			return NULL;
		}
	}
	return node;
}

bool pattern_captures(const struct pattern *pattern, const char *text, long *start, size_t *size)
{
	struct search s = { .pattern = pattern, .text = text, .length = strlen(text) };
	const struct pattern_node *root = pattern->tree.root;
	struct span span;

	*start = -1;
	*size = 0;
	if (s.length > PATTERN_CAPTURE_MOST || !find_match(&s, &span))
		return false;
	if (!pattern_group_fault(pattern) && descend(&s, root, &span)) {
		*start = (long)span.from;
		*size = span.to - span.from;
	}
	return true;
}

const char *pattern_group_fault(const struct pattern *pattern)
{
	if (pattern->tree.groups == 0)
		return "it has none";
	return pattern->tree.repeats_first_group ? "a quantifier repeats the first ones" : NULL;
}
