#ifndef CONF_INI_H
#define CONF_INI_H

#include "conf/conf.h"

/*
 * The lines of an ini file and of its include files. Texts are valid only during the call of the visitor.
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

/* Reads the file and calls `visit` for each section and each key in order, and `opened` for each file before its first line. An
   invalid line adds a problem, and reading continues with the next line. False: the file itself could not be read; this adds a
   problem too. */
bool ini_read(const char *path, struct conf_problems *problems, ini_visit *visit, ini_opened *opened, void *context);

#endif
