#ifndef SQL_READ_TEXT_H
#define SQL_READ_TEXT_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * SQL texts that only read (reads = auto): see read_text.c. A text is recognised in two steps: by
 * its words, and by one question to the catalogue, which depends on names in the text. Then each
 * standby with the same data gives the answer of the primary, or an error.
 */
#define READ_TEXT_MOST 16384		/* bytes of a text, with its NUL */
#define READ_NAMES_MOST 512		/* names in one text, each as often as it occurs */

enum read_name_kind {
	READ_NAME_SCHEMA,			/* of the next name, which is a relation */
	READ_NAME_RELATION,			/* after FROM or JOIN; may be the name of a CTE */
	/* a call of a built-in function, unless a user has one of the same name */
	READ_NAME_FUNCTION,
	/* after a dot: a column, or a function of a row (t.f is f(t)) */
	READ_NAME_ATTRIBUTE,
	READ_NAME_TYPE			/* of a cast or a literal */
};
struct read_name {
	uint16_t at;			/* in the text, without quotes */
	uint8_t size;			/* at most 63, in ASCII, without quotes and backslashes */
	uint8_t kind;
};
struct read_names {
	unsigned count;
	uint64_t operators;		/* bits of the operators in the text */
	struct read_name list[READ_NAMES_MOST];
};

/*
 * Returns whether the text, which ends with its NUL, is one SELECT or VALUES that only reads if the
 * answer to read_text_ask() is true. `functions` is the value of read_functions: names of user
 * functions that only read, in lower case, with commas between them; or NULL. A name with a schema
 * counts for calls with this schema only. The cost is linear in `size`, and there is no allocation.
 * Not examined, and for the caller to exclude:
 *
 * - parameters that Parse declares with a type above 16383, which may be a domain with user code
 * - sessions with temporary objects, which may hide any table or type
 */
bool read_text_only_reads(const uint8_t *text, size_t size, const char *functions,
			  struct read_names *names);

/*
 * Appends the question to the catalogue for the names of this text: one SELECT without its NUL,
 * which returns one row with one boolean. It is true if
 *
 * - the relations are permanent tables and materialized views without row security, and so are
 *   their partitions
 * - their columns have built-in types, enums, types of extensions in C, or domains without user
 *   code
 * - functions, operators and types of users do not replace the built-in ones in the text, and no
 *   cast of a user runs code in another language than C
 *
 * Names count in every schema, so the answer depends neither on search_path nor on the role. It
 * becomes invalid with each DDL.
 */
void read_text_ask(const uint8_t *text, const struct read_names *names, struct bytes *sql);
/* Appends the question for a list of names, which may come from several texts (sql/read_names.h),
   and for the operators with these bits. Its answer is read as that of read_text_ask(). */
void read_names_ask(const uint8_t *text, const struct read_name *list, unsigned count,
		    uint64_t operator_bits, struct bytes *sql);

#endif
