#ifndef CONF_ENTRY_H
#define CONF_ENTRY_H

#include "conf/ini.h"
#include "conf/value.h"

/* The location of a value, for problems. */
struct entry_place {
	const char *file;
	int line;
	const char *noun, *owner;	/* "database", "mydb"; owner NULL: a setting */
	int behind_password;		/* the number of the key=value pair in its entry if an earlier pair is a password, otherwise 0 */
};

/* Writes `; did you mean "NAME"?` to buf, or "" if name is NULL. Returns buf. */
const char *entry_suggest(const char *name, char *buf, size_t size);
/* Parses one value into its field. Adds a problem and returns VALUE_READ_WRONG if the value is not accepted. */
enum value_verdict entry_assign(const struct value_row *row, void *object, const char *text, struct arena *arena,
				const struct entry_place *place, struct conf_problems *problems);
/* Parses the list of a database, user or peer into `object`, which is set to the defaults first. Adds every problem. Modifies
   `line->value`. False: no memory. */
bool entry_read(const struct value_table *table, void *object, const struct ini_line *line, struct arena *arena,
		struct conf_problems *problems);

#endif
