/* Commands that wait: PAUSE and SUSPEND wait until their condition is met, or until a RESUME, a cancel request or a RELOAD ends the wait. */
#include "callers.h"

#define CANCELLED "E(57014 canceling statement due to user request"
#define TAKEN_BACK CANCELLED "{What it had paused goes on.}) Z(I)"

TEST(pause_waits_for_servers)
{
	struct client *c = begin();
	struct server *s = busy_server("shop"), *other = busy_server("Many");

	fake_server_new("shop", "bert");
	CHECK_TEXT(fake_ask(c, "PAUSE shop"), "");
	CHECK(c->console_state != CONSOLE_READY && database("shop")->paused && !fake.world.pools->paused);
	CHECK_INT(database("shop")->servers, 1);		/* the idle server is closed */
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

/* A PAUSE returns with an error when another client's RESUME has ended it. */
TEST(resume_of_another_client_ends_a_pause)
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
	s->policy.close_reason = REASON_CLOSE_NEEDED;
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
	CHECK(c->console_state != CONSOLE_READY);
	release(two);
	fake_turn();
	CHECK_TEXT(fake_transcript(c), "C(PAUSE) C(ENABLE) Z(I)");
	CHECK(!database("shop")->disabled && c->console_state == CONSOLE_READY);
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
	if (s->policy.state != SERVER_DEAD)
		fake_server_dies(&s->policy);
	fake.world.now += 3600 * USEC;
	pools_maintain(fake.world.pools, fake.world.now);
	fake_turn();
	CHECK(c->console_state == CONSOLE_READY);
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
