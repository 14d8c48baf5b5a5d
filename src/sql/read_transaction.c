/*
 * Texts of read-only transactions: BEGIN, and the statements that a standby may execute ("Hot
 * Standby" in the PostgreSQL documentation).
 *
 * A standby rejects writes, but it executes some commands that are meant for the primary: it grants
 * advisory locks, reloads its own settings, and answers for itself when asked whether it is in
 * recovery. It also reads sequences and exports snapshots. Texts with such words go to the primary.
 * A needless match costs nothing but a read on the primary, so strings, comments and columns with
 * such names count.
 */
#include "sql/read_transaction.h"

#include "sql/sql_lex.h"

/* bytes that are read after the name of a function, so that the cost of a text is linear */
#define WINDOW 256

/* ---- BEGIN ---- */

/* Reads an isolation level or an access mode that begins with `t`. Returns READ_BEGIN_NOT for
   anything else. */
static enum read_begin read_mode(struct sql_lexer *l, struct lex_token t)
{
	if (lex_is(&t, "isolation")) {
		struct lex_token level = lex_next(l), first = lex_next(l), second;

		if (!lex_is(&level, "level"))
			return READ_BEGIN_NOT;
		if (lex_is(&first, "serializable"))
			return READ_BEGIN_PRIMARY;
		second = lex_next(l);
		if (lex_is(&first, "repeatable")
			    ? lex_is(&second, "read")
			    : lex_is(&first, "read") && (lex_is(&second, "committed") ||
							 lex_is(&second, "uncommitted")))
			return READ_BEGIN_PLAIN;
		return READ_BEGIN_NOT;
	}
	if (lex_is(&t, "read")) {
		t = lex_next(l);
		return lex_is(&t, "only")    ? READ_BEGIN_ONLY
		       : lex_is(&t, "write") ? READ_BEGIN_PRIMARY
					     : READ_BEGIN_NOT;
	}
	if (lex_is(&t, "not"))
		t = lex_next(l);
	return lex_is(&t, "deferrable") ? READ_BEGIN_PLAIN : READ_BEGIN_NOT;
}

static bool ends_at(struct sql_lexer *l, struct lex_token t)
{
	while (lex_is_mark(&t, ';'))
		t = lex_next(l);
	return t.kind == LEX_END && !l->is_uncertain;
}

enum read_begin read_transaction_begin(const uint8_t *text, size_t size)
{
	struct sql_lexer l = lex_begin(text, size), after;
	enum read_begin found = read_has_hint(text, size) ? READ_BEGIN_PRIMARY : READ_BEGIN_PLAIN;
	struct lex_token t = lex_next(&l), next;

	/* a vertical tab is blank since PostgreSQL 16 only */
	if (l.is_cut || !(lex_is(&t, "begin") || lex_is(&t, "start")) ||
	    memchr(text, '\v', (size_t)(l.end - (const char *)text)))
		return READ_BEGIN_NOT;
	after = l;
	next = lex_next(&after);
	if (lex_is(&next, "transaction") || (lex_is(&t, "begin") && lex_is(&next, "work")))
		l = after;
	else if (lex_is(&t, "start"))
		return READ_BEGIN_NOT;
	for (bool is_first = true; t = lex_next(&l), t.kind != LEX_END && !lex_is_mark(&t, ';');
	     is_first = false) {
		enum read_begin mode;

		if (!is_first && lex_is_mark(&t, ','))
			t = lex_next(&l);
		mode = read_mode(&l, t);
		if (mode == READ_BEGIN_NOT)
			return READ_BEGIN_NOT;
		if (mode > found)
			found = mode;
	}
	return ends_at(&l, t) ? found : READ_BEGIN_NOT;
}

/* ---- statements ---- */

/* After TO or FROM of COPY, outside of parentheses: only the client receives the rows. */
static bool copies_to_client(struct sql_lexer l)
{
	struct lex_token t = lex_next(&l);
	int depth = 0;

	for (; t.kind != LEX_END; t = lex_next(&l)) {
		depth += lex_is_mark(&t, '(') - lex_is_mark(&t, ')');
		if (depth == 0 && (lex_is(&t, "to") || lex_is(&t, "from"))) {
			struct lex_token where = lex_next(&l);

			return lex_is(&t, "to") && lex_is(&where, "stdout");
		}
	}
	return false;
}

/* Whether the first word, which is stored, allows a standby. */
static bool begins_suitably(struct sql_lexer l, struct lex_token *first)
{
	static const char *const reads[] = { "select", "with",	  "values",
					     "table",  "explain", "declare" };
	struct lex_token second;

	do
		*first = lex_next(&l);
	while (lex_is_mark(first, '('));
	for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++)
		if (lex_is(first, reads[i]))
			return true;
	if (lex_is(first, "copy"))
		return copies_to_client(l);
	second = lex_next(&l);
	return lex_is(first, "set") && (lex_is(&second, "local") || lex_is(&second, "transaction"));
}

static bool is_alone(struct sql_lexer l)
{
	struct lex_token t = lex_next(&l);

	while (t.kind != LEX_END && !lex_is_mark(&t, ';'))
		t = lex_next(&l);
	return ends_at(&l, t);
}

static bool transaction_text_begins_with(const char *word, size_t size, const char *part)
{
	size_t part_size = strlen(part);

	return size >= part_size && strncasecmp(word, part, part_size) == 0;
}

static bool has(const char *word, size_t size, const char *part)
{
	for (; size > 0; word++, size--)
		if (transaction_text_begins_with(word, size, part))
			return true;
	return false;
}

/* After a name: skips the parenthesis of a call. Returns whether a call begins, or the window is
   too short. */
static bool skip_to_call(struct sql_lexer *after)
{
	struct lex_token t;

	after->at += after->at < after->end && *after->at == '"';
	t = lex_next(after);
	return lex_is_mark(&t, '(') || (t.kind == LEX_END && after->is_cut);
}

/* After current_setting: whether the parameter is the session's and not the server's. */
static bool reads_own_setting(struct sql_lexer after)
{
	struct lex_token name;

	if (!skip_to_call(&after))
		return true;
	name = lex_next(&after);
	return name.kind == LEX_STRING && !after.is_uncertain &&
	       memchr(name.text, '.', name.text_size);
}

/* Whether the word, which ends where `after` begins, refers to something that the primary must
   answer or do, such as pg_locks. */
static bool belongs_to_primary(const char *word, size_t size, struct sql_lexer after)
{
	static const char *const words[] = { "nextval",
					     "currval",
					     "lastval",
					     "setval",
					     "loread",
					     "lowrite",
					     "in_hot_standby",
					     "transaction_read_only",
					     "default_transaction_read_only" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (lex_equal(word, size, words[i]))
			return true;
	switch (*word | 0x20) {
	case 'c':
		if (lex_equal(word, size, "current_setting") && !reads_own_setting(after))
			return true;
		break;
	case 'i':
		if (transaction_text_begins_with(word, size, "inet_server_"))
			return true;
		break;
	case 'l':
		if (transaction_text_begins_with(word, size, "lo_"))
			return true;
		break;
	case 'p':
		if (transaction_text_begins_with(word, size, "pg_") &&
		    !lex_equal(word, size, "pg_catalog"))
			return true;
		break;
	case 't':
		if (transaction_text_begins_with(word, size, "txid_"))
			return true;
		break;
	case 'u':
		/* U&"pg\005f..." */
		if (size == 1 && after.end - after.at > 1 && memcmp(after.at, "&\"", 2) == 0)
			return true;
		break;
	case 'v':
		if (lex_equal(word, size, "version") && skip_to_call(&after))
			return true;
	}
	return size >= sizeof("dblink") - 1 &&
	       (has(word, size, "advisory") || has(word, size, "dblink"));
}

/* Whether the word of a SET or DECLARE is not for a standby. */
static bool changes_transaction(const char *word, size_t size)
{
	return lex_equal(word, size, "write") || lex_equal(word, size, "serializable") ||
	       lex_equal(word, size, "snapshot") || lex_equal(word, size, "hold");
}

bool read_transaction_suits_standby(const uint8_t *text, size_t size)
{
	struct sql_lexer l = lex_begin(text, size);
	struct lex_token first;
	bool is_command;
	const char *word;

	if (l.is_cut || read_has_hint(text, size) || !begins_suitably(l, &first) || !is_alone(l))
		return false;
	is_command = lex_is(&first, "set") || lex_is(&first, "declare");
	while ((size = lex_next_word(&l.at, l.end, &word)) > 0) {
		bool is_long = l.end - l.at > WINDOW;
		struct sql_lexer after = { .at = l.at,
					   .end = is_long ? l.at + WINDOW : l.end,
					   .is_cut = is_long,
					   .is_fragment = true };

		if (belongs_to_primary(word, size, after) ||
		    (is_command && changes_transaction(word, size)))
			return false;
	}
	return true;
}

/* ---- later statements ---- */

/* Whether the function acts on its server: it locks, or changes, something there. */
static bool affects_server(const char *word, size_t size)
{
	static const char *const names[] = {
		"pg_reload_conf",    "pg_rotate_logfile",    "pg_promote",
		"pg_cancel_backend", "pg_terminate_backend", "pg_stat_reset",
		"pg_wal_replay_",    "pg_backup_",	     "pg_create_",
		"pg_drop_",	     "pg_replication_",	     "pg_logical_",
		"pg_file_",	     "pg_switch_wal"
	};

	if (size < sizeof("pg_promote") - 1)
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (transaction_text_begins_with(word, size, names[i]))
			return true;
	return has(word, size, "advisory");
}

bool read_transaction_affects_standby(const uint8_t *text, size_t size)
{
	struct sql_lexer l = lex_begin(text, size);
	const char *word;

	while ((size = lex_next_word(&l.at, l.end, &word)) > 0) {
		/* U&"pg\005f..." */
		if (affects_server(word, size) || (size == 1 && (*word | 0x20) == 'u' &&
						   l.end - l.at > 1 && memcmp(l.at, "&\"", 2) == 0))
			return true;
	}
	return false;
}
