#ifndef CONF_CHECK_H
#define CONF_CHECK_H

#include "conf/conf.h"

/* Where a setting was set; file NULL: it was not set in a file. */
struct setting_place {
	const char *file;
	int line;
};

/* Checks that the file named by a setting is readable, if it must exist. `index` is the row of the setting; `place` may be NULL. */
void check_file(const struct settings *s, size_t index, const struct setting_place *place,
		struct conf_problems *problems);
/* Checks for contradictions between settings, databases and peers. `places` has one element per setting, or is NULL. */
void check_whole(const struct conf *conf, const struct setting_place *places, struct conf_problems *problems);

/* ---- files that others can read or change ---- */

/* Checks the files of a snapshot and of its HBA rules. `user`: the user that the pooler will run as; NULL: the user of this
   process, or, if that is root, an unknown user. Looks the user up in the system's user database, which may block. */
void access_check(const struct conf *conf, const char *user, struct conf_problems *problems);
/* After a SET: checks the file that the setting names, if others must not change or read it, and with `rules` also the files of
   the HBA rules. */
void access_check_setting(const struct conf *conf, const char *name, bool rules, struct conf_problems *problems);
/* Returns whether the setting names a file that other users must not change; *is_secret: nor read. auth_hba_file and
   auth_ident_file are not included: these files are noted with their includes when they are read. */
bool access_is_guarded(const char *setting, bool *is_secret);

/* ---- names in SQL ---- */

/*
 * Finds a name in an SQL text that the server resolves by search_path: an operator that is not written as OPERATOR(schema.op),
 * or a function without a schema. "a = lower(b)" has two such names, "a OPERATOR(pg_catalog.=) pg_catalog.lower(b)" has none.
 * Copies the first name to `name`, truncated to `size` bytes; with `only_functions` the first name of a function. Returns false if
 * there is no such name. The text need not be valid SQL.
 *
 * "Lexical Structure" in the PostgreSQL documentation, with standard_conforming_strings on.
 */
bool sql_unqualified_name(const char *sql, bool only_functions, char *name, size_t size);

#endif
