/* The commands over the simple protocol: what they do, what they wait for, every refusal with
   its text, and who may. */
#include "fake_world.h"

static const char ini[] =
	"[databases]\n"
	"shop = host=10.0.0.5\n"
	"Many = host=10.0.0.6\n"
	"[pgbouncer]\n";

static struct client *begin(void)
{
	fake_start(ini);
	return fake_caller("boss", true);
}

static struct database *database(const char *name)
{
	return database_find(fake.world.pools, name);
}

/* A server connection of the database that a client is using. */
static struct server *busy_server(const char *name)
{
	struct server *s = fake_server_new(name, "anna");
	struct client *c = fake_client_new(name, "anna");

	if (pool_want(&c->policy, fake.world.now) != &s->policy)
		abort();
	return s;
}

static void release(struct server *s)
{
	enum close_reason why = pool_server_is_spent(&s->policy, fake.world.now);

	pool_unlink(&s->policy, SERVER_IDLE, false, fake.world.now);
	if (why != REASON_NONE)
		fake_server_dies(&s->policy);
}

/* ---- how messages are answered ---- */

TEST(welcome)
{
	struct client *c;

	begin();
	c = fake_client_new("pgweir", "anna");
	c->is_console = true;
	fake.world.console->welcome(fake.world.console_context, c);
	CHECK_TEXT(fake_transcript(c),
		   "S(server_version=1.25.2/bouncer) S(client_encoding=UTF8) S(server_encoding=UTF8) S(DateStyle=ISO) "
		   "S(TimeZone=GMT) S(standard_conforming_strings=on) S(is_superuser=on) S(integer_datetimes=on) K Z(I)");
	fake_end();
}

TEST(several_statements)
{
	struct client *c = begin();

	CHECK_TEXT(fake_ask(c, "disable shop; ENABLE shop;;disable \"Many\""), "C(DISABLE) C(ENABLE) C(DISABLE) Z(I)");
	CHECK(!database("shop")->disabled && database("Many")->disabled);
	/* the first that fails ends the message */
	CHECK_TEXT(fake_ask(c, "disable shop; nonsense; enable shop"),
		   "C(DISABLE) E(08P01 invalid command 'nonsense', use SHOW HELP;) Z(I)");
	CHECK(database("shop")->disabled);
	fake_end();
}

TEST(nothing_to_do)
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

static const char *ended_by(uint8_t type, const void *body, size_t size)
{
	struct client *c = begin();
	static char text[100];

	fake_message(c, type, body, size);
	snprintf(text, sizeof(text), "%s", close_reason_row(fake_of(c)->why)->name);
	fake_turn();
	fake_end();
	return text;
}

TEST(broken_messages_end_the_connection)
{
	CHECK_TEXT(ended_by('Q', "show pools", 10), "BAD_PACKET");
	CHECK_TEXT(ended_by('Q', "", 0), "BAD_PACKET");
	CHECK_TEXT(ended_by('Q', "a\0b", 4), "BAD_PACKET");
	CHECK_TEXT(ended_by('p', "x", 2), "BAD_PACKET");
	CHECK_TEXT(ended_by(0, "", 0), "BAD_PACKET");
	CHECK_TEXT(ended_by('X', "", 0), "CLIENT_CLOSE");
}

TEST(copy_and_function_call)
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

/* ---- who may ---- */

TEST(stats_users_only_look)
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
	/* what drivers do by themselves at the beginning is harmless */
	CHECK_TEXT(fake_ask(c, "SET extra_float_digits = 3; set client_encoding to 'UTF8'"), "C(SET) C(SET) Z(I)");
	CHECK_INT(fake.sets, 0);
	c->may_show = false;
	CHECK_TEXT(fake_ask(c, "SHOW POOLS"), "E(08P01 admin access needed) Z(I)");
	CHECK_TEXT(fake_ask(c, "SET extra_float_digits = 3"), "E(08P01 admin access needed) Z(I)");
	fake_end();
}

/* ---- databases ---- */

TEST(refusals_about_databases)
{
	static const char *const optional[] = { "PAUSE", "RESUME", "RECONNECT", "KILL", "WAIT_CLOSE" };
	static const char *const needed[] = { "DISABLE", "ENABLE" };
	struct client *c = begin();
	char text[100], want[100];

	for (size_t i = 0; i < 7; i++) {
		const char *verb = i < 5 ? optional[i] : needed[i - 5];

		snprintf(text, sizeof(text), "%s many", verb);
		CHECK_TEXT(fake_ask(c, text), "E(08P01 no such database: many) Z(I)");
		for (int k = 0; k < 2; k++) {
			const char *name = k ? "pgweir" : "pgbouncer";

			snprintf(text, sizeof(text), "%s '%s'", verb, name);
			snprintf(want, sizeof(want), "E(08P01 cannot %s admin db: %s) Z(I)", verb, name);
			for (char *p = strstr(want, "cannot ") + 7; *p != ' '; p++)
				*p |= *p == '_' ? 0 : 0x20;
			CHECK_TEXT(fake_ask(c, text), want);
		}
	}
	CHECK_TEXT(fake_ask(c, "DISABLE"), "E(08P01 a database is required) Z(I)");
	CHECK_TEXT(fake_ask(c, "ENABLE"), "E(08P01 a database is required) Z(I)");
	fake_end();
}

TEST(pause_makes_the_database_of_a_star)
{
	struct client *c;

	fake_start("[databases]\n* = host=10.0.0.5\n[pgbouncer]\n");
	c = fake_caller("boss", true);
	CHECK_TEXT(fake_ask(c, "pause later"), "C(PAUSE) Z(I)");
	CHECK(database("later") && database("later")->paused);
	fake_end();
}

/* ---- PAUSE and RESUME ---- */

TEST(pause_waits_for_servers)
{
	struct client *c = begin();
	struct server *s = busy_server("shop"), *other = busy_server("Many");

	fake_server_new("shop", "bert");
	CHECK_TEXT(fake_ask(c, "PAUSE shop"), "");
	CHECK(c->console_state != CONSOLE_READY && database("shop")->paused && !fake.world.pools->paused);
	CHECK_INT(database("shop")->servers, 1);		/* the idle one is gone */
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "");
	release(s);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "C(PAUSE) Z(I)");
	CHECK(c->console_state == CONSOLE_READY);
	CHECK_INT(fake_of(c)->done, 1);
	CHECK_TEXT(fake_ask(c, "PAUSE"), "");
	release(other);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "C(PAUSE) Z(I)");
	fake_end();
}

TEST(pause_refusals)
{
	struct client *c = begin();

	CHECK_TEXT(fake_ask(c, "resume"), "E(08P01 pooler is not paused/suspended) Z(I)");
	CHECK_TEXT(fake_ask(c, "resume shop"), "E(08P01 database shop is not paused) Z(I)");
	CHECK_TEXT(fake_ask(c, "pause; pause"), "C(PAUSE) E(08P01 already suspended/paused) Z(I)");
	CHECK_TEXT(fake_ask(c, "pause shop"), "E(08P01 already suspended/paused) Z(I)");
	CHECK(!database("shop")->paused);
	CHECK_TEXT(fake_ask(c, "suspend"), "E(08P01 already suspended/paused) Z(I)");
	CHECK_TEXT(fake_ask(c, "resume shop"), "E(08P01 database shop is not paused) Z(I)");
	CHECK_TEXT(fake_ask(c, "resume"), "C(RESUME) Z(I)");
	CHECK_TEXT(fake_ask(c, "pause shop; pause shop"), "C(PAUSE) C(PAUSE) Z(I)");
	CHECK_TEXT(fake_ask(c, "suspend"), "E(08P01 cannot suspend with paused databases) Z(I)");
	CHECK_INT(fake.suspended, 0);
	CHECK_TEXT(fake_ask(c, "resume"), "E(08P01 pooler is not paused/suspended) Z(I)");
	CHECK_TEXT(fake_ask(c, "resume shop"), "C(RESUME) Z(I)");
	CHECK_TEXT(fake_ask(c, "suspend; suspend"), "C(SUSPEND) E(08P01 already suspended/paused) Z(I)");
	CHECK_TEXT(fake_ask(c, "pause"), "E(08P01 already suspended/paused) Z(I)");
	fake_end();
}

/* A PAUSE that somebody else's RESUME has made void returns, and says so. */
TEST(resume_from_elsewhere_ends_a_pause)
{
	struct client *c = begin(), *other = fake_caller("boss", true);

	busy_server("shop");
	CHECK_TEXT(fake_ask(c, "pause shop; show version"), "");
	CHECK_TEXT(fake_ask(other, "resume shop"), "C(RESUME) Z(I)");
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "E(08P01 PAUSE was ended by RESUME) Z(I)");
	CHECK(c->console_state == CONSOLE_READY);
	CHECK_TEXT(fake_ask(c, "pause"), "");
	console_resume_all(fake.console);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "E(08P01 PAUSE was ended by RESUME) Z(I)");
	CHECK_TEXT(fake_ask(c, "kill shop"), "C(KILL) Z(I)");
	fake_end();
}

static bool cancel(struct client *c)
{
	return fake.world.console->cancel(fake.world.console_context, c);
}

#define CANCELLED "E(57014 canceling statement due to user request"
#define TAKEN_BACK CANCELLED "{What it had paused goes on.}) Z(I)"

/* Who gives it up does not leave the others standing. */
TEST(a_cancel_takes_a_pause_back)
{
	struct client *c = begin(), *other = fake_caller("boss", true);

	busy_server("shop");
	CHECK_TEXT(fake_ask(c, "pause shop; disable shop"), "");
	CHECK_TEXT(fake_ask(other, "pause shop"), "");
	/* which was not the first */
	CHECK(cancel(other));
	CHECK_TEXT(fake_transcript(other), "");
	fake_turn();
	CHECK_TEXT(fake_transcript(other), CANCELLED ") Z(I)");
	CHECK(database("shop")->paused && other->console_state == CONSOLE_READY);
	CHECK(cancel(c));
	fake_turn();
	CHECK_TEXT(fake_transcript(c), TAKEN_BACK);
	CHECK(!database("shop")->paused && !database("shop")->disabled && c->console_state == CONSOLE_READY);
	CHECK_TEXT(fake_ask(c, "pause"), "");
	CHECK(cancel(c) && cancel(c));
	fake_turn();
	CHECK_TEXT(fake_transcript(c), TAKEN_BACK);
	CHECK(!fake.world.pools->paused);
	CHECK_INT(fake_of(c)->done, 2);
	CHECK(!cancel(c));
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "");
	fake_end();
}

TEST(a_cancel_takes_a_suspend_back)
{
	struct client *c = begin();

	fake.is_flushed = false;
	CHECK_TEXT(fake_ask(c, "suspend"), "");
	CHECK(cancel(c));
	fake_turn();
	CHECK_TEXT(fake_transcript(c), TAKEN_BACK);
	CHECK(!fake.world.pools->suspended);
	CHECK_INT(fake.resumed, 1);
	fake_end();
}

/* In one turn somebody else has made an end of it, and stopped everything again. */
TEST(a_cancel_takes_back_nothing_of_others)
{
	struct client *c = begin(), *other = fake_caller("boss", true);

	busy_server("shop");
	fake.is_flushed = false;
	CHECK_TEXT(fake_ask(c, "pause"), "");
	CHECK(cancel(c));
	CHECK_TEXT(fake_ask(other, "resume; suspend"), "C(RESUME)");
	fake_turn();
	CHECK_TEXT(fake_transcript(c), CANCELLED ") Z(I)");
	CHECK(fake.world.pools->suspended);
	CHECK_INT(fake.resumed, 0);
	fake_end();
}

TEST(a_cancel_ends_only_what_waits)
{
	struct client *c = begin(), *unknown = fake_client_new("shop", "anna");
	struct server *s = busy_server("shop");

	CHECK(!cancel(unknown));
	s->policy.close_reason = REASON_CLOSE_NEEDED;
	CHECK_TEXT(fake_ask(c, "pause \"Many\"; wait_close"), "C(PAUSE)");
	CHECK(cancel(c));
	fake_turn();
	CHECK_TEXT(fake_transcript(c), CANCELLED ") Z(I)");
	/* the command before it has come to its end */
	CHECK(database("Many")->paused);
	fake_end();
}

TEST(the_rest_of_the_message_follows_the_wait)
{
	struct client *c = begin();
	struct server *one = busy_server("shop"), *two = busy_server("Many");

	CHECK_TEXT(fake_ask(c, "pause shop; disable shop; pause \"Many\"; enable shop;"), "");
	CHECK(!database("shop")->disabled);
	release(one);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "C(PAUSE) C(DISABLE)");
	CHECK(c->console_state != CONSOLE_READY);
	release(two);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "C(PAUSE) C(ENABLE) Z(I)");
	CHECK(!database("shop")->disabled && c->console_state == CONSOLE_READY);
	fake_end();
}

TEST(what_came_before_a_wait_is_sent)
{
	struct client *c = begin();

	busy_server("shop");
	CHECK_TEXT(fake_ask(c, "disable shop; pause shop"), "C(DISABLE)");
	fake_end();
}

/* Several wait for the same thing: all are told in one turn. */
TEST(many_wait)
{
	struct client *c[10];
	struct server *s;

	begin();
	s = busy_server("shop");
	for (int i = 0; i < 10; i++) {
		c[i] = fake_caller("boss", true);
		CHECK_TEXT(fake_ask(c[i], "pause shop"), "");
	}
	client_end(c[4], REASON_CLIENT_EOF, NULL);
	fake_of(c[5])->is_broken = true;
	release(s);
	fake_turn();
	for (int i = 0; i < 10; i++)
		CHECK_TEXT(fake_transcript(c[i]), i == 4 || i == 5 ? "" : "C(PAUSE) Z(I)");
	CHECK_INT(fake_of(c[5])->why, REASON_CLIENT_EOF);
	fake_end();
}

TEST(the_database_goes_while_a_pause_waits)
{
	struct client *c = begin();
	struct server *s = busy_server("shop");
	struct conf *fresh;

	CHECK_TEXT(fake_ask(c, "pause shop"), "");
	fresh = fake_conf("[databases]\nMany = host=10.0.0.6\n[pgbouncer]\n");
	pools_reconfigure(fake.world.pools, fresh, fake.world.now);
	conf_drop(&fake.world.conf);
	fake.world.conf = fresh;
	if (s->policy.state != SERVER_DEAD)
		fake_server_dies(&s->policy);
	fake.world.now += 3600 * USEC;
	pools_maintain(fake.world.pools, fake.world.now);
	fake_turn();
	CHECK(c->console_state == CONSOLE_READY);
	CHECK(strstr(fake_transcript(c), " Z(I)") != NULL);
	fake_end();
}

TEST(signals)
{
	struct client *c = begin();

	console_resume_all(fake.console);
	CHECK(!fake.world.pools->paused);
	console_pause_all(fake.console);
	CHECK(fake.world.pools->paused);
	console_pause_all(fake.console);
	console_resume_all(fake.console);
	CHECK(!fake.world.pools->paused);
	fake_ask(c, "suspend");
	console_pause_all(fake.console);
	CHECK(!fake.world.pools->paused && fake.world.pools->suspended);
	console_resume_all(fake.console);
	CHECK(!fake.world.pools->suspended);
	CHECK_INT(fake.resumed, 1);
	fake_end();
}

/* ---- SUSPEND ---- */

TEST(suspend_waits_until_all_is_sent)
{
	struct client *c = begin(), *other = fake_caller("boss", true);

	fake.is_flushed = false;
	CHECK_TEXT(fake_ask(c, "suspend"), "");
	CHECK_INT(fake.suspended, 1);
	CHECK(fake.world.pools->suspended);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "");
	fake.is_flushed = true;
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "C(SUSPEND) Z(I)");
	CHECK_TEXT(fake_ask(c, "resume"), "C(RESUME) Z(I)");
	CHECK_INT(fake.resumed, 1);
	CHECK(!fake.world.pools->suspended);
	/* and one that is resumed before */
	fake.is_flushed = false;
	CHECK_TEXT(fake_ask(c, "suspend"), "");
	CHECK_TEXT(fake_ask(other, "resume"), "C(RESUME) Z(I)");
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "E(08P01 SUSPEND was ended by RESUME) Z(I)");
	fake_end();
}

TEST(suspend_ends_with_the_last_console)
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

TEST(suspend_timeout_drops_the_rest)
{
	struct client *c = begin();

	fake.is_flushed = false;
	CHECK_TEXT(fake_ask(c, "suspend"), "");
	fake.world.now += 10 * USEC - 1;
	fake_turn();
	CHECK_INT(fake.dropped, 0);
	fake.world.now += 1;
	fake_turn();
	CHECK_INT(fake.dropped, 1);
	CHECK_TEXT(fake_transcript(c), "C(SUSPEND) Z(I)");
	fake_end();
}

/* ---- KILL, RECONNECT, WAIT_CLOSE ---- */

TEST(kill)
{
	struct client *c = begin();
	struct server *s = busy_server("shop"), *other = busy_server("Many");
	struct client *idle = fake_client_new("shop", "bert");

	CHECK_TEXT(fake_ask(c, "kill shop"), "C(KILL) Z(I)");
	CHECK_INT(fake_of(idle)->why, REASON_ADMIN_KILL);
	CHECK_INT(s->policy.state, SERVER_DEAD);
	CHECK_INT(other->policy.state, SERVER_ACTIVE);
	CHECK(database("shop")->paused && database("shop")->clients == 0);
	CHECK_TEXT(fake_ask(c, "resume shop"), "C(RESUME) Z(I)");
	/* the console lives on when everything else goes */
	CHECK_TEXT(fake_ask(c, "kill"), "C(KILL) Z(I)");
	CHECK_INT(other->policy.state, SERVER_DEAD);
	CHECK(fake.world.pools->paused);
	CHECK_TEXT(fake_ask(c, "resume"), "C(RESUME) Z(I)");
	fake_end();
}

TEST(kill_client)
{
	struct client *c = begin(), *victim = fake_client_new("shop", "anna"), *other = fake_client_new("shop", "bert");
	static const char *const wrong[] = {
		"kill_client", "kill_client x", "kill_client 0x", "kill_client 0", "kill_client -1", "kill_client 1.5",
		"kill_client 0x12345678123456789", "kill_client 0xg", "kill_client 99999999999999999999", "kill_client ''",
	};
	char text[64];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CHECK_TEXT(fake_ask(c, wrong[i]), "E(08P01 invalid client pointer supplied) Z(I)");
	CHECK_TEXT(fake_ask(c, "kill_client 999"), "E(08P01 client not found) Z(I)");
	CHECK_TEXT(fake_ask(c, "kill_client 0x3e7"), "E(08P01 client not found) Z(I)");
	snprintf(text, sizeof(text), "kill_client %d", (int)victim->peer.id);
	CHECK_TEXT(fake_ask(c, text), "C(KILL_CLIENT) Z(I)");
	CHECK_INT(fake_of(victim)->why, REASON_ADMIN_KILL);
	snprintf(text, sizeof(text), "kill_client '0x%X'", (unsigned)other->peer.id);
	CHECK_TEXT(fake_ask(c, text), "C(KILL_CLIENT) Z(I)");
	CHECK_INT(fake_of(other)->why, REASON_ADMIN_KILL);
	fake_end();
}

/* A caller that ends itself with statements still to come, or that is ended while it waits. */
TEST(callers_that_end)
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
	/* one whose socket breaks with the answer */
	fake_of(other)->is_broken = true;
	CHECK_TEXT(fake_ask(other, "show pools; show pools"), "");
	CHECK_INT(fake_of(other)->why, REASON_CLIENT_EOF);
	fake_end();
}

TEST(reconnect_and_wait_close)
{
	struct client *c = begin();
	struct server *s = busy_server("shop"), *idle = fake_server_new("shop", "bert");

	CHECK_TEXT(fake_ask(c, "wait_close shop"), "C(WAIT_CLOSE) Z(I)");
	CHECK_TEXT(fake_ask(c, "reconnect shop"), "C(RECONNECT) Z(I)");
	CHECK_INT(idle->policy.state, SERVER_DEAD);
	CHECK_INT(s->policy.close_reason, REASON_CLOSE_NEEDED);
	CHECK_TEXT(fake_ask(c, "wait_close \"Many\""), "C(WAIT_CLOSE) Z(I)");
	CHECK_TEXT(fake_ask(c, "wait_close shop"), "");
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "");
	release(s);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "C(WAIT_CLOSE) Z(I)");
	s = busy_server("Many");
	CHECK_TEXT(fake_ask(c, "reconnect; wait_close"), "C(RECONNECT)");
	release(s);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "C(WAIT_CLOSE) Z(I)");
	fake_end();
}

/* ---- RELOAD, SET, SHUTDOWN ---- */

TEST(reload)
{
	struct client *c = begin();

	CHECK_TEXT(fake_ask(c, "reload"), "N(01000 x.ini:3: listen_port needs a restart) C(RELOAD) Z(I)");
	fake.fails = true;
	CHECK_TEXT(fake_ask(c, "reload"),
		   "E(F0000 RELOAD failed, see logs for additional details{fault 1\nx.ini: fault 2\nx.ini:13: fault 3\n"
		   "x.ini:14: fault 4\nx.ini:15: fault 5\nand 2 more}) Z(I)");
	CHECK_INT(fake.reloads, 2);
	fake_end();
}

TEST(set)
{
	struct client *c = begin();

	CHECK_TEXT(fake_ask(c, "set server_reset_query = 'DISCARD; ALL'"), "C(SET) Z(I)");
	CHECK_TEXT(fake.set_name, "server_reset_query");
	CHECK_TEXT(fake.set_value, "DISCARD; ALL");
	CHECK_TEXT(fake_ask(c, "SET a TO b c"), "C(SET) Z(I)");
	CHECK_TEXT(fake.set_value, "b c");
	fake.fails = true;
	CHECK_TEXT(fake_ask(c, "set x = 1"), "E(08P01 SET failed{unknown setting}) Z(I)");
	CHECK_INT(fake.sets, 3);
	fake_end();
}

TEST(shutdown)
{
	struct client *c = begin(), *second = fake_caller("boss", true);

	/* answered at once, however often, and the console goes on */
	CHECK_TEXT(fake_ask(c, "shutdown wait_for_clients; wait_close"), "C(SHUTDOWN) C(WAIT_CLOSE) Z(I)");
	CHECK_INT(fake.shutdown, DRAIN_WAIT_CLIENTS);
	CHECK_TEXT(fake_ask(second, "shutdown wait_for_servers"), "C(SHUTDOWN) Z(I)");
	CHECK_INT(fake.shutdown, DRAIN_WAIT_SERVERS);
	CHECK_TEXT(fake_ask(second, "pause; resume"), "C(PAUSE) C(RESUME) Z(I)");
	CHECK_TEXT(fake_ask(second, "resume"), "E(08P01 pooler is shutting down) Z(I)");
	CHECK_TEXT(fake_ask(second, "resume shop"), "E(08P01 pooler is shutting down) Z(I)");
	CHECK(!c->error_sent && !second->error_sent);
	/* the answer is the last that this one hears */
	CHECK_TEXT(fake_ask(second, "shutdown"), "C(SHUTDOWN) Z(I)");
	CHECK_INT(fake.shutdown, DRAIN_NOW);
	CHECK(!c->error_sent && second->error_sent);
	fake_end();
}

/* ---- a caller that does not read ---- */

static void fill_socket(struct client *c, size_t size)
{
	char *bytes = calloc(1, size);

	bytes_append(&c->peer.stream.out, bytes, size);
	free(bytes);
}

TEST(slow_readers_rest)
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
	/* between two messages: nothing is owed when it goes on */
	fill_socket(c, 1024 * 1024 + 1);
	CHECK_TEXT(fake_ask(c, "nonsense"), "E(08P01 invalid command 'nonsense', use SHOW HELP;) Z(I)");
	CHECK(c->console_state != CONSOLE_READY);
	bytes_free(&c->peer.stream.out);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "");
	CHECK(c->console_state == CONSOLE_READY);
	fake_end();
}

/* ---- a caller that asks for much ---- */

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
	/* nothing is left behind the fourth */
	CHECK_TEXT(fake_ask(c, "show help2; disable many"), "E(08P01 invalid command 'show help2', use SHOW HELP;) Z(I)");
	CHECK_TEXT(fake_ask(c, "enable shop; disable shop; enable shop; disable shop; ; "),
		   "C(ENABLE) C(DISABLE) C(ENABLE) C(DISABLE) Z(I)");
	fake_end();
}

TEST(a_query_that_goes_on_fails_waits_and_ends_as_any_other)
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

TEST(statistics_count_the_console)
{
	struct client *c = begin();

	fake_ask(c, "show version; show version");
	fake_ask(c, "nonsense");
	CHECK_INT(database("pgbouncer")->stats.total.query_count, 2);
	fake_end();
}

UNIT_MAIN
