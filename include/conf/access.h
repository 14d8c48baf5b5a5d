#ifndef CONF_ACCESS_H
#define CONF_ACCESS_H

#include "conf/conf.h"

/*
 * Files of the configuration that other users of the machine can read or change: see access.c. All that is found is a warning.
 */

/* A file that the configuration is made of, or names. Those of one snapshot form a list. */
struct conf_file {
	struct conf_file *next;
	const char *path;
	const char *setting;		/* that names it; NULL: a file of the configuration, or of rules */
	const char *file;		/* where the setting is set, or the file itself; NULL: nowhere */
	int line;			/* of the setting, or of a password in the file; 0: of neither */
	bool is_secret;			/* a key, a list of secrets, or a password stands in it */
};

/* Checks the files of a snapshot and of its rules. `user`: as which the pooler will run; NULL: as this process does, or, where
   that is root's, as one that is not known. Looks the user up, which may take a while. */
void access_check(const struct conf *conf, const char *user, struct conf_problems *problems);
/* Checks the file that one setting names, if it is one that matters, and with `rules` those of the rules: after SET. */
void access_check_setting(const struct conf *conf, const char *name, bool rules, struct conf_problems *problems);
/* True when the setting names a file that other users must not change; *is_secret: nor read. Those of the rules are not among
   them: they are read, and noted, with what they include. */
bool access_is_guarded(const char *setting, bool *is_secret);
/* Marks a file of a list: a password stands in this line of it. */
void access_note_secret(struct conf_file *files, const char *path, int line);
/* Puts a file in front of a list, unless it is there. Texts are copied into the arena; the rest of *file is taken as it is.
   False: no memory. */
bool access_note_file(struct conf_file **files, const struct conf_file *file, struct arena *arena);

#endif
