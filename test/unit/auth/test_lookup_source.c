/* The database, user and query of a look-up: precedence of the entry's and the general auth_dbname, auth_user and auth_query. */
#include "auth/login_state.h"

#include "unit.h"
#include "whole.h"

#define INI(entry, asked, settings) \
	"[databases]\nd = " HOUSE_SERVER "user=u " entry "\nx = " HOUSE_SERVER asked HOUSE_SETTINGS "auth_type=any\n" settings

/* Returns "database as user: query" for a client of this database, with * for the client's own database; "none": no look-up. */
static const char *source_of(const char *ini, const char *database)
{
	static char text[200];
	char name[64];
	struct login login = { .client = NULL };
	struct client c = { .login = &login };
	struct lookup_source source;

	whole_open(ini);
	snprintf(name, sizeof(name), "%s", database);
	login.database = name;
	c.peer.world = whole.world;
	if (lookup_choose_source(&c, &source))
		snprintf(text, sizeof(text), "%s%s as %s: %s", source.database, source.is_of_client ? "*" : "", source.user, source.sql);
	else
		snprintf(text, sizeof(text), "none");
	whole_close();
	return text;
}

TEST(without_auth_user_there_is_no_look_up)
{
	CHECK_TEXT(source_of(INI("", "", ""), "d"), "none");
	CHECK_TEXT(source_of(INI("", "", "auth_dbname=x\n"), "d"), "none");
}

TEST(own_database_is_queried)
{
	CHECK_TEXT(source_of(INI("", "", "auth_user=a\nauth_query=Q\n"), "d"), "d* as a: Q");
	CHECK_TEXT(source_of(INI("auth_user=b", "", "auth_query=Q\n"), "d"), "d* as b: Q");
}

TEST(auth_dbname_is_queried)
{
	CHECK_TEXT(source_of(INI("", "", "auth_user=a\nauth_query=Q\nauth_dbname=x\n"), "d"), "x as a: Q");
	CHECK_TEXT(source_of(INI("auth_dbname=x", "", "auth_user=a\nauth_query=Q\n"), "d"), "x as a: Q");
}

TEST(entry_overrides_general_settings)
{
	CHECK_TEXT(source_of(INI("auth_dbname=d auth_user=b auth_query=R", "", "auth_user=a\nauth_query=Q\nauth_dbname=x\n"), "d"), "d as b: R");
}

/* auth_user may be set in the entry of the queried database, with lower precedence than the client's own entry. */
TEST(auth_user_of_the_queried_database)
{
	CHECK_TEXT(source_of(INI("auth_dbname=x", "auth_user=c", "auth_user=a\nauth_query=Q\n"), "d"), "x as c: Q");
	CHECK_TEXT(source_of(INI("auth_dbname=x auth_user=b", "auth_user=c", "auth_user=a\nauth_query=Q\n"), "d"), "x as b: Q");
	/* the auth_query of the queried database applies to its own clients only */
	CHECK_TEXT(source_of(INI("auth_dbname=x", "auth_user=c auth_query=R", "auth_query=Q\n"), "d"), "x as c: Q");
}

/* Neither the console nor an unconfigured database can be queried. */
TEST(databases_that_cannot_be_queried)
{
	CHECK_TEXT(source_of(INI("", "", "auth_user=a\nauth_query=Q\n"), "pgbouncer"), "none");
	CHECK_TEXT(source_of(INI("", "", "auth_user=a\nauth_query=Q\n"), "other"), "none");
	CHECK_TEXT(source_of(INI("", "", "auth_user=a\nauth_query=Q\nauth_dbname=x\n"), "pgbouncer"), "x as a: Q");
	CHECK_TEXT(source_of(INI("", "", "auth_user=a\nauth_query=Q\nauth_dbname=x\n"), "other"), "x as a: Q");
}

UNIT_MAIN
