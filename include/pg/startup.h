#ifndef PG_STARTUP_H
#define PG_STARTUP_H

#include "pg/frame.h"

#include <stdbool.h>

/*
 * The first packet of a connection: an Int32 length, an Int32 code, the rest.
 * "StartupMessage", "SSLRequest", "GSSENCRequest", "CancelRequest".
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
#define PG_MINOR_LONG_KEYS 2	/* from here on the key in BackendKeyData and CancelRequest has 4 to 256 bytes, not 4 */
#define PG_MINOR_NEWEST 2
#define PG_KEY_LEAST 4
#define PG_KEY_MOST 256

/* The minor version that is spoken with a client that asks for this one: the newest of ours that is not newer. There is no
   3.1: the number is taken by poolers that once claimed it in error. */
static inline uint16_t pg_minor_served(uint16_t asked)
{
	return asked >= PG_MINOR_LONG_KEYS ? PG_MINOR_LONG_KEYS : 0;
}

enum pg_startup_fault {		/* why PG_BAD */
	STARTUP_FAULT_HEADER,	/* the length is impossible, or above the limit */
	STARTUP_FAULT_LAYOUT	/* strings do not end where the packet ends */
};

struct pg_startup {
	enum pg_startup_kind kind;
	enum pg_startup_fault fault;
	uint32_t size;		/* of the whole packet, length word included */
	uint16_t major, minor;
	const uint8_t *pairs;	/* STARTUP_SESSION: name\0value\0 ... up to the last \0 */
	size_t pairs_size;
	uint32_t cancel_pid;
	const uint8_t *cancel_key;	/* STARTUP_CANCEL: 4 to 256 bytes */
	size_t cancel_key_size;
};

/* Reads the packet at p, n bytes of which are here; max is the largest size accepted. A session packet
   with its strings in order has an even number of strings. Nothing is copied. */
enum pg_verdict pg_startup_read(const uint8_t *p, size_t n, size_t max, struct pg_startup *out);
/* Walks name/value pairs: *at starts as 0. False at the end. */
bool pg_startup_pair(const struct pg_startup *s, size_t *at, const char **name, const char **value);

/* Walks the `options` start-up parameter: "-c name=value" and "--name=value", blanks separate, a
   backslash takes the next byte literally. *text moves on. name and value are written NUL-terminated, as they are: a server reads
   '-' in a name as '_'. PG_OK: one was read; PG_MORE: the end was reached;
   PG_BAD: another kind of option, or too long. */
enum pg_verdict pg_options_next(const char **text, char *name, size_t name_size, char *value, size_t value_size);

/* What the start-up parameter `replication` asks for. */
enum pg_replication {
	REPLICATION_NONE,
	REPLICATION_LOGICAL,		/* "database": commands of replication and SQL, in a database */
	REPLICATION_PHYSICAL		/* "true": commands of replication only, in none */
};

/* What a server is told, and the log. */
static inline const char *pg_replication_word(enum pg_replication replication)
{
	static const char *const words[] = { "no", "database", "yes" };

	return words[replication];
}

/* As SHOW prints it. */
static inline const char *pg_replication_name(enum pg_replication replication)
{
	static const char *const names[] = { "none", "logical", "physical" };

	return names[replication];
}

#endif
