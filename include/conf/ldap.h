#ifndef CONF_LDAP_H
#define CONF_LDAP_H

#include "base/mem.h"

/*
 * Options for finding and binding a user in LDAP: the options of an ldap line in pg_hba.conf, and
 * of auth_ldap_options. With base_dn, the user's entry is searched for and then bound (search and
 * bind); without base_dn the name to bind is prefix + user + suffix (simple bind).
 */
enum ldap_search_scope { LDAP_SEARCH_SUB, LDAP_SEARCH_BASE, LDAP_SEARCH_ONE };

/* Zero means the defaults. */
struct ldap_options {
	/* host names or addresses separated by blanks, tried in this order */
	const char *servers;
	/* of all servers; 0 until ldap_options_check sets the default of the scheme */
	int port;
	bool ldaps, starttls;		/* TLS from the first byte; TLS by StartTLS */
	const char *prefix, *suffix;	/* NULL: nothing */
	const char *base_dn;		/* NULL: simple bind */
	/* the name that binds for the search; NULL: anonymous */
	const char *bind_dn, *bind_password;
	const char *search_attribute;	/* NULL: uid */
	const char *search_filter;	/* contains $username; NULL: compare search_attribute */
	enum ldap_search_scope scope;
};

/* Sets one option from a key and a value; texts are copied into the arena. False: not accepted;
   `why` names the key, but never the value of a password. If an option is given twice, the last
   value counts. */
bool ldap_options_take(struct ldap_options *options, const char *key, const char *value,
		       struct arena *arena, char *why, size_t why_size);
/* Called after the last option: sets the default port, and checks for missing and contradicting
   options. False: see `why`. */
bool ldap_options_check(struct ldap_options *options, char *why, size_t why_size);
/* Returns why every login would fail with options that ldap_options_check accepts, or NULL.
   PgBouncer accepts an HBA line with such options too, and refuses its logins. */
const char *ldap_options_lack(const struct ldap_options *options);
/* Parses a whole text: `key=value key="a b"`, where "" within quotes is one quote, and quotes may
   also enclose a whole option. Options that would make every login fail are not accepted. The
   result is in the arena. Returns NULL with `why`. */
const struct ldap_options *ldap_options_read(const char *text, struct arena *arena, char *why,
					     size_t why_size);
/* Returns a copy in the arena. NULL: no memory. */
const struct ldap_options *ldap_options_copy(const struct ldap_options *options,
					     struct arena *arena);
/* Writes the text with *** in place of the value of ldapbindpasswd, truncated to size. Returns
   buf. */
const char *ldap_options_masked(const char *text, char *buf, size_t size);

#endif
