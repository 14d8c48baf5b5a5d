/* Rows of SHOW POOLS, DATABASES, HOSTS and USERS: order, counts, and the origin of each limit. */
#include "fake.h"

#include "pool/rows.h"
#include "pool/stats.h"
#include "unit.h"

#include <stdint.h>

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

TEST(holders_of_a_limit)
{
	char text[HOLDING_TEXT];
	struct pool *pool;

	begin();
	fake_fill("app", "bob", 1);
	fake_fill("app", "dora", 1);
	CHECK(pool_longest_in_use(fake_pool("app", "bob"), LIMIT_DATABASE) == NULL);
	CHECK(fake_want(c(1)));
	fake_pass(1);
	CHECK(fake_want(c(2)));
	pool = fake_pool("app", "bob");
	CHECK_TEXT(pool_holding_text(pool, pool->user, HOLDING_DATABASE_SERVERS, text),
		   "the database has 2 of 7 server connections (max_db_connections): 1 of bob, 1 of dora");
	CHECK_TEXT(pool_holding_text(pool, pool->user, HOLDING_DATABASE_CLIENTS, text),
		   "the database has 2 of 0 client connections (max_db_client_connections): 1 of bob, 1 of dora");
	CHECK_TEXT(pool_holding_text(pool, pool->user, HOLDING_USER_CLIENTS, text),
		   "the user has 1 of 0 client connections (max_user_client_connections): 1 of app");
	CHECK(pool_longest_in_use(pool, LIMIT_POOL_SIZE) == &s(1)->pooled);
	CHECK(pool_longest_in_use(fake_pool("app", "dora"), LIMIT_POOL_SIZE) == &s(2)->pooled);
	CHECK(pool_longest_in_use(fake_pool("app", "dora"), LIMIT_DATABASE) == &s(1)->pooled);
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

static void give_host(void *context, const struct host_row *row)
{
	char text[128];

	(void)context;
	snprintf(text, sizeof(text), "%s: %d of %d, pools %d, waiting %d%s;", row->name, (int)row->servers, (int)row->max_servers, row->pools,
		 row->waiting_pools, row->is_unreachable ? ", unreachable" : "");
	note(text);
}

TEST(show_hosts_rows)
{
	struct pool_row row;

	fake_start("[databases]\na = host=h\nb = host=i,h\nc = host=i\n[pgbouncer]\npool_mode = transaction\nmax_host_connections = 3\n"
		   "server_login_retry = 5\n");
	given[0] = '\0';
	CHECK(hosts_each_row(fake.pools, fake.now, give_host, NULL));
	CHECK_TEXT(given, "");
	fake_fill("a", "u", 3);
	fake_want(c(1));
	fake_fill("b", "u", 2);
	fake_fill("c", "u", 1);
	fake_ask("a", "v");
	for (int i = 1; i <= 6; i++)
		if (c(i)->pooled.state == CLIENT_IDLE)
			fake_want(c(i));
	fake_schedule();
	fake_pool("c", "u")->places[0].host->unreachable_since = fake.now - 4 * USEC;
	CHECK(hosts_each_row(fake.pools, fake.now, give_host, NULL));
	CHECK_TEXT(given, "h:5432: 3 of 3, pools 3, waiting 1; i:5432: 3 of 3, pools 2, waiting 0, unreachable; ");
	given[0] = '\0';
	CHECK(hosts_each_row(fake.pools, fake.now + USEC, give_host, NULL));
	CHECK_TEXT(given, "h:5432: 3 of 3, pools 3, waiting 1; i:5432: 3 of 3, pools 2, waiting 0; ");
	/* the share of the last pool, c */
	CHECK(pools_each_row(fake.pools, fake.now, give_pool, &row));
	CHECK_INT(row.host_share, 2);
	fake_end();
	begin();
	fake_join("bare", "zoe");
	CHECK(pools_each_row(fake.pools, fake.now, give_pool, &row));
	CHECK_INT(row.host_share, 0);
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

/* Averages for known loads. */

static const struct stats zero;

TEST(averages_begin_a_second_before_the_history)
{
	struct stats_history history = { .newer_at = 5 * USEC, .total = { .xact_count = 10, .xact_time = 30 } };
	struct stats average;

	stats_average(&history, 5 * USEC, &average);
	CHECK_INT(average.xact_count, 10);
	CHECK_INT(average.xact_time, 3);
	stats_average(&history, 9 * USEC, &average);
	CHECK_INT(average.xact_count, 2);
	stats_average(&history, 4 * USEC, &average);
	CHECK(memcmp(&average, &zero, sizeof(zero)) == 0);
}

/* The end of a period of a database with this history. */
static void end_period(struct stats_history *history, usec_t now)
{
	struct stats_history *of_database;

	begin();
	of_database = &database_find(fake.pools, "app")->stats;
	*of_database = *history;
	fake.pools->stats_at = 0;
	CHECK(pools_maintain(fake.pools, now));
	*history = *of_database;
	fake_end();
}

TEST(averages_begin_with_the_last_full_period)
{
	struct stats_history history = { .newer_at = 100 * USEC };
	struct stats average;

	history.total = (struct stats){
		.server_assignment_count = 40, .xact_count = 80, .query_count = 160, .received = 4000, .sent = 8000,
		.xact_time = 800, .query_time = 1600, .wait_time = 400, .bind_count = 2,
	};
	end_period(&history, 104 * USEC);
	stats_average(&history, 104 * USEC, &average);
	CHECK_INT(average.server_assignment_count, 10);
	CHECK_INT(average.xact_count, 20);
	CHECK_INT(average.query_count, 40);
	CHECK_INT(average.received, 1000);
	CHECK_INT(average.sent, 2000);
	CHECK_INT(average.bind_count, 0);
	CHECK_INT(average.xact_time, 10);
	CHECK_INT(average.query_time, 10);
	CHECK_INT(average.wait_time, 10);
	/* Later values count at once, and the earlier period is no longer included as soon as the next one has ended. */
	history.total.xact_count += 7;
	stats_average(&history, 104 * USEC + USEC / 2, &average);
	CHECK_INT(average.xact_count, 19);
	end_period(&history, 105 * USEC);
	stats_average(&history, 105 * USEC, &average);
	CHECK_INT(average.xact_count, 7);
	CHECK_INT(average.query_count, 0);
	CHECK_INT(average.xact_time, 0);
}

TEST(large_numbers_do_not_overflow)
{
	struct stats_history history = { .newer_at = USEC };
	struct stats average;

	history.total.sent = UINT64_C(1) << 60;
	end_period(&history, 1025 * USEC);
	stats_average(&history, 1025 * USEC, &average);
	CHECK(average.sent == UINT64_C(1) << 50);
}

TEST(stats_add_sums_every_field)
{
	struct stats sum = { 0 }, one;

#define X(name) one.name = 3;
	STATS_EACH(X)
#undef X
	stats_add(&sum, &one);
	stats_add(&sum, &one);
#define X(name) CHECK_INT(sum.name, 6);
	STATS_EACH(X)
#undef X
}

UNIT_MAIN
