/* The interface of the console to the session room: welcome, messages, end, signals, and the end of SUSPEND. */
#include "callers.h"

#include "admin/caller.h"
#include "unit.h"

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

static const char *text_of(enum console_error why, const char *first, const char *second)
{
	static char text[1024];
	struct bytes out = BYTES_EMPTY;

	console_error_text(why, first, second, &out);
	snprintf(text, sizeof(text), "%s", (const char *)bytes_front(&out));
	CHECK_INT(bytes_size(&out), strlen(text) + 1);
	bytes_free(&out);
	return text;
}

TEST(refusal_text_includes_details)
{
	CHECK_TEXT(text_of(CONSOLE_ERROR_ACCESS, NULL, NULL), "admin access needed");
	CHECK_TEXT(text_of(CONSOLE_ERROR_NO_DATABASE, "shop", NULL), "no such database: shop");
	CHECK_TEXT(text_of(CONSOLE_ERROR_ADMIN_DATABASE, "pause", "pgweir"), "cannot pause admin db: pgweir");
	CHECK_TEXT(text_of(CONSOLE_ERROR_NO_DATABASE, NULL, NULL), "no such database: ");
	CHECK_TEXT(text_of(CONSOLE_ERROR_NO_DATABASE, "%s%n", NULL), "no such database: %s%n");
}

TEST(long_details_are_truncated)
{
	char name[300], want[600];

	memset(name, 'x', sizeof(name));
	name[200] = '\0';
	snprintf(want, sizeof(want), "no such database: %s", name);
	CHECK_TEXT(text_of(CONSOLE_ERROR_NO_DATABASE, name, NULL), want);
	memset(name, 'x', sizeof(name));
	name[250] = '\0';
	snprintf(want, sizeof(want), "no such database: %.200s...", name);
	CHECK_TEXT(text_of(CONSOLE_ERROR_NO_DATABASE, name, NULL), want);
	/* a character of two bytes across the end */
	memcpy(name + 199, "\xc3\xa9", 2);
	snprintf(want, sizeof(want), "no such database: %.199s...", name);
	CHECK_TEXT(text_of(CONSOLE_ERROR_NO_DATABASE, name, NULL), want);
}

TEST(every_refusal_has_a_sqlstate)
{
	for (int i = 0; i < CONSOLE_ERRORS; i++)
		CHECK_INT(strlen(console_error_sqlstate((enum console_error)i)), 5);
	CHECK_TEXT(console_error_sqlstate(CONSOLE_ERROR_ACCESS), "08P01");
}

UNIT_MAIN
