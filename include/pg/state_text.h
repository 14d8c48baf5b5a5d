#ifndef PG_STATE_TEXT_H
#define PG_STATE_TEXT_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What SQL of a client says about the state of its session: see state_text.c. A text is `size` bytes that end with their NUL, or are cut
 * off.
 */
enum {
	TEXT_SETS = 1,			/* it calls set_config, not for the transaction alone: no command tag will say so */
	TEXT_SETS_UNNAMED = 2,		/* ... for a parameter that the text does not name: set_config($1, $2, false) */
	TEXT_PREPARES = 4,		/* it has the word PREPARE: EXECUTE may do later what else it says */
	TEXT_CUT = 8,			/* there is more of it, which may say anything */
	TEXT_TEMPORARY = 16,		/* it makes a temporary table, or names the schema pg_temp */
	TEXT_HOLDS = 32,		/* it has the word HOLD, of DECLARE ... WITH HOLD */
	TEXT_LOCKS = 64,		/* it calls a function of advisory locks that outlive the transaction */
	TEXT_STAYS = 128,		/* it calls a function whose effect stays until the session ends: dblink_connect, setseed */
	TEXT_READS_SEQUENCES = 256,	/* it has the word currval or lastval */
	/* of functions alone (pg/state_functions.h); of a client's text the command tag says it: */
	TEXT_LISTENS = 512,		/* LISTEN or UNLISTEN */
	TEXT_MAKES_STATEMENTS = 1024,	/* PREPARE or DEALLOCATE */
	TEXT_NOTIFIES = 65536,		/* NOTIFY or pg_notify; of a client's text state_text_may_notify says it */
	TEXT_DOUBTFUL = 4096,		/* a function that may do anything: the session is to be reset before another client has it */
	/* of clients' texts alone: */
	TEXT_UNLISTENS = 2048,		/* UNLISTEN, or a question for what the session listens to */
	TEXT_SETS_NULL = 131072,	/* it calls set_config('name', NULL, ...), which resets the parameter */
	TEXT_DRAWS = 8192,		/* of functions, too: it has the word nextval or setval ... */
	TEXT_SETS_VALUES = 16384,	/* ... setval */
	TEXT_READS_NAMED = 32768	/* of functions, too: it has the word currval */
};

/* Is given a name with a dot, in lower case, which SET, RESET or set_config in the text is about. */
typedef void setting_named(void *context, const char *name);

/* Returns TEXT_ bits. */
unsigned state_text_read(const uint8_t *text, size_t size, setting_named *named, void *context);

/* The text, and with its NUL, with the value of the parameter in place of each NULL in set_config('name', NULL, ...). A parameter for which `value_of`
   returns NULL is left alone. False: there is nothing to replace, or it cannot be told what of the text is a string. */
typedef const char *value_of_setting(void *context, const char *name);
bool state_text_fill_nulls(const uint8_t *text, size_t size, value_of_setting *value_of, void *context, struct bytes *filled);

/* The next word from *at on, which goes behind it: letters and digits of ASCII, and '_'; quotes are no part of it. Its size; 0: there is none. */
size_t state_text_next_word(const char **at, const char *end, const char **word);

/* It has the word BEGIN or START: it may begin a transaction. */
bool state_text_may_begin(const uint8_t *text, size_t size);

/* The same of a text that is one statement, of which that is the first word. */
bool state_text_begins(const uint8_t *text, size_t size);

/* It has the word NOTIFY or pg_notify, or is cut off. */
bool state_text_may_notify(const uint8_t *text, size_t size);

/* It has the word INSERT, MERGE or COPY: a column may have nextval as its default. */
bool state_text_may_draw(const uint8_t *text, size_t size);

/* Appends, for each call of currval in the text, an SQL expression for the OID of its sequence (NULL: there is none), and a comma. False: the text is
   more than one SELECT, INSERT, UPDATE or DELETE, calls set_config, or names a sequence in another way than currval('name') or
   currval(pg_get_serial_sequence('table', 'column')). */
bool state_text_read_sequences(const uint8_t *text, size_t size, struct bytes *oids);

/* It has SELECT INTO, which makes a temporary table where the search_path begins with pg_temp. In PL/pgSQL this sets a variable. */
bool state_text_selects_into(const uint8_t *text, size_t size);

/* False: state_text_read would say nothing but TEXT_PREPARES, and name nothing, nor does the text select into a table. True for each text that is
   cut off, and for some others. */
bool state_text_may_tell(const uint8_t *text, size_t size);

#endif
