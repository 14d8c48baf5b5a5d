#ifndef CONF_VALUE_H
#define CONF_VALUE_H

#include "base/bytes.h"
#include "base/mem.h"
#include "conf/problem.h"
#include "conf/settings.h"

/*
 * A value of the configuration: a setting, or a key of a database, a user or a peer. A row has its
 * type, its bounds and the offset of its field. All functions that read, write, compare or copy
 * values iterate over rows.
 */
enum value_type {
	VALUE_BOOL,
	VALUE_COUNT,
	VALUE_OCTAL,
	VALUE_SECONDS,
	VALUE_MILLIS,
	VALUE_FRACTION,
	VALUE_POLLING,
	VALUE_TEXT,
	VALUE_SQL,
	VALUE_PATH,
	VALUE_NAMES,
	VALUE_ENUM,
	VALUE_METHODS, /* list of authentication methods: see conf/settings.h */
	VALUE_PORT,    /* a COUNT in an int */
	VALUE_PORTS,   /* a text: a list of ports */
	VALUE_NETWORKS, /* a text: a list of networks */
	VALUE_SECRET,  /* a text, which is never shown */
};
typedef int setting_PORT;

struct value_row {
	struct setting_row row;		/* an empty default of a number means CONF_UNSET */
	enum value_type type;
	size_t offset;			/* of the field in its structure */
};

/* The rows of one structure. */
struct value_table {
	const char *section;		/* "pgbouncer", "databases", "users", "peers" */
	const char *noun;		/* the name of an entry in problems */
	const struct value_row *rows;
	size_t count;
	/* { other name, name } pairs, NULL at the end; or NULL */
	const char *const (*aliases)[2];
};
extern const struct value_table setting_table, database_table, user_table, peer_table;

/* Returns the row of that name or alias, or NULL. */
const struct value_row *value_find(const struct value_table *table, const char *name);
/* Whether a SET of this name, in any spelling, to this value may hold a secret, so that the log
   must not have the value. */
bool setting_may_be_secret(const char *name, const char *value);

enum value_verdict { VALUE_READ_OK, VALUE_READ_WRONG, VALUE_READ_NO_MEMORY };

/* Parses `text` into the row's field of `object`; texts are copied into the arena. The field is
   unchanged unless VALUE_READ_OK is returned. */
enum value_verdict value_read(const struct value_row *row, void *object, const char *text,
			      struct arena *arena);
/* Sets every field of `object` in the table to its default. False: no memory. */
bool value_read_defaults(const struct value_table *table, void *object, struct arena *arena);
/* Describes the accepted values ("a whole number from 0 to 65535"). Returns buf. */
const char *value_accepted(const struct value_row *row, char *buf, size_t size);
/* Returns the value of the field in the syntax of the file: in buf, or a text that is valid as long
   as the object; never NULL. An unset number and a secret are "". */
const char *value_text(const struct value_row *row, const void *object, char *buf, size_t size);
/* Returns the value of row `index` of the settings for SHOW CONFIG: in buf, or a text that is valid
   as long as `s`. Passwords are masked. */
const char *setting_value_shown(const struct settings *s, size_t index, char *buf, size_t size);
/* Copies the row's field from one object to another; texts are copied into the arena. False: no
   memory. */
bool value_copy(const struct value_row *row, void *to, const void *from, struct arena *arena);
bool value_is_equal(const struct value_row *row, const void *a, const void *b);

/* Whether two structures differ in a row with this `applies`. */
bool value_rows_differ(const struct value_table *table, enum setting_applies which, const void *a,
		       const void *b);
/* Serialises the values of these rows: the bytes are equal exactly if the values are equal. Secrets
   are omitted. */
void value_rows_pack(struct bytes *out, const struct value_table *table, enum setting_applies which,
		     const void *object);

#endif
