/* The interface of the console to the session room: welcome, messages, end, signals, and the end of SUSPEND. */
#include "callers.h"

#include "admin/caller.h"
#include "unit.h"

TEST(welcome)
{
	struct client *c;

	begin();
	c = fake_client_new("pgweir", "anna");
	c->console.is_connected = true;
	fake.world.console.ops->welcome(fake.world.console.context, c);
	CHECK_TEXT(fake_transcript(c),
		   "S(server_version=1.25.2/bouncer) S(client_encoding=UTF8) S(server_encoding=UTF8) S(DateStyle=ISO) "
		   "S(TimeZone=GMT) S(standard_conforming_strings=on) S(is_superuser=on) S(integer_datetimes=on) K Z(I)");
	fake_end();
}

static const char *ended_by(uint8_t type, const void *body, size_t size)
{
	struct client *c = begin();
	static char text[100];

	fake_message(c, type, body, size);
	snprintf(text, sizeof(text), "%s", close_reason_rows[fake_of(c)->why].name);
	fake_turn();
	fake_end();
	return text;
}

TEST(malformed_messages_end_the_connection)
{
	CHECK_TEXT(ended_by('Q', "show pools", 10), "BAD_PACKET");
	CHECK_TEXT(ended_by('Q', "", 0), "BAD_PACKET");
	CHECK_TEXT(ended_by('Q', "a\0b", 4), "BAD_PACKET");
	CHECK_TEXT(ended_by('p', "x", 2), "BAD_PACKET");
	CHECK_TEXT(ended_by(0, "", 0), "BAD_PACKET");
	CHECK_TEXT(ended_by('X', "", 0), "CLIENT_CLOSE");
}

TEST(copy_and_function_call_are_refused)
{
	struct client *c = begin();

	fake_message(c, 'd', "data", 4);
	fake_message(c, 'c', "", 0);
	fake_message(c, 'f', "no", 3);
	CHECK_TEXT(fake_transcript(c), "");
	fake_message(c, 'F', "\0\0\0\1", 4);
	CHECK_TEXT(fake_transcript(c), "E(0A000 the console has no functions to call) Z(I)");
	fake_end();
}

TEST(signals)
{
	struct client *c = begin();

	console_pause_all(fake.console, false);
	CHECK(!fake.world.pools->paused);
	console_pause_all(fake.console, true);
	CHECK(fake.world.pools->paused);
	console_pause_all(fake.console, true);
	console_pause_all(fake.console, false);
	CHECK(!fake.world.pools->paused);
	fake_ask(c, "suspend");
	console_pause_all(fake.console, true);
	CHECK(!fake.world.pools->paused && fake.world.pools->suspended);
	console_pause_all(fake.console, false);
	CHECK(!fake.world.pools->suspended);
	CHECK_INT(fake.resumed, 1);
	fake_end();
}

TEST(suspend_ends_when_the_last_console_disconnects)
{
	struct client *c = begin(), *other = fake_caller("boss", true);

	CHECK_TEXT(fake_ask(c, "suspend"), "C(SUSPEND) Z(I)");
	client_end(c, REASON_CLIENT_EOF, NULL);
	fake_turn();
	CHECK(fake.world.pools->suspended);
	client_end(other, REASON_CLIENT_EOF, NULL);
	fake_turn();
	CHECK(!fake.world.pools->suspended);
	CHECK_INT(fake.resumed, 1);
	fake_end();
}

/* The client ends itself with statements still unprocessed, or is ended while it waits. */
TEST(clients_end_during_commands)
{
	struct client *c = begin(), *other = fake_caller("boss", true);

	CHECK_TEXT(fake_ask(c, "kill_client 1; show pools; pause shop"), "");
	CHECK_INT(fake_of(c)->why, REASON_ADMIN_KILL);
	CHECK(!database("shop")->paused);
	busy_server("shop");
	c = fake_caller("boss", true);
	CHECK_TEXT(fake_ask(c, "pause shop; disable shop"), "");
	client_end(c, REASON_CLIENT_EOF, NULL);
	fake_turn();
	CHECK_TEXT(fake_ask(other, "kill shop"), "C(KILL) Z(I)");
	fake_turn();
	CHECK(!database("shop")->disabled);
	/* a client whose socket fails while the answer is written */
	fake_of(other)->is_broken = true;
	CHECK_TEXT(fake_ask(other, "show pools; show pools"), "");
	CHECK_INT(fake_of(other)->why, REASON_CLIENT_EOF);
	fake_end();
}

/* Error texts: details are inserted, and long details are truncated at a character boundary. */

TEST(long_details_are_truncated)
{
	struct client *c = begin();
	char name[300], command[400], want[600];

	memset(name, 'x', sizeof(name));
	name[200] = '\0';
	snprintf(command, sizeof(command), "pause %s", name);
	snprintf(want, sizeof(want), "E(08P01 no such database: %s) Z(I)", name);
	CHECK_TEXT(fake_ask(c, command), want);
	memset(name, 'x', sizeof(name));
	name[250] = '\0';
	snprintf(command, sizeof(command), "pause %s", name);
	snprintf(want, sizeof(want), "E(08P01 no such database: %.200s...) Z(I)", name);
	CHECK_TEXT(fake_ask(c, command), want);
	/* a character of two bytes across the end */
	memcpy(name + 199, "\xc3\xa9", 2);
	snprintf(command, sizeof(command), "pause %s", name);
	snprintf(want, sizeof(want), "E(08P01 no such database: %.199s...) Z(I)", name);
	CHECK_TEXT(fake_ask(c, command), want);
	CHECK_TEXT(fake_ask(c, "pause '%s%n'"), "E(08P01 no such database: %s%n) Z(I)");
	fake_end();
}

/* Statements over the simple protocol: several in one message, refusals, permissions, slow readers and long answers. */

TEST(several_statements)
{
	struct client *c = begin();

	CHECK_TEXT(fake_ask(c, "disable shop; ENABLE shop;;disable \"Many\""), "C(DISABLE) C(ENABLE) C(DISABLE) Z(I)");
	CHECK(!database("shop")->disabled && database("Many")->disabled);
	/* the first error ends the message */
	CHECK_TEXT(fake_ask(c, "disable shop; nonsense; enable shop"),
		   "C(DISABLE) E(08P01 invalid command 'nonsense', use SHOW HELP;) Z(I)");
	CHECK(database("shop")->disabled);
	fake_end();
}

TEST(empty_queries)
{
	struct client *c = begin();

	CHECK_TEXT(fake_ask(c, ""), "I Z(I)");
	CHECK_TEXT(fake_ask(c, " ; -- ping"), "I Z(I)");
	fake_end();
}

TEST(invalid_commands_are_quoted)
{
	struct client *c = begin();

	CHECK_TEXT(fake_ask(c, "select 1;"), "E(08P01 invalid command 'select 1', use SHOW HELP;) Z(I)");
	CHECK_TEXT(fake_ask(c, "  show  foo "), "E(08P01 invalid command 'show  foo', use SHOW HELP;) Z(I)");
	CHECK_TEXT(fake_ask(c, "pause \"a; resume"), "E(08P01 invalid command 'pause \"a; resume', use SHOW HELP;) Z(I)");
	fake_end();
}

TEST(stats_users_may_only_use_show)
{
	static const char *const commands[] = {
		"PAUSE", "PAUSE shop", "RESUME", "SUSPEND", "DISABLE shop", "ENABLE shop", "RECONNECT", "KILL shop", "KILL",
		"KILL_CLIENT 1", "WAIT_CLOSE", "RELOAD", "SET verbose = 1", "SHUTDOWN", "SHUTDOWN WAIT_FOR_CLIENTS", "SHOW FDS",
	};
	struct client *c;

	begin();
	c = fake_caller("looker", false);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		CHECK_TEXT(fake_ask(c, commands[i]), "E(08P01 admin access needed) Z(I)");
	CHECK(!fake.world.pools->paused && !fake.world.pools->suspended && !database("shop")->paused);
	CHECK_INT(fake.reloads + fake.sets + (int)fake.shutdown, 0);
	CHECK(strstr(fake_ask(c, "SHOW POOLS"), "C(SHOW)") != NULL);
	/* SET commands that drivers send at connection start have no effect */
	CHECK_TEXT(fake_ask(c, "SET extra_float_digits = 3; set client_encoding to 'UTF8'"), "C(SET) C(SET) Z(I)");
	CHECK_INT(fake.sets, 0);
	c->console.may_show = false;
	CHECK_TEXT(fake_ask(c, "SHOW POOLS"), "E(08P01 admin access needed) Z(I)");
	CHECK_TEXT(fake_ask(c, "SET extra_float_digits = 3"), "E(08P01 admin access needed) Z(I)");
	fake_end();
}

static void fill_socket(struct client *c, size_t size)
{
	char *bytes = calloc(1, size);

	bytes_append(&c->peer.stream.out, bytes, size);
	free(bytes);
}

TEST(slow_reader_pauses_the_console)
{
	struct client *c = begin();
	const char *got;

	fill_socket(c, 1024 * 1024 + 1);
	got = fake_ask(c, "show version; disable shop; show version");
	CHECK(strstr(got, " C(SHOW)") != NULL && strstr(got, "Z(") == NULL);
	CHECK(c->console.state != CONSOLE_READY && !database("shop")->disabled);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "");
	bytes_free(&c->peer.stream.out);
	fake_turn();
	CHECK(strncmp(fake_transcript(c), "C(DISABLE) T(", 13) == 0);
	CHECK(c->console.state == CONSOLE_READY);
	/* the console pauses between two messages, with no answer pending */
	fill_socket(c, 1024 * 1024 + 1);
	CHECK_TEXT(fake_ask(c, "nonsense"), "E(08P01 invalid command 'nonsense', use SHOW HELP;) Z(I)");
	CHECK(c->console.state != CONSOLE_READY);
	bytes_free(&c->peer.stream.out);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "");
	CHECK(c->console.state == CONSOLE_READY);
	fake_end();
}

static uint64_t run(void)
{
	return database("pgbouncer")->stats.total.query_count;
}

TEST(a_turn_runs_four_statements_of_a_query)
{
	struct client *c = begin();
	char text[4096] = "";

	for (int i = 0; i < 99; i++)
		strcat(text, "set client_encoding = utf8;");
	strcat(text, "disable shop;");
	fake_query(c, text);
	for (uint64_t turn = 1; turn <= 24; turn++) {
		CHECK_INT(run(), 4 * turn);
		CHECK(c->console.state != CONSOLE_READY);
		CHECK_TEXT(fake_transcript(c), "C(SET) C(SET) C(SET) C(SET)");
		fake_turn();
	}
	CHECK_TEXT(fake_transcript(c), "C(SET) C(SET) C(SET) C(DISABLE) Z(I)");
	CHECK(c->console.state == CONSOLE_READY && database("shop")->disabled);
	/* nothing follows the fourth answer */
	CHECK_TEXT(fake_ask(c, "show help2; disable many"), "E(08P01 invalid command 'show help2', use SHOW HELP;) Z(I)");
	CHECK_TEXT(fake_ask(c, "enable shop; disable shop; enable shop; disable shop; ; "),
		   "C(ENABLE) C(DISABLE) C(ENABLE) C(DISABLE) Z(I)");
	fake_end();
}

TEST(resumed_query_fails_waits_and_ends_normally)
{
	struct client *c = begin();
	struct server *s = busy_server("shop");

	fake_ask(c, "set a=1; set a=1; set a=1; set a=1; nonsense; disable shop");
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "E(08P01 invalid command 'nonsense', use SHOW HELP;) Z(I)");
	CHECK(c->console.state == CONSOLE_READY && !database("shop")->disabled);
	CHECK_TEXT(fake_ask(c, "set a=1; set a=1; set a=1; set a=1; pause shop; enable shop"), "C(SET) C(SET) C(SET) C(SET)");
	CHECK(!fake.world.console.ops->cancel(fake.world.console.context, c));
	fake_turn();
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "");
	CHECK(c->console.state != CONSOLE_READY && database("shop")->paused);
	release(s);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "C(PAUSE) C(ENABLE) Z(I)");
	fake_ask(c, "set a=1; set a=1; set a=1; set a=1; resume shop");
	client_end(c, REASON_ADMIN_KILL, NULL);
	fake_turn();
	CHECK(database("shop")->paused);
	fake_end();
}

TEST(console_is_included_in_statistics)
{
	struct client *c = begin();

	fake_ask(c, "show version; show version");
	fake_ask(c, "nonsense");
	CHECK_INT(database("pgbouncer")->stats.total.query_count, 2);
	fake_end();
}

UNIT_MAIN
