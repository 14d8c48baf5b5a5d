/*
 * The oracle of texts: compares what pgweir's recogniser reports of SQL texts (sql/sql_uses.h) with
 * libpg_query, which is PostgreSQL's own scanner and grammar.
 *
 *	test/oracle/texts [--mutations N] [--seed S] [--seconds T] FILE...
 *
 * A FILE has texts that end with NUL, or is a script of psql: lines of psql's own commands are removed,
 * and PostgreSQL's scanner splits the rest into statements. For each text that PostgreSQL can scan the
 * recogniser's tokens must end where PostgreSQL's end. For each text that PostgreSQL can parse, each
 * function, attribute, cast, operator, collation and sampling method of the parse tree must have been
 * reported at its place. A text of which the recogniser says that it is uncertain counts as unproven
 * and passes.
 *
 * --mutations N: after each text, N changed ones, from this seed. --seconds T ends the run, after the
 * texts themselves; texts are then changed again until T is over.
 *
 * The last line counts texts. Status 0: no difference.
 */
#include "sql/sql_uses.h"

#include <jansson.h>
#include <pg_query.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TOKENS_MOST 65536
#define TEXT_MOST 65536			/* longer texts are left out */
#define FAILURES_MOST 50		/* reported in full */

enum { SCAN_SQL_COMMENT = 275, SCAN_C_COMMENT = 276 };

static struct { unsigned start, end; } tokens[TOKENS_MOST];
static size_t token_count;
static struct { unsigned start, end; enum sql_use_kind kind; } uses[4 * TOKENS_MOST];
static size_t use_count;
static const char *text_now;
static size_t text_size;
static unsigned long texts, parsed, unproven, failures;
static bool has_failed;

static void fail_text(const char *what, const char *name, long at)
{
	if (has_failed)
		return;
	has_failed = true;
	if (failures++ < FAILURES_MOST)
		printf("DIFFERENCE: %s%s%s at byte %ld of: %s\n", what, *name ? " " : "", name, at, text_now);
}

/* ---- what PostgreSQL's scanner says ---- */

static uint64_t varint(const uint8_t **at, const uint8_t *end)
{
	uint64_t value = 0;

	for (int shift = 0; *at < end && shift < 64; shift += 7) {
		value |= (uint64_t)(**at & 0x7f) << shift;
		if (!(*(*at)++ & 0x80))
			break;
	}
	return value;
}

/* A ScanToken of libpg_query's protobuf: start, end, kind and kind of keyword are its fields 1, 2, 4 and 5. */
static void take_token(const uint8_t *at, const uint8_t *end)
{
	uint64_t fields[8] = { 0 };
	bool is_unicode;

	while (at < end) {
		uint64_t key = varint(&at, end);

		fields[key >> 3 & 7] = varint(&at, end);
	}
	if (fields[4] == SCAN_SQL_COMMENT || fields[4] == SCAN_C_COMMENT || token_count == TOKENS_MOST)
		return;
	tokens[token_count].start = (unsigned)fields[1];
	/* libpg_query does not know the ends of U&'string' and U&"name" */
	is_unicode = (text_now[fields[1]] | 0x20) == 'u' && fields[2] <= fields[1] + 1 && text_now[fields[1] + 1] == '&';
	tokens[token_count++].end = is_unicode ? 0 : (unsigned)fields[2];
}

static bool scan(const char *text)
{
	PgQueryScanResult r = pg_query_scan(text);
	const uint8_t *at = (const uint8_t *)r.pbuf.data, *end = at + r.pbuf.len;
	bool is_right = !r.error;

	token_count = 0;
	while (is_right && at < end) {
		uint64_t key = varint(&at, end), size = varint(&at, end);

		/* field 1 is the version, a number */
		if (key >> 3 == 2) {
			take_token(at, at + size);
			at += size;
		}
	}
	pg_query_free_scan_result(r);
	return is_right;
}

/* ---- what the recogniser says ---- */

static void use_seen(void *context, const struct sql_use *use)
{
	(void)context;
	if (use_count == sizeof(uses) / sizeof(*uses))
		return;
	uses[use_count].start = (unsigned)(use->name.at - text_now);
	uses[use_count].end = (unsigned)(use->name.at + use->name.size - text_now);
	uses[use_count++].kind = use->kind;
}

/* False: the text is unproven in any case. */
static bool recognise(const char *text, size_t size)
{
	struct sql_walk walk = { .reports_all = true };
	int64_t share = INT64_MAX;

	use_count = 0;
	sql_uses_walk(&walk, (const uint8_t *)text, size + 1, &share, use_seen, NULL);
	return !walk.is_uncertain;
}

static bool is_seen(unsigned start, unsigned kinds)
{
	for (size_t i = 0; i < use_count; i++)
		if (uses[i].start == start && kinds >> uses[i].kind & 1)
			return true;
	return false;
}

/* Two strings that end earlier in libpg_query. It returns comments, and so ends a string before a comment after which PostgreSQL continues it
   ('a'--\n'b'). And a doubled quote ends a bit string (B'1''x'): what follows is a string, which no grammar allows there. */
static bool is_ended_early(size_t use, size_t token)
{
	const char *begin = text_now + tokens[token].start, *at = text_now + tokens[token].end;

	if (tokens[token].end == 0 || at[-1] != '\'' || uses[use].end <= tokens[token].end)
		return false;
	if (strchr("bBxX", *begin) && *at == '\'')
		return true;
	at += strspn(at, " \t\f\r\n");
	return strncmp(at, "--", 2) == 0 && at < text_now + uses[use].end;
}

static void compare_tokens(void)
{
	size_t next = 0;

	for (size_t i = 0; i < use_count; i++) {
		if (uses[i].kind != SQL_USE_TOKEN)
			continue;
		if (next < token_count && uses[i].start == tokens[next].start && is_ended_early(i, next)) {
			while (next < token_count && tokens[next].start < uses[i].end)
				next++;
			continue;
		}
		if (next == token_count || (tokens[next].end > 0 && uses[i].end != tokens[next].end) || uses[i].start != tokens[next].start) {
			if (!has_failed && failures < FAILURES_MOST)
				printf("token %u to %u, and PostgreSQL's %u to %u\n", uses[i].start, uses[i].end, next < token_count ? tokens[next].start : 0,
				       next < token_count ? tokens[next].end : 0);
			fail_text("a token", "", uses[i].start);
			return;
		}
		next++;
	}
	if (next != token_count)
		fail_text("a missing token", "", tokens[next].start);
}

/* ---- the parse tree ---- */

#define KIND(k) (1u << SQL_USE_##k)
#define ANY (KIND(CALL) | KIND(COLUMN) | KIND(FIELD) | KIND(TYPE) | KIND(OPERATOR) | KIND(COLLATION) | KIND(METHOD) | KIND(WORD))

/* The location of a node; libpg_query leaves 0 out. */
static long location_of(const json_t *node)
{
	const json_t *at = json_object_get(node, "location");

	return at ? (long)json_integer_value(at) : 0;
}

static size_t token_at(long location)
{
	for (size_t i = 0; i < token_count; i++)
		if ((long)tokens[i].start == location)
			return i;
	return token_count;
}

static bool is_dot(size_t token) { return token < token_count && tokens[token].end - tokens[token].start == 1 && text_now[tokens[token].start] == '.'; }

/* The start of the last part of the name that begins at the token. */
static size_t last_part(size_t token)
{
	while (is_dot(token + 1) && token + 2 < token_count)
		token += 2;
	return token;
}

static const char *last_string(const json_t *names)
{
	const json_t *last = json_array_get(names, json_array_size(names) - 1);
	const char *name = json_string_value(json_object_get(json_object_get(last, "String"), "sval"));

	if (!name)
		name = json_string_value(json_object_get(json_object_get(last, "String"), "str"));
	return name ? name : "";
}

/* Whether the text has the name itself there, and not syntax that stands for it, as SIMILAR TO for similar_to_escape(). */
static bool is_spelled(const json_t *names, size_t token)
{
	const char *name = last_string(names), *at;

	if (token == token_count)
		return false;
	if (json_array_size(names) > 1)
		return is_dot(token + 1);
	at = text_now + tokens[token].start;
	return *at == '"' || strncasecmp(at, "u&", 2) == 0 || strncasecmp(at, name, strlen(name)) == 0;
}

/* Something of these kinds is reported at the name that begins at the location. */
static void want_name(const char *what, const json_t *names, long location, unsigned kinds)
{
	size_t token = token_at(location);

	if (location < 0)
		return;
	if (!is_spelled(names, token))
		kinds = ANY;
	if (token == token_count || !is_seen(tokens[last_part(token)].start, kinds))
		fail_text(what, last_string(names), location);
}

/* The operator, or the word that stands for it, is at the location; in OPERATOR(schema.+) it follows. */
static void want_operator(const json_t *names, long location)
{
	size_t token = token_at(location), last = token;
	static const char word[] = "OPERATOR";

	if (location < 0)
		return;
	if (token < token_count && strncasecmp(text_now + tokens[token].start, word, sizeof(word) - 1) == 0 && token + 2 < token_count)
		last = last_part(token + 2);
	if (token == token_count || !is_seen(tokens[last].start, ANY))
		fail_text("operator", last_string(names), location);
}

/* Uses of the kinds with this name, unless the name has quotes or escapes, or is cut to 63 bytes. */
static unsigned count_uses(const char *name, unsigned kinds)
{
	unsigned count = 0;

	for (size_t i = 0; i < use_count; i++) {
		unsigned size = uses[i].end - uses[i].start;
		const char *at = text_now + uses[i].start;

		if (!(kinds >> uses[i].kind & 1))
			continue;
		if (*at == '"' || ((*at | 0x20) == 'u' && size > 2 && at[1] == '&') || size > 63)
			count++;
		else
			count += size == strlen(name) && strncasecmp(at, name, size) == 0;
	}
	return count;
}

static void want_count(const char *what, const char *name, unsigned kinds)
{
	if (count_uses(name, kinds) == 0)
		fail_text(what, name, -1);
}

static bool is_before_parameter(long location)
{
	size_t next = last_part(token_at(location)) + 1;

	return next < token_count && text_now[tokens[next].start] == '$';
}

static void see_node(const char *kind, const json_t *node)
{
	const json_t *names, *type;
	size_t i;

	if (strcmp(kind, "FuncCall") == 0) {
		names = json_object_get(node, "funcname");
		const char *format = json_string_value(json_object_get(node, "funcformat"));
		bool is_syntax = format && strcmp(format, "COERCE_SQL_SYNTAX") == 0;

		want_name("function", names, location_of(node), is_syntax ? ANY : KIND(CALL));
	} else if (strcmp(kind, "A_Expr") == 0) {
		want_operator(json_object_get(node, "name"), location_of(node));
	} else if (strcmp(kind, "SubLink") == 0) {
		if (json_object_get(node, "operName"))
			want_operator(json_object_get(node, "operName"), location_of(node));
	} else if (strcmp(kind, "TypeCast") == 0) {
		type = json_object_get(node, "typeName");
		/* libpg_query has a grammar of its own for a type before $1 */
		if (json_object_get(json_object_get(node, "arg"), "ParamRef") && is_before_parameter(location_of(type)))
			return;
		want_name("type", json_object_get(type, "names"), location_of(type), KIND(TYPE) | KIND(CALL));
	} else if (strcmp(kind, "CollateClause") == 0) {
		want_count("collation", last_string(json_object_get(node, "collname")), KIND(COLLATION));
	} else if (strcmp(kind, "RangeTableSample") == 0) {
		want_count("sampling method", last_string(json_object_get(node, "method")), KIND(METHOD));
	} else if (strcmp(kind, "MinMaxExpr") == 0 || strcmp(kind, "XmlExpr") == 0) {
		if (location_of(node) >= 0 && !is_seen((unsigned)location_of(node), ANY))
			fail_text("expression", kind, location_of(node));
	} else if (strcmp(kind, "ColumnRef") == 0) {
		names = json_object_get(node, "fields");
		if (json_array_size(names) > 1 && *last_string(names))
			want_name("attribute", names, location_of(node), KIND(COLUMN) | KIND(FIELD));
	} else if (strcmp(kind, "A_Indirection") == 0) {
		const json_t *each;

		json_array_foreach(json_object_get(node, "indirection"), i, each) {
			json_t *only = json_pack("[O]", (json_t *)(uintptr_t)each);

			if (json_object_get(each, "String"))
				want_count("attribute", last_string(only), KIND(FIELD) | KIND(COLUMN));
			json_decref(only);
		}
	}
}

static void walk_tree(const json_t *node)
{
	const char *key;
	const json_t *each;
	size_t i;

	if (json_is_array(node)) {
		json_array_foreach(node, i, each)
			walk_tree(each);
		return;
	}
	if (!json_is_object(node))
		return;
	json_object_foreach((json_t *)(uintptr_t)node, key, each) {
		if (json_is_object(each))
			see_node(strcmp(key, "funccall") == 0 ? "FuncCall" : key, each);
		walk_tree(each);
	}
}

static void compare_tree(const char *text)
{
	PgQueryParseResult r = pg_query_parse(text);
	json_t *tree = r.error ? NULL : json_loads(r.parse_tree, JSON_DISABLE_EOF_CHECK, NULL);

	if (tree) {
		parsed++;
		walk_tree(tree);
		json_decref(tree);
	}
	pg_query_free_parse_result(r);
}

/* The text ends with a NUL after `size` bytes. */
static void try_text(const char *text, size_t size)
{
	/* a vertical tab is a blank since PostgreSQL 16 */
	if (size == 0 || size > TEXT_MOST || memchr(text, 0, size) || memchr(text, '\v', size))
		return;
	text_now = text;
	text_size = size;
	has_failed = false;
	if (!scan(text))
		return;
	texts++;
	if (!recognise(text, size)) {
		unproven++;
		return;
	}
	compare_tokens();
	compare_tree(text);
}

/* ---- changed texts ---- */

static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % below;
}

static const char *const pieces[] = {
	"'", "''", "\"", "$$", "$a$", "$1", "--", "--x\r", "--x\n", "\r", "\n", "\f", "/*", "*/", "/**/", "/*/*", "E'", "U&'", "U&\"", "B'", "x'", "N'",
	"\\", "\\'", "(", ")", ".", "..", "::", ":", ":=", "=>", " ", ";", "@", "@-", "+-", "*/*", "<>", "!=", "[1]", "1.", ".5", "1e", "1e5", "0x1", "1_0", "a.b",
	"(a).b", "f(", "f (", "::f", "OPERATOR(pg_catalog.+)", " COLLATE \"C\"", "\xc3\xa9", "?", "#", "~", "|/", "&", "%", "^", "abs(1)", " uescape '!'", ",",
};

/* Appends a part of the text in a new order, with pieces between. Returns a new text. */
static char *change_text(const char *text, size_t size, size_t *changed)
{
	char *copy = malloc(size + 256 + 1);
	size_t n = size, turns = 1 + draw(4);

	memcpy(copy, text, size);
	while (turns-- > 0) {
		size_t at = draw(n + 1), room = size + 256 - n;
		const char *piece = pieces[draw(sizeof(pieces) / sizeof(*pieces))];
		size_t cut = draw(3) == 0 && at < n ? 1 + draw(n - at < 8 ? n - at : 8) : 0, add = draw(4) == 0 ? 0 : strlen(piece);

		if (add > room + cut)
			continue;
		memmove(copy + at + add, copy + at + cut, n - at - cut);
		memcpy(copy + at, piece, add);
		n = n + add - cut;
	}
	copy[n] = '\0';
	*changed = n;
	return copy;
}

/* ---- files ---- */

static struct { char *text; size_t size; } *all;
static size_t all_count, all_room;

static void keep_text(const char *text, size_t size)
{
	while (size > 0 && strchr(" \t\r\n", *text))
		text++, size--;
	if (size == 0 || size > TEXT_MOST)
		return;
	if (all_count == all_room) {
		all_room = all_room ? 2 * all_room : 1024;
		all = realloc(all, all_room * sizeof(*all));
	}
	all[all_count].text = malloc(size + 1);
	memcpy(all[all_count].text, text, size);
	all[all_count].text[size] = '\0';
	all[all_count++].size = size;
}

/* Removes lines of psql's own commands, and the data of COPY, which PostgreSQL does not scan. */
static void without_psql(char *script)
{
	char *to = script;
	bool in_data = false;

	for (char *line = script, *next; *line; line = next) {
		next = line + strcspn(line, "\n");
		next += *next == '\n';
		if (in_data) {
			in_data = strncmp(line, "\\.", 2) != 0;
			continue;
		}
		if (*line == '\\')
			continue;
		in_data = strncasecmp(line, "copy ", 5) == 0 && strcasestr(line, "stdin");
		memmove(to, line, (size_t)(next - line));
		to += next - line;
	}
	*to = '\0';
}

static void keep_script(char *script)
{
	PgQuerySplitResult r;

	without_psql(script);
	r = pg_query_split_with_scanner(script);
	for (int i = 0; !r.error && i < r.n_stmts; i++)
		keep_text(script + r.stmts[i]->stmt_location, (size_t)r.stmts[i]->stmt_len);
	/* strings of psql's variables and unfinished quotes: line by line */
	for (char *line = script; r.error && *line;) {
		size_t size = strcspn(line, "\n");

		keep_text(line, size);
		line += size + (line[size] == '\n');
	}
	pg_query_free_split_result(r);
}

static bool read_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	size_t size = 0, room = 1 << 20, n;
	char *data = malloc(room + 1);

	if (!f) {
		perror(path);
		return false;
	}
	while ((n = fread(data + size, 1, room - size, f)) > 0) {
		size += n;
		if (size == room)
			data = realloc(data, (room *= 2) + 1);
	}
	fclose(f);
	data[size] = '\0';
	if (memchr(data, 0, size)) {
		for (size_t at = 0; at < size; at += strlen(data + at) + 1)
			keep_text(data + at, strlen(data + at));
	} else {
		keep_script(data);
	}
	free(data);
	return true;
}

int main(int argc, char **argv)
{
	unsigned long mutations = 0, seconds = 0;
	time_t began = time(NULL);
	bool is_first = true;
	int i;

	random_state = 1;
	for (i = 1; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
		unsigned long value = strtoul(argv[i + 1], NULL, 10);

		if (strcmp(argv[i], "--mutations") == 0)
			mutations = value;
		else if (strcmp(argv[i], "--seed") == 0)
			random_state = value + 1;
		else if (strcmp(argv[i], "--seconds") == 0)
			seconds = value;
		else
			return 2;
	}
	for (; i < argc; i++)
		if (!read_file(argv[i]))
			return 2;
	do {
		for (size_t n = 0; n < all_count && (is_first || time(NULL) - began < (time_t)seconds); n++) {
			if (is_first)
				try_text(all[n].text, all[n].size);
			for (unsigned long m = 0; m < mutations && (seconds == 0 || time(NULL) - began < (time_t)seconds); m++) {
				size_t size;
				char *text = change_text(all[n].text, all[n].size, &size);

				try_text(text, size);
				free(text);
			}
		}
		is_first = false;
	} while (all_count > 0 && mutations > 0 && time(NULL) - began < (time_t)seconds);
	for (size_t n = 0; n < all_count; n++)
		free(all[n].text);
	free(all);
	printf("%lu texts, %lu parsed, %lu unproven, %lu differences\n", texts, parsed, unproven, failures);
	return failures != 0 || texts == 0;
}
