#ifndef SQL_READ_TRANSACTION_H
#define SQL_READ_TRANSACTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * SQL texts of clients with read-only transactions, which may run on a standby (reads =
 * transaction). A text is `size` bytes that contain their NUL, or the beginning of a longer text,
 * which goes to the primary.
 */

/* If a text begins with these bytes, it goes to the primary; before BEGIN, so does its
   transaction. */
#define READ_HINT "/* pgweir: primary */"

static inline bool read_has_hint(const uint8_t *text, size_t size)
{
	return size > sizeof(READ_HINT) - 1 && memcmp(text, READ_HINT, sizeof(READ_HINT) - 1) == 0;
}

/* BEGIN or START TRANSACTION as the only statement of a text. A server accepts the text, unless the
   answer is READ_BEGIN_NOT. */
enum read_begin {
	READ_BEGIN_NOT,			/* any other text */
	/* without READ ONLY: the transaction is read-only if default_transaction_read_only is on */
	READ_BEGIN_PLAIN,
	READ_BEGIN_ONLY,		/* READ ONLY */
	READ_BEGIN_PRIMARY		/* READ WRITE, SERIALIZABLE, or with the hint */
};
enum read_begin read_transaction_begin(const uint8_t *text, size_t size);

/*
 * Whether a standby may execute the text, which is one statement: at the beginning of a read-only
 * transaction, or outside of transactions if default_transaction_read_only is on. True for
 *
 *	SELECT, WITH, VALUES, TABLE, EXPLAIN, DECLARE without HOLD, COPY ... TO STDOUT, SET LOCAL,
 *	SET TRANSACTION
 *
 * unless a word refers to the server itself, to locks, sequences or other sessions (any name with
 * pg_, except pg_catalog), or changes the transaction. Words in strings and comments count, too.
 * All other commands belong to the primary. Functions of users are not examined: the client has
 * asked for a read-only transaction. Any error on a standby must be replaced by the answer of the
 * primary.
 */
bool read_transaction_suits_standby(const uint8_t *text, size_t size);
/*
 * Whether a later statement of a transaction on a standby would succeed there although it is meant
 * for the primary: an advisory lock, a reload, the end of a backend. The text may be the beginning
 * of a longer one.
 */
bool read_transaction_affects_standby(const uint8_t *text, size_t size);

#endif
