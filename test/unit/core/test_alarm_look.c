/* The conditions of alarms: which state of a pool or host raises which alarm. wire/test_alarms.py plays the failures. */
#include "core/alarm.h"

#include "core/lifecycle.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "query_wait_timeout=0\nmax_client_conn=3\n")

static char names[4096];

static void note(void *context, const struct alarm *alarm)
{
	size_t used = strlen(names);

	(void)context;
	if (alarm->ended == 0)
		snprintf(names + used, sizeof(names) - used, "%s %s: %s\n", alarm_rows[alarm->kind].name, alarm->subject, alarm->text);
}

static const char *lasting(void)
{
	names[0] = '\0';
	alarms_each(whole.world, note, NULL);
	return names;
}

TEST(kinds_of_failures)
{
	static const struct { enum close_reason why; enum login_failure kind; enum alarm_kind alarm; } rows[] = {
		{ REASON_CONNECT_FAILED, FAILURE_PASSING, ALARM_HOST_UNREACHABLE },
		{ REASON_CONNECT_TIMEOUT, FAILURE_PASSING, ALARM_HOST_UNREACHABLE },
		{ REASON_DNS_FAILED, FAILURE_PASSING, ALARM_HOST_NAME },
		{ REASON_SERVER_TLS, FAILURE_PASSING, ALARM_HOST_TLS },
		{ REASON_SERVER_SAID, FAILURE_FULL, ALARM_HOST_FULL },
		{ REASON_SERVER_SAID, FAILURE_BUSY, ALARM_HOST_STARTING },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct host_failure failure = { .why = rows[i].why, .kind = rows[i].kind };

		CHECK_INT(alarm_of_failure(&failure), rows[i].alarm);
	}
}

static bool try(struct host *host, enum close_reason why, const char *text, const void *database, const void *tls)
{
	return host_note_attempt(host, &(struct host_attempt){ why, FAILURE_PASSING, text, database, tls }, whole.world->now);
}

TEST(a_host_fails_until_it_works)
{
	struct house_end *end, *server;
	struct host *host;

	whole_open(INI);
	REQUIRE(whole_in_transaction(&end, &server));
	host = whole_last_server()->pooled.host;
	CHECK(!try(host, REASON_CONNECT_FAILED, "no", NULL, NULL));
	CHECK(try(host, REASON_CONNECT_FAILED, "no", NULL, NULL));
	CHECK(!try(host, REASON_CONNECT_FAILED, "never", NULL, NULL));
	house_tick(&whole, 2 * USEC);
	CHECK_TEXT(lasting(), "host_unreachable 127.0.0.1:5432: never; attempts without success: 3 in 2 s\n");
	try(host, REASON_NONE, "", NULL, NULL);
	house_tick(&whole, 2 * USEC);
	house_tick(&whole, 2 * USEC);
	CHECK_TEXT(lasting(), "");
	/* nothing is known about a host that has not been tried for long */
	try(host, REASON_SERVER_TLS, "no", NULL, NULL);
	house_tick(&whole, 2 * USEC);
	CHECK(strstr(lasting(), "host_tls 127.0.0.1:5432: no;") == names);
	CHECK(host_is_failing(host, whole.world->now));
	CHECK(!host_is_failing(host, whole.world->now + 3600 * USEC));
	whole_close();
}

/* Another database may ask less of the certificate. */
TEST(failures_of_tls_belong_to_their_settings)
{
	static const char one, other, common;
	struct house_end *end, *server;
	struct host *host;

	whole_open(INI);
	REQUIRE(whole_in_transaction(&end, &server));
	host = whole_last_server()->pooled.host;
	CHECK(!try(host, REASON_SERVER_TLS, "expired", &one, &common));
	CHECK(try(host, REASON_SERVER_TLS, "expired", &one, &common));
	CHECK(!try(host, REASON_NONE, "", &other, &other));
	CHECK(host_is_failing(host, whole.world->now));
	CHECK(!try(host, REASON_SERVER_TLS, "expired", &other, &other));
	CHECK(!try(host, REASON_NONE, "", &other, NULL));
	CHECK(!host_is_failing(host, whole.world->now));
	CHECK(!try(host, REASON_SERVER_TLS, "expired", &one, &common));
	CHECK(!try(host, REASON_NONE, "", &other, &common));
	CHECK(!host_is_failing(host, whole.world->now));
	whole_close();
}

TEST(a_wait_counts_after_two_seconds)
{
	struct house_end *end, *server, *other;

	whole_open(INI);
	REQUIRE(whole_in_transaction(&end, &server) && whole_login(&other));
	whole_query(other, "SELECT 1");
	house_tick(&whole, USEC);
	CHECK_TEXT(lasting(), "");
	house_tick(&whole, 3 * USEC / 2);
	CHECK(strstr(lasting(), "pool_used_up d/u: clients that wait: 1, the first for ") == names);
	CHECK(strstr(names, "): idle in transaction for 2.5 s\n"));
	whole_close();
}

TEST(the_last_place_for_clients)
{
	struct house_end *end;

	whole_open(INI);
	REQUIRE(whole_login(&end) && whole_login(&end));
	house_tick(&whole, USEC);
	CHECK_TEXT(lasting(), "");
	REQUIRE(whole_login(&end));
	house_tick(&whole, USEC);
	CHECK(strstr(lasting(), "max_client_conn : 3 of 3 client connections") == names);
	whole_close();
}

UNIT_MAIN
