/*
 * A regular expression as a net of states (Thompson's construction), and walks over a text that follow all paths in parallel. A
 * walk visits each state at most once for each position of the text, so its time is bounded for all names.
 *
 * Invariant: only the neighbours of a node have arcs into the first state of its part or out of its last state. Loops have
 * their own states. A walk between these two states therefore matches exactly this node.
 */
#include "conf/pattern_parts.h"

#include <string.h>

#define STATES_MOST 4096
#define ARCS_MOST (2 * STATES_MOST)
#define NONE UINT16_MAX

struct arc {
	const struct pattern_set *set;	/* NULL: takes no byte */
	enum pattern_test test;
	uint16_t ends[2];		/* from, to */
	uint16_t next[2];		/* the next arc from the same first state, and to the same last state; or NONE */
};

/* A set of states. Adding, testing and clearing take constant time. */
struct states {
	uint16_t count;
	uint16_t *list;
	uint16_t *place;		/* of a state in the list; undefined for states that are not in the set */
};

struct pattern_net {
	struct arc *arcs;
	uint16_t arc_count;
	uint16_t (*first)[2];		/* for each state: the first arc that begins there, and the first that ends there */
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
static bool add_arc(struct pattern_net *net, uint16_t from, uint16_t to, const struct pattern_set *set, enum pattern_test test)
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

static uint16_t build_chain(struct pattern_net *net, struct pattern_node *node, uint16_t at)
{
	for (struct pattern_node *child = node->child; child && at != NONE; child = child->next)
		at = build(net, child, at);
	return at;
}

static uint16_t build_choice(struct pattern_net *net, struct pattern_node *node, uint16_t begin)
{
	uint16_t end;

	if (!node->child->next)
		return build(net, node->child, begin);
	end = add_state(net);
	for (struct pattern_node *child = node->child; child; child = child->next)
		if (!add_arc(net, build(net, child, begin), end, NULL, PATTERN_ANYWHERE))
			return NONE;
	return end;
}

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
		       add_arc(net, build(net, node->child, before), before, NULL, PATTERN_ANYWHERE) &&
		       add_arc(net, before, end, NULL, PATTERN_ANYWHERE) ? end : NONE;
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

static uint16_t build_arc(struct pattern_net *net, struct pattern_node *node, uint16_t begin)
{
	bool is_set = node->kind == PATTERN_NODE_SET;
	uint16_t end = add_state(net);

	return add_arc(net, begin, end, is_set ? &node->set : NULL, is_set ? PATTERN_ANYWHERE : node->test) ? end : NONE;
}

/* Builds the part of a node, which begins at state `begin`. Returns its last state. NONE: too many states or arcs. */
static uint16_t build(struct pattern_net *net, struct pattern_node *node, uint16_t begin)
{
	uint16_t end = NONE;

	switch (node->kind) {
	case PATTERN_NODE_CHAIN:
		end = build_chain(net, node, begin);
		break;
	case PATTERN_NODE_CHOICE:
		end = build_choice(net, node, begin);
		break;
	case PATTERN_NODE_REPEAT:
		end = build_repeat(net, node, begin);
		break;
	case PATTERN_NODE_GROUP:
		end = build(net, node->child, begin);
		break;
	case PATTERN_NODE_SET:
	case PATTERN_NODE_TEST:
		end = build_arc(net, node, begin);
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

static void *copy_of(struct arena *arena, const void *from, size_t size)
{
	void *copy = arena_take(arena, size);

	return copy && size > 0 ? memcpy(copy, from, size) : copy;
}

/* Copies the net into memory of the exact size. NULL: no memory. */
static struct pattern_net *keep(const struct pattern_net *built, struct arena *arena)
{
	struct pattern_net *net = copy_of(arena, built, sizeof(*built));

	if (!net)
		return NULL;
	net->arcs = copy_of(arena, built->arcs, built->arc_count * sizeof(*net->arcs));
	net->first = copy_of(arena, built->first, built->state_count * sizeof(*net->first));
	return net->arcs && net->first && states_init(&net->now, net->state_count, arena) &&
	       states_init(&net->then, net->state_count, arena) ? net : NULL;
}

struct pattern_net *pattern_net_new(struct pattern_tree *tree, struct arena *arena, const char **why)
{
	struct pattern_net built = { .arcs = NULL }, *net = NULL;

	*why = "out of memory";
	built.arcs = mem_try(ARCS_MOST * sizeof(*built.arcs));
	built.first = mem_try(STATES_MOST * sizeof(*built.first));
	if (built.arcs && built.first) {
		if (build(&built, tree->root, add_state(&built)) == NONE)
			*why = "its repetitions make it too large";
		else
			net = keep(&built, arena);
	}
	mem_free(built.arcs);
	mem_free(built.first);
	return net;
}

/* ---- walking ---- */

static bool is_word_byte(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
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

static bool is_in(const struct states *states, uint16_t state)
{
	uint16_t place = states->place[state];

	return place < states->count && states->list[place] == state;
}

static void enter(struct states *states, uint16_t state)
{
	if (is_in(states, state))
		return;
	states->place[state] = states->count;
	states->list[states->count++] = state;
}

/* Adds the states that are reached from `now` without taking a byte. */
static void close_over(const struct pattern_net *net, const struct pattern_walk *walk, struct states *now, size_t position)
{
	int side = walk->is_backward;

	/* the list grows while the loop reads it */
	for (uint16_t i = 0; i < now->count; i++)
		for (uint16_t a = net->first[now->list[i]][side]; a != NONE; a = net->arcs[a].next[side])
			if (!net->arcs[a].set && holds(net->arcs[a].test, walk, position))
				enter(now, net->arcs[a].ends[!side]);
}

/* Adds the states that are reached from `now` by taking this byte to `then`, which is empty. */
static void step_over(const struct pattern_net *net, const struct pattern_walk *walk, const struct states *now,
		      struct states *then, char byte)
{
	int side = walk->is_backward;

	for (uint16_t i = 0; i < now->count; i++)
		for (uint16_t a = net->first[now->list[i]][side]; a != NONE; a = net->arcs[a].next[side])
			if (net->arcs[a].set && pattern_set_has(net->arcs[a].set, (uint8_t)byte))
				enter(then, net->arcs[a].ends[!side]);
}

bool pattern_net_walk(const struct pattern_net *net, const struct pattern_walk *walk)
{
	struct states now = net->now, then = net->then, other;
	size_t position = walk->is_backward ? walk->to : walk->from, last = walk->is_backward ? walk->from : walk->to;
	bool found = false;

	enter(&now, walk->start);
	for (;;) {
		close_over(net, walk, &now, position);
		if (is_in(&now, walk->goal)) {
			found = true;
			if (!walk->reached)
				return true;
			walk->reached[position] = true;
		}
		if (position == last)
			return found;
		then.count = 0;
		step_over(net, walk, &now, &then, walk->text[walk->is_backward ? position - 1 : position]);
		other = now;
		now = then;
		then = other;
		position += walk->is_backward ? (size_t)-1 : 1;
		if (walk->begins_anywhere)
			enter(&now, walk->start);
		if (now.count == 0)
			return found;
	}
}
