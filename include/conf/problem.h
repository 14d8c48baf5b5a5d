#ifndef CONF_PROBLEM_H
#define CONF_PROBLEM_H

#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>

struct conf_problem {
	char *file;
	int line;			/* 0: the problem is not about one line */
	/* the text that was found, the accepted values, the nearest known name */
	char *text;
	bool is_warning;		/* the configuration can be used */
	/* files for TLS that cannot be used; as a warning: the TLS context in force stays */
	bool is_about_tls;
};
struct conf_problems {
	struct conf_problem *items;
	size_t count;
	size_t errors;			/* items that are not warnings */
};
void conf_problem_add(struct conf_problems *p, bool is_warning, const char *file, int line,
		      const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Adds a problem of a file for TLS. Its text begins with "TLS setup failed: ", as PgBouncer's. */
void conf_problem_add_tls(struct conf_problems *p, bool is_warning, const char *file, int line,
			  const char *format, ...) __attribute__((format(printf, 5, 6)));
static inline void conf_problems_free(struct conf_problems *p)
{
	for (size_t i = 0; i < p->count; i++) {
		mem_free(p->items[i].file);
		mem_free(p->items[i].text);
	}
	mem_free(p->items);
	*p = (struct conf_problems){ 0 };
}

/* A file of the configuration, or a file that it names. The files of a snapshot form a list. */
struct conf_file {
	struct conf_file *next;
	const char *path;
	/* the setting that names it; NULL: a file of the configuration, or of HBA rules */
	const char *setting;
	/* the file that sets the setting, or this file itself; NULL: the setting is not set in a
	   file */
	const char *file;
	/* the line of the setting, or of a password in the file; 0: unknown */
	int line;
	bool is_secret;			/* contains a key, a list of secrets, or a password */
};
/* Marks a file of a list: this line of it contains a password. */
void access_note_secret(struct conf_file *files, const char *path, int line);
/* Adds a file at the front of a list, unless the list has it. Texts are copied into the arena; the
   other members of *file are copied as they are. False: no memory. */
bool access_note_file(struct conf_file **files, const struct conf_file *file, struct arena *arena);

#endif
