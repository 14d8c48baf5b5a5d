/* Decisions of the pool room are carried out: messages to refused or waiting clients, and the query that tests a server. */
#include "core/lifecycle.h"

#include "state/server_session.h"
#include "backend/server_info.h"
#include "base/mem.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "")

static struct house_end *end;
static struct client *client;

static bool begin(const char *ini)
{
	whole_open(ini);
	client = whole_login(&end);
	CHECK(client);
	return client;
}

/* ---- refused ---- */

/* Returns the end reason of a client that is refused this long after the last failed login, which had this error message (NULL: none). */
static const char *refused(usec_t since, const char *words, enum close_reason why)
{
	static char text[200];
	struct pool *pool;

	if (!begin(INI))
		return "";
	pool = client->pooled.pool;
	pool->login_failed_at = whole.world->now - since;
	if (words)
		((struct server_info *)pool->server_info)->failure.text = mem_copy_string(words);
	policy_ops.refuse(&client->pooled, why);
	snprintf(text, sizeof(text), "%s: %s", client->peer.end_reason == REASON_SERVER_SAID ? "said" :
		 client->peer.end_reason == REASON_LOGIN_FAILING ? "failing" : "other", client->peer.end_detail);
	whole_close();
	return text;
}

TEST(waiting_clients_get_the_error_of_the_server)
{
	CHECK_TEXT(refused(0, "no room", REASON_LOGIN_FAILING), "said: no room");
	/* later clients are told that the error is cached */
	CHECK_TEXT(refused(1, "no room", REASON_LOGIN_FAILING), "failing: no room");
	CHECK_TEXT(refused(0, "no room", REASON_QUERY_WAIT_TIMEOUT), "other: no room");
}

TEST(login_failure_without_server_message)
{
	CHECK_TEXT(refused(1, NULL, REASON_LOGIN_FAILING), "failing: server login failed");
}

/* ---- waiting ---- */

TEST(waiting_client_gets_a_notice)
{
	REQUIRE(begin(INI));
	policy_ops.notify(&client->pooled, 7 * USEC + USEC / 2);
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(end),
		   "N(00000 No server connection available in postgres backend, client being queued{The client has waited for 7 s.})");
	whole_close();
}

/* Drivers expect no notice during login. */
TEST(client_in_its_login_gets_no_notice)
{
	static const char *const pairs[] = { "user", "u", "database", "d" };
	struct bytes out = BYTES_EMPTY;

	whole_open(INI);
	whole.servers_answer = false;
	end = house_connect(&whole);
	pg_build_startup(&out, 3 << 16, pairs, 4);
	house_send(&whole, end, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	house_settle(&whole);
	client = whole_last_client();
	REQUIRE(client && client->login);
	policy_ops.notify(&client->pooled, 7 * USEC);
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(end), "");
	whole_close();
}

/* ---- servers ---- */

TEST(dropped_server_has_the_given_reason)
{
	struct server *s;

	REQUIRE(begin(INI));
	s = whole_last_server();
	policy_ops.drop(&s->pooled, REASON_OBSOLETE);
	CHECK(peer_is_ending(&s->peer));
	CHECK_INT(s->peer.end_reason, REASON_OBSOLETE);
	whole_close();
}

UNIT_MAIN
