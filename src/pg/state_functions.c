/*
 * Functions that change the state of the session which calls them.
 *
 *	CREATE FUNCTION use_tenant(t text) ... AS $$ SELECT set_config('app.tenant', t, false) $$
 *	SELECT use_tenant('7')
 *
 * The text of the client has no word of session state in it, and the command tag is SELECT. So the sources of functions are read from the
 * catalogue (pg_proc), as texts of clients are (state_text.c), and the names of those that have such words are words of session state from
 * then on. A function that calls one of them counts as well. One that is a trigger counts for each text that may write to a table.
 *
 * SET in a function has no command tag, and is a word of UPDATE, too: it counts in front of the name of a parameter. Only the server knows
 * these, so it looks for that itself. Names and sources come with a question mark for each character beyond ASCII, because the
 * client_encoding of the session may have none for it. Every name in the queries is qualified, operators included: the session has the
 * search_path of some client.
 *
 * The parameters that functions set are numbered, and a client hears of each of them once: its texts may name functions, or write to a table,
 * as often as it likes.
 *
 * The catalogue is read again now and then. A fingerprint of it, sums over the versions of its rows, says that nothing has changed.
 */
#include "pg/state_functions.h"

#include "base/hash.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* The owner of a database may make as many as it likes, and have them read again by each command. */
#define FUNCTIONS_MOST 2000		/* of one database that are kept */
#define SOURCES_MOST (512u << 10)	/* bytes of their sources that are read */
#define SOURCE_MOST "524288"		/* the same, of one */
#define NAMES_MOST 32			/* of parameters that one function sets */
#define KNOWN_MOST STATE_NAMES_MOST	/* different ones of all functions; behind them a function sets parameters that are not known */
#define NAME_MOST 63
#define FINGERPRINT_MOST 128
#define NO_WORD "\x80"			/* stands for all names without a letter or digit of ASCII */

struct state_function {
	UT_hash_handle hh;
	unsigned said;			/* TEXT_ bits; of overloaded functions, all */
	bool is_trigger, is_told;	/* in a question: its callers have been asked for */
	struct bytes calls;		/* functions (pointers) that its source names, until state_functions_close; ... */
	const struct state_function *called_by;		/* ... the last one that got this one among its calls */
	struct state_names names;	/* of parameters with a dot that it sets */
	struct bytes source;		/* with its NUL; until state_functions_close */
	size_t size;
	char name[];			/* in lower case; of a quoted one with other characters its longest word */
};

/* The name of a parameter. */
struct known_name {
	UT_hash_handle hh;
	unsigned number;
	char name[];
};

struct state_functions {
	struct state_function *table;
	struct known_name *known;
	const char *names[KNOWN_MOST];	/* by their numbers */
	unsigned name_count;
	uint64_t sizes[32];		/* bit i at the low bits of a letter: some name that begins with it has i bytes. Most words are told by that */
	size_t sources;			/* bytes */
	unsigned writes;		/* TEXT_ bits of triggers ... */
	struct state_names trigger_names;	/* ... and the parameters that they set */
	int rounds;
	bool is_incomplete, failed;
	char fingerprint[FINGERPRINT_MOST];
};

/* ---- the questions ---- */

#define OP(name) "OPERATOR(pg_catalog." name ")"

/* Not bounded by the client's statement_timeout, which is back at the end of this Query. Two columns: no row of a function, and no fingerprint. */
static const char begin[] = "SELECT pg_catalog.set_config('statement_timeout','0',true),1;";
static const char fingerprint[] =
	"SELECT pg_catalog.concat(pg_catalog.count(*),':',pg_catalog.sum(p.xmin::pg_catalog.text::pg_catalog.int8),':',"
	"(SELECT pg_catalog.concat(pg_catalog.count(*),':',pg_catalog.sum(t.xmin::pg_catalog.text::pg_catalog.int8)) FROM pg_catalog.pg_trigger t)) "
	"AS now FROM pg_catalog.pg_proc p";
/* In this schema, what a role has made that is none of the session's counts for nothing: any role of the database may make temporary functions, of
   any name, that no other one may call. */
#define IS_ITS_OWN(schema, owner) \
	"(pg_catalog.starts_with(" schema "::pg_catalog.text,'pg_temp_') " OP("<>") " true OR pg_catalog.pg_has_role(session_user," owner ",'MEMBER'))"
/* A function in SQL that PostgreSQL has parsed (BEGIN ATOMIC) has no source, but a definition. The sources of others that are too long are not searched,
   which takes the server long; nor are those of functions that do not count, wherefore all this comes first (MATERIALIZED). */
static const char functions[] =
	"f AS MATERIALIZED (SELECT p.oid,p.proname,CASE WHEN p.prosrc " OP("=") " '' THEN pg_catalog.pg_get_functiondef(p.oid) "
	"WHEN pg_catalog.octet_length(p.prosrc) " OP("<=") " " SOURCE_MOST " THEN p.prosrc END AS src "
	"FROM pg_catalog.pg_proc p,pg_catalog.pg_language l,pg_catalog.pg_namespace n "
	"WHERE l.oid " OP("=") " p.prolang AND n.oid " OP("=") " p.pronamespace "
	"AND l.lanname " OP("<>") " ALL (ARRAY['internal','c']::pg_catalog.name[]) "
	"AND n.nspname " OP("<>") " ALL (ARRAY['pg_catalog','information_schema']::pg_catalog.name[]) "
	"AND p.prokind " OP("=") " ANY (ARRAY['f','p']::pg_catalog.\"char\"[]) AND " IS_ITS_OWN("n.nspname", "p.proowner") ")";
/* SET or RESET of a name with a dot, of a parameter in pg_settings, or of what is no parameter there. */
static const char sets[] =
	"EXISTS (SELECT 1 FROM pg_catalog.regexp_matches(f.src,"
	"E'\\\\m(?:re)?set\\\\s+(?:session\\\\s+)?\"?([a-z_][a-z0-9_]*(?:\"?\\\\s*[.]\\\\s*\"?[a-z0-9_]+)*)','gi') AS m "
	"WHERE pg_catalog.strpos(m[1],'.') " OP(">") " 0 OR pg_catalog.lower(m[1]) " OP("=") " ANY "
	"((SELECT pg_catalog.array_agg(pg_catalog.lower(g.name)) FROM pg_catalog.pg_settings g) " OP("||")
	" ARRAY['role','session','authorization','time','names','schema','all']))";
#define WORDS \
	"\\\\m(set_config|pg_(try_)?advisory_|temp\\\\M|temporary\\\\M|pg_temp|hold\\\\M|currval\\\\M|lastval\\\\M|dblink_connect|setseed|" \
	"listen\\\\M|unlisten\\\\M|prepare\\\\M|deallocate\\\\M|load\\\\s+'')"
static const char columns[] =
	"pg_catalog.regexp_replace(s.proname,E'[^\\\\x01-\\\\x7F]','?','g'),"
	"pg_catalog.concat(CASE WHEN s.sets THEN 's' END,CASE WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_trigger t,pg_catalog.pg_class c,"
	"pg_catalog.pg_namespace n WHERE t.tgfoid " OP("=") " s.oid AND NOT t.tgisinternal AND c.oid " OP("=") " t.tgrelid AND n.oid " OP("=")
	" c.relnamespace AND " IS_ITS_OWN("n.nspname", "c.relowner") ") THEN 't' END),pg_catalog.regexp_replace(s.src,E'[^\\\\x01-\\\\x7F]','?','g')";

static void ask_first(const struct state_functions *before, struct bytes *sql)
{
	bytes_append_format(sql, "%s;WITH now AS MATERIALIZED (%s),%s,", fingerprint, fingerprint, functions);
	bytes_append_format(sql, "s AS (SELECT f.oid,f.proname,f.src,%s AS sets FROM f WHERE f.src IS NULL OR f.src " OP("~*") " E'\\\\m(re)?set\\\\M|" WORDS "') ", sets);
	bytes_append_format(sql, "SELECT %s FROM s WHERE (SELECT now.now FROM now) " OP("<>") " '%s'::pg_catalog.text "
			    "AND (s.src IS NULL OR s.sets OR s.src " OP("~*") " E'" WORDS "')", columns, before ? before->fingerprint : "");
}

/* Those that have one of these names as a word in their source. */
static void ask_for_callers(const struct bytes *names, struct bytes *sql)
{
	bytes_append_format(sql, "WITH %s,s AS (SELECT f.oid,f.proname,f.src,false AS sets FROM f WHERE f.src " OP("~*") " E'\\\\m(", functions);
	bytes_append(sql, bytes_front(names), bytes_size(names));
	bytes_append_format(sql, ")\\\\M') SELECT %s FROM s", columns);
}

bool state_functions_ask(struct state_functions *f, const struct state_functions *before, struct bytes *sql)
{
	struct bytes names = BYTES_EMPTY;

	if (f->rounds++ == 0) {
		bytes_append_text(sql, begin);
		ask_first(before, sql);
		return true;
	}
	for (struct state_function *e = f->table; e; e = e->hh.next) {
		if (e->is_told || memcmp(e->name, NO_WORD, sizeof(NO_WORD)) == 0)
			continue;
		e->is_told = true;
		bytes_append_format(&names, "%s%s", bytes_size(&names) > 0 ? "|" : "", e->name);
	}
	f->failed |= names.failed;
	if (names.failed || bytes_size(&names) == 0 || f->rounds > STATE_FUNCTIONS_ROUNDS) {
		bytes_free(&names);
		return false;
	}
	bytes_append_text(sql, begin);
	ask_for_callers(&names, sql);
	bytes_free(&names);
	return true;
}

/* ---- the answers ---- */

/* In either case. */
static unsigned letter_of(const char *word)
{
	return (uint8_t)*word & 31;
}

static struct state_function *find(const struct state_functions *f, const char *name, size_t size)
{
	struct state_function *e;

	HASH_FIND(hh, f->table, name, size, e);
	return e;
}

/* The longest word in it, which is mostly all of it: texts are cut into words. */
static size_t longest_word(const uint8_t *name, size_t size, const char **longest)
{
	const char *at = (const char *)name, *end = at + size, *word;
	size_t most = 0, length;

	while ((length = state_text_next_word(&at, end, &word)) > 0)
		if (length > most) {
			most = length;
			*longest = word;
		}
	return most;
}

static struct state_function *entry_of(struct state_functions *f, const uint8_t *name, size_t name_size)
{
	char lower[NAME_MOST];
	const char *word = NULL;
	size_t size = longest_word(name, name_size, &word);
	struct state_function *e;

	if (name_size == 0 || size > NAME_MOST)
		return NULL;
	if (size == 0) {
		word = NO_WORD;
		size = sizeof(NO_WORD) - 1;
	}
	for (size_t i = 0; i < size; i++)
		lower[i] = (char)tolower((unsigned char)word[i]);
	e = find(f, lower, size);
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

static int count_names(const struct state_names *names)
{
	int count = 0;

	for (size_t i = 0; i < STATE_NAMES_WORDS; i++)
		count += __builtin_popcountll(names->bits[i]);
	return count;
}

/* NULL: there are too many, or there is no memory. */
static const struct known_name *name_of(struct state_functions *f, const char *name)
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

/* Of one that sets unknown ones the others are of no use. */
static void bound_names(struct state_function *e)
{
	if (count_names(&e->names) > NAMES_MOST)
		e->said |= TEXT_SETS | TEXT_SETS_UNNAMED;
}

/* Where a name of a parameter goes. */
struct place {
	struct state_functions *functions;
	struct state_function *function;
};

static void add_name(void *context, const char *name)
{
	struct place *to = context;
	const struct known_name *known = name_of(to->functions, name);

	if (known)
		to->function->names.bits[known->number / 64] |= UINT64_C(1) << known->number % 64;
	else
		to->function->said |= TEXT_SETS | TEXT_SETS_UNNAMED;
	bound_names(to->function);
}

static bool is_word(const char *at, size_t size, const char *word)
{
	return size == strlen(word) && strncasecmp(at, word, size) == 0;
}

/* LOAD is a word of comments, too. */
static bool a_string_follows(const char *at, const char *end)
{
	while (at < end && isspace((unsigned char)*at))
		at++;
	return at < end && *at == '\'';
}

/* Words that say nothing in the text of a client, where the command tag says it. */
static unsigned said_in_code(const char *source, size_t size)
{
	static const struct { const char *word; unsigned says; } words[] = {
		{ "listen", TEXT_LISTENS }, { "unlisten", TEXT_LISTENS }, { "prepare", TEXT_MAKES_STATEMENTS },
		{ "deallocate", TEXT_MAKES_STATEMENTS },
	};
	const char *at = source, *word;
	unsigned said = 0;
	size_t length;

	while ((length = state_text_next_word(&at, source + size, &word)) > 0) {
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			if (is_word(word, length, words[i].word))
				said |= words[i].says;
		if (is_word(word, length, "load") && a_string_follows(at, source + size))
			said |= TEXT_STAYS;
	}
	return said;
}

/* All that it may do, where its source is not known. */
#define ANYTHING (TEXT_SETS | TEXT_SETS_UNNAMED | TEXT_TEMPORARY | TEXT_HOLDS | TEXT_LOCKS | TEXT_LISTENS | TEXT_MAKES_STATEMENTS)

static void take_source(struct state_functions *f, struct state_function *e, const uint8_t *source, size_t size)
{
	if (f->sources + size > SOURCES_MOST) {
		f->is_incomplete = true;
		e->said |= ANYTHING;
		return;
	}
	f->sources += size;
	bytes_append(&e->source, source, size);
	bytes_append_u8(&e->source, ' ');
	f->failed |= e->source.failed;
}

/* The next column; false: it is missing, or NULL. */
static bool take_column(struct pg_cursor *row, const uint8_t **at, uint32_t *size)
{
	*size = pg_read_u32(row);
	*at = row->bad || *size == UINT32_MAX ? NULL : pg_read_bytes(row, *size);
	return !row->bad && *at;
}

static void take_function(struct state_functions *f, struct pg_cursor *row)
{
	const uint8_t *name, *flags, *source;
	uint32_t name_size, flags_size, source_size;
	struct state_function *e;

	if (!take_column(row, &name, &name_size) || !take_column(row, &flags, &flags_size))
		return;
	e = entry_of(f, name, name_size);
	if (!e)
		return;
	e->said |= flags_size > 0 && memchr(flags, 's', flags_size) ? TEXT_SETS : 0u;
	e->is_trigger |= flags_size > 0 && memchr(flags, 't', flags_size);
	if (take_column(row, &source, &source_size))
		take_source(f, e, source, source_size);
	else
		e->said |= ANYTHING;
}

void state_functions_row(struct state_functions *f, const struct pg_frame *frame)
{
	struct pg_cursor row = pg_cursor_of(frame->body, frame->here);
	unsigned count = pg_read_u16(&row);
	const uint8_t *text;
	uint32_t size;

	if (count == 3)
		take_function(f, &row);
	else if (count == 1 && take_column(&row, &text, &size) && size < FINGERPRINT_MOST) {
		memcpy(f->fingerprint, text, size);
		f->fingerprint[size] = '\0';
	}
}

bool state_functions_are_same(const struct state_functions *f, const struct state_functions *before)
{
	return before && *f->fingerprint && strcmp(f->fingerprint, before->fingerprint) == 0;
}

static struct state_function *find_word(const struct state_functions *f, const char *word, size_t size);

/* The functions that its source names, each once. */
static void note_calls(const struct state_functions *f, struct state_function *e)
{
	const char *at = (const char *)bytes_front(&e->source), *end = at + bytes_size(&e->source), *word;
	size_t length;

	while ((length = state_text_next_word(&at, end, &word)) > 0) {
		struct state_function *called = find_word(f, word, length);

		if (!called || called == e || called->called_by == e)
			continue;
		called->called_by = e;
		bytes_append(&e->calls, &called, sizeof(called));
	}
}

/* Of the functions that it calls. True: something has come of it. */
static bool takes_from_callees(struct state_function *e)
{
	unsigned said = e->said;
	bool has_more = false;

	for (size_t at = 0; at < bytes_size(&e->calls); at += sizeof(struct state_function *)) {
		const struct state_function *called;

		memcpy(&called, bytes_front(&e->calls) + at, sizeof(called));
		e->said |= called->said;
		if (e->said & TEXT_SETS_UNNAMED)
			continue;
		if (add_names(&e->names, &called->names)) {
			has_more = true;
			bound_names(e);
		}
	}
	return said != e->said || has_more;
}

bool state_functions_close(struct state_functions *f)
{
	bool goes_on = true;

	for (struct state_function *e = f->table; e; e = e->hh.next) {
		bytes_append_u8(&e->source, 0);
		if (e->source.failed)
			return false;
		e->said |= state_text_read(bytes_front(&e->source), bytes_size(&e->source), add_name, &(struct place){ f, e });
		e->said |= said_in_code((const char *)bytes_front(&e->source), bytes_size(&e->source));
		note_calls(f, e);
		if (e->calls.failed)
			return false;
	}
	for (int i = 0; goes_on && i < STATE_FUNCTIONS_ROUNDS; i++) {
		goes_on = false;
		for (struct state_function *e = f->table; e; e = e->hh.next)
			goes_on |= takes_from_callees(e);
	}
	for (struct state_function *e = f->table; e; e = e->hh.next) {
		bytes_free(&e->source);
		bytes_free(&e->calls);
		if (e->is_trigger) {
			f->writes |= e->said;
			add_names(&f->trigger_names, &e->names);
		}
	}
	return !f->failed;
}

/* ---- texts ---- */

/* Those that have not been told of. */
static void tell_names(const struct state_functions *f, const struct state_names *names, struct state_names *told, setting_named *named, void *context)
{
	for (size_t i = 0; i < STATE_NAMES_WORDS; i++)
		for (uint64_t fresh = names->bits[i] & ~told->bits[i]; fresh; fresh &= fresh - 1)
			named(context, f->names[i * 64 + (size_t)__builtin_ctzll(fresh)]);
	add_names(told, names);
}

static bool is_write(const char *word, size_t size)
{
	static const char *const writes[] = { "insert", "update", "delete", "merge", "copy", "truncate" };

	for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++)
		if (is_word(word, size, writes[i]))
			return true;
	return false;
}

/* The function of this name, in any case. */
static struct state_function *find_word(const struct state_functions *f, const char *word, size_t size)
{
	char lower[NAME_MOST];

	if (size > NAME_MOST || !(f->sizes[letter_of(word)] >> size & 1))
		return NULL;
	for (size_t i = 0; i < size; i++)
		lower[i] = (char)tolower((unsigned char)word[i]);
	return find(f, lower, size);
}

static bool has_beyond_ascii(const char *at, const char *end)
{
	while (at < end && !(*at & 0x80))
		at++;
	return at < end;
}

unsigned state_functions_read(const struct state_functions *f, const uint8_t *text, size_t size, struct state_names *told, setting_named *named, void *context)
{
	const char *at = (const char *)text, *nul = size > 0 ? memchr(at, 0, size) : NULL, *end = nul ? nul : at + size, *word;
	const struct state_function *odd = f->sizes[letter_of(NO_WORD)] & 2 ? find(f, NO_WORD, sizeof(NO_WORD) - 1) : NULL;
	bool writes = false;
	unsigned said = f->is_incomplete ? ANYTHING & ~(unsigned)TEXT_SETS_UNNAMED : 0;
	size_t length;

	if (odd && has_beyond_ascii(at, end)) {
		said |= odd->said & ~(unsigned)(TEXT_CUT | TEXT_PREPARES);
		tell_names(f, &odd->names, told, named, context);
	}

	while (f->table && (length = state_text_next_word(&at, end, &word)) > 0) {
		const struct state_function *e = find_word(f, word, length);

		if (e) {
			said |= e->said & ~(unsigned)(TEXT_CUT | TEXT_PREPARES);
			tell_names(f, &e->names, told, named, context);
		}
		if (f->writes && !writes && is_write(word, length)) {
			writes = true;
			said |= f->writes & ~(unsigned)(TEXT_CUT | TEXT_PREPARES);
			tell_names(f, &f->trigger_names, told, named, context);
		}
	}
	return said;
}

size_t state_functions_count(const struct state_functions *f)
{
	return HASH_COUNT(f->table);
}

bool state_functions_are_incomplete(const struct state_functions *f)
{
	return f->is_incomplete;
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
	HASH_ITER(hh, f->table, e, next) {
		HASH_DEL(f->table, e);
		bytes_free(&e->source);
		bytes_free(&e->calls);
		mem_free(e);
	}
	mem_free(f);
}
