/* Whole configurations: loading, SET, settings that need a restart, references, large and truncated files. */
#include "conf/conf.h"

#include "base/bytes.h"
#include "conf/value.h"
#include "tempfile.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

static struct conf_problems problems;

static struct conf *load(const char *text)
{
	conf_problems_free(&problems);
	return conf_load(temp_write("a.ini", text), &problems);
}

/* Returns true if a problem at that line contains the text. */
static bool has_problem(int line, const char *text, bool is_warning)
{
	for (size_t i = 0; i < problems.count; i++) {
		const struct conf_problem *p = &problems.items[i];

		if (p->line == line && p->is_warning == is_warning && strstr(p->text, text))
			return true;
	}
	for (size_t i = 0; i < problems.count; i++)
		fprintf(stderr, "  there is: %d: %s\n", problems.items[i].line, problems.items[i].text);
	return false;
}
#define CHECK_ERROR(line, text) CHECK(has_problem(line, text, false))
#define CHECK_WARNING(line, text) CHECK(has_problem(line, text, true))

static const char whole[] =
	"; an ordinary file\n"
	"[databases]\n"
	"app = host=db1,db2 port=5433 dbname=prod user=svc password='p''w d' pool_size=7 min_pool_size=2 reserve_pool=3"
	" max_db_connections=50 max_db_client_connections=60 server_lifetime=1.5 query_wait_timeout=9 pool_mode=transaction"
	" load_balance_hosts=disable connect_query='SET x = ''y''' client_encoding=UTF8 datestyle=ISO timezone=UTC"
	" application_name=weir auth_user=au auth_dbname=ad auth_query='select $1'\n"
	"\"odd = name\" =\n"
	"* = host=fallback\n"
	"[users]\n"
	"alice = pool_size=4 reserve_pool_size=1 pool_mode=statement max_user_connections=5 max_user_client_connections=6"
	" client_idle_timeout=1 idle_transaction_timeout=2 query_timeout=3 query_wait_timeout=4 transaction_timeout=5\n"
	"bob =\n"
	"[peers]\n"
	"1 = host=p1\n"
	"02 = host=/run/p2 port=7000 pool_size=3\n"
	"[pgbouncer]\n"
	"listen_addr = *\n"
	"listen_port = 7432\n"
	"auth_type = trust\n"
	"pool_mode = transaction\n"
	"peer_id = 3\n"
	"server_reset_query =\n"
	"service_name = weir1\n"
	"[pgweir]\n"
	"max_client_conn = 1000\n"
	"show_extra_columns = 1\n";

TEST(settings_of_a_whole_file)
{
	struct conf *conf = load(whole);

	REQUIRE(conf);
	CHECK_INT(problems.errors, 0);
	CHECK_INT(problems.count, 1);
	CHECK_WARNING(19, "\"job_name\" has no effect here");
	CHECK_TEXT(conf->path, temp_path("a.ini"));
	CHECK_TEXT(conf->settings.conffile, temp_path("a.ini"));
	CHECK_TEXT(conf->settings.listen_addr, "*");
	CHECK_INT(conf->settings.listen_port, 7432);
	CHECK_INT(conf->settings.auth_type, AUTH_TRUST);
	CHECK_INT(conf->settings.pool_mode, MODE_TRANSACTION);
	CHECK_INT(conf->settings.max_client_conn, 1000);
	CHECK_TEXT(conf->settings.server_reset_query, "");
	CHECK_TEXT(conf->settings.job_name, "weir1");
	CHECK(conf->settings.show_extra_columns);
	CHECK_INT(conf->settings.query_wait_timeout, 120 * USEC);
	conf_drop(&conf);
	CHECK(!conf);
	conf_drop(&conf);
}

TEST(values_from_the_environment)
{
	struct conf *conf;
	const struct conf_database *d;

	setenv("WEIR_PORT", "7432", 1);
	setenv("WEIR_PW", "it's \"${b}\" $$", 1);
	setenv("WEIR_EMPTY", "", 1);
	conf = load("[pgweir]\nauth_type = trust\nlisten_port = ${WEIR_PORT}\nunix_socket_dir = /a${WEIR_PORT}b${WEIR_EMPTY}$${c}$$$x$\n"
		    "auth_dbname = $$${WEIR_PORT}${WEIR_PORT}\n[databases]\na = password=${WEIR_PW} port=${WEIR_PORT} user='${WEIR_PW} x'\n"
		    "[users]\nu = pool_size=${WEIR_PORT}\n[peers]\n1 = host=h${WEIR_PORT}\n");
	REQUIRE(conf);
	CHECK_INT(problems.errors, 0);
	CHECK_INT(conf->settings.listen_port, 7432);
	CHECK_TEXT(conf->settings.unix_socket_dir, "/a7432b${c}$$$x$");
	CHECK_TEXT(conf->settings.auth_dbname, "$${WEIR_PORT}7432");
	d = conf_database_find(conf, "a");
	REQUIRE(d && d->password);
	CHECK_TEXT(d->password->bytes, "it's \"${b}\" $$");
	CHECK_INT(d->hosts[0].port, 7432);
	CHECK_TEXT(d->user, "it's \"${b}\" $$ x");
	CHECK_INT(conf_user_find(conf, "u")->pool_size, 7432);
	CHECK_TEXT(conf->peers[0]->host, "h7432");
	conf_drop(&conf);
}

TEST(password_files)
{
	const struct conf_database *d;
	struct conf *conf, *fresh;
	char text[1024], users[512];

	snprintf(text, sizeof(text), "[pgweir]\nauth_type = trust\n[databases]\na = password_file='%s'\n* = password_file='%s'\n",
		 temp_write("one", "it's a ${secret}\"\r\nmore\n"), temp_write("two", " two"));
	conf = load(text);
	REQUIRE(conf);
	CHECK_INT(problems.count, 0);
	d = conf_database_find(conf, "a");
	REQUIRE(d && d->password && conf->fallback->password);
	CHECK_TEXT(d->password->bytes, "it's a ${secret}\"");
	CHECK_TEXT(conf->fallback->password->bytes, " two");
	conf_drop(&conf);
	snprintf(users, sizeof(users), "[pgweir]\nauth_type = trust\n[users]\nu = password_file='%s'\n", temp_path("two"));
	conf = load(users);
	REQUIRE(conf);
	fresh = conf_with(conf, "auth_dbname", "x", &problems);
	conf_drop(&conf);
	REQUIRE(fresh && conf_user_find(fresh, "u")->secret);
	CHECK_TEXT(conf_user_find(fresh, "u")->secret->bytes, " two");
	conf_drop(&fresh);
	CHECK(!load("[pgweir]\nauth_type = trust\n[users]\nu = password_file=/nonexistent\n"));
	CHECK_ERROR(4, "user \"u\": \"password_file\" names \"/nonexistent\", which cannot be used: No such file or directory");
	temp_write("one", "\nsecret\n");
	CHECK(!load(text));
	CHECK_ERROR(4, "database \"a\": \"password_file\" names \"");
	CHECK_ERROR(4, "which cannot be used: its first line is empty");
	temp_write_bytes("one", "sec\0ret", 7);
	CHECK(!load(text));
	CHECK_ERROR(4, "it contains a NUL byte");
	CHECK(!load("[pgweir]\nauth_type = trust\n[databases]\na = password_file=/nonexistent\n"));
	CHECK_ERROR(4, "names \"/nonexistent\", which cannot be used: No such file or directory");
	snprintf(text, sizeof(text), "[pgweir]\nauth_type = trust\n[databases]\na = password=x password_file=%s\n", temp_path("two"));
	CHECK(!load(text));
	CHECK_ERROR(4, "database \"a\": \"password\" and \"password_file\" exclude each other");
}

TEST(problems_of_variables)
{
	unsetenv("WEIR_NOT");
	setenv("WEIR_WORD", "hUnTeR2", 1);
	CHECK(!load("[pgweir]\nauth_type = trust\nlisten_port = ${WEIR_NOT}\nlogfile = ${\npidfile = ${1A}\nuser = ${A\n"
		    "auth_user = ${}\nlisten_backlog = ${WEIR_WORD}\n[databases]\na = password=${WEIR_NOT}\n"
		    "b = password=hUn${TeR2}\nc = password=x port=${TeR3}\nd = port=${WEIR_NOT} host=${WEIR_NOT}\n"));
	CHECK_INT(problems.errors, 11);
	CHECK_ERROR(3, "\"listen_port\": the environment variable \"WEIR_NOT\" is not set");
	CHECK_ERROR(4, "\"logfile\": expected ${NAME} with the name of an environment variable; a literal ${ is written $${");
	CHECK_ERROR(5, "\"pidfile\": expected ${NAME}");
	CHECK_ERROR(6, "\"user\": expected ${NAME}");
	CHECK_ERROR(7, "\"auth_user\": expected ${NAME}");
	CHECK_ERROR(8, "\"listen_backlog\" is \"${WEIR_WORD}\", but must be a whole number");
	CHECK_ERROR(10, "database \"a\": \"password\": the environment variable \"WEIR_NOT\" is not set");
	CHECK_ERROR(11, "database \"b\": \"password\": an environment variable in ${} is not set");
	CHECK_ERROR(12, "\"port\" (key=value number 2, behind \"password\"): an environment variable in ${} is not set");
	CHECK_ERROR(13, "database \"d\": \"host\": the environment variable \"WEIR_NOT\" is not set");
	for (size_t i = 0; i < problems.count; i++)
		CHECK(!strstr(problems.items[i].text, "TeR"));
}

TEST(set_does_not_read_the_environment)
{
	struct conf *conf = load("[pgweir]\nauth_type = trust\n"), *fresh;

	REQUIRE(conf);
	setenv("WEIR_WORD", "hUnTeR2", 1);
	fresh = conf_with(conf, "auth_dbname", "${WEIR_WORD}", &problems);
	REQUIRE(fresh);
	CHECK_TEXT(fresh->settings.auth_dbname, "${WEIR_WORD}");
	conf_drop(&fresh);
	conf_drop(&conf);
}

TEST(databases_of_a_whole_file)
{
	struct conf *conf = load(whole);
	const struct conf_database *d;

	REQUIRE(conf);
	CHECK_INT(conf->database_count, 2);
	d = conf_database_find(conf, "app");
	REQUIRE(d);
	CHECK(conf->databases[0] == d);
	CHECK_TEXT(d->name, "app");
	CHECK_TEXT(d->host, "db1,db2");
	CHECK_INT(d->hosts[0].port, 5433);
	CHECK_TEXT(d->dbname, "prod");
	CHECK_TEXT(d->user, "svc");
	REQUIRE(d->password);
	CHECK_TEXT(d->password->bytes, "p'w d");
	CHECK_INT(d->password->length, 5);
	CHECK_INT(d->pool_size, 7);
	CHECK_INT(d->min_pool_size, 2);
	CHECK_INT(d->reserve_pool_size, 3);
	CHECK_INT(d->max_db_connections, 50);
	CHECK_INT(d->max_db_client_connections, 60);
	CHECK_INT(d->server_lifetime, USEC * 3 / 2);
	CHECK_INT(d->query_wait_timeout, 9 * USEC);
	CHECK_INT(d->pool_mode, MODE_TRANSACTION);
	CHECK_INT(d->load_balance_hosts, BALANCE_DISABLE);
	CHECK_TEXT(d->connect_query, "SET x = 'y'");
	CHECK_TEXT(d->client_encoding, "UTF8");
	CHECK_TEXT(d->datestyle, "ISO");
	CHECK_TEXT(d->timezone, "UTC");
	CHECK_TEXT(d->application_name, "weir");
	CHECK_TEXT(d->auth_user, "au");
	CHECK_TEXT(d->auth_dbname, "ad");
	CHECK_TEXT(d->auth_query, "select $1");
	conf_drop(&conf);
}

TEST(database_entry_inherits_unset_values)
{
	struct conf *conf = load(whole);
	const struct conf_database *d;

	REQUIRE(conf);
	d = conf_database_find(conf, "odd = name");
	REQUIRE(d);
	CHECK(!d->host && !d->dbname && !d->user && !d->password && !d->connect_query && !d->auth_query);
	CHECK_INT(d->hosts[0].port, 5432);
	CHECK_INT(d->pool_size, CONF_UNSET);
	CHECK_INT(d->server_lifetime, CONF_UNSET);
	CHECK_INT(d->pool_mode, CONF_UNSET);
	CHECK_INT(d->load_balance_hosts, CONF_UNSET);
	REQUIRE(conf->fallback);
	CHECK_TEXT(conf->fallback->name, "*");
	CHECK_TEXT(conf->fallback->host, "fallback");
	CHECK(!conf_database_find(conf, "*"));
	CHECK(!conf_database_find(conf, "nothing"));
	CHECK(!conf_database_find(conf, "APP"));
	conf_drop(&conf);
}

TEST(numbers_of_an_entry_that_are_unset)
{
	struct conf *conf = load("[databases]\na = pool_size=-1 min_pool_size=-1 server_lifetime=-1 query_wait_timeout=-1 max_db_connections=-1\n"
				 "[users]\nu = pool_size=-1 query_timeout=-1 query_wait_timeout=-1\n");

	REQUIRE(conf);
	CHECK_INT(conf->databases[0]->pool_size, CONF_UNSET);
	CHECK_INT(conf->databases[0]->server_lifetime, CONF_UNSET);
	CHECK_INT(conf->databases[0]->query_wait_timeout, CONF_UNSET);
	CHECK_INT(conf->users[0]->query_wait_timeout, CONF_UNSET);
	CHECK_INT(conf->users[0]->query_timeout, CONF_UNSET);
	conf_drop(&conf);
	CHECK(load("[databases]\na =\n[pgbouncer]\nquery_wait_timeout = -1\n") == NULL);
	CHECK(load("[databases]\na = port=-1\n") == NULL);
}

TEST(users_and_peers_of_a_whole_file)
{
	struct conf *conf = load(whole);
	const struct conf_user *u;

	REQUIRE(conf);
	CHECK_INT(conf->user_count, 2);
	u = conf_user_find(conf, "alice");
	REQUIRE(u);
	CHECK_INT(u->pool_size, 4);
	CHECK_INT(u->reserve_pool_size, 1);
	CHECK_INT(u->pool_mode, MODE_STATEMENT);
	CHECK_INT(u->max_user_connections, 5);
	CHECK_INT(u->max_user_client_connections, 6);
	CHECK_INT(u->client_idle_timeout, 1 * USEC);
	CHECK_INT(u->idle_transaction_timeout, 2 * USEC);
	CHECK_INT(u->query_timeout, 3 * USEC);
	CHECK_INT(u->query_wait_timeout, 4 * USEC);
	CHECK_INT(u->transaction_timeout, 5 * USEC);
	u = conf_user_find(conf, "bob");
	REQUIRE(u);
	CHECK_INT(u->pool_mode, CONF_UNSET);
	CHECK_INT(u->query_timeout, CONF_UNSET);
	CHECK_INT(conf->peer_count, 2);
	CHECK_INT(conf->peers[0]->id, 1);
	CHECK_TEXT(conf->peers[0]->host, "p1");
	CHECK_INT(conf->peers[0]->port, 6432);
	CHECK_INT(conf->peers[0]->pool_size, CONF_UNSET);
	CHECK_INT(conf->peers[1]->id, 2);
	CHECK_INT(conf->peers[1]->port, 7000);
	conf_drop(&conf);
}

TEST(all_problems_are_reported_and_nothing_is_loaded)
{
	static const char text[] =
		"early = 1\n"						/* 1 */
		"[pgbouncer]\n"
		"defualt_pool_size = 5\n"
		"listen_port = 70000\n"
		"pool_mode = transction\n"				/* 5 */
		"query_timeout = soon\n"
		"auth_file = /nonexistent/users.txt\n"
		"pool_size = 3\n"
		"verbose = 1 ; more\n"
		"admin_users alice\n"					/* 10 */
		"auth_type = 'md5'\n"
		"[databases]\n"
		"a = host=h prot=5\n"
		"b = port=0 pool_mode=sometimes password=my secret\n"
		"c = dbname='x\n"					/* 15 */
		"pgbouncer = host=h\n"
		"pgweir =\n"
		"d = password=xyzzy plugh=1\n"
		"[users]\n"
		"u = pool_szie=5 query_timeout=-2\n"			/* 20 */
		"[peers]\n"
		"0 = host=h\n"
		"16384 = host=h\n"
		"5 = port=1\n"
		"[databses]\n"						/* 25 */
		"ignored = 1\n"
		"[pgweir\n"
		"%include /nonexistent.ini\n";
	struct conf *conf = load(text);

	CHECK(!conf);
	CHECK_INT(problems.errors, 26);
	CHECK_ERROR(1, "\"early\" stands in front of the first [section]");
	CHECK_ERROR(3, "unknown setting \"defualt_pool_size\" in [pgbouncer]; did you mean \"default_pool_size\"?");
	CHECK_ERROR(4, "\"listen_port\" is \"70000\", but must be a whole number from 0 to 65535");
	CHECK_ERROR(5, "but must be one of session, transaction, statement; did you mean \"transaction\"?");
	CHECK_ERROR(6, "\"query_timeout\" is \"soon\", but must be seconds from 0");
	CHECK_ERROR(7, "\"auth_file\" names \"/nonexistent/users.txt\", which cannot be read: No such file");
	CHECK_ERROR(8, "unknown setting \"pool_size\" in [pgbouncer]; it is a key of an entry in [databases]");
	CHECK_ERROR(9, "(a comment needs a line of its own)");
	CHECK_ERROR(10, "no \"=\" behind \"admin_users\"");
	CHECK_ERROR(11, "(without quotes); did you mean \"md5\"?");
	CHECK_ERROR(13, "database \"a\": unknown key \"prot\"; did you mean \"port\"?");
	CHECK_ERROR(14, "database \"b\": \"port\" is \"0\", but must be a whole number from 1 to 65535");
	CHECK_ERROR(14, "database \"b\": \"pool_mode\" is \"sometimes\"");
	CHECK_ERROR(14, "database \"b\": behind \"password\", at key=value number ");
	CHECK_ERROR(15, "database \"c\": a value begins with a single quote that nothing closes");
	CHECK_ERROR(16, "database \"pgbouncer\" is the console");
	CHECK_ERROR(17, "database \"pgweir\" is the console");
	CHECK_ERROR(18, "unknown key behind \"password\"");
	CHECK_ERROR(20, "user \"u\": unknown key \"pool_szie\"; did you mean \"pool_size\"?");
	CHECK_ERROR(20, "user \"u\": \"query_timeout\" is \"-2\"");
	CHECK_ERROR(22, "peer \"0\": the name must be a peer_id, a whole number from 1 to 16383");
	CHECK_ERROR(23, "peer \"16384\": the name must be a peer_id");
	CHECK_ERROR(24, "peer \"5\": \"host\" is missing");
	CHECK_ERROR(25, "unknown section [databses]; did you mean [databases]?");
	CHECK_ERROR(27, "expected [section]");
	CHECK_ERROR(28, "cannot include \"/nonexistent.ini\": No such file");
	for (size_t i = 0; i < problems.count; i++) {
		CHECK_TEXT(problems.items[i].file, temp_path("a.ini"));
		CHECK(!strstr(problems.items[i].text, "my") && !strstr(problems.items[i].text, "plugh") &&
		      !strstr(problems.items[i].text, "xyzzy"));
	}
}

TEST(last_of_repeated_settings_applies)
{
	struct conf *conf = load("[databases]\na = host=x\nb = host=y\na = host=z port=1 port=2\n* = host=f\n* = host=g\n"
				 "[users]\nu = pool_size=1\nu = pool_size=2\n[peers]\n1 = host=a\n01 = host=b\n"
				 "[pgbouncer]\npeer_id = 9\nauth_type = trust\nlisten_port = 1\n[pgweir]\nlisten_port = 2\n");

	REQUIRE(conf);
	CHECK_WARNING(4, "database \"a\" is defined twice; the last one counts");
	CHECK_WARNING(4, "database \"a\": \"port\" is set twice");
	CHECK_WARNING(6, "database \"*\" is defined twice");
	CHECK_WARNING(9, "user \"u\" is defined twice");
	CHECK_WARNING(12, "peer \"01\" is defined twice");
	CHECK_WARNING(18, "\"listen_port\" is set twice");
	CHECK_WARNING(18, "line 16 of");
	CHECK_INT(problems.count, 6);
	CHECK_INT(conf->database_count, 2);
	CHECK_TEXT(conf->databases[0]->host, "z");
	CHECK_INT(conf->databases[0]->hosts[0].port, 2);
	CHECK_TEXT(conf->fallback->host, "g");
	CHECK_INT(conf->users[0]->pool_size, 2);
	CHECK_INT(conf->peer_count, 1);
	CHECK_TEXT(conf->peers[0]->host, "b");
	CHECK_INT(conf->settings.listen_port, 2);
	conf_drop(&conf);
}

TEST(included_files_are_read)
{
	char text[256];
	struct conf *conf;

	temp_write("b.ini", "b = host=y\n[pgbouncer]\nauth_type = trust\n");
	snprintf(text, sizeof(text), "[databases]\na = host=x\n%%include %s\nlisten_port = 1\n", temp_path("b.ini"));
	conf = load(text);
	REQUIRE(conf);
	CHECK_INT(conf->database_count, 2);
	CHECK_INT(conf->settings.listen_port, 1);
	CHECK_TEXT(conf->path, temp_path("a.ini"));
	conf_drop(&conf);
	/* A problem in an included file is reported with the name of that file. */
	temp_write("b.ini", "b = hots=y\n");
	CHECK(!load(text));
	REQUIRE(problems.count > 0);
	CHECK_TEXT(problems.items[0].file, temp_path("b.ini"));
	CHECK_INT(problems.items[0].line, 1);
}

TEST(a_missing_file_is_one_problem)
{
	conf_problems_free(&problems);
	CHECK(!conf_load("/nonexistent/a.ini", &problems));
	CHECK_INT(problems.count, 1);
	CHECK_INT(problems.errors, 1);
}

TEST(set_makes_a_new_snapshot)
{
	struct conf *conf = load(whole), *fresh;
	const struct conf_database *d;

	REQUIRE(conf);
	fresh = conf_with(conf, "query_timeout", "2.5", &problems);
	REQUIRE(fresh);
	CHECK_INT(problems.errors, 0);
	CHECK_INT(conf->settings.query_timeout, 0);
	CHECK_INT(fresh->settings.query_timeout, 5 * USEC / 2);
	/* The other values are equal copies. */
	conf_drop(&conf);
	CHECK_TEXT(fresh->path, temp_path("a.ini"));
	CHECK_TEXT(fresh->settings.job_name, "weir1");
	CHECK_INT(fresh->settings.listen_port, 7432);
	CHECK_INT(fresh->database_count, 2);
	d = conf_database_find(fresh, "app");
	REQUIRE(d);
	CHECK(d == fresh->databases[0]);
	CHECK_TEXT(d->password->bytes, "p'w d");
	CHECK_INT(d->pool_size, 7);
	CHECK_TEXT(fresh->fallback->host, "fallback");
	CHECK_INT(conf_user_find(fresh, "alice")->query_timeout, 3 * USEC);
	CHECK_INT(fresh->peer_count, 2);
	CHECK_INT(fresh->peers[1]->id, 2);
	CHECK_TEXT(fresh->peers[1]->host, "/run/p2");
	conf_drop(&fresh);
}

static void check_set_fails(struct conf *conf, const char *name, const char *value, const char *why)
{
	conf_problems_free(&problems);
	CHECK(!conf_with(conf, name, value, &problems));
	CHECK_ERROR(0, why);
}

TEST(set_refuses_values_that_a_file_may_not_have)
{
	struct conf *conf = load(whole);

	REQUIRE(conf);
	check_set_fails(conf, "pool_mod", "session", "unknown setting \"pool_mod\"; did you mean \"pool_mode\"?");
	check_set_fails(conf, "xyzzy", "1", "unknown setting \"xyzzy\"");
	check_set_fails(conf, "pool_mode", "sesion", "did you mean \"session\"?");
	check_set_fails(conf, "listen_port", "1", "\"listen_port\" cannot be changed without a restart");
	check_set_fails(conf, "service_name", "x", "\"job_name\" cannot be changed without a restart");
	check_set_fails(conf, "auth_file", "/nonexistent", "cannot be read");
	check_set_fails(conf, "auth_type", "hba", "needs \"auth_hba_file\"");
	check_set_fails(conf, "auth_type", "cert", "verify-full");
	conf_drop(&conf);
}

TEST(set_changes_numbers_and_words_of_a_database)
{
	struct conf *conf = load(whole), *fresh, *again;

	REQUIRE(conf);
	fresh = conf_with(conf, "app.pool_size", "9", &problems);
	REQUIRE(fresh);
	CHECK_INT(conf_database_find(conf, "app")->pool_size, 7);
	CHECK_INT(conf_database_find(fresh, "app")->pool_size, 9);
	again = conf_with(fresh, "*.pool_mode", "session", &problems);
	REQUIRE(again);
	CHECK_INT(conf_database_find(again, "app")->pool_size, 9);
	CHECK_INT(again->fallback->pool_mode, MODE_SESSION);
	CHECK_INT(problems.errors, 0);
	check_set_fails(conf, "app.pool_sise", "1", "unknown key \"pool_sise\"; did you mean \"pool_size\"?");
	check_set_fails(conf, "app.", "1", "unknown key \"\"");
	check_set_fails(conf, "nowhere.pool_size", "1", "\"nowhere\" has no entry in [databases]: \"*\" applies");
	check_set_fails(conf, ".pool_size", "1", "\"\" has no entry in [databases]");
	check_set_fails(conf, "app.pool_size", "many", "database \"app\": \"pool_size\" is \"many\", but must be a whole number");
	check_set_fails(conf, "app.host", "elsewhere", "\"host\" of a database is changed in the file, then by RELOAD");
	check_set_fails(conf, "app.sslmode", "disable", "\"sslmode\" of a database is changed in the file, then by RELOAD");
	check_set_fails(conf, "app.password", "x", "\"password\" of a database is changed in the file, then by RELOAD");
	conf_drop(&conf);
	conf_drop(&fresh);
	conf_drop(&again);
}

TEST(values_that_the_log_hides)
{
	CHECK(!setting_may_be_secret("pool_mode", "session") && !setting_may_be_secret("app.pool_size", "7"));
	CHECK(setting_may_be_secret("app.password", "x") && setting_may_be_secret("app.nothing", "x") && setting_may_be_secret("nothing", "x"));
}

/* Every setting that SET may change accepts the value that SHOW CONFIG prints. */
TEST(set_accepts_values_of_show_config)
{
	struct conf *conf = load(whole);
	char buf[256], again[256];

	REQUIRE(conf);
	for (size_t i = 0; i < setting_table.count; i++) {
		const struct setting_row *row = &setting_table.rows[i].row;
		struct conf *fresh = conf_with(conf, row->name, value_text(&setting_table.rows[i], &conf->settings, buf, sizeof(buf)), &problems);

		CHECK_INT(fresh != NULL, row->applies != APPLIES_START);
		if (!fresh)
			continue;
		CHECK_TEXT(value_text(&setting_table.rows[i], &fresh->settings, again, sizeof(again)),
			   value_text(&setting_table.rows[i], &conf->settings, buf, sizeof(buf)));
		conf_drop(&fresh);
	}
	conf_drop(&conf);
}

TEST(settings_that_need_a_restart_are_kept)
{
	struct conf *running = load("[pgbouncer]\nauth_type=trust\nlisten_port = 1\nuser = a\npool_mode = session\n");
	struct conf *fresh = load("[pgbouncer]\nauth_type=trust\nlisten_port = 2\nunix_socket_dir =\npool_mode = statement\n");

	REQUIRE(running && fresh);
	conf_keep_fixed(fresh, running, &problems);
	CHECK_INT(problems.errors, 0);
	CHECK_INT(problems.count, 3);
	CHECK_WARNING(0, "\"listen_port\" stays \"1\" until a restart: the file now says \"2\"");
	CHECK_WARNING(0, "\"user\" stays \"a\"");
	conf_drop(&running);
	CHECK_INT(fresh->settings.listen_port, 1);
	CHECK_TEXT(fresh->settings.user, "a");
	CHECK_TEXT(fresh->settings.unix_socket_dir, "/tmp");
	CHECK_INT(fresh->settings.pool_mode, MODE_STATEMENT);
	conf_drop(&fresh);
}

TEST(references)
{
	struct conf *conf = load(whole), *other;

	REQUIRE(conf);
	other = conf_hold(conf);
	CHECK(other == conf);
	conf_drop(&conf);
	CHECK_TEXT(other->settings.job_name, "weir1");
	conf_drop(&other);
}

TEST(defaults_have_no_databases)
{
	struct conf *conf = conf_load(temp_write("empty.ini", "[databases]\n"), &problems);

	REQUIRE(conf);
	conf_problems_free(&problems);
	CHECK_INT(conf->database_count, 0);
	CHECK(!conf->fallback);
	CHECK(!conf_database_find(conf, "x"));
	CHECK(!conf_user_find(conf, "x"));
	CHECK_INT(conf->settings.default_pool_size, 20);
	CHECK_TEXT(conf->settings.unix_socket_dir, "/tmp");
	CHECK_INT(conf->settings.unix_socket_mode, 0777);
	CHECK_TEXT(conf->settings.server_reset_query, "DISCARD ALL");
	CHECK(!conf->settings.logfile);
	conf_drop(&conf);
}

/* Returns the hosts of a database with this entry, as "name:port name:port". */
static const char *hosts_of(const char *entry)
{
	static char out[200];
	char text[200];
	struct conf *conf, *copy;

	snprintf(text, sizeof(text), "[databases]\na = %s\n", entry);
	out[0] = '\0';
	conf = load(text);
	/* a copy has hosts of its own */
	copy = conf ? conf_with(conf, "query_timeout", "7", &problems) : NULL;
	conf_drop(&conf);
	for (unsigned i = 0; copy && i < copy->databases[0]->host_count; i++) {
		const struct conf_host *host = &copy->databases[0]->hosts[i];

		snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s%s:%d", i > 0 ? " " : "", host->name ? host->name : "~", host->port);
	}
	conf_drop(&copy);
	return out;
}

TEST(host_lists)
{
	CHECK_PAIRS(hosts_of,
		{ "", "~:5432" },
		{ "port=7", "~:7" },
		{ "host=a", "a:5432" },
		{ "host=a,/run/x,10.0.0.1 port=7", "a:7 /run/x:7 10.0.0.1:7" },
		{ "host=' a , b,c '", "a:5432 b:5432 c:5432" },
		{ "host=a,,b", "a:5432 :5432 b:5432" });
}

static bool differ(const char *a, const char *b)
{
	char text[512];
	struct conf *conf;
	bool result = false;

	snprintf(text, sizeof(text), "[databases]\na = %s\nb = %s\n", a, b);
	conf = load(text);
	CHECK(conf);
	if (conf)
		result = value_rows_differ(&database_table, APPLIES_SERVERS, conf->databases[0], conf->databases[1]);
	conf_drop(&conf);
	return result;
}

TEST(keys_that_change_the_connection)
{
	CHECK(!differ("", ""));
	CHECK(!differ("host=x port=5432", "port=5432 host=x"));
	CHECK(!differ("pool_size=1 pool_mode=session connect_query='x'", "pool_size=2 min_pool_size=1"));
	CHECK(!differ("password=x", "password=x"));
	CHECK(!differ("port=5432", ""));
	CHECK(differ("host=x", "host=y"));
	CHECK(differ("host=x", ""));
	CHECK(differ("port=1", "port=2"));
	CHECK(differ("max_protocol_version=3.2", ""));
	CHECK(differ("sslnegotiation=postgres", ""));
	CHECK(differ("sslmode=require", ""));
	CHECK(differ("sslcrl=x", ""));
	CHECK(differ("sslrootcert=x", "sslrootcert=y"));
	CHECK(differ("sslcert=x sslkey=z", "sslcert=y sslkey=z"));
	CHECK(differ("sslcert=x sslkey=z", "sslcert=x sslkey=y"));
	CHECK(differ("channel_binding=prefer", "channel_binding=disable"));
	CHECK(differ("", "require_auth=md5"));
	CHECK(!differ("require_auth=md5,none", "require_auth='none, md5'"));
	CHECK(differ("dbname=x", "dbname=y"));
	CHECK(differ("user=x", "user=y"));
	CHECK(differ("password=x", "password=y"));
	CHECK(differ("password=x", ""));
	CHECK(differ("client_encoding=UTF8", "client_encoding=LATIN1"));
	CHECK(differ("datestyle=ISO", ""));
	CHECK(differ("timezone=UTC", "timezone=CET"));
	CHECK(differ("application_name=x", "application_name=y"));
}

/* A file truncated at any byte causes no crash and no memory leak, whether it is accepted or refused. */
TEST(file_truncated_at_every_byte)
{
	int loaded = 0, refused = 0;

	for (size_t size = 0; size < sizeof(whole); size++) {
		struct conf *conf;

		conf_problems_free(&problems);
		conf = conf_load(temp_write_bytes("a.ini", whole, size), &problems);
		CHECK_INT(conf == NULL, problems.errors > 0);
		conf ? loaded++ : refused++;
		conf_drop(&conf);
	}
	CHECK(loaded > 20);
	CHECK(refused > 200);
}

/* The same with any byte changed. */
TEST(file_damaged_at_every_byte)
{
	static const char damage[] = { '\0', '\'', '"', '=', '\n', '[', '\x80', ' ' };
	char text[sizeof(whole)];

	for (size_t at = 0; at < sizeof(whole) - 1; at++) {
		struct conf *conf;

		memcpy(text, whole, sizeof(whole));
		text[at] = damage[at % sizeof(damage)];
		conf_problems_free(&problems);
		conf = conf_load(temp_write_bytes("a.ini", text, sizeof(whole) - 1), &problems);
		CHECK_INT(conf == NULL, problems.errors > 0);
		conf_drop(&conf);
	}
}

TEST(a_thousand_databases)
{
	enum { MANY = 1000 };
	struct bytes text = BYTES_EMPTY;
	struct conf *conf, *fresh;
	char name[32];

	bytes_append_text(&text, "[pgbouncer]\nauth_type = trust\n[databases]\n");
	for (int i = 0; i < MANY; i++)
		bytes_append_format(&text, "db%d = host=h%d port=%d password='secret %d'\n", i, i, 1 + i, i);
	bytes_append_string(&text, "");
	conf = load((const char *)bytes_front(&text));
	bytes_free(&text);
	REQUIRE(conf);
	CHECK_INT(problems.count, 0);
	CHECK_INT(conf->database_count, MANY);
	fresh = conf_with(conf, "query_timeout", "1", &problems);
	REQUIRE(fresh);
	for (int i = 0; i < MANY; i++) {
		const struct conf_database *d;

		snprintf(name, sizeof(name), "db%d", i);
		d = conf_database_find(fresh, name);
		REQUIRE(d);
		CHECK(fresh->databases[i] == d);
		CHECK_INT(d->hosts[0].port, 1 + i);
	}
	conf_drop(&conf);
	conf_drop(&fresh);
}

TEST(number_of_kept_problems_is_limited)
{
	struct bytes text = BYTES_EMPTY;

	for (int i = 0; i < 20000; i++)
		bytes_append_text(&text, "nonsense\n");
	bytes_append_string(&text, "");
	CHECK(!load((const char *)bytes_front(&text)));
	CHECK_INT(problems.errors, 20000);
	CHECK(problems.count <= 500);
	bytes_free(&text);
}

TEST(names_of_any_length)
{
	struct bytes text = BYTES_EMPTY;
	struct conf *conf;

	bytes_append_text(&text, "[pgbouncer]\nauth_type = trust\n[databases]\n");
	for (int i = 0; i < 100000; i++)
		bytes_append_u8(&text, 'n');
	bytes_append_string(&text, " = host=x\n");
	conf = load((const char *)bytes_front(&text));
	bytes_free(&text);
	REQUIRE(conf);
	CHECK_INT(strlen(conf->databases[0]->name), 100000);
	conf_drop(&conf);
}

TEST(teardown)
{
	conf_problems_free(&problems);
	CHECK_INT(problems.count, 0);
}

/* The list of problems. */

TEST(problems_are_kept_in_order)
{
	struct conf_problems p = { 0 };
	char file[] = "a.ini";

	conf_problem_add(&p, false, file, 3, "found %d", 7);
	conf_problem_add(&p, true, NULL, 0, "%s", "w");
	file[0] = 'X';
	CHECK_INT(p.count, 2);
	CHECK_INT(p.errors, 1);
	CHECK_TEXT(p.items[0].file, "a.ini");
	CHECK_INT(p.items[0].line, 3);
	CHECK_TEXT(p.items[0].text, "found 7");
	CHECK(!p.items[0].is_warning);
	CHECK(!p.items[1].file);
	CHECK(p.items[1].is_warning);
	conf_problems_free(&p);
	CHECK_INT(p.count, 0);
	CHECK_INT(p.errors, 0);
	conf_problems_free(&p);
}

TEST(list_is_limited_but_errors_are_counted)
{
	struct conf_problems p = { 0 };

	for (int i = 0; i < 5000; i++)
		conf_problem_add(&p, false, "f", i, "problem");
	CHECK_INT(p.errors, 5000);
	CHECK(p.count < 1000);
	CHECK(strstr(p.items[p.count - 1].text, "more problems"));
	CHECK_TEXT(p.items[p.count - 2].text, "problem");
	conf_problems_free(&p);
}

UNIT_MAIN
