/* The users of auth_file: when the file is read again, the effects of a new list, and warnings about secrets. */
#include "auth/users.h"

#include "backend/keys.h"
#include "tempfile.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "auth_file=users\n== users\n\"u\" \"one\"\n")

static void write_users(const char *text)
{
	sandbox_file("users", text, strlen(text));
}

static const char *secret_of(const char *user)
{
	const struct secret *secret = userlist_find(whole.world->logins.secrets->list, user);

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
	whole.world->logins.secrets->checked_at = whole.world->now;
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
	secrets = whole.world->logins.secrets;
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

/* ---- warnings about secrets ---- */

#define MD5 "md51bc29b36f623ba82aaf6724fd3b16718"

static struct conf conf;
static struct conf_database entry;
static struct conf_database *entries[] = { &entry };

static void begin_check(void)
{
	memset(&entry, 0, sizeof(entry));
	memset(&conf, 0, sizeof(conf));
	conf.databases = entries;
	conf.database_count = 1;
	conf.path = "pgweir.ini";
}

/* Returns the warnings, each followed by a newline. `users` NULL: there is no auth_file. */
static const char *warnings(const char *users)
{
	static char text[1000];
	struct conf_problems problems = { 0 }, none = { 0 };
	struct userlist *list = users ? userlist_load(temp_write("users.txt", users), &none) : NULL;
	size_t used = 0;

	CHECK_INT(none.count, 0);
	users_check(&conf, list, &problems);
	CHECK_INT(problems.errors, 0);
	text[0] = 0;
	for (size_t i = 0; i < problems.count; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s\n", problems.items[i].text);
	conf_problems_free(&problems);
	userlist_free(&list);
	return text;
}

TEST(valid_secrets_cause_no_warning)
{
	begin_check();
	CHECK_TEXT(warnings("\"a\" \"clear\"\n\"b\" \"" MD5 "\"\n\"c\" \"\"\n\"d\" \"md5\"\n\"e\" \"md5 is no hash\"\n"), "");
	CHECK_TEXT(warnings(NULL), "");
}

/* A text of the length of an MD5 secret, or with only hexadecimal digits after the prefix; 16 digits may be a password. */
TEST(malformed_md5_secret)
{
	begin_check();
	CHECK_TEXT(warnings("\"a\" \"md51bc29b36f623ba82aaf6724fd3b1671x\"\n"),
		   "1 secret, the first of user \"a\": it looks like an MD5 secret and is none, so it counts as a password\n");
	CHECK_TEXT(warnings("\"a\" \"md50123456789abcdef0\"\n"),
		   "1 secret, the first of user \"a\": it looks like an MD5 secret and is none, so it counts as a password\n");
	CHECK_TEXT(warnings("\"a\" \"md50123456789abcdef\"\n"), "");
	CHECK_TEXT(warnings("\"a\" \"md50123456789abcdefg\"\n"), "");
}

TEST(malformed_scram_secret)
{
	begin_check();
	CHECK_TEXT(warnings("\"a\" \"SCRAM-SHA-256$x\"\n"),
		   "1 secret, the first of user \"a\": a SCRAM secret that cannot be used, with which no login is possible\n");
}

TEST(md5_secret_with_auth_type_scram)
{
	begin_check();
	conf.settings.auth_type = AUTH_SCRAM;
	CHECK_TEXT(warnings("\"a\" \"" MD5 "\"\n"),
		   "1 secret, the first of user \"a\": an MD5 secret, with which no login is possible while auth_type is scram-sha-256\n");
}

TEST(users_with_the_same_fault_share_a_warning)
{
	begin_check();
	conf.settings.auth_type = AUTH_SCRAM;
	CHECK(strstr(warnings("\"a\" \"" MD5 "\"\n\"b\" \"" MD5 "\"\n"), "2 secrets, the first of user "));
}

/* ---- auth_user ---- */

#define NO_SECRET "\"auth_user\" is \"look\", which has no secret in auth_file: the look-up of users fails, unless servers ask it for none\n"

TEST(auth_user_without_a_secret)
{
	begin_check();
	conf.settings.auth_user = "look";
	CHECK_TEXT(warnings(NULL), NO_SECRET);
	CHECK_TEXT(warnings("\"other\" \"x\"\n"), NO_SECRET);
	CHECK_TEXT(warnings("\"look\" \"x\"\n"), "");
	conf.settings.auth_user = "";
	CHECK_TEXT(warnings(NULL), "");
}

TEST(auth_user_of_a_database)
{
	struct conf_database fallback;

	begin_check();
	entry.auth_user = "look";
	CHECK_TEXT(warnings(NULL), NO_SECRET);
	entry.auth_user = NULL;
	memset(&fallback, 0, sizeof(fallback));
	fallback.auth_user = "look";
	conf.fallback = &fallback;
	CHECK_TEXT(warnings(NULL), NO_SECRET);
}

TEST(a_certificate_is_a_secret)
{
	begin_check();
	conf.settings.auth_user = "look";
	conf.settings.server_tls_cert_file = "cert";
	CHECK_TEXT(warnings(NULL), "");
}

/* The password of an entry belongs to its forced user or, without a forced user, to every client. */
TEST(password_in_a_database_entry)
{
	struct secret *secret = secret_new("x", 1);

	begin_check();
	conf.settings.auth_user = "look";
	entry.password = secret;
	CHECK_TEXT(warnings(NULL), "");
	entry.user = "look";
	CHECK_TEXT(warnings(NULL), "");
	entry.user = "other";
	CHECK_TEXT(warnings(NULL), NO_SECRET);
	secret_free(&secret);
}

/* ---- names without a secret ---- */

TEST(administrators_without_a_secret)
{
	begin_check();
	conf.settings.auth_type = AUTH_SCRAM;
	conf.settings.auth_file = "users.txt";
	conf.settings.admin_users = "pgweir, ann \"b c\"";
	conf.settings.stats_users = "ben";
	CHECK_TEXT(warnings("\"ann\" \"x\"\n"), "\"stats_users\" names \"ben\", which has no secret in \"auth_file\": it cannot log in\n");
	CHECK_TEXT(warnings("\"ben\" \"x\"\n"), "\"admin_users\" names \"ann\", which has no secret in \"auth_file\": it cannot log in\n");
	CHECK_TEXT(warnings("; nothing\n"), "the file has no user: only the account of the pooler can log in, on the Unix socket\n");
	/* logins that need no secret, or find it elsewhere */
	conf.settings.auth_type = AUTH_TRUST;
	CHECK_TEXT(warnings("; nothing\n"), "");
	conf.settings.auth_type = AUTH_SCRAM;
	conf.settings.auth_user = "ann";
	CHECK_TEXT(warnings("\"ann\" \"x\"\n"), "");
}

TEST(host_check_user_without_a_secret)
{
	begin_check();
	conf.settings.host_check_user = "ann";
	CHECK(strstr(warnings("\"ben\" \"x\"\n"), "\"host_check_user\" names \"ann\", which has no secret in \"auth_file\": only servers "));
	CHECK_TEXT(warnings("\"ann\" \"x\"\n"), "");
}

UNIT_MAIN
