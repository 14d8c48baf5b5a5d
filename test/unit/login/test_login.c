/* A client's login after its start-up packet: limits on reading, a partial DateStyle, lack of memory. test/wire/test_startup.py has the welcome. */
#include "login/login.h"

#include "logins.h"
#include "whole.h"

#define PLAIN_INI WHOLE_INI("", "auth_type=plain\n")
#define INI WHOLE_INI("", "")
#define USERS "\"v\" \"pass\"\n"
#define PASSWORD_MOST 65535

static struct house_end *client;

static void begin(void)
{
	login_open(PLAIN_INI, USERS);
	client = login_name("v", "d");
	CHECK_INT(login_asked(client), 3);
	login_told(client);
}

static void say(const void *bytes, size_t size)
{
	house_send(&whole, client, bytes, size);
	house_settle(&whole);
}

/* ---- reading ---- */

/* Unauthenticated input that is kept is limited: the socket is not read until there is room again. */
TEST(unauthenticated_input_is_limited)
{
	static uint8_t much[3 * PASSWORD_MOST];
	struct client *c;

	login_open(PLAIN_INI, USERS);
	client = login_name("v", "d");
	c = whole_last_client();
	/* nothing is read during a step that does not wait for the client */
	login_step_to(c, LOGIN_DERIVE);
	say(much, sizeof(much));
	CHECK_INT(bytes_size(&c->peer.held), PASSWORD_MOST + 1);
	CHECK(!c->peer.stream.reading);
	whole_close();
}

TEST(refused_client_is_not_read)
{
	struct client *c;

	begin();
	c = whole_last_client();
	login_step_to(c, LOGIN_REFUSED);
	say("pmore", 5);
	CHECK_INT(bytes_size(&c->peer.held), 0);
	CHECK(!client->is_gone);
	whole_close();
}

/* ---- TLS ---- */

TEST(failed_tls_handshake)
{
	struct client *c;

	login_open(PLAIN_INI, USERS);
	client = house_connect(&whole);
	c = whole_last_client();
	login_step_to(c, LOGIN_TLS);
	whole.world->ops->client_stream->on_secured(&c->peer.stream, "no cipher");
	house_settle(&whole);
	/* after TLS was accepted, no cleartext message is sent */
	CHECK(client->is_gone);
	CHECK_TEXT(login_told(client), "");
	whole_close();
	login_open(PLAIN_INI, USERS);
	client = house_connect(&whole);
	c = whole_last_client();
	login_step_to(c, LOGIN_TLS);
	whole.world->ops->client_stream->on_secured(&c->peer.stream, NULL);
	CHECK_INT(c->login->step, LOGIN_PACKET);
	whole_close();
}

/* ---- the welcome ---- */

/* The client gets the values that it requested, and a partial DateStyle is completed. */
TEST(requested_parameters)
{
	const char *const pairs[] = { "user", "v", "database", "d", "DateStyle", "DMY", "application_name", "mine" };
	struct bytes out = BYTES_EMPTY;
	const char *told;

	login_open(INI, "");
	whole.servers_answer = false;
	login_name("v", "d");
	pg_build_auth(&out, 0, NULL, 0);
	pg_build_parameter_status(&out, "DateStyle", "German, YMD");
	pg_build_key(&out, 'K', 4711, (const uint8_t *)"key!", 4);
	pg_build(&out, 'Z', "I", 1);
	login_send(house_server(&whole), &out);
	client = house_connect(&whole);
	out = (struct bytes)BYTES_EMPTY;
	pg_build_startup(&out, 3u << 16, pairs, 8);
	login_send(client, &out);
	told = login_told(client);
	CHECK(strstr(told, " S(DateStyle=German, DMY)"));
	CHECK(strstr(told, " S(application_name=mine)"));
	CHECK(login_is_welcome(told));
	whole_close();
}

/* ---- pools that cannot be joined ---- */

/* The nth and every later allocation fails, after the server parameters are known. */
TEST(out_of_memory_for_the_welcome)
{
	int ended = 0, failed = 1;

	for (int more = 0; failed > 0; more++) {
		login_open(PLAIN_INI, USERS);
		client = login_name("v", "d");
		CHECK(login_is_welcome(login_password(client, "pass")));
		client = login_name("v", "d");
		login_told(client);
		whole_memory_ends(more);
		whole.world->ops->proven(whole_last_client());
		failed = whole_memory_is_back();
		house_settle(&whole);
		ended += client->is_gone;
		if (client->is_gone)
			CHECK(strstr(login_told(client), " out of memory)"));
		else
			CHECK(login_is_welcome(login_told(client)));
		whole_close();
	}
	CHECK(ended >= 2);
}

UNIT_MAIN
