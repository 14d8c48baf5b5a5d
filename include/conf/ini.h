#ifndef CONF_INI_H
#define CONF_INI_H

#include "conf/conf.h"

/*
 * The lines of an ini file and of the files it includes. Every text lives only as long as the call that
 * shows it.
 */
struct ini_line {
	const char *file;
	int line;
	const char *section;		/* NULL before the first [section] */
	char *key;			/* NULL: this line begins the section */
	char *value;			/* blanks around it removed; the visitor may write into it */
};
typedef void ini_visit(void *context, const struct ini_line *line);
typedef void ini_opened(void *context, const char *path);

/* Reads the file and shows each section and each key to `visit`, in order, and each file before its first line to `opened`.
   What is no such line becomes a problem, and the reading goes on behind it. False: the file itself could not be read, which
   is a problem too. */
bool ini_read(const char *path, struct conf_problems *problems, ini_visit *visit, ini_opened *opened, void *context);

#endif
