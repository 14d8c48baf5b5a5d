#ifndef CONF_CHECK_H
#define CONF_CHECK_H

#include "conf/conf.h"

/* Where a setting was set; file NULL: nowhere. */
struct setting_place {
	const char *file;
	int line;
};

/* Checks that the file a setting names can be read, if it is one that must exist. `index` is the
   setting's row. */
void check_file(const struct settings *s, size_t index, const struct setting_place *place,
		struct conf_problems *problems);
/* "PAM" or "LDAP" when the method (enum auth_type) needs what this pgweir was built without; else NULL. */
const char *check_method_lacks(int auth_type);
/* Takes auth_ldap_options apart, to conf->ldap. What is wrong with them is an error when auth_type asks for them, else a
   warning. `place` may be NULL. */
void check_ldap(struct conf *conf, const struct setting_place *place, struct conf_problems *problems);
/* Checks what contradicts between settings, databases and peers. `places` has one element for each
   setting, or is NULL. */
void check_whole(const struct conf *conf, const struct setting_place *places, struct conf_problems *problems);

#endif
