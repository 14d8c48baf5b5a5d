/* Rows of SHOW POOLS, DATABASES and USERS: order, counts, and the origin of each limit. */
#include "fake.h"
#include "pool/rows.h"

static const char ini[] =
	"[databases]\napp = host=10.0.0.1,10.0.0.2 port=5433 dbname=real pool_size=1 max_db_connections=7\nbare =\nforced = dbname=x\n"
	"[users]\ncarl = pool_mode=transaction max_user_connections=9 pool_size=4\n"
	"[pgbouncer]\npool_mode = transaction\ndefault_pool_size = 3\nmin_pool_size = 2\nmax_user_connections = 6\nserver_lifetime = 60\n";

static char given[512];

static void note(const char *text)
{
	strncat(given, text, sizeof(given) - strlen(given) - 1);
	strncat(given, " ", sizeof(given) - strlen(given) - 1);
}

static void give_pool(void *context, const struct pool_row *row)
{
	char text[128];

	if (context)
		*(struct pool_row *)context = *row;
	snprintf(text, sizeof(text), "%s/%s", row->database, row->user);
	note(text);
}

static void give_database(void *context, const struct database_row *row)
{
	if (!strcmp(row->name, "app"))
		*(struct database_row *)context = *row;
	note(row->name);
}

static void give_name(void *context, const char *name)
{
	(void)context;
	note(name);
}

static void begin(void)
{
	fake_start(ini);
	given[0] = '\0';
}

TEST(show_pools_rows)
{
	struct pool_row row;

	begin();
	fake_join("bare", "zoe");
	fake_join("app", "zoe");
	fake_join("app", "bob");
	CHECK(pools_each_row(fake.pools, fake.now, give_pool, NULL));
	CHECK_TEXT(given, "app/bob app/zoe bare/zoe ");
	fake_end();
	begin();
	/* two clients with a server, and a third that is idle */
	fake_fill("app", "bob", 1);
	fake_join("app", "bob");
	fake_join("app", "bob");
	CHECK(fake_want(c(1)));
	CHECK(!fake_want(c(2)));
	fake_schedule();
	fake_pass(2);
	CHECK(pools_each_row(fake.pools, fake.now, give_pool, &row));
	CHECK_INT(row.clients, 2);
	CHECK_INT(row.waiting, 1);
	CHECK_INT(row.active, 1);
	CHECK_INT(row.idle, 0);
	CHECK_INT(row.login, 0);
	CHECK_INT(row.longest_wait, 2 * USEC);
	CHECK_INT(row.size, 1);
	CHECK_TEXT(row.held_by, "pool_size");
	CHECK_TEXT(row.mode, "transaction");
	CHECK(row.load_balance != NULL && !row.is_console);
	fake_release(s(1));
	fake_schedule();
	CHECK(pools_each_row(fake.pools, fake.now, give_pool, &row));
	CHECK_INT(row.waiting, 0);
	CHECK(row.held_by == NULL);
	fake_end();
}

TEST(show_databases_rows)
{
	struct database_row row;

	begin();
	fake_fill("app", "bob", 1);
	pools_pause(fake.pools, database_find(fake.pools, "app"), true);
	database_find(fake.pools, "app")->stats.total.query_count = 5;
	database_find(fake.pools, "bare")->stats.total.query_count = 6;
	CHECK(databases_each_row(fake.pools, give_database, &row));
	CHECK_TEXT(given, "app bare forced pgbouncer ");
	CHECK_TEXT(row.host, "10.0.0.1,10.0.0.2");
	CHECK_TEXT(row.dbname, "real");
	CHECK(row.forced_user == NULL && row.mode == NULL);
	CHECK_INT(row.port, 5433);
	CHECK_INT(row.size, 1);
	CHECK_INT(row.min_size, 2);
	CHECK_INT(row.server_lifetime, 60 * USEC);
	CHECK_INT(row.max_servers, 7);
	CHECK_INT(row.clients, 1);
	CHECK_INT(row.pools, 1);
	CHECK(row.is_paused && !row.is_disabled && !row.is_automatic && !row.is_removed);
	CHECK_INT(row.stats->total.query_count, 5);
	{
		struct stats_history sum;

		pools_sum_stats(fake.pools, &sum);
		CHECK_INT(sum.total.query_count, 11);
	}
	fake_end();
}

TEST(show_users_rows)
{
	struct user_row row;

	begin();
	fake_join("app", "bob");
	user_row_of(fake.pools, "carl", &row);
	CHECK_INT(row.size, 4);
	CHECK_TEXT(row.mode, "transaction");
	CHECK_INT(row.max_servers, 9);
	CHECK_INT(row.clients, 0);
	user_row_of(fake.pools, "bob", &row);
	CHECK_INT(row.size, CONF_UNSET);
	CHECK(row.mode == NULL);
	CHECK_INT(row.max_servers, 6);
	CHECK_INT(row.clients, 1);
	user_row_of(fake.pools, "zoe", &row);
	CHECK_INT(row.clients, 0);
	pools_each_user_name(fake.pools, give_name, NULL);
	CHECK_TEXT(given, "carl bob carl ");
	fake_end();
}

TEST(show_lists_counts)
{
	struct pools_counts counts;

	begin();
	fake_join("app", "bob");
	fake_client_new();
	counts = pools_count(fake.pools);
	CHECK_INT(counts.databases, 4);
	CHECK_INT(counts.users, 2);
	CHECK_INT(counts.pools, 1);
	CHECK_INT(counts.clients_in_login, 1);
	fake_end();
}

UNIT_MAIN
