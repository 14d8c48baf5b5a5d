#ifndef PG_STARTUP_H
#define PG_STARTUP_H

#include "pg/frame.h"

#include <stdbool.h>

/*
 * The first packet of a connection ("StartupMessage", "SSLRequest", "GSSENCRequest",
 * "CancelRequest"): an Int32 length, an Int32 code, the rest.
 */
enum pg_startup_kind {
	STARTUP_SESSION,	/* protocol 3.x */
	STARTUP_SSL,
	STARTUP_GSS,
	STARTUP_CANCEL,
	STARTUP_VERSION_2,	/* any major version below 3 */
	STARTUP_UNKNOWN		/* any other major version */
};

/* Minor versions of protocol 3. */
/* since then the key in BackendKeyData and CancelRequest has 4 to 256 bytes, not 4 */
#define PG_MINOR_LONG_KEYS 2
#define PG_MINOR_NEWEST 2
#define PG_KEY_LEAST 4
#define PG_KEY_MOST 256

/* Returns the minor version for a client with this wish: the newest supported version up to it. 3.1
   is skipped, because some poolers once claimed it in error. */
static inline uint16_t pg_minor_served(uint16_t asked)
{
	return asked >= PG_MINOR_LONG_KEYS ? PG_MINOR_LONG_KEYS : 0;
}

enum pg_startup_fault {		/* the reason of PG_BAD */
	STARTUP_FAULT_HEADER,	/* the length is invalid, or above the limit */
	STARTUP_FAULT_LAYOUT	/* the strings do not end where the packet ends */
};

struct pg_startup {
	enum pg_startup_kind kind;
	enum pg_startup_fault fault;
	uint32_t size;		/* of the whole packet with its length */
	uint16_t major, minor;
	const uint8_t *pairs;	/* STARTUP_SESSION: name\0value\0 ... up to the last \0 */
	size_t pairs_size;
	uint32_t cancel_pid;
	const uint8_t *cancel_key;	/* STARTUP_CANCEL: 4 to 256 bytes */
	size_t cancel_key_size;
};

/* Reads the packet at p; n bytes have arrived, and larger packets than max are PG_BAD. A valid
   session packet has an even number of strings. Nothing is copied. */
enum pg_verdict pg_startup_read(const uint8_t *p, size_t n, size_t max, struct pg_startup *out);
/* Returns the next name/value pair; *at is 0 at first. False: at the end. */
bool pg_startup_pair(const struct pg_startup *s, size_t *at, const char **name, const char **value);

/* Reads the next setting of the start-up parameter `options`, "-c name=value" or "--name=value",
   and moves *text after it. Blanks separate, and a backslash makes the next byte literal. Name and
   value are written unchanged with a NUL: a server reads '-' in a name as '_'. PG_OK: a setting;
   PG_MORE: the end; PG_BAD: another kind of option, or too long. */
enum pg_verdict pg_options_next(const char **text, char *name, size_t name_size, char *value,
				size_t value_size);

/* The start-up parameter `replication`. */
enum pg_replication {
	REPLICATION_NONE,
	/* "database": replication commands and SQL, in a database */
	REPLICATION_LOGICAL,
	REPLICATION_PHYSICAL		/* "true": replication commands only, without a database */
};

/* The word for a server, and for the log. */
static inline const char *pg_replication_word(enum pg_replication replication)
{
	static const char *const words[] = { "no", "database", "yes" };

	return words[replication];
}

/* The word of SHOW. */
static inline const char *pg_replication_name(enum pg_replication replication)
{
	static const char *const names[] = { "none", "logical", "physical" };

	return names[replication];
}

/*
 * Values of parameters in the spelling in which the server reports them.
 */

/* Returns "on" or "off" for the value of a boolean parameter; NULL: the server would refuse the
   value. */
const char *pg_boolean_spelled(const char *value);
/* Returns the reported value of the parameter for client_encoding, standard_conforming_strings and
   IntervalStyle. Returns `value` for other parameters, and if the server would refuse the value. */
const char *pg_spelled(const char *name, const char *value);

#define PG_DATESTYLE_MOST 32	/* bytes of any DateStyle in the server's spelling, with its NUL */

/* Writes the new DateStyle of a session with the DateStyle `before`, after it has set `asked`, in
   the server's spelling: "ISO" after "German, DMY" gives "ISO, DMY". False, and `full` is
   undefined: only the server knows, because a word is unknown (also DEFAULT), words contradict each
   other, or `before` is incomplete. */
bool pg_datestyle_over(const char *before, const char *asked, char full[PG_DATESTYLE_MOST]);

#endif
