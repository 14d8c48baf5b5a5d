#ifndef CONF_VALUE_H
#define CONF_VALUE_H

#include "base/bytes.h"
#include "base/mem.h"
#include "conf/settings.h"

/*
 * One value of the configuration, be it a setting or a key of a database, a user or a peer: a row says
 * its type, its bounds and where in its structure the value lives. All that reads, writes, compares or
 * copies values walks rows.
 */
enum value_type {
	VALUE_BOOL, VALUE_COUNT, VALUE_OCTAL, VALUE_SECONDS, VALUE_MILLIS, VALUE_POLLING, VALUE_TEXT, VALUE_SQL, VALUE_PATH,
	VALUE_NAMES, VALUE_ENUM,
	VALUE_METHODS,		/* authentication methods, as one number: see conf/methods.h */
	VALUE_PORT,		/* a COUNT that lives in an int */
	VALUE_SECRET,		/* a text that is never shown */
};
typedef int setting_PORT;
typedef struct secret *setting_SECRET;

struct value_row {
	struct setting_row row;		/* an empty default of a number means CONF_UNSET */
	enum value_type type;
	size_t offset;			/* of the field in its structure */
};

/* The rows of one structure. */
struct value_table {
	const char *section;		/* "pgbouncer", "databases", "users", "peers" */
	const char *noun;		/* what one entry of it is called */
	const struct value_row *rows;
	size_t count;
	const char *const (*aliases)[2];	/* { other name, name } pairs, NULL at the end; or NULL */
};
extern const struct value_table setting_table, database_table, user_table, peer_table;

/* The row of that name or alias; NULL when there is none. */
const struct value_row *value_find(const struct value_table *table, const char *name);
/* With this name, in any spelling, and this value a SET may hold a secret: the log must not have the value. */
bool setting_may_be_secret(const char *name, const char *value);
/* The known name nearest to a misspelt one, or NULL. */
const char *value_nearest(const struct value_table *table, const char *name);

enum value_verdict { VALUE_OK, VALUE_WRONG, VALUE_NO_MEMORY };

/* Reads `text` into the row's field of `object`; texts are copied into the arena. The field is untouched
   unless the verdict is VALUE_OK. */
enum value_verdict value_read(const struct value_row *row, void *object, const char *text, struct arena *arena);
/* Sets every field of `object` that the table knows to its default. False: no memory. */
bool value_read_defaults(const struct value_table *table, void *object, struct arena *arena);
/* Says in words what the row accepts ("a whole number from 0 to 65535"). Returns buf. */
const char *value_accepted(const struct value_row *row, char *buf, size_t size);
/* The nearest of an enum's words to a misspelt one, written to buf; NULL for other types, or when none is
   near. */
const char *value_nearest_word(const struct value_row *row, const char *text, char *buf, size_t size);
/* The field as one would write it in the file: buf, or a text that lives as long as the object. Never
   NULL. An unset number and a secret are "". */
const char *value_text(const struct value_row *row, const void *object, char *buf, size_t size);
/* Copies the row's field from one object to another; texts are copied into the arena. False: no memory. */
bool value_copy(const struct value_row *row, void *to, const void *from, struct arena *arena);
bool value_is_equal(const struct value_row *row, const void *a, const void *b);

/* Whether two structures have other values in any row whose changes apply so. */
bool value_rows_differ(const struct value_table *table, enum setting_applies which, const void *a, const void *b);
/* Those values as bytes, which are equal exactly where the values are. A secret is left out. */
void value_rows_pack(struct bytes *out, const struct value_table *table, enum setting_applies which, const void *object);

#endif
