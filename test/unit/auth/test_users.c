/* The users of auth_file: when the file is read again, and the effects of a new list. */
#include "auth/users.h"

#include "backend/secrets.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "auth_file=users\n== users\n\"u\" \"one\"\n")

static void write_users(const char *text)
{
	sandbox_file("users", text, strlen(text));
}

static const char *secret_of(const char *user)
{
	const struct secret *secret = secrets_listed(whole.world->secrets, user);

	return secret ? secret->bytes : "none";
}

/* Loads the list from the current file. */
static void begin(const char *text)
{
	struct conf_problems problems = { .count = 0 };

	/* the file exists when pgweir starts */
	sandbox_begin();
	write_users(text);
	house_open(&whole, INI);
	write_users(text);
	users_replace(whole.world, userlist_load("users", &problems));
	whole.world->secrets->checked_at = whole.world->now;
	conf_problems_free(&problems);
}

TEST(changed_file_is_read_again)
{
	begin("\"u\" \"one\"\n");
	CHECK_TEXT(secret_of("u"), "one");
	write_users("\"u\" \"second\"\n\"v\" \"x\"\n");
	whole.world->now += USEC;
	users_refresh(whole.world);
	CHECK_TEXT(secret_of("u"), "second");
	CHECK_TEXT(secret_of("v"), "x");
	whole_close();
}

TEST(file_is_checked_once_a_second)
{
	begin("\"u\" \"one\"\n");
	write_users("\"u\" \"second\"\n");
	whole.world->now += USEC - 1;
	users_refresh(whole.world);
	CHECK_TEXT(secret_of("u"), "one");
	whole.world->now++;
	users_refresh(whole.world);
	CHECK_TEXT(secret_of("u"), "second");
	whole_close();
}

TEST(requests_to_unknown_users_follow_the_list)
{
	struct secrets *secrets;

	begin("\"u\" \"one\"\n\"v\" \"two\"\n\"w\" \"\"\n");
	secrets = whole.world->secrets;
	CHECK_INT(secrets->kinds.all, 2);
	users_replace(whole.world, NULL);
	CHECK_INT(secrets->kinds.all, 0);
	CHECK_TEXT(secret_of("u"), "none");
	whole_close();
}

/* A server login that failed with the previous secret may succeed with the new one. */
TEST(new_secret_clears_failed_server_logins)
{
	struct conf_problems problems = { .count = 0 };
	struct house_end *end;
	struct client *c;
	struct pool *pool;

	begin("\"u\" \"one\"\n");
	c = whole_login(&end);
	REQUIRE(c);
	pool = c->pooled.pool;
	pool_login_failed(pool, FAILURE_LASTING, whole.world->now);
	users_replace(whole.world, userlist_load("users", &problems));
	CHECK(pool->login_failed);
	write_users("\"u\" \"second\"\n");
	users_replace(whole.world, userlist_load("users", &problems));
	CHECK(!pool->login_failed);
	CHECK_INT(problems.count, 0);
	whole_close();
}

UNIT_MAIN
