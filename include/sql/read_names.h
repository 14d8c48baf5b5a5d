#ifndef SQL_READ_NAMES_H
#define SQL_READ_NAMES_H

#include "sql/read_text.h"

/*
 * The names and operators of one text that only reads, or of many such texts: the verdicts on the
 * texts depend on their meaning. See read_names.c.
 */
#define READ_SET_MOST 4096		/* names in one set */

struct read_set {
	struct bytes text;		/* the names, each with '"' or a blank before it ... */
	struct bytes list;		/* ... and their struct read_name, which refer to `text` */
	uint64_t operators;
};

/* Adds names that refer to `text`, as read_text_only_reads() returns them, unless the set has them.
   False: no memory, or no room. The set is unchanged then, or has some of the names. */
bool read_set_add(struct read_set *set, const uint8_t *text, const struct read_name *list,
		  unsigned count, uint64_t operators);
/* Adds all names of `other`. */
bool read_set_merge(struct read_set *set, const struct read_set *other);
/* Appends the question of read_text_ask() for all names of the set. */
void read_set_ask(const struct read_set *set, struct bytes *sql);
void read_set_free(struct read_set *set);
static inline bool read_set_is_empty(const struct read_set *set)
{
	return bytes_size(&set->list) == 0 && set->operators == 0;
}

/*
 * Writes the text without its literals and comments: a string is '', a number is 0, and a blank is
 * between two tokens. Example: SELECT * FROM t WHERE a = 17 AND b = 'x' gives SELECT * FROM t WHERE
 * a = 0 AND b = ''. Two texts with the same result have the same verdict: the reader (read_text.c)
 * looks at neither the content of a plain string nor at the value of a number, and no function that
 * it accepts executes its argument. A name in a string ('t'::regclass) is looked up where the text
 * runs. Casts, types, functions and quoted identifiers stay. Returns the size; 0: the text has no
 * literals, or must be taken as it is, or does not fit.
 */
size_t read_text_mask(const uint8_t *text, size_t size, uint8_t *masked, size_t most);

#endif
