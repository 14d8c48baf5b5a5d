#ifndef SQL_STATE_TEXT_H
#define SQL_STATE_TEXT_H

#include "base/bytes.h"
#include "sql/sql_uses.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Effects of SQL texts of clients on the state of the session: see state_text.c. A text is `size`
 * bytes that end with their NUL, or the beginning of a longer text.
 */
enum {
	/* set_config, not only for the transaction: the command tag does not show it */
	TEXT_SETS = 1,
	/* ... of an unnamed parameter: set_config($1, $2, false) */
	TEXT_SETS_UNNAMED = 2,
	TEXT_PREPARES = 4,		/* PREPARE: a later EXECUTE has the other effects */
	/* the text is truncated, and the rest may have any effect */
	TEXT_CUT = 8,
	TEXT_TEMPORARY = 16,		/* creates a temporary table, or names the schema pg_temp */
	TEXT_HOLDS = 32,		/* HOLD, of DECLARE ... WITH HOLD */
	TEXT_LOCKS = 64,		/* advisory locks of the session */
	/* an effect until the session ends: dblink_connect, setseed, SET seed, isn_weak,
	   replication origins and slots, backups */
	TEXT_STAYS = 128,
	TEXT_READS_SEQUENCES = 256,	/* currval or lastval */
	TEXT_READS_NAMED = 32768,	/* ... currval */
	TEXT_DRAWS = 8192,		/* nextval or setval */
	TEXT_SETS_VALUES = 16384,	/* ... setval */
	/* set_config('name', NULL, ...), which resets the parameter */
	TEXT_SETS_NULL = 131072,
	TEXT_UNLISTENS = 2048,		/* UNLISTEN, or a query for the channels of the session */
	/* INSERT, MERGE, COPY, DEFAULT or ALTER: the default of a column may call nextval */
	TEXT_FILLS = 1 << 19,
	/* only of functions (sql/state_functions.h), because the command tag shows these effects of
	   a text of a client */
	TEXT_LISTENS = 512,		/* LISTEN or UNLISTEN */
	TEXT_MAKES_STATEMENTS = 1024,	/* PREPARE or DEALLOCATE */
	/* NOTIFY or pg_notify; state_functions_find_notify() finds them in a text of a client */
	TEXT_NOTIFIES = 65536,
	/* any effect: the session must be reset before another client gets the server */
	TEXT_ANY_EFFECT = 4096,
	/* only of texts of clients */
	TEXT_BEGINS = 1 << 18,		/* BEGIN or START: the text may begin a transaction */
	/* TEXT_SETS_UNNAMED, because pgweir cannot ask for the name in the text */
	TEXT_SETS_ODDLY_NAMED = 1 << 21,
	/* SELECT INTO, which creates a temporary table if search_path begins with pg_temp */
	TEXT_SELECTS_INTO = 1 << 20,
	TEXT_OF_CLIENTS = TEXT_BEGINS | TEXT_SELECTS_INTO,
	/* a function with no other effects matters only while a client listens, or while the pool
	   reads values of sequences */
	TEXT_ON_DEMAND = TEXT_NOTIFIES | TEXT_FILLS
};

/* Receives a name with a dot, in lower case, that SET, RESET or set_config in the text names. */
typedef void setting_named(void *context, const char *name);

/* A search of a text, which may continue later with the same text and size. `at` and `is_over` are
   zero at first. The search stops when `words_left` is used up: a word costs 1, and more if it is
   long or is looked up. */
#define TEXT_SEARCH_BYTES 32		/* cost 1 */
struct text_search {
	size_t at;			/* offset at which the search continues */
	int64_t words_left;
	bool is_over;
};
/* A state_text_read() that may stop, and its findings so far. */
struct text_reading {
	struct text_search search;
	unsigned said;			/* TEXT_ bits */
	unsigned count;			/* words before `at` */
	/* words SET, RESET and set_config after which a name was read */
	int parameters;
	/* the last word and the first one */
	size_t before, before_size, opening, opening_size;
	bool looked_for_comments, has_comments;
};

/* Reads until reading->search is over or has stopped; adds TEXT_ bits to reading->said. */
void state_text_read(struct text_reading *reading, const uint8_t *text, size_t size,
		     setting_named *named, void *context);

/* Replaces each NULL in set_config('name', NULL, ...) by the value of the parameter, and appends
   the text with its NUL to `filled`. If value_of() returns NULL, the call is unchanged. False:
   nothing to replace, or the ends of strings are uncertain. */
typedef const char *value_of_setting(void *context, const char *name);
bool state_text_fill_nulls(const uint8_t *text, size_t size, value_of_setting *value_of,
			   void *context, struct bytes *filled);

/* Appends, for each call of currval in the text, an SQL expression for the OID of its sequence
   (NULL: there is no sequence), and a comma. False: the text is not one SELECT, INSERT, UPDATE or
   DELETE, calls set_config, or names a sequence in another way than currval('name') or
   currval(pg_get_serial_sequence('table', 'column')). */
bool state_text_read_sequences(const uint8_t *text, size_t size, struct bytes *oids);

/* Whether the first token of the text, which is one whole statement, is BEGIN or START. */
static inline bool state_text_begins(const uint8_t *text, size_t size)
{
	struct sql_lexer l = { .at = (const char *)text,
			       .end = (const char *)text + size,
			       .is_fragment = true };
	struct lex_token t = lex_next(&l);

	return lex_is(&t, "begin") || lex_is(&t, "start");
}

/* Returns all bits for a truncated text. */
enum {
	/* not set: state_text_read() finds no bits but TEXT_PREPARES, TEXT_BEGINS and TEXT_FILLS,
	   and names nothing */
	TEXT_TELLS_WORDS = 1,
	/* not set: a call is a name and a parenthesis, with blanks between them at most */
	TEXT_TELLS_CALLS = 2,
	TEXT_TELLS_PARENTHESIS = 4
};
unsigned state_text_tells(const uint8_t *text, size_t size);
/* Returns whether state_text_tells() would set TEXT_TELLS_WORDS. state_text_tells() has one caller,
   which the linker makes it a part of. */
bool state_text_tells_words(const uint8_t *text, size_t size);

/* Returns whether the effects of the function with this name, of `size` bytes in lower case, are
   known. */
typedef bool name_is_known(const void *context, const char *name, size_t size);
/* The search for calls. Zero at first, then only is_plain and walk.is_source may be set. */
struct text_calls {
	/* state_text_tells() does not return TEXT_TELLS_CALLS for the text, which is not
	   truncated */
	bool is_plain;
	struct text_search search;
	struct sql_walk walk;
};
/* Whether each function that the text may call is built in or `known` (NULL: no function is). False
   also if the ends of its tokens are uncertain, or the text is truncated; true also if the search
   has stopped before its end. See state_calls.c. */
bool state_text_calls_known(struct text_calls *calls, const uint8_t *text, size_t size,
			    name_is_known *known, const void *context);

/* Sets *word to the next word of the text, moves *at to its end, counts its cost, and returns its
   size; 0: there is no word, and the search is over. */
static inline size_t text_search_word(struct text_search *search, const char **at, const char *end,
				      const char **word)
{
	const char *from = *at;
	size_t size = lex_next_word(at, end, word);

	search->words_left -= 1 + (*at - from) / TEXT_SEARCH_BYTES;
	search->is_over = size == 0;
	return size;
}

#endif
