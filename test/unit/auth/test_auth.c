/*
 * Authentication of a client: choice of the method, methods without a password exchange, choice of the secret, access to the console, and error
 * messages for failed logins.
 */
#include "auth/auth.h"

#include "auth/refusal.h"
#include "logins.h"
#include "whole.h"

#define DATABASE "[databases]\nd = " HOUSE_SERVER "\nforced = " HOUSE_SERVER "user=f" HOUSE_SETTINGS "pool_mode=transaction\nadmin_users=a\nstats_users=s\n"
#define TRUST_INI DATABASE "auth_type=trust\n"
#define ANY_INI DATABASE "auth_type=any\n"
#define PLAIN_INI DATABASE "auth_type=plain\n"
#define MD5_INI DATABASE "auth_type=md5\n"
#define SCRAM_INI DATABASE "auth_type=scram-sha-256\n"
#define LOOKUP_INI DATABASE "auth_type=trust\nauth_user=look\nauth_query=SELECT $1\n"
#define MD5_OF "md50123456789abcdef0123456789abcdef"
#define USERS "\"v\" \"pass\"\n\"a\" \"pass\"\n\"s\" \"pass\"\n\"m\" \"" MD5_OF "\"\n\"n\" \"\"\n"

static struct house_end *client;

static const char *told_to(const char *user, const char *database)
{
	client = login_name(user, database);
	return login_told(client);
}

/* ---- methods without a question ---- */

TEST(trust)
{
	login_open(TRUST_INI, USERS);
	CHECK(login_is_welcome(told_to("v", "d")));
	CHECK(login_is_welcome(told_to("n", "d")));
	CHECK_TEXT(told_to("nobody", "d"), "E(28000 \"trust\" authentication failed)");
	whole_close();
}

TEST(trust_in_users_that_are_looked_up)
{
	login_open(LOOKUP_INI, "\"look\" \"\"\n");
	whole.holds_answers = true;
	CHECK_TEXT(told_to("v", "d"), "");
	CHECK_INT(whole_last_client()->login->sought, USER_LOOKED_UP);
	login_found(house_server(&whole), NULL, NULL);
	CHECK_TEXT(login_told(client), "E(28000 no such user)");
	CHECK_TEXT(told_to("v", "d"), "");
	whole.holds_answers = false;
	login_found(house_server(&whole), "v", "x");
	CHECK(login_is_welcome(login_told(client)));
	whole_close();
}

/* The database forces a user; without a forced user there is no user for the server login. */
TEST(any)
{
	login_open(ANY_INI, "");
	CHECK(login_is_welcome(told_to("nobody", "forced")));
	CHECK_TEXT(told_to("nobody", "d"), "E(28000 bouncer config error)");
	CHECK(login_is_welcome(told_to("nobody", "pgbouncer")));
	CHECK(!whole_last_client()->is_admin && whole_last_client()->may_show);
	whole_close();
}

/* ---- which question ---- */

static int asked(const char *user)
{
	return login_asked(login_name(user, "d"));
}

TEST(questions)
{
	login_open(PLAIN_INI, USERS);
	CHECK(asked("v") == 3 && asked("m") == 3 && asked("n") == 3 && asked("nobody") == 3);
	CHECK_INT(whole_last_client()->login->sought, USER_NOT_LISTED);
	CHECK(!whole_last_client()->login->stored);
	whole_close();
	login_open(MD5_INI, "\"m\" \"" MD5_OF "\"\n\"n\" \"\"\n");
	CHECK(asked("m") == 5 && asked("n") == 5 && asked("nobody") == 5);
	whole_close();
	login_open(SCRAM_INI, USERS);
	CHECK(asked("v") == 10 && asked("m") == 10 && asked("n") == 10 && asked("nobody") == 10);
	whole_close();
}

/* The secret is read when the client connects; a new list does not change it. */
TEST(secret_is_read_at_connection_start)
{
	login_open(PLAIN_INI, USERS);
	client = login_name("v", "d");
	CHECK_INT(whole_last_client()->login->sought, USER_LISTED);
	users_replace(whole.world, NULL);
	CHECK_TEXT(whole_last_client()->login->stored->bytes, "pass");
	CHECK(login_is_welcome(login_password(client, "pass")));
	whole_close();
}

/* ---- the console ---- */

TEST(console_access)
{
	login_open(TRUST_INI, USERS);
	CHECK(login_is_welcome(told_to("a", "pgbouncer")));
	CHECK(whole_last_client()->is_admin && whole_last_client()->may_show && whole_last_client()->is_console);
	CHECK(login_is_welcome(told_to("s", "pgweir")));
	CHECK(!whole_last_client()->is_admin && whole_last_client()->may_show && whole_last_client()->is_console);
	CHECK_TEXT(told_to("v", "pgbouncer"), "E(28000 not allowed)");
	/* on other databases, the console's administrators are ordinary users */
	CHECK(login_is_welcome(told_to("a", "d")));
	CHECK(!whole_last_client()->is_admin && !whole_last_client()->may_show);
	whole_close();
}

/* The Unix user that runs pgweir needs no password over a Unix socket, under two names. */
static bool is_let_in(bool over_unix, const char *user, const char *database)
{
	const char *const pairs[] = { "user", user, "database", database };
	struct bytes out = BYTES_EMPTY;

	client = over_unix ? login_connect_unix() : house_connect(&whole);
	pg_build_startup(&out, 3u << 16, pairs, 4);
	login_send(client, &out);
	return login_is_welcome(login_told(client));
}

TEST(unix_user_of_the_daemon)
{
	login_open(PLAIN_INI, USERS);
	CHECK(is_let_in(true, "pgbouncer", "pgbouncer"));
	CHECK(whole_last_client()->is_admin && whole_last_client()->may_show);
	CHECK(is_let_in(true, "pgweir", "pgbouncer"));
	CHECK(is_let_in(true, "pgbouncer", "pgweir"));
	CHECK(!is_let_in(true, "pgbouncer", "d"));
	CHECK(!is_let_in(true, "a", "pgbouncer"));
	CHECK(!is_let_in(false, "pgbouncer", "pgbouncer"));
	whole_close();
}

/* ---- refusals ---- */

/* The error message for a client that answers this authentication request wrongly. */
static void refused(const char *ini, const char *user, enum login_question question, enum close_reason want)
{
	struct client *c;

	login_open(ini, USERS);
	login_name(user, "d");
	c = whole_last_client();
	c->login->question = question == QUESTION_NONE ? c->login->question : question;
	auth_refuse(c);
	CHECK_INT(c->peer.end_reason, want);
	house_settle(&whole);
	whole_close();
}

TEST(error_messages_of_failed_logins)
{
	refused(PLAIN_INI, "v", QUESTION_NONE, REASON_PASSWORD_FAILED);
	refused(PLAIN_INI, "m", QUESTION_NONE, REASON_PASSWORD_FAILED);
	refused(PLAIN_INI, "n", QUESTION_NONE, REASON_PASSWORD_SECRET);
	refused(PLAIN_INI, "nobody", QUESTION_NONE, REASON_PASSWORD_NO_USER);
	refused(SCRAM_INI, "v", QUESTION_NONE, REASON_SASL_FAILED);
	refused(SCRAM_INI, "m", QUESTION_NONE, REASON_SASL_SECRET);
	refused(SCRAM_INI, "n", QUESTION_NONE, REASON_SASL_SECRET);
	refused(SCRAM_INI, "nobody", QUESTION_NONE, REASON_SASL_NO_USER);
	refused(MD5_INI, "m", QUESTION_NONE, REASON_PASSWORD_FAILED);
	/* the message must not reveal that the exchange was SCRAM */
	refused(MD5_INI, "v", QUESTION_SCRAM, REASON_PASSWORD_FAILED);
	refused(MD5_INI, "nobody", QUESTION_SCRAM, REASON_PASSWORD_NO_USER);
}

TEST(max_auth_queue)
{
	struct settings set = { .max_auth_queue = 7, .max_client_conn = 100 };

	CHECK_INT(auth_queue_most(&set), 7);
	set.max_auth_queue = 0;
	CHECK_INT(auth_queue_most(&set), 75);
	set.max_client_conn = 1;
	CHECK_INT(auth_queue_most(&set), 1);
}

UNIT_MAIN
