#ifndef CONF_LDAP_H
#define CONF_LDAP_H

#include "base/mem.h"

/*
 * How to find and bind a user in LDAP: the options of an ldap line in pg_hba.conf, which auth_ldap_options takes too.
 * With base_dn, the user's entry is searched for and then bound (search and bind); without it the name to bind
 * is prefix + user + suffix (simple bind).
 */
enum ldap_search_scope { LDAP_SEARCH_BASE, LDAP_SEARCH_ONE, LDAP_SEARCH_SUB };

struct ldap_options {
	const char *servers;		/* host names or addresses with blanks between, asked in this order */
	int port;			/* of all of them; 0 until ldap_options_check: that of the scheme */
	bool ldaps, starttls;		/* TLS from the first byte; TLS by StartTLS */
	const char *prefix, *suffix;	/* NULL: nothing */
	const char *base_dn;		/* NULL: simple bind */
	const char *bind_dn, *bind_password;	/* the name that searches; NULL: anonymous */
	const char *search_attribute;	/* NULL: uid */
	const char *search_filter;	/* $username stands for the name; NULL: search_attribute is the name */
	enum ldap_search_scope scope;
};

/* No option given yet. */
void ldap_options_init(struct ldap_options *options);
/* Takes one option, key=value already cut in two; texts are copied into the arena. False: not acceptable, and why (with the key in
   it, never the value of a password). An option that is given twice counts as it stands last. */
bool ldap_options_take(struct ldap_options *options, const char *key, const char *value, struct arena *arena, char *why,
		       size_t why_size);
/* To be called when all options are taken: sets the port, and looks for what is missing and what excludes each other. False: why. */
bool ldap_options_check(struct ldap_options *options, char *why, size_t why_size);
/* Why every login fails with options that ldap_options_check accepts; NULL: it does not. PgBouncer takes an HBA line with such
   options, too, and refuses its logins. */
const char *ldap_options_lack(const struct ldap_options *options);
/* All of it for a whole text: `key=value key="a b"`, where "" inside quotes is one quote and quotes may also stand around
   the whole of an option. Options with which every login fails are not accepted either. NULL with why; the result lies in
   the arena. */
const struct ldap_options *ldap_options_read(const char *text, struct arena *arena, char *why, size_t why_size);
/* A copy that lives as long as the arena; NULL: no memory. */
const struct ldap_options *ldap_options_copy(const struct ldap_options *options, struct arena *arena);
/* The text with *** in place of the value of ldapbindpasswd, cut to size. Returns buf. */
const char *ldap_options_masked(const char *text, char *buf, size_t size);

#endif
