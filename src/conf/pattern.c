/*
 * Regular expressions with PostgreSQL's semantics. The C library's engine is not used, because it
 * interprets some expressions differently (\' and \< are anchors there and plain characters in
 * PostgreSQL), and depends on the locale. Its time and memory can also grow with names that clients
 * choose.
 *
 * The match of the first group follows PostgreSQL's rules too. The whole match begins as far left
 * as possible and is as long as possible; then, from left to right, the part before the group
 * matches as much as possible, and then the group. Of the branches of a choice, the first branch
 * that matches its whole part is used.
 */
#include "conf/pattern.h"

#include "conf/pattern_parts.h"

#include <stdio.h>
#include <string.h>

/* ---- nets of states ---- */

/*
 * A regular expression as a net of states (Thompson's construction). A walk over a text follows all
 * paths in parallel, and visits each state at most once for each position of the text, so its time
 * is bounded for all names.
 *
 * Invariant: only the neighbours of a node have arcs into the first state of its part or out of its
 * last state. Loops have their own states. A walk between these two states therefore matches
 * exactly this node.
 */

#define STATES_MOST 4096
#define ARCS_MOST (2 * STATES_MOST)
#define NONE UINT16_MAX

struct arc {
	const struct pattern_set *set;	/* NULL: takes no byte */
	enum pattern_test test;
	uint16_t ends[2];		/* from, to */
	/* the next arc from the same first state, and to the same last state; or NONE */
	uint16_t next[2];
};

/* A set of states. Adding, testing and clearing take constant time. */
struct states {
	uint16_t count;
	uint16_t *list;
	/* of a state in the list; undefined for states that are not in the set */
	uint16_t *place;
};

/* A net of states with arcs: an arc takes a byte of a set, or takes no byte and requires a test to
   hold. */
struct pattern_net {
	struct arc *arcs;
	uint16_t arc_count;
	/* for each state: the first arc that begins there, and the first that ends there */
	uint16_t (*first)[2];
	uint16_t state_count;
	struct states now, then;	/* of the current walk; only one walk runs at a time */
};

/* ---- building ---- */

/* Adds a state without arcs. NONE: too many states. */
static uint16_t add_state(struct pattern_net *net)
{
	uint16_t state = net->state_count;

	if (state == STATES_MOST)
		return NONE;
	net->first[state][0] = net->first[state][1] = NONE;
	net->state_count++;
	return state;
}

/* False: too many arcs, or one of the states is NONE. */
static bool add_arc(struct pattern_net *net, uint16_t from, uint16_t to,
		    const struct pattern_set *set, enum pattern_test test)
{
	struct arc *arc = &net->arcs[net->arc_count];

	if (net->arc_count == ARCS_MOST || from == NONE || to == NONE)
		return false;
	*arc = (struct arc){ .set = set, .test = test, .ends = { from, to } };
	arc->next[0] = net->first[from][0];
	arc->next[1] = net->first[to][1];
	net->first[from][0] = net->first[to][1] = net->arc_count++;
	return true;
}

static uint16_t build(struct pattern_net *net, struct pattern_node *node, uint16_t begin);

/* x{2,5} as xx(x(x(x)?)?)?, and x{2,} as xxx*. */
static uint16_t build_repeat(struct pattern_net *net, struct pattern_node *node, uint16_t begin)
{
	uint16_t at = begin, end, before;

	for (int i = 0; i < node->least && at != NONE; i++) {
		before = at;
		at = build(net, node->child, at);
		/* the empty text is not repeated: (((){255}){255}){255} */
		if (at == before)
			break;
	}
	if (node->most == node->least || at == NONE)
		return at;
	end = add_state(net);
	if (node->most == PATTERN_MANY) {
		before = add_state(net);
		return add_arc(net, at, before, NULL, PATTERN_ANYWHERE) &&
				       add_arc(net, build(net, node->child, before), before, NULL,
					       PATTERN_ANYWHERE) &&
				       add_arc(net, before, end, NULL, PATTERN_ANYWHERE)
			       ? end
			       : NONE;
	}
	for (int i = node->least; i < node->most; i++) {
		before = at;
		if (!add_arc(net, at, end, NULL, PATTERN_ANYWHERE))
			return NONE;
		at = build(net, node->child, at);
		if (at == before)
			break;
	}
	return add_arc(net, at, end, NULL, PATTERN_ANYWHERE) ? end : NONE;
}

/* Builds the part of a node, which begins at state `begin`. Returns its last state. NONE: too many
   states or arcs. */
static uint16_t build(struct pattern_net *net, struct pattern_node *node, uint16_t begin)
{
	uint16_t end = NONE;

	switch (node->kind) {
	case PATTERN_NODE_CHAIN:
		end = begin;
		for (struct pattern_node *child = node->child; child && end != NONE;
		     child = child->next)
			end = build(net, child, end);
		break;
	case PATTERN_NODE_CHOICE:
		if (!node->child->next) {
			end = build(net, node->child, begin);
			break;
		}
		end = add_state(net);
		for (struct pattern_node *child = node->child; child && end != NONE;
		     child = child->next)
			if (!add_arc(net, build(net, child, begin), end, NULL, PATTERN_ANYWHERE))
				end = NONE;
		break;
	case PATTERN_NODE_REPEAT:
		end = build_repeat(net, node, begin);
		break;
	case PATTERN_NODE_GROUP:
		end = build(net, node->child, begin);
		break;
	case PATTERN_NODE_SET:
		end = add_state(net);
		if (!add_arc(net, begin, end, &node->set, PATTERN_ANYWHERE))
			end = NONE;
		break;
	case PATTERN_NODE_TEST:
		end = add_state(net);
		if (!add_arc(net, begin, end, NULL, node->test))
			end = NONE;
		break;
	}
	node->begin = begin;
	node->end = end;
	return end;
}

static bool states_init(struct states *states, uint16_t count, struct arena *arena)
{
	states->list = arena_take(arena, count * sizeof(*states->list));
	states->place = arena_take(arena, count * sizeof(*states->place));
	return states->list && states->place;
}

static void *pattern_copy_of(struct arena *arena, const void *from, size_t size)
{
	void *copy = arena_take(arena, size);

	return copy && size > 0 ? memcpy(copy, from, size) : copy;
}

/* Builds the net of a tree in the arena and sets begin and end of the nodes. The tree must live as
   long as the net. Returns NULL with *why. */
static struct pattern_net *pattern_net_new(struct pattern_tree *tree, struct arena *arena,
					   const char **why)
{
	struct pattern_net built = { .arcs = NULL }, *net = NULL;

	*why = "out of memory";
	built.arcs = mem_try(ARCS_MOST * sizeof(*built.arcs));
	built.first = mem_try(STATES_MOST * sizeof(*built.first));
	if (built.arcs && built.first && build(&built, tree->root, add_state(&built)) == NONE)
		*why = "its repetitions make it too large";
	else if (built.arcs && built.first)
		net = pattern_copy_of(arena, &built, sizeof(built));
	if (net) {
		net->arcs = pattern_copy_of(arena, built.arcs,
					    built.arc_count * sizeof(*net->arcs));
		net->first = pattern_copy_of(arena, built.first,
					     built.state_count * sizeof(*net->first));
		if (!net->arcs || !net->first || !states_init(&net->now, net->state_count, arena) ||
		    !states_init(&net->then, net->state_count, arena))
			net = NULL;
	}
	mem_free(built.arcs);
	mem_free(built.first);
	return net;
}

/* ---- walking ---- */

/* A walk over a text from byte `from` to byte `to`: it begins in state `start` and determines where
   `goal` is reached. */
struct pattern_walk {
	const char *text;
	size_t length, from, to;	/* tests look at the whole text of `length` bytes */
	uint16_t start, goal;
	bool is_backward;		/* from `to` down to `from`, against the arcs */
	bool begins_anywhere;		/* begins at each position instead of the first one */
	/* for each position of the text, whether `goal` is reached there; NULL: the walk ends at
	   the first place */
	bool *reached;
};

static bool is_word_byte(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       c == '_';
}

static bool holds(enum pattern_test test, const struct pattern_walk *walk, size_t position)
{
	bool behind_word = position > 0 && is_word_byte(walk->text[position - 1]);
	bool before_word = position < walk->length && is_word_byte(walk->text[position]);

	switch (test) {
	case PATTERN_ANYWHERE:
		return true;
	case PATTERN_AT_START:
		return position == 0;
	case PATTERN_AT_END:
		return position == walk->length;
	case PATTERN_AT_WORD_START:
		return !behind_word && before_word;
	case PATTERN_AT_WORD_END:
		return behind_word && !before_word;
	case PATTERN_AT_WORD_EDGE:
		return behind_word != before_word;
	case PATTERN_OFF_WORD_EDGE:
		return behind_word == before_word;
	}
	return false;
}

static bool pattern_is_in(const struct states *states, uint16_t state)
{
	uint16_t place = states->place[state];

	return place < states->count && states->list[place] == state;
}

static void pattern_enter(struct states *states, uint16_t state)
{
	if (pattern_is_in(states, state))
		return;
	states->place[state] = states->count;
	states->list[states->count++] = state;
}

/* Returns whether `goal` is reached. The time is bounded by the length of the text times the size
   of the net. */
static bool pattern_net_walk(const struct pattern_net *net, const struct pattern_walk *walk)
{
	struct states now = net->now, then = net->then, other;
	const int side = walk->is_backward;
	size_t position = side ? walk->to : walk->from, last = side ? walk->from : walk->to;
	bool found = false;
	uint8_t byte;

	pattern_enter(&now, walk->start);
	for (;;) {
		/* Add the states that are reached without taking a byte. The list grows while the
		   loop reads it. */
		for (uint16_t i = 0; i < now.count; i++)
			for (uint16_t a = net->first[now.list[i]][side]; a != NONE;
			     a = net->arcs[a].next[side])
				if (!net->arcs[a].set && holds(net->arcs[a].test, walk, position))
					pattern_enter(&now, net->arcs[a].ends[!side]);
		if (pattern_is_in(&now, walk->goal)) {
			found = true;
			if (!walk->reached)
				return true;
			walk->reached[position] = true;
		}
		if (position == last)
			return found;
		/* Take the next byte. */
		byte = (uint8_t)walk->text[side ? position - 1 : position];
		then.count = 0;
		for (uint16_t i = 0; i < now.count; i++)
			for (uint16_t a = net->first[now.list[i]][side]; a != NONE;
			     a = net->arcs[a].next[side])
				if (net->arcs[a].set && pattern_set_has(net->arcs[a].set, byte))
					pattern_enter(&then, net->arcs[a].ends[!side]);
		other = now;
		now = then;
		then = other;
		position += side ? (size_t)-1 : 1;
		if (walk->begins_anywhere)
			pattern_enter(&now, walk->start);
		if (now.count == 0)
			return found;
	}
}

/* ---- expressions ---- */

struct pattern {
	struct arena *arena;		/* contains this structure too */
	struct pattern_tree tree;
	struct pattern_net *net;
};

struct pattern *pattern_new(const char *text, char *why, size_t why_size)
{
	struct arena *arena = arena_new(false);
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
	struct pattern_walk walk = { .text = text,
				     .length = strlen(text),
				     .begins_anywhere = true };

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
	/* the positions that walks reached */
	bool forward[PATTERN_CAPTURE_MOST + 1], backward[PATTERN_CAPTURE_MOST + 1];
};

static bool walk_in(struct search *s, struct span span, uint16_t start, uint16_t goal,
		    bool is_backward, bool anywhere)
{
	bool *reached = is_backward ? s->backward : s->forward;
	struct pattern_walk walk = {
		.text = s->text,
		.length = s->length,
		.from = span.from,
		.to = span.to,
		.start = start,
		.goal = goal,
		.is_backward = is_backward,
		.begins_anywhere = anywhere,
		.reached = reached,
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

/* Returns the last position where the net between `begin` and `middle` can end, such that the net
   between `middle` and `end` matches the rest of the span. */
static size_t pattern_split(struct search *s, struct span span, uint16_t begin, uint16_t middle,
			    uint16_t end)
{
	size_t at = span.to;

	walk_in(s, span, begin, middle, false, false);
	walk_in(s, span, end, middle, true, false);
	while (at > span.from && !(s->forward[at] && s->backward[at]))
		at--;
	return at;
}

/* Descends from a node to the group in it, and sets *span to the match of the group. NULL: the
   group takes no part in the match. */
static const struct pattern_node *descend(struct search *s, const struct pattern_node *node,
					  struct span *span)
{
	const struct pattern_node *parent;

	while (node && !node->is_first_group) {
		parent = node;
		node = parent->child;
		switch (parent->kind) {
		case PATTERN_NODE_CHAIN:
			while (!node->has_first_group)
				node = node->next;
			if (node != parent->child)
				span->from = pattern_split(s, *span, parent->begin, node->begin,
							   parent->end);
			if (node->next)
				span->to = pattern_split(s, *span, node->begin, node->end,
							 parent->end);
			break;
		case PATTERN_NODE_CHOICE:
			while (node->next && !matches_span(s, *span, node->begin, node->end))
				node = node->next;
			if (!node->has_first_group)
				return NULL;
			break;
		case PATTERN_NODE_REPEAT:
			/* x{0}, x? and x{1}; groups with more repetitions are not supported */
			if (parent->most == 0 || !matches_span(s, *span, node->begin, node->end))
				return NULL;
			break;
		case PATTERN_NODE_GROUP:
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
	struct span span = { 0, s.length };

	*start = -1;
	*size = 0;
	if (s.length > PATTERN_CAPTURE_MOST ||
	    !walk_in(&s, span, root->end, root->begin, true, true))
		return false;
	/* The match begins as far left as possible, and is then as long as possible. */
	while (!s.backward[span.from])
		span.from++;
	walk_in(&s, span, root->begin, root->end, false, false);
	while (!s.forward[span.to])
		span.to--;
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
