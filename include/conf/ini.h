#ifndef CONF_INI_H
#define CONF_INI_H

#include "conf/problem.h"

/*
 * The lines of an ini file and of its include files. Texts are valid only during the call of the
 * visitor.
 */
struct ini_line {
	const char *file;
	int line;
	const char *section;		/* NULL before the first [section] */
	char *key;			/* NULL: this line begins the section */
	char *value;			/* without blanks around it; the visitor may modify it */
};
typedef void ini_visit(void *context, const struct ini_line *line);
typedef void ini_opened(void *context, const char *path);

/* Reads the file and calls `visit` for each section and each key in order, and `opened` for each
   file before its first line. An invalid line adds a problem, and reading continues with the next
   line. False: the file itself could not be read; this adds a problem too. */
bool ini_read(const char *path, struct conf_problems *problems, ini_visit *visit,
	      ini_opened *opened, void *context);

/*
 * The value of a database, user or peer: `key=value key='a b' key='it''s'`, blanks around =
 * allowed.
 */
enum connstr_verdict { CONNSTR_PAIR, CONNSTR_END, CONNSTR_BAD };

/* Cuts the next pair off *cursor in place: *key and *value point into the text. CONNSTR_BAD: *why
   says which syntax was expected, without the text, which may contain a password; nothing more can
   be read. */
enum connstr_verdict connstr_next(char **cursor, char **key, char **value, const char **why);

#endif
