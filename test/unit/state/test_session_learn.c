/* The effect of the server's answer about parameters on the parameter sets of server and client. */
#include "state/session_learn.h"

#include "state/session_question.h"
#include "state/session_state.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "session_state=full\n")

static struct house_end *near, *far;
static struct client *client;
static struct server *server;

/* A client in a transaction, whose server has answered that these are set, each name and value with its NUL. */
static bool begin(const char *pairs, size_t size, size_t count)
{
	whole_open(INI);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	if (!client || !server || !session_question_is_elsewhere(server))
		return false;
	bytes_append(&server->session.answer->pairs, pairs, size);
	server->session.answer->count = count;
	return true;
}
#define BEGIN(pairs, count) begin(pairs, sizeof(pairs) - 1, count)

static void end(void)
{
	session_question_forget(server);
	whole_close();
}

TEST(set_parameters_are_stored_for_both)
{
	REQUIRE(BEGIN("work_mem\0" "9MB\0app.x\0a\0", 2));
	CHECK_INT(session_learn(server, client), SESSION_TAKEN);
	CHECK_TEXT(params_other_value(server->params, "work_mem"), "9MB");
	CHECK_TEXT(params_other_value(client->params, "work_mem"), "9MB");
	CHECK_TEXT(params_other_value(client->params, "app.x"), "a");
	end();
}

TEST(parameters_that_are_no_longer_set_are_removed)
{
	REQUIRE(BEGIN("work_mem\0" "9MB\0", 1));
	CHECK_INT(session_learn(server, client), SESSION_TAKEN);
	session_question_forget(server);
	REQUIRE(session_question_is_elsewhere(server));
	CHECK_INT(session_learn(server, client), SESSION_TAKEN);
	CHECK(!params_other_value(client->params, "work_mem") && !params_other_value(server->params, "work_mem"));
	end();
}

TEST(answer_that_could_not_be_stored)
{
	const struct params *had;

	REQUIRE(BEGIN("work_mem\0" "9MB\0", 1));
	had = client->params;
	server->session.answer->is_too_much = true;
	CHECK_INT(session_learn(server, client), SESSION_TOO_MUCH);
	CHECK(client->params == had);
	end();
}

TEST(role_is_stored)
{
	REQUIRE(BEGIN("", 0));
	server->session.doubts = FACT_ROLE;
	server->session.answer->role = mem_copy_string("75:61");
	server->session.answer->first_role = mem_copy_string("75:6e6f6e65");
	CHECK_INT(session_learn(server, client), SESSION_TAKEN);
	CHECK_TEXT(params_other_value(client->params, PARAMS_ROLE), "75:61");
	server->session.doubts = 0;
	end();
}

TEST(out_of_memory_changes_nothing)
{
	for (int more = 0; more < 3; more++) {
		const struct params *had;

		REQUIRE(BEGIN("app.x\0a\0", 1));
		had = client->params;
		whole_memory_ends(more);
		CHECK_INT(session_learn(server, client), SESSION_NO_MEMORY);
		CHECK(whole_memory_is_back() > 0);
		CHECK(client->params == had);
		end();
	}
}

UNIT_MAIN
