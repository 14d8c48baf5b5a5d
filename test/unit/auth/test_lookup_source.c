/* Where a user is looked up: which of an entry's and the general auth_dbname, auth_user and auth_query holds. */
#include "auth/login_state.h"

#include "unit.h"
#include "whole.h"

#define INI(entry, asked, settings) \
	"[databases]\nd = " HOUSE_SERVER "user=u " entry "\nx = " HOUSE_SERVER asked HOUSE_SETTINGS "auth_type=any\n" settings

/* "database as user: query" for a client of this database, with * where that is the client's own; "none": it is not looked up. */
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

TEST(nothing_is_configured)
{
	CHECK_TEXT(source_of(INI("", "", ""), "d"), "none");
	CHECK_TEXT(source_of(INI("", "", "auth_dbname=x\n"), "d"), "none");
}

TEST(the_clients_own_database)
{
	CHECK_TEXT(source_of(INI("", "", "auth_user=a\nauth_query=Q\n"), "d"), "d* as a: Q");
	CHECK_TEXT(source_of(INI("auth_user=b", "", "auth_query=Q\n"), "d"), "d* as b: Q");
}

TEST(another_database)
{
	CHECK_TEXT(source_of(INI("", "", "auth_user=a\nauth_query=Q\nauth_dbname=x\n"), "d"), "x as a: Q");
	CHECK_TEXT(source_of(INI("auth_dbname=x", "", "auth_user=a\nauth_query=Q\n"), "d"), "x as a: Q");
}

TEST(the_entry_comes_before_the_general_settings)
{
	CHECK_TEXT(source_of(INI("auth_dbname=d auth_user=b auth_query=R", "", "auth_user=a\nauth_query=Q\nauth_dbname=x\n"), "d"), "d as b: R");
}

/* auth_user may stand in the entry of the database that is asked, behind the client's own. */
TEST(auth_user_of_the_database_that_is_asked)
{
	CHECK_TEXT(source_of(INI("auth_dbname=x", "auth_user=c", "auth_user=a\nauth_query=Q\n"), "d"), "x as c: Q");
	CHECK_TEXT(source_of(INI("auth_dbname=x auth_user=b", "auth_user=c", "auth_user=a\nauth_query=Q\n"), "d"), "x as b: Q");
	/* its auth_query is for its own clients */
	CHECK_TEXT(source_of(INI("auth_dbname=x", "auth_user=c auth_query=R", "auth_query=Q\n"), "d"), "x as c: Q");
}

/* Neither the console nor a database that is not configured can be asked. */
TEST(databases_that_cannot_be_asked)
{
	CHECK_TEXT(source_of(INI("", "", "auth_user=a\nauth_query=Q\n"), "pgbouncer"), "none");
	CHECK_TEXT(source_of(INI("", "", "auth_user=a\nauth_query=Q\n"), "other"), "none");
	CHECK_TEXT(source_of(INI("", "", "auth_user=a\nauth_query=Q\nauth_dbname=x\n"), "pgbouncer"), "x as a: Q");
	CHECK_TEXT(source_of(INI("", "", "auth_user=a\nauth_query=Q\nauth_dbname=x\n"), "other"), "x as a: Q");
}

UNIT_MAIN
