/* Timeouts: a connection ends exactly at its limit. The test controls the clock: a limit is exact to the microsecond. */
#include "pg/startup.h"
#include "unit.h"
#include "whole.h"

#define LIMITS "query_wait_notify=0\nserver_check_query=\nclient_idle_timeout=50\nidle_transaction_timeout=20\nquery_timeout=30\ntransaction_timeout=40\n" \
	"client_login_timeout=10\ncancel_wait_timeout=15\nserver_idle_timeout=0\nserver_lifetime=1000000\nquery_wait_timeout=0\n"
#define INI WHOLE_INI("pool_size=1", LIMITS)
#define SESSION_INI WHOLE_INI("pool_size=1 pool_mode=session", LIMITS)
#define NONE_INI WHOLE_INI("pool_size=1", "client_idle_timeout=0\nidle_transaction_timeout=0\nquery_timeout=0\ntransaction_timeout=0\n" \
	"query_wait_timeout=0\nserver_idle_timeout=0\nserver_lifetime=1000000\n")
#define USERS_INI WHOLE_INI("pool_size=1", LIMITS "[users]\nv = client_idle_timeout=5\nw = client_idle_timeout=0 query_timeout=7\n")

/* Checks that nothing happens just before the limit, and that at the limit the client gets this message and ends. */
static void check_limit(struct house_end *end, usec_t limit, const char *words)
{
	house_tick(&whole, limit - 1);
	CHECK(!end->is_gone);
	CHECK_TEXT(whole_client_got(end), "");
	house_tick(&whole, 1);
	CHECK(end->is_gone);
	CHECK_TEXT(whole_client_got(end), words);
}

/* ---- clients without a server ---- */

TEST(idle)
{
	struct house_end *end;

	whole_open(INI);
	REQUIRE(whole_login(&end));
	check_limit(end, 50 * USEC, "E(08P01 client_idle_timeout)");
	whole_close();
}

TEST(query_resets_the_idle_time)
{
	struct house_end *end;

	whole_open(INI);
	REQUIRE(whole_login(&end));
	house_tick(&whole, 49 * USEC);
	whole_ask(end, "SELECT 1");
	check_limit(end, 50 * USEC, "E(08P01 client_idle_timeout)");
	whole_close();
}

TEST(limits_of_users)
{
	struct house_end *u, *v, *w;

	whole_open(USERS_INI);
	/* the list of idle clients is not sorted by limit in this case */
	REQUIRE((u = house_login(&whole, "u", "d", 0)) && (w = house_login(&whole, "w", "d", 0)) && (v = house_login(&whole, "v", "d", 0)));
	check_limit(v, 5 * USEC, "E(08P01 client_idle_timeout)");
	CHECK(!u->is_gone);
	house_tick(&whole, 45 * USEC);
	CHECK(u->is_gone && !w->is_gone);
	house_tick(&whole, 5000 * USEC);
	CHECK(!w->is_gone);
	whole.holds_answers = true;
	whole_query(w, "SELECT 1");
	check_limit(w, 7 * USEC, "E(08P01 query timeout)");
	whole_close();
}

TEST(no_limits)
{
	struct house_end *idle, *end, *server;

	whole_open(NONE_INI);
	REQUIRE(whole_in_transaction(&end, &server));
	REQUIRE(whole_login(&idle));
	house_tick(&whole, 100000 * USEC);
	whole.holds_answers = true;
	whole_query(end, "SELECT 1");
	house_tick(&whole, 100000 * USEC);
	CHECK(!idle->is_gone && !end->is_gone && !server->is_gone);
	whole_close();
}

/* ---- clients with a server ---- */

TEST(idle_session_keeps_its_server)
{
	struct house_end *end, *server;

	whole_open(SESSION_INI);
	REQUIRE(whole_login(&end));
	whole_ask(end, "SELECT 1");
	server = house_server(&whole);
	check_limit(end, 50 * USEC, "E(08P01 client_idle_timeout)");
	CHECK(!server->is_gone);
	CHECK_INT(whole_last_server()->pooled.state, SERVER_IDLE);
	whole_close();
}

TEST(replication_stream_has_no_timeout)
{
	struct house_end *end;
	struct client *c;

	whole_open(SESSION_INI);
	c = whole_login(&end);
	REQUIRE(c);
	whole.holds_answers = true;
	whole_query(end, "SELECT 1");
	c->login_facts.replication = REPLICATION_PHYSICAL;
	house_tick(&whole, 1000 * USEC);
	CHECK(!end->is_gone);
	c->login_facts.replication = REPLICATION_NONE;
	house_tick(&whole, 1);
	CHECK(end->is_gone);
	whole_close();
}

/* ---- servers and cancel requests ---- */

TEST(unanswered_reset_query)
{
	struct house_end *end, *server;

	whole_open(SESSION_INI);
	REQUIRE(whole_login(&end));
	whole_ask(end, "SELECT 1");
	server = house_server(&whole);
	whole.holds_answers = true;
	house_hang_up(end);
	house_settle(&whole);
	CHECK_INT(whole_last_server()->pooled.state, SERVER_TESTED);
	house_tick(&whole, 15 * USEC - 1);
	CHECK(!server->is_gone);
	house_tick(&whole, 1);
	CHECK(server->is_gone);
	CHECK(list_is_empty(&whole.world->peers.servers));
	whole_close();
}

UNIT_MAIN
