/* Parameters of a link: the client takes over the values that its server reports, and a server that cannot store them is closed. */
#include "relay/link.h"

#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "")

static struct house_end *end, *other;
static struct client *client;
static struct server *server;

static bool begin(void)
{
	whole_open(INI);
	client = whole_in_transaction(&end, &other);
	server = client ? server_of(client->pooled.link) : NULL;
	CHECK(server);
	return server;
}

static const char *value_of(const struct params *set, int index)
{
	const char *value = params_get(set, index);

	return value ? value : "";
}

TEST(reported_parameter_is_stored_for_the_client)
{
	REQUIRE(begin());
	link_parameter(server, "DateStyle", "German, DMY");
	CHECK_TEXT(value_of(server->params, PARAM_DATESTYLE), "German, DMY");
	CHECK_TEXT(value_of(client->params, PARAM_DATESTYLE), "German, DMY");
	whole_close();
}

TEST(untracked_parameter_is_ignored)
{
	const struct params *of_server, *of_client;

	REQUIRE(begin());
	of_server = server->params;
	of_client = client->params;
	link_parameter(server, "in_hot_standby", "on");
	CHECK(server->params == of_server && client->params == of_client);
	whole_close();
}

TEST(server_without_a_client)
{
	REQUIRE(begin());
	CHECK_TEXT(whole_ask(end, "COMMIT"), "C(COMMIT) Z(I)");
	REQUIRE(!server->pooled.link);
	link_parameter(server, "DateStyle", "German, DMY");
	CHECK_TEXT(value_of(server->params, PARAM_DATESTYLE), "German, DMY");
	CHECK(strcmp(value_of(client->params, PARAM_DATESTYLE), "German, DMY") != 0);
	whole_close();
}

/* Whichever allocation fails: both sides have the value, or the server is marked to close. */
TEST(out_of_memory_closes_the_server_at_release)
{
	int failed = 1, more;

	for (more = 0; failed > 0 && more < 50; more++) {
		REQUIRE(begin());
		whole_memory_ends(more);
		link_parameter(server, "DateStyle", "German, DMY");
		failed = whole_memory_is_back();
		CHECK((server->pooled.close_reason == REASON_NO_MEMORY) == (failed > 0));
		whole_close();
	}
	CHECK(more > 1 && failed == 0);
}

UNIT_MAIN
