/* Authentication of a client: the table of methods, and error messages of failed logins. */
#include "auth/auth.h"

#include "auth/client_address.h"
#include "logins.h"
#include "whole.h"

#define DATABASE "[databases]\nd = " HOUSE_SERVER HOUSE_SETTINGS "pool_mode=transaction\n"
#define PLAIN_INI DATABASE "auth_type=plain\n"
#define MD5_INI DATABASE "auth_type=md5\n"
#define SCRAM_INI DATABASE "auth_type=scram-sha-256\n"
#define MD5_OF "md50123456789abcdef0123456789abcdef"
#define USERS "\"v\" \"pass\"\n\"m\" \"" MD5_OF "\"\n\"n\" \"\"\n\"x\" \"pass\"\n"

/* The setting auth_type stores the index of its word. */
TEST(methods_without_a_word_in_auth_type_are_last)
{
	for (int i = 1; i < AUTH_METHODS; i++)
		CHECK(!*auth_methods[i].word || *auth_methods[i - 1].word);
	CHECK_TEXT(auth_methods[AUTH_SCRAM].word, "scram-sha-256");
}

/* The secret is read when the client connects; a new list does not change it. */
TEST(secret_is_read_at_connection_start)
{
	struct house_end *client;

	login_open(PLAIN_INI, USERS);
	client = login_name("v", "d");
	CHECK_INT(whole_last_client()->login->sought, USER_LISTED);
	users_replace(whole.world, NULL);
	CHECK_TEXT(whole_last_client()->login->stored->bytes, "pass");
	CHECK(login_is_welcome(login_password(client, "pass")));
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
	/* no password is correct if it is empty, and no SASLInitialResponse */
	auth_message(c, (const uint8_t *)"", 1);
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

	CHECK_INT(lookup_queue_most(&set), 7);
	set.max_auth_queue = 0;
	CHECK_INT(lookup_queue_most(&set), 75);
	set.max_client_conn = 1;
	CHECK_INT(lookup_queue_most(&set), 1);
}

UNIT_MAIN
