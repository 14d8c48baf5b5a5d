/*
 * The grammar of PostgreSQL's "advanced" regular expressions (section "Regular Expression Details"
 * of its documentation), as far as it is supported:
 *
 * choice = branch *( "|" branch ) ; a branch may be empty
 * branch = *( test / atom [ times ] )
 * test = "^" / "$" / "\A" / "\Z" / "\m" / "\M" / "\y" / "\Y"
 * atom = "(" choice ")" / "(?:" choice ")" / "[" set "]" / "." / "\" class / "\" punctuation / byte
 * times = "*" / "+" / "?" / "{" count [ "," [ count ] ] "}"
 *
 * A supported expression has the same meaning as in PostgreSQL; all others are refused. PostgreSQL
 * compares the names of pg_hba.conf and pg_ident.conf byte by byte in the C locale, independent of
 * the encoding of a database, so an atom is a byte: "." matches half of an "é" in UTF-8. As in
 * PostgreSQL, a "{" without a digit after it is an ordinary byte.
 *
 * Not supported: look-ahead and look-behind, options and comments "(?", the director "***", lazy
 * quantifiers, back references, escapes for control characters and numbers (\n, \x41), \D \S \W
 * within brackets, collating elements and equivalence classes, [[:<:]] and [[:>:]], classes that
 * POSIX lacks.
 */
#include "conf/pattern_parts.h"

#include <string.h>

#define DEPTH_MOST 100			/* nesting of parentheses */
#define COUNT_MOST 255			/* PostgreSQL's DUPMAX */

struct parser {
	const char *at;
	struct arena *arena;
	struct pattern_tree *tree;
	int depth;
	const char *why;
};

static const char pattern_no_memory[] = "out of memory";
static const char bad_quantifier[] =
	"a quantifier stands behind nothing, or behind another (lazy ones are not supported)";
static const char bad_escape[] = "it holds an escape that is not supported";
static const char bad_bracket[] =
	"its [brackets] are not closed, or hold something that is not supported";

/* Records why the expression cannot be used; the first reason is kept. */
static void *pattern_fail(struct parser *p, const char *why)
{
	if (!p->why)
		p->why = why;
	return NULL;
}

static struct pattern_node *new_node(struct parser *p, enum pattern_kind kind)
{
	struct pattern_node *node = arena_take(p->arena, sizeof(*node));

	if (!node)
		return pattern_fail(p, pattern_no_memory);
	node->kind = kind;
	return node;
}

/* ---- sets of bytes ---- */

static void add_range(struct pattern_set *set, unsigned first, unsigned last)
{
	for (unsigned byte = first; byte <= last; byte++)
		set->bits[byte / 32] |= 1u << byte % 32;
}

static void add_byte(struct pattern_set *set, char c)
{
	add_range(set, (uint8_t)c, (uint8_t)c);
}

static void invert(struct pattern_set *set)
{
	for (size_t i = 0; i < 8; i++)
		set->bits[i] = ~set->bits[i];
}

/* Adds the class with this name (`size` bytes), as PostgreSQL defines it in the C locale, where
   bytes 0x80 to 0x9f are control characters. False: unknown class. */
static bool add_class(struct pattern_set *set, const char *name, size_t size)
{
	static const struct {
		const char *name;
		uint8_t ranges[4][2];	/* terminated by a range with the end 0 */
	} classes[] = {
		{ "alnum", { { '0', '9' }, { 'A', 'Z' }, { 'a', 'z' } } },
		{ "alpha", { { 'A', 'Z' }, { 'a', 'z' } } },
		{ "blank", { { ' ', ' ' }, { '\t', '\t' } } },
		{ "cntrl", { { 0x01, 0x1f }, { 0x7f, 0x9f } } },
		{ "digit", { { '0', '9' } } },
		{ "graph", { { '!', '~' } } },
		{ "lower", { { 'a', 'z' } } },
		{ "print", { { ' ', '~' } } },
		{ "punct", { { '!', '/' }, { ':', '@' }, { '[', '`' }, { '{', '~' } } },
		{ "space", { { '\t', '\r' }, { ' ', ' ' } } },
		{ "upper", { { 'A', 'Z' } } },
		{ "xdigit", { { '0', '9' }, { 'A', 'F' }, { 'a', 'f' } } },
	};

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		if (strlen(classes[i].name) != size || memcmp(classes[i].name, name, size) != 0)
			continue;
		for (size_t j = 0; j < 4 && classes[i].ranges[j][1]; j++)
			add_range(set, classes[i].ranges[j][0], classes[i].ranges[j][1]);
		return true;
	}
	return false;
}

/* Adds the class of \d, \s or \w. False: another letter. */
static bool add_escaped_class(struct pattern_set *set, char letter)
{
	if (letter == 'w')
		add_byte(set, '_');
	return (letter == 'd' && add_class(set, "digit", 5)) ||
	       (letter == 's' && add_class(set, "space", 5)) ||
	       (letter == 'w' && add_class(set, "alnum", 5));
}

static bool is_letter_or_digit(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* ---- [brackets] ---- */

/* Parses one byte of a set, which may be escaped, to *byte. False: not a byte. */
static bool pattern_read_member(struct parser *p, uint8_t *byte)
{
	bool is_escaped = *p->at == '\\';

	p->at += is_escaped;
	if (*p->at == '\0' || (is_escaped && is_letter_or_digit(*p->at)))
		return false;
	*byte = (uint8_t)*p->at++;
	return true;
}

/* Whether a "-" at this position is within a range: a "-" at the end of a set is an ordinary
   byte. */
static bool is_range(const struct parser *p)
{
	return p->at[0] == '-' && p->at[1] != ']' && p->at[1] != '\0';
}

/* Parses a class, a byte or a range. */
static bool read_item(struct parser *p, struct pattern_set *set, bool is_first)
{
	uint8_t first, last;

	if (*p->at == '[' && p->at[1] == ':') {
		const char *name = p->at + 2, *end = strstr(name, ":]");

		if (!end || !add_class(set, name, (size_t)(end - name)))
			return false;
		p->at = end + 2;
		return true;
	}
	if (*p->at == '[' && (p->at[1] == '.' || p->at[1] == '='))
		return false;
	if (*p->at == '\\' && add_escaped_class(set, p->at[1])) {
		p->at += 2;
		return true;
	}
	/* as in PostgreSQL, no range begins with "-", and none follows directly after a class or a
	   range */
	if ((!is_first && is_range(p)) || !pattern_read_member(p, &first))
		return false;
	last = first;
	if (is_range(p)) {
		p->at++;
		/* "[" may end a range only if it does not begin a class */
		if ((*p->at == '[' && strchr(":.=", p->at[1])) || !pattern_read_member(p, &last) ||
		    last < first)
			return false;
	}
	add_range(set, first, last);
	return true;
}

static struct pattern_node *read_bracket(struct parser *p)
{
	struct pattern_node *node = new_node(p, PATTERN_NODE_SET);
	bool is_inverted, is_first = true;

	if (!node)
		return NULL;
	p->at++;
	is_inverted = *p->at == '^';
	p->at += is_inverted;
	for (; is_first || *p->at != ']'; is_first = false)
		if (*p->at == '\0' || !read_item(p, &node->set, is_first))
			return pattern_fail(p, bad_bracket);
	p->at++;
	if (is_inverted)
		invert(&node->set);
	return node;
}

/* ---- atoms ---- */

static struct pattern_node *new_test(struct parser *p, enum pattern_test test)
{
	struct pattern_node *node = new_node(p, PATTERN_NODE_TEST);

	if (node)
		node->test = test;
	return node;
}

static struct pattern_node *read_escape(struct parser *p)
{
	static const char tests[] = "AZmMyY", inverted[] = "DSW", classes[] = "dsw";
	static const enum pattern_test meanings[] = {
		PATTERN_AT_START,    PATTERN_AT_END,	   PATTERN_AT_WORD_START,
		PATTERN_AT_WORD_END, PATTERN_AT_WORD_EDGE, PATTERN_OFF_WORD_EDGE,
	};
	char letter = p->at[1];
	const char *test = letter ? strchr(tests, letter) : NULL,
		   *capital = letter ? strchr(inverted, letter) : NULL;
	struct pattern_node *node;

	p->at += 1 + (letter != '\0');
	if (capital)
		letter = classes[capital - inverted];
	if (test)
		return new_test(p, meanings[test - tests]);
	node = new_node(p, PATTERN_NODE_SET);
	if (!node)
		return NULL;
	if (add_escaped_class(&node->set, letter)) {
		if (capital)
			invert(&node->set);
		return node;
	}
	if (letter == '\0' || is_letter_or_digit(letter))
		return pattern_fail(p, bad_escape);
	add_byte(&node->set, letter);
	return node;
}

static struct pattern_node *read_choice(struct parser *p);

static struct pattern_node *read_group(struct parser *p)
{
	struct pattern_node *node = new_node(p, PATTERN_NODE_GROUP);
	bool captures = p->at[1] != '?';

	if (!node)
		return NULL;
	if (!captures && p->at[2] != ':')
		return pattern_fail(
			p, "expressions with \"(?\" are not supported, except for \"(?:\"");
	if (p->depth == DEPTH_MOST)
		return pattern_fail(p, "its parentheses are nested too deeply");
	node->is_first_group = captures && p->tree->groups++ == 0;
	p->at += captures ? 1 : 3;
	p->depth++;
	node->child = read_choice(p);
	p->depth--;
	if (!node->child)
		return NULL;
	if (*p->at++ != ')')
		return pattern_fail(p, "a \"(\" is not closed");
	node->has_first_group = node->is_first_group || node->child->has_first_group;
	return node;
}

static bool is_quantifier(const struct parser *p)
{
	return (*p->at && strchr("*+?", *p->at)) ||
	       (*p->at == '{' && p->at[1] >= '0' && p->at[1] <= '9');
}

static struct pattern_node *read_atom(struct parser *p)
{
	struct pattern_node *node;

	if (is_quantifier(p))
		return pattern_fail(p, bad_quantifier);
	switch (*p->at) {
	case '^':
		p->at++;
		return new_test(p, PATTERN_AT_START);
	case '$':
		p->at++;
		return new_test(p, PATTERN_AT_END);
	case '(':
		return read_group(p);
	case '[':
		return read_bracket(p);
	case '\\':
		return read_escape(p);
	}
	node = new_node(p, PATTERN_NODE_SET);
	if (node && *p->at == '.')
		add_range(&node->set, 0x01, 0xff);
	else if (node)
		add_byte(&node->set, *p->at);
	p->at++;
	return node;
}

/* ---- quantifiers ---- */

/* Parses a number. False: no number, or too large. */
static bool read_count(struct parser *p, uint16_t *count)
{
	unsigned number = 0;
	const char *start = p->at;

	for (; *p->at >= '0' && *p->at <= '9' && number <= COUNT_MOST; p->at++)
		number = number * 10 + (unsigned)(*p->at - '0');
	*count = (uint16_t)number;
	return p->at > start && number <= COUNT_MOST;
}

/* Parses the quantifier after `atom`: * + ? {2} {2,} {2,5}. */
static struct pattern_node *read_times(struct parser *p, struct pattern_node *atom)
{
	static const char bad_bound[] =
		"the numbers in its {braces} are wrong: at most 255, and in order";
	struct pattern_node *repeat = new_node(p, PATTERN_NODE_REPEAT);
	char c = *p->at;

	if (!repeat)
		return NULL;
	if (atom->kind == PATTERN_NODE_TEST)
		return pattern_fail(p, bad_quantifier);
	repeat->child = atom;
	p->at++;
	if (c == '{') {
		if (!read_count(p, &repeat->least))
			return pattern_fail(p, bad_bound);
		repeat->most = repeat->least;
		if (*p->at == ',') {
			p->at++;
			repeat->most = PATTERN_MANY;
			if (*p->at != '}' && !read_count(p, &repeat->most))
				return pattern_fail(p, bad_bound);
		}
		if (*p->at++ != '}' || repeat->least > repeat->most)
			return pattern_fail(p, bad_bound);
	} else {
		repeat->least = c == '+';
		repeat->most = c == '?' ? 1 : PATTERN_MANY;
	}
	/* a second quantifier, or the "?" of a lazy quantifier */
	if (is_quantifier(p))
		return pattern_fail(p, bad_quantifier);
	repeat->has_first_group = atom->has_first_group;
	if (atom->has_first_group && repeat->most > 1)
		p->tree->repeats_first_group = true;
	return repeat;
}

/* ---- branches ---- */

static struct pattern_node *read_branch(struct parser *p)
{
	struct pattern_node *chain = new_node(p, PATTERN_NODE_CHAIN),
			    **end = chain ? &chain->child : NULL;

	while (chain && *p->at && *p->at != '|' && (*p->at != ')' || p->depth == 0)) {
		if (*p->at == ')')
			return pattern_fail(p, "a \")\" closes nothing");
		*end = read_atom(p);
		if (*end && is_quantifier(p))
			*end = read_times(p, *end);
		if (!*end)
			return NULL;
		chain->has_first_group |= (*end)->has_first_group;
		end = &(*end)->next;
	}
	return chain;
}

/* Parses branches up to the ")" of the group, or the end. NULL: the expression cannot be used. */
static struct pattern_node *read_choice(struct parser *p)
{
	struct pattern_node *choice = new_node(p, PATTERN_NODE_CHOICE),
			    **end = choice ? &choice->child : NULL;

	while (choice) {
		*end = read_branch(p);
		if (!*end)
			return NULL;
		choice->has_first_group |= (*end)->has_first_group;
		end = &(*end)->next;
		if (*p->at != '|')
			break;
		p->at++;
	}
	return choice;
}

const char *pattern_read(struct pattern_tree *tree, const char *text, struct arena *arena)
{
	struct parser p = { .at = text, .arena = arena, .tree = tree };

	*tree = (struct pattern_tree){ .groups = 0 };
	tree->root = read_choice(&p);
	return p.why;
}
