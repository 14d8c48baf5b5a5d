/* A client's login after its start-up packet: limits on reading, the pool of the client, and the messages of the welcome. */
#include "login/login.h"

#include "logins.h"
#include "whole.h"

#define PLAIN_INI WHOLE_INI("", "auth_type=plain\n")
#define INI WHOLE_INI("", "")
#define NOTICE_INI WHOLE_INI("", "login_notify_message=hello there\n")
#define LIMIT_INI WHOLE_INI("max_db_client_connections=1", "")
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

TEST(fragmented_password_message)
{
	struct bytes out = BYTES_EMPTY;

	begin();
	pg_build_password(&out, "pass", 5);
	for (size_t i = 0; i < bytes_size(&out); i++) {
		CHECK_TEXT(login_told(client), "");
		say(bytes_front(&out) + i, 1);
	}
	bytes_free(&out);
	CHECK(login_is_welcome(login_told(client)));
	CHECK_INT(bytes_size(&whole_last_client()->peer.held), 0);
	whole_close();
}

/* The message type is checked before the rest of the message has arrived. */
TEST(messages_other_than_password)
{
	begin();
	say("Q\0\0\0\x20", 5);
	CHECK_TEXT(login_told(client), "E(08P01 unexpected packet type during login: 0x51)");
	whole_close();
	begin();
	say("p\0\0\0\3", 5);
	CHECK(strncmp(login_told(client), "E(08P01 bad packet header: '7000000003", 38) == 0);
	whole_close();
	begin();
	say("X\0\0\0\4", 5);
	CHECK(client->is_gone);
	CHECK_TEXT(login_told(client), "");
	whole_close();
}

/* A password longer than the maximum is wrong like any other password. */
TEST(longest_password)
{
	begin();
	say("p\0\1\0\0", 5);
	CHECK_TEXT(login_told(client), "E(28P01 password authentication failed)");
	whole_close();
	begin();
	say("p\0\0\xff\xff", 5);
	CHECK(!client->is_gone);
	whole_close();
}

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

TEST(client_disconnects)
{
	begin();
	house_hang_up(client);
	house_settle(&whole);
	CHECK(!whole_last_client());
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
	login_secured(c, "no cipher");
	house_settle(&whole);
	/* after TLS was accepted, no cleartext message is sent */
	CHECK(client->is_gone);
	CHECK_TEXT(login_told(client), "");
	whole_close();
	login_open(PLAIN_INI, USERS);
	client = house_connect(&whole);
	c = whole_last_client();
	login_step_to(c, LOGIN_TLS);
	login_secured(c, NULL);
	CHECK_INT(c->login->step, LOGIN_PACKET);
	whole_close();
}

/* ---- the welcome ---- */

TEST(welcome_messages)
{
	const char *told;
	struct client *c;

	login_open(INI, "");
	client = login_name("v", "d");
	told = login_told(client);
	c = whole_last_client();
	CHECK(strncmp(told, "R ", 2) == 0);
	CHECK(login_asked(client) == 0 && login_is_welcome(told));
	CHECK(strstr(told, " K Z(I)"));
	CHECK(!c->login && c->pooled.state == CLIENT_IDLE);
	CHECK(c->cancel_pid != 0 && c->cancel_key_size == 4);
	CHECK_INT(c->pooled.pool->database->stats.total.client_login_count, 1);
	CHECK_TEXT(c->pooled.login_user->name, "v");
	CHECK_TEXT(c->pooled.pool->user->name, "u");
	/* the second client is welcomed without a server */
	CHECK(login_is_welcome(login_told(login_name("w", "d"))));
	CHECK_INT(c->pooled.pool->database->stats.total.client_login_count, 2);
	CHECK_INT(c->pooled.pool->server_count[SERVER_IDLE] + c->pooled.pool->server_count[SERVER_USED], 1);
	whole_close();
}

TEST(login_notice)
{
	login_open(NOTICE_INI, "");
	CHECK(strstr(login_told(login_name("v", "d")), " K N(00000 hello there) Z(I)"));
	whole_close();
}

/* No client is welcomed until a server has reported its parameters. */
TEST(login_waits_for_server_parameters)
{
	struct bytes out = BYTES_EMPTY;
	struct house_end *server;
	struct client *c;
	const char *told;

	login_open(INI, "");
	whole.servers_answer = false;
	client = login_name("v", "d");
	c = whole_last_client();
	server = house_server(&whole);
	CHECK_TEXT(login_told(client), "");
	CHECK_INT(c->pooled.state, CLIENT_WAITING_LOGIN);
	CHECK_INT(c->login->step, LOGIN_PROVEN);
	pg_build_auth(&out, 0, NULL, 0);
	pg_build_parameter_status(&out, "server_version", "15.9");
	pg_build_parameter_status(&out, "is_superuser", "off");
	pg_build_parameter_status(&out, "DateStyle", "ISO, MDY");
	pg_build_backend_key(&out, 4711, (const uint8_t *)"key!", 4);
	pg_build_ready(&out, 'I');
	login_send(server, &out);
	told = login_told(client);
	CHECK(strstr(told, " S(server_version=15.9)"));
	CHECK(strstr(told, " S(is_superuser=off)"));
	CHECK(strstr(told, " S(DateStyle=ISO, MDY)"));
	CHECK(strstr(told, " K Z(I)"));
	CHECK(c->params && !c->login);
	whole_close();
}

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
	pg_build_backend_key(&out, 4711, (const uint8_t *)"key!", 4);
	pg_build_ready(&out, 'I');
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

/* A query before the welcome is answered after the welcome. */
TEST(query_before_the_welcome)
{
	const char *const pairs[] = { "user", "v", "database", "d" };
	struct bytes out = BYTES_EMPTY;

	login_open(INI, "");
	client = house_connect(&whole);
	pg_build_startup(&out, 3u << 16, pairs, 4);
	pg_build_query(&out, "SELECT 1");
	login_send(client, &out);
	CHECK(strstr(login_told(client), " K Z(I) T D C(SELECT 1) Z(I)"));
	whole_close();
}

/* ---- pools that cannot be joined ---- */

/* Whether a database exists is revealed after authentication only. */
TEST(databases_that_cannot_be_joined)
{
	login_open(PLAIN_INI, USERS);
	client = login_name("v", "none");
	CHECK_INT(login_asked(client), 3);
	login_told(client);
	CHECK_TEXT(login_password(client, "pass"), "E(3D000 no such database: none)");
	database_get(whole.world->pools, "d", whole.world->now)->disabled = true;
	client = login_name("v", "d");
	CHECK_INT(login_asked(client), 3);
	login_told(client);
	CHECK_TEXT(login_password(client, "pass"), "E(57P03 database \"d\" is disabled)");
	whole_close();
}

TEST(too_many_clients)
{
	login_open(LIMIT_INI, "");
	CHECK(login_is_welcome(login_told(login_name("v", "d"))));
	CHECK_TEXT(login_told(login_name("v", "d")), "E(53300 client connections exceeded (max_db_client_connections))");
	whole_close();
}

TEST(console_login)
{
	struct client *c;

	login_open(INI, "");
	client = login_name("v", "pgbouncer");
	c = whole_last_client();
	CHECK(login_is_welcome(login_told(client)));
	CHECK(c->is_console && !c->login && c->pooled.state == CLIENT_IDLE);
	CHECK_INT(c->pooled.pool->database->stats.total.client_login_count, 1);
	CHECK(!house_server(&whole));
	whole_close();
}

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
