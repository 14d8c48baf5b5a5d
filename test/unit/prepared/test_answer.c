/* The effect of a server's answers on prepared statements: confirmed statements, and errors that are reworded for the client. */
#include "pg/build.h"
#include "prepared/statements.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "max_prepared_statements=10\n")
#define PARSE(name, text) whole_say(near, 'P', name "\0" text "\0\0", sizeof(name "\0" text "\0\0"))
#define BIND_A() whole_say(near, 'B', "\0a\0\0\0\0\0\0\0", 9)
#define SYNC() whole_say(near, 'S', "", 0)

static struct house_end *near, *far;
static struct client *client;
static struct server *server;

/* A client in a transaction that has prepared "a"; from now on the test answers. */
static bool begin(void)
{
	whole_open(INI);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	if (!client || !server)
		return false;
	PARSE("a", "one");
	SYNC();
	CHECK_TEXT(whole_client_got(near), "1 Z(T)");
	whole_server_got(far);
	whole.holds_answers = true;
	return client->prepared && server->prepared;
}

static void end(void)
{
	whole_close();
}

static void answer(const char *bytes, size_t size)
{
	house_send(&whole, far, bytes, size);
	house_settle(&whole);
}

static void answer_error(const char *sqlstate, const char *message)
{
	struct bytes out = BYTES_EMPTY;

	pg_build_report(&out, 'E', "ERROR", sqlstate, message, NULL, NULL);
	answer((const char *)bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
}

static const struct prepared_name *name(const char *text)
{
	return name_find(client->prepared, text, strlen(text) + 1);
}

/* ---- done, and not done ---- */

TEST(successful_parse)
{
	REQUIRE(begin());
	PARSE("b", "two");
	REQUIRE(name("b"));
	CHECK(!name("b")->confirmed);
	answer("1\0\0\0\4", 5);
	CHECK_TEXT(whole_client_got(near), "1");
	CHECK(name("b") && name("b")->confirmed);
	CHECK_INT(server->prepared->op_count, 1);
	CHECK(name("b")->types == 0);
	/* the answer to the pooler's Describe */
	answer("t\0\0\0\6\0\0n\0\0\0\4", 12);
	CHECK_TEXT(whole_client_got(near), "");
	CHECK(name("b")->types != 0);
	CHECK_INT(server->prepared->op_count, 0);
	CHECK_INT(prepared_server_count(server), 2);
	end();
}

TEST(messages_after_an_error_are_skipped)
{
	REQUIRE(begin());
	PARSE("b", "two");
	PARSE("c", "three");
	CHECK_INT(server->prepared->op_count, 4);
	answer_error("42601", "syntax");
	CHECK_TEXT(whole_client_got(near), "E(42601 syntax)");
	CHECK(!name("b") && !name("c") && name("a"));
	CHECK_INT(prepared_server_count(server), 1);
	CHECK_INT(server->prepared->op_count, 0);
	end();
}

TEST(failed_unnamed_parse)
{
	REQUIRE(begin());
	PARSE("", "two");
	CHECK(client->prepared->has_text);
	answer_error("42601", "syntax");
	/* the new Parse has ended the earlier unnamed statement */
	CHECK(!client->prepared->has_text && !client->prepared->has_confirmed_text);
	CHECK(prepared_is_quiet(server));
	end();
}

TEST(successful_unnamed_parse)
{
	REQUIRE(begin());
	PARSE("", "two");
	CHECK(!server->prepared->unnamed_confirmed);
	answer("1\0\0\0\4", 5);
	CHECK(client->prepared->has_text && server->prepared->unnamed_confirmed);
	CHECK_INT(server->unnamed_of, client->peer.id);
	CHECK(prepared_is_quiet(server));
	end();
}

/* The outcome of each operation is unknown. */
TEST(lost_ledger)
{
	REQUIRE(begin());
	PARSE("b", "two");
	PARSE("c", "three");
	prepared_lose(server, client);
	CHECK_INT(server->prepared->op_count, 0);
	CHECK(!name("b") && !name("c") && name("a"));
	end();
}

/* ---- in other words ---- */

/* Returns the server's name of "a", in quotes. */
static void name_on_server(char *to, size_t size)
{
	char text[STATEMENT_NAME_MOST];
	const struct statement *st = name("a")->sent;

	statement_name(text, &server->prepared->names, st->end, strlen(st->end) + 1);
	snprintf(to, size, "\"%s\"", text);
}

TEST(error_message_has_the_clients_name)
{
	char quoted[100], message[300], want[300];

	REQUIRE(begin());
	name_on_server(quoted, sizeof(quoted));
	BIND_A();
	/* the name twice in quotes, and once as a part without quotes, which is not a name */
	snprintf(message, sizeof(message), "no %s and %s, but %.10s", quoted, quoted, quoted + 1);
	snprintf(want, sizeof(want), "E(22000 no \"a\" and \"a\", but %.10s)", quoted + 1);
	answer_error("22000", message);
	CHECK_TEXT(whole_client_got(near), want);
	CHECK_INT(server->pooled.close_reason, REASON_NONE);
	end();
}

TEST(cached_plan_must_not_change_result_type)
{
	static const struct { const char *sqlstate, *message; bool is_stale; } errors[] = {
		{ "0A000", "cached plan must not change result type", true }, { "0A000", "another feature", false },
		{ "XX000", "cache lookup failed for type 16400", true }, { "XX000", "another", false },
		{ "22000", "cached plan must not change result type", false },
	};

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		REQUIRE(begin());
		BIND_A();
		answer_error(errors[i].sqlstate, errors[i].message);
		CHECK_INT(name("a")->sent->changed, errors[i].is_stale);
		end();
	}
}

/* A function has deallocated the statement: nothing is known about the server's statements any more. */
TEST(server_lost_a_statement)
{
	REQUIRE(begin());
	BIND_A();
	answer_error("26000", "unknown");
	CHECK_TEXT(whole_client_got(near), "E(26000 unknown)");
	CHECK_INT(server->pooled.close_reason, REASON_STATEMENTS_UNKNOWN);
	end();
}

/* ---- changes to all statements ---- */

TEST(changed_parameters)
{
	struct prepared_entry *e;

	REQUIRE(begin());
	e = server->prepared->entries;
	REQUIRE(e);
	entry_confirm(server->prepared, e, true, PARSE_UNCERTAIN);
	prepared_parameters_changed(server, PARAMETERS_REPORTED);
	CHECK_INT(e->validity, PARSE_INVALID);
	entry_confirm(server->prepared, e, true, PARSE_UNCERTAIN);
	prepared_parameters_changed(server, PARAMETERS_RESET);
	CHECK_INT(e->validity, PARSE_INVALID);
	prepared_parameters_changed(server, PARAMETERS_SET);
	CHECK_INT(server->prepared->set_batch, server->batch + 1);
	end();
}

TEST(changed_meaning_of_texts)
{
	struct database *d;

	REQUIRE(begin());
	d = client->pooled.pool->database;
	CHECK(d->statements != 0);
	prepared_meaning_changed(server, false);
	CHECK_INT(d->statements, 0);
	/* nothing was prepared since: there is nothing more to renew */
	d->statements = 5;
	prepared_meaning_changed(server, false);
	CHECK_INT(d->statements, 5);
	whole.world->now++;
	prepared_meaning_changed(server, false);
	CHECK_INT(d->statements, 0);
	end();
}

TEST(all_statements_are_removed)
{
	REQUIRE(begin());
	prepared_deallocated(server, NULL, true);
	CHECK(name("a") && prepared_server_count(server) == 0);
	prepared_deallocated(server, client, true);
	CHECK(!name("a"));
	end();
}

UNIT_MAIN
