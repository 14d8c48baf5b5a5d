/* Waits and lives of clients in words. wire/test_waits.py has the limits and the holders. */
#include "core/diagnosis.h"

#include "core/lifecycle.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "")

static char lines[2048];

static void add(void *context, const char *text)
{
	size_t used = strlen(lines);

	CHECK(context == lines);
	snprintf(lines + used, sizeof(lines) - used, "%s\n", text);
}

static const char *explained(const struct client *c)
{
	lines[0] = '\0';
	client_explain(c, add, lines);
	return lines;
}

TEST(wait_for_the_only_server)
{
	struct house_end *end, *server, *other;
	struct client *holder, *c;
	struct client_wait wait;

	whole_open(INI);
	holder = whole_in_transaction(&end, &server);
	REQUIRE(holder);
	CHECK(!client_wait_of(holder, &wait));
	c = whole_login(&other);
	REQUIRE(c && !client_wait_of(c, &wait));
	whole_query(other, "SELECT 1");
	REQUIRE(client_wait_of(c, &wait));
	CHECK_TEXT(wait.on, "pool_size");
	CHECK_INT(wait.client, holder->peer.id);
	CHECK_INT(wait.server, server_of(holder->pooled.link)->peer.id);
	CHECK_INT(wait.since, c->pooled.since);
	CHECK_TEXT(wait.hint, "End long transactions, or raise pool_size of the database.");
	CHECK(strstr(explained(c), "\n  Wait: for pool_size, for 0.0 ms: 1 of 1 server connections are in use (pool_size of the database); ") != NULL);
	CHECK(strstr(explained(holder), "\n  State: active, for ") && strstr(lines, "\n  Server: S-0x") && strstr(lines, "\n  Transaction: for ") && strstr(lines, ", waiting for the client"));
	CHECK(!strstr(lines, "SELECT") && !strstr(lines, "BEGIN"));
	/* the wait ends, and is the last one */
	house_tick(&whole, 7 * USEC);
	CHECK_TEXT(whole_ask(end, "COMMIT"), "C(COMMIT) Z(I)");
	CHECK(!client_wait_of(c, &wait));
	CHECK_INT(c->last_wait.limit, LIMIT_POOL_SIZE);
	CHECK(strstr(explained(c), "\n  Last wait: 7.") != NULL && strstr(lines, " s, for pool_size, ended ") != NULL);
	CHECK_INT(holder->last_wait.took, 0);
	whole_close();
}

/* The client is in its login, too. */
TEST(wait_for_the_login_of_a_server)
{
	static const char *const pairs[] = { "user", "u", "database", "d" };
	struct house_end *end;
	struct bytes out = BYTES_EMPTY;
	struct client_wait wait;
	struct client *c;

	whole_open(INI);
	whole.servers_answer = false;
	end = house_connect(&whole);
	c = whole_last_client();
	REQUIRE(c && !client_wait_of(c, &wait));
	CHECK(strstr(explained(c), "\n  Login: in progress for ") && strstr(lines, ", waits for: client\n"));
	pg_build_startup(&out, 3 << 16, pairs, 4);
	house_send(&whole, end, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	house_settle(&whole);
	REQUIRE(client_wait_of(c, &wait));
	CHECK_TEXT(wait.on, "server login");
	CHECK_INT(wait.client, 0);
	CHECK_INT(wait.server, whole_last_server()->peer.id);
	house_tick(&whole, 3 * USEC);
	CHECK(strstr(explained(c), ", waits for: server\n") != NULL);
	whole_close();
}

UNIT_MAIN
