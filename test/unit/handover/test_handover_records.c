/*
 * The process, its databases and its pools in a handover: the fields of their records, and the effect of a different configuration in the other
 * process.
 */
#include "backend/server_info.h"
#include "two_worlds.h"
#include "unit.h"
#include "whole.h"

#define LIST(database) "[databases]\nd = " HOUSE_SERVER database HOUSE_SETTINGS "auth_type=any\n"
#define INI LIST("user=u pool_size=1") "pool_mode=transaction\n"
#define SESSION_INI LIST("user=u pool_size=1") "pool_mode=session\n"
#define OTHER_USER_INI LIST("user=v pool_size=1") "pool_mode=transaction\n"
#define OTHER_NAME_INI LIST("user=u pool_size=1 dbname=other") "pool_mode=transaction\n"
#define NONE_INI "[databases]\ne = " HOUSE_SERVER "user=u" HOUSE_SETTINGS "auth_type=any\n"
#define PATIENCE 20000

static struct conf_problems problems;
static struct records *from, *to;

/* Opens two worlds with two configurations; a client of the first world has had a server. */
static bool begin(const char *ini, const char *other)
{
	int fds[2];

	whole_open(ini);
	house_open(&fresh, other);
	taking = handover_begin(fresh.world);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	from = records_new(fds[0]);
	to = records_new(fds[1]);
	client = whole_login(&near);
	return client != NULL;
}

static void end(void)
{
	records_free(&from);
	records_free(&to);
	conf_problems_free(&problems);
	worlds_close();
}

static struct pool *pool(void)
{
	return client->pooled.pool;
}

/* Returns the sent records, a letter for each, and the last record of this type in `record`: the console's database comes first. */
static const char *walk(uint8_t type)
{
	static char types[64];
	struct handover_counts counts = { .listeners = 0 };
	struct record r;
	size_t count = 0;

	CHECK(handover_send(whole.world, from, PATIENCE, &counts));
	bytes_consume(&record, bytes_size(&record));
	while (records_next(to, &r, 0) == RECORDS_OK) {
		types[count++] = (char)r.type;
		if (r.type == type) {
			bytes_consume(&record, bytes_size(&record));
			bytes_append(&record, r.body, r.size);
		}
		if (r.fd >= 0)
			close(r.fd);
	}
	types[count] = '\0';
	return types;
}

/* Takes the first n bytes of the record, in memory of that size. */
static bool take(uint8_t type, size_t n)
{
	uint8_t *copy = fuzz_copy(bytes_front(&record), n);
	struct record r = { .type = type, .body = copy, .size = n, .fd = -1 };
	bool is_valid = handover_take(taking, &r, &problems);

	free(copy);
	return is_valid;
}

/* Returns the record of database d or of its pool. */
static bool take_database(void)
{
	walk(HANDOVER_DATABASE);
	return take(HANDOVER_DATABASE, bytes_size(&record));
}

static bool take_its_pool(void)
{
	walk(HANDOVER_POOL);
	return take(HANDOVER_POOL, bytes_size(&record));
}

/* ---- the process ---- */

TEST(process_fields_are_handed_over)
{
	REQUIRE(begin(INI, INI));
	whole.world->peers.last_id = 1234;
	whole.world->pools->last_dedicated = 5;
	whole.world->pools->stats_at = 6;
	walk(HANDOVER_WORLD);
	CHECK(take(HANDOVER_WORLD, bytes_size(&record)));
	CHECK_INT(fresh.world->peers.last_id, 1234);
	CHECK_INT(fresh.world->pools->last_dedicated, 5);
	CHECK_INT(fresh.world->pools->stats_at, 6);
	CHECK(memcmp(fresh.world->seed, whole.world->seed, sizeof(fresh.world->seed)) == 0);
	CHECK(taking->has_world && !taking->tls_differs && !taking->logins_differ);
	/* there is one process record */
	CHECK(!take(HANDOVER_WORLD, bytes_size(&record)));
	end();
}

TEST(truncated_process_record)
{
	REQUIRE(begin(INI, INI));
	walk(HANDOVER_WORLD);
	for (size_t n = 0; n < bytes_size(&record); n++) {
		taking->has_world = false;
		if (take(HANDOVER_WORLD, n))
			UNIT_FAIL("%zu bytes are taken", n);
	}
	end();
}

/* The configuration uses servers differently. */
TEST(different_server_settings)
{
	REQUIRE(begin(LIST("user=u") "server_check_query=select 2\ntrack_extra_parameters=a_name\n", INI));
	walk(HANDOVER_WORLD);
	CHECK(take(HANDOVER_WORLD, bytes_size(&record)));
	CHECK(taking->logins_differ && !taking->tls_differs);
	end();
}

/* ---- databases ---- */

TEST(database_fields_are_handed_over)
{
	struct database *d, *took;

	REQUIRE(begin(INI, INI));
	d = pool()->database;
	d->stats.total.server_parse_count = 7;
	d->stats.newer_at = 8;
	d->statements = 9;
	CHECK(take_database());
	took = database_find(fresh.world->pools, "d");
	REQUIRE(took);
	CHECK(!took->disabled && took->served == d->served);
	CHECK_INT(took->stats.total.server_parse_count, 7);
	CHECK_INT(took->stats.newer_at, 8);
	CHECK_INT(took->statements, 9);
	CHECK_INT(taking->moved_count, 0);
	d->disabled = true;
	CHECK(take_database());
	CHECK(took->disabled);
	d->disabled = false;
	end();
}

TEST(database_with_another_address)
{
	REQUIRE(begin(INI, OTHER_NAME_INI));
	CHECK(take_database());
	CHECK_INT(taking->moved_count, 1);
	end();
}

TEST(unknown_database)
{
	REQUIRE(begin(INI, NONE_INI));
	CHECK(take_database());
	CHECK(!database_find(fresh.world->pools, "d"));
	end();
}

TEST(truncated_database_record)
{
	REQUIRE(begin(INI, INI));
	walk(HANDOVER_DATABASE);
	for (size_t n = 0; n < bytes_size(&record); n++)
		if (take(HANDOVER_DATABASE, n))
			UNIT_FAIL("%zu bytes are taken", n);
	end();
}

/* ---- pools ---- */

TEST(pool_fields_are_handed_over)
{
	const struct server_info *had, *has;
	struct pool *took;

	REQUIRE(begin(INI, INI));
	pool()->login_failed = true;
	pool()->login_failed_at = 11;
	pool()->login_failing_since = 12;
	pool()->last_lifetime_close = 13;
	pool()->stopped_until = 14;
	pool_reads_sequences(pool());
	CHECK(take_its_pool());
	took = taking->pool;
	REQUIRE(took);
	CHECK_TEXT(took->database->name, "d");
	CHECK_TEXT(took->user->name, "u");
	CHECK(took->login_failed && !taking->mode_differs);
	CHECK_INT(took->login_failed_at, 11);
	CHECK_INT(took->login_failing_since, 12);
	CHECK_INT(took->last_lifetime_close, 13);
	CHECK_INT(took->stopped_until, 14);
	CHECK(took->reads_sequences);
	CHECK_INT(taking->no_place, REASON_NONE);
	/* the parameters that servers have reported at login */
	had = pool()->server_info;
	has = took->server_info;
	REQUIRE(had && has);
	CHECK(has->reported.known == had->reported.known && has->reported.known != 0 && has->reported.welcome);
	CHECK_TEXT(params_get(has->reported.defaults, params_index(fresh.world->params, "TimeZone")), "UTC");
	pool()->login_failed = false;
	end();
}

TEST(pool_with_another_mode)
{
	REQUIRE(begin(INI, SESSION_INI));
	CHECK(take_its_pool());
	CHECK(taking->mode_differs);
	end();
	REQUIRE(begin(SESSION_INI, INI));
	CHECK(take_its_pool());
	CHECK(taking->mode_differs);
	end();
}

TEST(pool_without_a_database)
{
	REQUIRE(begin(INI, NONE_INI));
	CHECK(take_its_pool());
	CHECK(!taking->pool);
	CHECK_INT(taking->no_place, REASON_DATABASE_REMOVED);
	end();
	/* another user is forced */
	REQUIRE(begin(INI, OTHER_USER_INI));
	CHECK(take_its_pool());
	CHECK(!taking->pool);
	CHECK_INT(taking->no_place, REASON_DATABASE_CHANGED);
	end();
}

/* The previous record must not affect the next. */
TEST(truncated_pool_record)
{
	REQUIRE(begin(INI, INI));
	walk(HANDOVER_POOL);
	for (size_t n = 0; n < bytes_size(&record); n++)
		if (take(HANDOVER_POOL, n))
			UNIT_FAIL("%zu bytes are taken", n);
	taking->no_place = REASON_DATABASE_REMOVED;
	CHECK(take(HANDOVER_POOL, bytes_size(&record)));
	CHECK(taking->pool && taking->no_place == REASON_NONE);
	end();
}

/* ---- the walk ---- */

TEST(order_of_records)
{
	struct house_end *other;

	REQUIRE(begin(INI, INI));
	/* a server without a client comes before the clients */
	CHECK_TEXT(walk(0), "WDDPSCNZ");
	/* queued clients come last, followed only by unauthenticated clients */
	whole_query(near, "BEGIN");
	CHECK(whole_login(&other));
	whole_query(other, "one");
	CHECK(house_connect(&whole));
	house_settle(&whole);
	CHECK_TEXT(walk(0), "WDDPSCCNCZ");
	/* a server that cannot be handed over is kept with its client */
	server = whole_last_server();
	server->peer.stream.write_failed = true;
	CHECK_TEXT(walk(0), "WDDPCNCZ");
	server->peer.stream.write_failed = false;
	end();
}

TEST(failed_channel)
{
	struct handover_counts counts = { .listeners = 0 };

	REQUIRE(begin(INI, INI));
	records_free(&to);
	CHECK(!handover_send(whole.world, from, PATIENCE, &counts));
	end();
}

UNIT_MAIN
