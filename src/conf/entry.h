#ifndef CONF_ENTRY_H
#define CONF_ENTRY_H

/* The entries of the file and their problems, for conf.c: see entry.c. */
#include "conf/conf.h"
#include "conf/ini.h"
#include "conf/value.h"

/* ${NAME} in a value is an environment variable. */
#define VARIABLE "${"

/* The location of a value, for problems. */
struct entry_place {
	const char *file;
	int line;
	const char *noun, *owner;	/* "database", "mydb"; owner NULL: a setting */
	/* the number of the key=value pair in its entry if an earlier pair is a password, otherwise
	   0 */
	int behind_password;
};

/* Writes `database "mydb": ` or "" to buf. Returns buf. */
const char *entry_owner_text(const struct entry_place *place, char *buf, size_t size);
/* Writes "; did you mean NAME?", or "". Returns buf. */
const char *entry_suggest(const struct value_table *table, const char *key, char *buf, size_t size);
/* Parses one value into its field. Adds a problem and returns VALUE_READ_WRONG if the value is not
   accepted. */
enum value_verdict entry_assign(const struct value_row *row, void *object, const char *text,
				struct arena *arena, const struct entry_place *place,
				struct conf_problems *problems);

#endif
