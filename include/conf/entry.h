#ifndef CONF_ENTRY_H
#define CONF_ENTRY_H

#include "conf/ini.h"
#include "conf/value.h"

/* Where a value stands, for its problem. */
struct entry_place {
	const char *file;
	int line;
	const char *noun, *owner;	/* "database", "mydb"; owner NULL: a setting */
	int behind_password;		/* which key=value of its entry, where one before it was a password; else 0 */
};

/* `; did you mean "NAME"?` in buf, or nothing when there is no name (NULL). Returns buf. */
const char *entry_suggest(const char *name, char *buf, size_t size);
/* Reads one value into its field and adds a problem when it is not accepted. VALUE_WRONG: the problem is
   said. */
enum value_verdict entry_assign(const struct value_row *row, void *object, const char *text, struct arena *arena,
				const struct entry_place *place, struct conf_problems *problems);
/* Reads the list of a database, user or peer into `object`, which is set to the defaults first. Every
   problem is added. `line->value` is cut up. False: no memory. */
bool entry_read(const struct value_table *table, void *object, const struct ini_line *line, struct arena *arena,
		struct conf_problems *problems);

#endif
