#ifndef CONF_CHECK_H
#define CONF_CHECK_H

#include "conf/conf.h"

/* Where a setting was set; file NULL: it was not set in a file. */
struct setting_place {
	const char *file;
	int line;
};

/* Checks that the files which settings name are readable, if they must exist, and for
   contradictions between settings, databases and peers. `places` has one element per setting; then
   the files that other users must not change are added to conf->files. Or NULL. False: no
   memory. */
bool check_whole(struct conf *conf, const struct setting_place *places, struct arena *arena,
		 struct conf_problems *problems);

/* ---- files that others can read or change: check_access.c ---- */

/* Returns whether the setting names a file, which other users must not change; *is_secret: nor
   read. auth_hba_file and auth_ident_file are not included: these files are noted with their
   includes when they are read. */
bool setting_guards_file(const char *setting, bool *is_secret);
/* Checks the files of a snapshot and of its HBA rules; after a SET only the file that the setting
   names, and the rules if the setting changes them. `user`: the user that the pooler will run as;
   NULL: the user of this process, or, if that is root, an unknown user. Looks the user up in the
   system's user database, which may block. */
void access_check(const struct conf *conf, const char *user, struct conf_problems *problems);
#define SETTINGS_OF_RULES "auth_type, auth_hba_file, auth_ident_file"

#endif
