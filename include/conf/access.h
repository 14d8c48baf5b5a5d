#ifndef CONF_ACCESS_H
#define CONF_ACCESS_H

#include "conf/conf.h"

/*
 * Warnings for files of the configuration that other users of the machine can read or change: see access.c.
 */

/* A file that belongs to the configuration, or that it names. The files of a snapshot form a list. */
struct conf_file {
	struct conf_file *next;
	const char *path;
	const char *setting;		/* the setting that names it; NULL: a file of the configuration, or of HBA rules */
	const char *file;		/* the file that sets the setting, or this file itself; NULL: the setting is not set in a file */
	int line;			/* the line of the setting, or of a password in the file; 0: unknown */
	bool is_secret;			/* contains a key, a list of secrets, or a password */
};

/* Checks the files of a snapshot and of its HBA rules. `user`: the user that the pooler will run as; NULL: the user of this
   process, or, if that is root, an unknown user. Looks the user up in the system's user database, which may block. */
void access_check(const struct conf *conf, const char *user, struct conf_problems *problems);
/* After a SET: checks the file that the setting names, if others must not change or read it, and with `rules` also the files of
   the HBA rules. */
void access_check_setting(const struct conf *conf, const char *name, bool rules, struct conf_problems *problems);
/* Returns whether the setting names a file that other users must not change; *is_secret: nor read. auth_hba_file and
   auth_ident_file are not included: these files are noted with their includes when they are read. */
bool access_is_guarded(const char *setting, bool *is_secret);
/* Marks a file of a list: this line of it contains a password. */
void access_note_secret(struct conf_file *files, const char *path, int line);
/* Adds a file at the front of a list, unless the list has it. Texts are copied into the arena; the other members of *file are
   copied as they are. False: no memory. */
bool access_note_file(struct conf_file **files, const struct conf_file *file, struct arena *arena);

#endif
