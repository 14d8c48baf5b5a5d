/* The options of LDAP authentication. */
#include "conf/ldap.h"

#include "unit.h"

static char why[512];

static const char *text_of(const char *text)
{
	return text ? text : "-";
}

/* Returns the parsed options as text, or "! why". */
static const char *parse(const char *text)
{
	static char out[1024];
	static const char *const scopes[] = { "sub", "base", "one" };
	struct arena *arena = arena_new(false);
	const struct ldap_options *o = ldap_options_read(text, arena, why, sizeof(why));

	if (!o)
		snprintf(out, sizeof(out), "! %s", why);
	else if (!o->base_dn)
		snprintf(out, sizeof(out), "%s:%d%s%s bind %s<user>%s", o->servers, o->port, o->ldaps ? " ldaps" : "",
			 o->starttls ? " starttls" : "", text_of(o->prefix), text_of(o->suffix));
	else
		snprintf(out, sizeof(out), "%s:%d%s%s search %s as %s/%s for %s/%s %s", o->servers, o->port,
			 o->ldaps ? " ldaps" : "", o->starttls ? " starttls" : "", o->base_dn, text_of(o->bind_dn),
			 text_of(o->bind_password), text_of(o->search_attribute), text_of(o->search_filter), scopes[o->scope]);
	arena_free(&arena);
	return out;
}

TEST(simple_bind)
{
	CHECK_PAIRS(parse,
		{ "ldapserver=a ldapprefix=cn= ldapsuffix=,dc=x", "a:389 bind cn=<user>,dc=x" },
		{ "ldapserver=a ldapsuffix=@corp", "a:389 bind -<user>@corp" },
		{ "ldapserver=a ldapprefix=\"cn=\" ldapsuffix=\", dc=x, dc=y\"", "a:389 bind cn=<user>, dc=x, dc=y" },
		{ "\"ldapserver=a b\" ldapprefix=\"\" ldaptls=1", "a b:389 starttls bind <user>-" },
		{ "ldapserver=a ldapprefix=\"a\"\"b\"", "a:389 bind a\"b<user>-" },
		{ "ldapserver=a ldapscheme=ldaps ldapprefix=x", "a:636 ldaps bind x<user>-" },
		{ "ldapserver=a ldapscheme=ldaps ldapport=7 ldapprefix=x", "a:7 ldaps bind x<user>-" },
		{ "ldapurl=ldaps://h:99/ ldapprefix=x", "h:99 ldaps bind x<user>-" },
		{ "ldapurl=ldap://h ldapprefix=x", "h:389 bind x<user>-" });
}

TEST(search_and_bind)
{
	CHECK_PAIRS(parse,
		{ "ldapserver=a ldapbasedn=dc=x", "a:389 search dc=x as -/- for -/- sub" },
		{ "ldapserver=a ldapbasedn=\"dc=x, dc=y\" ldapbinddn=\"cn=s\" ldapbindpasswd=\"p w\" ldapsearchattribute=mail",
		  "a:389 search dc=x, dc=y as cn=s/p w for mail/- sub" },
		{ "ldapserver=a ldapbasedn=dc=x ldapsearchfilter=(|(uid=$username)(mail=$username))",
		  "a:389 search dc=x as -/- for -/(|(uid=$username)(mail=$username)) sub" });
}

TEST(ldap_url)
{
	CHECK_PAIRS(parse,
		{ "ldapurl=ldap://h/dc=x?uid?sub", "h:389 search dc=x as -/- for uid/- sub" },
		{ "ldapurl=\"ldap://127.0.0.1:12345/dc=example,dc=net?uid?sub\"",
		  "127.0.0.1:12345 search dc=example,dc=net as -/- for uid/- sub" },
		{ "ldapurl=LDAPS://h/dc=x??one?(cn=$username)", "h:636 ldaps search dc=x as -/- for -/(cn=$username) one" },
		{ "ldapurl=ldap://[::1]:99/dc=a%20b%2c?uid,mail", "[::1]:99 search dc=a b, as -/- for uid/- base" },
		{ "ldapurl=ldap://[::1]/?uid?sub", "[::1]:389 search  as -/- for uid/- sub" },
		{ "ldapurl=ldap:///dc=x?uid?SUB ldapserver=b", "b:389 search dc=x as -/- for uid/- sub" },
		{ "ldapurl=ldap://h/dc=x?uid ldapbasedn=dc=y ldaptls=1", "h:389 starttls search dc=y as -/- for uid/- base" });
}

TEST(invalid_urls)
{
	static const char *const bad[] = {
		"http://h/dc=x", "ldap:/h", "ldapi:///dc=x", "ldap://h:0/dc=x", "ldap://h:66666/dc=x", "ldap://h:/dc=x", "ldap://[::1/dc=x",
		"ldap://h/dc=%2", "ldap://h/dc=%zz", "ldap://h/dc=%00", "ldap://h/dc=x?uid?tree", "ldap://h/dc=x?uid?sub?(a=b)?!x", "",
	};
	char text[128];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "ldapurl=%s", bad[i]);
		CHECK_TEXT(parse(text), "! \"ldapurl\" must be ldap[s]://host[:port]/basedn?attribute?scope?filter");
	}
}

TEST(refused_options)
{
	CHECK_PAIRS(parse,
		{ "", "! \"ldapbasedn\", \"ldapprefix\" or \"ldapsuffix\" is missing, so there is no entry to bind" },
		{ "ldapserver=a", "! \"ldapbasedn\", \"ldapprefix\" or \"ldapsuffix\" is missing, so there is no entry to bind" },
		{ "ldapbasedn=dc=x", "! \"ldapserver\" is missing" },
		{ "ldapserver=\"  \" ldapbasedn=dc=x", "! \"ldapserver\" is missing" },
		{ "ldapserver", "! expected key=value (a value with blanks in it must stand in \"double quotes\")" },
		{ "ldapserver=\"a", "! a double quote that nothing closes (a quote inside is doubled)" },
		{ "ldapsever=a", "! unknown LDAP option \"ldapsever\"; did you mean \"ldapserver\"?" },
		{ "x=a", "! unknown LDAP option \"x\"" },
		{ "ldaptls=yes", "! \"ldaptls\" must be 0 or 1" },
		{ "ldapscheme=http", "! \"ldapscheme\" must be ldap or ldaps" },
		{ "ldapserver=ldap://x", "! \"ldapserver\" must be a list of host names with blanks between" },
		{ "ldapport=0", "! \"ldapport\" must be a port from 1 to 65535" },
		{ "ldapport=x", "! \"ldapport\" must be a port from 1 to 65535" },
		{ "ldapserver=a ldapscheme=ldaps ldaptls=1 ldapbasedn=x",
		  "! \"ldaptls\" (StartTLS) and ldaps, which is TLS already, exclude each other" },
		{ "ldapserver=a ldapbasedn=x ldapsearchattribute=a ldapsearchfilter=b",
		  "! \"ldapsearchattribute\" and \"ldapsearchfilter\" exclude each other" },
		{ "ldapserver=a ldapbasedn=x ldapbinddn=cn=s", "! \"ldapbinddn\" needs \"ldapbindpasswd\"" },
		{ "ldapserver=a ldapbasedn=x ldapbindpasswd=s", "! \"ldapbindpasswd\" needs \"ldapbinddn\"" });
	CHECK(strncmp(parse("ldapserver=a ldapprefix=x ldapbasedn=y"), "! \"ldapprefix\" and \"ldapsuffix\" exclude", 39) == 0);
}

static const char *mask(const char *text)
{
	static char out[128];

	return ldap_options_masked(text, out, sizeof(out));
}

TEST(the_password_is_not_shown)
{
	CHECK_PAIRS(mask,
		{ "", "" },
		{ "ldapserver=a  ldapsuffix=\", dc=x\"", "ldapserver=a  ldapsuffix=\", dc=x\"" },
		{ "ldapbindpasswd=secret", "ldapbindpasswd=***" },
		{ "ldapserver=\"a b\" ldapbindpasswd=\"se cret\" ldapport=1", "ldapserver=\"a b\" ldapbindpasswd=*** ldapport=1" },
		{ "\"ldapbindpasswd=a b\"", "ldapbindpasswd=***" },
		{ "ldap\"bindpasswd\"=a", "ldapbindpasswd=***" },
		{ "ldapport=1 ldapbindpasswd=\"open", "ldapport=1" },
		{ "ldapport=1 se cret", "ldapport=1" });
}

UNIT_MAIN
