/* Statements over the simple protocol: several in one message, refusals, permissions, slow readers and long answers. */
#include "callers.h"

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
	c->may_show = false;
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
	CHECK(c->console_state != CONSOLE_READY && !database("shop")->disabled);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "");
	bytes_free(&c->peer.stream.out);
	fake_turn();
	CHECK(strncmp(fake_transcript(c), "C(DISABLE) T(", 13) == 0);
	CHECK(c->console_state == CONSOLE_READY);
	/* the console pauses between two messages, with no answer pending */
	fill_socket(c, 1024 * 1024 + 1);
	CHECK_TEXT(fake_ask(c, "nonsense"), "E(08P01 invalid command 'nonsense', use SHOW HELP;) Z(I)");
	CHECK(c->console_state != CONSOLE_READY);
	bytes_free(&c->peer.stream.out);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "");
	CHECK(c->console_state == CONSOLE_READY);
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
		CHECK(c->console_state != CONSOLE_READY);
		CHECK_TEXT(fake_transcript(c), "C(SET) C(SET) C(SET) C(SET)");
		fake_turn();
	}
	CHECK_TEXT(fake_transcript(c), "C(SET) C(SET) C(SET) C(DISABLE) Z(I)");
	CHECK(c->console_state == CONSOLE_READY && database("shop")->disabled);
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
	CHECK(c->console_state == CONSOLE_READY && !database("shop")->disabled);
	CHECK_TEXT(fake_ask(c, "set a=1; set a=1; set a=1; set a=1; pause shop; enable shop"), "C(SET) C(SET) C(SET) C(SET)");
	CHECK(!fake.world.console->cancel(fake.world.console_context, c));
	fake_turn();
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "");
	CHECK(c->console_state != CONSOLE_READY && database("shop")->paused);
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

/* In every state, the next message of a client is processed only after the current one has been answered. */
TEST(console_state_transitions)
{
	for (int i = 0; i < CONSOLE_STATES; i++) {
		enum console_state state = (enum console_state)i;

		CHECK(console_state_name(state)[0] != '\0');
		CHECK_INT(console_state_may_become(state, CONSOLE_READY), state == CONSOLE_RUNNING);
		CHECK_INT(console_state_may_become(state, CONSOLE_RUNNING), state != CONSOLE_RUNNING);
		CHECK(!console_state_may_become(state, state));
		for (int k = 0; k < i; k++)
			CHECK(strcmp(console_state_name(state), console_state_name((enum console_state)k)) != 0);
	}
}

UNIT_MAIN
