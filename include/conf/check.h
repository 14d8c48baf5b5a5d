#ifndef CONF_CHECK_H
#define CONF_CHECK_H

#include "conf/conf.h"

/* Where a setting was set; file NULL: it was not set in a file. */
struct setting_place {
	const char *file;
	int line;
};

/* Checks that the file named by a setting is readable, if it must exist. `index` is the row of the setting. */
void check_file(const struct settings *s, size_t index, const struct setting_place *place,
		struct conf_problems *problems);
/* Returns "PAM" or "LDAP" if the method (enum auth_type) needs the library that this pgweir was built without, otherwise NULL. */
const char *check_method_lacks(int auth_type);
/* Parses auth_ldap_options into conf->ldap. A fault is an error if auth_type needs the options, otherwise a warning. `place`
   may be NULL. */
void check_ldap(struct conf *conf, const struct setting_place *place, struct conf_problems *problems);
/* Checks for contradictions between settings, databases and peers. `places` has one element per setting, or is NULL. */
void check_whole(const struct conf *conf, const struct setting_place *places, struct conf_problems *problems);

#endif
