/* The users of auth_file: when the file is read again, and what a new list changes. */
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

/* A list is read of the file as it is now. */
static void begin(const char *text)
{
	struct conf_problems problems = { .count = 0 };

	/* the file is there when pgweir starts */
	sandbox_begin();
	write_users(text);
	house_open(&whole, INI);
	write_users(text);
	users_replace(whole.world, userlist_load("users", &problems));
	whole.world->secrets->checked_at = whole.world->now;
	conf_problems_free(&problems);
}

TEST(a_file_that_has_changed_is_read_again)
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

TEST(it_is_looked_at_once_a_second)
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

TEST(what_questions_for_unknown_users_look_like_follows_the_list)
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

/* A login at a server that failed with the secret of before may succeed now. */
TEST(another_secret_forgives_failed_logins)
{
	struct conf_problems problems = { .count = 0 };
	struct house_end *end;
	struct client *c;
	struct pool *pool;

	begin("\"u\" \"one\"\n");
	c = whole_login(&end);
	REQUIRE(c);
	pool = c->policy.pool;
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
