/* The effect of each command, and its error messages. */
#include "callers.h"

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

TEST(pause_creates_an_autodb)
{
	struct client *c;

	fake_start("[databases]\n* = host=10.0.0.5\n[pgbouncer]\n");
	c = fake_caller("boss", true);
	CHECK_TEXT(fake_ask(c, "pause later"), "C(PAUSE) Z(I)");
	CHECK(database("later") && database("later")->paused);
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

TEST(kill)
{
	struct client *c = begin();
	struct server *s = busy_server("shop"), *other = busy_server("Many");
	struct client *idle = fake_client_new("shop", "bert");

	CHECK_TEXT(fake_ask(c, "kill shop"), "C(KILL) Z(I)");
	CHECK_INT(fake_of(idle)->why, REASON_ADMIN_KILL);
	CHECK_INT(s->pooled.state, SERVER_DEAD);
	CHECK_INT(other->pooled.state, SERVER_ACTIVE);
	CHECK(database("shop")->paused && database("shop")->clients->used == 0);
	CHECK_TEXT(fake_ask(c, "resume shop"), "C(RESUME) Z(I)");
	/* KILL does not end the console client */
	CHECK_TEXT(fake_ask(c, "kill"), "C(KILL) Z(I)");
	CHECK_INT(other->pooled.state, SERVER_DEAD);
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

TEST(explain_client)
{
	struct client *c = begin(), *idle = fake_client_new("shop", "anna");
	static const char *const before[] = { "0x", "C-0x", "'C-0x", "\"0x" }, *const after[] = { "", "", "'", "\"" };
	char command[96];

	snprintf(command, sizeof(command), "explain client %d", (int)idle->peer.id);
	CHECK(strstr(fake_ask(c, command), " D(  State: idle, for 0.0 ms) ") != NULL);
	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		snprintf(command, sizeof(command), "explain client %s%x%s", before[i], (unsigned)idle->peer.id, after[i]);
		CHECK(strstr(fake_ask(c, command), " D(  State: idle, for 0.0 ms) ") != NULL);
	}
	CHECK_TEXT(fake_ask(c, "explain client 0x3e7"), "E(08P01 client not found) Z(I)");
	CHECK_TEXT(fake_ask(c, "explain client 0x0"), "E(08P01 client not found) Z(I)");
	CHECK_TEXT(fake_ask(c, "explain client S-0x1"), "E(08P01 invalid client pointer supplied) Z(I)");
	CHECK_TEXT(fake_ask(c, "explain client"), "E(08P01 invalid client pointer supplied) Z(I)");
	fake_end();
}

TEST(reconnect_and_wait_close)
{
	struct client *c = begin();
	struct server *s = busy_server("shop"), *idle = fake_server_new("shop", "bert");

	CHECK_TEXT(fake_ask(c, "wait_close shop"), "C(WAIT_CLOSE) Z(I)");
	CHECK_TEXT(fake_ask(c, "reconnect shop"), "C(RECONNECT) Z(I)");
	CHECK_INT(idle->pooled.state, SERVER_DEAD);
	CHECK_INT(s->pooled.close_reason, REASON_CLOSE_NEEDED);
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

	/* WAIT_CLOSE is answered at once each time, and the console continues */
	CHECK_TEXT(fake_ask(c, "shutdown wait_for_clients; wait_close"), "C(SHUTDOWN) C(WAIT_CLOSE) Z(I)");
	CHECK_INT(fake.shutdown, DRAIN_WAIT_CLIENTS);
	CHECK_TEXT(fake_ask(second, "shutdown wait_for_servers"), "C(SHUTDOWN) Z(I)");
	CHECK_INT(fake.shutdown, DRAIN_WAIT_SERVERS);
	CHECK_TEXT(fake_ask(second, "pause; resume"), "C(PAUSE) C(RESUME) Z(I)");
	CHECK_TEXT(fake_ask(second, "resume"), "E(08P01 pooler is shutting down) Z(I)");
	CHECK_TEXT(fake_ask(second, "resume shop"), "E(08P01 pooler is shutting down) Z(I)");
	CHECK(!c->error_sent && !second->error_sent);
	/* this answer is the last message to the client */
	CHECK_TEXT(fake_ask(second, "shutdown"), "C(SHUTDOWN) Z(I)");
	CHECK_INT(fake.shutdown, DRAIN_NOW);
	CHECK(!c->error_sent && second->error_sent);
	fake_end();
}

/* Commands that wait: PAUSE and SUSPEND wait until their condition is met, or until a RESUME, a cancel request or a RELOAD ends the wait. */

#define CANCELLED "E(57014 canceling statement due to user request"
#define TAKEN_BACK CANCELLED "{What it had paused goes on.}) Z(I)"

TEST(pause_waits_for_servers)
{
	struct client *c = begin();
	struct server *s = busy_server("shop"), *other = busy_server("Many");

	fake_server_new("shop", "bert");
	CHECK_TEXT(fake_ask(c, "PAUSE shop"), "");
	CHECK(c->console.state != CONSOLE_READY && database("shop")->paused && !fake.world.pools->paused);
	CHECK_INT(database("shop")->servers->used, 1);		/* the idle server is closed */
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "");
	release(s);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "C(PAUSE) Z(I)");
	CHECK(c->console.state == CONSOLE_READY);
	CHECK(!list_is_empty(&c->peer.again));
	CHECK_TEXT(fake_ask(c, "PAUSE"), "");
	release(other);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "C(PAUSE) Z(I)");
	fake_end();
}

/* A PAUSE returns with an error when another client's RESUME has ended it. */
TEST(resume_of_another_client_ends_a_pause)
{
	struct client *c = begin(), *other = fake_caller("boss", true);

	busy_server("shop");
	CHECK_TEXT(fake_ask(c, "pause shop; show version"), "");
	CHECK_TEXT(fake_ask(other, "resume shop"), "C(RESUME) Z(I)");
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "E(08P01 PAUSE was ended by RESUME) Z(I)");
	CHECK(c->console.state == CONSOLE_READY);
	CHECK_TEXT(fake_ask(c, "pause"), "");
	console_pause_all(fake.console, false);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "E(08P01 PAUSE was ended by RESUME) Z(I)");
	CHECK_TEXT(fake_ask(c, "kill shop"), "C(KILL) Z(I)");
	fake_end();
}

static bool cancel(struct client *c)
{
	return fake.world.console.ops->cancel(fake.world.console.context, c);
}

/* A client that cancels its PAUSE does not leave the database paused. */
TEST(cancel_reverts_a_pause)
{
	struct client *c = begin(), *other = fake_caller("boss", true);

	busy_server("shop");
	CHECK_TEXT(fake_ask(c, "pause shop; disable shop"), "");
	CHECK_TEXT(fake_ask(other, "pause shop"), "");
	/* the cancelled statement was not the first of its query */
	CHECK(cancel(other));
	CHECK_TEXT(fake_transcript(other), "");
	fake_turn();
	CHECK_TEXT(fake_transcript(other), CANCELLED ") Z(I)");
	CHECK(database("shop")->paused && other->console.state == CONSOLE_READY);
	CHECK(cancel(c));
	fake_turn();
	CHECK_TEXT(fake_transcript(c), TAKEN_BACK);
	CHECK(!database("shop")->paused && !database("shop")->disabled && c->console.state == CONSOLE_READY);
	CHECK_TEXT(fake_ask(c, "pause"), "");
	CHECK(cancel(c) && cancel(c));
	fake_turn();
	CHECK_TEXT(fake_transcript(c), TAKEN_BACK);
	CHECK(!fake.world.pools->paused);
	CHECK(!list_is_empty(&c->peer.again));
	CHECK(!cancel(c));
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "");
	fake_end();
}

TEST(cancel_reverts_a_suspend)
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

/* Within one turn, another client has ended the PAUSE and started a new one. */
TEST(cancel_does_not_revert_commands_of_other_clients)
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

TEST(cancel_ends_only_a_waiting_command)
{
	struct client *c = begin(), *unknown = fake_client_new("shop", "anna");
	struct server *s = busy_server("shop");

	CHECK(!cancel(unknown));
	s->pooled.close_reason = REASON_CLOSE_NEEDED;
	CHECK_TEXT(fake_ask(c, "pause \"Many\"; wait_close"), "C(PAUSE)");
	CHECK(cancel(c));
	fake_turn();
	CHECK_TEXT(fake_transcript(c), CANCELLED ") Z(I)");
	/* the command before it has completed */
	CHECK(database("Many")->paused);
	fake_end();
}

TEST(later_statements_run_after_the_wait)
{
	struct client *c = begin();
	struct server *one = busy_server("shop"), *two = busy_server("Many");

	CHECK_TEXT(fake_ask(c, "pause shop; disable shop; pause \"Many\"; enable shop;"), "");
	CHECK(!database("shop")->disabled);
	release(one);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "C(PAUSE) C(DISABLE)");
	CHECK(c->console.state != CONSOLE_READY);
	release(two);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "C(PAUSE) C(ENABLE) Z(I)");
	CHECK(!database("shop")->disabled && c->console.state == CONSOLE_READY);
	fake_end();
}

TEST(earlier_answers_are_sent_before_the_wait)
{
	struct client *c = begin();

	busy_server("shop");
	CHECK_TEXT(fake_ask(c, "disable shop; pause shop"), "C(DISABLE)");
	fake_end();
}

/* Several clients that wait for the same condition are answered in one turn. */
TEST(several_clients_wait_for_the_same_condition)
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

TEST(database_is_removed_while_a_pause_waits)
{
	struct client *c = begin();
	struct server *s = busy_server("shop");
	struct conf *fresh;

	CHECK_TEXT(fake_ask(c, "pause shop"), "");
	fresh = fake_conf("[databases]\nMany = host=10.0.0.6\n[pgbouncer]\n");
	pools_reconfigure(fake.world.pools, fresh, fake.world.now);
	conf_drop(&fake.world.conf);
	fake.world.conf = fresh;
	if (s->pooled.state != SERVER_DEAD)
		fake_server_dies(&s->pooled);
	fake.world.now += 3600 * USEC;
	pools_maintain(fake.world.pools, fake.world.now);
	fake_turn();
	CHECK(c->console.state == CONSOLE_READY);
	CHECK(strstr(fake_transcript(c), " Z(I)") != NULL);
	fake_end();
}

TEST(suspend_waits_until_output_is_flushed)
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
	/* a SUSPEND that is resumed before it is complete */
	fake.is_flushed = false;
	CHECK_TEXT(fake_ask(c, "suspend"), "");
	CHECK_TEXT(fake_ask(other, "resume"), "C(RESUME) Z(I)");
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "E(08P01 SUSPEND was ended by RESUME) Z(I)");
	fake_end();
}

TEST(suspend_timeout_drops_remaining_connections)
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

UNIT_MAIN
