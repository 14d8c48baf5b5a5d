/*
 * Functions that change the state of the session which calls them.
 *
 *	CREATE FUNCTION use_tenant(t text) ... AS $$ SELECT set_config('app.tenant', t, false) $$
 *	SELECT use_tenant('7')
 *
 * The text of the client has no word of session state in it, and the command tag is SELECT.
 * Therefore the sources of functions are read from the catalogue (pg_proc), like the texts of
 * clients (state_text.c), and the names of functions with such words become words of session state.
 * If a function cannot be read, because it is in another language than SQL and PL/pgSQL or has
 * EXECUTE in its source, may have any effect (TEXT_ANY_EFFECT). A function, a view or an aggregate
 * has the effects of the functions that it calls, too. Functions that triggers, defaults,
 * constraints and indexes call count for each text that may write; functions that policies,
 * domains, operators and casts call count for each text.
 *
 * Most functions in C of the extensions below have no effect. The code of other functions in C is
 * unknown: texts with their names are unproven. Operators, casts and types with such functions are
 * not, because only superusers create them.
 *
 * In names and sources a question mark replaces each character that is not ASCII, because the
 * client_encoding of the session may lack the character.
 *
 * The parameters that functions set have numbers, and a client is told each of them once: its texts
 * may name functions, or write to a table, any number of times.
 *
 * The catalogue is read again from time to time. A fingerprint, a sum over the versions of its
 * rows, shows whether it has changed. Temporary objects are excluded: other sessions do not have
 * them, and the session that has them is pinned.
 */
#include "sql/state_functions.h"

#include "base/hash.h"
#include "sql/sql_lex.h"
#include "sql/state_functions_query.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Limits: the owner of a database may create any number of functions, and each command may cause
   another reading. */
#define FUNCTIONS_MOST 10000		/* of one database that are stored */
#define SOURCES_MOST (4u << 20)		/* bytes of all sources that are read */
#define CALLS_MOST 200000		/* of functions by functions */
#define NAMES_MOST 32			/* of parameters that one function sets */
/* different names of all functions; further parameters count as unknown */
#define KNOWN_MOST STATE_NAMES_MOST
#define NAME_MOST 63
#define FINGERPRINT_MOST 128
/* the entry of all names without an ASCII letter or digit */
#define NO_WORD "\x80"

/* A function or a view; overloaded functions share one. */
struct state_function {
	UT_hash_handle hh;
	unsigned said;			/* TEXT_ bits */
	bool is_queued;			/* in close_callers() */
	struct bytes callers;		/* pointers to its callers, until close_callers() */
	const struct state_function *last_caller;	/* the last of the callers */
	struct state_function *next;	/* in the queue */
	struct state_names names;	/* the parameters with a dot that it sets */
	size_t size;
	/* longer; not flexible, because struct state_functions has members of this type. In lower
	   case; the longest word of a quoted name */
	char name[1];
};

/* The name of a parameter. */
struct known_name {
	UT_hash_handle hh;
	unsigned number;
	char name[];
};

struct by_oid {
	uint32_t oid;
	struct state_function *function;
};

struct state_functions {
	struct state_function *table;
	struct known_name *known;
	const char *names[KNOWN_MOST];	/* by their numbers */
	unsigned name_count;
	/* by the low bits of the first letter; bit i: a name has i bytes. Most words need no other
	   test. Until close_callers() of all names, then of names with effects */
	uint64_t sizes[32];
	struct bytes oids;		/* struct by_oid, until close_callers() */
	bool are_oids_sorted;
	size_t sources, calls;		/* bytes of sources; calls */
	size_t count;			/* of functions with effects */
	/* the effects of each text that writes, and of each text; without names */
	struct state_function writes, reads;
	int rounds, functions, edges;	/* the last two: rows */
	bool is_incomplete, failed;
	char fingerprint[FINGERPRINT_MOST];
};

/* ---- rounds ---- */

static void close_callers(struct state_functions *f);

enum state_functions_round state_functions_ask(struct state_functions *f,
					       const struct state_functions *before,
					       struct bytes *sql)
{
	if (before && *f->fingerprint && strcmp(f->fingerprint, before->fingerprint) == 0)
		return STATE_FUNCTIONS_SAME;
	if (f->rounds == 2) {
		close_callers(f);
		return f->failed ? STATE_FUNCTIONS_NO_MEMORY : STATE_FUNCTIONS_COMPLETE;
	}
	state_functions_query(sql, f->rounds++ > 0);
	return STATE_FUNCTIONS_NEXT;
}

/* ---- answers ---- */

static unsigned letter_of(const char *word)
{
	return (uint8_t)*word & 31;
}

static struct state_function *functions_read_find(const struct state_functions *f, const char *name,
						  size_t size)
{
	struct state_function *e;

	HASH_FIND(hh, f->table, name, size, e);
	return e;
}

static struct state_function *entry_of(struct state_functions *f, const uint8_t *name,
				       size_t name_size)
{
	const char *at = (const char *)name, *end = at + name_size, *next, *word = NULL;
	size_t size = 0, length;
	struct state_function *e;
	char lower[NAME_MOST];

	/* texts are split into words: the entry has the longest word of the name, which is usually
	   the whole name */
	while ((length = lex_next_word(&at, end, &next)) > 0)
		if (length > size) {
			size = length;
			word = next;
		}
	if (name_size == 0 || size > NAME_MOST)
		return NULL;
	if (size == 0) {
		word = NO_WORD;
		size = sizeof(NO_WORD) - 1;
	}
	for (size_t i = 0; i < size; i++)
		lower[i] = (char)tolower((unsigned char)word[i]);
	e = functions_read_find(f, lower, size);
	if (e)
		return e;
	if (HASH_COUNT(f->table) >= FUNCTIONS_MOST) {
		f->is_incomplete = true;
		return NULL;
	}
	e = mem_try(sizeof(*e) + size + 1);
	if (!e) {
		f->failed = true;
		return NULL;
	}
	memcpy(e->name, lower, size);
	e->size = size;
	f->sizes[letter_of(lower)] |= UINT64_C(1) << size;
	HASH_ADD_KEYPTR(hh, f->table, e->name, e->size, e);
	if (HASH_HAS(hh, e))
		return e;
	mem_free(e);
	f->failed = true;
	return NULL;
}

static bool add_names(struct state_names *to, const struct state_names *names)
{
	uint64_t fresh = 0;

	for (size_t i = 0; i < STATE_NAMES_WORDS; i++) {
		fresh |= names->bits[i] & ~to->bits[i];
		to->bits[i] |= names->bits[i];
	}
	return fresh;
}

/* Returns the number of a name. NULL: too many names, or no memory. */
static const struct known_name *functions_read_name_of(struct state_functions *f, const char *name)
{
	size_t size = strlen(name);
	struct known_name *known;

	HASH_FIND(hh, f->known, name, size, known);
	if (known || f->name_count == KNOWN_MOST)
		return known;
	known = mem_try(sizeof(*known) + size + 1);
	if (!known) {
		f->failed = true;
		return NULL;
	}
	memcpy(known->name, name, size);
	HASH_ADD_KEYPTR(hh, f->known, known->name, size, known);
	if (!HASH_HAS(hh, known)) {
		mem_free(known);
		f->failed = true;
		return NULL;
	}
	known->number = f->name_count;
	f->names[f->name_count++] = known->name;
	return known;
}

/* With too many names, the function counts as setting unknown parameters. */
static void bound_names(struct state_function *e)
{
	int count = 0;

	for (size_t i = 0; i < STATE_NAMES_WORDS; i++)
		count += __builtin_popcountll(e->names.bits[i]);
	if (count > NAMES_MOST)
		e->said |= TEXT_SETS | TEXT_SETS_UNNAMED;
}

/* The context of functions_read_add_name(). */
struct place {
	struct state_functions *functions;
	struct state_function *function;
};

static void functions_read_add_name(void *context, const char *name)
{
	struct place *to = context;
	const struct known_name *known = functions_read_name_of(to->functions, name);

	if (known)
		to->function->names.bits[known->number / 64] |= UINT64_C(1) << known->number % 64;
	else
		to->function->said |= TEXT_SETS | TEXT_SETS_UNNAMED;
	bound_names(to->function);
}

static bool functions_read_is_one_of(const char *at, size_t size, const char *const *words)
{
	for (; *words; words++)
		if (lex_equal(at, size, *words))
			return true;
	return false;
}

/* Whether the word at `at` begins a statement, and is not the SET of an UPDATE. `before` is the
   previous word. */
static bool functions_read_begins_statement(const char *begin, const char *at, const char *before,
					    size_t before_size)
{
	static const char *const words[] = { "begin", "then", "else", "loop", NULL };
	const char *end = at;

	while (end > begin && lex_is_blank(end[-1]))
		end--;
	if (end == begin || functions_read_is_one_of(before, before_size, words))
		return true;
	/* the end of a line may end a comment */
	if ((memchr(end, '\n', (size_t)(at - end)) || memchr(end, '\r', (size_t)(at - end))) &&
	    memmem(begin, (size_t)(at - begin), "--", 2))
		return true;
	return !(isalnum((unsigned char)end[-1]) || strchr("_\"$)]*?", end[-1]));
}

/* Returns the effects of words that count in code only, because a command tag shows them in the
   text of a client, and of EXECUTE, DO and commands that make functions run other code. */
static unsigned said_in_code(const char *source, size_t size)
{
	static const struct { const char *word; unsigned says;
	} words[] = {
		{ "listen", TEXT_LISTENS },	      { "unlisten", TEXT_LISTENS },
		{ "prepare", TEXT_MAKES_STATEMENTS }, { "deallocate", TEXT_MAKES_STATEMENTS },
		{ "notify", TEXT_NOTIFIES },	      { "pg_notify", TEXT_NOTIFIES },
		{ "execute", TEXT_ANY_EFFECT },	      { "create", TEXT_ANY_EFFECT },
		{ "alter", TEXT_ANY_EFFECT },	      { "import", TEXT_ANY_EFFECT },
	};
	/* after DO, in ON CONFLICT and in rules */
	static const char *const no_code[] = { "nothing", "update", "instead", "also", NULL };
	const char *at = source, *end = source + size, *word, *before = source;
	const char *ahead, *next;
	size_t length, next_length, before_length = 0;
	unsigned said = 0;

	for (; (length = lex_next_word(&at, end, &word)) > 0;
	     before = word, before_length = length) {
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			if (lex_equal(word, length, words[i].word))
				said |= words[i].says;
		ahead = at;
		if ((lex_equal(word, length, "set") || lex_equal(word, length, "reset")) &&
		    functions_read_begins_statement(source, word, before, before_length)) {
			next_length = lex_next_word(&ahead, end, &next);
			said |= lex_equal(next, next_length, "local") ||
						lex_equal(next, next_length, "constraints")
					? 0u
					: (unsigned)TEXT_SETS;
		}
		if (lex_equal(word, length, "do")) {
			next_length = lex_next_word(&ahead, end, &next);
			said |= functions_read_is_one_of(next, next_length, no_code)
					? 0u
					: (unsigned)TEXT_ANY_EFFECT;
		}
		if (lex_equal(word, length, "load")) {
			for (ahead = at; ahead < end && lex_is_blank(*ahead); ahead++)
				;
			/* without a string, the word is in a comment, or a name */
			said |= ahead < end && *ahead == '\'' ? (unsigned)TEXT_STAYS : 0u;
		}
	}
	return said;
}

/* The effects of a function whose source is unknown. */
#define ANYTHING \
	(TEXT_SETS | TEXT_SETS_UNNAMED | TEXT_TEMPORARY | TEXT_HOLDS | TEXT_LOCKS | TEXT_LISTENS | \
	 TEXT_MAKES_STATEMENTS | TEXT_ANY_EFFECT)

static struct state_function *find_word(const struct state_functions *f, const char *word,
					size_t size);

/* Records that `caller` calls `callee`, once while one source is read. */
static void note_call(struct state_functions *f, struct state_function *caller,
		      struct state_function *callee)
{
	if (callee == caller || callee->last_caller == caller)
		return;
	if (f->calls++ == CALLS_MOST)
		f->is_incomplete = true;
	if (f->calls > CALLS_MOST)
		return;
	callee->last_caller = caller;
	bytes_append(&callee->callers, &caller, sizeof(caller));
	f->failed |= callee->callers.failed;
}

static bool functions_read_has_name(const void *context, const char *name, size_t size)
{
	return functions_read_find(context, name, size);
}

/* Reads the source of a function, with a NUL. */
static void functions_read_source(struct state_functions *f, struct state_function *e,
				  const uint8_t *source, size_t size)
{
	const char *at = (const char *)source, *end = at + size - 1, *word;
	struct text_reading reading = { .search.words_left = INT64_MAX };
	struct text_calls calls = { .search.words_left = INT64_MAX, .walk.is_source = true };
	size_t length;

	state_text_read(&reading, source, size, functions_read_add_name, &(struct place){ f, e });
	e->said |= reading.said & ~(unsigned)TEXT_OF_CLIENTS;
	e->said |= said_in_code(at, size - 1);
	e->said |= state_text_calls_known(&calls, source, size, functions_read_has_name, f)
			   ? 0u
			   : (unsigned)TEXT_ANY_EFFECT;
	while ((length = lex_next_word(&at, end, &word)) > 0) {
		struct state_function *called = find_word(f, word, length);

		if (called)
			note_call(f, e, called);
	}
}

/* A column of a row; the text is NULL if the column is. */
struct function_column { const uint8_t *text; uint32_t size; };

static bool has_flag(const struct function_column *c, char flag)
{
	return c->text && c->size > 0 && memchr(c->text, flag, c->size);
}

/* The effects of the functions of PostgreSQL that a tree calls, and of its commands: see
   `effects`. */
static unsigned said_by_flags(const struct function_column *c)
{
	static const struct { char flag; unsigned says;
	} flags[] = {
		{ 'd', ANYTHING },
		{ 's', TEXT_SETS },
		{ 'o', TEXT_NOTIFIES },
		{ 'q', TEXT_DRAWS },
		{ 'v', TEXT_DRAWS | TEXT_SETS_VALUES },
		{ 'c', TEXT_READS_SEQUENCES | TEXT_READS_NAMED },
		{ 'i', TEXT_FILLS },
		/* the code is unknown */
		{ 'x', TEXT_ANY_EFFECT },
	};
	unsigned said = 0;

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		said |= has_flag(c, flags[i].flag) ? flags[i].says : 0u;
	return said;
}

static uint32_t oid_of(const struct function_column *c)
{
	uint64_t oid = 0;

	for (size_t i = 0; c->text && i < c->size && isdigit(c->text[i]) && oid <= UINT32_MAX; i++)
		oid = oid * 10 + (uint64_t)(c->text[i] - '0');
	return (uint32_t)oid;
}

static int order_of(const void *a, const void *b)
{
	const struct by_oid *one = a, *other = b;

	return (one->oid > other->oid) - (one->oid < other->oid);
}

/* NULL: no row had the number. */
static struct state_function *find_oid(struct state_functions *f, const struct function_column *c)
{
	struct by_oid key = { oid_of(c), NULL };
	size_t count = bytes_size(&f->oids) / sizeof(key);
	const struct by_oid *found;

	if (count == 0)
		return NULL;
	if (!f->are_oids_sorted)
		qsort(bytes_front(&f->oids), count, sizeof(key), order_of);
	f->are_oids_sorted = true;
	found = bsearch(&key, bytes_front(&f->oids), count, sizeof(key), order_of);
	return found ? found->function : NULL;
}

static void source_row(struct state_functions *f, const struct function_column *oid,
		       const struct function_column *source)
{
	struct state_function *e = find_oid(f, oid);
	struct bytes copy = BYTES_EMPTY;

	if (!e)
		return;
	if (!source->text || f->sources + source->size > SOURCES_MOST) {
		e->said |= ANYTHING;
		return;
	}
	f->sources += source->size;
	bytes_append(&copy, source->text, source->size);
	bytes_append_u8(&copy, 0);
	if (copy.failed)
		f->failed = true;
	else
		functions_read_source(f, e, bytes_front(&copy), bytes_size(&copy));
	bytes_free(&copy);
}

void state_functions_row(struct state_functions *f, const struct pg_frame *frame)
{
	struct pg_cursor row = pg_cursor_of(frame->body, frame->here);
	unsigned count = pg_read_u16(&row);
	struct function_column c[4] = { { NULL, 0 } };
	bool is_whole = true;

	if (count != 1 && count != 4)
		return;
	for (unsigned i = 0; i < count && is_whole; i++) {
		c[i].size = pg_read_u32(&row);
		if (!row.bad && c[i].size != UINT32_MAX)
			c[i].text = pg_read_bytes(&row, c[i].size);
		is_whole = !row.bad;
	}
	if (count == 1 && is_whole && c[0].text && c[0].size < FINGERPRINT_MOST) {
		memcpy(f->fingerprint, c[0].text, c[0].size);
		f->fingerprint[c[0].size] = '\0';
	} else if (count == 4 && has_flag(&c[0], 's')) {
		/* a truncated source counts as unknown */
		source_row(f, &c[1], is_whole ? &c[2] : &(struct function_column){ NULL, 0 });
	} else if (count == 4 && !is_whole) {
		f->is_incomplete = true;
	} else if (has_flag(&c[0], 'n')) {
		struct by_oid place = { oid_of(&c[1]),
					c[2].text ? entry_of(f, c[2].text, c[2].size) : NULL };

		f->is_incomplete |= ++f->functions >= atoi(FUNCTION_ROWS_MOST);
		if (!place.function)
			return;
		place.function->said |= said_by_flags(&c[3]);
		bytes_append(&f->oids, &place, sizeof(place));
		f->failed |= f->oids.failed;
		f->are_oids_sorted = false;
	} else if (has_flag(&c[0], 'e')) {
		/* unknown if the function was created in the meantime: then it changes the next
		   fingerprint */
		struct state_function *called = find_oid(f, &c[2]);
		struct state_function *from = has_flag(&c[3], 'w')   ? &f->writes
					      : has_flag(&c[3], 'r') ? &f->reads
								     : find_oid(f, &c[1]);

		if (called && from)
			note_call(f, from, called);
		f->is_incomplete |= ++f->edges >= atoi(FUNCTION_ROWS_MOST);
	} else if (has_flag(&c[0], 'h')) {
		/* a policy may read pg_settings, but not write to it */
		unsigned says = said_by_flags(&c[2]) & ~(unsigned)TEXT_SETS_UNNAMED &
				(has_flag(&c[2], 'd') ? ~0u : ~(unsigned)TEXT_SETS);

		f->writes.said |= has_flag(&c[3], 'w') ? says : 0u;
		f->reads.said |= has_flag(&c[3], 'r') ? says : 0u;
	}
}

/* The effects of a function for its callers. */
#define FROM_CALLEES(said) ((said) & ~(unsigned)(TEXT_CUT | TEXT_PREPARES))

static void enqueue(struct state_function **queue, struct state_function *e)
{
	if (e->is_queued)
		return;
	e->is_queued = true;
	e->next = *queue;
	*queue = e;
}

static unsigned fills_instead(unsigned said)
{
	return said & TEXT_DRAWS ? (said & ~(unsigned)TEXT_DRAWS) | TEXT_FILLS : said;
}

/* Adds the effects of functions to their callers. */
static void close_callers(struct state_functions *f)
{
	struct state_function *queue = NULL, *e;

	/* adds effects to callers until nothing changes; the loop ends, because effects and names
	   are bounded */
	for (e = f->table; e; e = e->hh.next)
		if (e->said)
			enqueue(&queue, e);
	while ((e = queue) != NULL) {
		queue = e->next;
		e->is_queued = false;
		for (size_t at = 0; at < bytes_size(&e->callers);
		     at += sizeof(struct state_function *)) {
			struct state_function *caller;
			unsigned before;
			bool is_changed;

			memcpy(&caller, bytes_front(&e->callers) + at, sizeof(caller));
			before = caller->said;
			caller->said |= FROM_CALLEES(e->said);
			is_changed = before != caller->said;
			if (!(caller->said & TEXT_SETS_UNNAMED) &&
			    add_names(&caller->names, &e->names)) {
				is_changed = true;
				bound_names(caller);
			}
			if (is_changed)
				enqueue(&queue, caller);
		}
	}
	memset(f->sizes, 0, sizeof(f->sizes));
	for (e = f->table; e; e = e->hh.next) {
		bytes_free(&e->callers);
		e->said &= ~(unsigned)(TEXT_CUT | TEXT_PREPARES);
		if (!e->said)
			continue;
		f->sizes[letter_of(e->name)] |= UINT64_C(1) << e->size;
		f->count += (e->said & ~(unsigned)TEXT_ON_DEMAND) != 0;
	}
	/* otherwise each client would need a server of its own */
	f->reads.said &= ~(unsigned)TEXT_SETS_UNNAMED;
	/* a text need not use the trigger, default or view that calls nextval: it counts as an
	   INSERT, which may use the default of a serial column */
	f->reads.said = fills_instead(f->reads.said);
	f->writes.said = fills_instead(f->writes.said);
	bytes_free(&f->oids);
}

/* ---- texts ---- */

/* Finds the function with this name in any case. */
static struct state_function *find_word(const struct state_functions *f, const char *word,
					size_t size)
{
	char lower[NAME_MOST];

	if (size > NAME_MOST || !(f->sizes[letter_of(word)] >> size & 1))
		return NULL;
	for (size_t i = 0; i < size; i++)
		lower[i] = (char)tolower((unsigned char)word[i]);
	return functions_read_find(f, lower, size);
}

/* Reports the names that the function sets and that are not in `told`. Returns its TEXT_ bits. */
static unsigned tell_function(const struct state_functions *f, const struct state_function *e,
			      struct state_names *told, setting_named *named, void *context)
{
	if (!(e->said & TEXT_SETS))
		return e->said;
	for (size_t i = 0; i < STATE_NAMES_WORDS; i++)
		for (uint64_t fresh = e->names.bits[i] & ~told->bits[i]; fresh; fresh &= fresh - 1)
			named(context, f->names[i * 64 + (size_t)__builtin_ctzll(fresh)]);
	add_names(told, &e->names);
	return e->said;
}

/* Words of commands that may write to a table, or define objects. */
static const char *const writes[] = { "insert",	  "update",  "delete",	"merge",   "copy",
				      "truncate", "create",  "alter",	"drop",	   "grant",
				      "revoke",	  "comment", "refresh", "reindex", "security",
				      "import",	  "into",    NULL };

unsigned state_functions_read(const struct state_functions *f, struct text_search *search,
			      const uint8_t *text, size_t size, struct state_names *told,
			      setting_named *named, void *context)
{
	struct sql_lexer l = lex_begin(text, size);
	const struct state_function *odd = f->sizes[letter_of(NO_WORD)] & 2
						   ? functions_read_find(f, NO_WORD,
									 sizeof(NO_WORD) - 1)
						   : NULL;
	bool may_write = false;
	unsigned said = f->is_incomplete ? ANYTHING & ~(unsigned)TEXT_SETS_UNNAMED : 0;
	const char *word;
	size_t length;

	said |= tell_function(f, &f->reads, told, named, context);
	for (const char *c = l.at; odd && search->at == 0 && c < l.end; c++)
		if (*c == '"' || *c & 0x80) {
			said |= tell_function(f, odd, told, named, context);
			break;
		}
	for (l.at += search->at;
	     search->words_left > 0 &&
	     (length = text_search_word(search, &l.at, l.end, &word)) > 0;) {
		const struct state_function *e = find_word(f, word, length);

		if (e)
			said |= tell_function(f, e, told, named, context);
		if (f->writes.said && !may_write &&
		    functions_read_is_one_of(word, length, writes)) {
			may_write = true;
			said |= tell_function(f, &f->writes, told, named, context);
		}
	}
	search->at = (size_t)(l.at - (const char *)text);
	return said;
}

bool state_functions_find_notify(const struct state_functions *f, struct text_search *search,
				 const uint8_t *text, size_t size)
{
	const unsigned notifies = TEXT_NOTIFIES | TEXT_ANY_EFFECT;
	struct sql_lexer l = lex_begin(text, size);
	const char *word;
	size_t length;

	if (f->reads.said & TEXT_NOTIFIES || f->is_incomplete) {
		search->is_over = true;
		return true;
	}
	for (l.at += search->at;
	     search->words_left > 0 &&
	     (length = text_search_word(search, &l.at, l.end, &word)) > 0;) {
		const struct state_function *e = find_word(f, word, length);

		if ((e && e->said & notifies) ||
		    (f->writes.said & notifies && functions_read_is_one_of(word, length, writes)) ||
		    lex_equal(word, length, "notify") || lex_equal(word, length, "pg_notify")) {
			search->is_over = true;
			return true;
		}
	}
	search->at = (size_t)(l.at - (const char *)text);
	return false;
}

bool state_functions_know_calls(const struct state_functions *f, struct text_calls *calls,
				const uint8_t *text, size_t size)
{
	return state_text_calls_known(calls, text, size, f ? functions_read_has_name : NULL, f);
}

struct state_functions_summary state_functions_summary(const struct state_functions *f)
{
	struct state_functions_summary summary = { .hash = UINT64_C(14695981039346656037),
						   .count = f->count,
						   .is_incomplete = f->is_incomplete };

	summary.changes_something = f->count > 0 ||
				    ((f->reads.said | f->writes.said) &
				     ~(unsigned)TEXT_ON_DEMAND) ||
				    f->is_incomplete;
	for (const char *at = f->fingerprint; *at; at++)
		summary.hash = (summary.hash ^ (uint8_t)*at) * UINT64_C(1099511628211);	/* FNV-1a */
	return summary;
}

struct state_functions *state_functions_new(void)
{
	return mem_try(sizeof(struct state_functions));
}

void state_functions_free(struct state_functions **place)
{
	struct state_functions *f = *place;
	struct state_function *e, *next;
	struct known_name *name, *next_name;

	*place = NULL;
	if (!f)
		return;
	HASH_ITER(hh, f->known, name, next_name) {
		HASH_DEL(f->known, name);
		mem_free(name);
	}
	bytes_free(&f->oids);
	HASH_ITER(hh, f->table, e, next) {
		HASH_DEL(f->table, e);
		bytes_free(&e->callers);
		mem_free(e);
	}
	mem_free(f);
}
