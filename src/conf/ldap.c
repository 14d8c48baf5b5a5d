/*
 * The options of LDAP authentication, with the names, semantics and exclusions of ldap lines in
 * PostgreSQL's pg_hba.conf.
 *
 * simple bind     ldapserver ldapprefix ldapsuffix
 * search + bind   ldapserver ldapbasedn [ldapbinddn ldapbindpasswd] [ldapsearchattribute /
 * ldapsearchfilter]
 * both            ldapport ldapscheme ldaptls
 * as a URL        ldapurl=ldap[s]://host[:port]/basedn?attribute?scope?filter (RFC 4516, without
 *                 extensions)
 *
 * URLs are parsed here and not by an LDAP library, so that a file gets the same check whether or
 * not this pgweir was built with LDAP.
 */
#include "conf/ldap.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char blanks[] = " \t\r\n\v\f";

/* ---- ldapurl ---- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Cuts the part at *at off at the first of `ends`, and decodes %XX in it; *found is the byte after
   the part, or 0 at the end. NULL: an invalid escape, or an escape for NUL. */
static char *cut_part(char **at, const char *ends, char *found)
{
	char *part = *at, *to = part;
	size_t size = strcspn(part, ends);
	int high, low;

	*found = part[size];
	*at = part + size + (*found ? 1 : 0);
	for (size_t i = 0; i < size; i++) {
		if (part[i] != '%') {
			*to++ = part[i];
			continue;
		}
		if (size - i < 3 || (high = hex_digit(part[i + 1])) < 0 ||
		    (low = hex_digit(part[i + 2])) < 0 || high + low == 0)
			return NULL;
		*to++ = (char)(high * 16 + low);
		i += 2;
	}
	*to = '\0';
	return part;
}

static bool read_port(struct ldap_options *o, const char *text)
{
	int64_t port;

	if (!text_to_int64(text, &port) || port < 1 || port > 65535)
		return false;
	o->port = (int)port;
	return true;
}

/* Parses host, [address] or host:port; modifies the text. An empty host leaves `servers`
   unchanged. */
static bool read_authority(struct ldap_options *o, char *text)
{
	char *end = *text == '[' ? strchr(text, ']') : text;
	char *colon;

	if (!end)
		return false;
	colon = strchr(end, ':');
	if (colon) {
		*colon = '\0';
		if (!read_port(o, colon + 1))
			return false;
	}
	if (strpbrk(text, blanks))
		return false;
	if (*text)
		o->servers = text;
	return true;
}

/* Parses the part after the base DN: attribute, scope and filter. Only the first attribute is
   used. */
static bool read_query(struct ldap_options *o, char *at)
{
	static const char *const scopes[] = {
		[LDAP_SEARCH_SUB] = "sub", [LDAP_SEARCH_BASE] = "base", [LDAP_SEARCH_ONE] = "one",
	};
	char *attributes, *scope, *filter, found;

	if (!(attributes = cut_part(&at, "?", &found)) || !(scope = cut_part(&at, "?", &found)) ||
	    !(filter = cut_part(&at, "?", &found)) || found)
		return false;
	attributes[strcspn(attributes, ",")] = '\0';
	if (*attributes)
		o->search_attribute = attributes;
	if (*filter)
		o->search_filter = filter;
	/* the default of RFC 4516, which PostgreSQL uses too */
	if (*scope == '\0')
		o->scope = LDAP_SEARCH_BASE;
	for (size_t i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++) {
		if (text_equal_fold(scope, scopes[i])) {
			o->scope = (enum ldap_search_scope)i;
			return true;
		}
	}
	return *scope == '\0';
}

/* Modifies `url`, which must live as long as the options. */
static bool ldap_read_url(struct ldap_options *o, char *url)
{
	char *authority, *dn, found;

	if (strncasecmp(url, "ldap://", 7) == 0) {
		o->ldaps = false;
		url += 7;
	} else if (strncasecmp(url, "ldaps://", 8) == 0) {
		o->ldaps = true;
		url += 8;
	} else {
		return false;
	}
	if (!(authority = cut_part(&url, "/", &found)) || !read_authority(o, authority))
		return false;
	if (!found)
		return true;
	if (!(dn = cut_part(&url, "?", &found)))
		return false;
	/* an empty base DN is the root of the tree, but ldap://host/ does not mean that */
	if (*dn || found)
		o->base_dn = dn;
	return !found || read_query(o, url);
}

/* ---- one option ---- */

enum option {
	URL,
	TLS,
	SCHEME,
	SERVER,
	PORT,
	BIND_DN,
	BIND_PASSWORD,
	SEARCH_ATTRIBUTE,
	SEARCH_FILTER,
	BASE_DN,
	PREFIX,
	SUFFIX,
	OPTIONS
};

static const char *const names[OPTIONS] = {
	[URL] = "ldapurl",
	[TLS] = "ldaptls",
	[SCHEME] = "ldapscheme",
	[SERVER] = "ldapserver",
	[PORT] = "ldapport",
	[BIND_DN] = "ldapbinddn",
	[BIND_PASSWORD] = "ldapbindpasswd",
	[SEARCH_ATTRIBUTE] = "ldapsearchattribute",
	[SEARCH_FILTER] = "ldapsearchfilter",
	[BASE_DN] = "ldapbasedn",
	[PREFIX] = "ldapprefix",
	[SUFFIX] = "ldapsuffix",
};

/* Sets an option. Returns NULL, or the text after "KEY must be". */
static const char *assign(struct ldap_options *o, enum option option, char *value)
{
	switch (option) {
	case URL:
		return ldap_read_url(o, value)
			       ? NULL
			       : "ldap[s]://host[:port]/basedn?attribute?scope?filter";
	case TLS:
		if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
			return "0 or 1";
		o->starttls = *value == '1';
		return NULL;
	case SCHEME:
		if (strcmp(value, "ldap") != 0 && strcmp(value, "ldaps") != 0)
			return "ldap or ldaps";
		o->ldaps = value[4] != '\0';
		return NULL;
	case SERVER:
		o->servers = value;
		return strpbrk(value, "/,?#@") ? "a list of host names with blanks between" : NULL;
	case PORT:
		return read_port(o, value) ? NULL : "a port from 1 to 65535";
	case BIND_DN:
		o->bind_dn = value;
		return NULL;
	case BIND_PASSWORD:
		o->bind_password = value;
		return NULL;
	case SEARCH_ATTRIBUTE:
		o->search_attribute = value;
		return *value ? NULL : "the name of an attribute";
	case SEARCH_FILTER:
		o->search_filter = value;
		return *value ? NULL : "a filter";
	case BASE_DN:
		o->base_dn = value;
		return NULL;
	case PREFIX:
		o->prefix = value;
		return NULL;
	case SUFFIX:
		o->suffix = value;
		return NULL;
	case OPTIONS:
		break;
	}
	return NULL;
}

bool ldap_options_take(struct ldap_options *o, const char *key, const char *value,
		       struct arena *arena, char *why, size_t why_size)
{
	const char *nearest, *wanted;
	size_t i = 0;
	char *copy;

	while (i < OPTIONS && strcmp(key, names[i]) != 0)
		i++;
	if (i == OPTIONS) {
		nearest = text_nearest(key, names, OPTIONS);
		snprintf(why, why_size, "unknown LDAP option \"%.64s\"%s%s%s", key,
			 nearest ? "; did you mean \"" : "", nearest ? nearest : "",
			 nearest ? "\"?" : "");
		return false;
	}
	copy = arena_copy(arena, value, strlen(value));
	if (!copy) {
		snprintf(why, why_size, "out of memory");
		return false;
	}
	wanted = assign(o, (enum option)i, copy);
	if (wanted)
		snprintf(why, why_size, "\"%s\" must be %s", key, wanted);
	return !wanted;
}

/* ---- all options ---- */

const char *ldap_options_lack(const struct ldap_options *o)
{
	return o->ldaps && o->starttls ? "\"ldaptls\" (StartTLS) and ldaps, which is TLS already, "
					 "exclude each other"
				       : NULL;
}

bool ldap_options_check(struct ldap_options *o, char *why, size_t why_size)
{
	const char *fault = NULL;

	if (o->prefix || o->suffix) {
		if (o->base_dn || o->bind_dn || o->bind_password || o->search_attribute ||
		    o->search_filter)
			fault = "\"ldapprefix\" and \"ldapsuffix\" exclude \"ldapbasedn\", "
				"\"ldapbinddn\", \"ldapbindpasswd\", "
				"\"ldapsearchattribute\", \"ldapsearchfilter\" and an \"ldapurl\" "
				"that names one of these";
	} else if (!o->base_dn) {
		fault = "\"ldapbasedn\", \"ldapprefix\" or \"ldapsuffix\" is missing, so there is "
			"no entry to bind";
	}
	if (!fault && o->search_attribute && o->search_filter)
		fault = "\"ldapsearchattribute\" and \"ldapsearchfilter\" exclude each other";
	if (!fault && (!o->servers || o->servers[strspn(o->servers, blanks)] == '\0'))
		fault = "\"ldapserver\" is missing";
	if (!fault && o->bind_password && !o->bind_dn)
		fault = "\"ldapbindpasswd\" needs \"ldapbinddn\"";
	/* a server treats a name without a password as an anonymous bind, and accepts it */
	if (!fault && o->bind_dn && *o->bind_dn && (!o->bind_password || !*o->bind_password))
		fault = "\"ldapbinddn\" needs \"ldapbindpasswd\"";
	if (fault)
		snprintf(why, why_size, "%s", fault);
	else if (o->port == 0)
		o->port = o->ldaps ? 636 : 389;
	return !fault;
}

/* Cuts the next option off *cursor in place, without its quotes. NULL at the end, or, with *bad, if
   a closing quote is missing. */
static char *next_option(char **cursor, bool *bad)
{
	char *from = *cursor + strspn(*cursor, blanks), *option = from, *to = from;
	bool quoted = false;

	if (*from == '\0')
		return NULL;
	for (; *from && (quoted || !strchr(blanks, *from)); from++) {
		if (*from != '"') {
			*to++ = *from;
			continue;
		}
		if (quoted && from[1] == '"')
			*to++ = *from++;
		else
			quoted = !quoted;
	}
	*bad = quoted;
	*cursor = *from ? from + 1 : from;
	*to = '\0';
	return quoted ? NULL : option;
}

/* Cuts key=value in two. Returns the value, or NULL without an =. */
static char *cut_value(char *option)
{
	char *equals = strchr(option, '=');

	if (equals)
		*equals++ = '\0';
	return equals;
}

const struct ldap_options *ldap_options_read(const char *text, struct arena *arena, char *why,
					     size_t why_size)
{
	struct ldap_options *o = arena_take(arena, sizeof(*o));
	char *cursor = arena_copy(arena, text, strlen(text)), *option, *value;
	bool bad = false;

	if (!o || !cursor) {
		snprintf(why, why_size, "out of memory");
		return NULL;
	}
	while ((option = next_option(&cursor, &bad))) {
		value = cut_value(option);
		if (!value) {
			snprintf(why, why_size,
				 "expected key=value (a value with blanks in it must stand in "
				 "\"double quotes\")");
			return NULL;
		}
		if (!ldap_options_take(o, option, value, arena, why, why_size))
			return NULL;
	}
	if (bad) {
		snprintf(why, why_size,
			 "a double quote that nothing closes (a quote inside is doubled)");
		return NULL;
	}
	if (!ldap_options_check(o, why, why_size))
		return NULL;
	if (!ldap_options_lack(o))
		return o;
	snprintf(why, why_size, "%s", ldap_options_lack(o));
	return NULL;
}

const struct ldap_options *ldap_options_copy(const struct ldap_options *options,
					     struct arena *arena)
{
	struct ldap_options *copy = arena_take(arena, sizeof(*copy));
	const char **const texts[] = {
		&copy->servers, &copy->prefix,	      &copy->suffix,	       &copy->base_dn,
		&copy->bind_dn, &copy->bind_password, &copy->search_attribute, &copy->search_filter,
	};

	if (!copy)
		return NULL;
	*copy = *options;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (*texts[i] && !(*texts[i] = arena_copy(arena, *texts[i], strlen(*texts[i]))))
			return NULL;
	return copy;
}

/* If the text cannot be parsed, it cannot be masked either, and is not shown. A text without a
   password is unchanged. */
const char *ldap_options_masked(const char *text, char *buf, size_t size)
{
	char *copy = mem_copy_string(text), *cursor = copy, *option, *value;
	size_t length = strlen(text), at = 0;
	bool bad = false, hidden = false;

	buf[0] = '\0';
	while (copy && at + 1 < size && (option = next_option(&cursor, &bad)) &&
	       (value = cut_value(option))) {
		bool hide = strcmp(option, names[BIND_PASSWORD]) == 0;
		const char *quote = strpbrk(value, blanks) && !hide ? "\"" : "";
		int more = snprintf(buf + at, size - at, "%s%s=%s%s%s", at ? " " : "", option,
				    quote, hide ? "***" : value, quote);

		hidden |= hide;
		at += more > 0 ? (size_t)more : 0;
	}
	if (copy && *cursor == '\0' && !bad && !hidden)
		text_copy(buf, size, text);
	if (copy)
		mem_wipe(copy, length);
	mem_free(copy);
	return buf;
}
