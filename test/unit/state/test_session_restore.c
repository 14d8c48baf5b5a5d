/* The server of a link gets the parameters of its client; what follows if it refuses them. */
#include "state/session_restore.h"

#include "state/session_state.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "session_state=full\n")

static struct house_end *near, *far;
static struct client *client;
static struct server *server;

/* A client whose server is between two transactions, and has another DateStyle than the client. */
static bool begin(void)
{
	struct params_table *table;
	const struct params *set;

	whole_open(INI);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	if (!client || !server)
		return false;
	whole_server_got(far);
	whole.holds_answers = true;
	server->status = 'I';
	table = whole.world->params;
	set = params_with(table, client->params, PARAM_DATESTYLE, "German, DMY");
	params_replace(table, &client->params, set);
	return set;
}

static void end(void)
{
	whole.holds_answers = false;
	server->task = NULL;
	whole_close();
}

TEST(server_gets_the_parameters_of_the_client)
{
	REQUIRE(begin());
	CHECK(!session_restore_begin(server, client, false));
	CHECK(server->task == &task_params);
	CHECK(server->params != client->params);
	house_settle(&whole);
	CHECK(strstr(whole_server_got(far), "German, DMY"));
	CHECK_INT(server_task_end(server), TASK_END_RESTORED);
	CHECK(server->params == client->params);
	/* nothing is left to do */
	CHECK(session_restore_begin(server, client, false));
	end();
}

TEST(encoding_comes_first_for_values_beyond_ascii)
{
	struct params_table *table;
	const struct params *set;

	REQUIRE(begin());
	table = whole.world->params;
	set = params_with(table, client->params, PARAM_APPLICATION_NAME, "caf\xe9");
	params_replace(table, &client->params, set);
	set = params_with(table, client->params, PARAM_CLIENT_ENCODING, "LATIN1");
	params_replace(table, &client->params, set);
	CHECK(!session_restore_begin(server, client, false));
	CHECK(server->task == &task_encoding);
	end();
}

TEST(new_server_that_refuses_ends_the_client)
{
	REQUIRE(begin());
	CHECK(!session_restore_begin(server, client, false));
	server->last_client_pid = 0;
	server->task_failed = true;
	CHECK_INT(server_task_end(server), TASK_END_NOTHING);
	CHECK(peer_is_ending(&client->peer));
	CHECK_INT(client->peer.end_reason, REASON_SERVER_PARAMETER);
	end();
}

TEST(used_server_that_refuses_is_replaced)
{
	REQUIRE(begin());
	CHECK(!session_restore_begin(server, client, false));
	server->last_client_pid = 1;
	server->task_failed = true;
	CHECK_INT(server_task_end(server), TASK_END_PARTED);
	CHECK(peer_is_ending(&server->peer) && !peer_is_ending(&client->peer));
	end();
}

UNIT_MAIN
